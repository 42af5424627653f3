"""a chunk -> the names in its sentences, and who is named with whom: what a model would be asked, by rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kumihimo.core.records import Chunk, Mention, Tie


def mentions(chunk: Chunk, aliases: Mapping[str, str]) -> Iterable[Mention]:
    """A mention for each name in each sentence, whose text is the sentence."""
    raise NotImplementedError


def ties(chunk: Chunk, aliases: Mapping[str, str]) -> Iterable[Tie]:
    """A tie for each two names of one sentence, whose text is the sentence; nobody judges its strength."""
    raise NotImplementedError
