"""a study + a model -> the claims of its answers, checked as far as one wants, and what is told of them."""

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

Notify = Callable[[str], None]  # what is about to be asked


@dataclass(frozen=True, slots=True)
class ClaimChecks:
    """What claims are checked against. corpus: the passages that are nearest to a text."""

    context: bool = False
    corpus: Callable[[str], Sequence[str]] | None = None
    selfcheck: bool = False


@dataclass(frozen=True, slots=True)
class ClaimInputs:
    """What is read: the questions, and of each system its answers to them, the first and all others."""

    questions: Sequence[EvalQuestion]
    answers: Mapping[str, Sequence[SystemAnswer]]
    other_answers: Mapping[tuple[str, str], Sequence[SystemAnswer]] = field(default_factory=dict)

    @property
    def all_answers(self) -> list[SystemAnswer]:
        return [answer for mine in self.answers.values() for answer in mine]


def select_claim_inputs(
    study: Study, systems: Sequence[str] = (), *, sample: int = 0, with_others: bool = False
) -> ClaimInputs:
    """Of these systems, or all that have answered. sample: so many of the questions, always the same; 0: all.

    Raises SettingsError where there is nothing to read.
    """
    wanted = study.select_systems(systems)
    questions = study.questions()
    drawn = sorted(questions, key=lambda question: hash_parts(question.id))[: sample or None]
    chosen = {question.id for question in drawn}
    answers = {name: [a for a in study.answers(name) if a.question in chosen] for name in wanted}
    more: dict[tuple[str, str], list[SystemAnswer]] = {}
    for name in wanted if with_others else ():
        for n in range(1, study.count_generations(name)):
            for answer in study.answers(name, n):
                more.setdefault((name, answer.question), []).append(answer)
    return ClaimInputs([question for question in questions if question.id in chosen], answers, more)


def extract_checked_claims(
    inputs: ClaimInputs,
    llm: LLM,
    tokenizer: Tokenizer,
    votes: Votes,
    checks: ClaimChecks,
    notify: Notify,
    progress: Progress | None = None,
) -> ClaimExtraction:
    """The claims, checked, and the sentences they are from."""
    found, sentences = extract_answer_claims(inputs.questions, inputs.all_answers, llm, votes, progress)
    batches = list(fabrication.batch_by_answer(found))
    if checks.context:
        notify(
            f"{len(batches):,} calls, if no evidence is longer than {fabrication.EVIDENCE_BUDGET:,} tokens: the claims by it"
        )
        found = fabrication.check_by_context(found, inputs.all_answers, llm, tokenizer, progress=progress)
    if checks.corpus:
        notify(f"{len({claim.text for claim in found}):,} calls: the claims by the documents")
        found = fabrication.check_by_corpus(found, checks.corpus, llm, progress=progress)
    if checks.selfcheck:
        count = sum(len(inputs.other_answers.get((batch[0].system, batch[0].question), ())) for batch in batches)
        notify(f"{count:,} calls: the claims by other answers")
        found = fabrication.check_by_samples(found, inputs.other_answers, llm, progress=progress)
    return found, sentences


def summarise_claims(
    inputs: ClaimInputs,
    claims: Sequence[AnswerClaim],
    sentences: Sequence[AnswerSentence],
    *,
    tokens: TokenKind,
    selfcheck: bool,
) -> dict[str, dict[str, Any]]:
    """Of each system: n answers that count, means of claims and clusters, outcomes of sentences, fabrication."""
    told: dict[str, dict[str, Any]] = {}
    for system, answers in inputs.answers.items():
        numbers = measure_claims(claims, inputs.questions, system, sentences, tokens=tokens)
        told[system] = {
            "questions": len(inputs.questions),
            "n": mean_and_count(numbers["claims"])[1],
            "means": {name: mean_and_count(found)[0] for name, found in numbers.items()},
            "claims": sum(claim.system == system for claim in claims),
            "sentences": count_outcomes(sentences, system),
            "fabrication": {name: asdict(rate) for name, rate in fabrication.fabrication_rates(claims, system).items()},
        }
        if selfcheck:
            told[system]["samples"] = asdict(fabrication.count_samples(answers, inputs.other_answers))
    return told


def describe_samples(system: str, found: SampleCounts) -> str:
    """What has to be known of other answers to read a rate of doubt."""
    if not found.samples:
        return f"{system} has answered once: `kumi eval run --methods {system} --generations 5` gives SelfCheck samples"
    said = f"SelfCheck of {system}: {found.samples:,} other answers, {found.same_context:,} from the same evidence"
    if found.same_text:
        said += f"; {found.same_text:,} are the first one word for word, as at temperature 0, and doubt nothing"
    return said


def count_failures(claims: Iterable[AnswerClaim], sentences: Iterable[AnswerSentence]) -> Counter[str]:
    """How many sentences, and checks of claims, failed or could not be read."""
    found = Counter(sentence.outcome for sentence in sentences if sentence.outcome in ("failed", "invalid"))
    reasons = (why.partition(":")[0] for claim in claims for why in claim.why.values())
    return found + Counter(reason for reason in reasons if reason in ("failed", "invalid"))


def first_failure(claims: Iterable[AnswerClaim], sentences: Iterable[AnswerSentence]) -> str:
    """Of the first that failed."""
    votes = (vote for s in sentences for stage in s.trace.values() if isinstance(stage, Mapping)
             for vote in stage.get("votes", ()))  # fmt: skip
    said = chain(votes, (why for claim in claims for why in claim.why.values()))
    return next((told.removeprefix("failed: ") for told in map(str, said) if told.startswith("failed: ")), "")


def describe_claim_run(inputs: ClaimInputs, llm: LLM, votes: Votes, **used: Any) -> dict[str, Any]:
    """For the manifest, of each system: how it was run."""
    told = {
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
        system: {**told, "answers": hash_parts(*map(row_to_json, rows)), **_other_answers_digest(inputs, system)}
        for system, rows in inputs.answers.items()
    }


def _other_answers_digest(inputs: ClaimInputs, system: str) -> dict[str, str]:
    said = [
        row_to_json(answer)
        for (name, _), answers in inputs.other_answers.items()
        if name == system
        for answer in answers
    ]
    return {"others": hash_parts(*said)} if said else {}
