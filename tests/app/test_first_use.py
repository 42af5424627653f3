"""an index for the default methods -> the tables of another method, when it is first used."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Thread

import pytest

from kumihimo import Kumihimo
from kumihimo.app.build.build import default_methods
from kumihimo.app.build.prepare_build import _build_missing
from kumihimo.core.errors import IndexBusy, IndexUnavailable
from kumihimo.llm.registry import ModelRegistry
from kumihimo.testing.fake_models import FakeChat
from tests import fake_graph_reader
from tests.cli_runner import kumi as run_kumi
from tests.fixtures_index import fill, tables
from tests.stores import NEEDS_FILES

NOTES = {
    "notes/pier.txt": "Ada Vane built the pier in Fenwick. Bea Orrell paid for it after the storm.",
    "notes/ferry.txt": "The ferry of Fenwick leaves at nine. Ada Vane mends it in winter, and Cal Roe sails it.",
}
WAITING = "local needs tables that are not built yet; another process builds: waiting for it"
QUESTION = "Who built the pier in Fenwick?"
THEMES = "What are the main themes?"
READ_BY_DEFAULT = {"documents", "descriptions", "chunks", "names", "merges", "mentions", "imported_units"}
LOCAL_LINE = "local needs ties, entities, relations, claims, communities, members, reports: building them"
GRAPH_LINE = "global needs communities, reports: building them"


class Modelled(ModelRegistry):
    """One fake model for everything."""

    def chat(self, scope: str) -> FakeChat:
        return FakeChat(fake_graph_reader.answer, join_messages=True)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with Kumihimo(tmp_path / ".kumi") as kumi:
        kumi.index(fill(tmp_path, NOTES) / "notes")
    return tmp_path


def test_the_default_methods_share_their_tables(home: Path) -> None:
    with Kumihimo(home / ".kumi") as kumi:
        assert list(kumi.status().methods) == default_methods(kumi.catalogue, kumi.models)
        assert list(kumi.status().methods) == ["braid", "bm25", "naive"]
        assert kumi.status().rows.keys() == READ_BY_DEFAULT


def test_the_first_use_of_a_method_builds_its_tables(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.rmtree(home / "notes")  # the stored documents are enough
    with Kumihimo(home / ".kumi") as kumi:
        before = tables(kumi)
        context = kumi.retrieve(QUESTION, "local")
        assert [record.message for record in caplog.records] == [LOCAL_LINE]
        assert (kumi.retrieve(QUESTION, "local"), len(caplog.records)) == (context, 1)
        assert kumi.ask(QUESTION, "discourse").citations
        assert "".join(kumi.stream(QUESTION, "light"))
        after = tables(kumi)
        assert {name: after[name] for name in before} == before
        assert kumi.status().methods == ("braid", "bm25", "naive", "local", "discourse")


def test_a_later_build_keeps_the_method_up_to_date(home: Path) -> None:
    with Kumihimo(home / ".kumi") as kumi:
        kumi.retrieve(QUESTION, "discourse")
        fill(home, {"notes/dike.txt": "Dora Kell raised the dike, because the tide came over it."})
        kumi.index()
        built = tables(kumi)
    with Kumihimo(home / "fresh") as fresh:
        fresh.index(home / "notes", methods=["braid", "bm25", "naive", "discourse"])
        assert tables(fresh)["frames"] == built["frames"]


def test_a_question_builds_nothing_that_may_cost(home: Path) -> None:
    with Kumihimo(home / ".kumi") as kumi:
        with pytest.raises(IndexUnavailable, match="meta needs a chat model"):
            kumi.retrieve(QUESTION, "meta")
        kumi.models = Modelled(kumi.models.settings, kumi.models.cache)
        with pytest.raises(
            IndexUnavailable, match=r"not built for meta: `kumi index --methods braid,.*,meta` does that, and"
        ):
            kumi.retrieve(QUESTION, "meta")
        kumi.index(methods=["braid"])  # the model reads the chunks
        with pytest.raises(IndexUnavailable, match="`kumi index --methods braid,local` does that, and `kumi plan"):
            kumi.retrieve(QUESTION, "local")
        assert kumi.status().methods == ("braid",)


def test_a_question_changes_no_table_that_exists(home: Path) -> None:
    with Kumihimo(home / ".kumi", {"chunks": {"size": 100}}) as kumi:
        before = tables(kumi)
        with pytest.raises(IndexUnavailable, match=r"chunks, .* would change too, .*`kumi index --methods .*local`"):
            kumi.retrieve(QUESTION, "local")
        assert tables(kumi) == before


def test_a_build_that_does_not_end_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kumihimo.app.build.prepare_build.MAX_WAITS", 1)
    with Kumihimo(home / ".kumi") as kumi, kumi.store.write_transaction():
        with pytest.raises(IndexBusy, match=r"local needs tables .*: ask again when it is done"):
            kumi.retrieve(QUESTION, "local")
        assert [record.message for record in caplog.records] == [WAITING]
        assert kumi.retrieve(QUESTION, "naive")


@NEEDS_FILES
def test_a_question_waits_for_the_build_of_another_process(home: Path) -> None:
    command = [str(Path(sys.executable).with_name("kumi")), "retrieve", QUESTION, "--method", "local", "--json"]
    with Kumihimo(home / ".kumi") as kumi:
        with kumi.store.write_transaction() as db:
            process = Popen(command, cwd=home, stdout=PIPE, stderr=PIPE, text=True)
            assert process.stderr
            assert process.stderr.readline() == f"{WAITING}\n"
            _build_missing(kumi.opened, db, "local", None)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        with kumi.snapshot() as snapshot:
            expected = [item.record.id for item in snapshot.retrieve(QUESTION, "local")]
    assert [item["id"] for item in json.loads(out)["evidence"]] == expected


@NEEDS_FILES
def test_an_index_that_cannot_be_written_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kumihimo.storage.sqlite.store.is_immutable", lambda _: True)
    command = "`kumi index --methods braid,bm25,naive,local`"
    with Kumihimo(home / ".kumi") as kumi, pytest.raises(IndexUnavailable, match=f"not built for local: {command}"):
        kumi.retrieve(QUESTION, "local")


def test_questions_at_once_build_once(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with Kumihimo(home / ".kumi") as kumi:
        threads = [Thread(target=kumi.retrieve, args=(QUESTION, "local")) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(caplog.records) == 1
        assert "local" in kumi.status().methods


@NEEDS_FILES
def test_the_command_line_says_that_it_builds(home: Path) -> None:
    ran = run_kumi(home, "retrieve", QUESTION, "--method", "local", "--json")
    assert (ran.returncode, ran.stderr) == (
        0,
        f"{LOCAL_LINE}\n",
    )
    ran = run_kumi(home, "ask", QUESTION, "-m", "discourse")
    assert ran.stderr.startswith("discourse needs passages, frames, links: building them\n")
    ran = run_kumi(home, "ask", typed=f"/method light\n{QUESTION}\n")
    assert (ran.returncode, "building" in ran.stderr) == (0, False)  # local has the same tables


def test_a_question_about_the_whole_corpus_builds_nothing(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Kumihimo(home / ".kumi") as kumi:
        before = tables(kumi)
        answer = kumi.ask(THEMES)
        assert answer.text.startswith("2 documents · English 2")
        assert (tables(kumi), caplog.records) == (before, [])


@NEEDS_FILES
@pytest.mark.parametrize(
    "command",
    [["entities"], ["report"], ["export", "csv", "--out", "graph"], ["sparql", "SELECT ?e { ?e a kumi:Entity }"]],
    ids=lambda command: command[0],
)
def test_a_command_that_reads_the_graph_builds_it(home: Path, command: list[str]) -> None:
    first, second = (run_kumi(home, *command, "--json") for _ in range(2))
    assert (first.returncode, first.stderr) == (0, f"{GRAPH_LINE}\n")
    assert (second.returncode, second.stderr, second.stdout) == (0, "", first.stdout)
    assert "Vane" in first.stdout or "entit" in first.stdout
    with Kumihimo(home / ".kumi") as kumi:
        assert kumi.status().rows["entities"] > 0
