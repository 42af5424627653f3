"""the lines of a web page -> the same without link menus around the article."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import groupby

from kumihimo.readers.layout import LayoutLine, PageLayout

MIN_MATCH_CHARS = 25  # shorter lines may match by chance
MIN_MENU_LINES = 3
MAX_LINK_SHARE = 0.5  # of a line's characters; outside the article, a line with more in links is a menu


def remove_menus(page: PageLayout, source: str) -> PageLayout:
    """Remove link lists before and after the article.

    trafilatura locates the article, if it is installed.
    """
    article = _keep_alnum(_extract_article(source))

    def inside(index: int) -> bool:
        text = _keep_alnum(page.lines[index].text)
        return len(text) >= MIN_MATCH_CHARS and text in article

    indices = range(len(page.lines))
    first, last = next(filter(inside, indices), -1), next(filter(inside, reversed(indices)), -1)
    if first < 0:
        return page
    before, after = page.lines[:first], page.lines[last + 1 :]
    return PageLayout((*_drop_link_lists(before), *page.lines[first : last + 1], *_drop_link_lists(after)))


def _drop_link_lists(lines: tuple[LayoutLine, ...]) -> Iterator[LayoutLine]:
    """Drop runs of link lines.

    Several links in a row are a menu; a single one may be a heading or a reference.
    """
    for is_link, group in groupby(lines, key=_is_link_line):
        run = list(group)
        if not is_link or len(run) < MIN_MENU_LINES:
            yield from run


def _is_link_line(line: LayoutLine) -> bool:
    return line.link_chars > MAX_LINK_SHARE * len(line.text) and not line.prefix.startswith("#")


def _extract_article(source: str) -> str:
    if find_spec("trafilatura") is None:
        return ""
    from trafilatura import extract

    try:
        return extract(source, favor_recall=True) or ""
    except Exception:  # noqa: BLE001 (on failure the page stays as it is)
        return ""


def _keep_alnum(text: str) -> str:
    return "".join(filter(str.isalnum, text))
