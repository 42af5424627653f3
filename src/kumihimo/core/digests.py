"""texts -> their digest, the id of whatever they name; a text -> as a file can hold it."""

from __future__ import annotations

from hashlib import blake2b


def hash_parts(*parts: str) -> str:
    """The id of whatever `parts` name: 20 hex digits, the same on every machine.

    The parts are digested as Python writes a tuple of them, so that no two lists of parts are alike:

    >>> digest("AB", "C") == digest("A", "BC")
    False
    >>> digest("AB", "C")
    '4bbc395d71529a87b3de'
    """
    return blake2b(ascii(parts).encode("ascii"), digest_size=10).hexdigest()


def replace_surrogates(text: str) -> str:
    """The text with each half of a surrogate pair, which no file can hold, replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
