"""command lines -> printed output, and the exit code: 0 success, 1 some items failed, 2 usage or settings."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.cli import printing
from kumihimo.cli.main import main
from kumihimo.core.task import Progress, ProgressEvent
from kumihimo.methods import METHODS
from kumihimo.storage.sqlite.store import SqliteStore
from tests import cli_runner
from tests.fixtures_index import dump, fill, texts, uris

Output = tuple[int, str, str]  # exit code, standard output, standard error
Run = Callable[..., Output]
KUMI = Path(sys.executable).with_name("kumi")
NOTES = {
    "ferry.txt": "The ferry leaves at nine. The office opens at eight.",
    "gate.md": "# Gate\n\nThe gate leaks.\n\nNobody mends the gate.",
    "talks.jsonl": '{"id": "ada", "text": "Ada lit the lamp."}\n{"id": "bo", "text": "Bo sold the lamp."}\n',
}


@pytest.fixture
def kumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a runner of `kumi` in a new folder that contains `notes`."""
    monkeypatch.chdir(tmp_path)
    fill(tmp_path / "notes", NOTES)

    def run(*arguments: str | Path) -> Output:
        capsys.readouterr()
        words = list(map(str, arguments))
        monkeypatch.setattr(sys, "argv", ["kumi", *words])
        code: Any = 0
        try:
            with cli_runner.commands_of(words):
                main()
        except SystemExit as stop:
            code = stop.code
        out, err = capsys.readouterr()
        return code or 0, out, err

    return run


@pytest.fixture
def built(kumi: Run) -> Run:
    assert kumi("index", "notes")[0] == 0
    return kumi


def json_of(output: Output) -> Any:
    """Return the JSON document that was printed."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    return json.loads(output[1], parse_constant=refuse)


def error_of(output: Output) -> str:
    """Return the error line; assert exit code 2 and no other output."""
    code, out, err = output
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("kumi: ")
    return err


def run_kumi(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([KUMI, *arguments], capture_output=True, text=True, timeout=60, check=False, **options)


# -- output


def test_indexing_tells_what_was_done(kumi: Run) -> None:
    code, out, err = kumi("index", "notes")
    assert (code, err) == (0, "")
    assert out.startswith("Files: 3 new.\nThe index now holds 4 documents and 4 chunks")
    assert kumi("index")[1].startswith("Nothing has changed in 3 files: ")
    Path("notes/new.md").write_text("The lamp is lit.", encoding="utf-8")
    Path("notes/ferry.txt").write_text("The ferry leaves at ten.", encoding="utf-8")
    assert kumi("index")[1].startswith("Files: 1 new, 1 changed, 2 unchanged.\n")
    os.utime("notes/new.md", (1, 1))
    reread = json.loads(kumi("index", "--reread", "--json")[1])
    assert [reread[name] for name in ("read", "new", "unchanged")] == [4, 0, 0]
    Path("notes/gate.md").unlink()
    assert "1 gone" in kumi("index", "notes")[1]


def test_asking_tells_where_it_stands(built: Run) -> None:
    code, out, err = built("ask", "When does the ferry leave?")
    assert code == 0
    assert out.startswith(f"The nearest passages:\n\n[1] notes/ferry.txt, line 1\n    {NOTES['ferry.txt']}\n")
    assert "No chat model is set" in err


def test_evidence_stands_where_its_words_are(kumi: Run) -> None:
    lines = [f"Line {n} tells of the sea and of nothing else that matters." for n in range(1, 9)]
    fill(Path("notes"), {"log.txt": "\n".join([*lines, "The pier was mended."])})
    kumi("index", "notes")
    assert kumi("retrieve", "Who mended the pier?", "--k", "1")[1].startswith("1. notes/log.txt, line 5\n")


def test_retrieving_and_tracing_fit_together(built: Run) -> None:
    _, out, _ = built("retrieve", "ferry", "--k", "1", "-m", "bm25")
    assert "1. notes/ferry.txt, line 1" in out
    id = out.split("chunks:")[1].split()[0]
    for target in (id, f"chunks:{id}", "notes/ferry.txt"):
        code, text, _ = built("trace", target)
        assert code == 0
        assert NOTES["ferry.txt"] in text


def test_what_is_near_is_named_where_nothing_answers(built: Run) -> None:
    code, out, _ = built("ask", "Who painted the bananas red in winter?")
    assert code == 0
    first, note, nearest = out.split("\n\n")
    assert first == "No passage that answers this was found."
    assert note == "No document mentions “bananas”."
    assert nearest.startswith("The nearest passages:\n  notes/")
    assert len(nearest.splitlines()) <= 4


def test_a_filter_that_nothing_passes_is_told(built: Run) -> None:
    for command in ("ask", "retrieve"):
        code, _, err = built(command, "ferry", "--filter", "title = 'Nobody'")
        assert (code, err.count("(No document passes the filter.)")) == (0, 1)
        assert "No document passes" not in built(command, "ferry", "--filter", "title = 'Gate'")[2]


def test_an_index_without_documents_says_so(built: Run) -> None:
    shutil.rmtree("notes")
    Path("notes").mkdir()
    assert built("index")[0] == 0
    for command in ("ask", "retrieve"):
        assert "he index holds no documents: `kumi index PATH` adds some" in built(command, "ferry")[2]


def test_what_was_read_in_part_is_told(kumi: Run) -> None:
    fill(Path(), {"notes/odd.md": "---\ntitle: [unclosed\n---\nThe lamp."})
    message = "Read in part: notes/odd.md: its front matter, which is neither YAML nor TOML\n"
    assert kumi("index", "notes")[2] == message
    assert kumi("status")[2] == message
    assert json_of(kumi("status", "--json"))["partial"] == [message.strip().removeprefix("Read in part: ")]


def test_a_filter_says_which_documents_may_speak(built: Run) -> None:
    option = ("--filter", "title = 'Gate' or uri contains '#bo'")
    code, out, _ = built("ask", "Who mends the gate and sold the lamp?", *option)
    assert code == 0
    assert "notes/talks.jsonl#bo" in out
    assert "Ada" not in out
    one = json_of(built("retrieve", "the gate lamp ferry", *option, "-m", "bm25", "--json"))
    fill(Path(), {"asked.jsonl": '{"question": "the gate lamp ferry"}'})
    many = json_of(built("retrieve", "--questions", "asked.jsonl", *option, "-m", "bm25"))
    for line in (one, many):
        uris = {chunk["uri"] for item in line["evidence"] for chunk in item["spans"]}
        assert uris == {"notes/talks.jsonl#bo", "notes/gate.md"}
    assert built("retrieve", "lamp", "--filter", "uri = 'x'", "-m", "bm25")[:2] == (0, "Nothing was found.\n")
    assert json_of(built("ask", "lamp", "--filter", "uri = 'x'", "--json"))["citations"] == []


def test_a_filter_that_is_not_right_is_one_line(built: Run) -> None:
    assert "no field 'titel'; did you mean 'title'? Known: file, " in error_of(
        built("ask", "gate", "--filter", "titel")
    )
    assert "is not understood from 'Gate' (character 9) on" in error_of(
        built("retrieve", "gate", "--filter", "title = Gate", "-m", "bm25")
    )


def test_nothing_found_is_said(built: Run) -> None:
    assert built("retrieve", "xylophone", "-m", "bm25")[:2] == (0, "Nothing was found.\n")
    assert "No passage that answers this was found." in built("ask", "xylophone", "-m", "bm25")[1]


def test_status_and_methods_and_memo_tell(built: Run) -> None:
    _, out, _ = built("status")
    assert all(word in out for word in ("notes", "documents", "4 rows", "bm25, naive", "0 replies"))
    assert all(f"{name}\n" in built("methods")[1].replace(" (default)", "") for name in METHODS)
    assert built("cache")[1].startswith("0 replies")
    assert built("cache", "prune")[1].startswith("Erased 0 replies.\n")


def test_a_settings_file_is_written_once(kumi: Run) -> None:
    assert kumi("init")[0] == 0
    text = Path("kumi.toml").read_text(encoding="utf-8")
    assert "[chunks]" in text
    assert "# size = 600" in text
    assert "already exists" in error_of(kumi("init"))
    Path("kumi.toml").write_text("# mine", encoding="utf-8")
    assert kumi("init", "--force")[0] == 0
    assert Path("kumi.toml").read_text(encoding="utf-8") == text
    assert kumi("index", "notes")[0] == 0
    Path("kumi.toml").write_text(text.replace("# size = 600", "size = 101"), encoding="utf-8")
    assert kumi("index")[0] == 0
    Path("kumi.toml").write_text(text.replace("# size = 600", "size = 'x'"), encoding="utf-8")
    assert "chunks.size is a whole number" in error_of(kumi("index"))


@pytest.mark.parametrize(
    "command",
    [
        "index", "index notes", "index --reread", "remove notes", "remove notes/gate.md", "ask ferry", "ask xylophone",
        "retrieve ferry", "retrieve xylophone", "status", "trace notes/gate.md", "methods", "init", "cache",
        "cache prune", "ask ferry -m bm25", "retrieve ferry --k 1",
        "retrieve --questions one.jsonl",
        "retrieve ferry --out found.jsonl",
    ],
)  # fmt: skip
def test_json_is_one_document_and_nothing_else(built: Run, command: str) -> None:
    fill(Path(), {"one.jsonl": '{"question": "ferry"}', "two.jsonl": '{"question": "ferry"}\n{"question": "gate"}'})
    ran = built(*command.split(), "--json")
    assert (ran[0], ran[2]) == (0, "")
    assert json_of(ran) is not None


def test_json_before_prune_is_heard(built: Run) -> None:
    assert json_of(built("cache", "--json", "prune"))["erased"] == 0


def test_index_before_prune_is_heard(built: Run) -> None:
    for folder in (".kumi", "other"):
        with Kumihimo.open(folder) as index:
            index.index("notes")
            index.cache.put_many([(b"1", b"reply")])
    built("cache", "--index", "other", "prune")
    assert [json_of(built("cache", "--index", f, "--json"))["replies"] for f in (".kumi", "other")] == [1, 0]


def test_the_json_of_an_answer(built: Run) -> None:
    answer = json_of(built("ask", "When does the ferry leave, and who lit the lamp?", "--json"))
    keys = ["question", "method", "model", "approach", "status", "truncated"]
    keys += ["text", "parts", "citations", "sources", "dangling"]
    keys += ["queries", "query_type", "replaced", "rounds", "evidence"]
    assert list(answer) == [*keys, "followups", "usage", "saved"]
    assert (answer["approach"], answer["truncated"]) == ("passages", False)
    assert answer["status"] == "closest"  # no passage answers both
    assert answer["queries"] == ["When does the ferry leaves, and who lit the lamp?"]
    assert answer["replaced"] == [{"word": "leave", "searched": "leaves"}]
    assert answer["rounds"] == [{"queries": [answer["question"], *answer["queries"]]}]
    assert (answer["question"], answer["method"]) == ("When does the ferry leave, and who lit the lamp?", "braid")
    assert (answer["model"], answer["sources"], answer["dangling"]) == ("", [], 0)
    counts = ["calls", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "seconds"]
    assert list(answer["usage"]) == counts
    with Kumihimo.open() as index:
        documents = texts(index)
    assert [c["n"] for c in answer["citations"]] == list(range(1, len(answer["citations"]) + 1))
    assert len({c["uri"] for c in answer["citations"]}) >= 2
    assert answer["text"] == "\n\n".join(part["text"] for part in answer["parts"])
    assert [part["citations"] for part in answer["parts"]] == [[c["n"]] for c in answer["citations"]]
    for part in answer["parts"]:
        end = len(part["text"])
        assert part["markers"] == [{"start": end, "end": end, "n": part["citations"]}]
    place = ["document", "chunk", "title", "uri", "place", "location", "start", "end"]
    for citation in answer["citations"]:
        assert list(citation) == ["n", *place, "text", "metadata"]
        assert documents[citation["uri"]][citation["start"] : citation["end"]] == citation["text"]
        assert json_of(built("trace", citation["chunk"], "--json"))["spans"][0]["uri"] == citation["uri"]


def test_the_json_of_evidence(built: Run) -> None:
    result = json_of(built("retrieve", "ferry", "--json", "-m", "bm25"))
    (only,) = result.pop("evidence")
    assert result.pop("rounds") == [{"queries": ["ferry"]}]
    assert result == {"id": "", "question": "ferry", "queries": [], "query_type": "", "replaced": []}
    assert only.pop("score") > 0
    chunk = only.pop("id")
    assert chunk.endswith(".00000")
    (span,) = only.pop("spans")
    ids = {"document": chunk.partition(".")[0], "chunk": chunk, "title": "ferry"}
    place = {"uri": "notes/ferry.txt", "place": "line 1", "location": "notes/ferry.txt, line 1"}
    assert span == {**ids, **place, "start": 0, "end": 52}
    assert {name: only.pop(name) for name in span} == span, "the snippet is the whole passage"
    snippet, marks = only.pop("snippet"), only.pop("marks")
    assert [snippet[start:end] for start, end in marks] == ["ferry"]
    assert snippet in NOTES["ferry.txt"]
    reason: dict[str, Any] = {"reason": "says “ferry”", "words": ["ferry"], "feature_scores": {}, "via": None}
    row = {"rank": 1, "table": "chunks", "text": NOTES["ferry.txt"], "metadata": {"kind": "text"}, "duplicates": []}
    assert only == {**row, **reason}


def test_the_json_of_a_build_and_of_status(kumi: Run) -> None:
    fill(Path("notes"), {"broken.json": "{", "photo.jpg": "x"})
    ran = kumi("index", "notes", "--json")
    result = json_of(ran)
    assert (ran[0], result["read"], result["skipped"], result["rows"]["documents"]) == (1, 3, ["notes/photo.jpg"], 4)
    ran = kumi("status", "--json")
    assert (ran[0], json_of(ran)["failed"]) == (1, result["failed"])
    assert result["failed"][0][:2] == ["documents", "notes/broken.json"]


def test_many_questions_give_a_line_each(built: Run) -> None:
    text = '\ufeff{"id": "q1", "question": "ferry"}\n\n{"id": 7, "question": "gate"}\r\n{"question": "xylophone"}\n'
    fill(Path(), {"asked.jsonl": text})
    code, out, err = built("retrieve", "--questions", "asked.jsonl", "--k", "1", "-m", "bm25")
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, err, [list(line) for line in lines]) == (
        0,
        "",
        [["id", "question", "queries", "query_type", "replaced", "rounds", "evidence"]] * 3,
    )
    assert [(line["id"], len(line["evidence"])) for line in lines] == [("q1", 1), (7, 1), ("4", 0)]
    assert lines[0]["evidence"][0]["spans"][0]["uri"] == "notes/ferry.txt"
    ran = built("retrieve", "--questions", "asked.jsonl", "--k", "1", "-m", "bm25", "--out", "found.jsonl")
    assert ran == (0, "", "")
    assert Path("found.jsonl").read_text(encoding="utf-8") == out


def test_a_line_separator_within_a_question_is_no_line_end(built: Run) -> None:
    fill(Path(), {"asked.jsonl": '{"question": "the ferry\u2028and the gate\u0085"}\n'})
    assert built("retrieve", "--questions", "asked.jsonl")[0] == 0


# -- errors


def test_what_failed_is_listed_until_it_is_mended(built: Run) -> None:
    fill(Path("notes"), {"talks.jsonl": "{"})
    code, _, err = built("index")
    assert code == 1
    assert "1 failed; `kumi index` tries again:\n  documents: notes/talks.jsonl: line 1" in err
    assert built("status")[0] == 1
    assert "[1] notes/talks.jsonl#ada\n    Ada lit the lamp.\n" in built("ask", "Who lit the lamp?")[1]
    fill(Path("notes"), {"talks.jsonl": NOTES["talks.jsonl"]})
    assert built("index")[0] == 0
    assert built("status")[0] == 0


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("ask ''", "QUESTION is empty: give it a value"),
        ("ask ferry -m bm52", "no method 'bm52'; did you mean 'bm25'?"),
        ("index notes --methods bm25,naiv", "no method 'naiv'; did you mean 'naive'?"),
        ("index gone", "gone does not exist: check the path"),
        ("remove gone", "no source or document 'gone'"),
        ("trace gone", "`kumi retrieve QUESTION` shows ids"),
        ("retrieve", "give either a question or --questions"),
        ("retrieve ferry --questions x", "give either a question or --questions"),
        ("retrieve --questions gone", "gone cannot be read"),
        ("retrieve --questions notes", "notes cannot be read"),
        ("retrieve --questions notes/ferry.txt", "notes/ferry.txt, line 1: write"),
        ("retrieve --questions notes/talks.jsonl", "notes/talks.jsonl, line 1: write"),
        ("retrieve ferry --out notes/ferry.txt/x", "notes/ferry.txt/x cannot be written (File exists)"),
        ("retrieve ferry --out notes", "notes is a folder: name a file"),
        ("retrieve ferry --out notes/ferry.txt", "notes/ferry.txt already exists, and `kumi` did not write it"),
        ("ask ferry --set naive.kk=3", "naive has no setting 'kk'; did you mean 'k'?"),
        ("ask ferry --set naiv.k=3", "no step, method or model 'naiv'; did you mean 'naive'?"),
        ("ask ferry --set k=3", "write it as step.setting=value"),
        ("ask ferry --set naive.k=many", "naive.k is a whole number from 1 to 10,000, not 'many'"),
        ("index --set chunks.size=9", "chunks.overlap is 100"),
        ("status --index notes", "there is no index in notes"),
        ("ask ferry --index notes/ferry.txt", "there is no index in notes/ferry.txt"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(built: Run, command: str, message: str) -> None:
    arguments = [word.strip("'") for word in command.split()]
    assert message in error_of(built(*arguments))
    assert built("status")[0] == 0


@pytest.mark.parametrize(
    "command", ["aks", "ask ferry --jsn", "ask a b", "ask ferry --k", "retrieve a --k 0", "retrieve a --k x"]
)
def test_a_wrong_command_line_is_told(built: Run, command: str) -> None:
    code, out, err = built(*command.split())
    assert (code, out) == (2, "")
    assert "--help" in err
    assert len(err.splitlines()) == 1


def test_no_index_is_told_by_every_command(kumi: Run) -> None:
    for command in (["ask", "x"], ["retrieve", "x"], ["status"], ["trace", "x"]):
        assert "there is no index in .kumi: make one with `kumi index PATH`" in error_of(kumi(*command))
    assert not Path(".kumi").exists()


def test_an_index_folder_that_is_a_file(kumi: Run) -> None:
    err = error_of(kumi("index", "notes", "--index", "notes/ferry.txt"))
    assert "--index" in err
    assert "disk" not in err


@pytest.mark.parametrize("command", [["index", "notes"], ["status"], ["ask", "x"], ["remove", "notes"]])
def test_an_index_that_is_garbage(kumi: Run, command: list[str]) -> None:
    fill(Path(".kumi"), {"index.db": "garbage " * 500})
    assert "index.db is no index (file is not a database): move it away" in error_of(kumi(*command))


def test_an_index_that_is_half_garbage(built: Run) -> None:
    content = Path(".kumi/index.db").read_bytes()
    Path(".kumi/index.db").write_bytes(content[:4096] + b"Z" * (len(content) - 4096))
    for command in (["index"], ["status"], ["ask", "ferry"]):
        assert "`kumi check --repair`" in error_of(built(*command))


@pytest.mark.parametrize("text", ["a = [", "\x00", "chunks = 3", "[chunks]\nsise = 3"])
def test_a_settings_file_that_is_wrong(built: Run, text: str) -> None:
    fill(Path(), {"kumi.toml": text})
    for command in (["index"], ["status"], ["ask", "ferry"]):
        assert error_of(built(*command))


def test_evidence_is_written_over_evidence_alone(built: Run) -> None:
    mine = '{"id": "1", "question": "Mine?"}\n'
    fill(Path(), {"mine.jsonl": mine})
    for name in ("mine.jsonl", "notes/ferry.txt"):
        before = Path(name).read_bytes()
        assert "or replace it with --force" in error_of(built("retrieve", "ferry", "--out", name))
        assert Path(name).read_bytes() == before
    for words in (["ferry"], ["gate"], ["--questions", "mine.jsonl"]):
        assert built("retrieve", *words, "--out", "found.jsonl")[0] == 0
    assert built("retrieve", "ferry", "--out", "mine.jsonl", "--force")[0] == 0
    assert json.loads(Path("mine.jsonl").read_text("utf-8"))["question"] == "ferry"


def test_a_settings_file_that_cannot_be_read(built: Run) -> None:
    Path("kumi.toml").mkdir()
    err = error_of(built("status"))
    assert "kumi.toml" in err
    assert "disk" not in err


@pytest.mark.parametrize("command", ["index", "remove"])
def test_a_path_that_no_system_has(built: Run, command: str) -> None:
    err = error_of(built(command, "x" * 5000))
    assert "disk" not in err
    assert len(err) < 1000


def test_a_removal_ends_with_0_though_another_file_had_failed(tmp_path: Path) -> None:
    fill(tmp_path, {"notes/a.txt": "The ferry leaves.", "notes/b.txt": "The gate leaks.", "notes/c.pdf": "%PDF-1.4"})
    assert cli_runner.kumi(tmp_path, "index", "notes").returncode == 1
    ran = cli_runner.kumi(tmp_path, "remove", "notes/b.txt")
    assert (ran.returncode, "Documents removed: 1" in ran.stdout) == (0, True)


def test_a_link_to_itself_cannot_be_removed(built: Run) -> None:
    Path("loop").symlink_to("loop")
    assert "no source or document 'loop'" in error_of(built("remove", "loop"))


@pytest.mark.parametrize("line", ['{"question": null}', '{"question": ""}', '{"question": ["a"]}', "[" * 100_000])
def test_a_question_that_is_none_is_told_by_its_line(built: Run, line: str) -> None:
    fill(Path(), {"asked.jsonl": f'{{"question": "ferry"}}\n{line}\n'})
    ran = built("retrieve", "--questions", "asked.jsonl", "--out", "found.jsonl")
    assert "asked.jsonl, line 2" in error_of(ran)


@pytest.mark.parametrize("command", [["ask", "ferry \udcff"], ["trace", "\udcff"]])
def test_bytes_that_are_no_utf8_are_no_traceback(built: Run, command: list[str]) -> None:

    assert built(*command)[0] in (0, 2)


# -- Ctrl-C, locks, the environment


def test_stopping_says_how_to_go_on(built: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def stopping(enabled: bool) -> Iterator[Progress]:
        def stop(event: ProgressEvent) -> None:
            raise KeyboardInterrupt

        yield stop

    with Kumihimo.open() as index:
        before = dump(index)
    monkeypatch.setattr(printing, "progress_bar", stopping)
    monkeypatch.setattr(os, "_exit", sys.exit)  # the test process must survive
    fill(Path("notes"), {"gate.md": "The gate is shut."})
    code, out, err = built("index")
    assert (code, out) == (130, "")
    assert err == "kumi: stopped; the index is as it was before. Run the same command again to go on.\n"
    with Kumihimo.open() as index:
        assert dump(index) == before


def test_a_second_builder_is_busy(built: Run) -> None:
    with SqliteStore(Path(".kumi")).write_transaction():
        assert "another build is running on .kumi: wait for it with `--wait`" in error_of(built("index"))
        assert built("ask", "ferry")[0] == 0


def test_settings_from_file_environment_and_line(built: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(*more: str) -> int:
        return len(json_of(built("retrieve", "the", "--json", "-m", "naive", *more))["evidence"])

    assert count() == 4
    fill(Path(), {"kumi.toml": "[naive]\nk = 3\n"})
    assert count() == 3
    monkeypatch.setenv("KUMI_NAIVE_K", "2")
    assert count() == 2
    assert count("--set", "naive.k=1") == 1
    assert count("--set", "naive.k=1", "--k", "3") == 3
    monkeypatch.setenv("KUMI_NAIVE_KK", "2")
    assert "no setting 'KUMI_NAIVE_KK'; did you mean 'KUMI_NAIVE_K'?" in error_of(built("status"))


def test_the_index_folder_from_the_environment(kumi: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUMI_INDEX", "deep/in here")
    assert kumi("index", "notes")[0] == 0
    assert Path("deep/in here/index.db").exists()
    assert kumi("status", "--index", ".kumi")[0] == 2
    assert kumi("ask", "ferry")[0] == 0


def test_an_option_with_one_value_is_given_once(built: Run) -> None:
    for command in (["ask", "ferry"], ["retrieve", "ferry"], ["status"], ["remove", "notes"]):
        refused = built(*command, "--index", ".kumi", "--index", "b.kumi")
        assert refused == (2, "", "kumi: --index takes one value: give it once\n")
    assert "--method takes one value" in error_of(built("ask", "ferry", "-m", "bm25", "--method", "naive"))
    assert built("ask", "ferry", "--json", "--json", "--set", "naive.k=1", "--set", "bm25.k=1")[0] == 0


def test_methods_chosen_and_changed(kumi: Run) -> None:
    kumi("index", "notes", "--methods", "bm25")
    assert kumi("ask", "ferry")[0] == 0  # the method that the index was built for
    assert kumi("ask", "ferry", "-m", "naive")[2].startswith("naive needs chunks: building them\n")
    assert kumi("ask", "ferry", "-m", "local", "--lang", "ja")[2].startswith("local に必要な ")
    assert kumi("index", "--methods", " bm25, naive ")[0] == 0
    assert kumi("ask", "ferry")[0] == 0


def test_removing_by_every_name(built: Run) -> None:
    assert built("remove", "notes/talks.jsonl#ada")[0] == 0
    assert built("remove", "notes/gate.md")[0] == 0
    with Kumihimo.open() as index:
        assert uris(index) == ["notes/ferry.txt", "notes/talks.jsonl#bo"]
    assert "removed" in built("status")[1]
    assert built("remove", Path("notes").resolve())[0] == 0
    with Kumihimo.open() as index:
        assert uris(index) == []


# -- real processes


def test_the_real_command(tmp_path: Path) -> None:
    fill(tmp_path, {"工房/組紐.txt": "組紐は十月に届きます。"})
    assert run_kumi("index", "工房", cwd=tmp_path).returncode == 0
    plain = {**os.environ, "LC_ALL": "C", "NO_COLOR": "1", "COLUMNS": "40"}
    ran = run_kumi("ask", "組紐はいつ届きますか", cwd=tmp_path, env=plain, stdin=subprocess.DEVNULL, encoding="utf-8")
    assert (ran.returncode, ran.stdout) == (
        0,
        "参考になりそうな箇所:\n\n[1] 工房/組紐.txt, 1 行目\n    組紐は十月に届きます。\n",
    )
    assert "\x1b" not in ran.stdout


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:

    fill(tmp_path, {"notes/a.txt": "The ferry leaves."})
    cli_runner.kumi(tmp_path, "index", "notes")
    for command in (["status"], ["methods", "--json"], ["retrieve", "ferry"]):
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen([KUMI, *command], cwd=tmp_path, **pipes) as running:
            assert running.stdout
            assert running.stderr
            running.stdout.close()
            assert (running.wait(60), running.stderr.read()) == (0, b"")


@pytest.mark.parametrize(
    ("command", "closed", "code"),
    [
        ("methods", "<&- >&-", 0),
        ("index notes", "<&-", 0),
        ("index notes", "<&- >&- 2>&-", 0),
        ("status", "2>&-", 2),
        ("ask", ">&- </dev/null", 2),
        ("sparql -", "<&-", 2),
    ],
)
def test_closed_streams(tmp_path: Path, command: str, closed: str, code: int) -> None:
    fill(tmp_path, {"notes/a.txt": "The ferry leaves."})
    shell = f'"{KUMI}" {command} {closed}'
    ran = subprocess.run(["sh", "-c", shell], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, "Traceback" in ran.stdout + ran.stderr) == (code, False)
    assert not (code and ran.stdout), "an error is no output"
    assert (tmp_path / ".kumi" / "index.db").exists() == command.startswith("index")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no ulimit")
def test_a_full_disk(tmp_path: Path) -> None:
    fill(tmp_path, {"notes/a.txt": "The ferry leaves. " * 50})
    assert cli_runner.kumi(tmp_path, "index", "notes").returncode == 0
    fill(tmp_path, {"notes/b.txt": "The gate leaks. " * 5000})
    for size in (1, 20, 100):
        limited = ["sh", "-c", f'ulimit -f {size}; "{KUMI}" index']
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # it would keep compiled code that was cut off
        ran = subprocess.run(
            limited, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
        assert re.search("disk is full|File too large|disk I/O error", ran.stderr)
        assert "move it away" not in ran.stderr
    assert cli_runner.kumi(tmp_path, "ask", "ferry").returncode == 0
    assert cli_runner.kumi(tmp_path, "index").stdout.startswith("Files: 1 new, 1 unchanged.")
