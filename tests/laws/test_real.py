"""The real steps and methods, over the examples -> the laws hold."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.index import STEPS
from kumihimo.methods import METHODS
from kumihimo.reading import Reading
from tests.laws.fresh import fresh
from tests.shelf import EXAMPLES, QUESTIONS, Held, connected, dump

TABLES = ("documents", *STEPS)
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


@pytest.fixture
def reading(kumi: Kumihimo) -> Iterator[Reading]:
    with connected(kumi).reading() as reading:
        yield reading


def stands(reading: Reading, table: str, id: str) -> None:
    """The row was made of something, and that is what the documents say there."""
    spans = list(reading.trace((table, id)))
    assert spans
    for span in spans:
        document = reading.find(span.uri)
        assert document.table == "documents"
        assert document.text[span.start : span.end] == span.text
        assert span.text


@pytest.mark.parametrize("table", TABLES)
def test_every_row_stands_in_the_documents(reading: Reading, table: str) -> None:
    rows = list(reading.table(table))
    assert rows
    for row in rows:
        stands(reading, table, row.id)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("method", METHODS)
def test_all_evidence_stands_in_the_documents(reading: Reading, method: str, question: str) -> None:
    answer = reading.ask(question, method)
    assert len(answer.context)
    for evidence in answer.context:
        assert evidence.record == reading.table(evidence.table)[evidence.record.id]
        stands(reading, *evidence.reference)
    for span in (citation.span for citation in answer.citations):
        assert reading.find(span.uri).text[span.start : span.end] == span.text


def test_building_again_changes_nothing(kumi: Kumihimo, whole: Held, home: Path) -> None:
    kumi.index()
    assert dump(kumi) == whole
    kumi.index(home, check=True)
    assert dump(kumi) == whole


def test_rebuilding_all_under_a_new_version_changes_nothing(
    kumi: Kumihimo, whole: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kumihimo.building.code_digest", lambda *rooms: "a later version")
    assert kumi.index().read == len(FILES)
    assert dump(kumi) == whole


def test_the_order_and_the_seed_change_nothing(whole: Held, tmp_path: Path) -> None:
    assert fresh(copy(tmp_path, FILES[::-1])) == whole


@pytest.mark.parametrize("name", ["court-minutes.md", "letter-from-shioyori.md", "oral-history.jsonl"])
def test_removed_is_never_added(kumi: Kumihimo, whole: Held, home: Path, tmp_path: Path, name: str) -> None:
    kumi.remove(f"examples/{name}")
    never = fresh(copy(tmp_path, [other for other in FILES[::-1] if other != name]))
    assert dump(kumi) == never != whole
    kumi.index(home / name)
    assert dump(kumi) == whole


def test_a_row_removed_is_never_added(kumi: Kumihimo, whole: Held, home: Path, tmp_path: Path) -> None:
    file, _, id = ROW.partition("#")
    kumi.remove(f"examples/{ROW}")
    never = copy(tmp_path, FILES[::-1])
    without(never / file, id)
    assert dump(kumi) == fresh(never) != whole
    kumi.index(home / file)
    assert dump(kumi) == whole


def test_deleted_is_removed(kumi: Kumihimo, whole: Held, home: Path, tmp_path: Path) -> None:
    gone = ["keepers-log.txt", "braiding-workshop.html"]
    for name in gone:
        (home / name).rename(tmp_path / name)
    kumi.index()
    assert dump(kumi) == fresh(copy(tmp_path / "never", [name for name in FILES[::-1] if name not in gone])) != whole
    for name in gone:
        (tmp_path / name).rename(home / name)
    kumi.index()
    assert dump(kumi) == whole


def test_one_after_another_is_all_at_once(whole: Held, tmp_path: Path) -> None:
    home = copy(tmp_path, [])
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        for name in [*FILES[::2], *FILES[1::2]]:
            shutil.copy2(EXAMPLES / name, home / name)
            kumi.index(home)
        assert dump(kumi) == whole
