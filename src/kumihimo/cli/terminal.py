"""results of the library -> text, tables, colour and progress bars for a person."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from itertools import islice
from typing import TYPE_CHECKING

from kumihimo.app.method_guide import BEST_FOR
from kumihimo.app.results import Built, CommunityLevel, Plan, Range, Status
from kumihimo.app.snapshot import Snapshot
from kumihimo.cli.sanitize import replace_controls
from kumihimo.cli.wrapping import LineWrapper
from kumihimo.core.context import Answer, Context, Evidence
from kumihimo.core.signature import Signature
from kumihimo.core.spans import Span
from kumihimo.core.task import Progress
from kumihimo.core.usage import Usage
from kumihimo.core.wiring import ROOT
from kumihimo.llm.protocols import TokenCallback
from kumihimo.llm.registry import RULES

if TYPE_CHECKING:
    from rich.console import Console

TraceFunction = Callable[[Evidence], Iterable[Span]]

NO_MODEL = (
    "(No chat model is set, so the documents are quoted word for word."
    ' To connect one: `model = "..."` under [chat] in kumi.toml; see docs/models.md.)'
)
_MAX_COLUMNS = 10_000  # no wrapping for programs
_MAX_LISTED = 20
_MAX_TEXT = 300  # characters per piece of evidence
_MIN_MODULARITY_SHARE = 0.98  # of the modularity of new communities: below, new reports are worth their cost
_MAX_EXPLAINED = 8  # pieces of evidence below an answer
_MAX_PASSAGES = 3  # per piece of evidence, and without a citation


def make_console(*, errors: bool = False) -> Console:
    """Return a console: wrapped for a terminal, unwrapped for a program.

    errors: on standard error.
    """
    from rich.console import Console

    class PipeConsole(Console):
        def on_broken_pipe(self) -> None:
            raise  # main() treats a closed pipe as success

    console = PipeConsole(highlight=False, stderr=errors)
    if not console.is_terminal:
        console.soft_wrap, console.width = True, _MAX_COLUMNS
    return console


def print_error(message: str) -> None:
    """Print an error as one line on standard error."""
    if not sys.stderr or not sys.stderr.isatty():
        print(replace_controls(f"kumi: {message}"), file=sys.stderr)
        return
    from rich.text import Text

    make_console(errors=True).print(Text.assemble(("kumi: ", "bold red"), replace_controls(message)), soft_wrap=True)


def is_interactive() -> bool:
    """Return whether a person can answer questions."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@contextmanager
def progress_bar(enabled: bool = True) -> Iterator[Progress | None]:
    """Show a bar for each step: count, rate, time left; terminals only."""
    if not enabled or not sys.stderr.isatty():
        yield None
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[rate]}"),
        bars.TimeRemainingColumn(),
    )
    bar = bars.Progress(*columns, console=Console(stderr=True), transient=True)
    tasks: dict[str, bars.TaskID] = {}
    try:

        def show(step: str, done: int, total: int) -> None:
            if not tasks:
                bar.start()
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=total, rate="")
            speed = bar.tasks[tasks[step]].speed
            bar.update(tasks[step], completed=done, total=total, rate=f"{speed:,.0f}/s" if speed else "")

        yield show
    finally:
        bar.stop()


def show_rows(rows: Iterable[Sequence[str]], head: Sequence[str] = (), numeric: Container[int] = ()) -> None:
    """Print a table: coloured and wrapped for a person, plain otherwise.

    numeric: the columns to align right.
    """
    from rich.table import Table
    from rich.text import Text

    console, cells = make_console(), [[Text(replace_controls(value)) for value in row] for row in rows]
    table = Table(box=None, show_header=bool(head), pad_edge=False, header_style="bold")
    for i in range(max(map(len, [head, *cells]))):
        style, name = "" if i else "cyan", head[i] if head else ""
        table.add_column(name, justify="right" if i in numeric else "left", style=style, overflow="fold")
    for row in cells:
        table.add_row(*row)
    with console.capture() as captured:
        console.print(table, soft_wrap=False)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def show_built(built: Built) -> None:
    print(f"Files: {built.read:,} read, {built.unchanged:,} unchanged, {built.removed:,} gone.")
    for table, count in built.rows.items():
        written = built.written.get(table, 0)
        if count or written or table in ("documents", "chunks"):
            print(f"The index holds {_format_count(count, table)}, {written:,} of them new or changed.")
    if not built.rows.get("documents"):
        print("There is nothing to search: no file of a supported type has any text.")
    if built.skipped:
        examples = ", ".join(built.skipped[:3]) + (" ..." if len(built.skipped) > 3 else "")
        print(f"Skipped {len(built.skipped):,} of unsupported types: {examples}")
    _show_partial(built.partial)
    for purpose, usage in built.spent.items():
        print(f"Asked for {purpose}: {_format_usage(usage)}.")
    _show_failures(built.failed)
    if built.skipped_methods:
        names = ",".join(built.skipped_methods)
        print(f"Not built, because it costs model calls: {names}. `kumi plan --methods {names}` estimates the cost.")
    if built.rule_based:
        option = f"--methods {','.join(built.rule_based)}"
        remedy = f"`kumi index {option} --recluster` builds it with the chat model"
        print(f"The graph is built by rules: {remedy}, `kumi plan {option}` estimates the cost.")
    print(f"Took {built.seconds:.1f} s.")


def _format_count(count: int, noun: str) -> str:
    """Return a count with its noun, in the singular for one.

    >>> _format_count(1, "documents"), _format_count(1200, "chunks"), _format_count(1, "entities")
    ('1 document', '1,200 chunks', '1 entity')
    """
    singular = f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")
    return f"{count:,} {singular if count == 1 else noun}"


def _show_partial(messages: Sequence[str]) -> None:
    for message in messages[:_MAX_LISTED]:
        print(replace_controls(f"Read in part: {message}"), file=sys.stderr)
    if len(messages) > _MAX_LISTED:
        print(f"Read in part: {len(messages) - _MAX_LISTED:,} more; `kumi status --json` lists them", file=sys.stderr)


def _format_usage(usage: Usage) -> str:
    tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    cost = f", cost {usage.cost:,.4f}" if usage.cost else ""
    return f"{usage.calls:,} {'call' if usage.calls == 1 else 'calls'}, {tokens}{cached}{cost}, {usage.seconds:.1f} s"


def show_removed(built: Built) -> None:
    before, now = built.before.get("documents", 0), built.rows.get("documents", 0)
    print(f"Documents removed: {before - now:,}; left in the index: {now:,}. The files themselves are unchanged.")
    _show_failures(built.failed)


def _show_failures(failed: Iterable[tuple[str, str, str]]) -> None:
    """Print failures grouped by error: one dead server fails everything alike."""
    groups: dict[tuple[str, str], list[str]] = {}
    for step, item, error in failed:
        groups.setdefault((step, error), []).append(item)
    if groups:
        count = sum(map(len, groups.values()))
        print(f"{count:,} failed; `kumi index` tries again:", file=sys.stderr)
        for (step, error), items in list(groups.items())[:20]:
            label = items[0] if len(items) == 1 else f"{len(items):,} items, such as {items[0]}"
            print(f"  {step}: {error}" if items[0] in error else f"  {step} {label}: {error}", file=sys.stderr)
        hidden = f"{len(groups) - 20:,} more kinds of failure; " if len(groups) > 20 else ""
        if hidden or count > len(groups):
            print(f"  {hidden}`kumi status --json` lists them all", file=sys.stderr)


@contextmanager
def print_stream() -> Iterator[TokenCallback]:
    """Print a text as it arrives, wrapped between words on a terminal."""
    console = make_console()
    writer = LineWrapper(console.width if console.is_terminal else 0)
    try:
        yield writer
    finally:
        writer.finish()


def show_sources(answer: Answer, trace: TraceFunction, *, remark: bool = True) -> None:
    """Print an answer's citations, or the nearest passages, and its cost.

    remark: mention a missing chat model.
    """
    console = make_console()
    if not answer.citations and answer.context:
        passages = dict.fromkeys(
            format_span(span)
            for item in answer.context.top(_MAX_PASSAGES)
            for span in islice(trace(item), _MAX_PASSAGES)
        )
        console.print("\nThe nearest passages:", *passages, sep="\n  ", markup=False, style="dim")
    if answer.citations:
        console.print()
    for citation in answer.citations:
        console.print(f"[{citation.n}] {format_span(citation.span)}", markup=False, style="cyan")
    show_followups(answer)
    remarks = make_console(errors=True)
    if answer.dangling:
        remarks.print(f"(Citations removed because they matched no source: {answer.dangling}.)", markup=False)
    if answer.model or remark:
        remarks.print(f"({answer.model}: {_format_usage(answer.usage)})" if answer.model else NO_MODEL, markup=False)


def show_followups(answer: Answer) -> None:
    """Print the follow-up questions."""
    if answer.followups:
        make_console().print(
            "\nYou could ask next:", *map(replace_controls, answer.followups), sep="\n  ", markup=False
        )


def confirm_rebuild(plan: Plan, changes: Sequence[str]) -> bool:
    """Show the changes and their cost; return whether to pay again."""
    print("\n".join(f"{change[0].upper()}{change[1:]}." for change in changes), file=sys.stderr)
    with redirect_stdout(sys.stderr):
        show_plan(plan)
    return confirm()


def confirm() -> bool:
    """Ask whether to go on."""
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def show_plan(plan: Plan) -> None:
    if not plan.estimates and not plan.unknown:
        print("No model calls are needed: everything is cached or free.")
    else:
        _show_estimates(plan)
    if plan.rule_based:
        option = f"--methods {','.join(plan.rule_based)}"
        print(f"The graph is built by rules: `kumi plan {option}` estimates building it with the chat model.")


def _show_estimates(plan: Plan) -> None:
    rows = [("step", "model", "calls", "prompt tokens", "reply tokens", "cost", "time")]
    for e in plan.estimates:
        tokens = (format_range(e.prompt_tokens), format_range(e.completion_tokens))
        time = format_range(e.seconds, "{:,.0f}", " s") if e.seconds else "?"
        cost = format_range(e.cost, "{:,.4f}") if e.cost else "?"
        rows.append((e.step, e.model, format_range(e.calls), *tokens, cost, time))
    rows += [(step, "", "?", "?", "?", "?", "?") for step in plan.unknown]
    show_rows(rows[1:], head=rows[0], numeric=range(2, 7))
    if plan.unknown:
        print("? means unknown without a sample: `kumi plan --sample 20` calls the model for 20 chunks.")
    if not all(e.cost for e in plan.estimates):
        print("Cost needs prices: prompt_price, completion_price under [chat], price under [embedding], [reranking].")


def format_range(bounds: Range, form: str = "{:,.0f}", unit: str = "") -> str:
    """Return `low–high`, or one number if both are equal."""
    low, high = (form.format(end) for end in bounds)
    return f"{low}{unit}" if low == high else f"{low}–{high}{unit}"


def format_span(span: Span) -> str:
    """Return the location of a span: file, place, characters."""
    location = f"{span.place}, " if span.place else ""
    return replace_controls(f"{span.uri}, {location}characters {span.start:,}–{span.end:,}")


def show_evidence(context: Context, trace: TraceFunction, explanations: Sequence[Sequence[str]] = ()) -> None:
    """Print the evidence, best first.

    explanations: the lines that explain each piece.
    """
    from rich.padding import Padding
    from rich.text import Text

    console = make_console()
    if not context:
        print("Nothing was found.")
    for rank, item in enumerate(context, 1):
        places = "; ".join(format_span(span) for span in islice(trace(item), _MAX_PASSAGES))
        console.print(f"{rank}. {places}", markup=False, style="cyan")
        console.print(f"   {item.table}:{item.record.id}  score {item.score:.3f}", markup=False, style="dim")
        for line in explanations[rank - 1] if explanations else ():
            console.print(Padding(Text(replace_controls(line), style="green"), (0, 0, 0, 3), expand=False))
        console.print(Padding(Text(_shorten(item.text)), (0, 0, 0, 3), expand=False))
        console.print()


def _shorten(text: str) -> str:
    line = replace_controls(" ".join(text.split()))
    return line if len(line) <= _MAX_TEXT else f"{line[: _MAX_TEXT - 1]}…"


def show_reasons(context: Context, trace: TraceFunction, explanations: Sequence[Sequence[str]]) -> None:
    """Print the reasons for the best evidence below an answer."""
    console = make_console()
    console.print("\nWhy these passages:", markup=False)
    for rank, (item, sentences) in enumerate(zip(context.top(_MAX_EXPLAINED), explanations, strict=False), 1):
        places = "; ".join(format_span(span) for span in islice(trace(item), _MAX_PASSAGES))
        console.print(f"{rank}. {places}", markup=False, style="cyan")
        for line in sentences:
            console.print(f"   {replace_controls(line)}", markup=False, style="green")


def show_search_notes(snapshot: Snapshot, context: Context, filter: str) -> None:
    """Print the query type; say why an index or filter found nothing."""
    if context.query_type:
        print(f"({context.query_type[:1].upper()}{context.query_type[1:]}.)", file=sys.stderr)
    if context:
        return
    if not snapshot.table(ROOT):
        print("(The index holds no documents: `kumi index PATH` adds some.)", file=sys.stderr)
    elif filter and not snapshot.matching_documents(filter):
        print("(No document passes the filter.)", file=sys.stderr)


def show_trace(row: Evidence, spans: Iterable[Span]) -> None:
    console = make_console()
    console.print(f"{row.table}:{row.record.id}", style="bold", markup=False)
    for span in spans:
        console.print(format_span(span), style="cyan", markup=False)
        console.print(replace_controls(span.text) + "\n", markup=False)


def show_status(status: Status) -> None:
    by_rule = [step for step, model in status.models.items() if model == RULES]
    make_console().print(f"Index {status.folder}, {status.bytes / 1e6:.1f} MB", style="bold", markup=False)
    rows = [
        *(("source", name, path) for name, path in status.sources.items()),
        *(("removed", uri, "") for uri in status.removed),
        *(("table", table, f"{count:,} rows") for table, count in status.rows.items()),
        ("methods", ", ".join(status.methods), ""),
        *(("model", role, model) for role, model in status.models.items() if model != RULES),
        *([("by rule", ", ".join(by_rule), "")] if by_rule else []),
        *(("setting", name, str(value)) for name, value in status.settings.items()),
        ("cache", f"{status.cache['replies']:,} replies", f"{status.cache['bytes'] / 1e6:.1f} MB"),
        *((entry.kind, entry.scope, f"{entry.model}: {_format_usage(entry.usage)}") for entry in status.spent),
    ]
    if status.modularity:
        current, fresh = (f"{value:.3f}" for value in status.modularity)
        rows.append(("communities", f"modularity {current}", f"{fresh} if detected anew"))
    show_rows(rows)
    if status.levels:
        print()
        show_levels(status.levels)
    if status.modularity and status.modularity[0] < _MIN_MODULARITY_SHARE * status.modularity[1]:
        print("New communities would fit better: `kumi index --recluster` detects them from scratch.")
    _show_partial(status.partial)
    _show_failures(status.failed)


def show_levels(levels: Iterable[CommunityLevel]) -> None:
    """Print what a question to each community level reads."""
    rows = [(level.name, f"{level.units:,}", f"{level.tokens:,}", f"{level.share:.1f} %") for level in levels]
    show_rows(rows, head=("level", "units", "tokens", "of the source"), numeric=range(1, 4))


def show_methods(methods: Mapping[str, Signature], default: str) -> None:
    console = make_console()
    for name, method in methods.items():
        console.print(f"{name}{' (default)' if name == default else ''}", style="bold", markup=False)
        console.print(f"  {method.summary}", markup=False)
        console.print(f"  suits: {BEST_FOR.get(name, '')}", markup=False)
        settings = ", ".join(f"{setting.name}={setting.default}" for setting in method.settings.values())
        console.print(f"  settings: {settings}", style="dim", markup=False)


def show_cache(stats: Mapping[str, int]) -> None:
    if "erased" in stats:
        print(f"Erased {stats['erased']:,} replies.")
        return
    print(f"{stats['replies']:,} replies, {stats['bytes'] / 1e6:.1f} MB")
    print(f"{stats['hits']:,} hits, {stats['misses']:,} misses")
