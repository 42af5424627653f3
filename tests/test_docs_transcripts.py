"""pages about the server -> their Python runs against one, and prints what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs_transcripts import PAGES, served_examples, transcribed


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served_examples() as address:
        yield address


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_transcripts_are_what_the_server_says(path: Path, address: str) -> None:
    said = path.read_text(encoding="utf-8")
    assert transcribed(said, address) == said, "run `python -m tests.docs_transcripts` and look at what changed"
