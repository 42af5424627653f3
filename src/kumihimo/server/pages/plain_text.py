r"""a text in Markdown + marks -> the text without the signs of Markdown, and its pieces.

static/plain_text.js does the same in the browser.
"""

import re
from collections.abc import Iterator, Sequence

_ADDRESS = r"\((?:[^()\s]|\([^()\s]{0,200}\)){0,500}(?: \"[^\"\n]{0,200}\")?\)"
_SIGN = re.compile(
    r"^[ \t]*(?:```.*|(?:[-*_=:|][ \t]*){3,})$\n?"  # the fence of code, a ruler
    r"|(?:^|(?<=^…)|(?<=[.!?。！？…] ))[ ]{0,3}#{1,6}[ ]+|(?<= )#{2,6}[ ]+"  # a heading; a snippet is one line
    r"|^[ ]{0,3}>[> ]*"  # a quotation
    rf"|!?\[(?=[^\[\]\n]{{0,300}}\](?:{_ADDRESS}|\([^)\s]{{0,500}}\Z))"  # a link before its words
    rf"|\](?:{_ADDRESS}|\([^)\s]{{0,500}}\Z)"  # and behind them, perhaps cut off
    r"|!?\[\[(?:[^\[\]|\n]{1,300}\|)?(?P<wiki>[^\[\]|\n]{1,300})\]\]"
    r"|\*\*|`+"
    r"|(?<![\w*])\*(?P<star>[^\s*](?:[^*\n]{0,300}[^\s*])?)\*(?![\w*])"
    r"|(?<![\w_])_(?P<line>[^\s_](?:[^_\n]{0,300}[^\s_])?)_(?![\w_])",
    re.M,
)


def plain_text(text: str) -> str:
    r"""Return a text without the signs of Markdown.

    Those are links, headings, quotations, rulers, fences, bold and italic type and code.

    >>> plain_text("# Tide\n---\nThe **arm** _leaks_: [plan](a.md), snake_case, 2 * 3 * 4 [7]")
    'Tide\nThe arm leaks: plan, snake_case, 2 * 3 * 4 [7]'
    """
    return "".join(piece for piece, _ in marked_pieces(text, ()))


def marked_pieces(text: str, marks: Sequence[Sequence[int]]) -> list[tuple[str, bool]]:
    """Return the pieces of a text, and whether each is marked.

    Signs of Markdown are left out. marks: start and end of each, in order.

    >>> marked_pieces("One [**two**](a.md) three", [(7, 10)])
    [('One ', False), ('two', True), (' three', False)]
    """
    signs = list(_sign_spans(text, 0, len(text)))
    pieces, end = list[tuple[str, bool]](), 0
    for start, stop in [*marks, (len(text), len(text))]:
        pieces += [(_without(text, signs, end, start), False), (_without(text, signs, start, stop), True)]
        end = stop
    return [piece for piece in pieces if piece[0]]


def _sign_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for match in _SIGN.finditer(text, start, end):
        if inner := match.lastgroup:
            yield match.start(), match.start(inner)
            yield from _sign_spans(text, *match.span(inner))
            yield match.end(inner), match.end()
        else:
            yield match.span()


def _without(text: str, signs: Sequence[tuple[int, int]], start: int, end: int) -> str:
    """Return `[start, end)` of a text without the signs."""
    kept = []
    for first, last in signs:
        if start < last and first < end:
            kept.append(text[start : max(start, first)])
            start = last
    return "".join([*kept, text[start:end]])
