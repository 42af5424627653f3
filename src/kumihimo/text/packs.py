"""texts -> packs of limited size, whose ends the texts decide: a new text changes only one pack."""

from collections.abc import Iterator, Mapping, Sequence

from kumihimo.core.digests import hash_parts


def pack_texts(
    texts: Sequence[str], lengths: Mapping[str, int], size: int, end_odds: int, least: int = 0
) -> Iterator[list[str]]:
    """Split texts into packs of at most `size` tokens.

    Each pack has at least two texts, except the last. On average one text in `end_odds` ends its pack, once that has
    `least` tokens. The text itself decides, not its position: after an insertion few packs change.

    >>> texts = [f"{n:02}" for n in range(20)]
    >>> cut = list(pack_texts(texts, dict.fromkeys(texts, 1), 99, 4))
    >>> more = list(pack_texts(sorted([*texts, "12b"]), dict.fromkeys([*texts, "12b"], 1), 99, 4))
    >>> len(cut), len([pack for pack in more if pack not in cut])
    (3, 1)
    """
    pack: list[str] = []
    used = 0
    for text in texts:
        is_end = used >= least and pack and int(hash_parts(pack[-1]), 16) % end_odds == 0
        if len(pack) > 1 and (is_end or used + lengths[text] > size):
            yield pack
            pack, used = [], 0
        pack.append(text)
        used += lengths[text]
    yield pack
