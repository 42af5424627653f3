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
    longer_forms = ""
    for form in sorted(first_by_form, key=len, reverse=True):
        if not form or not contains_phrase(longer_forms, form):
            kept.add(form)
            longer_forms += f"{form}\n"
    return [text for form, text in first_by_form.items() if form in kept]


def _plain_form(text: str) -> str:
    plain = text if text.isascii() else normalize("NFKC", text)
    return " ".join(plain.casefold().split()).strip(_EDGE_CHARS)


def contains_phrase(text: str, phrase: str) -> bool:
    """Return whether a text contains a phrase between word boundaries.

    >>> [contains_phrase(text, "Hill") for text in ("Hillary won.", "Jessie Hill won.")]
    [False, True]
    >>> contains_phrase("青木氏は", "青木")
    True
    """
    start = text.find(phrase)
    while start >= 0:
        end = start + len(phrase)
        joins_before = start > 0 and _joins(text[start - 1], phrase[0])
        if not joins_before and not (end < len(text) and _joins(phrase[-1], text[end])):
            return True
        start = text.find(phrase, start + 1)
    return False


def _joins(first: str, second: str) -> bool:
    """Return whether two letters are of one word, in scripts with spaces."""
    return first.isalnum() and second.isalnum() and max(first, second) < "\u3000"
