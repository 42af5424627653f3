"""claims -> which of them nothing supports: not the answer's evidence, not the documents, not other answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

from kumihimo.core.context import Ruler
from kumihimo.core.errors import ItemFailed, Unreadable
from kumihimo.core.task import Progress
from kumihimo.evaluate.claims.claim_counts import Values
from kumihimo.evaluate.claims.voting import trouble
from kumihimo.evaluate.records import Answered, Claim, Question
from kumihimo.llm.concurrency import side_by_side
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask

A = TypeVar("A")
SUPPORT, SELFCHECK = (Path(__file__).with_name(f"claim_{name}.md") for name in ("support", "selfcheck"))
BATCH = 20  # claims that are asked about together
BUDGET = 8000  # tokens of evidence that are shown together
FIELDS = {"unsupported_by_context": "supported", "unsupported_by_corpus": "in_corpus", "selfcheck": "doubt"}  # by rate
_DOUBT = {"yes": 0.0, "no": 1.0, "unsure": 0.5}


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


def by_context(
    claims: Iterable[Claim],
    answers: Iterable[Answered],
    ask: Ask,
    ruler: Ruler,
    *,
    budget: int = BUDGET,
    progress: Progress | None = None,
) -> list[Claim]:
    """The claims with `supported`: whether the evidence of the answer that makes them entails them.

    Evidence that is longer than the budget is shown in parts, each to the claims that no part before it supports.
    """
    told = {(answer.system, answer.question): answer for answer in answers}

    def one(batch: list[Claim]) -> list[Claim]:
        answer = told.get((batch[0].system, batch[0].question))
        sources = [(source.n, source.text) for source in answer.contexts] if answer else []
        return _by_sources(batch, "supported", parts(sources, ruler, budget), ask)

    return _flat(_each(one, list(batches(claims)), ask, "context", progress))


def parts(sources: Sequence[tuple[int, str]], ruler: Ruler, budget: int) -> list[list[tuple[int, str]]]:
    """The numbered sources in parts that the budget holds, in order; one that alone is longer is cut into several."""
    found: list[list[tuple[int, str]]] = [[]]
    room = budget
    for n, text in sources:
        for piece in _cut(text, ruler, budget):
            size = len(ruler(piece))
            if size > room and found[-1]:
                found.append([])
                room = budget
            found[-1].append((n, piece))
            room -= size
    return [part for part in found if part]


def _cut(text: str, ruler: Ruler, budget: int) -> Iterator[str]:
    at = [0, *list(ruler(text))[budget::budget], len(text)]
    return (text[a:b] for a, b in pairwise(at) if text[a:b].strip())


# -- by the documents


def by_corpus(
    claims: Iterable[Claim],
    retrieve: Callable[[str], Sequence[str]],
    ask: Ask,
    *,
    progress: Progress | None = None,
) -> list[Claim]:
    """The claims with `in_corpus`: whether what is found for each in the documents entails it.

    retrieve: the passages that are nearest to a claim, as many as may be shown; called by one thread.
    But: what a search does not find counts as not there, so that the rate is at most as low as the search is good.
    """
    listed = list(claims)
    known = dict.fromkeys(claim.text for claim in listed)
    found = ((text, _searched(retrieve, text)) for text in known)

    def one(job: tuple[str, list[str] | ItemFailed]) -> Claim:
        claim, passages = Claim("", "", 0, job[0]), job[1]
        if isinstance(passages, ItemFailed):
            return _decided(claim, "in_corpus", None, f"{trouble(passages)}: {passages}")
        return _by_sources([claim], "in_corpus", [list(enumerate(passages, 1))] if passages else [], ask)[0]

    each = _each(one, found, ask, "corpus", progress, len(known))
    said = {claim.text: claim for claim in each}
    return [_decided(c, "in_corpus", said[c.text].in_corpus, said[c.text].why.get("in_corpus", "")) for c in listed]


def _searched(retrieve: Callable[[str], Sequence[str]], text: str) -> list[str] | ItemFailed:
    try:
        return list(retrieve(text))
    except ItemFailed as failure:
        return failure


# -- by other answers to the same question


def by_samples(
    claims: Iterable[Claim],
    samples: Mapping[tuple[str, str], Sequence[Answered]],
    ask: Ask,
    *,
    progress: Progress | None = None,
) -> list[Claim]:
    """The claims with `doubt`: the mean over the samples of 0 where one says so, 1 where not, .5 for all else.

    samples: of a system and a question, its other answers. SelfCheckGPT (2303.08896) by prompt. At temperature 0 all
    answers are one, and nothing is ever in doubt; nor is what every answer has wrong. A reply that cannot be read is
    .5, too, with the reason in `why`.
    But: the claims of an answer are asked about together, and claims take the place of sentences.
    """
    jobs = [(batch, samples.get((batch[0].system, batch[0].question), ())) for batch in batches(claims)]

    def one(job: tuple[list[Claim], Sequence[Answered]]) -> list[Claim]:
        batch, others = job
        texts = [other.text for other in others if not other.failed]
        return _doubted(batch, texts, ask)

    return _flat(_each(one, jobs, ask, "selfcheck", progress))


def _doubted(batch: list[Claim], texts: Sequence[str], ask: Ask) -> list[Claim]:
    found: list[list[float]] = [[] for _ in batch]
    why = "" if texts else "there is no other answer"
    for text in texts:
        shown = prompt(SELFCHECK, text=text, claims=_numbered([claim.text for claim in batch]))
        said: dict[int, str] = {}
        try:
            said = {each.claim: each.supported for each in reversed(ask(shown, into=list[Agreed]))}
        except ItemFailed as failure:
            why = f"{trouble(failure)}: {failure}"
            if not isinstance(failure, Unreadable):
                return [_decided(claim, "doubt", None, why) for claim in batch]
        for n, doubts in enumerate(found, 1):
            doubts.append(_DOUBT[said.get(n, "unsure")])
    return [
        _decided(claim, "doubt", sum(doubts) / len(doubts) if doubts else None, why)
        for claim, doubts in zip(batch, found, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Sampled:
    """Of the other answers of a system: how many, how many word for word the first, how many from the same evidence."""

    samples: int
    same_text: int
    same_context: int


def sampled(answers: Iterable[Answered], samples: Mapping[tuple[str, str], Sequence[Answered]]) -> Sampled:
    count: Counter[str] = Counter()
    for answer in answers:
        for other in samples.get((answer.system, answer.question), ()):
            if not (other.failed or answer.failed):
                count["samples"] += 1
                count["text"] += other.text == answer.text
                count["context"] += [c.text for c in other.contexts] == [c.text for c in answer.contexts]
    return Sampled(count["samples"], count["text"], count["context"])


# -- what both have in common


def _by_sources(
    batch: list[Claim], name: Literal["supported", "in_corpus"], shown: Sequence[list[tuple[int, str]]], ask: Ask
) -> list[Claim]:
    """The claims of one batch by sources in parts: yes if any part says so, no if all say no."""
    yes: dict[int, tuple[int, ...]] = {}  # by place in the batch, from 1: the sources
    why = dict.fromkeys(range(1, len(batch) + 1), "" if shown else "there is no evidence")
    for part in shown:
        left = [n for n in why if n not in yes]
        if not left:
            break
        try:
            asked = prompt(SUPPORT, sources=_sources(part), claims=_numbered([batch[n - 1].text for n in left]))
            said = {left[e.claim - 1]: e for e in reversed(ask(asked, into=list[Supported])) if _in(e, left)}
        except ItemFailed as failure:
            why |= dict.fromkeys(left, f"{trouble(failure)}: {failure}")
            continue
        why |= {n: why[n] or "the reply leaves it out" for n in left if n not in said}
        numbers = {n for n, _ in part}
        yes |= {n: tuple(s for s in e.sources if s in numbers) for n, e in said.items() if e.supported == "yes"}
    why |= dict.fromkeys(yes, "")
    made = [_decided(claim, name, n in yes or (None if why[n] else False), why[n]) for n, claim in enumerate(batch, 1)]
    return [replace(c, sources=yes.get(n, ())) if name == "supported" else c for n, c in enumerate(made, 1)]


def _in(each: Supported, left: Sequence[int]) -> bool:
    return 1 <= each.claim <= len(left)


def _decided(claim: Claim, name: str, value: object, why: str) -> Claim:
    """With that, and why it is not known, or not quite."""
    reasons = {other: said for other, said in claim.why.items() if other != name}
    changed: dict[str, Any] = {name: value, "why": {**reasons, name: why} if why else reasons}
    return replace(claim, **changed)


def batches(claims: Iterable[Claim]) -> Iterator[list[Claim]]:
    """Of one answer each."""
    of: defaultdict[tuple[str, str], list[Claim]] = defaultdict(list)
    for claim in claims:
        of[claim.system, claim.question].append(claim)
    for mine in of.values():
        yield from (mine[i : i + BATCH] for i in range(0, len(mine), BATCH))


def _sources(part: Sequence[tuple[int, str]]) -> str:
    return "\n\n".join(f"[{n}] {text}" for n, text in part)


def _numbered(claims: Sequence[str]) -> str:
    return "\n".join(f"{n}. {claim}" for n, claim in enumerate(claims, 1))


def _each(
    one: Callable[[Any], A], jobs: Iterable[Any], ask: Ask, name: str, progress: Progress | None, total: int = 0
) -> list[A]:
    total = total or len(jobs) if isinstance(jobs, Sequence) else total
    made: list[A] = []
    for done, each in enumerate(side_by_side(one, jobs, ask.workers), 1):
        made.append(each)
        if progress:
            progress(name, done, total)
    return made


def _flat(lists: Iterable[list[Claim]]) -> list[Claim]:
    return [claim for batch in lists for claim in batch]


# -- rates


@dataclass(frozen=True, slots=True)
class Rate:
    """value: of the n claims of which it is known, out of `of`; None: of none. why: of how many it is not, and why."""

    value: float | None
    n: int
    of: int
    why: Mapping[str, int]


def rates(claims: Iterable[Claim], system: str) -> dict[str, Rate]:
    """The share of a system's claims that its evidence, or the documents, do not support; and their mean doubt.

    Only those that were asked for.
    """
    mine = [claim for claim in claims if claim.system == system]
    found: dict[str, Rate] = {}
    for name, field in FIELDS.items():
        known = _known(mine, field)
        why = Counter(claim.why[field] for claim in mine if field in claim.why)
        if known or why:
            found[name] = Rate(_mean(known), len(known), len(mine), dict(why))
    return found


def values(claims: Iterable[Claim], questions: Iterable[Question], system: str) -> Values:
    """The same of the answer to each question; None where nothing is known of any claim of it, or it makes none."""
    of: defaultdict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        if claim.system == system:
            of[claim.question].append(claim)
    listed = [(question.id, of[question.id]) for question in questions]
    return {name: {id: _mean(_known(mine, field)) for id, mine in listed} for name, field in FIELDS.items()}


def _known(claims: Iterable[Claim], field: str) -> list[float]:
    return [_share(value) for claim in claims if (value := getattr(claim, field)) is not None]


def _mean(known: Sequence[float]) -> float | None:
    return sum(known) / len(known) if known else None


def _share(value: float | bool) -> float:
    """Of fabrication: what is supported is none."""
    return float(not value) if isinstance(value, bool) else value
