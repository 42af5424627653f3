"""texts -> which of them, or of their sentences, others repeat."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from functools import lru_cache
from unicodedata import normalize

from kumihimo.text.sentences import split_blocks, split_sentences
from kumihimo.text.tokens import subject_terms

_REPEATED_SHARE = 0.8  # of the terms of a sentence in another one, which says it already
_KEPT_TEXTS = 2048  # whose terms are kept: many reports hold the same rows
_NAME_OR_NUMBER = re.compile(r"\b(?:[A-Z]\w*|\w*\d\w*)")
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


def split_block(kind: str, text: str) -> list[str]:
    """Return the sentences of a block."""
    return [text] if kind == "row" else [text[start:end] for start, end in split_sentences(text)]


class Repeats:
    """The sentences of earlier sources, by pairs of neighbours.

    >>> repeats = Repeats()
    >>> repeats.add("Roake built the breakwater. It was finished in 1911, and cost 9,000 crowns.")
    >>> repeats.contain("Roake built the breakwater in 1911."), repeats.contain("Roake built the breakwater in 1912.")
    (True, False)
    """

    def __init__(self) -> None:
        self._pairs: list[Set[str]] = []
        self._pairs_of: dict[str, set[int]] = defaultdict(set)  # by term

    def add(self, text: str) -> None:
        for pair in _neighbour_terms(text):
            for term in pair:
                self._pairs_of[term].add(len(self._pairs))
            self._pairs.append(pair)

    def contain(self, text: str, *, share: float = _REPEATED_SHARE) -> bool:
        """Return whether earlier sentences hold this share of the text's terms.

        Two neighbouring sentences have to hold them, and each name and number.
        """
        terms, required = _terms_to_find(text)
        counts = Counter(pair for term in terms for pair in self._pairs_of.get(term, ()))
        enough = (pair for pair, count in counts.items() if count >= share * len(terms))
        return not terms or any(required <= self._pairs[pair] for pair in enough)


@lru_cache(maxsize=_KEPT_TEXTS)
def _neighbour_terms(text: str) -> Sequence[Set[str]]:
    """Return the terms of each sentence and the next one."""
    pairs: list[Set[str]] = []
    for block in split_blocks(text):
        sentences = split_block(block.kind, text[block.start : block.end])
        terms = [set(subject_terms(sentence)) for sentence in sentences]
        pairs += (first | second for first, second in zip(terms, [*terms[1:], set()], strict=True))
    return pairs


@lru_cache(maxsize=_KEPT_TEXTS)
def _terms_to_find(text: str) -> tuple[Set[str], Set[str]]:
    """Return the terms of a text, and of its names."""
    terms = set(subject_terms(text))
    return terms, terms.intersection(subject_terms(" ".join(_NAME_OR_NUMBER.findall(text))))
