"""results of the library -> text and tables for a person."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from itertools import islice
from pathlib import PurePosixPath

from kumihimo.app.check import CheckResult
from kumihimo.app.explanations import Reason
from kumihimo.app.results import Built, CommunityLevel, Plan, Range, Status
from kumihimo.app.snapshot import Snapshot
from kumihimo.app.trust import TrustRequired
from kumihimo.cli import printing
from kumihimo.core.context import Answer, Context, Evidence
from kumihimo.core.signature import Signature
from kumihimo.core.spans import Span
from kumihimo.core.usage import Usage
from kumihimo.core.wiring import ROOT
from kumihimo.llm.registry import RULES
from kumihimo.text.sentences import shorten_line

TraceFunction = Callable[[Evidence], Iterable[Span]]

NO_MODEL = (
    "(No chat model is set, so the documents are quoted word for word."
    ' To connect one: `model = "..."` under [chat] in kumi.toml; see docs/models.md.)'
)
_MAX_LISTED = 20
_MAX_EMPTY = 5  # names of files without text
_MAX_SUFFIX = 12  # characters of a type
_MAX_TITLE = 40
_MAX_TEXT = 300  # characters per piece of evidence
_MIN_MODULARITY_SHARE = 0.98  # of the modularity of new communities: below, new reports are worth their cost
_MAX_EXPLAINED = 8  # pieces of evidence below an answer
_MAX_PASSAGES = 3  # per piece of evidence, and without a citation


# -- builds and their cost


def show_built(built: Built) -> None:
    printing.print_text(f"Files: {built.read:,} read, {built.unchanged:,} unchanged, {built.removed:,} gone.")
    for table, count in built.rows.items():
        written = built.written.get(table, 0)
        if count or written or table in ("documents", "chunks"):
            printing.print_text(f"The index holds {_format_count(count, table)}, {written:,} of them new or changed.")
    if not built.rows.get("documents"):
        printing.print_text("There is nothing to search: no file of a supported type has any text.")
    _show_unread(built)
    for purpose, usage in built.spent.items():
        printing.print_text(f"Asked for {purpose}: {_format_usage(usage)}.")
    _show_failures(built.failed)
    if built.skipped_methods:
        names = ",".join(built.skipped_methods)
        printing.print_text(
            f"Not built, because it costs model calls: {names}. `kumi plan --methods {names}` estimates the cost."
        )
    if built.rule_based:
        option = f"--methods {','.join(built.rule_based)}"
        remedy = f"`kumi index {option} --recluster` builds it with the chat model"
        printing.print_text(f"The graph is built by rules: {remedy}, `kumi plan {option}` estimates the cost.")
    printing.print_text(f"Took {built.seconds:.1f} s.")


def _count_types(uris: Iterable[str]) -> str:
    """Return the types of files with their numbers, most frequent first.

    >>> _count_types(["a/b.DOC", "c.ppt", "d.doc", "v1.0/README"])
    '.doc 2, .ppt 1, no suffix 1'
    """
    counts = Counter(PurePosixPath(uri).suffix.lower()[:_MAX_SUFFIX] or "no suffix" for uri in uris)
    listed = sorted(counts.items(), key=lambda item: (-item[1], item[0] == "no suffix", item[0]))
    parts = [f"{suffix} {count:,}" for suffix, count in listed[:_MAX_LISTED]]
    hidden = sum(count for _, count in listed[_MAX_LISTED:])
    return ", ".join([*parts, *([f"others {hidden:,}"] if hidden else [])])


def _format_count(count: int, noun: str) -> str:
    """Return a count with its noun, in the singular for one.

    >>> _format_count(1, "documents"), _format_count(1200, "chunks"), _format_count(1, "entities")
    ('1 document', '1,200 chunks', '1 entity')
    """
    singular = f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")
    return f"{count:,} {singular if count == 1 else noun}"


def _show_unread(built: Built) -> None:
    if built.skipped:
        printing.print_text(f"Skipped {len(built.skipped):,} of unsupported types: {_count_types(built.skipped)}.")
    if built.empty:
        more = f" and {len(built.empty) - _MAX_EMPTY:,} more" if len(built.empty) > _MAX_EMPTY else ""
        printing.print_text(f"Without any text: {', '.join(built.empty[:_MAX_EMPTY])}{more}.")
    _show_partial(built.partial)


def _show_partial(messages: Sequence[str]) -> None:
    for message in messages[:_MAX_LISTED]:
        printing.print_note(f"Read in part: {message}")
    if len(messages) > _MAX_LISTED:
        printing.print_note(f"Read in part: {len(messages) - _MAX_LISTED:,} more; `kumi status --json` lists them")


def _format_usage(usage: Usage) -> str:
    tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    cost = f", cost {usage.cost:,.4f}" if usage.cost else ""
    return f"{_format_count(usage.calls, 'calls')}, {tokens}{cached}{cost}, {usage.seconds:.1f} s"


def show_removed(built: Built) -> None:
    before, now = built.before.get("documents", 0), built.rows.get("documents", 0)
    printing.print_text(
        f"Documents removed: {before - now:,}; left in the index: {now:,}. The files themselves are unchanged."
    )
    _show_failures(built.failed)


def _show_failures(failed: Iterable[tuple[str, str, str]]) -> None:
    """Print failures grouped by error: one dead server fails everything alike."""
    groups: dict[tuple[str, str], list[str]] = {}
    for step, item, error in failed:
        groups.setdefault((step, error), []).append(item)
    if not groups:
        return
    count = sum(map(len, groups.values()))
    printing.print_note(f"{count:,} failed; `kumi index` tries again:")
    for (step, error), items in list(groups.items())[:_MAX_LISTED]:
        label = items[0] if len(items) == 1 else f"{len(items):,} items, such as {items[0]}"
        printing.print_note(f"  {step}: {error}" if items[0] in error else f"  {step} {label}: {error}")
    hidden = f"{len(groups) - _MAX_LISTED:,} more kinds of failure; " if len(groups) > _MAX_LISTED else ""
    if hidden or count > len(groups):
        printing.print_note(f"  {hidden}`kumi status --json` lists them all")


def confirm_rebuild(plan: Plan, changes: Sequence[str]) -> bool:
    """Show the changes and their cost; return whether to pay again."""
    printing.print_text("\n".join(f"{change[0].upper()}{change[1:]}." for change in changes), errors=True)
    announce_plan(plan)
    return printing.confirm()


def confirm_trust(required: TrustRequired) -> bool:
    """Show what a kumi.toml names; return whether the user trusts it."""
    printing.print_note("\n".join([f"{required.path}", *(f"  {grant}" for grant in required.grants)]))
    printing.print_note("Somebody else may have written this file. If you agree, you will not be asked again.")
    return printing.confirm("Allow this?")


def announce_plan(plan: Plan) -> None:
    """Show the plan on standard error."""
    with redirect_stdout(sys.stderr):
        show_plan(plan)


def show_plan(plan: Plan) -> None:
    if not plan.estimates and not plan.unknown:
        printing.print_text("No model calls are needed: everything is cached or free.")
    else:
        _show_estimates(plan)
    if work := plan.local_work:
        seconds, minutes = round(work.cpu_seconds), round(work.cpu_seconds / 60)
        time = f"{minutes:,} min" if minutes > 1 else f"{max(seconds, 1)} s"
        printing.print_text(f"{work.model} embeds {work.texts:,} texts on this machine: about {time} of CPU.")
    if plan.rule_based:
        option = f"--methods {','.join(plan.rule_based)}"
        printing.print_text(
            f"The graph is built by rules: `kumi plan {option}` estimates building it with the chat model."
        )


def _show_estimates(plan: Plan) -> None:
    rows = []
    for e in plan.estimates:
        tokens = (format_range(e.prompt_tokens), format_range(e.completion_tokens))
        time = format_range(e.seconds, "{:,.0f}", " s") if e.seconds else "?"
        cost = format_range(e.cost, "{:,.4f}") if e.cost else "?"
        rows.append((e.step, e.model, format_range(e.calls), *tokens, cost, time))
    rows += [(step, "", "?", "?", "?", "?", "?") for step in plan.unknown]
    head = ("step", "model", "calls", "prompt tokens", "reply tokens", "cost", "time")
    printing.show_rows(rows, head, numeric=range(2, 7))
    if plan.unknown:
        printing.print_text("? means unknown without a sample: `kumi plan --sample 20` calls the model for 20 chunks.")
    if not all(e.cost for e in plan.estimates):
        printing.print_text(
            "Cost needs prices: prompt_price, completion_price under [chat], price under [embedding], [reranking]."
        )


def format_range(bounds: Range, form: str = "{:,.0f}", unit: str = "") -> str:
    """Return `low–high`, or one number if both are equal."""
    low, high = (form.format(end) for end in bounds)
    return f"{low}{unit}" if low == high else f"{low}–{high}{unit}"


# -- answers and evidence


def show_sources(answer: Answer, trace: TraceFunction, *, remark: bool = True) -> None:
    """Print an answer's citations, or the nearest passages, and its cost.

    remark: mention a missing chat model.
    """
    if not answer.citations and answer.context:
        spans = (span for item in answer.context.top(_MAX_PASSAGES) for span in islice(trace(item), _MAX_PASSAGES))
        passages = dict.fromkeys(map(format_span, spans))
        printing.print_styled("\n  ".join(["\nThe nearest passages:", *passages]), "dim")
    if answer.citations:
        printing.print_text()
    for citation in answer.citations:
        printing.print_styled(f"[{citation.n}] {format_span(citation.span)}", "cyan")
    show_followups(answer)
    if answer.dangling:
        printing.print_styled(f"(Citations removed because they matched no source: {answer.dangling}.)", errors=True)
    if answer.model or remark:
        printing.print_styled(
            f"({answer.model}: {_format_usage(answer.usage)})" if answer.model else NO_MODEL, errors=True
        )


def show_followups(answer: Answer) -> None:
    """Print the follow-up questions."""
    if answer.followups:
        printing.print_styled("\n  ".join(["\nYou could ask next:", *answer.followups]))


def format_span(span: Span) -> str:
    """Return the location of a span: file, place, characters."""
    location = f"{span.place}, " if span.place else ""
    return f"{span.uri}, {location}characters {span.start:,}–{span.end:,}"


def show_evidence(context: Context, trace: TraceFunction, reasons: Sequence[Reason] = ()) -> None:
    """Print the evidence, best first, with its reasons, if any."""
    if not context:
        printing.print_text("Nothing was found.")
    for rank, item in enumerate(context, 1):
        _show_places(rank, item, trace)
        title = shorten_line(getattr(item.record, "title", ""), _MAX_TITLE)
        printing.print_styled(f"   {title and f'{title}  '}{item.table}:{item.record.id}", "dim")
        if reasons:
            _print_indented(reasons[rank - 1].describe(), "green")
        _print_indented(shorten_line(item.text, _MAX_TEXT))
        printing.print_text()


def _show_places(rank: int, item: Evidence, trace: TraceFunction) -> None:
    printing.print_styled(f"{rank}. {'; '.join(map(format_span, islice(trace(item), _MAX_PASSAGES)))}", "cyan")


def _print_indented(text: str, style: str = "") -> None:
    from rich.padding import Padding

    printing.make_console().print(
        Padding(printing.styled_text(text, style), (0, 0, 0, 3), expand=False)
    )  # no bare text


def show_reasons(context: Context, trace: TraceFunction, reasons: Sequence[Reason]) -> None:
    """Print the reasons for the best evidence below an answer."""
    printing.print_text("\nWhy these passages:")
    for rank, (item, reason) in enumerate(zip(context.top(_MAX_EXPLAINED), reasons, strict=False), 1):
        _show_places(rank, item, trace)
        _print_indented(reason.describe(), "green")


def show_search_notes(snapshot: Snapshot, context: Context, filter: str) -> None:
    """Print words searched instead and the query type; say why nothing was found."""
    if note := snapshot.describe_search(context):
        printing.print_note(note)
    if context.query_type:
        printing.print_note(f"({context.query_type[:1].upper()}{context.query_type[1:]}.)")
    if context:
        return
    if not snapshot.table(ROOT):
        printing.print_note("(The index holds no documents: `kumi index PATH` adds some.)")
    elif filter and not snapshot.matching_documents(filter):
        printing.print_note("(No document passes the filter.)")


def show_trace(row: Evidence, spans: Iterable[Span]) -> None:
    printing.print_styled(f"{row.table}:{row.record.id}", "bold")
    for span in spans:
        printing.print_styled(format_span(span), "cyan")
        printing.print_styled(f"{span.text}\n")


# -- the state of an index


def show_status(status: Status) -> None:
    by_rule = [step for step, model in status.models.items() if model == RULES]
    printing.print_styled(f"Index {status.folder}, {status.bytes / 1e6:.1f} MB", "bold")
    rows = [
        *(("source", name, path) for name, path in status.sources.items()),
        *(("removed", uri, "") for uri in status.removed),
        *(("table", table, f"{count:,} rows") for table, count in status.rows.items()),
        ("methods", ", ".join(status.methods), ""),
        *(("missing", name, f"from {origin}: install it again") for name, origin in status.missing.items()),
        *(("model", role, model) for role, model in status.models.items() if model != RULES),
        *([("by rule", ", ".join(by_rule), "")] if by_rule else []),
        *(("setting", name, str(value)) for name, value in status.settings.items()),
        ("cache", f"{status.cache['replies']:,} replies", f"{status.cache['bytes'] / 1e6:.1f} MB"),
        *((entry.kind, entry.scope, f"{entry.model}: {_format_usage(entry.usage)}") for entry in status.spent),
    ]
    if status.modularity:
        current, fresh = (f"{value:.3f}" for value in status.modularity)
        rows.append(("communities", f"modularity {current}", f"{fresh} if detected anew"))
    printing.show_rows(rows)
    if status.levels:
        printing.print_text()
        show_levels(status.levels)
    if status.modularity and status.modularity[0] < _MIN_MODULARITY_SHARE * status.modularity[1]:
        printing.print_text("New communities would fit better: `kumi index --recluster` detects them from scratch.")
    _show_partial(status.partial)
    _show_failures(status.failed)


def show_check(result: CheckResult) -> None:
    for problem in result.repaired:
        printing.print_text(f"Repaired: {problem.file}: {problem.message}")
    for problem in result.problems:
        printing.print_note(f"Damaged: {problem.file}: {problem.message}: {problem.remedy}")
    if not result.problems:
        printing.print_text("No damage is left." if result.repaired else "No damage was found.")


def show_levels(levels: Iterable[CommunityLevel]) -> None:
    """Print what a question to each community level reads."""
    rows = [(level.name, f"{level.units:,}", f"{level.tokens:,}", f"{level.share:.1f} %") for level in levels]
    printing.show_rows(rows, head=("level", "units", "tokens", "of the source"), numeric=range(1, 4))


def show_methods(methods: Mapping[str, Signature], default: str) -> None:
    for name, method in methods.items():
        settings = ", ".join(f"{setting.name}={setting.default}" for setting in method.settings.values())
        printing.print_styled(f"{name}{' (default)' if name == default else ''}", "bold")
        printing.print_styled(f"  {method.summary}\n  suits: {method.declaration.best_for}")
        printing.print_styled(f"  settings: {settings}", "dim")


def show_cache(stats: Mapping[str, int]) -> None:
    if "erased" in stats:
        printing.print_text(f"Erased {stats['erased']:,} replies.")
        return
    printing.print_text(f"{stats['replies']:,} replies, {stats['bytes'] / 1e6:.1f} MB")
    printing.print_text(f"{stats['hits']:,} hits, {stats['misses']:,} misses")
