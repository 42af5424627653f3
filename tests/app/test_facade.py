"""a folder -> an index: opened, built, asked, moved, stopped and shared."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from kumihimo import KumiError, Kumihimo
from kumihimo.app.build import build_cost
from kumihimo.app.build.progress import describe_event
from kumihimo.app.opened.catalogue import DEFAULT_METHOD
from kumihimo.app.settings.trust import TrustRequired
from kumihimo.core import task
from kumihimo.core.errors import IndexBusy, IndexUnavailable, NewerFormat, SettingsError, SourceError
from kumihimo.index import STEPS
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.methods import METHODS
from kumihimo.storage.sqlite import store as store_module
from kumihimo.storage.sqlite.store import SqliteStore
from tests.counters import wait_until
from tests.fixtures_index import BUILT, EXAMPLES, RANKING, connected, dump, fill, found, tables, texts, uris
from tests.stores import NEEDS_FILES

ZEBRA = "Zebras sleep in the observatory at noon."


@pytest.fixture
def kumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kumihimo]:
    monkeypatch.chdir(tmp_path)
    with Kumihimo.open() as kumi:
        yield kumi


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return fill(tmp_path / "notes", {"a.txt": "The ferry leaves at nine.", "b.md": "# Gate\n\nThe gate leaks."})


def sizes(kumi: Kumihimo) -> list[int]:
    with kumi.snapshot() as snapshot:
        return [chunk.tokens for chunk in snapshot.table("chunks")]


# -- opening


@NEEDS_FILES
def test_there_is_no_index_yet(kumi: Kumihimo) -> None:
    for look in (lambda: kumi.ask("?"), lambda: kumi.status(), lambda: kumi.trace("x")):
        with pytest.raises(IndexUnavailable, match="make one with `kumi index PATH`"):
            look()
    assert not Path(".kumi").exists()


def test_nothing_to_index_yet(kumi: Kumihimo) -> None:
    with pytest.raises(SourceError, match="say which folder"):
        kumi.index()
    with pytest.raises(IndexUnavailable, match="there is no index"):
        kumi.status()


def test_removing_before_there_is_an_index_makes_none(kumi: Kumihimo) -> None:
    with pytest.raises(KumiError, match="there is no index"):
        kumi.remove("notes")
    assert not Path(".kumi").exists()


@NEEDS_FILES
def test_an_index_of_a_later_version_is_left_alone(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    kumi.close()
    with sqlite3.connect(".kumi/index.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    for use in (lambda: kumi.ask("ferry"), lambda: kumi.index()):
        with pytest.raises(NewerFormat, match="pip install -U kumihimo"):
            use()


@NEEDS_FILES
def test_an_index_of_an_older_version_is_rebuilt(kumi: Kumihimo, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kumi.index(notes, methods=["naive", "braid"])
    before = tables(kumi)
    kumi.close()
    with closing(sqlite3.connect(".kumi/index.db")) as db:
        db.execute("PRAGMA user_version = 1")
    for use in (lambda: kumi.ask("ferry"), lambda: kumi.index(), lambda: kumi.status(), lambda: kumi.remove("notes")):
        with pytest.raises(IndexUnavailable, match="built by an older version: run `kumi index --rebuild`"):
            use()
    monkeypatch.setattr(build_cost, "plan_build", lambda _: pytest.fail("a free rebuild needs no dry run"))
    built = kumi.index(rebuild=True)
    assert built.read == len(before["documents"])
    assert (kumi.status().methods, tables(kumi)) == (("naive", "braid"), before)


@NEEDS_FILES
def test_what_is_no_index_is_left_alone(kumi: Kumihimo, notes: Path) -> None:
    fill(Path(".kumi"), {"index.db": "garbage" * 1000})
    for use in (lambda: kumi.ask("ferry"), lambda: kumi.index(notes), lambda: kumi.status()):
        with pytest.raises(IndexUnavailable, match=r"index\.db is no index"):
            use()
    assert Path(".kumi/index.db").read_text(encoding="utf-8") == "garbage" * 1000


@NEEDS_FILES
def test_the_index_and_the_documents_move_together(kumi: Kumihimo, notes: Path, tmp_path: Path) -> None:
    kumi.index(notes)
    before = dump(kumi)
    kumi.close()
    (tmp_path / "new" / "home").mkdir(parents=True)
    shutil.move(".kumi", "new/home")
    shutil.move(notes, "new/home")
    with Kumihimo.open("new/home/.kumi") as moved:
        assert moved.status().sources == {"notes": str(tmp_path / "new" / "home" / "notes")}
        built = moved.index()
        assert (built.read, built.unchanged, built.failed) == (0, 2, ())
        assert dump(moved) == before
        fill(tmp_path / "new" / "home" / "notes", {"a.txt": ZEBRA})
        assert moved.index().read == 1


@NEEDS_FILES
def test_documents_elsewhere_stay_where_they_are(kumi: Kumihimo, notes: Path, tmp_path: Path) -> None:
    with Kumihimo.open("deep/.kumi") as deep:
        deep.index(notes)
    shutil.move("deep", "deeper")
    with Kumihimo.open("deeper/.kumi") as deep:
        with pytest.raises(TrustRequired, match=r"reads .*notes, outside its folder"):
            deep.index()  # somebody else may have made it
        assert deep.index(notes).unchanged == deep.index().unchanged == 2


# -- building


def test_building_again_changes_nothing(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    before = dump(kumi)
    kumi.index()
    kumi.index(notes, reread=True)
    assert dump(kumi) == before


def test_chunk_settings_make_the_chunks_again(kumi: Kumihimo) -> None:
    kumi.index(EXAMPLES)
    large, documents = sizes(kumi), texts(kumi)
    with Kumihimo.open(settings={"chunks": {"size": 80, "overlap": 10}}) as small:
        assert small.index().read == 0
        assert max(sizes(small)) <= 80 < max(large)
        assert len(sizes(small)) > len(large)
        assert texts(small) == documents
        assert small.ask("How many sailings did the ferry lose?").citations
    kumi.index()
    assert sizes(kumi) == large


def test_a_document_of_too_many_chunks_spoils_no_other(
    kumi: Kumihimo, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "MAX_ROWS", 5)
    fill(notes, {"long.txt": "One more sentence of many. " * 500})
    kumi.settings["chunks"].update(size=20, overlap=0)
    assert len(kumi.index(notes).failed) == 1
    assert kumi.ask("When does the ferry leave?").citations


def test_methods_are_built_for_and_remembered(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes, methods=["bm25"])
    assert kumi.status().methods == ("bm25",)
    kumi.index()
    assert kumi.status().methods == ("bm25",)
    assert [e.text for e in kumi.retrieve("ferry", "bm25")] == ["The ferry leaves at nine."]
    assert kumi.ask("When does the ferry leave?", "naive").citations
    assert kumi.status().methods == ("bm25", "naive")
    kumi.index(methods=["bm25"])
    assert kumi.status().methods == ("bm25",)
    with pytest.raises(SettingsError, match="did you mean 'naive'"):
        kumi.index(notes, methods=["naiv"])


def test_a_snapshot_names_the_command_that_builds_a_method(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    kumi.index(methods=["bm25"])
    with (
        kumi.snapshot() as snapshot,
        pytest.raises(IndexUnavailable, match="`kumi index --methods bm25,naive`"),
    ):
        snapshot.ask("Where do zebras sleep?", "naive")


@pytest.mark.parametrize("there_and_back", [("bm25", "naive"), ("naive", "bm25")])
def test_switching_methods_there_and_back(kumi: Kumihimo, notes: Path, there_and_back: tuple[str, str]) -> None:
    kumi.index(notes)
    dump(kumi)
    kumi.index(methods=there_and_back[:1])
    fill(notes, {"zebra.txt": ZEBRA})
    (notes / "a.txt").unlink()
    kumi.index()
    kumi.index(methods=BUILT)
    with Kumihimo.open("fresh") as fresh:
        fresh.index(notes)
        assert dump(kumi) == dump(fresh)


@NEEDS_FILES
@pytest.mark.parametrize("harm", [lambda file: file.unlink(), lambda file: file.write_bytes(b"short")])
def test_vectors_that_are_lost_are_made_again(kumi: Kumihimo, notes: Path, harm: Callable[[Path], object]) -> None:
    kumi.index(notes)
    before = dump(kumi)
    harm(next(Path(".kumi/vectors").iterdir()))
    with Kumihimo.open() as again:
        again.index()
        assert dump(again) == before


@NEEDS_FILES
@pytest.mark.parametrize("harm", ["file.unlink()", "file.write_bytes(b'short')"])
def test_asking_without_vectors_says_what_to_do(kumi: Kumihimo, notes: Path, harm: str) -> None:
    kumi.index(notes)
    harmed = f"from pathlib import Path; file = next(Path('.kumi/vectors').iterdir()); {harm}; "
    question_code = "from kumihimo import Kumihimo; Kumihimo.open().ask('Does the gate leak?')"
    process = subprocess.run(
        [sys.executable, "-c", harmed + question_code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "kumihimo.core.errors.IndexUnavailable" in process.stderr
    assert "`kumi index`" in process.stderr


# -- settings


def test_the_file_is_under_the_environment_is_under_the_call(
    kumi: Kumihimo, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("kumi.toml").write_text("[naive]\nk = 1\npool = 11\nbudget = 111\n", encoding="utf-8")
    monkeypatch.setenv("KUMI_NAIVE_POOL", "22")
    monkeypatch.setenv("KUMI_NAIVE_BUDGET", "222")
    with Kumihimo.open(settings={"naive": {"budget": "333"}}) as overridden:
        values = overridden.settings["naive"]
        assert [values[name] for name in ("k", "pool", "budget", "words")] == [1, 22, 333, True]
        overridden.index(notes)
        assert (len(overridden.retrieve("the", "naive")), len(overridden.retrieve("the", "naive", k=2))) == (1, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[chunks]\nsise = 3", "chunks has no setting 'sise'; did you mean 'size'?"),
        ("[chunk]\nsize = 3", "no step, method or model 'chunk'; did you mean 'chunks'?"),
        ("[chunks]\nsize = 'many'", "chunks.size is a whole number from 1 to 1,000,000, not 'many'"),
        ("[chunks]\nsize = true", "chunks.size is a whole number from 1 to 1,000,000, not True"),
        ("size = 3", "such as \\[chunks\\]"),
        ("size = ", "kumi.toml is not TOML"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.chdir(fill(tmp_path, {"kumi.toml": text}))
    with pytest.raises(SettingsError, match=message):
        Kumihimo.open()


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUMI_CHUNKS_SISE", "3")
    with pytest.raises(SettingsError, match="did you mean 'KUMI_CHUNKS_SIZE'"):
        Kumihimo.open()
    monkeypatch.delenv("KUMI_CHUNKS_SISE")
    monkeypatch.setenv("KUMI_INDEX", "/elsewhere")
    Kumihimo.open().close()


def test_chunks_that_would_not_end_are_refused(kumi: Kumihimo, notes: Path) -> None:
    with (
        Kumihimo.open(settings={"chunks": {"size": 50}}) as wrong,
        pytest.raises(SettingsError, match=r"chunks\.overlap is 100; it must be below chunks\.size"),
    ):
        wrong.index(notes)


def test_a_number_that_is_none_is_refused(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    with pytest.raises(SettingsError):
        kumi.retrieve("ferry", "naive", meaning="nan")


@pytest.mark.parametrize("method", RANKING)
def test_more_than_there_is_may_be_asked_for(kumi: Kumihimo, notes: Path, method: str) -> None:
    connected(kumi).index(notes)
    assert found(kumi, method, "the ferry", k=10_000) == found(kumi, method, "the ferry", k=10)


# -- stopping, waiting, sharing


def test_a_stopped_build_leaves_the_index_as_it_was(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    before = dump(kumi)
    steps: list[str] = []

    def stop(event: task.ProgressEvent) -> None:
        steps.append(event.step)
        if event.step == "chunks":
            raise KeyboardInterrupt

    fill(notes, {"a.txt": ZEBRA, "c.txt": "More."})
    with pytest.raises(KeyboardInterrupt):
        kumi.index(progress=stop)
    assert "documents" in steps
    assert dump(kumi) == before
    assert kumi.index().read == 2
    assert texts(kumi)["notes/a.txt"] == ZEBRA


@NEEDS_FILES
def test_a_stopped_first_build_is_no_index(kumi: Kumihimo, notes: Path) -> None:
    def stop(event: task.ProgressEvent) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kumi.index(notes, progress=stop)
    with pytest.raises(IndexUnavailable, match=r"the first build of .* is not finished"):
        kumi.ask("ferry")
    assert kumi.index(notes).rows["documents"] == 2


def test_progress_counts_to_the_end(kumi: Kumihimo, notes: Path) -> None:
    progress_by_step: dict[str, tuple[int, int]] = {}
    kumi.index(notes, progress=lambda event: progress_by_step.__setitem__(event.step, (event.done, event.total)))
    assert {"documents", "chunks"} <= progress_by_step.keys()
    assert all(done == total for done, total in progress_by_step.values())
    assert progress_by_step["documents"] == progress_by_step["chunks"] == (2, 2)


def test_progress_tells_the_share_of_the_whole(kumi: Kumihimo, notes: Path) -> None:
    shares: list[float | None] = []
    kumi.index(notes, progress=lambda event: shares.append(event.share))
    known = [share for share in shares if share is not None]
    assert len(known) == len(shares) > 10
    assert known == sorted(known)
    assert 0 < known[0] < 0.1
    assert known[-1] > 0.9
    kumi.index(fill(notes, {"d.txt": "Less."}), progress=lambda event: shares.append(event.share))
    assert shares[-1] is not None
    assert shares[-1] <= 1


def test_every_step_has_plain_words() -> None:
    assert {name for name in STEPS if describe_event(task.ProgressEvent(name)) == name} == set()


def test_a_question_tells_what_it_does(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    told: list[str] = []
    kumi.ask("ferry", progress=lambda event: told.append(describe_event(event)))
    assert told == ["searching"]


@NEEDS_FILES
def test_a_second_builder_is_told_at_once_or_waits(
    kumi: Kumihimo, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kumi.index(notes)
    fill(notes, {"c.txt": "Late."})
    store = SqliteStore(Path(".kumi"))
    with store.write_transaction(), pytest.raises(IndexBusy, match="`--wait`"):
        kumi.index()
    first_build, waits = store.write_transaction(), list[float]()

    def sleep(seconds: float) -> None:
        """End the first build."""
        waits.append(seconds)
        first_build.__exit__(None, None, None)

    monkeypatch.setattr(store_module, "time", SimpleNamespace(sleep=sleep))
    first_build.__enter__()
    assert kumi.index(wait=True).read == 1
    assert len(waits) == 1


def test_a_reader_sees_whole_builds_only(kumi: Kumihimo, tmp_path: Path) -> None:
    """Build versions: version n is n + 1 files with that number."""
    notes, over, version_counts = tmp_path / "notes", Event(), set[tuple[int, ...]]()
    connected(kumi)

    def write(version: int) -> None:
        fill(notes, {f"{i}.txt": f"This is version {version:02} of the lamp log." for i in range(version + 1)})
        kumi.index(notes)

    def read() -> None:
        while not over.is_set():
            with kumi.snapshot() as snapshot:
                rows = [row.text for table in ("documents", "chunks") for row in snapshot.table(table)]
                texts_read = [e.text for m in RANKING for e in snapshot.retrieve("Which version of the lamp log?", m)]
                quoted = [c.span.text for m in RANKING for c in snapshot.ask("Which version of the log?", m).citations]
                versions = {int(text[16:18]) for text in [*rows, *texts_read, *quoted]}
                assert quoted
                version_counts.add((*versions, len(rows), len(texts_read)))

    def is_seen(version: int) -> bool:
        return len(version_counts) > version or any(reader.done() for reader in readers)

    write(0)
    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        try:
            for version in range(11):
                write(version)
                wait_until(partial(is_seen, version))
        finally:
            over.set()
        assert [reader.result() for reader in readers] == [None, None]
    files = {version: version + 1 for version in range(11)}
    assert version_counts == {(v, 2 * n, len(RANKING) * n) for v, n in files.items()}


def test_a_reading_keeps_its_vectors_while_others_come_and_go(kumi: Kumihimo, tmp_path: Path) -> None:
    lines = [json.dumps({"id": f"{i:04}", "text": f"Lamp {i} stands on pier {i * 7 % 1100}."}) for i in range(1100)]
    kumi.index(fill(tmp_path / "lamps", {"rows.jsonl": "\n".join(lines)}))
    question = "lamp 1017 on a pier"
    with kumi.snapshot() as before:
        first = before.retrieve(question, "naive", words=False)
        fill(tmp_path / "lamps", {"rows.jsonl": "\n".join(lines[600:])})
        kumi.index()
        with kumi.snapshot() as later:
            later.retrieve(question, "naive")
        assert before.retrieve(question, "naive", words=False) == first


# -- other functions


def test_japanese_names_and_questions(kumi: Kumihimo, tmp_path: Path) -> None:
    kumi.index(fill(tmp_path / "工房", {"手紙/組紐.md": "組紐は十月に届きます。雨の日は休みです。"}))
    answer = kumi.ask("組紐はいつ届きますか")
    assert answer.text == "組紐は十月に届きます。雨の日は休みです。"
    assert answer.marked().text == f"{answer.text} [1]"
    assert answer.citations[0].span.uri == "工房/手紙/組紐.md"
    kumi.remove("工房/手紙")
    assert uris(kumi) == []


@NEEDS_FILES
def test_status_tells_what_there_is(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    status = kumi.status()
    assert (status.folder, status.sources, status.removed) == (".kumi", {"notes": str(notes)}, ())
    assert (status.rows["documents"], status.rows["chunks"], status.failed) == (2, 2, ())
    assert status.models["embedder"] == LocalEmbedder().fingerprint
    assert status.bytes == sum(path.stat().st_size for path in Path(".kumi").rglob("*") if path.is_file())
    assert status.cache == {"replies": 0, "bytes": 0, "hits": 0, "misses": 0}


def test_a_row_is_traced_by_its_id_or_reference(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    chunk = kumi.retrieve("ferry", "bm25").evidence[0]
    spans = kumi.trace(chunk.record.id)
    assert [(s.uri, s.start, s.end, s.text) for s in spans] == [("notes/a.txt", 0, 25, "The ferry leaves at nine.")]
    assert kumi.trace(chunk.reference) == spans == kumi.trace(f"chunks:{chunk.record.id}")


def test_what_the_memo_need_not_know_is_pruned(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    kumi.cache.put_many([(b"1", b"reply")])
    before = dump(kumi)
    replies = kumi.status().cache["replies"]
    assert replies > 1  # including replies to methods
    assert kumi.prune() == replies
    assert kumi.status().cache["replies"] == 0
    assert dump(kumi) == before
    kumi.cache.put_many([(b"1", b"reply")])
    kumi.remove("notes/a.txt", forget=True)
    assert (kumi.status().cache["replies"], uris(kumi)) == (0, ["notes/b.md"])


def test_the_default_method_is_one(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    assert DEFAULT_METHOD in METHODS
    assert kumi.ask("ferry").method == DEFAULT_METHOD
