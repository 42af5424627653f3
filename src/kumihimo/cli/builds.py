"""builds and plans -> text for a person: what was done, what it cost or would cost, what to do next."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from math import floor, log10
from pathlib import PurePosixPath

from kumihimo.app.opened.results import BatchState, Built, Estimate, Plan, Range, Total, sum_ranges
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
    if built.batch:
        _show_batch(built.batch)
        if built.batch.waiting or built.batch.capped:
            return
    contents = join_words([_format_count(built.rows[table], table) for table in _HELD if built.rows.get(table)])
    if has_changed(built) or not contents:
        printing.print_message(describe_files(built))
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


def _show_batch(batch: BatchState) -> None:
    """Print the state of the batches, and the next step."""
    if batch.collected:
        printing.print_message(f"Collected {batch.collected:,} replies of batches.")
    for (step, error), count in Counter(batch.failed).most_common(_MAX_LISTED):
        printing.print_note(f"  {step}: {count:,} requests of the batch have no reply: {error}")
    if batch.submitted:
        total = Total.of("", batch.estimates)
        steps = join_words([f"{each.step} {each.calls[0]:,.0f}" for each in batch.estimates], ", ")
        cost = translate(f", cost {format_range(total.cost, money=True)}") if total.cost else ""
        printing.print_message(
            f"Submitted batch {batch.wave:,}: {batch.submitted:,} requests ({steps}), about "
            f"{format_range(total.tokens)} tokens{cost}."
        )
    if batch.capped:
        printing.print_note(f"Not submitted because of a limit: {batch.capped:,} requests. A later run continues.")
    for id, state, done, total_requests in batch.jobs:
        printing.print_message(f"  {id}: {state}, {done:,} of {total_requests:,} requests")
    if batch.waiting:
        printing.print_message(
            f"{batch.waiting:,} requests wait for replies; the index stays as it is. "
            "Collect them later: `kumi index --batch`."
        )
    if batch.waiting and batch.methods:
        methods = ",".join(batch.methods)
        printing.print_message(
            f"When they are there, `kumi index --methods {methods}` sends the rest directly, at the full price."
        )


def describe_files(built: Built) -> str:
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


def has_changed(built: Built) -> bool:
    """Return whether a build has changed any table."""
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
    if built.rows.get("documents") and has_changed(built):
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
    show_unmatched(built.unmatched)


def show_unmatched(lines: Sequence[str]) -> None:
    """Print the lines of aliases.txt that are about nothing in the index."""
    for line in lines[:_MAX_LISTED]:
        printing.print_note(f"A line of aliases.txt matches nothing: {line}")
    if len(lines) > _MAX_LISTED:
        printing.print_note(f"{len(lines) - _MAX_LISTED:,} more match nothing: `kumi edit` lists them")


def show_partial(messages: Sequence[str]) -> None:
    for message in messages[:_MAX_LISTED]:
        printing.print_note(f"Read in part: {translate(message)}")
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
    if not plan.estimates:
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
    """Print a row for each step, total and method."""
    head = ("step", "calls", "prompt tokens", "reply tokens", "cost", "time")
    rows = [
        (e.step, format_range(e.calls), format_range(e.prompt_tokens), format_range(e.completion_tokens), *_price(e))
        for e in plan.estimates
    ]
    prompt, reply = (
        sum_ranges(getattr(e, name) for e in plan.estimates) for name in ("prompt_tokens", "completion_tokens")
    )
    rows.append(
        (translate("total"), format_range(plan.calls), format_range(prompt), format_range(reply), *_price(plan.total))
    )
    printing.show_rows(rows, head, numeric=range(1, 6))
    if len(plan.methods) > 1:
        printing.print_message("\nEach method alone; methods share steps, so the total is less than their sum:")
        alone = [
            (each.name, format_range(each.calls), format_range(each.tokens), *_price(each)) for each in plan.methods
        ]
        printing.show_rows(alone, ("method", "calls", "tokens", "cost", "time"), numeric=range(1, 5))
    models: dict[str, list[str]] = {}
    for e in plan.estimates:
        models.setdefault(e.model, []).append(e.step)
    for model, steps in models.items():
        printing.print_message(f"{model}: {', '.join(steps)}." if len(models) > 1 else f"Model: {model}.")
    if not plan.cost:
        printing.print_message(
            "Cost needs prices: prompt_price, completion_price under [chat], price under [embedding], [reranking]."
        )


def _price(amount: Estimate | Total) -> tuple[str, str]:
    """Return the cost and the time as texts."""
    cost = "–" if amount.cost is None else format_range(amount.cost, money=True)
    return cost, _format_times(amount.seconds)


def format_range(bounds: Range, *, money: bool = False) -> str:
    """Return `low–high`, or one number; large ones have three digits.

    >>> format_range((12, 12)), format_range((950, 4321)), format_range((0.01, 1_250_000))
    ('12', '950–4,321', '0–1.25M')
    >>> format_range((0.00123, 12.5), money=True)
    '0.0012–12.50'
    """
    low, high = (_format_money(end) if money else _format_count_briefly(end) for end in bounds)
    return low if low == high else f"{low}–{high}"


def _format_count_briefly(count: float) -> str:
    for size, suffix in ((1e6, "M"), (1e4, "k")):
        if count >= size:
            scaled = count / (1e6 if suffix == "M" else 1e3)
            return f"{scaled:,.{max(0, 3 - len(str(int(scaled))))}f}{suffix}"
    return f"{count:,.0f}"


def _format_money(amount: float) -> str:
    if amount >= 0.1 or not amount:
        return f"{amount:,.0f}" if amount >= 1000 else f"{amount:,.2f}"
    return f"{amount:.{1 - floor(log10(amount))}f}"  # two digits


def _format_times(seconds: Range) -> str:
    """Return a range of times, each in the unit that suits it.

    >>> _format_times((0.2, 90)), _format_times((100, 100)), _format_times((400, 20_000))
    ('1–90 s', '100 s', '7 min–6 h')
    """
    texts = []
    for end in seconds:
        size, unit = (3600, "h") if end >= 7200 else (60, "min") if end >= 120 else (1, "s")
        texts.append((f"{max(round(end / size), 1):,}", unit))
    (low, low_unit), (high, unit) = texts
    if (low, low_unit) == (high, unit):
        return f"{low} {unit}"
    return f"{low}–{high} {unit}" if low_unit == unit else f"{low} {low_unit}–{high} {unit}"
