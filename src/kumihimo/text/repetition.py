"""texts -> the same texts; one that another one contains is left out."""

from collections.abc import Sequence
from unicodedata import normalize

MAX_COMPARED = 500  # of more texts, only equal ones are dropped
_EDGE_CHARS = " .,;:!?。、，；：！？…\"'“”‘’「」『』()（）"


def drop_contained(texts: Sequence[str]) -> list[str]:
    """Return the texts that stand in no other text, in order.

    Case, width, spaces and punctuation at the ends make no difference. Of equal texts, the first stays.

    >>> drop_contained(["Ann mends boats", "ann  mends boats.", "In May Ann mends boats.", "組紐", "組紐は届く。"])
    ['In May Ann mends boats.', '組紐は届く。']
    >>> drop_contained(["Ann", "Anna paid."])
    ['Ann', 'Anna paid.']
    """
    first_by_form: dict[str, str] = {}
    for text in texts:
        first_by_form.setdefault(_plain_form(text), text)
    if len(first_by_form) > MAX_COMPARED:
        return list(first_by_form.values())
    kept: set[str] = set()
    longer_forms = "\n"
    for form in sorted(first_by_form, key=len, reverse=True):
        if not form or not _stands_in(form, longer_forms):
            kept.add(form)
            longer_forms += f"{form}\n"
    return [text for form, text in first_by_form.items() if form in kept]


def _plain_form(text: str) -> str:
    plain = text if text.isascii() else normalize("NFKC", text)
    return " ".join(plain.casefold().split()).strip(_EDGE_CHARS)


def _stands_in(form: str, text: str) -> bool:
    """Return whether a text contains a form between word boundaries.

    The text begins and ends with a line break.
    """
    start = text.find(form)
    while start >= 0:
        end = start + len(form)
        if not (_joins(text[start - 1], form[0]) or _joins(form[-1], text[end])):
            return True
        start = text.find(form, start + 1)
    return False


def _joins(first: str, second: str) -> bool:
    """Return whether two letters are of one word, in scripts with spaces."""
    return first.isalnum() and second.isalnum() and max(first, second) < "\u3000"
