"""question -> the longest chunks."""

from kumihimo.ext import Chunk, Context, Evidence, Table


def longest(question: str, chunks: Table[Chunk], *, k: int = 5) -> Context:
    """Return the longest chunks, whatever the question."""
    best = sorted(chunks, key=lambda c: (-len(c.text), c.id))[:k]
    return Context(tuple(Evidence("chunks", c, float(len(c.text))) for c in best))
