"""a document removed -> no trace of it: in views at once, and with `forget` in no file of the index folder."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kumihimo import Kumihimo
from kumihimo.core.errors import IndexBusy, IndexUnavailable, SourceError
from kumihimo.exports import DEFAULT_PATHS, FORMATS
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.page import write_graph_page
from kumihimo.search.vectors import load_matrices
from kumihimo.storage.sqlite import store as store_module
from kumihimo.storage.sqlite.connection import SqliteConnection
from kumihimo.testing.fake_models import FakeChat
from tests.cli_runner import kumi as run_kumi
from tests.fixtures_index import BUILT, QUESTIONS, fill, found, tables, uris
from tests.stores import NEEDS_FILES

pytestmark = NEEDS_FILES

SECRET = (
    "# Quixotry\n\nOswaldine Zugzwang buried the xylograph below the Vraxholt lighthouse. Oswaldine Zugzwang told "
    "Perdix Ombrell of Vraxholt. 秘密の梟文書は鵺島の蔵に隠された。鵺島の梟文書を知る者は少ない。\n"
)
WORDS = ("quixotry", "oswaldine", "zugzwang", "xylograph", "vraxholt", "perdix", "ombrell", "梟文書", "鵺島", "梟文")
COUNT = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"


class QuotingModels(ModelRegistry):
    """The graph is made by rule; the model that answers repeats what it reads."""

    def chat(self, scope: str) -> Chat | None:
        return FakeChat(lambda prompt: f"It says: {prompt} [1]", join_messages=True) if scope == "answer" else None


def opened(folder: Path) -> Kumihimo:
    kumi = Kumihimo.open(folder)
    kumi.models = QuotingModels(kumi.models.settings, kumi.models.cache)
    return kumi


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 notes and a secret one, with their graph, triples and a cached answer."""
    folder = tmp_path_factory.mktemp("built")
    notes = {f"{i:02}.txt": f"Agnes Farrow mended boat {i} with Ivo Marden at the quay. 港の船{i}。" for i in range(40)}
    fill(folder / "notes", {**notes, "diary.md": SECRET})
    with opened(folder / ".kumi") as kumi:
        kumi.index(folder / "notes", methods=BUILT)
        kumi.index(folder / "notes" / "00.txt", reread=True)  # several segments of keywords
        assert "Zugzwang" in kumi.ask("What did Oswaldine Zugzwang bury?", "bm25").text
        kumi.sparql(COUNT)
    return folder


@pytest.fixture
def kumi(built: Path, tmp_path: Path) -> Iterator[Kumihimo]:
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    with opened(tmp_path / ".kumi") as kumi:
        yield kumi


def secret_vectors(kumi: Kumihimo) -> list[bytes]:
    """Return the stored vectors of all rows that the secret note made."""
    with kumi.snapshot() as snapshot:
        db = snapshot.db
        matrices = load_matrices(db, kumi.folder, {})
        rows = {name: db.all(f"SELECT slot, id FROM vectors_{name}") for name in matrices}
        texts = {name: {r.id: r.index_text for r in snapshot.table(name)} for name in rows}
        return [
            np.asarray(matrices[name][slot]).tobytes()
            for name, pairs in rows.items()
            for slot, id in pairs
            if any(word in texts[name][id].casefold() for word in WORDS)
        ]


def forms(word: str) -> list[bytes]:
    """Return a word in all encodings and escapes that a file may hold."""
    escaped = "".join(f"\\u{ord(c):04x}" for c in word)
    encoded = [word.encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be")]
    return [*encoded, escaped.encode(), *([word[1:].encode()] if word.isascii() else [])]  # a prefix may be shared


def traces_in_files(folder: Path) -> list[str]:
    """Return the files with a word of the secret, as bytes in any form."""
    files = {path: path.read_bytes().lower() for path in folder.rglob("*") if path.is_file()}
    return [f"{p.name}: {word}" for p, data in files.items() for word in WORDS if any(f in data for f in forms(word))]


def traces_in_rows(folder: Path, name: str = "index.db") -> list[str]:
    """Return the cells and the postings with a word of the secret, of every table."""
    with closing(sqlite3.connect(folder / name)) as db:
        names = [n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        cells = [(n, v) for n in names for row in db.execute(f'SELECT * FROM "{n}"') for v in row]
        texts = [(n, v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v)) for n, v in cells]
        return [f"{n}: {text[:80]}" for n, text in texts if any(word in text.casefold() for word in WORDS)]


def assert_erased(kumi: Kumihimo, vectors: list[bytes]) -> None:
    folder = kumi.folder
    assert traces_in_files(folder) == []
    assert traces_in_rows(folder) == []
    files = [path.read_bytes() for path in (folder / "vectors").iterdir()]
    assert files
    assert not any(vector in data for vector in vectors for data in files)
    assert not list((folder / "rdf").glob("*-*"))
    log = folder / "index.db-wal"
    assert not log.exists() or not log.stat().st_size


def equals_fresh_build(kumi: Kumihimo, tmp_path: Path) -> bool:
    """Return whether the index equals one that never had the secret, apart from the communities."""
    (tmp_path / "notes" / "diary.md").unlink()
    with opened(tmp_path / "fresh" / ".kumi") as fresh:
        fresh.index(tmp_path / "notes", methods=BUILT)
        remembering = fresh.catalogue.downstream_steps(["communities"])
        ours, theirs = ({n: r for n, r in tables(k).items() if n not in remembering} for k in (kumi, fresh))
        hits = [[found(k, method, q) for q in QUESTIONS for method in ("bm25", "naive")] for k in (kumi, fresh)]
    return ours == theirs and hits[0] == hits[1]


# -- a plain removal


def test_a_removed_document_is_shown_nowhere(kumi: Kumihimo, tmp_path: Path) -> None:
    kumi.remove("notes/diary.md")
    shown: list[Any] = [tables(kumi)]
    shown += [[e.record.text for e in kumi.retrieve(word, method)] for word in WORDS for method in ("bm25", "naive")]
    shown += [kumi.sparql("SELECT * { ?s ?p ?o }", limit=None)]
    with kumi.snapshot() as snapshot:
        for name, export in FORMATS.items():
            if name != "parquet":
                export(snapshot, tmp_path / "out" / Path(DEFAULT_PATHS[name]).name)
        write_graph_page(snapshot, tmp_path / "out" / "page.html")
    assert [word for word in WORDS if word in str(shown).casefold()] == []
    assert len(list((tmp_path / "out").iterdir())) >= 4
    assert traces_in_files(tmp_path / "out") == []


# -- forget


@pytest.mark.parametrize("secure_delete", [0, 1])
def test_forgetting_leaves_no_trace_in_any_file(
    kumi: Kumihimo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secure_delete: int
) -> None:
    connect = store_module._connect

    def connect_with_default(*args: Any, **options: Any) -> SqliteConnection:
        """Connect as a SQLite does that was compiled with this default."""
        connection = connect(*args, **options)
        connection.run(f"PRAGMA secure_delete = {secure_delete}")
        return connection

    monkeypatch.setattr(store_module, "_connect", connect_with_default)
    vectors = secret_vectors(kumi)
    assert len(vectors) > 4
    assert len({name.partition(":")[0] for name in traces_in_files(kumi.folder)}) >= 3, "index.db, cache.db and rdf"
    assert traces_in_rows(kumi.folder)
    kumi.remove("notes/diary.md", forget=True)
    assert_erased(kumi, vectors)
    assert kumi.check().problems == ()
    assert equals_fresh_build(kumi, tmp_path)


def test_what_an_earlier_removal_left_is_erased_later(kumi: Kumihimo) -> None:
    vectors = secret_vectors(kumi)
    kumi.remove("notes/diary.md")
    fill(kumi.folder / "rdf" / ".1-unfinished", {"000.sst": SECRET})  # a killed query left it
    fill(kumi.folder, {"cache.db-damaged": SECRET})  # a repair left it
    for again in ("notes/diary.md", ""):
        kumi.remove(again, forget=True)
        assert_erased(kumi, vectors)
    assert len(uris(kumi)) == 40
    with pytest.raises(SourceError, match="nothing to remove"):
        kumi.remove("")


def test_the_only_source_is_erased_with_its_cached_answers(kumi: Kumihimo) -> None:
    kumi.remove("notes", forget=True)
    assert (uris(kumi), traces_in_files(kumi.folder), traces_in_rows(kumi.folder)) == ([], [], [])
    assert kumi.cache_stats()["replies"] == 0
    with pytest.raises(SourceError, match="nothing to index yet"):
        kumi.index()


def test_tables_that_are_not_built_any_more_are_erased(kumi: Kumihimo) -> None:
    kumi.index(methods=["bm25"])
    kumi.remove("notes/diary.md", forget=True)
    assert traces_in_files(kumi.folder) == traces_in_rows(kumi.folder) == []
    assert not list((kumi.folder / "vectors").iterdir())


def test_a_reader_of_an_earlier_state_is_named_and_the_erasure_is_repeated(
    kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_REWRITE_TIMEOUT", 1)
    vectors = secret_vectors(kumi)
    script = f"""
from kumihimo import Kumihimo
with Kumihimo.open({str(kumi.folder)!r}) as kumi, kumi.snapshot() as snapshot:
    print(len(snapshot.table("documents")), flush=True)
    input()
    print(len(snapshot.retrieve("Zugzwang", "bm25")), flush=True)
"""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with opened(kumi.folder) as idle, subprocess.Popen([sys.executable, "-c", script], **pipes) as process:
        assert process.stdin
        assert process.stdout
        assert len(uris(idle)) == 41  # its connection stays open, without a transaction
        assert process.stdout.readline() == "41\n"
        with pytest.raises(IndexBusy, match="then run `kumi remove --forget`"):
            kumi.remove("notes/diary.md", forget=True)
        assert len(uris(kumi)) == 40
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "1\n", "the reader keeps what it reads"
        process.wait()
        kumi.remove(forget=True)
        assert_erased(kumi, vectors)
        assert len(uris(idle)) == 40


def test_a_build_that_runs_stops_the_erasure(kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_REWRITE_TIMEOUT", 1)
    with kumi.store.write_transaction(), pytest.raises(IndexBusy, match="so its files still hold"):
        kumi.store.rewrite()


def test_the_command_erases_without_a_target(kumi: Kumihimo) -> None:
    kumi.close()
    ran = run_kumi(kumi.folder.parent, "remove", "notes/diary.md")
    assert (ran.returncode, traces_in_files(kumi.folder) != []) == (0, True), ran.stderr
    assert run_kumi(kumi.folder.parent, "remove", "--forget").returncode == 0
    assert traces_in_files(kumi.folder) == []


def test_a_cache_beside_other_indexes_is_kept_and_the_index_is_erased(kumi: Kumihimo, tmp_path: Path) -> None:
    vectors = secret_vectors(kumi)
    kumi.close()
    (kumi.folder / "cache.db").rename(tmp_path / "shared.db")
    with Kumihimo.open(kumi.folder, cache=tmp_path / "shared.db") as sharing:
        assert sharing.remove("notes/diary.md", forget=True).removed == 1
        assert_erased(sharing, vectors)
        assert sharing.cache_stats()["replies"] > 0
        with pytest.raises(IndexUnavailable, match=r"shared.db may be shared with other indexes"):
            sharing.prune()
    ran = run_kumi(kumi.folder.parent, "remove", "notes/01.txt", "--forget", KUMI_CACHE=str(tmp_path / "shared.db"))
    assert (ran.returncode, ran.stdout.partition(";")[0]) == (0, "Documents removed: 1")
    assert ran.stderr == f"{tmp_path / 'shared.db'} was not pruned, since other indexes may share it\n"
    fill(kumi.folder, {"cache.db": SECRET})  # of the time before the shared one
    assert run_kumi(kumi.folder.parent, "remove", "--forget", KUMI_CACHE=str(tmp_path / "shared.db")).stderr.endswith(
        ".kumi/cache.db was not pruned, since another cache is used: run `kumi remove --forget` without KUMI_CACHE "
        "and --cache\n"
    )


def test_a_cache_named_in_full_is_still_the_index_s_own(kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch) -> None:
    kumi.close()
    monkeypatch.chdir(kumi.folder.parent)
    with Kumihimo.open(".kumi", cache=kumi.folder / "cache.db") as own:
        own.remove("notes/diary.md", forget=True)
        assert own.cache_stats()["replies"] == 0
    assert traces_in_files(kumi.folder) == []


def test_files_of_others_stay_in_the_folder(kumi: Kumihimo) -> None:
    others = {"photo-damaged.jpg": "a", "cache.db-damaged-notes/a.txt": "b", "cache.db-damaged-shm/c.txt": "c"}
    fill(kumi.folder, {**others, "cache.db-damaged": "d", "cache.db-damaged-wal": "e"})
    kumi.remove(forget=True)
    left = {path.relative_to(kumi.folder).as_posix() for path in kumi.folder.rglob("*damaged*/*")}
    left |= {path.name for path in kumi.folder.glob("*-damaged*") if path.is_file()}
    assert left == {*others}


def test_a_file_that_windows_does_not_delete_is_named(kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader in another process maps it; `--forget` must not say that nothing is left."""
    unlink = Path.unlink

    def refuse_vectors(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".i8" and path.exists():
            raise PermissionError(13, "The process cannot access the file")
        unlink(path, missing_ok)

    (kumi.folder / "vectors" / "chunks-999.i8").touch()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse_vectors)
        with pytest.raises(IndexBusy, match="so its files still hold what you removed"):
            kumi.remove("notes/diary.md", forget=True)
    kumi.remove(forget=True)
    assert not (kumi.folder / "vectors" / "chunks-999.i8").exists()
