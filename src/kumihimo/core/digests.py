"""texts -> a hash, used as an id; a text -> a text that files can hold."""

from hashlib import blake2b


def hash_parts(*parts: str) -> str:
    """Return the hash of `parts`: 20 hex digits, equal on every machine.

    The parts are hashed as Python writes a tuple of them, so that different lists differ:

    >>> hash_parts("AB", "C") == hash_parts("A", "BC")
    False
    >>> hash_parts("AB", "C")
    '4bbc395d71529a87b3de'
    """
    return blake2b(ascii(parts).encode("ascii"), digest_size=10).hexdigest()


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates with U+FFFD.

    No file can hold half of a surrogate pair.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
