"""results of the library -> text and tables for a person."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, groupby, islice, pairwise, repeat
from typing import TYPE_CHECKING

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.opened import catalogue
from kumihimo.app.settings.trust import TrustRequired
from kumihimo.cli import line_ends, printing
from kumihimo.core import signature, wiring
from kumihimo.core.answer import TRUNCATION_NOTE, Answer
from kumihimo.core.context import Context, Evidence
from kumihimo.core.records import Reference
from kumihimo.core.spans import Span
from kumihimo.llm.registry import RULES
from kumihimo.text import sentences, tokens
from kumihimo.text.translation import translate

if TYPE_CHECKING:
    from kumihimo.app.opened import results

NO_MODEL = (
    "(No chat model is set, so the documents are quoted word for word."
    ' To connect one: `model = "..."` under [chat] in kumi.toml; see docs/models.md.)'
)
_MAX_TITLE, _MAX_URI = 40, 60  # characters
_INDENT = 3  # columns, of the lines of one piece of evidence
_MARKDOWN_BOLD = re.compile(r"\*\*(\S(?:[^*]*\S)?)\*\*")
_TABLE_ROW = re.compile(r"\s*\|.*\|\s*")
_RULER = frozenset("|:- ")
_CELL_END = re.compile(r"(?<!\\)\|")
_LIST_ITEM = re.compile(r"\s*(?:-|\d+\.) ")
_MIN_MODULARITY_SHARE = 0.98  # of the modularity of new communities: below, new reports are worth their cost
_MAX_FIELDS = 20  # of documents
_MAX_EXPLAINED = 8  # pieces of evidence below an answer
_MAX_PASSAGES = 3  # per piece of evidence, and without a citation


def confirm_trust(required: TrustRequired) -> bool:
    """Show what a kumi.toml names; return whether the user trusts it."""
    printing.print_text(
        "\n  ".join([str(required.path), *(translate(str(grant)) for grant in required.grants)]), errors=True
    )
    printing.print_note("Somebody else may have written this file. If you agree, you will not be asked again.")
    return printing.confirm("Allow this?")


# -- answers and evidence


def show_answer(answer: Answer, *, remark: bool = True) -> None:
    """Print an answer of quotes; after any answer, its sources and cost.

    The answer of a model was printed as it arrived. remark: mention a missing chat model.
    """
    if answer.remark:
        printing.print_styled(translate(answer.remark), "yellow")
    if not answer.model:
        _print_parts(answer)
    if answer.truncated:
        printing.print_styled(f"\n{translate(TRUNCATION_NOTE)}", "yellow")
    if not answer.citations and answer.context:
        found = chain.from_iterable(map(_row_places, answer.context.top(_MAX_PASSAGES)))
        places = dict.fromkeys(map(_fit_location, found))
        printing.print_styled("\n  ".join([f"\n{translate('The nearest passages:')}", *places]), "dim")
    _print_sources(answer)
    show_followups(answer)
    if answer.dangling:
        removed = translate(f"(Citations removed because they matched no source: {answer.dangling}.)")
        printing.print_styled(removed, errors=True)
    if answer.model:
        from kumihimo.cli.builds import format_usage

        printing.print_styled(f"({answer.model}: {format_usage(answer.usage)})", errors=True)
    elif remark:
        printing.print_styled(translate(NO_MODEL), errors=True)


def _print_parts(answer: Answer) -> None:
    """Print passages below their sources, and other parts with numbers."""
    terms = frozenset(tokens.subject_terms(answer.context.searched(answer.question)))
    before = "passage" if answer.remark else ""
    for part in answer.parts:
        if before and "passage" in (before, part.kind):
            printing.print_text()
        if part.kind == "passage":
            first, *copies = part.citations
            _print_source(f"[{first.n}] ", first.span, title=part.heading_path)
            _print_lines(part.emphasized().text, indent=4)
            for copy in copies:
                printing.print_styled(f"    = {_fit_location(copy.span)}", "cyan", hanging=6)
        else:
            _print_lines(part.marked().text, terms)
        before = part.kind


def _print_sources(answer: Answer) -> None:
    """Print the places of each cited source, each once.

    A passage stands below its own.
    """
    spans_by_number: dict[int, dict[str, Span]] = {}
    for citation in chain.from_iterable(part.citations for part in answer.parts if part.kind != "passage"):
        spans_by_number.setdefault(citation.n, {}).setdefault(citation.span.location, citation.span)
    if spans_by_number:
        printing.print_text()
    has_titles = not answer.model and len({citation.span.uri for citation in answer.citations}) > 1
    for n, spans in sorted(spans_by_number.items()):
        for span in islice(spans.values(), _MAX_PASSAGES):
            _print_source(f"[{n}] ", span, title=sentences.shorten_title(span.title, _MAX_TITLE) if has_titles else "")
        if (more := len(spans) - _MAX_PASSAGES) > 0:
            printing.print_styled(f"    {translate(f'and {more:,} more: --json lists them')}", "cyan")


def _print_source(label: str, span: Span, *, title: str = "") -> None:
    """Print the title and location of a span."""
    location = _fit_location(span)
    if title and title not in span.location:
        line = f"{label}{title} · {location}"
        location = line[len(label) :] if printing.fits_line(line) else f"{title}\n{' ' * len(label)}{location}"
    printing.print_styled(f"{label}{location}", "cyan", hanging=len(label))


def _fit_location(span: Span) -> str:
    """Return the location with a long file name shortened in the middle."""
    uri = span.uri if len(span.uri) <= _MAX_URI else f"{span.uri[: _MAX_URI // 2]}…{span.uri[-_MAX_URI // 2 :]}"
    return replace(span, uri=uri, place=translate(span.place)).location


def _print_lines(text: str, terms: Collection[str] | None = None, *, indent: int = 0) -> None:
    """Print lines with their indentation.

    terms: are marked; None: what is bold in the text is.
    """
    plain = text if terms is None else _MARKDOWN_BOLD.sub(r"\1", text)
    for line in _align_tables(plain.splitlines(), indent):
        shown, bold = _show_bold(line) if terms is None else _mark_terms(line, terms)
        item = _LIST_ITEM.match(line)
        printing.print_wrapped(shown, bold, indent, hanging=len(item[0]) if item else 0)


def _align_tables(lines: Iterable[str], indent: int) -> Iterator[str]:
    """Yield the lines with aligned tables, without the ruler below a header.

    A table that does not fit stays as it is.
    """
    for is_table, group in groupby(lines, key=lambda line: bool(_TABLE_ROW.fullmatch(line))):
        rows = [row for row in group if not (is_table and "---" in row and {*row} <= _RULER)]
        aligned = line_ends.align_cells([_CELL_END.split(row.strip()[1:-1]) for row in rows]) if is_table else rows
        yield from aligned if all(map(printing.fits_line, aligned, repeat(indent))) else rows


def _mark_terms(line: str, terms: Collection[str]) -> tuple[str, list[printing.Style]]:
    """Return a line with its matching words in bold."""
    shown = printing.visible_text(line)
    return shown, [(*span, "bold") for span in tokens.mark_matches(shown, terms)]


def _show_bold(line: str) -> tuple[str, list[printing.Style]]:
    """Return a line with what Markdown writes in bold."""
    pieces = _MARKDOWN_BOLD.split(line)
    ends = list(accumulate(map(len, pieces)))
    return printing.visible_text("".join(pieces)), [(*span, "bold") for span in list(pairwise(ends))[::2]]


def show_followups(answer: Answer) -> None:
    """Print the follow-up questions."""
    if answer.followups:
        printing.print_styled("\n  ".join([f"\n{translate('You could ask next:')}", *answer.followups]))


def show_evidence(
    context: Context, question: str, *, reasons: bool = False, numbers: Mapping[Reference, int] | None = None
) -> None:
    """Print explained evidence, best first.

    question: its words are marked. reasons: why each piece was found. numbers: of the sources in an answer.
    """
    if not context:
        printing.print_message("Nothing was found.")
    terms = frozenset(tokens.subject_terms(context.searched(question)))
    for rank, item in enumerate(context, 1):
        assert item.explanation
        spans = item.explanation.spans[:_MAX_PASSAGES]
        _show_places(rank, (numbers or {}).get(item.reference), spans)
        _print_title(item, spans)
        if reasons:
            printing.print_styled(item.explanation.reason.text, "green", _INDENT)
        snippet = _MARKDOWN_BOLD.sub(r"\1", item.explanation.snippet)
        printing.print_wrapped(*_mark_terms(snippet, terms), _INDENT)
        printing.print_text()


def _row_places(item: Evidence) -> Sequence[Span]:
    """Return where a whole passage stands, or the sources of another row."""
    whole = (item.source, *item.copies) if item.uri else ()
    spans = item.explanation.spans if item.explanation else ()
    return max(whole, spans, key=len)[:_MAX_PASSAGES]


def _show_places(rank: int, number: int | None, spans: Iterable[Span]) -> None:
    """Print the places of a row after its rank.

    number: of its source in an answer.
    """
    label = f"{rank}. [{number}] " if number else f"{rank}. "
    printing.print_styled(f"{label}{'; '.join(dict.fromkeys(map(_fit_location, spans)))}", "cyan", hanging=len(label))


def _print_title(item: Evidence, spans: Iterable[Span]) -> None:
    """Print the id for `kumi trace` after the title."""
    title = sentences.shorten_title(getattr(item.record, "title", ""), _MAX_TITLE)
    is_new = title and not any(title in span.location for span in spans)
    before = f"{printing.visible_text(title)}  " if is_new else ""
    shown = before + printing.visible_text(":".join(item.reference))
    printing.print_wrapped(shown, [(len(before), len(shown), "dim")], _INDENT)


def show_reasons(answer: Answer) -> None:
    """Print the reasons for the best evidence below an answer."""
    numbers = answer.source_numbers
    printing.print_message("\nWhy these passages:")
    for rank, item in enumerate(answer.context.top(_MAX_EXPLAINED), 1):
        assert item.explanation
        _show_places(rank, numbers.get(item.reference), _row_places(item))
        printing.print_styled(item.explanation.reason.text, "green", _INDENT)


def show_search_notes(snapshot: Snapshot, context: Context) -> None:
    """Print how the question was searched, or why nothing was found."""
    if note := snapshot.describe_search(context):
        printing.print_note(note)
    for queries in context.rounds[1:]:
        printing.print_note(f"Searched again: {'; '.join(queries)}")
    if context.query_type:
        remark = translate(context.query_type)
        printing.print_note(f"({remark[:1].upper()}{remark[1:]}.)")
    if context:
        return
    if not snapshot.stored_table(wiring.ROOT):
        printing.print_note("(The index holds no documents: `kumi index PATH` adds some.)")
    elif not snapshot.table(wiring.ROOT):
        printing.print_note("(No document passes the filter.)")


def show_trace(row: Evidence, spans: Iterable[Span]) -> None:
    printing.print_styled(f"{row.table}:{row.record.id}", "bold")
    for span in spans:
        printing.print_styled(_fit_location(span), "cyan")
        printing.print_styled(f"{span.text}\n")


# -- the state of an index


def show_status(status: results.Status) -> None:
    from kumihimo.cli import builds  # a question needs none of it

    by_rule = [step for step, model in status.models.items() if model == RULES]
    printing.print_message(f"Index {status.folder}, {status.bytes / 1e6:.1f} MB", "bold")
    rows = [
        *((translate("source"), name, path) for name, path in status.sources.items()),
        *((translate("removed"), uri, "") for uri in status.removed),
        *((translate("table"), table, translate(f"{count:,} rows")) for table, count in status.rows.items()),
        *_field_rows(status.fields),
        (translate("methods"), ", ".join(status.methods), ""),
        *(
            (translate("missing"), name, translate(f"from {origin}: install it again"))
            for name, origin in status.missing.items()
        ),
        *((translate("model"), role, model) for role, model in status.models.items() if model != RULES),
        *([(translate("by rule"), ", ".join(by_rule), "")] if by_rule else []),
        *((translate("setting"), name, str(value)) for name, value in status.settings.items()),
        (
            translate("cache"),
            translate(f"{status.cache['replies']:,} replies"),
            f"{status.cache['bytes'] / 1e6:.1f} MB",
        ),
        *(
            (translate(entry.kind), entry.scope, f"{entry.model}: {builds.format_usage(entry.usage)}")
            for entry in status.spent
        ),
    ]
    if status.modularity:
        current, fresh = (f"{value:.3f}" for value in status.modularity)
        anew = translate(f"{fresh} if detected anew")
        rows.append((translate("communities"), translate(f"modularity {current}"), anew))
    if status.changed_reports:
        changed = translate(f"{status.changed_reports:,} with changes since")
        rows.append((translate("reports"), changed, "kumi index --refresh"))
    printing.show_rows(rows)
    if status.levels:
        printing.print_text()
        show_levels(status.levels)
    if status.modularity and status.modularity[0] < _MIN_MODULARITY_SHARE * status.modularity[1]:
        printing.print_message("New communities would fit better: `kumi index --recluster` detects them from scratch.")
    if status.waiting:
        printing.print_message(f"{status.waiting:,} requests wait in a batch: `kumi index --batch` collects them.")
    builds.show_partial(status.partial)
    builds.show_unmatched(status.unmatched)
    builds.show_failures(status.failed)


def _field_rows(fields: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """Return rows with the first fields, and how many more there are."""
    more, field = len(fields) - _MAX_FIELDS, translate("field")
    rows = [(field, name, translate(f"{n:,} documents")) for name, n in islice(fields.items(), _MAX_FIELDS)]
    return [*rows, (field, translate(f"and {more} more (--json lists them)"), "")] if more > 0 else rows


def show_check(result: results.CheckResult) -> None:
    for problem in result.repaired:
        printing.print_message(f"Repaired: {problem.file}: {problem.message}")
    for problem in result.problems:
        printing.print_note(f"Damaged: {problem.file}: {problem.message}: {problem.remedy}")
    if not result.problems:
        printing.print_message("No damage is left." if result.repaired else "No damage was found.")


def show_levels(levels: Iterable[results.CommunityLevel]) -> None:
    """Print what a question to each community level reads."""
    rows = [(level.name, f"{level.units:,}", f"{level.tokens:,}", f"{level.share:.1f} %") for level in levels]
    printing.show_rows(rows, head=("level", "units", "tokens", "of the source"), numeric=range(1, 4))


def show_methods(methods: Mapping[str, signature.Signature]) -> None:
    printing.print_styled(translate(f"{catalogue.AUTO} (default)"), "bold")
    choice = "With a chat model, `wide` answers questions on many documents, `braid` all others. Without one, `braid`."
    printing.print_styled(f"  {translate(choice)}")
    for name, method in methods.items():
        settings = ", ".join(f"{setting.name}={setting.default}" for setting in method.settings.values())
        printing.print_styled(name, "bold")
        printing.print_styled(f"  {translate(method.summary)}\n  {translate(f'suits: {method.declaration.best_for}')}")
        printing.print_message(f"  settings: {settings}", "dim")


def show_cache(stats: Mapping[str, int]) -> None:
    if "erased" in stats:
        printing.print_message(f"Erased {stats['erased']:,} replies.")
    elif "dropped" in stats:
        printing.print_message(f"Gave up {stats['dropped']:,} requests in batches.")
    else:
        printing.print_message(f"{stats['replies']:,} replies, {stats['bytes'] / 1e6:.1f} MB")
        printing.print_message(f"{stats['hits']:,} hits, {stats['misses']:,} misses")
