"""descriptions of one thing -> one description: joined while short, else merged by a model in packs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kumihimo.core.context import Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM
from kumihimo.llm.structured import require_complete_text

PROMPT = Path(__file__).with_suffix(".md")
_PACK_END_ODDS = 6  # on average one description in six ends its pack
_PACK_TOKENS = 4000  # maximum of a pack


def merge_descriptions(
    names: Iterable[str], texts: Sequence[str], tokenizer: Tokenizer, llm: LLM | None, limit: int
) -> str:
    """Return one description of at most about `limit` tokens.

    texts: sorted and unique. Without a model, keep the first texts that fit. With a model, merge packs of texts, then
    the results, until they fit. Raise ItemFailed.
    """
    if len(texts) < 2:
        return "".join(texts)
    if llm is None:
        return "\n".join(_first_texts(texts, tokenizer, limit))
    lengths = {text: len(tokenizer(text)) for text in texts}
    while len(texts) > 1 and sum(lengths[text] for text in texts) > limit:
        text_packs = list(pack_texts(texts, lengths, _PACK_TOKENS, _PACK_END_ODDS))
        texts = sorted({_merge_pack(names, pack, llm, limit) if len(pack) > 1 else pack[0] for pack in text_packs})
        lengths = {text: len(tokenizer(text)) for text in texts}
    return "\n".join(texts)


def _first_texts(texts: Sequence[str], tokenizer: Tokenizer, limit: int) -> Iterator[str]:
    """Yield texts while they fit the limit, at least one."""
    for i, text in enumerate(texts):
        limit -= len(tokenizer(text))
        if limit < 0 and i:
            return
        yield text


def pack_texts(texts: Sequence[str], lengths: Mapping[str, int], size: int, end_odds: int) -> Iterator[list[str]]:
    """Split texts into packs of at most `size` tokens.

    Each pack has at least two texts, except the last. On average one text in `end_odds` ends its pack. The text itself
    decides, not its position: after an insertion only one pack changes.

    >>> texts = [f"{n:02}" for n in range(20)]
    >>> cut = list(pack_texts(texts, dict.fromkeys(texts, 1), 99, 4))
    >>> more = list(pack_texts(sorted([*texts, "12b"]), dict.fromkeys([*texts, "12b"], 1), 99, 4))
    >>> len(cut), len([pack for pack in more if pack not in cut])
    (3, 1)
    """
    pack: list[str] = []
    used = 0
    for text in texts:
        if len(pack) > 1 and (used + lengths[text] > size or int(hash_parts(pack[-1]), 16) % end_odds == 0):
            yield pack
            pack, used = [], 0
        pack.append(text)
        used += lengths[text]
    yield pack


def _merge_pack(names: Iterable[str], pack: Sequence[str], llm: LLM, limit: int) -> str:
    """Return a model's merged description of one pack."""
    bullets = "\n".join(f"- {' '.join(text.split())}" for text in pack)
    messages = render_prompt(PROMPT, names=" and ".join(names), descriptions=bullets, words=str(limit // 2))
    return llm(messages, parse=require_complete_text)
