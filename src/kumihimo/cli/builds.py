"""builds and plans -> text for a person: what was done, what it cost or would cost, what to do next."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from pathlib import PurePosixPath

from kumihimo.app.results import Built, Plan, Range
from kumihimo.cli import printing
from kumihimo.core.usage import Usage
from kumihimo.core.wiring import ROOT
from kumihimo.text.translation import join_words, translate

_HELD = ("documents", "chunks", "entities", "reports")  # tables that everybody is told of
_MAX_LISTED = 20
_MAX_EMPTY = 5  # names of files without text
_MAX_SUFFIX = 12  # characters of a type


def show_built(built: Built, *, verbose: bool = False) -> None:
    """Print the result of a build, and the next step.

    verbose: also the rows of each table, and the calls of each step.
    """
    contents = join_words([_format_count(built.rows[table], table) for table in _HELD if built.rows.get(table)])
    if _has_changed(built) or not contents:
        printing.print_message(_describe_files(built))
        contents = contents or translate("nothing to search: no file of a supported type has any text")
        printing.print_message(f"The index now holds {contents} ({built.seconds:.1f} s).")
    else:
        files = _format_count(built.unchanged + built.read, "files")
        printing.print_message(f"Nothing has changed in {files}: the index holds {contents} ({built.seconds:.1f} s).")
    _show_unread(built)
    if verbose:
        for table, count in built.rows.items():
            written = built.written.get(table, 0)
            printing.print_message(f"  {table}: {count:,} rows, {written:,} of them new or changed")
        for purpose, usage in built.spent.items():
            printing.print_message(f"  asked for {purpose}: {format_usage(usage)}.")
    if built.spent:
        purposes = ", ".join(built.spent)
        printing.print_message(f"Asked for {purposes}: {format_usage(sum(built.spent.values(), Usage()))}.")
    show_failures(built.failed)
    _show_next_steps(built)


def _describe_files(built: Built) -> str:
    """Return the numbers of files as a sentence.

    Files that were read and are as before count as unchanged.
    """
    unchanged = built.unchanged + built.read - built.new - built.changed - len(built.empty)
    failed = sum(step == ROOT for step, _, _ in built.failed)
    labels = [(built.new, f"{built.new:,} new"), (built.changed, f"{built.changed:,} changed")]
    labels += [(unchanged, f"{unchanged:,} unchanged"), (built.removed, f"{built.removed:,} gone")]
    labels += [(len(built.empty), f"{len(built.empty):,} without text"), (failed, f"{failed:,} failed")]
    counts = join_words([translate(label) for count, label in labels if count], ", ")
    return f"Files: {counts or translate('none')}."


def _has_changed(built: Built) -> bool:
    return bool(built.spent) or any(built.written.values()) or dict(built.before) != dict(built.rows)


def _show_next_steps(built: Built) -> None:
    if built.skipped_methods:
        names = ",".join(built.skipped_methods)
        printing.print_message(
            f"Not built, because it costs model calls: {names}. `kumi plan --methods {names}` estimates the cost."
        )
    if built.rule_based:
        option = f"--methods {','.join(built.rule_based)}"
        remedy = f"`kumi index {option} --recluster` builds it with the chat model"
        printing.print_message(f"The graph is built by rules: {remedy}, `kumi plan {option}` estimates the cost.")
    if built.rows.get("documents") and _has_changed(built):
        printing.print_message('Now ask it: `kumi ask "..."`, or `kumi ask` for a conversation.')


def _count_types(uris: Iterable[str]) -> str:
    """Return the types of files with their numbers, most frequent first.

    >>> _count_types(["a/b.DOC", "c.ppt", "d.doc", "v1.0/README"])
    '.doc 2, .ppt 1, no suffix 1'
    """
    counts = Counter(PurePosixPath(uri).suffix.lower()[:_MAX_SUFFIX] or "no suffix" for uri in uris)
    listed = sorted(counts.items(), key=lambda item: (-item[1], item[0] == "no suffix", item[0]))
    parts = [f"{translate(suffix)} {count:,}" for suffix, count in listed[:_MAX_LISTED]]
    hidden = sum(count for _, count in listed[_MAX_LISTED:])
    return ", ".join([*parts, *([translate(f"others {hidden:,}")] if hidden else [])])


def _format_count(count: int, noun: str) -> str:
    """Return a count with its noun, in the singular for one.

    >>> _format_count(1, "documents"), _format_count(1200, "chunks"), _format_count(1, "entities")
    ('1 document', '1,200 chunks', '1 entity')
    """
    singular = f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")
    return translate(f"{count:,} {singular if count == 1 else noun}")


def _show_unread(built: Built) -> None:
    if built.skipped:
        printing.print_message(f"Skipped {len(built.skipped):,} of unsupported types: {_count_types(built.skipped)}.")
    if built.empty:
        more = f" and {len(built.empty) - _MAX_EMPTY:,} more" if len(built.empty) > _MAX_EMPTY else ""
        printing.print_message(f"Without any text: {', '.join(built.empty[:_MAX_EMPTY])}{more}.")
    show_partial(built.partial)


def show_partial(messages: Sequence[str]) -> None:
    for message in messages[:_MAX_LISTED]:
        printing.print_note(f"Read in part: {message}")
    if len(messages) > _MAX_LISTED:
        printing.print_note(f"Read in part: {len(messages) - _MAX_LISTED:,} more; `kumi status --json` lists them")


def format_usage(usage: Usage) -> str:
    tokens = translate(f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens")
    cached = f" {translate(f'({usage.cached_tokens:,} cached)')}" if usage.cached_tokens else ""
    cost = f", {translate(f'cost {usage.cost:,.4f}')}" if usage.cost else ""
    return f"{_format_count(usage.calls, 'calls')}, {tokens}{cached}{cost}, {usage.seconds:.1f} s"


def show_removed(built: Built) -> None:
    before, now = built.before.get("documents", 0), built.rows.get("documents", 0)
    printing.print_message(
        f"Documents removed: {before - now:,}; left in the index: {now:,}. The files themselves are unchanged."
    )
    show_failures(built.failed)


def show_failures(failed: Iterable[tuple[str, str, str]]) -> None:
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
    for change in map(translate, changes):
        printing.print_note(f"{change[0].upper()}{change[1:]}.")
    announce_plan(plan)
    return printing.confirm()


def announce_plan(plan: Plan) -> None:
    """Show the plan on standard error."""
    with redirect_stdout(sys.stderr):
        show_plan(plan)


def show_plan(plan: Plan) -> None:
    if not plan.estimates and not plan.unknown:
        printing.print_message("No model calls are needed: everything is cached or free.")
    else:
        _show_estimates(plan)
    if work := plan.local_work:
        seconds, minutes = round(work.cpu_seconds), round(work.cpu_seconds / 60)
        time = f"{minutes:,} min" if minutes > 1 else f"{max(seconds, 1)} s"
        printing.print_message(f"{work.model} embeds {work.texts:,} texts on this machine: about {time} of CPU.")
    if plan.rule_based:
        option = f"--methods {','.join(plan.rule_based)}"
        printing.print_message(
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
        printing.print_message(
            "? means unknown without a sample: `kumi plan --sample 20` calls the model for 20 chunks."
        )
    if not all(e.cost for e in plan.estimates):
        printing.print_message(
            "Cost needs prices: prompt_price, completion_price under [chat], price under [embedding], [reranking]."
        )


def format_range(bounds: Range, form: str = "{:,.0f}", unit: str = "") -> str:
    """Return `low–high`, or one number if both are equal."""
    low, high = (form.format(end) for end in bounds)
    return f"{low}{unit}" if low == high else f"{low}–{high}{unit}"
