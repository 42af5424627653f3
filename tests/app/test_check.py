"""a damaged index -> the damage with its file and remedy, and the same index repaired."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.core.errors import ConsentRequired, IndexUnavailable, SourceError
from tests.cli_runner import kumi as run_kumi
from tests.factories_paid_steps import notes, opened
from tests.fake_server import FakeServer
from tests.fixtures_index import dump, fill
from tests.stores import NEEDS_FILES

pytestmark = NEEDS_FILES

METHODS = ["bm25", "naive", "local"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    notes = {f"{i}.txt": f"Agnes Farrow mended boat {i} with Ivo Marden. 港の船{i}。" for i in range(12)}
    fill(folder / "notes", notes)
    with Kumihimo.open(folder / ".kumi") as kumi:
        kumi.index(folder / "notes", methods=METHODS)
        kumi.ask("Who mended boat 3?", "bm25")
        kumi.sparql("ASK { ?s ?p ?o }")
    return folder


@pytest.fixture
def kumi(built: Path, tmp_path: Path) -> Iterator[Kumihimo]:
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        yield kumi


def execute_sql(kumi: Kumihimo, statement: str) -> None:
    with closing(sqlite3.connect(kumi.folder / "index.db", isolation_level=None)) as db:
        db.execute(statement)


def damage_vectors(kumi: Kumihimo) -> None:
    """Change one number of a vector file."""
    path = next((kumi.folder / "vectors").glob("chunks-*"))
    data = bytearray(path.read_bytes())
    data[100] ^= 0x40
    path.write_bytes(bytes(data))


def zero_vectors(kumi: Kumihimo) -> None:
    """Write vectors of zeros, with their checksum, as a broken model did."""
    import zlib

    path = next((kumi.folder / "vectors").glob("chunks-*"))
    path.write_bytes(bytes(path.stat().st_size))
    checksum = zlib.crc32(path.read_bytes())
    execute_sql(
        kumi, f"UPDATE meta SET value = json_set(value, '$.checksum', {checksum}) WHERE name = 'vectors_chunks'"
    )


def zero_pages(kumi: Kumihimo) -> None:
    """Write zeros over a third of index.db."""
    path = kumi.folder / "index.db"
    data = bytearray(path.read_bytes())
    third = len(data) // 3 // 4096 * 4096
    data[third : 2 * third] = bytes(third)
    path.write_bytes(bytes(data))


LAST_WORD = "(SELECT max(term) FROM words_chunks_postings)"
WRONG_WORD = f"UPDATE words_chunks_postings SET term = term || 'x' WHERE term = {LAST_WORD}"
NO_LENGTHS = "UPDATE words_chunks_postings SET data = zeroblob(length(data)) WHERE term = '' AND segment = 0"
DAMAGE: dict[str, tuple[str, Callable[[Kumihimo], object]]] = {
    "wrong vectors": ("vectors_chunks", damage_vectors),
    "zero vectors": ("vectors_chunks", zero_vectors),
    "lost vectors": ("vectors_entities", lambda kumi: next((kumi.folder / "vectors").glob("entities-*")).unlink()),
    "vectors of other rows": (
        "vectors_chunks",
        lambda kumi: execute_sql(kumi, "UPDATE vectors_chunks SET id = 'x' WHERE slot = 3"),
    ),
    "wrong words": (
        "words_chunks",
        lambda kumi: execute_sql(kumi, WRONG_WORD),
    ),
    "words of other rows": (
        "words_chunks",
        lambda kumi: execute_sql(kumi, "UPDATE words_chunks_ids SET id = 'x' WHERE slot = 3"),
    ),
    "lost words": (
        "words_chunks",
        lambda kumi: execute_sql(kumi, "DELETE FROM words_chunks_postings WHERE term > 'b'"),
    ),
    "wrong lengths": (
        "words_chunks",
        lambda kumi: execute_sql(kumi, NO_LENGTHS),
    ),
    "wrong text": (
        "tables",
        lambda kumi: execute_sql(kumi, "UPDATE rows_chunks SET text = 'a goat' WHERE id LIKE '%1%'"),
    ),
    "invalid columns": ("tables", lambda kumi: execute_sql(kumi, "UPDATE rows_documents SET metadata = '{'")),
    "a text of invalid columns": ("tables", lambda kumi: execute_sql(kumi, "UPDATE rows_entities SET forms = '{'")),
    "invalid characters": (
        "tables",
        lambda kumi: execute_sql(kumi, "UPDATE rows_mentions SET name = CAST(x'ff41' AS TEXT)"),
    ),
    **{
        f"one value of {table}": (
            "tables",
            partial(execute_sql, statement=f"UPDATE {table} SET {change} WHERE id = (SELECT max(id) FROM {table})"),
        )
        for table, change in {
            "rows_documents": "title = 'other'",
            "rows_mentions": "name = name || ' '",
            "texts": "text = text || ' '",
            "communities": "level = level + 1",
            "rows_entities": "type = 'other'",
        }.items()
    },
    "counts of shared texts": ("tables", lambda kumi: execute_sql(kumi, "UPDATE texts SET uses = uses + 1")),
    "an index of an older version": (
        "words_chunks",
        lambda kumi: execute_sql(kumi, "ALTER TABLE words_chunks_postings RENAME TO words_chunks"),
    ),
    "rows without their source": (
        "tables",
        lambda kumi: execute_sql(kumi, "DELETE FROM rows_mentions WHERE id LIKE '%1%'"),
    ),
    "triples": (
        "triples",
        lambda kumi: [path.write_bytes(b"x") for path in (kumi.folder / "rdf").rglob("*.sst")],
    ),
}


def test_a_sound_index_has_no_problem(kumi: Kumihimo) -> None:
    assert kumi.check() == kumi.check(repair=True)
    assert kumi.check().problems == ()


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found_and_repaired(kumi: Kumihimo, name: str) -> None:
    part, damage = DAMAGE[name]
    before = dump(kumi, METHODS)
    kumi.close()
    damage(kumi)
    problems = kumi.check().problems
    assert {problem.part for problem in problems} == {part}
    assert all(str(kumi.folder) in p.file and p.message and "kumi check --repair" in p.remedy for p in problems)
    result = kumi.check(repair=True)
    assert (result.problems, result.repaired) == ((), problems)
    assert dump(kumi, METHODS) == before


def test_pages_that_are_lost_name_the_file_and_what_is_left_to_do(kumi: Kumihimo) -> None:
    kumi.close()
    zero_pages(kumi)
    (problem, *_) = kumi.check().problems
    assert (problem.file, problem.part) == (str(kumi.folder / "index.db"), "tables")
    (left, *_) = kumi.check(repair=True).problems
    assert left.remedy.startswith("a repair cannot mend it: move the file away, and run `kumi index PATH`")
    with pytest.raises(IndexUnavailable, match="is damaged"):
        kumi.index(rebuild=True)
    kumi.close()
    (kumi.folder / "index.db").rename(kumi.base / "damaged.db")
    kumi.index(kumi.base / "notes", methods=METHODS)
    assert kumi.check().problems == ()


def test_an_empty_file_is_no_unfinished_build(kumi: Kumihimo) -> None:
    kumi.close()
    (kumi.folder / "index.db").write_bytes(b"")
    for use in (kumi.check, partial(kumi.check, repair=True), kumi.status, partial(kumi.ask, "boat")):
        with pytest.raises(IndexUnavailable, match=r"index\.db is empty: `kumi index PATH` builds it again"):
            use()
    kumi.index(kumi.base / "notes", methods=METHODS)
    assert kumi.check().problems == ()


def test_a_repair_without_a_source_changes_nothing(kumi: Kumihimo) -> None:
    execute_sql(kumi, "UPDATE rows_documents SET metadata = '{'")
    (kumi.base / "notes").rename(kumi.base / "elsewhere")
    with pytest.raises(SourceError, match="put it back"):
        kumi.check(repair=True)
    (kumi.base / "elsewhere").rename(kumi.base / "notes")
    assert len(kumi.check(repair=True).repaired) == 1


def test_a_read_only_index_is_checked(kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kumihimo.storage.sqlite.connection.os.access", lambda *_: False)
    execute_sql(kumi, WRONG_WORD)
    before = {path: path.read_bytes() for path in kumi.folder.glob("index.db*")}
    assert [problem.part for problem in kumi.check().problems] == ["words_chunks"]
    assert {path: path.read_bytes() for path in kumi.folder.glob("index.db*")} == before


def test_nothing_is_paid_again_without_consent(tmp_path: Path, server: FakeServer) -> None:
    def damage(*, with_cache: bool) -> None:
        next((tmp_path / ".kumi" / "vectors").iterdir()).write_bytes(b"x")
        for path in (tmp_path / ".kumi").glob("cache.db*") if with_cache else ():
            path.unlink()

    embedding = {"model": "e", "base_url": server.url}
    with opened(tmp_path, server, embedding=embedding) as kumi:
        kumi.index(notes(tmp_path / "notes", 5), methods=["naive"])
    damage(with_cache=False)
    with opened(tmp_path, server, embedding=embedding) as kumi:
        assert len(kumi.check(repair=True).repaired) == 1
    assert server.counts()["repeats"] == 0, "the vectors come from the cache"
    damage(with_cache=True)
    with opened(tmp_path, server, embedding=embedding) as kumi:
        store = tmp_path / ".kumi" / "rdf" / "1"
        fill(store, {"CURRENT": "damaged"})
        with pytest.raises(
            ConsentRequired,
            match=r"vectors_chunks would be embedded again with up to 1 calls. The index was not changed",
        ):
            kumi.check(repair=True)
        assert store.exists()
        assert len(kumi.check().problems) == 2
        assert len(kumi.check(repair=True, consent=True).repaired) == 2
        assert len(kumi.retrieve("harbour", "naive")) == 5


def test_the_command_lists_damage_and_repairs_it(kumi: Kumihimo) -> None:
    folder, path = kumi.folder.parent, next((kumi.folder / "vectors").glob("chunks-*"))
    kumi.close()
    assert run_kumi(folder, "check")[:2] == (0, "No damage was found.\n")
    damage_vectors(kumi)
    code, out, err = run_kumi(folder, "check")
    assert (code, out) == (1, "")
    assert f"{path.relative_to(folder)}: vectors_chunks: its checksum is wrong: `kumi check --repair`" in err
    code, out, _ = run_kumi(folder, "check", "--repair", "--json")
    result = json.loads(out)
    assert (code, result["problems"], [p["part"] for p in result["repaired"]]) == (0, [], ["vectors_chunks"])
    assert run_kumi(folder, "check").returncode == 0


def test_a_damaged_cache_is_named_and_repaired(kumi: Kumihimo) -> None:
    path = kumi.folder / "cache.db"
    kumi.cache.put_many([(b"key", b"\xff")])
    (problem,) = kumi.check().problems
    assert (problem.file, problem.part) == (str(path), "cache")
    assert kumi.check(repair=True).repaired == (problem,)


def test_a_check_needs_an_index(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path / ".kumi") as kumi, pytest.raises(IndexUnavailable, match="there is no index"):
        kumi.check()
    assert list(tmp_path.iterdir()) == []


def test_a_rebuild_works_after_the_file_was_rewritten(kumi: Kumihimo) -> None:
    kumi.remove("notes/3.txt", forget=True)
    before = dump(kumi, METHODS)
    kumi.index(rebuild=True)
    assert dump(kumi, METHODS) == before
    assert kumi.check().problems == ()


def test_a_rebuild_that_is_stopped_loses_no_vector(kumi: Kumihimo) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kumi.index(rebuild=True, progress=stop)
    assert kumi.check().problems == ()
    assert kumi.retrieve("boat", "naive").evidence


def test_questions_are_answered_during_a_rebuild(kumi: Kumihimo) -> None:
    answers: list[int] = []

    def ask(*_: object) -> None:
        if len(answers) < 3:
            with Kumihimo.open(kumi.folder) as other:
                answers.append(len(other.retrieve("boat", "naive").evidence))

    kumi.index(rebuild=True, progress=ask)
    assert len(answers) == 3
    assert all(answers)


def test_a_rebuild_makes_new_triples(kumi: Kumihimo) -> None:
    query = 'ASK { ?s ?p ?o FILTER(CONTAINS(STR(?o), "Zorro")) }'
    assert kumi.sparql(query).boolean is False
    (kumi.base / "notes" / "3.txt").write_text("Zorro mended a boat.", encoding="utf-8")
    kumi.index(rebuild=True)
    assert kumi.sparql(query).boolean is True


def test_a_rebuild_without_a_source_changes_nothing(kumi: Kumihimo) -> None:
    before = dump(kumi, METHODS)
    (kumi.base / "notes").rename(kumi.base / "elsewhere")
    with pytest.raises(SourceError, match="put it back"):
        kumi.index(rebuild=True)
    assert dump(kumi, METHODS) == before


def test_an_index_that_was_emptied_is_sound(kumi: Kumihimo) -> None:
    for path in (kumi.base / "notes").iterdir():
        path.unlink()
    kumi.index()
    assert kumi.check().problems == ()
