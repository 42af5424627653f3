"""descriptions of one thing -> one: joined while they are short; beyond, merged by a model, pack by pack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kumihimo.core.context import Ruler
from kumihimo.core.digests import digest
from kumihimo.ports.models import Ask
from kumihimo.ports.prompts import prompt
from kumihimo.ports.replies import whole_text

PROMPT = Path(__file__).with_suffix(".md")
_ENDS = 6  # one description in so many ends its pack
_PACK = 4000  # tokens a pack has at most


def merged(names: Iterable[str], texts: Sequence[str], ruler: Ruler, ask: Ask | None, limit: int) -> str:
    """One description of at most about `limit` tokens. texts: in an order of their own, each once.

    Without a model, the first that fit. With one: packs of them are merged, then what that gave, until it is short.
    Raises ItemFailed.
    """
    if len(texts) < 2:
        return "".join(texts)
    if ask is None:
        return "\n".join(_first(texts, ruler, limit))
    lengths = {text: len(ruler(text)) for text in texts}
    while len(texts) > 1 and sum(lengths[text] for text in texts) > limit:
        packs = list(_packs(texts, lengths))
        texts = sorted({_merged(names, pack, ask, limit) if len(pack) > 1 else pack[0] for pack in packs})
        lengths = {text: len(ruler(text)) for text in texts}
    return "\n".join(texts)


def _first(texts: Sequence[str], ruler: Ruler, limit: int) -> Iterator[str]:
    for i, text in enumerate(texts):
        limit -= len(ruler(text))
        if limit < 0 and i:
            return
        yield text


def _packs(texts: Sequence[str], lengths: dict[str, int]) -> Iterator[list[str]]:
    """Two or more each, but for the last. What ends a pack is its last text, not how many came before: one more
    description is in one pack, and the others are what they were.
    """
    pack: list[str] = []
    size = 0
    for text in texts:
        if len(pack) > 1 and (size + lengths[text] > _PACK or int(digest(pack[-1]), 16) % _ENDS == 0):
            yield pack
            pack, size = [], 0
        pack.append(text)
        size += lengths[text]
    yield pack


def _merged(names: Iterable[str], pack: Sequence[str], ask: Ask, limit: int) -> str:
    listed = "\n".join(f"- {' '.join(text.split())}" for text in pack)
    asked = prompt(PROMPT, names=" and ".join(names), descriptions=listed, words=str(limit // 2))
    return ask(asked, read=whole_text)
