"""evidence -> Context: ranked rows without duplicates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, Protocol

from kumihimo.core.records import Record, Reference
from kumihimo.core.spans import Explanation, Span

_MAX_SNIPPET = 200  # characters of evidence for a person
NOWHERE = Span("", "", 0, 0, "")


class Tokenizer(Protocol):
    """A tokenizer: text -> the start of each token, in characters.

    The length of the result is the number of tokens.
    """

    @property
    def fingerprint(self) -> str: ...
    def __call__(self, text: str) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class Evidence:
    """A row relevant to the question, with its score.

    Scores compare within one context only. duplicates: rows of the same table with the same content; prompts and traces
    include them. feature_scores: the features behind the score, largest first, if the method reports them. via: a
    related passage and what both mention, by ids. document_terms: the words of the question that name its document.
    source: where the whole passage stands, or the first source of another row; a snapshot fills it in, and copies:
    where each of the duplicates stands. explanation: why it was found, if the query asks for it.
    """

    table: str
    record: Record
    score: float
    duplicates: tuple[Record, ...] = ()
    feature_scores: tuple[tuple[str, float], ...] = ()
    via: tuple[str, ...] = ()
    document_terms: tuple[str, ...] = ()
    source: Span = field(default=NOWHERE, compare=False, repr=False)
    copies: tuple[Span, ...] = field(default=(), compare=False, repr=False)
    explanation: Explanation | None = field(default=None, repr=False)

    @property
    def reference(self) -> Reference:
        return self.table, self.record.id

    @property
    def text(self) -> str:
        return self.record.text

    @property
    def title(self) -> str:
        """Return the title or name of the row, else its id."""
        return self._own_title or ":".join(self.reference)

    @property
    def _own_title(self) -> str:
        return getattr(self.record, "title", "") or getattr(self.record, "name", "")

    @property
    def document(self) -> str:
        """Return the id of the document of the source; empty: unknown."""
        return self.source.document

    @property
    def uri(self) -> str:
        """Return the uri of the source; empty: unknown."""
        return self.source.uri

    @property
    def start(self) -> int:
        """Return where the source begins, in characters of its document."""
        return self.source.start

    @property
    def end(self) -> int:
        """Return where the source ends, in characters of its document."""
        return self.source.end

    @property
    def place(self) -> str:
        """Return the page, slide, sheet or line of the source."""
        return self.source.place

    @property
    def location(self) -> str:
        """Return the file, and the page, slide, sheet or line."""
        return self.source.location

    @property
    def metadata(self) -> Mapping[str, object]:
        """Return the fields of the document: author, date, tags."""
        return self.source.metadata

    @property
    def snippet(self) -> str:
        """Return the beginning of the text, on one line."""
        line = " ".join(self.text.split())
        return line if len(line) <= _MAX_SNIPPET else f"{line[:_MAX_SNIPPET]}…"

    @property
    def prompt_text(self) -> str:
        return "\n\n".join(dict.fromkeys(record.prompt_text for record in (self.record, *self.duplicates)))

    @property
    def parts(self) -> tuple[Evidence, ...]:
        """Return each row as separate evidence."""
        return tuple(Evidence(self.table, record, self.score) for record in (self.record, *self.duplicates))

    def to_dict(self, rank: int) -> dict[str, Any]:
        """Return the evidence as JSON has it.

        `spans` is where the snippet stands, the other places are those of the whole passage.
        """
        copies = zip(self.duplicates, self.copies, strict=False)
        return {
            "rank": rank,
            "score": self.score,
            **self.source.to_place(),
            **row_json(self.reference),
            "title": self._own_title,
            "text": self.text,
            "metadata": dict(self.metadata),
            "duplicates": [{**span.to_place(), **row_json((self.table, row.id))} for row, span in copies],
            "feature_scores": dict(self.feature_scores),
            **(self.explanation.to_dict() if self.explanation else {}),
        }

    def tokens(self, tokenizer: Tokenizer) -> int:
        records = (self.record, *self.duplicates)
        counts = ((getattr(record, "tokens", None), record) for record in records)
        return sum(n if isinstance(n, int) else len(tokenizer(record.text)) for n, record in counts)


def row_json(reference: Reference) -> dict[str, Any]:
    """Return the table and id of a row."""
    table, id = reference
    return {"table": table, "id": id}


@dataclass(frozen=True)
class Question:
    """A question of a user. Methods that take one may know more of it than its text."""

    text: str


SpanFinder = Callable[[Evidence], Iterable[Span]]  # evidence -> its source spans


@dataclass(frozen=True, slots=True)
class Context:
    """Ranked, scored evidence without duplicates.

    A repeated row keeps its first rank. queries: further queries, used beside the question or in its place, in order.
    query_type: the type the method assigned to the question, if that matters. replaced: words of the question that no
    document has, each with the spelling that was searched; the question with these is the first of `queries`. rounds:
    the queries of each round of search, the question first. method: the one that a snapshot searched with.

    >>> from kumihimo.core.records import Record
    >>> a, b, c = (Evidence("notes", Record(id=i, text=i), 1.0) for i in "abc")
    >>> [e.text for e in Context((a, b)) + Context((b, c))]
    ['a', 'b', 'c']
    """

    evidence: tuple[Evidence, ...] = ()
    queries: tuple[str, ...] = ()
    query_type: str = ""
    replaced: tuple[tuple[str, str], ...] = ()
    rounds: tuple[tuple[str, ...], ...] = field(default=(), compare=False, repr=False)
    method: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        first: dict[Reference, Evidence] = {}
        for item in self.evidence:
            first.setdefault((item.table, item.record.id), item)
        object.__setattr__(self, "evidence", tuple(first.values()))

    def __iter__(self) -> Iterator[Evidence]:
        return iter(self.evidence)

    def __len__(self) -> int:
        return len(self.evidence)

    def __str__(self) -> str:
        """Return the evidence for a person, best first."""
        return "\n".join(f"{rank}. {item.title}\n   {item.snippet}" for rank, item in enumerate(self, 1))

    def _repr_html_(self) -> str:
        """Return the evidence for a notebook."""
        items = (f"<li><b>{escape(item.title)}</b><br>{escape(item.snippet)}</li>" for item in self)
        return f"<ol>{''.join(items)}</ol>"

    def to_dict(self) -> dict[str, Any]:
        """Return what was found, best first, and how, as JSON has it."""
        return {
            "queries": list(self.queries),
            "query_type": self.query_type,
            "replaced": [{"word": word, "searched": spelling} for word, spelling in self.replaced],
            "rounds": [{"queries": list(queries)} for queries in self.rounds],
            "evidence": [item.to_dict(rank) for rank, item in enumerate(self, 1)],
        }

    def __add__(self, other: Context) -> Context:
        queries = tuple(dict.fromkeys(self.queries + other.queries))
        return Context(self.evidence + other.evidence, queries, self.query_type or other.query_type)

    def searched(self, question: str) -> str:
        """Return the question as it was searched."""
        return self.queries[0] if self.replaced else question

    def top(self, k: int) -> Context:
        """Return the first k items."""
        return replace(self, evidence=self.evidence[: max(k, 0)])

    def fit(self, budget: int, tokenizer: Tokenizer) -> Context:
        """Return the best items that fit into `budget` tokens.

        An item that is too long is skipped; shorter ones after it may still fit.
        """
        selected: list[Evidence] = []
        for item in self.evidence:
            size = item.tokens(tokenizer)
            if size <= budget:
                selected.append(item)
                budget -= size
        return replace(self, evidence=tuple(selected))

    @staticmethod
    def fuse(contexts: Iterable[Context], weights: Sequence[float] | None = None) -> Context:
        """Merge several contexts into one ranking by weighted scores.

        The scores of each context are scaled from 0, its last, to 1, its best, then weighted and added. Unlike
        reciprocal rank fusion this keeps the confidence of each search. Ties are ordered by table and id.

        >>> from kumihimo.core.records import Record
        >>> a, b, c = Record(id="a"), Record(id="b"), Record(id="c")
        >>> words = Context((Evidence("t", a, 8.0), Evidence("t", b, 6.0), Evidence("t", c, 4.0)))
        >>> meaning = Context((Evidence("t", b, 0.9), Evidence("t", c, 0.3)))
        >>> [(e.record.id, e.score) for e in Context.fuse([words, meaning], weights=[1.0, 0.6])]
        [('b', 1.1), ('a', 1.0), ('c', 0.0)]
        """
        items: dict[Reference, Evidence] = {}
        total: dict[Reference, float] = {}
        queries: dict[str, None] = {}
        for i, context in enumerate(contexts):
            queries |= dict.fromkeys(context.queries)
            weight = weights[i] if weights else 1.0
            highest = max((item.score for item in context), default=0.0)
            lowest = min((item.score for item in context), default=0.0)
            for item in context:
                scaled = (item.score - lowest) / (highest - lowest) if highest > lowest else 1.0
                items.setdefault(item.reference, item)
                total[item.reference] = total.get(item.reference, 0.0) + weight * scaled
        order = sorted(total, key=lambda reference: (-total[reference], reference))
        return Context(tuple(replace(items[ref], score=total[ref]) for ref in order), tuple(queries))


@dataclass(frozen=True, slots=True)
class KeyPoint(Record):
    """A statement from rows, by a method; no table holds it. verbatim: a sentence of a document."""

    sources: tuple[Reference, ...]
    tokens: int
    verbatim: bool = False

    def parents(self) -> tuple[Reference, ...]:
        return self.sources


@dataclass(frozen=True, slots=True)
class Result(KeyPoint):
    """A line of what rules found out: which documents there are, what one holds, a sum over a table."""
