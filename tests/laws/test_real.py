"""the real steps and methods, on the examples -> the laws hold."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.opened.catalogue import BUILT_IN
from kumihimo.core.context import Evidence
from kumihimo.core.records import Reference
from kumihimo.methods import METHODS
from tests.fixtures_index import BUILT, EXAMPLES, FREE, QUESTIONS, Held, apart, connected, dump
from tests.laws.fresh_build import FreshBuilder

STEPS_READ = BUILT_IN.upstream_steps(table for name in FREE for table in METHODS[name].tables)
TABLES = ("documents", *(name for name in BUILT_IN.steps if name in STEPS_READ))
IMPORTED = ("imported_units", "imported_descriptions", "imported_communities")
EMPTY = ("assertions", "claims", "frames", "links", "reports", *IMPORTED)  # no rule makes them, and no file holds them
FILES = sorted(path.name for path in EXAMPLES.iterdir() if path.is_file() and path.name[0] != ".")
ROW = "oral-history.jsonl#oh-05"


def copy(folder: Path, names: list[str]) -> Path:
    """Copy these examples, in this order, to a folder `examples`."""
    home = folder / "examples"
    home.mkdir(parents=True)
    for name in names:
        shutil.copy2(EXAMPLES / name, home / name)
    return home


def without(path: Path, id: str) -> None:
    """Delete the row with this id from a JSONL file."""
    rows = path.read_text(encoding="utf-8").splitlines()
    remaining = [row for row in rows if json.loads(row)["id"] != id]
    assert len(remaining) == len(rows) - 1
    path.write_text("\n".join(remaining) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy(tmp_path_factory.mktemp("home"), FILES)


@pytest.fixture(scope="module")
def kumi(home: Path) -> Iterator[Kumihimo]:
    with Kumihimo.open(home.parent / ".kumi") as kumi:
        kumi.index(home, methods=BUILT)
        yield kumi


@pytest.fixture(scope="module")
def complete(kumi: Kumihimo) -> Held:
    """Return the rows of the index of all examples."""
    return dump(kumi)


@pytest.fixture(scope="module")
def complete_by_rule(complete: Held) -> Held:
    """Return the same, without what methods that need a model find."""
    return {name: rows for name, rows in complete.items() if ": " not in name or name.partition(": ")[0] in FREE}


@pytest.fixture(scope="module")
def twin() -> Iterator[FreshBuilder]:
    twin = FreshBuilder()
    yield twin
    twin.close()


@pytest.fixture
def snapshot(kumi: Kumihimo) -> Iterator[Snapshot]:
    with connected(kumi).snapshot() as snapshot:
        yield snapshot


def check_sources(snapshot: Snapshot, item: Reference | Evidence, texts: dict[str, str]) -> None:
    """Check the row's sources: they quote the documents, by uri."""
    spans = list(snapshot.trace(item))
    assert spans
    for span in spans:
        assert texts[span.uri][span.start : span.end] == span.text != ""


@pytest.mark.parametrize("table", TABLES)
def test_every_row_stands_in_the_documents(snapshot: Snapshot, table: str) -> None:
    ids = [id for (id,) in snapshot.table(table).columns("id")]
    assert ids or table in EMPTY
    texts: dict[str, str] = dict(snapshot.table("documents").columns("uri", "text"))
    for id in ids:
        check_sources(snapshot, (table, id), texts)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("method", BUILT)
def test_all_evidence_stands_in_the_documents(snapshot: Snapshot, method: str, question: str) -> None:
    answer = snapshot.ask(question, method)
    texts: dict[str, str] = dict(snapshot.table("documents").columns("uri", "text"))
    assert len(answer.context)
    for evidence in answer.context:
        if evidence.table in BUILT_IN.record_types:
            assert evidence.record == snapshot.table(evidence.table)[evidence.record.id]
        check_sources(snapshot, evidence, texts)
    for span in (citation.span for citation in answer.citations):
        assert texts[span.uri][span.start : span.end] == span.text


def test_building_again_changes_nothing(kumi: Kumihimo, complete: Held, home: Path) -> None:
    kumi.index()
    assert dump(kumi) == complete
    kumi.index(home, reread=True)
    assert dump(kumi) == complete


def test_rebuilding_all_under_a_new_version_changes_nothing(
    kumi: Kumihimo, complete: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kumihimo.app.build.build.code_fingerprint", lambda *_: "a later version")
    assert kumi.index().read == len(FILES)
    assert dump(kumi) == complete


def test_the_order_and_the_seed_change_nothing(twin: FreshBuilder, complete: Held, tmp_path: Path) -> None:
    assert twin.build(copy(tmp_path, FILES[::-1])) == complete


def check_removed(kumi: Kumihimo, never: Held, complete: Held) -> None:
    """Check that the index equals one without the removed part.

    For steps with state: after they forget it.
    """
    assert apart(dump(kumi, FREE)) == apart(never) != apart(complete)
    kumi.index(recluster=True)
    assert dump(kumi, FREE) == never


def check_restored(kumi: Kumihimo, complete: Held) -> None:
    """Check that the index is the same as before the removal."""
    assert apart(dump(kumi, FREE)) == apart(complete)
    kumi.index(recluster=True)
    assert dump(kumi, FREE) == complete


def test_removed_is_never_added(
    kumi: Kumihimo, twin: FreshBuilder, complete_by_rule: Held, home: Path, tmp_path: Path
) -> None:
    name, (file, _, id) = "letter-from-shioyori.md", ROW.partition("#")
    kumi.remove(f"examples/{name}")
    kumi.remove(f"examples/{ROW}")
    never = copy(tmp_path, [other for other in FILES[::-1] if other != name])
    without(never / file, id)
    check_removed(kumi, twin.build(never, FREE), complete_by_rule)
    kumi.index(home / name, home / file)
    check_restored(kumi, complete_by_rule)


def test_deleted_is_removed(
    kumi: Kumihimo, twin: FreshBuilder, complete_by_rule: Held, home: Path, tmp_path: Path
) -> None:
    gone = ["court-minutes.md", "keepers-log.txt", "braiding-workshop.html"]
    for name in gone:
        (home / name).rename(tmp_path / name)
    kumi.index()
    never = copy(tmp_path / "never", [name for name in FILES[::-1] if name not in gone])
    check_removed(kumi, twin.build(never, FREE), complete_by_rule)
    for name in gone:
        (tmp_path / name).rename(home / name)
    kumi.index()
    check_restored(kumi, complete_by_rule)


def test_one_after_another_is_all_at_once(complete_by_rule: Held, tmp_path: Path) -> None:
    home = copy(tmp_path, [])
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        for names in (FILES[3::6], FILES[::6], FILES[2::6], FILES[4::6], FILES[1::6], FILES[5::6]):
            for name in names:
                shutil.copy2(EXAMPLES / name, home / name)
            kumi.index(home, methods=BUILT)
        check_restored(kumi, complete_by_rule)


def test_texts_with_a_history_equal_those_of_a_fresh_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kumihimo.readers.documents.format_utc", lambda _: "")  # the time of a file differs
    texts = {path.stem: path.read_text("utf-8") for path in sorted(EXAMPLES.glob("*.md"))}
    names = [*texts]
    with Kumihimo.open(tmp_path / "old.kumi") as old, Kumihimo.open(tmp_path / "new.kumi") as new:
        old.index_texts([f"{texts[name]}\n\nJoss Kerrow sings." for name in names], ids=names, methods=BUILT)
        old.index_texts([texts[name] for name in names[2:]], ids=names[2:])
        old.remove(names[0])
        old.index_texts([texts[names[0]]], ids=names[:1])
        old.remove(names[1])
        final = [name for name in reversed(names) if name != names[1]]
        new.index_texts([texts[name] for name in final], ids=final, methods=BUILT)
        assert apart(dump(old, ["bm25", "braid"])) == apart(dump(new, ["bm25", "braid"]))
