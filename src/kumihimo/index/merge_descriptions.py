"""descriptions of one thing -> one: joined while they are short; beyond, merged by a model, pack by pack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kumihimo.core.context import Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM
from kumihimo.llm.structured import require_complete_text

PROMPT = Path(__file__).with_suffix(".md")
_PACK_END_ODDS = 6  # one description in so many ends its pack
_PACK_TOKENS = 4000  # tokens a pack has at most


def merge_descriptions(
    names: Iterable[str], texts: Sequence[str], tokenizer: Tokenizer, llm: LLM | None, limit: int
) -> str:
    """One description of at most about `limit` tokens. texts: in an order of their own, each once.

    Without a model, the first that fit. With one: packs of them are merged, then what that gave, until it is short.
    Raises ItemFailed.
    """
    if len(texts) < 2:
        return "".join(texts)
    if llm is None:
        return "\n".join(_first_texts(texts, tokenizer, limit))
    lengths = {text: len(tokenizer(text)) for text in texts}
    while len(texts) > 1 and sum(lengths[text] for text in texts) > limit:
        cut = list(pack_texts(texts, lengths, _PACK_TOKENS, _PACK_END_ODDS))
        texts = sorted({_merge_pack(names, pack, llm, limit) if len(pack) > 1 else pack[0] for pack in cut})
        lengths = {text: len(tokenizer(text)) for text in texts}
    return "\n".join(texts)


def _first_texts(texts: Sequence[str], tokenizer: Tokenizer, limit: int) -> Iterator[str]:
    for i, text in enumerate(texts):
        limit -= len(tokenizer(text))
        if limit < 0 and i:
            return
        yield text


def pack_texts(texts: Sequence[str], lengths: Mapping[str, int], size: int, end_odds: int) -> Iterator[list[str]]:
    """Of at most `size`, but two texts or more each, save the last. One text in `ends` ends its pack.

    It is the text that ends it, not how many came before: one more is in one pack, and the others are what they were.

    >>> texts = [f"{n:02}" for n in range(20)]
    >>> cut = list(packs(texts, dict.fromkeys(texts, 1), 99, 4))
    >>> more = list(packs(sorted([*texts, "12b"]), dict.fromkeys([*texts, "12b"], 1), 99, 4))
    >>> len(cut), len([pack for pack in more if pack not in cut])
    (3, 1)
    """
    pack: list[str] = []
    held = 0
    for text in texts:
        if len(pack) > 1 and (held + lengths[text] > size or int(hash_parts(pack[-1]), 16) % end_odds == 0):
            yield pack
            pack, held = [], 0
        pack.append(text)
        held += lengths[text]
    yield pack


def _merge_pack(names: Iterable[str], pack: Sequence[str], llm: LLM, limit: int) -> str:
    listed = "\n".join(f"- {' '.join(text.split())}" for text in pack)
    asked = render_prompt(PROMPT, names=" and ".join(names), descriptions=listed, words=str(limit // 2))
    return llm(asked, parse=require_complete_text)
