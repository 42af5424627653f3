"""the store of another system -> a source: nothing paid again, importing again is the update, removing removes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from kumihimo import Kumihimo, import_store
from kumihimo.app.build.import_store import _default_name, _list_changes
from kumihimo.core.errors import Cancelled, SourceError
from kumihimo.readers.remote.mirror import changed_files
from kumihimo.testing.fake_models import FakeChat
from tests.fake_graph_reader import Readers
from tests.importers.factories_stores import TEXTS, graphrag_tables, write_graphrag, write_working_folder

METHODS = ("local", "global", "light", "braid", "bm25")


@pytest.fixture
def kumi(tmp_path: Path) -> Iterator[Kumihimo]:
    with Kumihimo(tmp_path / ".kumi", {"mentions": {"claims": True}}) as kumi:
        yield kumi


def tables(kumi: Kumihimo) -> dict[str, list[Any]]:
    with kumi.snapshot() as snapshot:
        return {name: list(snapshot.table(name)) for name in snapshot.record_types if snapshot.db.has(name)}


def with_model(kumi: Kumihimo) -> FakeChat:
    kumi.models = Readers(kumi.models.settings, lambda: kumi.cache)
    chat = kumi.models.chat("mentions")
    assert isinstance(chat, FakeChat)
    return chat


def test_the_index_holds_what_the_store_holds(kumi: Kumihimo, tmp_path: Path) -> None:
    imported = import_store(kumi, "graphrag", write_graphrag(tmp_path / "letters"), methods=METHODS)
    assert (imported.name, imported.built.rows["entities"], imported.built.failed) == ("letters", 5, ())
    rows = tables(kumi)
    assert {row.text for row in rows["documents"]} == set(TEXTS.values())
    assert all(TEXTS["harbour.txt"][c.start : c.end] == c.text for c in rows["chunks"] if c.title == "harbour")
    entities = {row.name: row for row in rows["entities"]}
    assert entities["Ada Quill"].text == "Ada Quill keeps the harbour and winds the clock."
    assert (entities["Ada Quill"].type, entities["Ada Quill"].mentions) == ("person", 3)
    relations = {row.text: (row.weight, row.strength) for row in rows["relations"]}
    assert relations["Ada Quill winds the tide clock."] == (2, 8.0)
    [claim] = rows["claims"]
    assert (claim.text, claim.start, claim.quotes) == ("Bo Lind repairs the clock.", "1990-05-01", (claim.text,))
    leaves = {frozenset(row.members) for row in rows["communities"] if row.members}
    pair = frozenset(entities[name].id for name in ("Ada Quill", "tide clock"))
    assert pair in leaves
    written = {row.title: row for row in rows["reports"]}
    assert set(written) == {"Report on Ada Quill", "Report on Bo Lind"}
    with kumi.snapshot() as snapshot:
        for reference in written["Report on Ada Quill"].citations():
            assert list(snapshot.trace(reference)), reference
    for method in METHODS:
        assert kumi.ask("Who winds the tide clock?", method).citations


def test_edits_are_applied_to_what_is_imported(tmp_path: Path) -> None:
    lines = ["Captain Quill = Ada Quill", "type: tide clock = machine", "delete: Bo Lind"]
    (tmp_path / "aliases.txt").write_text("\n".join(lines), "utf-8")
    with Kumihimo.open(tmp_path / ".kumi", settings={"mentions": {"claims": True}}) as kumi:
        imported = import_store(kumi, "graphrag", write_graphrag(tmp_path / "letters"), methods=METHODS)
        assert (imported.built.failed, imported.built.unmatched) == ((), ())
        rows = tables(kumi)
        entities = {row.name: row for row in rows["entities"]}
        assert entities["Captain Quill"].text == "Ada Quill keeps the harbour and winds the clock."
        assert entities["tide clock"].type == "machine"
        assert "Bo Lind" not in entities
        assert rows["claims"] == []
        assert not [row for row in rows["relations"] if "Bo Lind" in row.names]
        leaves = {frozenset(row.members) for row in rows["communities"] if row.members}
        assert frozenset(entities[name].id for name in ("Captain Quill", "tide clock")) in leaves
        with kumi.snapshot() as snapshot:
            assert all(list(snapshot.trace(cited)) for row in rows["reports"] for cited in row.citations())


@pytest.mark.parametrize("kind", ["lightrag", "nano"])
def test_working_folders(kumi: Kumihimo, tmp_path: Path, kind: str) -> None:
    path = write_working_folder(tmp_path / "storage", nano=kind == "nano")
    built = import_store(kumi, kind, path, methods=METHODS).built
    assert (built.rows["entities"], built.rows["relations"], built.failed) == (5, 3, ())
    found = kumi.retrieve("Who winds the tide clock?", "light")
    assert "Ada Quill winds the tide clock." in {item.text for item in found} | {
        r.text for r in tables(kumi)["relations"]
    }


def test_no_model_is_asked_for_what_was_imported(kumi: Kumihimo, tmp_path: Path) -> None:
    chat = with_model(kumi)
    import_store(kumi, "graphrag", write_graphrag(tmp_path / "letters"), methods=["local", "global"])
    assert not chat.prompt_counts
    before = tables(kumi)
    (tmp_path / "note.md").write_text("Dan Orr visits the museum. Eve Orr paints it.", "utf-8")
    kumi.index(tmp_path / "note.md", methods=["local", "global"])
    assert chat.prompt_counts
    assert all("tide clock" not in str(prompt) for prompt in chat.prompt_counts)
    after = tables(kumi)
    assert [row for row in after["mentions"] if row in before["mentions"]] == before["mentions"]
    assert {row.id for row in before["reports"]} <= {row.id for row in after["reports"]}
    asked = sum(chat.prompt_counts.values())
    import_store(kumi, "graphrag", tmp_path / "letters")
    assert sum(chat.prompt_counts.values()) == asked
    assert tables(kumi) == after


def test_much_new_evidence_replaces_a_report(kumi: Kumihimo, tmp_path: Path) -> None:
    import_store(kumi, "graphrag", write_graphrag(tmp_path / "letters"), methods=["global"])
    titles = {row.title for row in tables(kumi)["reports"]}
    (tmp_path / "note.md").write_text("Bo Lind sails to Gull Pier. Bo Lind stays at Gull Pier.", "utf-8")
    kumi.index(tmp_path / "note.md")
    assert {row.title for row in tables(kumi)["reports"]} < titles
    kumi.remove("note.md")
    assert {row.title for row in tables(kumi)["reports"]} == titles


def test_importing_again_is_the_update(kumi: Kumihimo, tmp_path: Path) -> None:
    content = graphrag_tables()
    store = write_graphrag(tmp_path / "letters", content)
    import_store(kumi, "graphrag", store, methods=["global"])
    first = tables(kumi)
    content["entities"][0]["description"] = "Ada Quill keeps two harbours."
    content["communities"][1]["entity_ids"].append(content["entities"][4]["id"])
    content["communities"][0]["entity_ids"].append(content["entities"][4]["id"])
    write_graphrag(store, content)
    built = import_store(kumi, "graphrag", store).built
    assert (built.changed, built.unchanged, built.rows["documents"]) == (1, 1, 2)
    changed = tables(kumi)
    assert "Ada Quill keeps two harbours." in {row.text for row in changed["entities"]}
    trust = next(row.id for row in changed["entities"] if row.name == "Netley Trust")
    assert [len(row.members) for row in changed["communities"] if trust in row.members] == [3]
    fresh = Kumihimo(tmp_path / "fresh/.kumi", {"mentions": {"claims": True}})
    import_store(fresh, "graphrag", store, methods=["global"])
    expected = tables(fresh)
    fresh.close()
    for name in expected.keys() - {"documents"}:  # these have the times of their files
        assert changed[name] == expected[name], name
    write_graphrag(store, graphrag_tables())
    import_store(kumi, "graphrag", store)
    assert tables(kumi)["entities"] == first["entities"]


def test_a_source_that_is_removed_leaves_nothing(kumi: Kumihimo, tmp_path: Path) -> None:
    import_store(kumi, "graphrag", write_graphrag(tmp_path / "letters"), name="from elsewhere")
    assert (tmp_path / ".kumi/imports/from elsewhere").is_dir()
    with pytest.raises(SourceError, match="is a part of the import from elsewhere"):
        kumi.remove("from elsewhere/letter.txt.textunits")
    kumi.index(tmp_path)  # a folder around the index takes no part of it
    assert set(kumi.status().sources) == {"from elsewhere", tmp_path.name}
    kumi.remove("from elsewhere")
    assert list((tmp_path / ".kumi/imports").iterdir()) == []
    assert {name for name, rows in tables(kumi).items() if rows and name.startswith("imported")} == set()


def test_errors_change_nothing(kumi: Kumihimo, tmp_path: Path) -> None:
    for kind, path, name, message in (
        ("graphrga", tmp_path, "", "did you mean 'graphrag'"),
        ("graphrag", tmp_path / "nowhere", "", "does not exist"),
        ("graphrag", tmp_path, "", "no text_units.parquet"),
        ("graphrag", write_graphrag(tmp_path / "letters"), "../up", "cannot name a source"),
    ):
        with pytest.raises(SourceError, match=message):
            import_store(kumi, kind, path, name=name)
    assert not (tmp_path / ".kumi").exists()


def test_a_cancelled_import_changes_nothing(kumi: Kumihimo, tmp_path: Path) -> None:
    folder = tmp_path / ".kumi" / "imports" / "letters"
    import_store(kumi, "graphrag", write_graphrag(tmp_path / "letters"))
    before, rows = {path.name: path.read_bytes() for path in folder.iterdir()}, tables(kumi)

    def stop(_: object) -> None:
        raise Cancelled("enough")

    other = write_working_folder(tmp_path / "other", nano=False)
    with pytest.raises(Cancelled):
        import_store(kumi, "lightrag", other, name="letters", progress=stop)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert kumi.index(reread=True).failed == ()
    assert tables(kumi) == rows


def test_names_of_folders_hold_on_every_system(kumi: Kumihimo, tmp_path: Path) -> None:
    """Windows drops a point at the end, so that the import would have been deleted as an unused one."""
    store = write_graphrag(tmp_path / "letters")
    for name in ("v1.", "CON", "nul.txt", "a "):
        with pytest.raises(SourceError, match="cannot name a source"):
            import_store(kumi, "graphrag", store, name=name)
    imported = import_store(kumi, "graphrag", store, name="Letters")
    with pytest.raises(SourceError, match=r"'letters' and the import 'Letters' differ in case only"):
        import_store(kumi, "graphrag", store, name="letters")
    assert import_store(kumi, "graphrag", store, name="Letters").built.rows["chunks"] == imported.built.rows["chunks"]


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("aux", "import aux"),
        (normalize("NFD", "café"), "café"),
        ("a: b?", "a- b"),
        ("--", "import"),
        ("x" * 99, "x" * 80),
    ],
)
def test_the_default_name_is_that_of_the_folder_as_every_system_takes_it(
    folder: str, name: str, tmp_path: Path
) -> None:
    assert _default_name(tmp_path / folder) == name


def test_a_file_whose_name_changes_in_case_only_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS and Windows both names are one file: what was written must not be deleted afterwards."""
    with changed_files({tmp_path / "Bo.textunits": b"1", tmp_path / normalize("NFC", "é.textunits"): b"1"}):
        pass
    (tmp_path / "é.textunits").rename(tmp_path / normalize("NFD", "é.textunits"))  # as some file systems do
    steps, unlink, replace = list[str](), Path.unlink, Path.replace

    def note_unlink(path: Path, *, missing_ok: bool = False) -> None:
        steps.extend([] if missing_ok else [f"remove {path.name}"])
        unlink(path, missing_ok=missing_ok)

    def note_replace(path: Path, target: Path) -> Path:
        steps.append(f"write {target.name}")
        return replace(path, target)

    monkeypatch.setattr(Path, "unlink", note_unlink)
    monkeypatch.setattr(Path, "replace", note_replace)
    with changed_files(_list_changes(tmp_path, {"bo.textunits": b"2", "é.textunits": b"1"})):
        pass
    assert steps[:2] == ["remove Bo.textunits", "write bo.textunits"]
