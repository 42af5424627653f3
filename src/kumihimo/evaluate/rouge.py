"""texts -> ROUGE-L: how many of the words of two texts stand in the same order in both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from kumihimo.text.tokens import tokenize as words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TokenKind = Literal["unicode", "paper"]
_ASCII = re.compile("[a-z0-9]+")
_SURROGATES, _FIRST_SURROGATE = 0x800, 0xD800  # of surrogate pairs, which are no characters


def rouge_tokens(text: str, kind: TokenKind = "unicode") -> list[str]:
    """The words that are compared: as the house finds them, in any script, or those that `rouge_score` sees.

    Of the house: folded, lightly stemmed, scripts without spaces in pairs. `paper` knows a to z and digits alone.

    >>> tokens("Émile's café, 2 boats"), tokens("組紐の工房")
    (['emile', 's', 'cafe', '2', 'boat'], ['組紐', '紐の', 'の工', '工房'])
    >>> tokens("Émile's café, 2 boats", "paper"), tokens("組紐の工房", "paper")
    (['mile', 's', 'caf', '2', 'boats'], [])
    """
    return words(text) if kind == "unicode" else _ASCII.findall(text.lower())


def rouge_matrix(texts: Sequence[str], kind: TokenKind = "unicode") -> NDArray[np.float64]:
    """ROUGE-L F of each text with each: of the longest common subsequence, P = LCS / |a|, R = LCS / |b| (Lin, 2004).

    A text without words is like no other, nor like itself.
    But: 2 LCS / (|a| + |b|), which is the same; `paper` has the library's 2PR / (P + R), to the last digit.

    >>> matrix(["the ferry left at nine", "the ferry had left"])[0, 1]  # the, ferry, left: 6 of 9
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
    """1 - ROUGE-L of each text with each: but for `paper` rounded once, so that what is .2 apart is .2 apart."""
    import numpy as np

    if kind == "paper":
        return 1 - rouge_matrix(texts, kind)
    common, sizes = _common_subsequences(texts, kind)
    both = sizes[:, None] + sizes[None, :]
    return np.asarray((both - 2 * common) / both, dtype=np.float64)


def rouge_l(a: str, b: str, kind: TokenKind = "unicode") -> float:
    """ROUGE-L F of two texts.

    >>> rouge_l("船は九時に出た", "船は十時に出た")  # 4 of 6 pairs
    0.6666666666666666
    """
    return float(rouge_matrix([a, b], kind)[0, 1])


def _common_subsequences(texts: Sequence[str], kind: TokenKind) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How many words each has in common with each, in order; and how many it has, 1 at least."""
    import numpy as np
    from rapidfuzz.distance import LCSseq
    from rapidfuzz.process import cdist

    spelled = _encode_words([rouge_tokens(text, kind) for text in texts])
    common = cdist(spelled, spelled, scorer=LCSseq.similarity, dtype=np.int32).astype(np.float64)
    return common, np.maximum([len(word) for word in spelled], 1).astype(np.float64)


def _encode_words(lists: Sequence[Sequence[str]]) -> list[str]:
    """Each list with a character for each word: what the library compares fastest."""
    letters: dict[str, str] = {}
    for word in (word for listed in lists for word in listed):
        n = len(letters)
        letters.setdefault(word, chr(n if n < _FIRST_SURROGATE else n + _SURROGATES))
    return ["".join(letters[word] for word in listed) for listed in lists]
