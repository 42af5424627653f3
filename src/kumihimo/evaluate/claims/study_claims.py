"""a study + an LLM -> the claims of its answers, optional checks of them, a summary per system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

from kumihimo.core.context import Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.task import Progress
from kumihimo.evaluate import fabrication
from kumihimo.evaluate.claims import ClaimExtraction, extract_answer_claims
from kumihimo.evaluate.claims.claim_counts import count_outcomes, mean_and_count, measure_claims
from kumihimo.evaluate.claims.stages import CLAIM_PROMPTS, Votes
from kumihimo.evaluate.claims.voting import VOTE_TEMPERATURE
from kumihimo.evaluate.fabrication import CLAIM_SUPPORT_PROMPT, SELFCHECK_PROMPT, SampleCounts
from kumihimo.evaluate.records import AnswerClaim, AnswerSentence, EvalQuestion, SystemAnswer
from kumihimo.evaluate.rouge import TokenKind
from kumihimo.evaluate.study import Study, row_to_json
from kumihimo.llm.protocols import LLM

Notify = Callable[[str], None]  # receives a note on the calls to come


@dataclass(frozen=True, slots=True)
class ClaimChecks:
    """The checks to run on claims. corpus: a function that retrieves passages near a text."""

    context: bool = False
    corpus: Callable[[str], Sequence[str]] | None = None
    selfcheck: bool = False


@dataclass(frozen=True, slots=True)
class ClaimInputs:
    """The questions, each system's first answers, and its other answers to the same questions."""

    questions: Sequence[EvalQuestion]
    answers: Mapping[str, Sequence[SystemAnswer]]
    other_answers: Mapping[tuple[str, str], Sequence[SystemAnswer]] = field(default_factory=dict)

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
    sampled_questions = sorted(questions, key=lambda question: hash_parts(question.id))[: sample or None]
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
    llm: LLM,
    tokenizer: Tokenizer,
    votes: Votes,
    checks: ClaimChecks,
    notify: Notify,
    progress: Progress | None = None,
) -> ClaimExtraction:
    """Extract the claims, run the checks, and return claims and sentences."""
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
    token_kind: TokenKind,
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
            "fabrication": {name: asdict(rate) for name, rate in fabrication.fabrication_rates(claims, system).items()},
        }
        if selfcheck:
            summaries[system]["samples"] = asdict(fabrication.count_samples(answers, inputs.other_answers))
    return summaries


def describe_samples(system: str, samples: SampleCounts) -> str:
    """Describe a system's other answers, as needed to interpret its doubt."""
    if not samples.samples:
        return (
            f"{system} has answered once: `kumi eval run --methods {system} --generations 5` adds answers for SelfCheck"
        )
    text = f"SelfCheck of {system}: {samples.samples:,} other answers, {samples.same_context:,} from the same evidence"
    if samples.same_text:
        text += f"; {samples.same_text:,} are identical to the first, as at temperature 0, and raise no doubt"
    return text


def count_failures(claims: Iterable[AnswerClaim], sentences: Iterable[AnswerSentence]) -> Counter[str]:
    """Count the sentences and claim checks that failed or were unreadable."""
    counts = Counter(sentence.outcome for sentence in sentences if sentence.outcome in ("failed", "invalid"))
    reasons = (why.partition(":")[0] for claim in claims for why in claim.why.values())
    return counts + Counter(reason for reason in reasons if reason in ("failed", "invalid"))


def first_failure(claims: Iterable[AnswerClaim], sentences: Iterable[AnswerSentence]) -> str:
    """Return the reason of the first failure, or an empty string."""
    stages = (stage for sentence in sentences for stage in sentence.trace.values() if isinstance(stage, Mapping))
    votes = (vote for stage in stages for vote in stage.get("votes", ()))
    notes = chain(votes, (why for claim in claims for why in claim.why.values()))
    return next((note.removeprefix("failed: ") for note in map(str, notes) if note.startswith("failed: ")), "")


def describe_claim_run(inputs: ClaimInputs, llm: LLM, votes: Votes, **used: Any) -> dict[str, Any]:
    """Describe for the manifest how each system's claims were made."""
    settings = {
        "model": llm.fingerprint,
        "votes": list(votes),
        "temperature": [VOTE_TEMPERATURE if n > 1 else None for n in votes],
        **used,
        "prompts": {
            path.stem: hash_parts(path.read_text(encoding="utf-8"))
            for path in (*CLAIM_PROMPTS, CLAIM_SUPPORT_PROMPT, SELFCHECK_PROMPT)
        },
        "questions": hash_parts(*map(row_to_json, inputs.questions)),
    }
    return {
        system: {**settings, "answers": hash_parts(*map(row_to_json, rows)), **_other_answers_digest(inputs, system)}
        for system, rows in inputs.answers.items()
    }


def _other_answers_digest(inputs: ClaimInputs, system: str) -> dict[str, str]:
    """Return the digest of a system's other answers, if it has any."""
    lines = [
        row_to_json(answer)
        for (name, _), answers in inputs.other_answers.items()
        if name == system
        for answer in answers
    ]
    return {"others": hash_parts(*lines)} if lines else {}
