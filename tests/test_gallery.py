"""the examples of the gallery -> what their pages and their notebook say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import gallery_notebook
from tests.docs_console import GALLERY, HERE, rendered, steady


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.parent.name)
def test_commands_print_what_a_page_says(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert steady(rendered(page, path.parent)) == steady(page), "run `python -m tests.docs_console` and look"


def test_the_notebook_shows_what_it_says() -> None:
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    stored = nbformat.read(gallery_notebook.NOTEBOOK, as_version=4)
    now = gallery_notebook.executed()
    assert gallery_notebook.outputs(now) == gallery_notebook.outputs(stored), "run `python -m tests.gallery_notebook`"


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in (HERE / "gallery").rglob("*") if path.is_file()) < 400_000
