"""a question + its evidence -> a page that tells why each piece was chosen, in one HTML file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

from kumihimo.app.explanations import Reason, reasons
from kumihimo.app.safe_write import MARK, file
from kumihimo.app.snapshot import Reading
from kumihimo.cli import terminal
from kumihimo.core.context import Context, Evidence
from kumihimo.evaluate.report.markup import Html, Part, bold, folded, joined, p, tag
from kumihimo.text.tokens import subjects

_PLACES = 3


def write(reading: Reading, path: Path, question: str, method: str, context: Context) -> None:
    """The question, its evidence and why each piece was chosen, as one HTML file. Raises SettingsError."""
    file(path, [_page(reading, question, method, context)])


def _page(reading: Reading, question: str, method: str, context: Context) -> str:
    why = reasons(reading, question, context)
    most = max((abs(much) for reason in why for _, much in reason.why), default=0.0)
    ranks = {item.record.id: rank for rank, item in enumerate(context, 1)}
    items = [
        _item(reading, rank, item, reason, ranks, most)
        for rank, (item, reason) in enumerate(zip(context, why, strict=True), 1)
    ]
    said = [p(f"{len(items):,} pieces of evidence, by {method}, best first.", class_="quiet")]
    said += [p(f"{_capital(context.decided)}.")] if context.decided else []
    head = joined([Html('<meta charset="utf-8">'), tag("title", question), tag("style", Html(_style()))])
    body = tag("body", tag("h1", question), *said, tag("ol", *items))
    return f"<!doctype html>\n<!-- {MARK} -->\n{tag('html', tag('head', head), body)}\n"


@cache
def _style() -> str:
    return Path(__file__).with_suffix(".css").read_text(encoding="utf-8")


def _item(reading: Reading, rank: int, item: Evidence, reason: Reason, ranks: dict[str, int], most: float) -> Html:
    places = "; ".join(terminal.where(span) for span in islice(reading.trace(item), _PLACES))
    text = p(*_marked(item.text, reason.words), class_="text")
    return tag("li", p(bold(places)), p(*_told(reason, ranks)), _bars(reason, most), text, id=f"e{rank}")


def _told(reason: Reason, ranks: dict[str, int]) -> Iterator[Part]:
    """As `Reason.told`, the passage that it goes on from named by its place in the list, if it has one."""
    if not reason.tied:
        yield reason.told()
        return
    rank = ranks.get(reason.tied.chunk)
    before, _, rest = reason.told("\0").partition("\0")
    yield before
    yield tag("a", f"no. {rank}", href=f"#e{rank}") if rank else terminal.where(reason.tied)
    yield rest


def _bars(reason: Reason, most: float) -> Html | None:
    """What each feature adds, drawn."""
    if not reason.why:
        return None
    rows = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            tag("td", tag("span", class_="bar" if much >= 0 else "bar less", style=f"width:{abs(much) / most:.1%}")),
            tag("td", f"{much:.2f}"),
        )
        for name, much in reason.why
    ]
    return folded("what each feature adds to its score", tag("table", *rows))


def _marked(text: str, words: Sequence[str]) -> Iterator[Part]:
    """The text, the words of the question that it says marked, in whichever form they have there."""
    meant = frozenset(subjects(" ".join(words)))
    for piece in _cut(text):
        found = set(subjects(piece))
        yield tag("mark", piece) if found and found <= meant else piece


def _cut(text: str) -> Iterator[str]:
    return (piece for piece in re.split(r"(\W+|[\u3040-\u30ff]+)", text) if piece)


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
