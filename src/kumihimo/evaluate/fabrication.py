"""Claims -> support of each claim: by the answer's evidence, by the documents, by other answers."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal

from kumihimo.core.context import Tokenizer
from kumihimo.core.errors import ItemFailed, UnparsableReply
from kumihimo.core.task import Progress
from kumihimo.evaluate.records import AnswerClaim, EvalQuestion, SystemAnswer, ValuesByMeasure
from kumihimo.evaluate.scoring.case import render_numbered_list
from kumihimo.llm.concurrency import map_with_progress
from kumihimo.llm.prompts import Source, render_prompt
from kumihimo.llm.protocols import LLM

CLAIM_SUPPORT_PROMPT, SELFCHECK_PROMPT = (
    Path(__file__).with_name(f"claim_{name}.md") for name in ("support", "selfcheck")
)
Claims = Iterable[AnswerClaim]
Search = Callable[[str], Sequence[str]]  # a text -> the passages closest to it
OtherAnswers = Mapping[tuple[str, str], Sequence[SystemAnswer]]  # by system and question
BATCH_SIZE = 20  # claims in one call
EVIDENCE_BUDGET = 8000  # tokens of evidence in one call
RATE_FIELDS = {  # the field of AnswerClaim behind each rate
    "unsupported_by_context": "supported",
    "unsupported_by_corpus": "in_corpus",
    "selfcheck": "doubt",
}
_DOUBT_VALUES = {"yes": 0.0, "no": 1.0, "unsure": 0.5}


@dataclass(frozen=True, slots=True)
class Supported:
    claim: int
    supported: Literal["yes", "no"]
    sources: list[int]


@dataclass(frozen=True, slots=True)
class Agreed:
    claim: int
    supported: Literal["yes", "no", "unsure"]


# -- by the evidence of the answer


def check_by_context(
    claims: Claims,
    answers: Iterable[SystemAnswer],
    llm: LLM,
    tokenizer: Tokenizer,
    *,
    budget: int = EVIDENCE_BUDGET,
    progress: Progress | None = None,
) -> list[AnswerClaim]:
    """Check whether the answer's evidence entails each claim (field `supported`).

    Evidence beyond the token budget is split into parts. Each further part is shown only with the claims that are
    still unsupported.
    """
    answers_by_key = {(answer.system, answer.question): answer for answer in answers}

    def check_batch(batch: list[AnswerClaim]) -> list[AnswerClaim]:
        answer = answers_by_key.get((batch[0].system, batch[0].question))
        sources = [(source.n, source.text) for source in answer.contexts] if answer else []
        return _check_by_sources(batch, "supported", split_sources(sources, tokenizer, budget), llm)

    batches = list(batch_by_answer(claims))
    return list(chain.from_iterable(map_with_progress(check_batch, batches, llm.workers, "context", progress)))


def split_sources(sources: Sequence[tuple[int, str]], tokenizer: Tokenizer, budget: int) -> list[list[tuple[int, str]]]:
    """Group numbered sources into parts within the token budget.

    A source that exceeds the budget is cut into several pieces.
    """
    groups: list[list[tuple[int, str]]] = [[]]
    room = budget
    for n, text in sources:
        for piece in _split_text(text, tokenizer, budget):
            size = len(tokenizer(piece))
            if size > room and groups[-1]:
                groups.append([])
                room = budget
            groups[-1].append((n, piece))
            room -= size
    return [group for group in groups if group]


def _split_text(text: str, tokenizer: Tokenizer, budget: int) -> Iterator[str]:
    bounds = [0, *list(tokenizer(text))[budget::budget], len(text)]
    return (text[a:b] for a, b in pairwise(bounds) if text[a:b].strip())


# -- by the documents


def check_by_corpus(
    claims: Claims, retrieve: Search, llm: LLM, *, progress: Progress | None = None
) -> list[AnswerClaim]:
    """Check whether passages found in the documents entail each claim (field `in_corpus`).

    retrieve: returns the passages closest to a claim, as many as fit the prompt; called from one thread. Limitation:
    missed passages count as missing support, so the rate depends on the quality of the search.
    """
    all_claims = list(claims)
    unique_texts = dict.fromkeys(claim.text for claim in all_claims)
    jobs = ((text, _retrieve_passages(retrieve, text)) for text in unique_texts)

    def check_claim(job: tuple[str, list[str] | ItemFailed]) -> AnswerClaim:
        claim, passages = AnswerClaim("", "", 0, job[0]), job[1]
        if isinstance(passages, ItemFailed):
            return _with_result(claim, "in_corpus", None, f"{passages.status}: {passages}")
        return _check_by_sources([claim], "in_corpus", [list(enumerate(passages, 1))] if passages else [], llm)[0]

    checked = map_with_progress(check_claim, jobs, llm.workers, "corpus", progress, len(unique_texts))
    by_text = {claim.text: claim for claim in checked}
    results = ((claim, by_text[claim.text]) for claim in all_claims)
    return [_with_result(c, "in_corpus", result.in_corpus, result.why.get("in_corpus", "")) for c, result in results]


def _retrieve_passages(retrieve: Search, text: str) -> list[str] | ItemFailed:
    try:
        return list(retrieve(text))
    except ItemFailed as failure:
        return failure


# -- by other answers to the same question


def check_by_samples(
    claims: Claims, samples: OtherAnswers, llm: LLM, *, progress: Progress | None = None
) -> list[AnswerClaim]:
    """Rate the doubt of each claim against other answers (field `doubt`).

    doubt: the mean over the samples of 0 (the sample supports the claim), 1 (it does not) or .5 (anything else).
    samples: the other answers by system and question. This is SelfCheckGPT (2303.08896) with prompting. At temperature
    0 all answers are equal and no claim is in doubt; an error shared by all answers is not found either. An unreadable
    reply counts .5, with the reason in `why`. Unlike the paper, one call rates all claims of an answer, and claims
    replace sentences.
    """
    batches = list(batch_by_answer(claims))

    def check_batch(batch: list[AnswerClaim]) -> list[AnswerClaim]:
        other_answers = samples.get((batch[0].system, batch[0].question), ())
        return _rate_doubt(batch, [other.text for other in other_answers if not other.failed], llm)

    return list(chain.from_iterable(map_with_progress(check_batch, batches, llm.workers, "selfcheck", progress)))


def _rate_doubt(batch: list[AnswerClaim], texts: Sequence[str], llm: LLM) -> list[AnswerClaim]:
    doubts_by_claim: list[list[float]] = [[] for _ in batch]
    why = "" if texts else "there is no other answer"
    for text in texts:
        messages = render_prompt(
            SELFCHECK_PROMPT, text=text, claims=render_numbered_list([claim.text for claim in batch])
        )
        replies: dict[int, str] = {}
        try:
            replies = {entry.claim: entry.supported for entry in reversed(llm(messages, schema=list[Agreed]))}
        except ItemFailed as failure:
            why = f"{failure.status}: {failure}"
            if not isinstance(failure, UnparsableReply):
                return [_with_result(claim, "doubt", None, why) for claim in batch]
        for n, doubts in enumerate(doubts_by_claim, 1):
            doubts.append(_DOUBT_VALUES[replies.get(n, "unsure")])
    return [
        _with_result(claim, "doubt", sum(doubts) / len(doubts) if doubts else None, why)
        for claim, doubts in zip(batch, doubts_by_claim, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """Statistics of a system's other answers.

    samples: their number. same_text: equal to the first answer word for word. same_context: from the same evidence.
    """

    samples: int
    same_text: int
    same_context: int


def count_samples(answers: Iterable[SystemAnswer], samples: OtherAnswers) -> SampleCounts:
    """Count other answers, equal texts and equal contexts."""
    pairs = [
        (answer, other)
        for answer in answers
        for other in samples.get((answer.system, answer.question), ())
        if not (other.failed or answer.failed)
    ]
    same_text = sum(other.text == answer.text for answer, other in pairs)
    same_context = sum([c.text for c in other.contexts] == [c.text for c in answer.contexts] for answer, other in pairs)
    return SampleCounts(len(pairs), same_text, same_context)


# -- shared helpers


def _check_by_sources(
    batch: list[AnswerClaim], name: Literal["supported", "in_corpus"], groups: Sequence[list[tuple[int, str]]], llm: LLM
) -> list[AnswerClaim]:
    """Check one batch of claims against parts of sources.

    Yes if any part supports the claim, no if every part denies it.
    """
    yes: dict[int, tuple[int, ...]] = {}  # sources by position in the batch, from 1
    why = dict.fromkeys(range(1, len(batch) + 1), "" if groups else "there is no evidence")
    for group in groups:
        if not (unsupported := [n for n in why if n not in yes]):
            break
        try:
            sources = [Source(n, text) for n, text in group]
            listed = render_numbered_list([batch[n - 1].text for n in unsupported])
            messages = render_prompt(CLAIM_SUPPORT_PROMPT, sources=sources, claims=listed)
            entries = {
                unsupported[e.claim - 1]: e
                for e in reversed(llm(messages, schema=list[Supported]))
                if 1 <= e.claim <= len(unsupported)
            }
        except ItemFailed as failure:
            why |= dict.fromkeys(unsupported, f"{failure.status}: {failure}")
            continue
        why |= {n: why[n] or "the reply leaves it out" for n in unsupported if n not in entries}
        numbers = {n for n, _ in group}
        yes |= {n: tuple(s for s in e.sources if s in numbers) for n, e in entries.items() if e.supported == "yes"}
    why |= dict.fromkeys(yes, "")
    if name == "supported":
        batch = [replace(claim, sources=yes.get(n, ())) for n, claim in enumerate(batch, 1)]
    values = {n: n in yes or (None if reason else False) for n, reason in why.items()}
    return [_with_result(claim, name, values[n], why[n]) for n, claim in enumerate(batch, 1)]


def _with_result(claim: AnswerClaim, name: str, value: object, why: str) -> AnswerClaim:
    """Return the claim with this value and its reason."""
    reasons = {field: reason for field, reason in claim.why.items() if field != name}
    changed: dict[str, Any] = {name: value, "why": {**reasons, name: why} if why else reasons}
    return replace(claim, **changed)


def batch_by_answer(claims: Claims) -> Iterator[list[AnswerClaim]]:
    """Yield batches of claims of one answer each."""
    by_answer: defaultdict[tuple[str, str], list[AnswerClaim]] = defaultdict(list)
    for claim in claims:
        by_answer[claim.system, claim.question].append(claim)
    for own_claims in by_answer.values():
        yield from (own_claims[i : i + BATCH_SIZE] for i in range(0, len(own_claims), BATCH_SIZE))


# -- rates


@dataclass(frozen=True, slots=True)
class FabricationRate:
    """A fabrication rate of a system.

    n: the claims with a known value, out of `of` claims. value: None if no value is known. why: the number of unknown
    values by reason.
    """

    value: float | None
    n: int
    of: int
    why: Mapping[str, int]


def fabrication_rates(claims: Claims, system: str) -> dict[str, FabricationRate]:
    """Return a system's unsupported shares and its mean doubt.

    Only checks that were requested are included.
    """
    own_claims = [claim for claim in claims if claim.system == system]
    rates: dict[str, FabricationRate] = {}
    for name, field in RATE_FIELDS.items():
        values = _known_values(own_claims, field)
        why = Counter(claim.why[field] for claim in own_claims if field in claim.why)
        if values or why:
            rates[name] = FabricationRate(_mean(values), len(values), len(own_claims), dict(why))
    return rates


def fabrication_by_question(claims: Claims, questions: Iterable[EvalQuestion], system: str) -> ValuesByMeasure:
    """Return the rates of each answer; None for unchecked or missing claims."""
    by_question: dict[str, list[AnswerClaim]] = {question.id: [] for question in questions}
    for claim in claims:
        if claim.system == system and claim.question in by_question:
            by_question[claim.question].append(claim)
    return {
        name: {id: _mean(_known_values(own_claims, field)) for id, own_claims in by_question.items()}
        for name, field in RATE_FIELDS.items()
    }


def _known_values(claims: Claims, field: str) -> list[float]:
    """Return the known fabrication values: 0 for a supported claim."""
    values = [getattr(claim, field) for claim in claims]
    return [float(not value) if isinstance(value, bool) else value for value in values if value is not None]


def _mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None
