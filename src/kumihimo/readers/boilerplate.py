"""the lines of a web page -> those of them that are no menu: of what stands around the article, not the links."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import groupby

from kumihimo.readers.layout import LayoutLine, PageLayout

MIN_MATCH_CHARS = 25  # letters from which on a line is found again only where it really stands
MIN_MENU_LINES = 3  # lines
MAX_LINK_SHARE = 0.5  # of a line: what has more in links is a menu, outside of the article


def remove_menus(page: PageLayout, source: str) -> PageLayout:
    """Without lists of links before and after the article; where that is, trafilatura tells, if it is installed."""
    article = _keep_alnum(_extract_article(source))

    def inside(place: int) -> bool:
        said = _keep_alnum(page.lines[place].text)
        return len(said) >= MIN_MATCH_CHARS and said in article

    every = range(len(page.lines))
    first, last = next(filter(inside, every), -1), next(filter(inside, reversed(every)), -1)
    if first < 0:
        return page
    before, after = page.lines[:first], page.lines[last + 1 :]
    return PageLayout((*_drop_link_lists(before), *page.lines[first : last + 1], *_drop_link_lists(after)))


def _drop_link_lists(lines: tuple[LayoutLine, ...]) -> Iterator[LayoutLine]:
    """Several links one after the other are a menu; one alone may be a heading, or a reference."""
    for linked, group in groupby(lines, key=_is_link_line):
        run = list(group)
        if not linked or len(run) < MIN_MENU_LINES:
            yield from run


def _is_link_line(line: LayoutLine) -> bool:
    return line.link_chars > MAX_LINK_SHARE * len(line.text) and not line.prefix.startswith("#")


def _extract_article(source: str) -> str:
    if find_spec("trafilatura") is None:
        return ""
    from trafilatura import extract

    try:
        return extract(source, favor_recall=True) or ""
    except Exception:  # noqa: BLE001 (nothing is lost: the page then stays as it is)
        return ""


def _keep_alnum(text: str) -> str:
    return "".join(filter(str.isalnum, text))
