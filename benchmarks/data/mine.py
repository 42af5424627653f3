"""essays and lists of facts (MINE of kg-gen) -> some of the essays, and the facts that a good graph of each holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.data.sources import Sample, Tables, read_ids, read_json, read_rows, select


def convert_mine(files: Sequence[Path], sample: Sample) -> Tables:
    """Convert essays by number, and the lists of facts that are about them.

    The published lists are not in the order of the essays: `essay:list` among the ids says which belong together.
    """
    essays = {
        str(n): {"id": n, "topic": row["topic"], "content": row["content"]}
        for n, row in enumerate(read_rows(files[0]), 1)
    }
    lists = [[fact["answer"] for fact in facts] for facts in read_json(files[1])]
    pairs = (map(int, pair.split(":")) for pair in read_ids(sample.questions))
    facts = [{"id": essay, "facts": lists[number - 1]} for essay, number in pairs]
    return {"essays.jsonl": select(essays, sample.passages), "facts.jsonl": facts}
