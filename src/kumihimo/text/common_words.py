"""the vocabulary of the tokenizer inside WordLlama's wheel -> words that texts often write in small letters."""

import json
from functools import cache

from kumihimo.text.packages import TOKENIZER_FILE, find_wheel_file

_WORD_START = "▁"


@cache
def load_common_words() -> frozenset[str]:
    """Load the lower-case words that are one token of the tokenizer.

    They are of several languages.

    >>> [word in load_common_words() for word in ("wrote", "society", "london", "kevin")]
    [True, True, False, False]
    """
    tokens = json.loads(find_wheel_file(TOKENIZER_FILE).read_text(encoding="utf-8"))["model"]["vocab"]
    words = (token.removeprefix(_WORD_START) for token in tokens if token.startswith(_WORD_START))
    return frozenset(word for word in words if len(word) > 1 and word.isalpha() and word.islower())
