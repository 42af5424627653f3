"""Texts -> ROUGE-L: the share of their words that occur in the same order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from kumihimo.text.tokens import tokenize

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TokenKind = Literal["unicode", "paper"]
_ASCII = re.compile("[a-z0-9]+")
_SURROGATES, _FIRST_SURROGATE = 0x800, 0xD800  # not characters, so their code points are skipped


def rouge_tokens(text: str, kind: TokenKind = "unicode") -> list[str]:
    """Return the words to compare.

    `unicode`: the project's own tokens for any script, folded, lightly stemmed, scripts without spaces as bigrams.
    `paper`: the tokens of `rouge_score`, a to z and digits only.

    >>> rouge_tokens("Émile's café, 2 boats"), rouge_tokens("組紐の工房")
    (['emile', 's', 'cafe', '2', 'boat'], ['組紐', '紐の', 'の工', '工房'])
    >>> rouge_tokens("Émile's café, 2 boats", "paper"), rouge_tokens("組紐の工房", "paper")
    (['mile', 's', 'caf', '2', 'boats'], [])
    """
    return tokenize(text) if kind == "unicode" else _ASCII.findall(text.lower())


def rouge_matrix(texts: Sequence[str], kind: TokenKind = "unicode") -> NDArray[np.float64]:
    """Return ROUGE-L F of every pair of texts (Lin, 2004).

    For the longest common subsequence, LCS: P = LCS / |a|, R = LCS / |b|. A text without words has similarity 0 to
    every text, itself included. `unicode` computes 2 LCS / (|a| + |b|), which is equal; `paper` computes the library's
    2PR / (P + R), to the last digit.

    >>> rouge_matrix(["the ferry left at nine", "the ferry had left"])[0, 1]  # the, ferry, left: 6 of 9
    np.float64(0.6666666666666666)
    """
    import numpy as np

    common, sizes = _common_subsequences(texts, kind)
    if kind == "unicode":
        return np.asarray(2 * common / (sizes[:, None] + sizes[None, :]), dtype=np.float64)
    precision, recall = common / sizes[:, None], common / sizes[None, :]
    both = precision + recall
    return np.asarray(2 * precision * recall / np.where(both > 0, both, 1.0), dtype=np.float64)


def rouge_distances(texts: Sequence[str], kind: TokenKind = "unicode") -> NDArray[np.float64]:
    """Return 1 - ROUGE-L of every pair of texts.

    `unicode` rounds only once, so that a distance of .2 is exactly .2.
    """
    import numpy as np

    if kind == "paper":
        return 1 - rouge_matrix(texts, kind)
    common, sizes = _common_subsequences(texts, kind)
    total = sizes[:, None] + sizes[None, :]
    return np.asarray((total - 2 * common) / total, dtype=np.float64)


def rouge_l(a: str, b: str, kind: TokenKind = "unicode") -> float:
    """Return ROUGE-L F of two texts.

    >>> rouge_l("船は九時に出た", "船は十時に出た")  # 4 of 6 pairs
    0.6666666666666666
    """
    return float(rouge_matrix([a, b], kind)[0, 1])


def _common_subsequences(texts: Sequence[str], kind: TokenKind) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the LCS of all pairs and the text lengths.

    Lengths are at least 1.
    """
    import numpy as np
    from rapidfuzz.distance import LCSseq
    from rapidfuzz.process import cdist

    encoded = _encode_words([rouge_tokens(text, kind) for text in texts])
    common = cdist(encoded, encoded, scorer=LCSseq.similarity, dtype=np.int32).astype(np.float64)
    return common, np.maximum([len(encoded_text) for encoded_text in encoded], 1).astype(np.float64)


def _encode_words(lists: Sequence[Sequence[str]]) -> list[str]:
    """Encode each word as one character, because the library compares strings fastest."""
    letters: dict[str, str] = {}
    for word in (word for words in lists for word in words):
        n = len(letters)
        letters.setdefault(word, chr(n if n < _FIRST_SURROGATE else n + _SURROGATES))
    return ["".join(letters[word] for word in words) for words in lists]
