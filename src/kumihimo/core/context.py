"""evidence -> Context: what a method found, in order, without repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from kumihimo.core.records import Record, Reference
from kumihimo.core.spans import Citation, Span
from kumihimo.core.usage import Usage


class Tokenizer(Protocol):
    """Where each token of a text begins, in characters: its length is the text's number of tokens."""

    @property
    def fingerprint(self) -> str: ...
    def __call__(self, text: str) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class Evidence:
    """One row that speaks to the question, and how strongly; scores compare within one context only.

    also: other rows of the table that say the same; they are told and traced with it. why: what speaks for it, and how
    much, most first, where a method says so. path: a passage that it hangs together with and what both mention, by ids.
    """

    table: str
    record: Record
    score: float
    duplicates: tuple[Record, ...] = ()
    feature_scores: tuple[tuple[str, float], ...] = ()
    via: tuple[str, ...] = ()

    @property
    def reference(self) -> Reference:
        return self.table, self.record.id

    @property
    def text(self) -> str:
        return self.record.text

    @property
    def prompt_text(self) -> str:
        return "\n\n".join(dict.fromkeys(record.prompt_text for record in (self.record, *self.duplicates)))

    @property
    def parts(self) -> tuple[Evidence, ...]:
        """Each of its rows alone."""
        return tuple(Evidence(self.table, record, self.score) for record in (self.record, *self.duplicates))

    def tokens(self, tokenizer: Tokenizer) -> int:
        return sum(_count_tokens(record, tokenizer) for record in (self.record, *self.duplicates))


def _count_tokens(record: Record, ruler: Tokenizer) -> int:
    known = getattr(record, "tokens", None)
    return known if isinstance(known, int) else len(ruler(record.text))


SpanFinder = Callable[[Evidence], Iterable[Span]]  # where what it was made of stands


@dataclass(frozen=True, slots=True)
class Context:
    """Ordered, scored evidence. A row met twice keeps its first place.

    searched: questions that were searched for beside the one that was asked, or in its place, in order. decided: what
    the method took the question for, where that makes a difference.

    >>> from kumihimo.core.records import Record
    >>> a, b, c = (Evidence("notes", Record(id=i, text=i), 1.0) for i in "abc")
    >>> [e.text for e in Context((a, b)) + Context((b, c))]
    ['a', 'b', 'c']
    """

    evidence: tuple[Evidence, ...] = ()
    queries: tuple[str, ...] = ()
    query_type: str = ""

    def __post_init__(self) -> None:
        first: dict[Reference, Evidence] = {}
        for item in self.evidence:
            first.setdefault(item.reference, item)
        object.__setattr__(self, "evidence", tuple(first.values()))

    def __iter__(self) -> Iterator[Evidence]:
        return iter(self.evidence)

    def __len__(self) -> int:
        return len(self.evidence)

    def __add__(self, other: Context) -> Context:
        searched = tuple(dict.fromkeys(self.queries + other.queries))
        return Context(self.evidence + other.evidence, searched, self.query_type or other.query_type)

    def top(self, k: int) -> Context:
        """The first k."""
        return replace(self, evidence=self.evidence[: max(k, 0)])

    def fit(self, budget: int, tokenizer: Tokenizer) -> Context:
        """What fits into `budget` tokens, best first; what is too long gives way to what comes after it."""
        kept: list[Evidence] = []
        for item in self.evidence:
            size = item.tokens(tokenizer)
            if size <= budget:
                kept.append(item)
                budget -= size
        return replace(self, evidence=tuple(kept))

    @staticmethod
    def fuse(contexts: Iterable[Context], weights: Sequence[float] | None = None) -> Context:
        """One ranking of several: each context's scores are spread from 0, its last, to 1, its best; weighted; added.

        Unlike reciprocal ranks this keeps how sure each search was. A row's place among equals is
        decided by its table and id.

        >>> from kumihimo.core.records import Record
        >>> a, b, c = Record(id="a"), Record(id="b"), Record(id="c")
        >>> words = Context((Evidence("t", a, 8.0), Evidence("t", b, 6.0), Evidence("t", c, 4.0)))
        >>> meaning = Context((Evidence("t", b, 0.9), Evidence("t", c, 0.3)))
        >>> [(e.record.id, e.score) for e in Context.fuse([words, meaning], weights=[1.0, 0.6])]
        [('b', 1.1), ('a', 1.0), ('c', 0.0)]
        """
        found: dict[Reference, Evidence] = {}
        total: dict[Reference, float] = {}
        searched: dict[str, None] = {}
        for i, context in enumerate(contexts):
            searched |= dict.fromkeys(context.queries)
            weight = weights[i] if weights else 1.0
            best = max((item.score for item in context), default=0.0)
            least = min((item.score for item in context), default=0.0)
            for item in context:
                share = (item.score - least) / (best - least) if best > least else 1.0
                found.setdefault(item.reference, item)
                total[item.reference] = total.get(item.reference, 0.0) + weight * share
        order = sorted(total, key=lambda reference: (-total[reference], reference))
        return Context(tuple(replace(found[ref], score=total[ref]) for ref in order), tuple(searched))


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said in reply, where each part of it stands, and what it cost.

    model: whose words they are; none: those of the documents. dangling: how many citations that pointed nowhere were
    taken out of the text. suggested: questions to ask next, where such were asked for. saved: what the memo spared.
    """

    question: str
    method: str
    text: str
    citations: tuple[Citation, ...]
    context: Context
    usage: Usage
    model: str = ""
    dangling: int = 0
    followups: tuple[str, ...] = ()
    saved: Usage = field(default_factory=Usage)
