"""`kumi entities`, `kumi tune` -> printed output, written files, refused options."""

from __future__ import annotations

import json
import os
import pty
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from tests.cli.test_paying import kumi, read_terminal
from tests.factories_graph_text import document, entity, mention, put, relation
from tests.fake_server import FakeServer
from tests.forked_kumi import run_on_terminal

TEXTS = ("Ebenezer Scrooge keeps a counting-house.", "Bob Cratchit is Scrooge's clerk; Robert Cratchit has a son.")
ENTITIES = (
    entity("Scrooge", text="A miser.\x1b[2J", mentions=4, forms=("Old Scrooge",)),
    entity("Ebenezer Scrooge", text="A miser who keeps a counting-house.", mentions=2),
    entity("Bob Cratchit", text="A clerk.", mentions=3),
    entity("Robert Cratchit", text="A clerk with a son.", mentions=1),
    entity("Counting-House", "place", text="Where Scrooge works.", mentions=1),
)
LINES = ["Bob Cratchit = Robert Cratchit", "Scrooge = Ebenezer Scrooge"]
CORPUS = {
    "domain": "A novel.",
    "language": "English",
    "persona": "You are a reader.",
    "types": ["person", "ghost", "inn"],
}
RECORDS = "entity<|>Ada<|>person<|>A pilot.\nentity<|>Bo<|>person<|>A cook.\nrelation<|>Ada<|>Bo<|>Friends.<|>trust<|>5"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with an index of one document and its graph."""
    row, chunks = document("carol.txt", *TEXTS)
    names = [("Ebenezer Scrooge", "Scrooge"), ("Bob Cratchit", "Robert Cratchit", "Scrooge")]
    mentions = [
        mention(chunk.id, n, name) for chunk, each in zip(chunks, names, strict=True) for n, name in enumerate(each)
    ]
    ties = [relation("Scrooge", "Bob Cratchit", "Bob Cratchit is Scrooge's clerk.", 3)]
    ties += [relation("Scrooge", "Counting-House", "He works there.")]
    tables: dict[str, Any] = {"documents": [row], "chunks": chunks, "mentions": mentions, "ties": []}
    put(tmp_path / ".kumi", {**tables, "entities": ENTITIES, "relations": ties})
    return tmp_path


@pytest.fixture
def paid(folder: Path, server: FakeServer) -> Path:
    """Return the folder, with a chat model in kumi.toml."""
    (folder / "kumi.toml").write_text(f'[chat]\nmodel = "m"\nbase_url = "{server.url}"\n', "utf-8")
    server.configure(
        replies=[
            ("pieces", "x"),
            ("<item 1>", '{"groups": [[1, 2]]}'),
            ("JSON schema", json.dumps(CORPUS)),
            ("<text>", RECORDS),
        ]
    )
    return folder


def test_entities_are_listed_those_named_most_first(folder: Path) -> None:
    out, _ = kumi(folder, "entities", "--limit", "2")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["entity", "type", "mentions", "forms"]
    assert rows[1:3] == [["Scrooge", "person", "4", "2"], ["Bob", "Cratchit", "person", "3", "1"]]
    assert "3 more: `kumi entities --limit 5` lists all." in out
    result = json.loads(kumi(folder, "entities", "--json")[0])
    assert (result["total"], [e["name"] for e in result["entities"]][:2]) == (5, ["Scrooge", "Bob Cratchit"])


@pytest.mark.parametrize("name", ["scrooge", "Old  Scrooge", "SCROOGE"])
def test_one_is_shown_by_any_of_its_names(folder: Path, name: str) -> None:
    out, _ = kumi(folder, "entities", name)
    assert "Scrooge (person), 4 mentions\nentities:" in out
    assert "Forms: Scrooge; Old Scrooge" in out
    assert r"A miser.\x1b[2J" in out
    assert [line.split()[:2] for line in out.splitlines() if "clerk." in line] == [["Bob", "Cratchit"]]
    assert "carol.txt, line 1" in out
    one = json.loads(kumi(folder, "entities", name, "--json")[0])
    assert [(n["name"], n["weight"]) for n in one["neighbours"]] == [("Bob Cratchit", 3), ("Counting-House", 1)]
    assert [place["uri"] for place in one["places"]] == ["carol.txt"] * 2


def test_a_name_that_is_none_names_the_nearest(folder: Path) -> None:
    _, err = kumi(folder, "entities", "Scroge", code=2)
    assert err == "kumi: no entity 'Scroge'; did you mean 'Scrooge'? `kumi entities` lists them\n"
    _, err = kumi(folder, "entities", "Zanzibar", code=2)
    assert err == "kumi: no entity 'Zanzibar': `kumi entities` lists them\n"


def test_pairs_are_shown_with_their_lines_and_nothing_is_written(folder: Path) -> None:
    out, _ = kumi(folder, "entities", "--similar")
    assert [line.partition("  ")[0] for line in out.splitlines() if " = " in line] == LINES
    assert "initial or short form, meaning 0." in out
    assert not (folder / "aliases.txt").exists()
    result = json.loads(kumi(folder, "entities", "--similar", "--json")[0])
    assert ([pair["line"] for pair in result["pairs"]], result["written"]) == (LINES, [])
    assert "No two entities seem to be the same." in kumi(folder, "entities", "--similar", "--least", "1")[0]


def test_a_line_is_added_and_removed(folder: Path) -> None:
    line, path = "type: Scrooge = miser", folder / "aliases.txt"
    assert "has changed: `kumi index` applies it" in kumi(folder, "edit", f"  {line} ")[0]
    kumi(folder, "edit", line)
    assert path.read_text("utf-8").splitlines()[1:] == [line]
    path.write_text(f"{path.read_text('utf-8')}# mine\ntype: Marley = ghost\n", "utf-8")
    assert "matches nothing" in kumi(folder, "edit")[0]
    assert json.loads(kumi(folder, "edit", "--json")[0])["edits"] == {line: True, "type: Marley = ghost": False}
    kumi(folder, "edit", "--undo", line)
    kumi(folder, "edit", "Scrooge \udcff = Scrooge")
    assert path.read_text("utf-8").splitlines()[1:] == ["# mine", "type: Marley = ghost", "Scrooge � = Scrooge"]


def test_a_line_by_hand_is_removed_however_it_is_spaced(folder: Path) -> None:
    path = folder / "aliases.txt"
    path.write_text("\ufeffScrooge  =\tEbenezer Scrooge\n#  mine\ntype:\u3000Scrooge = miser\u3000\r\n", "utf-8")
    lines = list(json.loads(kumi(folder, "edit", "--json")[0])["edits"])
    assert lines == ["Scrooge = Ebenezer Scrooge", "type: Scrooge = miser"]
    for line in lines:
        kumi(folder, "edit", "--undo", line)
    assert path.read_text("utf-8") == "#  mine\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["type: Scrooge"], "is no edit: write 'type: NAME = TYPE'"),
        (["relation: Scrooge = x"], "is no edit: write 'relation: NAME -> NAME = DESCRIPTION'"),
        (["relation: Scrooge -> SCROOGE = x"], "is no edit: write 'relation: NAME -> NAME = DESCRIPTION'"),
        (["no relation: Scrooge"], "is no edit: write 'no relation: NAME -> NAME'"),
        (["delete: "], "'delete:' is no edit"),
        (["rename: Scrooge -> Ebenezer"], "or begin with `type:`, `delete:`, `relation:` or `no relation:`"),
        (["type: Marley = ghost"], "matches nothing in the index: write names as `kumi entities` shows them"),
        (["relation: Ebenezer Scrooge -> Bob Cratchit = He pays him."], "no passage names both; say which document"),
        (["no relation: Scrooge -> Marley"], "matches nothing in the index"),
        (["Marley = Jacob"], "matches nothing in the index"),
        (["--undo", "delete: Scrooge"], "is not in"),
        (["# Scrooge = Ebenezer Scrooge"], "matches nothing in the index"),
        (["--undo"], "--undo needs a line"),
        (["type: Scrooge = " + "x" * 10_000], "mentions.aliases[0] is a text of 1 to 10,000 characters"),
    ],
)
def test_a_wrong_line_names_the_remedy_and_changes_nothing(folder: Path, arguments: list[str], message: str) -> None:
    assert message in " ".join(kumi(folder, "edit", *arguments, code=2)[1].split())
    assert not (folder / "aliases.txt").exists()


def test_pairs_are_written_and_undone(folder: Path) -> None:
    out, _ = kumi(folder, "entities", "--similar", "--write", "--yes")
    assert "0 lines added to" in out  # Bob may be another Cratchit
    out, _ = kumi(folder, "entities", "--similar", "--write", "--yes", "--least", "0.5")
    assert "2 lines added to" in out
    path = folder / "aliases.txt"
    assert path.read_text("utf-8").splitlines()[1:] == LINES
    assert json.loads(kumi(folder, "entities", "--similar", "--json")[0])["pairs"] == []
    assert json.loads(kumi(folder, "entities", "Robert Cratchit", "--json")[0])["name"] == "Bob Cratchit"
    path.write_text(f"{LINES[0]}\n", "utf-8")
    result = json.loads(kumi(folder, "entities", "--similar", "--json")[0])
    assert [pair["line"] for pair in result["pairs"]] == LINES[1:]


def test_only_names_that_are_joined_otherwise_are_written_without_a_question(tmp_path: Path) -> None:
    text = "It is the office of the harbour, and it answers."
    names = (
        "Harbour Desk",
        "HarbourDesk",
        "Michael Quill",
        "Michaël Quill",
        "Minutes 2022-06-01",
        "Minutes 2022-01-06",
    )
    row, chunks = document("a.txt", text)
    rows = [entity(name, text=text, mentions=9 - n) for n, name in enumerate(names)]
    put(tmp_path / ".kumi", {"documents": [row], "chunks": chunks, "ties": [], "entities": rows, "relations": []})
    shown = json.loads(kumi(tmp_path, "entities", "--similar", "--json")[0])["pairs"]
    assert [pair["line"] for pair in shown] == ["Harbour Desk = HarbourDesk", "Michael Quill = Michaël Quill"]
    written = json.loads(kumi(tmp_path, "entities", "--similar", "--write", "--yes", "--json")[0])["written"]
    assert written == ["Harbour Desk = HarbourDesk"]


def test_the_list_has_named_things_and_counts_the_other_terms(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# Tide table\n\nThe pier of Otaru Bay was mended by Mr Kerrow. Weld the seam, and see `HarbourBlock`.\n\n"
        "```\nRun Lanternfish --all\n```\n\n| Plant | Place |\n|---|---|\n| Madder | shed |\n",
        encoding="utf-8",
    )
    kumi(tmp_path, "index", "a.md", "--methods", "local")
    result = json.loads(kumi(tmp_path, "entities", "--json")[0])
    assert [each["name"] for each in result["entities"]] == ["Mr Kerrow", "Otaru Bay"]
    assert result["other"] > 0
    assert f"Left out: {result['other']} that may be no names." in kumi(tmp_path, "entities")[0]


def test_a_pair_that_is_kept_apart_is_not_shown(folder: Path) -> None:
    (folder / "aliases.txt").write_text("Robert Cratchit != Bob Cratchit\n", encoding="utf-8")
    lines = [pair["line"] for pair in json.loads(kumi(folder, "entities", "--similar", "--json")[0])["pairs"]]
    assert LINES[0] not in lines
    assert LINES[1] in lines


def test_a_terminal_asks_about_each_pair(folder: Path) -> None:
    master, slave = pty.openpty()
    running = run_on_terminal(["entities", "--similar", "--write"], folder, slave, os.environ)
    os.close(slave)
    screen = read_terminal(master, "[y/N/q]")
    os.write(master, b"n\n")
    screen += read_terminal(master, "[y/N/q]")
    os.write(master, b"y\n")
    screen += read_terminal(master, "")
    running.wait()
    os.close(master)
    assert "Robert Cratchit (person, 1): A clerk with a son." in screen
    assert (folder / "aliases.txt").read_text("utf-8").splitlines()[1:] == LINES[1:]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--write",), "apply to pairs: add --similar"),
        (("--least", "0.8"), "apply to pairs: add --similar"),
        (("--similar", "--yes"), "--yes needs --write: add it"),
        (("--similar", "--write"), "--write asks about each pair in a terminal: elsewhere add --yes"),
        (("Scrooge", "--similar"), "--similar compares all entities: leave the name and --merged out"),
        (("--similar", "--ask"), "entities needs a chat model: set `model"),
    ],
)
def test_what_cannot_be_meant_is_refused(folder: Path, words: tuple[str, ...], message: str) -> None:
    assert message in kumi(folder, "entities", *words, code=2)[1]


def test_merged_forms_are_listed_with_rule_and_documents_and_undone(tmp_path: Path) -> None:
    notes = {"a.txt": "We met Martha Kerrow. Later Kerrow left.", "b.txt": "We met Martha Kerrow, and Kerrow left."}
    for name, text in notes.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with Kumihimo.open(tmp_path / ".kumi") as index:
        index.index(*map(tmp_path.joinpath, notes), methods=["local"])
    listed = json.loads(kumi(tmp_path, "entities", "--merged", "--json")[0])
    row = {"name": "Martha Kerrow", "form": "Kerrow", "rule": "surname", "documents": ["a.txt", "b.txt"]}
    assert listed == {"merged": [row], "total": 1}
    printed = kumi(tmp_path, "entities", "Martha Kerrow", "--merged")[0]
    assert "Martha Kerrow  Kerrow       surname  a.txt + 1" in printed
    assert max(map(len, printed.splitlines())) <= 80
    (tmp_path / "aliases.txt").write_text(printed.splitlines()[-1], encoding="utf-8")
    kumi(tmp_path, "index")
    assert json.loads(kumi(tmp_path, "entities", "--merged", "--json")[0]) == {"merged": [], "total": 0}


def test_an_index_without_a_graph_says_so(tmp_path: Path, server: FakeServer) -> None:
    row, chunks = document("a.txt", "Nothing.")
    put(tmp_path / ".kumi", {"documents": [row], "chunks": chunks})
    (tmp_path / "kumi.toml").write_text(f'[embedding]\nmodel = "e"\nbase_url = "{server.url}"\n', encoding="utf-8")
    assert "the index has no table entities yet" in kumi(tmp_path, "entities", code=2)[1]


def test_a_model_is_asked_only_with_a_flag_and_within_caps(paid: Path, server: FakeServer) -> None:
    kumi(paid, "entities", "--similar")
    assert server.counts()["requests"] == 0
    out, _ = kumi(paid, "entities", "--similar", "--ask", "--max-calls", "1", code=1)
    assert (out.count("the model says: same"), out.count("the model says: capped")) == (1, 1)
    result = json.loads(kumi(paid, "entities", "--similar", "--ask", "--write", "--yes", "--least", ".5", "--json")[0])
    assert [pair["verdict"] for pair in result["pairs"]] == ["same", "same"]
    assert result["written"] == LINES
    assert server.counts()["requests"] == 2


def test_pairs_that_a_model_takes_apart_are_not_written(paid: Path, server: FakeServer) -> None:
    server.configure(replies=[("A clerk with", '{"groups": []}'), ("<item 1>", '{"groups": [[2, 1]]}')])
    kumi(paid, "entities", "--similar", "--ask", "--write", "--yes")
    assert (paid / "aliases.txt").read_text("utf-8").splitlines()[1:] == LINES[1:]


def test_settings_are_printed_and_with_a_flag_written(paid: Path, server: FakeServer) -> None:
    before = (paid / "kumi.toml").read_text("utf-8")
    out, _ = kumi(paid, "tune", "--examples", "1")
    printed = tomllib.loads(out)
    assert printed["mentions"]["types"] == CORPUS["types"]
    assert printed["mentions"]["examples"].endswith(f"{RECORDS}\nEND")
    assert printed["reports"] == {"persona": CORPUS["persona"], "language": "English"}
    assert (paid / "kumi.toml").read_text("utf-8") == before
    out, _ = kumi(paid, "tune", "--examples", "1", "--write")
    after = (paid / "kumi.toml").read_text("utf-8")
    assert out.startswith("[mentions] and [reports] written to ")
    assert after.startswith(before)
    assert tomllib.loads(after) == {**tomllib.loads(before), **printed}
    assert server.counts()["requests"] == 2
    with Kumihimo.open(paid / ".kumi") as index:
        assert index.settings["mentions"]["domain"] == CORPUS["domain"]


def test_settings_of_the_owner_stay(paid: Path) -> None:
    path = paid / "kumi.toml"
    path.write_text(path.read_text("utf-8") + '[mentions]\ndomain = "Mine."\n', "utf-8")
    out, err = kumi(paid, "tune", "--examples", "0", "--write")
    assert "already sets some of [mentions] and was not changed" in err
    assert out.startswith("[mentions]\ndomain = ")
    settings = tomllib.loads(path.read_text("utf-8"))
    assert (settings["mentions"], set(settings["reports"])) == ({"domain": "Mine."}, {"persona", "language"})
    assert json.loads(kumi(paid, "tune", "--examples", "0", "--write", "--json")[0])["written"] == []


def test_examples_that_are_missing_are_told(paid: Path, server: FakeServer) -> None:
    out, err = kumi(paid, "tune", "--max-calls", "1", code=1)
    assert "examples" not in tomllib.loads(out)["mentions"]
    assert "an example is missing: capped: not asked, since --max-calls 1 was reached" in err


def test_without_a_model_the_setting_is_named(folder: Path) -> None:
    assert "mentions needs a chat model: set `model" in kumi(folder, "tune", code=2)[1]
