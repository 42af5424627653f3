"""what the session gives -> what a person reads: text, tables and colour, progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from itertools import islice
from typing import TYPE_CHECKING

from kumihimo.app.results import Built, Level, Plan, Range, Status
from kumihimo.app.snapshot import Reading
from kumihimo.cli.sanitize import harmless
from kumihimo.cli.wrapping import Wrapped
from kumihimo.core.context import Answer, Context, Evidence
from kumihimo.core.signature import Signature
from kumihimo.core.spans import Span
from kumihimo.core.task import Progress
from kumihimo.core.usage import Usage
from kumihimo.core.wiring import ROOT
from kumihimo.llm.protocols import Hear
from kumihimo.llm.registry import RULES
from kumihimo.methods.method_guide import SUITS

if TYPE_CHECKING:
    from rich.console import Console

Trace = Callable[[Evidence], Iterable[Span]]

NO_MODEL = (
    "(No chat model is set, so the documents are quoted word for word."
    ' To connect one: `model = "..."` under [chat] in kumi.toml; see docs/models.md.)'
)
_WIDEST = 10_000  # columns for a program, which wraps nothing
_LISTED = 20
_SHOWN = 300  # characters of a piece of evidence
_WORTH = 0.98  # of the modularity of communities found anew: below, it is worth writing reports again
_EXPLAINED = 8  # pieces of evidence of an answer, that are explained
_NEAR = 3  # passages that are named where none answers


def _console(*, errors: bool = False) -> Console:
    """Lines are wrapped between words for a person, and left whole for a program. errors: standard error."""
    from rich.console import Console

    class Patient(Console):
        def on_broken_pipe(self) -> None:
            raise  # to the outer door, for whom it is no error

    console = Patient(highlight=False, stderr=errors)
    if not console.is_terminal:
        console.soft_wrap, console.width = True, _WIDEST
    return console


def complain(message: str) -> None:
    """What went wrong, in one line on standard error."""
    if not sys.stderr or not sys.stderr.isatty():
        print(harmless(f"kumi: {message}"), file=sys.stderr)
        return
    from rich.text import Text

    _console(errors=True).print(Text.assemble(("kumi: ", "bold red"), harmless(message)), soft_wrap=True)


def is_person() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@contextmanager
def progress(shown: bool = True) -> Iterator[Progress | None]:
    """A bar for each step, with count, rate and time left; on terminals only."""
    if not shown or not sys.stderr.isatty():
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


def show_rows(rows: Iterable[Sequence[str]], head: Sequence[str] = (), figures: Container[int] = ()) -> None:
    """A table: coloured and wrapped for a person, in plain columns for a program. figures: columns set to the right."""
    from rich.table import Table
    from rich.text import Text

    console, listed = _console(), [[Text(harmless(said)) for said in row] for row in rows]
    table = Table(box=None, show_header=bool(head), pad_edge=False, header_style="bold")
    for i in range(max(map(len, [head, *listed]))):
        style, name = "" if i else "cyan", head[i] if head else ""
        table.add_column(name, justify="right" if i in figures else "left", style=style, overflow="fold")
    for row in listed:
        table.add_row(*row)
    with console.capture() as captured:
        console.print(table, soft_wrap=False)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def show_built(built: Built) -> None:
    print(f"Files: {built.read:,} read, {built.same:,} unchanged, {built.gone:,} gone.")
    for table, count in built.rows.items():
        written = built.written.get(table, 0)
        if count or written or table in ("documents", "chunks"):
            print(f"The index holds {_counted(count, table)}, {written:,} of them new or changed.")
    if not built.rows.get("documents"):
        print("There is nothing to ask: no file of a kind that is read was found, or none with words in it.")
    if built.skipped:
        some = ", ".join(built.skipped[:3]) + (" ..." if len(built.skipped) > 3 else "")
        print(f"Skipped {len(built.skipped):,} of a kind that is not read: {some}")
    _show_partly(built.partly)
    for what, usage in built.spent.items():
        print(f"Asked for {what}: {_used(usage)}.")
    _show_failed(built.failed)
    if built.left:
        names = ",".join(built.left)
        print(f"Not built, since it is paid for: {names}. `kumi plan --methods {names}` says what it costs.")
    if built.ruled:
        named = f"--methods {','.join(built.ruled)}"
        has = f"`kumi index {named} --regroup` has the chat model make it"
        print(f"The graph is made by rule: {has}, `kumi plan {named}` says what that costs.")
    print(f"Took {built.seconds:.1f} s.")


def _counted(count: int, things: str) -> str:
    """
    >>> _counted(1, "documents"), _counted(1200, "chunks"), _counted(1, "entities")
    ('1 document', '1,200 chunks', '1 entity')
    """
    one = f"{things[:-3]}y" if things.endswith("ies") else things.removesuffix("s")
    return f"{count:,} {one if count == 1 else things}"


def _show_partly(partly: Sequence[str]) -> None:
    for said in partly[:_LISTED]:
        print(harmless(f"Read in part: {said}"), file=sys.stderr)
    if len(partly) > _LISTED:
        print(f"Read in part: {len(partly) - _LISTED:,} more; `kumi status --json` lists them", file=sys.stderr)


def _used(usage: Usage) -> str:
    tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    cost = f", cost {usage.cost:,.4f}" if usage.cost else ""
    return f"{usage.calls:,} {'call' if usage.calls == 1 else 'calls'}, {tokens}{cached}{cost}, {usage.seconds:.1f} s"


def show_removed(built: Built) -> None:
    before, now = built.before.get("documents", 0), built.rows.get("documents", 0)
    print(f"Documents taken out: {before - now:,}; left in the index: {now:,}. Their files stay where they are.")
    _show_failed(built.failed)


def _show_failed(failed: Iterable[tuple[str, str, str]]) -> None:
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
def speech() -> Iterator[Hear]:
    """Prints a text as it comes, on terminals with lines broken between words, or letters of scripts without spaces."""
    console = _console()
    wrapped = Wrapped(console.width if console.is_terminal else 0)
    try:
        yield wrapped
    finally:
        wrapped.end()


def show_sources(answer: Answer, trace: Trace, *, remark: bool = True) -> None:
    """What stands below an answer: its citations, or what was near, and what it cost. remark: that no model is set."""
    console = _console()
    if not answer.citations and answer.context:
        near = dict.fromkeys(where(span) for item in answer.context.top(_NEAR) for span in islice(trace(item), _NEAR))
        console.print("\nThe nearest passages:", *near, sep="\n  ", markup=False, style="dim")
    if answer.citations:
        console.print()
    for citation in answer.citations:
        console.print(f"[{citation.n}] {where(citation.span)}", markup=False, style="cyan")
    show_suggested(answer)
    remarks = _console(errors=True)
    if answer.dangling:
        remarks.print(f"(Citations taken out, since they pointed to no source: {answer.dangling}.)", markup=False)
    if answer.model or remark:
        remarks.print(f"({answer.model}: {_used(answer.usage)})" if answer.model else NO_MODEL, markup=False)


def show_suggested(answer: Answer) -> None:
    """What one may want to ask next."""
    if answer.suggested:
        _console().print("\nYou could ask next:", *map(harmless, answer.suggested), sep="\n  ", markup=False)


def agree(plan: Plan, changes: Sequence[str]) -> bool:
    """Ask whether to pay again."""
    print("\n".join(f"{change[0].upper()}{change[1:]}." for change in changes), file=sys.stderr)
    with redirect_stdout(sys.stderr):
        show_plan(plan)
    return go_on()


def go_on() -> bool:
    """Ask whether to go on."""
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def show_plan(plan: Plan) -> None:
    if not plan.estimates and not plan.unknown:
        print("No model would be asked: what is wanted is remembered, or costs nothing.")
    else:
        _show_estimates(plan)
    if plan.ruled:
        named = f"--methods {','.join(plan.ruled)}"
        print(f"The graph is made by rule: `kumi plan {named}` says what it costs to have the chat model make it.")


def _show_estimates(plan: Plan) -> None:
    rows = [("step", "model", "calls", "prompt tokens", "reply tokens", "cost", "time")]
    for e in plan.estimates:
        tokens = (ranged(e.prompt_tokens), ranged(e.completion_tokens))
        time = ranged(e.seconds, "{:,.0f}", " s") if e.seconds else "?"
        cost = ranged(e.cost, "{:,.4f}") if e.cost else "?"
        rows.append((e.step, e.model, ranged(e.calls), *tokens, cost, time))
    rows += [(step, "", "?", "?", "?", "?", "?") for step in plan.unknown]
    show_rows(rows[1:], head=rows[0], figures=range(2, 7))
    if plan.unknown:
        print("A ? is not known before some of it was asked: `kumi plan --sample 20` asks about 20 chunks.")
    if not all(e.cost for e in plan.estimates):
        print("Cost needs prices: prompt_price, completion_price under [chat], price under [embedding], [reranking].")


def ranged(much: Range, form: str = "{:,.0f}", unit: str = "") -> str:
    """From ... to ..., or one number."""
    low, high = (form.format(end) for end in much)
    return f"{low}{unit}" if low == high else f"{low}–{high}{unit}"


def where(span: Span) -> str:
    """As a person looks it up."""
    place = f"{span.place}, " if span.place else ""
    return harmless(f"{span.uri}, {place}characters {span.start:,}–{span.end:,}")


def show_evidence(context: Context, trace: Trace, why: Sequence[Sequence[str]] = ()) -> None:
    """The evidence, best first. why: of each piece, the lines that tell why it was chosen."""
    from rich.padding import Padding
    from rich.text import Text

    console = _console()
    if not context:
        print("Nothing was found.")
    for rank, item in enumerate(context, 1):
        places = "; ".join(where(span) for span in islice(trace(item), _NEAR))
        console.print(f"{rank}. {places}", markup=False, style="cyan")
        console.print(f"   {item.table}:{item.record.id}  score {item.score:.3f}", markup=False, style="dim")
        for line in why[rank - 1] if why else ():
            console.print(Padding(Text(harmless(line), style="green"), (0, 0, 0, 3), expand=False))
        console.print(Padding(Text(_short(item.text)), (0, 0, 0, 3), expand=False))
        console.print()


def _short(text: str) -> str:
    line = harmless(" ".join(text.split()))
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def show_why(context: Context, trace: Trace, why: Sequence[Sequence[str]]) -> None:
    """Why the best of the evidence was chosen, below an answer."""
    console = _console()
    console.print("\nWhy these passages:", markup=False)
    for rank, (item, told) in enumerate(zip(context.top(_EXPLAINED), why, strict=False), 1):
        places = "; ".join(where(span) for span in islice(trace(item), _NEAR))
        console.print(f"{rank}. {places}", markup=False, style="cyan")
        for line in told:
            console.print(f"   {harmless(line)}", markup=False, style="green")


def explain(reading: Reading, found: Context, where: str) -> None:
    """What the question was taken for, if that decided something; why nothing was found, where index or filter did."""
    if found.decided:
        print(f"({found.decided[:1].upper()}{found.decided[1:]}.)", file=sys.stderr)
    if found:
        return
    if not reading.table(ROOT):
        print("(The index holds no documents: `kumi index PATH` adds some.)", file=sys.stderr)
    elif where and not reading.passing(where):
        print("(No document passes the filter.)", file=sys.stderr)


def show_trace(found: Evidence, spans: Iterable[Span]) -> None:
    console = _console()
    console.print(f"{found.table}:{found.record.id}", style="bold", markup=False)
    for span in spans:
        console.print(where(span), style="cyan", markup=False)
        console.print(harmless(span.text) + "\n", markup=False)


def show_status(status: Status) -> None:
    by_rule = [step for step, model in status.models.items() if model == RULES]
    _console().print(f"Index {status.folder}, {status.bytes / 1e6:.1f} MB", style="bold", markup=False)
    rows = [
        *(("source", name, path) for name, path in status.sources.items()),
        *(("taken out", uri, "") for uri in status.removed),
        *(("table", table, f"{count:,} rows") for table, count in status.rows.items()),
        ("methods", ", ".join(status.methods), ""),
        *(("model", role, model) for role, model in status.models.items() if model != RULES),
        *([("by rule", ", ".join(by_rule), "")] if by_rule else []),
        *(("setting", name, str(value)) for name, value in status.settings.items()),
        ("memo", f"{status.memo['replies']:,} replies", f"{status.memo['bytes'] / 1e6:.1f} MB"),
        *((s.kind, s.scope, f"{s.model}: {_used(s.usage)}") for s in status.spent),
    ]
    if status.modularity:
        now, cold = (f"{each:.3f}" for each in status.modularity)
        rows.append(("communities", f"modularity {now}", f"{cold} if found anew"))
    show_rows(rows)
    if status.levels:
        print()
        show_levels(status.levels)
    if status.modularity and status.modularity[0] < _WORTH * status.modularity[1]:
        print("The communities fit less well than new ones would: `kumi index --regroup` finds them anew.")
    _show_partly(status.partly)
    _show_failed(status.failed)


def show_levels(levels: Iterable[Level]) -> None:
    """What a question to each level reads."""
    rows = [(level.name, f"{level.units:,}", f"{level.tokens:,}", f"{level.share:.1f} %") for level in levels]
    show_rows(rows, head=("level", "units", "tokens", "of the source"), figures=range(1, 4))


def show_methods(methods: Mapping[str, Signature], default: str) -> None:
    console = _console()
    for name, method in methods.items():
        console.print(f"{name}{' (default)' if name == default else ''}", style="bold", markup=False)
        console.print(f"  {method.summary}", markup=False)
        console.print(f"  suits: {SUITS.get(name, '')}", markup=False)
        settings = ", ".join(f"{s.name}={s.default}" for s in method.settings.values())
        console.print(f"  settings: {settings}", style="dim", markup=False)


def show_memo(found: Mapping[str, int]) -> None:
    if "erased" in found:
        print(f"Erased {found['erased']:,} replies.")
        return
    print(f"{found['replies']:,} replies, {found['bytes'] / 1e6:.1f} MB")
    print(f"{found['hits']:,} times it could answer, {found['misses']:,} times a model was asked")
