"""a kind of search and a folder -> the hits in notes built by this process, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.search.factories_search_index import Notes, keyword_notes, mixed_texts, vector_notes

MAKE: dict[str, Callable[[Path, Mapping[str, str] | None], Notes]] = {"keyword": keyword_notes, "vector": vector_notes}
QUESTIONS = ("sea", "ferry boat sea", "silk and seed", "nothing of it")


def find_hits(kind: str, folder: Path) -> list[list[tuple[str, float]]]:
    """Return the hits of each question, in notes built twice."""
    index = MAKE[kind](folder, mixed_texts(300, seed=1))
    index.build(mixed_texts(300, seed=2))
    hits = [index.search_notes(question, k) for question in QUESTIONS for k in (3, 400)]
    index.store.close()
    return hits


if __name__ == "__main__":
    print(json.dumps(find_hits(sys.argv[1], Path(sys.argv[2]))))
