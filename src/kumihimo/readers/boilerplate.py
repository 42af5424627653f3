"""the lines of a web page -> those of them that are no menu: of what stands around the article, not the links."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import groupby

from kumihimo.readers.layout import Layout, Line

TELLING = 25  # letters from which on a line is found again only where it really stands
LIST = 3  # lines
LINKS = 0.5  # of a line: what has more in links is a menu, outside of the article


def without_menus(page: Layout, source: str) -> Layout:
    """Without lists of links before and after the article; where that is, trafilatura tells, if it is installed."""
    article = _letters(_article(source))

    def inside(place: int) -> bool:
        said = _letters(page.lines[place].text)
        return len(said) >= TELLING and said in article

    every = range(len(page.lines))
    first, last = next(filter(inside, every), -1), next(filter(inside, reversed(every)), -1)
    if first < 0:
        return page
    before, after = page.lines[:first], page.lines[last + 1 :]
    return Layout((*_without_lists(before), *page.lines[first : last + 1], *_without_lists(after)))


def _without_lists(lines: tuple[Line, ...]) -> Iterator[Line]:
    """Several links one after the other are a menu; one alone may be a heading, or a reference."""
    for linked, group in groupby(lines, key=_link):
        run = list(group)
        if not linked or len(run) < LIST:
            yield from run


def _link(line: Line) -> bool:
    return line.linked > LINKS * len(line.text) and not line.prefix.startswith("#")


def _article(source: str) -> str:
    if find_spec("trafilatura") is None:
        return ""
    from trafilatura import extract

    try:
        return extract(source, favor_recall=True) or ""
    except Exception:  # noqa: BLE001 (nothing is lost: the page then stays as it is)
        return ""


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))
