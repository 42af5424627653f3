"""A study and an LLM -> the claims of its answers, optional checks of them, a summary per system."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kumihimo.core import digests, task
from kumihimo.core.context import Tokenizer
from kumihimo.evaluate import fabrication
from kumihimo.evaluate.claims import stages
from kumihimo.evaluate.records import AnswerClaim, AnswerSentence, EvalQuestion, SystemAnswer, ValuesByMeasure
from kumihimo.evaluate.study import Study, prompt_digests, row_to_json
from kumihimo.llm import concurrency, protocols
from kumihimo.text.tokens import word_tokens

ClaimExtraction = tuple[list[AnswerClaim], list[AnswerSentence]]


def extract_answer_claims(
    questions: Iterable[EvalQuestion],
    answers: Iterable[SystemAnswer],
    llm: protocols.LLM,
    votes: stages.Votes = stages.PAPER_VOTES,
    progress: task.Progress | None = None,
) -> ClaimExtraction:
    """Extract the claims of these answers, and record each sentence's outcome.

    Each claim counts once per answer. Answers to unknown questions are skipped.
    votes: LLM replies for selection, disambiguation and decomposition; more than half must agree.
    """
    question_texts = {question.id: question.text for question in questions}
    split_answers = [
        (answer, stages.split_answer_sentences(answer.text)) for answer in answers if answer.question in question_texts
    ]
    jobs = {
        (n, i): stages.SentenceJob(question_texts[answer.question], pieces, i)
        for n, (answer, pieces) in enumerate(split_answers)
        for i, piece in enumerate(pieces)
        if piece.kind == "sentence" and not answer.failed
    }
    extract = partial(stages.extract_sentence_claims, llm=llm, votes=votes)
    extracted = concurrency.map_with_progress(extract, [*jobs.values()], llm.workers, "claims", progress)
    results = dict(zip(jobs, extracted, strict=True))
    claims: list[AnswerClaim] = []
    sentences: list[AnswerSentence] = []
    for n, (answer, pieces) in enumerate(split_answers):
        own_results = [results.get((n, i), stages.SentenceResult("heading")) for i in range(len(pieces))]
        answer_claims, rows = _assemble_answer(answer, pieces, own_results)
        claims += answer_claims
        sentences += rows
    return claims, sentences


def estimate_claim_calls(answers: Iterable[SystemAnswer], votes: stages.Votes = stages.PAPER_VOTES) -> tuple[int, int]:
    """Return the minimum and maximum number of LLM calls.

    Minimum: selection rejects every sentence. Maximum: no reply is cached.
    """
    pieces = (piece for answer in answers if not answer.failed for piece in stages.split_answer_sentences(answer.text))
    count = sum(piece.kind == "sentence" for piece in pieces)
    return count * (votes[0] - stages.votes_needed(votes[0]) + 1), count * sum(votes)


def _assemble_answer(
    answer: SystemAnswer, pieces: Sequence[stages.AnswerPiece], results: Sequence[stages.SentenceResult]
) -> ClaimExtraction:
    """Build the claims and sentence rows of one answer.

    results: the result of each piece.
    """
    if answer.failed or not pieces:
        outcome, reasons = ("no answer", {"why": answer.failed}) if answer.failed else ("empty", {})
        return [], [AnswerSentence(answer.system, answer.question, -1, "", outcome, reasons)]
    keys: set[str] = set()
    claims: list[AnswerClaim] = []
    rows: list[AnswerSentence] = []
    for i, (piece, result) in enumerate(zip(pieces, results, strict=True)):
        new = [claim for claim in result.claims if stages.claim_key(claim) not in keys]
        keys |= set(map(stages.claim_key, new))
        claims += [AnswerClaim(answer.system, answer.question, i, claim) for claim in new]
        repeated = len(result.claims) - len(new)
        outcome = "repeated" if repeated and not new else result.outcome
        trace = {**result.trace, "repeated": repeated} if repeated else result.trace
        rows.append(AnswerSentence(answer.system, answer.question, i, piece.text, outcome, trace))
    return claims, rows


@dataclass(frozen=True, slots=True)
class ClaimChecks:
    """The checks to run on claims. corpus: a function that retrieves passages near a text."""

    context: bool = False
    corpus: fabrication.Search | None = None
    selfcheck: bool = False


@dataclass(frozen=True, slots=True)
class ClaimInputs:
    """The questions, each system's first answers, and its other answers to the same questions."""

    questions: Sequence[EvalQuestion]
    answers: Mapping[str, Sequence[SystemAnswer]]
    other_answers: fabrication.OtherAnswers = field(default_factory=dict)

    @property
    def all_answers(self) -> list[SystemAnswer]:
        """Return the first answers of all systems."""
        return [answer for system_answers in self.answers.values() for answer in system_answers]


def select_claim_inputs(
    study: Study, systems: Sequence[str] = (), *, sample: int = 0, with_others: bool = False
) -> ClaimInputs:
    """Select the questions and answers of these systems, or of all.

    sample: the number of questions, always the same ones; 0 for all. with_others: load the other answers too. Raises
    SettingsError if there are no questions or answers.
    """
    names = study.select_systems(systems)
    questions = study.questions()
    sampled_questions = sorted(questions, key=lambda question: digests.hash_parts(question.id))[: sample or None]
    sampled_ids = {question.id for question in sampled_questions}
    answers = {name: [a for a in study.answers(name) if a.question in sampled_ids] for name in names}
    other_answers: dict[tuple[str, str], list[SystemAnswer]] = {}
    for name in names if with_others else ():
        for n in range(1, study.count_generations(name)):
            for answer in study.answers(name, n):
                other_answers.setdefault((name, answer.question), []).append(answer)
    return ClaimInputs([question for question in questions if question.id in sampled_ids], answers, other_answers)


def extract_checked_claims(
    inputs: ClaimInputs,
    llm: protocols.LLM,
    tokenizer: Tokenizer,
    votes: stages.Votes,
    checks: ClaimChecks,
    notify: Callable[[str], None],
    progress: task.Progress | None = None,
) -> ClaimExtraction:
    """Extract the claims, run the checks, and return claims and sentences.

    notify: receives a note on the calls to come.
    """
    claims, sentences = extract_answer_claims(inputs.questions, inputs.all_answers, llm, votes, progress)
    batches = list(fabrication.batch_by_answer(claims))
    if checks.context:
        notify(
            f"{len(batches):,} calls to check the claims against the evidence, "
            f"more if it is longer than {fabrication.EVIDENCE_BUDGET:,} tokens"
        )
        claims = fabrication.check_by_context(claims, inputs.all_answers, llm, tokenizer, progress=progress)
    if checks.corpus:
        notify(f"{len({claim.text for claim in claims}):,} calls to check the claims against the documents")
        claims = fabrication.check_by_corpus(claims, checks.corpus, llm, progress=progress)
    if checks.selfcheck:
        calls = sum(len(inputs.other_answers.get((batch[0].system, batch[0].question), ())) for batch in batches)
        notify(f"{calls:,} calls to check the claims against other answers")
        claims = fabrication.check_by_samples(claims, inputs.other_answers, llm, progress=progress)
    return claims, sentences


def summarise_claims(
    inputs: ClaimInputs,
    claims: Sequence[AnswerClaim],
    sentences: Sequence[AnswerSentence],
    *,
    token_kind: "TokenKind",
    selfcheck: bool,
) -> dict[str, dict[str, Any]]:
    """Summarise each system: means, sentence outcomes and fabrication rates.

    n: the answers with known claims. means: of claims and clusters.
    """
    summaries: dict[str, dict[str, Any]] = {}
    for system, answers in inputs.answers.items():
        numbers = measure_claims(claims, inputs.questions, system, sentences, token_kind=token_kind)
        summaries[system] = {
            "questions": len(inputs.questions),
            "n": mean_and_count(numbers["claims"])[1],
            "means": {name: mean_and_count(values)[0] for name, values in numbers.items()},
            "claims": sum(claim.system == system for claim in claims),
            "sentences": count_outcomes(sentences, system),
            "fabrication": fabrication.fabrication_rates(claims, system),
        }
        if selfcheck:
            summaries[system]["samples"] = fabrication.count_samples(answers, inputs.other_answers)
    return summaries


def describe_samples(system: str, samples: fabrication.SampleCounts) -> str:
    """Describe a system's other answers, as needed to interpret its doubt."""
    if not samples.samples:
        command = f"kumi eval run --methods {system} --generations 5"
        return f"{system} has answered once: `{command}` adds answers for SelfCheck"
    text = f"SelfCheck of {system}: {samples.samples:,} other answers, {samples.same_context:,} from the same evidence"
    if samples.same_text:
        text += f"; {samples.same_text:,} are identical to the first, as at temperature 0, and raise no doubt"
    return text


def count_failures(claims: fabrication.Claims, sentences: Iterable[AnswerSentence]) -> Counter[str]:
    """Count the sentences and claim checks that failed or were unreadable."""
    counts = Counter(sentence.outcome for sentence in sentences if sentence.outcome in ("failed", "invalid"))
    reasons = (why.partition(":")[0] for claim in claims for why in claim.why.values())
    return counts + Counter(reason for reason in reasons if reason in ("failed", "invalid"))


def first_failure(claims: fabrication.Claims, sentences: Iterable[AnswerSentence]) -> str:
    """Return the reason of the first failure, or an empty string."""
    stages = (stage for sentence in sentences for stage in sentence.trace.values() if isinstance(stage, Mapping))
    votes = (vote for stage in stages for vote in stage.get("votes", ()))
    notes = chain(votes, (why for claim in claims for why in claim.why.values()))
    return next((note.removeprefix("failed: ") for note in map(str, notes) if note.startswith("failed: ")), "")


def describe_claim_run(inputs: ClaimInputs, llm: protocols.LLM, votes: stages.Votes, **used: Any) -> dict[str, Any]:
    """Describe for the manifest how each system's claims were made."""
    prompts = (*stages.CLAIM_PROMPTS, fabrication.CLAIM_SUPPORT_PROMPT, fabrication.SELFCHECK_PROMPT)
    settings = {
        "model": llm.fingerprint,
        "votes": list(votes),
        "temperature": [stages.VOTE_TEMPERATURE if n > 1 else None for n in votes],
        **used,
        "prompts": prompt_digests(prompts),
        "questions": digests.hash_parts(*map(row_to_json, inputs.questions)),
    }
    entries: dict[str, dict[str, Any]] = {}
    for system, rows in inputs.answers.items():
        others = [row for (name, _), other_rows in inputs.other_answers.items() if name == system for row in other_rows]
        entries[system] = {**settings, "answers": digests.hash_parts(*map(row_to_json, rows))}
        entries[system] |= {"others": digests.hash_parts(*map(row_to_json, others))} if others else {}
    return entries


# -- counts

Matrix = NDArray[np.float64]
TokenKind = Literal["unicode", "paper"]
THRESHOLDS = (0.5, 0.6, 0.7, 0.8)
_ASCII = re.compile("[a-z0-9]+")
_SURROGATES, _FIRST_SURROGATE = 0x800, 0xD800  # not characters, so their code points are skipped


def rouge_tokens(text: str, kind: TokenKind = "unicode") -> list[str]:
    """Return the words to compare.

    `unicode`: the project's own tokens for any script, folded, lightly stemmed, scripts without spaces as bigrams.
    `paper`: the tokens of `rouge_score`, a to z and digits only.

    >>> rouge_tokens("Émile's café, 2 boats"), rouge_tokens("組紐の工房")
    (['emile', 's', 'cafe', '2', 'boat'], ['組紐', '紐の', 'の工', '工房'])
    >>> rouge_tokens("Émile's café, 2 boats", "paper"), rouge_tokens("組紐の工房", "paper")
    (['mile', 's', 'caf', '2', 'boats'], [])
    """
    return word_tokens(text) if kind == "unicode" else _ASCII.findall(text.lower())


def rouge_distances(texts: Sequence[str], kind: TokenKind = "unicode") -> Matrix:
    """Return 1 - ROUGE-L F of every pair of texts (Lin, 2004).

    For the longest common subsequence, LCS: P = LCS / |a|, R = LCS / |b|. A text without words has similarity 0 to
    every text, itself included. `unicode` computes F as 2 LCS / (|a| + |b|), which is equal, and rounds only once, so
    that a distance of .2 is exactly .2; `paper` computes the library's 2PR / (P + R), to the last digit.

    >>> rouge_distances(["the ferry left at nine", "the ferry had left"])[0, 1]  # the, ferry, left: 6 of 9
    np.float64(0.3333333333333333)
    """
    from rapidfuzz.distance import LCSseq
    from rapidfuzz.process import cdist

    encoded = _encode_words([rouge_tokens(text, kind) for text in texts])
    common = cdist(encoded, encoded, scorer=LCSseq.similarity, dtype=np.int32).astype(np.float64)
    sizes = np.maximum([len(text) for text in encoded], 1).astype(np.float64)
    if kind == "unicode":
        total = sizes[:, None] + sizes[None, :]
        return np.asarray((total - 2 * common) / total, dtype=np.float64)
    precision, recall = common / sizes[:, None], common / sizes[None, :]
    both = precision + recall
    return np.asarray(1 - 2 * precision * recall / np.where(both > 0, both, 1.0), dtype=np.float64)


def _encode_words(lists: Sequence[Sequence[str]]) -> list[str]:
    """Encode each word as one character, because the library compares strings fastest."""
    words = dict.fromkeys(word for words in lists for word in words)
    letters = {word: chr(n if n < _FIRST_SURROGATE else n + _SURROGATES) for n, word in enumerate(words)}
    return ["".join(letters[word] for word in words) for words in lists]


def count_clusters(
    texts: Sequence[str], thresholds: Sequence[float] = THRESHOLDS, *, token_kind: TokenKind = "unicode"
) -> list[int]:
    """Return the number of clusters at each threshold (GraphRAG, section 4.2).

    No texts give 0, one text gives 1.

    >>> boats = ["The ferry left at nine.", "The ferry left at ten.", "Roake mended the breakwater."]
    >>> count_clusters(boats), count_clusters(boats, [0.2])  # two are .2 apart: 4 of 5 words
    ([2, 2, 2, 1], [3])
    """
    if len(texts) < 2:
        return [len(texts)] * len(thresholds)
    return count_clusters_by_distance(rouge_distances(texts, token_kind), thresholds)


def count_clusters_by_distance(distance_matrix: Matrix, thresholds: Sequence[float]) -> list[int]:
    """Return the number of complete-linkage clusters at each threshold.

    Clusters merge if their farthest members are less far apart than the threshold, as in scikit-learn, the paper's
    library; the paper says "at most".
    """
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    heights = linkage(squareform(distance_matrix, checks=False), "complete")[:, 2]
    return [1 + int((heights >= threshold).sum()) for threshold in thresholds]


def measure_claims(
    claims: fabrication.Claims,
    questions: Iterable[EvalQuestion],
    system: str,
    sentences: Iterable[AnswerSentence] | None = None,
    *,
    token_kind: TokenKind = "unicode",
) -> ValuesByMeasure:
    """Return `claims`, `clusters@0.5` ... of a system's answer to each question.

    Claims count comprehensiveness, clusters diversity (GraphRAG, section 4.2). sentences: the outcomes of the
    system's sentences. An answer without claims has 0. The value is None if the answer is missing, has failed, or has
    a failed sentence, because its claims are then unknown. Without `sentences` every answer counts.
    """
    texts: dict[str, list[str]] = {question.id: [] for question in questions}
    for claim in claims:
        if claim.system == system and claim.question in texts:
            texts[claim.question].append(claim.text)
    complete = texts.keys() if sentences is None else find_complete_answers(sentences, system)
    counts = {id: (len(own), *count_clusters(own, token_kind=token_kind)) for id, own in texts.items()}
    return {
        name: {id: float(numbers[i]) if id in complete else None for id, numbers in counts.items()}
        for i, name in enumerate(("claims", *map(cluster_measure_name, THRESHOLDS)))
    }


def cluster_measure_name(threshold: float) -> str:
    """Return the name of a cluster measure.

    >>> cluster_measure_name(0.5)
    'clusters@0.5'
    """
    return f"clusters@{threshold:g}"


def find_complete_answers(sentences: Iterable[AnswerSentence], system: str) -> set[str]:
    """Return the questions whose answers were processed without failure."""
    own_sentences = [sentence for sentence in sentences if sentence.system == system]
    failed = {sentence.question for sentence in own_sentences if sentence.outcome in ("failed", "no answer")}
    return {sentence.question for sentence in own_sentences} - failed


def mean_and_count(values: Mapping[str, float | None]) -> tuple[float | None, int]:
    """Return the mean and the number of known values.

    The mean is None if no value is known.
    """
    numbers = [value for value in values.values() if value is not None]
    return (sum(numbers) / len(numbers) if numbers else None), len(numbers)


def count_outcomes(sentences: Iterable[AnswerSentence], system: str) -> dict[str, int]:
    """Count a system's sentences by outcome, the most frequent first.

    Failed and empty answers count as one sentence.
    """
    outcomes = sorted(sentence.outcome for sentence in sentences if sentence.system == system)
    return dict(Counter(outcomes).most_common())
