"""what the session gives -> what a person reads: text, tables and colour, progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from itertools import islice
from typing import TYPE_CHECKING

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
from kumihimo.methods.method_guide import BEST_FOR

if TYPE_CHECKING:
    from rich.console import Console

TraceFunction = Callable[[Evidence], Iterable[Span]]

NO_MODEL = (
    "(No chat model is set, so the documents are quoted word for word."
    ' To connect one: `model = "..."` under [chat] in kumi.toml; see docs/models.md.)'
)
_MAX_COLUMNS = 10_000  # columns for a program, which wraps nothing
_MAX_LISTED = 20
_MAX_TEXT = 300  # characters of a piece of evidence
_MIN_MODULARITY_SHARE = 0.98  # of the modularity of communities found anew: below, it is worth writing reports again
_MAX_EXPLAINED = 8  # pieces of evidence of an answer, that are explained
_MAX_PASSAGES = 3  # passages that are named where none answers


def make_console(*, errors: bool = False) -> Console:
    """Lines are wrapped between words for a person, and left whole for a program. errors: standard error."""
    from rich.console import Console

    class Patient(Console):
        def on_broken_pipe(self) -> None:
            raise  # to the outer door, for whom it is no error

    console = Patient(highlight=False, stderr=errors)
    if not console.is_terminal:
        console.soft_wrap, console.width = True, _MAX_COLUMNS
    return console


def print_error(message: str) -> None:
    """What went wrong, in one line on standard error."""
    if not sys.stderr or not sys.stderr.isatty():
        print(replace_controls(f"kumi: {message}"), file=sys.stderr)
        return
    from rich.text import Text

    make_console(errors=True).print(Text.assemble(("kumi: ", "bold red"), replace_controls(message)), soft_wrap=True)


def is_interactive() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@contextmanager
def progress_bar(enabled: bool = True) -> Iterator[Progress | None]:
    """A bar for each step, with count, rate and time left; on terminals only."""
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
    """A table: coloured and wrapped for a person, in plain columns for a program. figures: columns set to the right."""
    from rich.table import Table
    from rich.text import Text

    console, listed = make_console(), [[Text(replace_controls(said)) for said in row] for row in rows]
    table = Table(box=None, show_header=bool(head), pad_edge=False, header_style="bold")
    for i in range(max(map(len, [head, *listed]))):
        style, name = "" if i else "cyan", head[i] if head else ""
        table.add_column(name, justify="right" if i in numeric else "left", style=style, overflow="fold")
    for row in listed:
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
        print("There is nothing to ask: no file of a kind that is read was found, or none with words in it.")
    if built.skipped:
        some = ", ".join(built.skipped[:3]) + (" ..." if len(built.skipped) > 3 else "")
        print(f"Skipped {len(built.skipped):,} of a kind that is not read: {some}")
    _show_partial(built.partial)
    for what, usage in built.spent.items():
        print(f"Asked for {what}: {_format_usage(usage)}.")
    _show_failures(built.failed)
    if built.skipped_methods:
        names = ",".join(built.skipped_methods)
        print(f"Not built, since it is paid for: {names}. `kumi plan --methods {names}` says what it costs.")
    if built.rule_based:
        named = f"--methods {','.join(built.rule_based)}"
        has = f"`kumi index {named} --recluster` has the chat model make it"
        print(f"The graph is made by rule: {has}, `kumi plan {named}` says what that costs.")
    print(f"Took {built.seconds:.1f} s.")


def _format_count(count: int, things: str) -> str:
    """
    >>> _counted(1, "documents"), _counted(1200, "chunks"), _counted(1, "entities")
    ('1 document', '1,200 chunks', '1 entity')
    """
    one = f"{things[:-3]}y" if things.endswith("ies") else things.removesuffix("s")
    return f"{count:,} {one if count == 1 else things}"


def _show_partial(partly: Sequence[str]) -> None:
    for said in partly[:_MAX_LISTED]:
        print(replace_controls(f"Read in part: {said}"), file=sys.stderr)
    if len(partly) > _MAX_LISTED:
        print(f"Read in part: {len(partly) - _MAX_LISTED:,} more; `kumi status --json` lists them", file=sys.stderr)


def _format_usage(usage: Usage) -> str:
    tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    cost = f", cost {usage.cost:,.4f}" if usage.cost else ""
    return f"{usage.calls:,} {'call' if usage.calls == 1 else 'calls'}, {tokens}{cached}{cost}, {usage.seconds:.1f} s"


def show_removed(built: Built) -> None:
    before, now = built.before.get("documents", 0), built.rows.get("documents", 0)
    print(f"Documents taken out: {before - now:,}; left in the index: {now:,}. Their files stay where they are.")
    _show_failures(built.failed)


def _show_failures(failed: Iterable[tuple[str, str, str]]) -> None:
    """Grouped by what went wrong: a server that is down says the same of everything."""
    groups: dict[tuple[str, str], list[str]] = {}
    for step, maker, error in failed:
        groups.setdefault((step, error), []).append(maker)
    if groups:
        count = sum(map(len, groups.values()))
        print(f"{count:,} failed; `kumi index` tries again:", file=sys.stderr)
        for (step, error), makers in list(groups.items())[:20]:
            which = makers[0] if len(makers) == 1 else f"{len(makers):,} items, such as {makers[0]}"
            print(f"  {step}: {error}" if makers[0] in error else f"  {step} {which}: {error}", file=sys.stderr)
        more = f"{len(groups) - 20:,} more kinds of failure; " if len(groups) > 20 else ""
        if more or count > len(groups):
            print(f"  {more}`kumi status --json` lists them all", file=sys.stderr)


@contextmanager
def print_stream() -> Iterator[TokenCallback]:
    """Prints a text as it comes, on terminals with lines broken between words, or letters of scripts without spaces."""
    console = make_console()
    wrapped = LineWrapper(console.width if console.is_terminal else 0)
    try:
        yield wrapped
    finally:
        wrapped.finish()


def show_sources(answer: Answer, trace: TraceFunction, *, remark: bool = True) -> None:
    """What stands below an answer: its citations, or what was near, and what it cost. remark: that no model is set."""
    console = make_console()
    if not answer.citations and answer.context:
        near = dict.fromkeys(
            format_span(span)
            for item in answer.context.top(_MAX_PASSAGES)
            for span in islice(trace(item), _MAX_PASSAGES)
        )
        console.print("\nThe nearest passages:", *near, sep="\n  ", markup=False, style="dim")
    if answer.citations:
        console.print()
    for citation in answer.citations:
        console.print(f"[{citation.n}] {format_span(citation.span)}", markup=False, style="cyan")
    show_followups(answer)
    remarks = make_console(errors=True)
    if answer.dangling:
        remarks.print(f"(Citations taken out, since they pointed to no source: {answer.dangling}.)", markup=False)
    if answer.model or remark:
        remarks.print(f"({answer.model}: {_format_usage(answer.usage)})" if answer.model else NO_MODEL, markup=False)


def show_followups(answer: Answer) -> None:
    """What one may want to ask next."""
    if answer.followups:
        make_console().print(
            "\nYou could ask next:", *map(replace_controls, answer.followups), sep="\n  ", markup=False
        )


def confirm_rebuild(plan: Plan, changes: Sequence[str]) -> bool:
    """Ask whether to pay again."""
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
        print("No model would be asked: what is wanted is remembered, or costs nothing.")
    else:
        _show_estimates(plan)
    if plan.rule_based:
        named = f"--methods {','.join(plan.rule_based)}"
        print(f"The graph is made by rule: `kumi plan {named}` says what it costs to have the chat model make it.")


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
        print("A ? is not known before some of it was asked: `kumi plan --sample 20` asks about 20 chunks.")
    if not all(e.cost for e in plan.estimates):
        print("Cost needs prices: prompt_price, completion_price under [chat], price under [embedding], [reranking].")


def format_range(much: Range, form: str = "{:,.0f}", unit: str = "") -> str:
    """From ... to ..., or one number."""
    low, high = (form.format(end) for end in much)
    return f"{low}{unit}" if low == high else f"{low}–{high}{unit}"


def format_span(span: Span) -> str:
    """As a person looks it up."""
    place = f"{span.place}, " if span.place else ""
    return replace_controls(f"{span.uri}, {place}characters {span.start:,}–{span.end:,}")


def show_evidence(context: Context, trace: TraceFunction, why: Sequence[Sequence[str]] = ()) -> None:
    """The evidence, best first. why: of each piece, the lines that tell why it was chosen."""
    from rich.padding import Padding
    from rich.text import Text

    console = make_console()
    if not context:
        print("Nothing was found.")
    for rank, item in enumerate(context, 1):
        places = "; ".join(format_span(span) for span in islice(trace(item), _MAX_PASSAGES))
        console.print(f"{rank}. {places}", markup=False, style="cyan")
        console.print(f"   {item.table}:{item.record.id}  score {item.score:.3f}", markup=False, style="dim")
        for line in why[rank - 1] if why else ():
            console.print(Padding(Text(replace_controls(line), style="green"), (0, 0, 0, 3), expand=False))
        console.print(Padding(Text(_shorten(item.text)), (0, 0, 0, 3), expand=False))
        console.print()


def _shorten(text: str) -> str:
    line = replace_controls(" ".join(text.split()))
    return line if len(line) <= _MAX_TEXT else f"{line[: _MAX_TEXT - 1]}…"


def show_reasons(context: Context, trace: TraceFunction, why: Sequence[Sequence[str]]) -> None:
    """Why the best of the evidence was chosen, below an answer."""
    console = make_console()
    console.print("\nWhy these passages:", markup=False)
    for rank, (item, told) in enumerate(zip(context.top(_MAX_EXPLAINED), why, strict=False), 1):
        places = "; ".join(format_span(span) for span in islice(trace(item), _MAX_PASSAGES))
        console.print(f"{rank}. {places}", markup=False, style="cyan")
        for line in told:
            console.print(f"   {replace_controls(line)}", markup=False, style="green")


def show_search_notes(reading: Snapshot, found: Context, where: str) -> None:
    """What the question was taken for, if that decided something; why nothing was found, where index or filter did."""
    if found.query_type:
        print(f"({found.query_type[:1].upper()}{found.query_type[1:]}.)", file=sys.stderr)
    if found:
        return
    if not reading.table(ROOT):
        print("(The index holds no documents: `kumi index PATH` adds some.)", file=sys.stderr)
    elif where and not reading.matching_documents(where):
        print("(No document passes the filter.)", file=sys.stderr)


def show_trace(found: Evidence, spans: Iterable[Span]) -> None:
    console = make_console()
    console.print(f"{found.table}:{found.record.id}", style="bold", markup=False)
    for span in spans:
        console.print(format_span(span), style="cyan", markup=False)
        console.print(replace_controls(span.text) + "\n", markup=False)


def show_status(status: Status) -> None:
    by_rule = [step for step, model in status.models.items() if model == RULES]
    make_console().print(f"Index {status.folder}, {status.bytes / 1e6:.1f} MB", style="bold", markup=False)
    rows = [
        *(("source", name, path) for name, path in status.sources.items()),
        *(("taken out", uri, "") for uri in status.removed),
        *(("table", table, f"{count:,} rows") for table, count in status.rows.items()),
        ("methods", ", ".join(status.methods), ""),
        *(("model", role, model) for role, model in status.models.items() if model != RULES),
        *([("by rule", ", ".join(by_rule), "")] if by_rule else []),
        *(("setting", name, str(value)) for name, value in status.settings.items()),
        ("cache", f"{status.cache['replies']:,} replies", f"{status.cache['bytes'] / 1e6:.1f} MB"),
        *((s.kind, s.scope, f"{s.model}: {_format_usage(s.usage)}") for s in status.spent),
    ]
    if status.modularity:
        now, cold = (f"{each:.3f}" for each in status.modularity)
        rows.append(("communities", f"modularity {now}", f"{cold} if found anew"))
    show_rows(rows)
    if status.levels:
        print()
        show_levels(status.levels)
    if status.modularity and status.modularity[0] < _MIN_MODULARITY_SHARE * status.modularity[1]:
        print("The communities fit less well than new ones would: `kumi index --recluster` finds them anew.")
    _show_partial(status.partial)
    _show_failures(status.failed)


def show_levels(levels: Iterable[CommunityLevel]) -> None:
    """What a question to each level reads."""
    rows = [(level.name, f"{level.units:,}", f"{level.tokens:,}", f"{level.share:.1f} %") for level in levels]
    show_rows(rows, head=("level", "units", "tokens", "of the source"), numeric=range(1, 4))


def show_methods(methods: Mapping[str, Signature], default: str) -> None:
    console = make_console()
    for name, method in methods.items():
        console.print(f"{name}{' (default)' if name == default else ''}", style="bold", markup=False)
        console.print(f"  {method.summary}", markup=False)
        console.print(f"  suits: {BEST_FOR.get(name, '')}", markup=False)
        settings = ", ".join(f"{s.name}={s.default}" for s in method.settings.values())
        console.print(f"  settings: {settings}", style="dim", markup=False)


def show_cache(found: Mapping[str, int]) -> None:
    if "erased" in found:
        print(f"Erased {found['erased']:,} replies.")
        return
    print(f"{found['replies']:,} replies, {found['bytes'] / 1e6:.1f} MB")
    print(f"{found['hits']:,} times it could answer, {found['misses']:,} times a model was asked")
