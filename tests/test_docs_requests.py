"""the pages with curl -> what they say a server answers is so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs_console import HERE
from tests.docs_requests import PAGES, answered
from tests.docs_transcripts import served_examples

pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_server_answers_what_a_page_says(path: Path) -> None:
    said = path.read_text(encoding="utf-8")
    with served_examples() as address:
        assert answered(said, address, HERE) == said, "run `python -m tests.docs_requests` and look at what changed"
