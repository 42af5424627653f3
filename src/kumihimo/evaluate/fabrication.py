"""claims -> which of them nothing supports: not the answer's evidence, not the documents, not other answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

from kumihimo.core.context import Tokenizer
from kumihimo.core.errors import ItemFailed, UnparsableReply
from kumihimo.core.task import Progress
from kumihimo.evaluate.claims.claim_counts import ValuesByMeasure
from kumihimo.evaluate.claims.voting import classify_failure
from kumihimo.evaluate.records import AnswerClaim, EvalQuestion, SystemAnswer
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM

A = TypeVar("A")
CLAIM_SUPPORT_PROMPT, SELFCHECK_PROMPT = (
    Path(__file__).with_name(f"claim_{name}.md") for name in ("support", "selfcheck")
)
BATCH_SIZE = 20  # claims that are asked about together
EVIDENCE_BUDGET = 8000  # tokens of evidence that are shown together
RATE_FIELDS = {
    "unsupported_by_context": "supported",
    "unsupported_by_corpus": "in_corpus",
    "selfcheck": "doubt",
}  # by rate
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
    claims: Iterable[AnswerClaim],
    answers: Iterable[SystemAnswer],
    llm: LLM,
    tokenizer: Tokenizer,
    *,
    budget: int = EVIDENCE_BUDGET,
    progress: Progress | None = None,
) -> list[AnswerClaim]:
    """The claims with `supported`: whether the evidence of the answer that makes them entails them.

    Evidence that is longer than the budget is shown in parts, each to the claims that no part before it supports.
    """
    told = {(answer.system, answer.question): answer for answer in answers}

    def one(batch: list[AnswerClaim]) -> list[AnswerClaim]:
        answer = told.get((batch[0].system, batch[0].question))
        sources = [(source.n, source.text) for source in answer.contexts] if answer else []
        return _check_by_sources(batch, "supported", split_sources(sources, tokenizer, budget), llm)

    return _flatten(_map_with_progress(one, list(batch_by_answer(claims)), llm, "context", progress))


def split_sources(sources: Sequence[tuple[int, str]], tokenizer: Tokenizer, budget: int) -> list[list[tuple[int, str]]]:
    """The numbered sources in parts that the budget holds, in order; one that alone is longer is cut into several."""
    found: list[list[tuple[int, str]]] = [[]]
    room = budget
    for n, text in sources:
        for piece in _split_text(text, tokenizer, budget):
            size = len(tokenizer(piece))
            if size > room and found[-1]:
                found.append([])
                room = budget
            found[-1].append((n, piece))
            room -= size
    return [part for part in found if part]


def _split_text(text: str, tokenizer: Tokenizer, budget: int) -> Iterator[str]:
    at = [0, *list(tokenizer(text))[budget::budget], len(text)]
    return (text[a:b] for a, b in pairwise(at) if text[a:b].strip())


# -- by the documents


def check_by_corpus(
    claims: Iterable[AnswerClaim],
    retrieve: Callable[[str], Sequence[str]],
    llm: LLM,
    *,
    progress: Progress | None = None,
) -> list[AnswerClaim]:
    """The claims with `in_corpus`: whether what is found for each in the documents entails it.

    retrieve: the passages that are nearest to a claim, as many as may be shown; called by one thread.
    But: what a search does not find counts as not there, so that the rate is at most as low as the search is good.
    """
    listed = list(claims)
    known = dict.fromkeys(claim.text for claim in listed)
    found = ((text, _retrieve_passages(retrieve, text)) for text in known)

    def one(job: tuple[str, list[str] | ItemFailed]) -> AnswerClaim:
        claim, passages = AnswerClaim("", "", 0, job[0]), job[1]
        if isinstance(passages, ItemFailed):
            return _with_result(claim, "in_corpus", None, f"{classify_failure(passages)}: {passages}")
        return _check_by_sources([claim], "in_corpus", [list(enumerate(passages, 1))] if passages else [], llm)[0]

    each = _map_with_progress(one, found, llm, "corpus", progress, len(known))
    said = {claim.text: claim for claim in each}
    return [_with_result(c, "in_corpus", said[c.text].in_corpus, said[c.text].why.get("in_corpus", "")) for c in listed]


def _retrieve_passages(retrieve: Callable[[str], Sequence[str]], text: str) -> list[str] | ItemFailed:
    try:
        return list(retrieve(text))
    except ItemFailed as failure:
        return failure


# -- by other answers to the same question


def check_by_samples(
    claims: Iterable[AnswerClaim],
    samples: Mapping[tuple[str, str], Sequence[SystemAnswer]],
    llm: LLM,
    *,
    progress: Progress | None = None,
) -> list[AnswerClaim]:
    """The claims with `doubt`: the mean over the samples of 0 where one says so, 1 where not, .5 for all else.

    samples: of a system and a question, its other answers. SelfCheckGPT (2303.08896) by prompt. At temperature 0 all
    answers are one, and nothing is ever in doubt; nor is what every answer has wrong. A reply that cannot be read is
    .5, too, with the reason in `why`.
    But: the claims of an answer are asked about together, and claims take the place of sentences.
    """
    jobs = [(batch, samples.get((batch[0].system, batch[0].question), ())) for batch in batch_by_answer(claims)]

    def one(job: tuple[list[AnswerClaim], Sequence[SystemAnswer]]) -> list[AnswerClaim]:
        batch, others = job
        texts = [other.text for other in others if not other.failed]
        return _rate_doubt(batch, texts, llm)

    return _flatten(_map_with_progress(one, jobs, llm, "selfcheck", progress))


def _rate_doubt(batch: list[AnswerClaim], texts: Sequence[str], llm: LLM) -> list[AnswerClaim]:
    found: list[list[float]] = [[] for _ in batch]
    why = "" if texts else "there is no other answer"
    for text in texts:
        shown = render_prompt(SELFCHECK_PROMPT, text=text, claims=_format_claims([claim.text for claim in batch]))
        said: dict[int, str] = {}
        try:
            said = {each.claim: each.supported for each in reversed(llm(shown, schema=list[Agreed]))}
        except ItemFailed as failure:
            why = f"{classify_failure(failure)}: {failure}"
            if not isinstance(failure, UnparsableReply):
                return [_with_result(claim, "doubt", None, why) for claim in batch]
        for n, doubts in enumerate(found, 1):
            doubts.append(_DOUBT_VALUES[said.get(n, "unsure")])
    return [
        _with_result(claim, "doubt", sum(doubts) / len(doubts) if doubts else None, why)
        for claim, doubts in zip(batch, found, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """Of the other answers of a system: how many, how many word for word the first, how many from the same evidence."""

    samples: int
    same_text: int
    same_context: int


def count_samples(
    answers: Iterable[SystemAnswer], samples: Mapping[tuple[str, str], Sequence[SystemAnswer]]
) -> SampleCounts:
    count: Counter[str] = Counter()
    for answer in answers:
        for other in samples.get((answer.system, answer.question), ()):
            if not (other.failed or answer.failed):
                count["samples"] += 1
                count["text"] += other.text == answer.text
                count["context"] += [c.text for c in other.contexts] == [c.text for c in answer.contexts]
    return SampleCounts(count["samples"], count["text"], count["context"])


# -- what both have in common


def _check_by_sources(
    batch: list[AnswerClaim], name: Literal["supported", "in_corpus"], shown: Sequence[list[tuple[int, str]]], llm: LLM
) -> list[AnswerClaim]:
    """The claims of one batch by sources in parts: yes if any part says so, no if all say no."""
    yes: dict[int, tuple[int, ...]] = {}  # by place in the batch, from 1: the sources
    why = dict.fromkeys(range(1, len(batch) + 1), "" if shown else "there is no evidence")
    for part in shown:
        left = [n for n in why if n not in yes]
        if not left:
            break
        try:
            asked = render_prompt(
                CLAIM_SUPPORT_PROMPT,
                sources=_format_sources(part),
                claims=_format_claims([batch[n - 1].text for n in left]),
            )
            said = {
                left[e.claim - 1]: e for e in reversed(llm(asked, schema=list[Supported])) if _is_valid_entry(e, left)
            }
        except ItemFailed as failure:
            why |= dict.fromkeys(left, f"{classify_failure(failure)}: {failure}")
            continue
        why |= {n: why[n] or "the reply leaves it out" for n in left if n not in said}
        numbers = {n for n, _ in part}
        yes |= {n: tuple(s for s in e.sources if s in numbers) for n, e in said.items() if e.supported == "yes"}
    why |= dict.fromkeys(yes, "")
    made = [
        _with_result(claim, name, n in yes or (None if why[n] else False), why[n]) for n, claim in enumerate(batch, 1)
    ]
    return [replace(c, sources=yes.get(n, ())) if name == "supported" else c for n, c in enumerate(made, 1)]


def _is_valid_entry(each: Supported, left: Sequence[int]) -> bool:
    return 1 <= each.claim <= len(left)


def _with_result(claim: AnswerClaim, name: str, value: object, why: str) -> AnswerClaim:
    """With that, and why it is not known, or not quite."""
    reasons = {other: said for other, said in claim.why.items() if other != name}
    changed: dict[str, Any] = {name: value, "why": {**reasons, name: why} if why else reasons}
    return replace(claim, **changed)


def batch_by_answer(claims: Iterable[AnswerClaim]) -> Iterator[list[AnswerClaim]]:
    """Of one answer each."""
    of: defaultdict[tuple[str, str], list[AnswerClaim]] = defaultdict(list)
    for claim in claims:
        of[claim.system, claim.question].append(claim)
    for mine in of.values():
        yield from (mine[i : i + BATCH_SIZE] for i in range(0, len(mine), BATCH_SIZE))


def _format_sources(part: Sequence[tuple[int, str]]) -> str:
    return "\n\n".join(f"[{n}] {text}" for n, text in part)


def _format_claims(claims: Sequence[str]) -> str:
    return "\n".join(f"{n}. {claim}" for n, claim in enumerate(claims, 1))


def _map_with_progress(
    one: Callable[[Any], A], jobs: Iterable[Any], llm: LLM, name: str, progress: Progress | None, total: int = 0
) -> list[A]:
    total = total or len(jobs) if isinstance(jobs, Sequence) else total
    made: list[A] = []
    for done, each in enumerate(map_concurrent(one, jobs, llm.workers), 1):
        made.append(each)
        if progress:
            progress(name, done, total)
    return made


def _flatten(lists: Iterable[list[AnswerClaim]]) -> list[AnswerClaim]:
    return [claim for batch in lists for claim in batch]


# -- rates


@dataclass(frozen=True, slots=True)
class FabricationRate:
    """value: of the n claims of which it is known, out of `of`; None: of none. why: of how many it is not, and why."""

    value: float | None
    n: int
    of: int
    why: Mapping[str, int]


def fabrication_rates(claims: Iterable[AnswerClaim], system: str) -> dict[str, FabricationRate]:
    """The share of a system's claims that its evidence, or the documents, do not support; and their mean doubt.

    Only those that were asked for.
    """
    mine = [claim for claim in claims if claim.system == system]
    found: dict[str, FabricationRate] = {}
    for name, field in RATE_FIELDS.items():
        known = _known_values(mine, field)
        why = Counter(claim.why[field] for claim in mine if field in claim.why)
        if known or why:
            found[name] = FabricationRate(_mean(known), len(known), len(mine), dict(why))
    return found


def fabrication_by_question(
    claims: Iterable[AnswerClaim], questions: Iterable[EvalQuestion], system: str
) -> ValuesByMeasure:
    """The same of the answer to each question; None where nothing is known of any claim of it, or it makes none."""
    of: defaultdict[str, list[AnswerClaim]] = defaultdict(list)
    for claim in claims:
        if claim.system == system:
            of[claim.question].append(claim)
    listed = [(question.id, of[question.id]) for question in questions]
    return {name: {id: _mean(_known_values(mine, field)) for id, mine in listed} for name, field in RATE_FIELDS.items()}


def _known_values(claims: Iterable[AnswerClaim], field: str) -> list[float]:
    return [_fabrication_value(value) for claim in claims if (value := getattr(claim, field)) is not None]


def _mean(known: Sequence[float]) -> float | None:
    return sum(known) / len(known) if known else None


def _fabrication_value(value: float | bool) -> float:
    """Of fabrication: what is supported is none."""
    return float(not value) if isinstance(value, bool) else value
