"""the lines of a web page -> those of them that are no menu: of what stands around the article, not the links."""

from __future__ import annotations

from importlib.util import find_spec

from kumihimo.ports.readers.layout import Layout, Line

TELLING = 25  # letters from which on a line is found again only where it really stands
LINKS = 0.5  # of a line: what has more in links is a menu, outside of the article


def without_menus(page: Layout, source: str) -> Layout:
    """Without lists of links before and after the article; where that is, trafilatura tells, if it is installed."""
    article = _letters(_article(source))
    inside = [i for i, line in enumerate(page.lines) if len(said := _letters(line.text)) >= TELLING and said in article]
    if not inside:
        return page
    first, last = inside[0], inside[-1]
    return Layout(tuple(line for i, line in enumerate(page.lines) if first <= i <= last or not _menu(line)))


def _menu(line: Line) -> bool:
    return line.linked > LINKS * len(line.text)


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
