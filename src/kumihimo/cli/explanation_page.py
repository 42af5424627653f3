"""a question + its evidence -> an HTML page that explains each piece."""

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


def write_explanation_page(snapshot: Snapshot, path: Path, question: str, method: str, context: Context) -> None:
    """Write the question, its evidence and the reasons as one HTML file.

    Raises SettingsError.
    """
    write_file(path, [_render_page(snapshot, question, method, context)])


def _render_page(snapshot: Snapshot, question: str, method: str, context: Context) -> str:
    item_reasons = explain_evidence(snapshot, question, context)
    max_score = max((abs(score) for reason in item_reasons for _, score in reason.feature_scores), default=0.0)
    ranks = {item.record.id: rank for rank, item in enumerate(context, 1)}
    items = [
        _render_item(snapshot, rank, item, reason, ranks, max_score)
        for rank, (item, reason) in enumerate(zip(context, item_reasons, strict=True), 1)
    ]
    notes = [p(f"{len(items):,} pieces of evidence, by {method}, best first.", class_="quiet")]
    notes += [p(f"{_capitalize(context.query_type)}.")] if context.query_type else []
    head = join_html([Html('<meta charset="utf-8">'), tag("title", question), tag("style", Html(_style()))])
    body = tag("body", tag("h1", question), *notes, tag("ol", *items))
    return f"<!doctype html>\n<!-- {FILE_MARK} -->\n{tag('html', tag('head', head), body)}\n"


@cache
def _style() -> str:
    return Path(__file__).with_suffix(".css").read_text(encoding="utf-8")


def _render_item(
    snapshot: Snapshot, rank: int, item: Evidence, reason: Reason, ranks: dict[str, int], max_score: float
) -> Html:
    places = "; ".join(terminal.format_span(span) for span in islice(snapshot.trace(item), _MAX_PLACES))
    text = p(*_highlight_words(item.text, reason.words), class_="text")
    return tag(
        "li",
        p(bold(places)),
        p(*_render_reason(reason, ranks)),
        _render_features(reason, max_score),
        text,
        id=f"e{rank}",
    )


def _render_reason(reason: Reason, ranks: dict[str, int]) -> Iterator[Part]:
    """Yield the reason, with a link to the passage it refers to.

    A passage outside the list is named by its location.
    """
    if not reason.linked_span:
        yield reason.describe()
        return
    rank = ranks.get(reason.linked_span.chunk)
    prefix, _, suffix = reason.describe("\0").partition("\0")
    yield prefix
    yield tag("a", f"no. {rank}", href=f"#e{rank}") if rank else terminal.format_span(reason.linked_span)
    yield suffix


def _render_features(reason: Reason, max_score: float) -> Html | None:
    """Return the score of each feature as bars."""
    if not reason.feature_scores:
        return None
    rows = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            tag(
                "td",
                tag("span", class_="bar" if score >= 0 else "bar less", style=f"width:{abs(score) / max_score:.1%}"),
            ),
            tag("td", f"{score:.2f}"),
        )
        for name, score in reason.feature_scores
    ]
    return collapsible("what each feature adds to its score", tag("table", *rows))


def _highlight_words(text: str, words: Sequence[str]) -> Iterator[Part]:
    """Yield the text, with the words of the question highlighted, however inflected."""
    query_terms = frozenset(subject_terms(" ".join(words)))
    for piece in _split_words(text):
        terms = set(subject_terms(piece))
        yield tag("mark", piece) if terms and terms <= query_terms else piece


def _split_words(text: str) -> Iterator[str]:
    return (piece for piece in re.split(r"(\W+|[\u3040-\u30ff]+)", text) if piece)


def _capitalize(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
