"""index -> RDF of the current build, made on the first query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from kumihimo import Kumihimo, Solutions
from kumihimo.core.errors import IndexUnavailable, SettingsError
from kumihimo.rdf import store
from tests.stores import NEEDS_FILES

NAMES = "SELECT ?uri { ?d a kumi:Document ; kumi:uri ?uri } ORDER BY ?uri"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("Orrell mended the breakwater. Annie Orrell sang to Orrell.", encoding="utf-8")
    return folder


@pytest.fixture
def kumi(notes: Path) -> Iterator[Kumihimo]:
    with Kumihimo.open(notes.with_name(".kumi")) as kumi:
        kumi.index(notes)
        yield kumi


def values(solutions: Solutions) -> list[str]:
    return [term.value for row in solutions.rows for term in row if term]


def stores(kumi: Kumihimo) -> list[str]:
    folder = store.stores_folder(kumi.folder)
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.exists() else []


@NEEDS_FILES
def test_first_query_after_a_change_builds_the_store(kumi: Kumihimo, notes: Path) -> None:
    assert stores(kumi) == [], "no store before the first query"
    assert values(kumi.sparql(NAMES)) == ["notes/a.md"]
    (first,) = stores(kumi)
    kumi.index()
    with patch.object(store, "write_store", side_effect=AssertionError):
        assert values(kumi.sparql(NAMES)) == ["notes/a.md"], "nothing has changed"
    (notes / "b.md").write_text("The net loft.", encoding="utf-8")
    kumi.index()
    assert values(kumi.sparql(NAMES)) == ["notes/a.md", "notes/b.md"]
    (second,) = stores(kumi)
    assert second != first
    kumi.remove(notes / "b.md")
    assert values(kumi.sparql(NAMES)) == ["notes/a.md"]
    (notes / "a.md").write_text("Orrell mended the long net.", encoding="utf-8")
    kumi.index()
    assert stores(kumi) != []
    solutions = kumi.sparql("ASK { ?c a kumi:Chunk ; kumi:text ?t FILTER(CONTAINS(?t, 'long net')) }")
    assert solutions.boolean is True


@NEEDS_FILES
def test_plan_does_not_rebuild_the_store(kumi: Kumihimo, notes: Path) -> None:
    kumi.sparql(NAMES)
    (notes / "b.md").write_text("The net loft.", encoding="utf-8")
    kumi.plan(notes)
    with patch.object(store, "write_store", side_effect=AssertionError):
        assert values(kumi.sparql(NAMES)) == ["notes/a.md"]


def test_iris_are_the_same_in_a_fresh_index(kumi: Kumihimo, notes: Path, tmp_path: Path) -> None:
    query = "SELECT DISTINCT ?s { ?s ?p ?o } ORDER BY ?s"
    with Kumihimo.open(tmp_path / "other") as other:
        other.index(notes)
        assert values(other.sparql(query)) == values(kumi.sparql(query))


@NEEDS_FILES
def test_base_setting_changes_row_iris(notes: Path) -> None:
    home = notes.with_name(".kumi")
    with Kumihimo.open(home, settings={"rdf": {"base": "https://nets.example/kb/"}}) as kumi:
        kumi.index(notes, methods=["bm25"])
        (iri,) = values(kumi.sparql("SELECT ?d { ?d a kumi:Document }"))
        assert iri.startswith("https://nets.example/kb/documents/")
    with Kumihimo.open(home) as kumi:
        (iri,) = values(kumi.sparql("SELECT ?d { ?d a kumi:Document }"))
        assert iri.startswith("http://example.org/documents/")
        assert len(stores(kumi)) == 1
    for base in ("nets.example/", "http://a b/", "http://example.org", "", "http://a/> . <"):
        with pytest.raises(SettingsError, match="base"):
            Kumihimo.open(home, settings={"rdf": {"base": base}})


@NEEDS_FILES
@pytest.mark.parametrize("how", ["remove", "break"])
def test_removed_or_broken_store_is_rebuilt(how: str, kumi: Kumihimo) -> None:
    kumi.sparql(NAMES)
    path = store.stores_folder(kumi.folder) / stores(kumi)[0]
    solve: Callable[..., Any] = store.run_query
    damaged: list[bool] = []

    def damage_then_solve(*arguments: Any, **options: Any) -> Any:
        if not damaged:
            damaged.append(True)
            if how == "remove":
                store.remove_store(path)
            else:
                next(path.glob("MANIFEST*")).write_bytes(b"")
        return solve(*arguments, **options)

    with patch.object(store, "run_query", damage_then_solve):
        assert values(kumi.sparql(NAMES)) == ["notes/a.md"]
    assert damaged


def test_concurrent_queries_during_builds(kumi: Kumihimo, notes: Path) -> None:
    def build() -> None:
        for n in range(3):
            (notes / f"new-{n}.md").write_text(f"The net loft in {1880 + n}.", encoding="utf-8")
            with Kumihimo.open(kumi.folder) as other:
                other.index(wait=True)

    with ThreadPoolExecutor(4) as pool:
        built = pool.submit(build)
        solutions = list(pool.map(lambda _: values(kumi.sparql(NAMES)), range(9)))
        built.result()
    assert all(names[0] == "notes/a.md" and len(names) in (1, 2, 3, 4) for names in solutions)
    assert len(values(kumi.sparql(NAMES))) == 4


def test_read_only_folder_can_be_queried(kumi: Kumihimo) -> None:
    with patch("kumihimo.app.browse.sparql.os.access", return_value=False):
        assert values(kumi.sparql(NAMES)) == ["notes/a.md"]
    assert stores(kumi) == []


def test_missing_index_error_has_a_remedy(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path / ".kumi") as kumi, pytest.raises(IndexUnavailable, match="kumi index"):
        kumi.sparql(NAMES)
    assert list(tmp_path.iterdir()) == []
