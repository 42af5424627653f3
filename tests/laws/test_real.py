"""The real steps and methods, over the examples -> the laws hold."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.app.snapshot import RECORD_TYPES, Snapshot
from kumihimo.core.context import Evidence
from kumihimo.core.records import Reference
from kumihimo.index import STEPS, upstream_steps
from kumihimo.methods import METHODS
from tests.fixtures_index import BUILT, EXAMPLES, FREE, QUESTIONS, Held, apart, connected, dump
from tests.laws.fresh_build import fresh

READ = upstream_steps(table for name in FREE for table in METHODS[name].tables)
TABLES = ("documents", *(name for name in STEPS if name in READ))
BY_A_MODEL = ("assertions", "claims")  # no rule makes them
FILES = sorted(path.name for path in EXAMPLES.iterdir())
ROW = "oral-history.jsonl#oh-05"


def copy(folder: Path, names: list[str]) -> Path:
    """A folder `examples` in there that holds these of the examples, copied in this order."""
    home = folder / "examples"
    home.mkdir(parents=True)
    for name in names:
        shutil.copy2(EXAMPLES / name, home / name)
    return home


def without(path: Path, id: str) -> None:
    """Take the row of that id out of a file of JSON lines."""
    rows = path.read_text(encoding="utf-8").splitlines()
    kept = [row for row in rows if json.loads(row)["id"] != id]
    assert len(kept) == len(rows) - 1
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy(tmp_path_factory.mktemp("home"), FILES)


@pytest.fixture(scope="module")
def kumi(home: Path) -> Iterator[Kumihimo]:
    with Kumihimo.open(home.parent / ".kumi") as kumi:
        kumi.index(home)
        yield kumi


@pytest.fixture(scope="module")
def whole(kumi: Kumihimo) -> Held:
    """What the index of all examples holds."""
    return dump(kumi)


@pytest.fixture(scope="module")
def quick(kumi: Kumihimo) -> Held:
    """The same, as far as it is found without a model."""
    return dump(kumi, FREE)


@pytest.fixture
def reading(kumi: Kumihimo) -> Iterator[Snapshot]:
    with connected(kumi).snapshot() as reading:
        yield reading


def stands(reading: Snapshot, item: Reference | Evidence, texts: dict[str, str]) -> None:
    """It was made of something, and that is what the documents, by their uri, say there."""
    spans = list(reading.trace(item))
    assert spans
    for span in spans:
        assert texts[span.uri][span.start : span.end] == span.text != ""


@pytest.mark.parametrize("table", TABLES)
def test_every_row_stands_in_the_documents(reading: Snapshot, table: str) -> None:
    ids = [id for (id,) in reading.table(table).columns("id")]
    assert ids or table in BY_A_MODEL
    texts: dict[str, str] = dict(reading.table("documents").columns("uri", "text"))
    for id in ids:
        stands(reading, (table, id), texts)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("method", BUILT)
def test_all_evidence_stands_in_the_documents(reading: Snapshot, method: str, question: str) -> None:
    answer = reading.ask(question, method)
    texts: dict[str, str] = dict(reading.table("documents").columns("uri", "text"))
    assert len(answer.context)
    for evidence in answer.context:
        if evidence.table in RECORD_TYPES:
            assert evidence.record == reading.table(evidence.table)[evidence.record.id]
        stands(reading, evidence, texts)
    for span in (citation.span for citation in answer.citations):
        assert texts[span.uri][span.start : span.end] == span.text


def test_building_again_changes_nothing(kumi: Kumihimo, whole: Held, home: Path) -> None:
    kumi.index()
    assert dump(kumi) == whole
    kumi.index(home, reread=True)
    assert dump(kumi) == whole


def test_rebuilding_all_under_a_new_version_changes_nothing(
    kumi: Kumihimo, whole: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kumihimo.app.build.code_digest", lambda *rooms: "a later version")
    assert kumi.index().read == len(FILES)
    assert dump(kumi) == whole


def test_the_order_and_the_seed_change_nothing(whole: Held, tmp_path: Path) -> None:
    assert fresh(copy(tmp_path, FILES[::-1])) == whole


def compared(kumi: Kumihimo, never: Held, whole: Held) -> None:
    """The index is as if what was taken out had never been there; what remembers is so too, once it has forgotten."""
    assert apart(dump(kumi, FREE)) == apart(never) != apart(whole)
    kumi.index(recluster=True)
    assert dump(kumi, FREE) == never


def restored(kumi: Kumihimo, whole: Held) -> None:
    """The index is what it was before anything was taken out."""
    assert apart(dump(kumi, FREE)) == apart(whole)
    kumi.index(recluster=True)
    assert dump(kumi, FREE) == whole


def test_removed_is_never_added(kumi: Kumihimo, quick: Held, home: Path, tmp_path: Path) -> None:
    name, (file, _, id) = "letter-from-shioyori.md", ROW.partition("#")
    kumi.remove(f"examples/{name}")
    kumi.remove(f"examples/{ROW}")
    never = copy(tmp_path, [other for other in FILES[::-1] if other != name])
    without(never / file, id)
    compared(kumi, fresh(never, FREE), quick)
    kumi.index(home / name, home / file)
    restored(kumi, quick)


def test_deleted_is_removed(kumi: Kumihimo, quick: Held, home: Path, tmp_path: Path) -> None:
    gone = ["court-minutes.md", "keepers-log.txt", "braiding-workshop.html"]
    for name in gone:
        (home / name).rename(tmp_path / name)
    kumi.index()
    never = copy(tmp_path / "never", [name for name in FILES[::-1] if name not in gone])
    compared(kumi, fresh(never, FREE), quick)
    for name in gone:
        (tmp_path / name).rename(home / name)
    kumi.index()
    restored(kumi, quick)


def test_one_after_another_is_all_at_once(quick: Held, tmp_path: Path) -> None:
    home = copy(tmp_path, [])
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        for names in (FILES[3::6], FILES[::6], FILES[2::6], FILES[4::6], FILES[1::6], FILES[5::6]):
            for name in names:
                shutil.copy2(EXAMPLES / name, home / name)
            kumi.index(home)
        restored(kumi, quick)
