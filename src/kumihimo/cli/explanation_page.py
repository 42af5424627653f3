"""a question + its evidence -> a page that tells why each piece was chosen, in one HTML file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

from kumihimo.app.explanations import Reason, explain_evidence
from kumihimo.app.safe_write import FILE_MARK, write_file
from kumihimo.app.snapshot import Snapshot
from kumihimo.cli import terminal
from kumihimo.core.context import Context, Evidence
from kumihimo.evaluate.report.markup import Html, Part, bold, collapsible, join_html, p, tag
from kumihimo.text.tokens import subject_terms

_MAX_PLACES = 3


def write_explanation_page(reading: Snapshot, path: Path, question: str, method: str, context: Context) -> None:
    """The question, its evidence and why each piece was chosen, as one HTML file. Raises SettingsError."""
    write_file(path, [_render_page(reading, question, method, context)])


def _render_page(reading: Snapshot, question: str, method: str, context: Context) -> str:
    why = explain_evidence(reading, question, context)
    most = max((abs(much) for reason in why for _, much in reason.feature_scores), default=0.0)
    ranks = {item.record.id: rank for rank, item in enumerate(context, 1)}
    items = [
        _render_item(reading, rank, item, reason, ranks, most)
        for rank, (item, reason) in enumerate(zip(context, why, strict=True), 1)
    ]
    said = [p(f"{len(items):,} pieces of evidence, by {method}, best first.", class_="quiet")]
    said += [p(f"{_capitalize(context.query_type)}.")] if context.query_type else []
    head = join_html([Html('<meta charset="utf-8">'), tag("title", question), tag("style", Html(_style()))])
    body = tag("body", tag("h1", question), *said, tag("ol", *items))
    return f"<!doctype html>\n<!-- {FILE_MARK} -->\n{tag('html', tag('head', head), body)}\n"


@cache
def _style() -> str:
    return Path(__file__).with_suffix(".css").read_text(encoding="utf-8")


def _render_item(
    reading: Snapshot, rank: int, item: Evidence, reason: Reason, ranks: dict[str, int], most: float
) -> Html:
    places = "; ".join(terminal.format_span(span) for span in islice(reading.trace(item), _MAX_PLACES))
    text = p(*_highlight_words(item.text, reason.words), class_="text")
    return tag(
        "li", p(bold(places)), p(*_render_reason(reason, ranks)), _render_features(reason, most), text, id=f"e{rank}"
    )


def _render_reason(reason: Reason, ranks: dict[str, int]) -> Iterator[Part]:
    """As `Reason.told`, the passage that it goes on from named by its place in the list, if it has one."""
    if not reason.linked_span:
        yield reason.describe()
        return
    rank = ranks.get(reason.linked_span.chunk)
    before, _, rest = reason.describe("\0").partition("\0")
    yield before
    yield tag("a", f"no. {rank}", href=f"#e{rank}") if rank else terminal.format_span(reason.linked_span)
    yield rest


def _render_features(reason: Reason, most: float) -> Html | None:
    """What each feature adds, drawn."""
    if not reason.feature_scores:
        return None
    rows = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            tag("td", tag("span", class_="bar" if much >= 0 else "bar less", style=f"width:{abs(much) / most:.1%}")),
            tag("td", f"{much:.2f}"),
        )
        for name, much in reason.feature_scores
    ]
    return collapsible("what each feature adds to its score", tag("table", *rows))


def _highlight_words(text: str, words: Sequence[str]) -> Iterator[Part]:
    """The text, the words of the question that it says marked, in whichever form they have there."""
    meant = frozenset(subject_terms(" ".join(words)))
    for piece in _split_words(text):
        found = set(subject_terms(piece))
        yield tag("mark", piece) if found and found <= meant else piece


def _split_words(text: str) -> Iterator[str]:
    return (piece for piece in re.split(r"(\W+|[\u3040-\u30ff]+)", text) if piece)


def _capitalize(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
