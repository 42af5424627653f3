"""texts -> HTML; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_VOID_ELEMENTS = ("br", "input", "line", "circle", "rect", "path", "polyline")


class Html(str):
    """A text that is already HTML."""

    __slots__ = ()


Part = str | None  # a text, Html, or None for nothing


def escape_part(part: Part) -> str:
    """Return a part as HTML, escaped unless it is HTML."""
    return "" if part is None else part if isinstance(part, Html) else escape(str(part))


def join_html(parts: Iterable[Part], between: str = "") -> Html:
    """Join parts into HTML."""
    return Html(between.join(escape_part(part) for part in parts))


def tag(name: str, *inside: Part, **attributes: str | float | None) -> Html:
    """Return an element.

    `class_` is the class, `data_of` is data-of; an attribute of None is left out.

    >>> tag("p", "a < b", tag("b", "!"), class_='"x"')
    '<p class="&quot;x&quot;">a &lt; b<b>!</b></p>'
    """
    attributes_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(
        f"<{name}{attributes_text}/>"
        if name in _VOID_ELEMENTS
        else f"<{name}{attributes_text}>{join_html(inside)}</{name}>"
    )


def p(*inside: Part, class_: str | None = None) -> Html:
    """Return a paragraph."""
    return tag("p", *inside, class_=class_)


def bold(text: str) -> Html:
    """Return bold text."""
    return tag("b", text)


def code(text: str) -> Html:
    """Return text set as code."""
    return tag("code", text)


def bullet_list(items: Iterable[Part], class_: str | None = None) -> Html:
    """Return a bulleted list."""
    return tag("ul", *(tag("li", item) for item in items), class_=class_)


def html_table(caption: Part, head: Sequence[Part], rows: Iterable[Sequence[Part]], *, class_: str = "") -> Html:
    """Return a table with scopes, in a box that scrolls by keyboard.

    The first cell of each row is its header.
    """
    header = tag("tr", *(tag("th", name, scope="col") for name in head))
    body = (tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows)
    element = tag("table", tag("caption", caption), tag("thead", header), tag("tbody", *body), class_=class_ or None)
    return tag("div", element, class_="wide", tabindex="0", role="group", aria_label=_strip_tags(caption))


def _strip_tags(text: Part) -> str:
    """Return the text without tags."""
    from re import sub

    return sub(r"<[^>]*>", "", text or "")


def collapsible(summary: Part, *inside: Part) -> Html:
    """Return an element to unfold."""
    return tag("details", tag("summary", summary), *inside)


# -- numbers in words


def format_percent(value: float | None) -> str:
    r"""Return a percentage.

    >>> format_percent(56.6), format_percent(None)
    ('57\u202f%', '–')
    """
    return "–" if value is None else f"{round(value)}\u202f%"


def format_figure(value: float | None, digits: int = 2) -> str:
    """Return a number with the digits worth reading.

    >>> format_figure(1234.5), format_figure(31.42), format_figure(0.6666), format_figure(None)
    ('1,234', '31.4', '0.67', '–')
    """
    if value is None:
        return "–"
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.{digits}f}"


def format_p_value(p: float) -> str:
    """Return a p-value.

    >>> format_p_value(0.0001), format_p_value(0.0312), format_p_value(1.0)
    ('< .001', '.031', '1')
    """
    if p < 0.001:
        return "< .001"
    return "1" if p >= 0.9995 else f"{p:.3f}"[1:]


def pluralise(n: int, one: str, many: str = "") -> str:
    """Return a number with its noun, in the plural if needed."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def join_words(words: Sequence[str]) -> str:
    """Return words with commas and a final `and`.

    >>> join_words(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
