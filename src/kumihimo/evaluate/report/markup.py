"""texts -> HTML in which they are texts: whatever they say, they are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_VOID_ELEMENTS = ("br", "input", "line", "circle", "rect", "path", "polyline")


class Html(str):
    """What may stand in a page as it is."""

    __slots__ = ()


Part = str | None  # a text; or Html; or nothing


def escape_part(part: Part) -> str:
    return "" if part is None else part if isinstance(part, Html) else escape(str(part))


def join_html(parts: Iterable[Part], between: str = "") -> Html:
    return Html(between.join(escape_part(part) for part in parts))


def tag(name: str, *inside: Part, **attributes: str | float | None) -> Html:
    """An element; `class_` is its class, `data_of` its data-of; None: no such attribute.

    >>> tag("p", "a < b", tag("b", "!"), class_='"x"')
    '<p class="&quot;x&quot;">a &lt; b<b>!</b></p>'
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{said}/>" if name in _VOID_ELEMENTS else f"<{name}{said}>{join_html(inside)}</{name}>")


def p(*inside: Part, class_: str | None = None) -> Html:
    return tag("p", *inside, class_=class_)


def bold(text: str) -> Html:
    return tag("b", text)


def bullet_list(items: Iterable[Part], class_: str | None = None) -> Html:
    return tag("ul", *(tag("li", item) for item in items), class_=class_)


def html_table(caption: Part, head: Sequence[Part], rows: Iterable[Sequence[Part]], *, class_: str = "") -> Html:
    """With scopes; the first cell of each row names it. It scrolls in a box of its own, which a keyboard reaches."""
    top = tag("tr", *(tag("th", name, scope="col") for name in head))
    body = (tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows)
    held = tag("table", tag("caption", caption), tag("thead", top), tag("tbody", *body), class_=class_ or None)
    return tag("div", held, class_="wide", tabindex="0", role="group", aria_label=_strip_tags(caption))


def _strip_tags(text: Part) -> str:
    from re import sub

    return sub(r"<[^>]*>", "", text or "")


def collapsible(summary: Part, *inside: Part) -> Html:
    return tag("details", tag("summary", summary), *inside)


# -- numbers in words


def format_percent(value: float | None) -> str:
    """A percentage.

    >>> share(56.6), share(None)
    ('57\\u202f%', '–')
    """
    return "–" if value is None else f"{round(value)}\u202f%"


def format_figure(value: float | None, digits: int = 2) -> str:
    """With as many digits as are worth reading.

    >>> figure(1234.5), figure(31.42), figure(0.6666), figure(None)
    ('1,234', '31.4', '0.67', '–')
    """
    if value is None:
        return "–"
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.{digits}f}"


def format_p_value(p: float) -> str:
    """A p-value.

    >>> chance(0.0001), chance(0.0312), chance(1.0)
    ('< .001', '.031', '1')
    """
    if p < 0.001:
        return "< .001"
    return "1" if p >= 0.9995 else f"{p:.3f}"[1:]


def pluralise(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def join_words(words: Sequence[str]) -> str:
    """
    >>> enumerated(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
