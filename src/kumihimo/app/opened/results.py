"""commands -> Built, Plan, Status, Solutions: results for display."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kumihimo.core.usage import Usage
from kumihimo.storage.response_cache import UsageEntry as UsageEntry

Range = tuple[float, float]  # minimum, maximum
Strings = str | Sequence[str] | None  # of one text, or of each
Fields = Mapping[str, object]  # of a text


@dataclass(frozen=True, slots=True)
class BatchState:
    """The requests of a build that go through batches.

    wave: the number of the batch that was submitted last; each needs the replies of the one before. collected: replies
    that have arrived. failed: (step, error) of requests that a batch has not answered. submitted: requests of a new
    batch; estimates: its cost. capped: requests that a cap has held back. waiting: requests without a reply yet. jobs:
    the id, the state, and the finished and all requests of each batch. methods: named for the build that waits.
    """

    wave: int = 0
    collected: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    submitted: int = 0
    capped: int = 0
    waiting: int = 0
    jobs: tuple[tuple[str, str, int, int], ...] = ()
    estimates: tuple["Estimate", ...] = ()
    methods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Built:
    """The result of a build.

    read, unchanged, removed, skipped: files; skipped ones have an unsupported type. new, changed: of the files
    read, those that the index did not hold, and those whose text or metadata differ. partial: files read in part, such
    as pages without text, or attachments. empty: files that hold no text. before, rows: rows of each table, before and
    now; written: new or changed rows. failed: (step, item, error). spent, saved: usage of each step, paid and saved by
    the cache. skipped_methods: paid methods that the user has not requested. rule_based: methods to name for a graph
    made by the chat model; rules have made it, though there is a model. batch: of a build that waits for batches, or
    has collected some; while requests wait, the index stays as it was.
    unmatched: lines of aliases.txt that are about nothing in the index.
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
    empty: tuple[str, ...] = ()
    new: int = 0
    changed: int = 0
    batch: BatchState | None = None
    unmatched: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated requests of one step.

    exact: the number of calls is known; otherwise all numbers are ranges. cost: None without prices.
    """

    step: str
    model: str
    exact: bool
    calls: Range
    prompt_tokens: Range
    completion_tokens: Range
    cost: Range | None
    seconds: Range


@dataclass(frozen=True, slots=True)
class LocalWork:
    """The estimated work of an embedding model inside this process.

    cpu_seconds: of one processor, at the speed just measured on this machine.
    """

    model: str
    texts: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of estimates: of a build, or of a method that is built alone.

    tokens: of prompts and replies. cost: None unless each model has prices. seconds: of one step after the other.
    """

    name: str
    calls: Range
    tokens: Range
    cost: Range | None
    seconds: Range

    @classmethod
    def of(cls, name: str, estimates: Sequence[Estimate]) -> "Total":
        """Return the sum of these estimates."""
        costs = [estimate.cost for estimate in estimates if estimate.cost]
        return cls(
            name,
            sum_ranges(e.calls for e in estimates),
            sum_ranges(tokens for e in estimates for tokens in (e.prompt_tokens, e.completion_tokens)),
            sum_ranges(costs) if len(costs) == len(estimates) else None,
            sum_ranges(e.seconds for e in estimates),
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The estimated cost of a build or of a question.

    total: of all estimates. methods: of each method if it were built alone; they share steps, so that their sum is more
    than the total. rule_based: methods to name for the cost of a graph made by the chat model.
    """

    estimates: tuple[Estimate, ...]
    methods: tuple[Total, ...] = ()
    rule_based: tuple[str, ...] = ()
    local_work: LocalWork | None = None
    total: Total = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", Total.of("total", self.estimates))

    @property
    def calls(self) -> Range:
        return self.total.calls

    @property
    def cost(self) -> Range | None:
        return self.total.cost


@dataclass(frozen=True, slots=True)
class CommunityLevel:
    """A community level or the source, with its size in tokens.

    name: C0 is the uppermost level, TS the source. units: reports or chunks.
    """

    name: str
    units: int
    tokens: int
    share: float  # of the tokens of the source, in percent


@dataclass(frozen=True, slots=True)
class Status:
    """The contents and state of an index."""

    folder: str
    sources: Mapping[str, str]  # name -> path
    removed: tuple[str, ...]  # uris removed from a source
    rows: Mapping[str, int]
    methods: tuple[str, ...]
    models: Mapping[str, str]
    settings: Mapping[str, object]  # non-default step settings of the last build
    failed: tuple[tuple[str, str, str], ...]
    bytes: int
    cache: Mapping[str, int] = field(default_factory=dict)
    partial: tuple[str, ...] = ()  # documents read in part, with the reasons
    spent: tuple[UsageEntry, ...] = ()  # spent, and saved by the cache: by step, method and role
    modularity: tuple[float, float] | None = None  # of the current communities, and of recomputed ones
    levels: tuple[CommunityLevel, ...] = ()  # on request
    changed_reports: int = 0  # reports with changes since they were written
    missing: Mapping[str, str] = field(default_factory=dict)  # methods and steps that are gone, and who offered them
    waiting: int = 0  # requests in batches
    fields: Mapping[str, int] = field(default_factory=dict)  # of filters -> documents that have it
    unmatched: tuple[str, ...] = ()  # lines of aliases.txt that are about nothing in the index


@dataclass(frozen=True, slots=True)
class RdfTerm:
    """An RDF term.

    kind: uri, literal or bnode. datatype: an IRI; empty: a text.
    """

    value: str
    kind: str
    language: str = ""
    datatype: str = ""


@dataclass(frozen=True, slots=True)
class Solutions:
    """The result of a SPARQL query.

    rows: a term, or None, for each column. boolean: the result of ASK. is_graph: the rows are triples, of CONSTRUCT or
    DESCRIBE. cut: the limit that stopped it, `rows` or `time`; empty: complete.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[RdfTerm | None, ...], ...]
    boolean: bool | None = None
    is_graph: bool = False
    cut: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A damaged part of an index.

    part: tables, words_X or vectors_X of a table, triples, or cache. remedy: what you can do.
    """

    file: str
    part: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The damage in the files of an index.

    problems: the damage that is left. repaired: the damage that was repaired.
    """

    problems: tuple[Problem, ...]
    repaired: tuple[Problem, ...] = ()


def sum_ranges(ranges: Iterable[Range]) -> Range:
    """Return the sum of all minima, and of all maxima."""
    pairs = list(ranges)
    return (sum(low for low, _ in pairs), sum(high for _, high in pairs))


Consent = Callable[[Plan, Sequence[str]], bool]  # plan, descriptions of paid changes -> whether to continue
