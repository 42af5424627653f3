"""an index -> the methods that answer there: built, or built by the first question at no cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.app.build.prepare_build import usable_methods
from kumihimo.core.errors import IndexUnavailable
from tests.fixtures_index import FREE, fill

MODEL = {"chat": {"model": "m", "base_url": "http://127.0.0.1:9/v1"}}
EMBEDDER = {"embedding": {"model": "e", "base_url": "http://127.0.0.1:9/v1"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index that was built for bm25 alone."""
    root = tmp_path_factory.mktemp("bare")
    with Kumihimo.open(root / ".kumi") as kumi:
        kumi.index(fill(root / "notes", {"a.md": "# Nets\n\nAda Holm mends nets. Ada Holm sings."}), methods=["bm25"])
    return root / ".kumi"


def test_without_a_model_all_that_needs_none_can_be_used(folder: Path) -> None:
    with Kumihimo.open(folder) as kumi:
        assert usable_methods(kumi.opened) == FREE
        assert len(kumi.ask("Who mends nets?", "global").citations) > 0  # built now


def test_with_a_model_methods_that_ask_can_be_used_too(folder: Path) -> None:
    with Kumihimo.open(folder, settings=MODEL) as kumi:
        usable = usable_methods(kumi.opened)
    assert {"hyde", "rq", "mapreduce", "global"} <= set(usable)
    assert "meta" not in usable  # its questions would be paid for


def test_what_would_have_to_be_embedded_for_money_cannot_be_used(folder: Path) -> None:
    root = folder.parent.parent / "paid"
    with Kumihimo.open(root / ".kumi", settings=EMBEDDER) as kumi:
        kumi.index(fill(root / "notes", {"a.md": "Ada Holm mends nets."}), methods=["bm25"])
        assert usable_methods(kumi.opened) == ["bm25"]


def test_an_index_that_is_not_built_has_none(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path / ".kumi") as kumi, pytest.raises(IndexUnavailable):
        usable_methods(kumi.opened)
