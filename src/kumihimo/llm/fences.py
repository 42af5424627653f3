"""texts -> the same texts between tags that occur in none of them, so that no document can pose as the prompt."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import count
from typing import NamedTuple
from unicodedata import normalize

_MAX_PLACE_CHARS = 120
_BRACKETS = "<>＜＞﹤﹥≮≯‹›〈〉《》⟨⟩⟪⟫❬❭❮❯❰❱˂˃≺≻«»"
_OPENING = re.compile(f"[{_BRACKETS[::2]}]")
_BRACKET = re.compile(f"[{_BRACKETS}]")
# letters that look Latin, and all brackets as the two of a tag
_LOOKALIKES = str.maketrans(
    "авгеісԁһјкӏмнопрԛѕтухѡαεικνορτυχ" + _BRACKETS, "abreicdhjklmhonpqstyxwaeikvoptux" + "<>" * (len(_BRACKETS) // 2)
)
_IGNORED = re.compile(r"[^\w<]+|_")
_MAX_DIGITS = 9


class Source(NamedTuple):
    """A numbered text of a prompt. place: where it comes from, such as a file name."""

    number: int
    text: str
    place: str = ""


FencedText = str | Sequence[Source]


def number_sources(texts: Iterable[str]) -> list[Source]:
    """Return the texts as sources, numbered from 1."""
    return [Source(number, text) for number, text in enumerate(texts, 1)]


def free_suffix(tags: Iterable[str], texts: Iterable[str]) -> str:
    """Return a suffix, mostly empty, for tags unlike anything in the texts.

    Case, width, spaces, punctuation and letters of other scripts that look Latin do not hide a tag.

    >>> free_suffix(["source"], ["The ferry < the source."]), free_suffix(["source"], ["No.\\n＜ / SOURCE 1>"])
    ('', '-2')
    """
    skeletons = [_skeleton(text) for text in texts if _OPENING.search(text)]
    patterns = [re.compile(f"<{_skeleton(tag)}([0-9]*)") for tag in tags] if skeletons else []
    used_numbers = {digits for pattern in patterns for text in skeletons for digits in pattern.findall(text)}
    if not used_numbers:
        return ""
    prefixes = {digits[:length] for digits in used_numbers for length in range(1, _MAX_DIGITS)}
    return f"-{next(n for n in count(2) if str(n) not in prefixes)}"


@lru_cache(maxsize=64)  # the examples of a prompt are in each of its requests
def _skeleton(text: str) -> str:
    """Return the letters, digits and opening brackets of a text."""
    return _IGNORED.sub("", normalize("NFKD", text).casefold().translate(_LOOKALIKES))


def fence_text(tag: str, suffix: str, value: FencedText) -> str:
    """Return a text, or each source, between its tags.

    Without text it is empty.

    >>> print(fence_text("source", "", [Source(1, "At nine.", "a>\\nb.md")]))
    <source 1 (a_ b.md)>
    At nine.
    </source 1>
    """
    if isinstance(value, str):
        return f"<{tag}{suffix}>\n{value}\n</{tag}{suffix}>" if value else ""
    return "\n\n".join(
        f"<{tag}{suffix} {number}{_place_label(place)}>\n{text}\n</{tag}{suffix} {number}>"
        for number, text, place in value
    )


def _place_label(place: str) -> str:
    """Return a place for an opening tag: one line, without brackets."""
    printable = "".join(letter if letter.isprintable() else " " for letter in _BRACKET.sub("_", place))
    line = " ".join(printable.split())
    shortened = line if len(line) <= _MAX_PLACE_CHARS else f"…{line[-_MAX_PLACE_CHARS:]}"
    return f" ({shortened})" if line else ""
