"""what a command did, would do, or found -> Built, Plan, Status, Solutions: for whoever shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kumihimo.core.usage import Usage
from kumihimo.storage.sqlite.response_cache import UsageEntry

Range = tuple[float, float]  # at least, at most


@dataclass(frozen=True, slots=True)
class Built:
    """What a build did. Files: read, unchanged, gone, of no kind we read. failed: (step, item, why).

    partly: of the files read, what could not be: pages without text, attachments.

    before, rows: how many rows each table had and has; written: how many were put into it, new or changed.
    spent, saved: what was paid for each step, and what the memo spared. left: methods not built for, since that is
    paid for and nobody has asked for them. ruled: those to name for the chat model to make the graph, which is made by
    rule though there is one.
    """

    read: int
    unchanged: int
    removed: int
    skipped: tuple[str, ...]
    before: Mapping[str, int]
    rows: Mapping[str, int]
    written: Mapping[str, int]
    failed: tuple[tuple[str, str, str], ...]
    seconds: float
    spent: Mapping[str, Usage]
    saved: Mapping[str, Usage]
    skipped_methods: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    rule_based: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one step would ask of its model. exact: whether the number of calls is known; else all is from ... to ...

    calls, prompt_tokens, completion_tokens: ranges; cost, seconds too; cost None where no prices are set,
    seconds None where no call was timed yet.
    """

    step: str
    model: str
    exact: bool
    calls: Range
    prompt_tokens: Range
    completion_tokens: Range
    cost: Range | None
    seconds: Range | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a build would cost. unknown: steps of which nothing can be said before a sample is asked.

    ruled: methods to name to see what it would cost to have the chat model make the graph.
    """

    estimates: tuple[Estimate, ...]
    unknown: tuple[str, ...] = ()
    rule_based: tuple[str, ...] = ()

    @property
    def calls(self) -> Range:
        return _sum_ranges(e.calls for e in self.estimates)

    @property
    def tokens(self) -> Range:
        """Of prompts and replies."""
        return _sum_ranges(r for e in self.estimates for r in (e.prompt_tokens, e.completion_tokens))

    @property
    def cost(self) -> Range:
        """As far as prices are set."""
        return _sum_ranges(e.cost for e in self.estimates if e.cost)


@dataclass(frozen=True, slots=True)
class CommunityLevel:
    """A level of communities, C0 the uppermost, or the source, TS: reports or chunks, and their tokens."""

    name: str
    units: int
    tokens: int
    share: float  # of the source's tokens, in percent


@dataclass(frozen=True, slots=True)
class Status:
    """What the index holds."""

    folder: str
    sources: Mapping[str, str]  # name -> path
    removed: tuple[str, ...]  # uris taken out of a source
    rows: Mapping[str, int]
    methods: tuple[str, ...]
    models: Mapping[str, str]
    settings: Mapping[str, object]  # of the steps, as the tables were built with; those that are not the default
    failed: tuple[tuple[str, str, str], ...]
    bytes: int
    cache: Mapping[str, int] = field(default_factory=dict)
    partial: tuple[str, ...] = ()  # documents of which something could not be read, and what
    spent: tuple[UsageEntry, ...] = ()  # and saved by the memo: of each step, method and role
    modularity: tuple[float, float] | None = (
        None  # of the communities as they are, and as a fresh start would have them
    )
    levels: tuple[CommunityLevel, ...] = ()  # where they were asked for


@dataclass(frozen=True, slots=True)
class RdfTerm:
    """A name or a value of RDF. kind: uri, literal or bnode. datatype: an IRI; empty: a text."""

    value: str
    kind: str
    language: str = ""
    datatype: str = ""


@dataclass(frozen=True, slots=True)
class Solutions:
    """What a SPARQL query found.

    rows: a term, or None, for each of the columns. yes: the answer of ASK. graph: whether the rows are triples, of
    CONSTRUCT or DESCRIBE. cut: the limit, `rows` or `time`, at which it was stopped; empty: this is all.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[RdfTerm | None, ...], ...]
    boolean: bool | None = None
    is_graph: bool = False
    cut: str = ""


def _sum_ranges(ranges: Iterable[Range]) -> Range:
    listed = list(ranges)
    return (sum(low for low, _ in listed), sum(high for _, high in listed))
