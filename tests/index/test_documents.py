"""files that are new, changed, removed, broken or moved -> the documents of the index."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from unicodedata import normalize

import pytest

from kumihimo import KumiError, Kumihimo
from kumihimo.core.errors import SourceError
from kumihimo.core.task import ProgressEvent
from kumihimo.index.sources import IndexedSource, add_source_paths
from tests.counters import count_lines
from tests.fixtures_index import ROOT_READS_ALL, failed, fill, texts, uris


@pytest.fixture
def kumi(tmp_path: Path) -> Iterator[Kumihimo]:
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        yield kumi


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return fill(
        tmp_path / "notes", {"a.txt": "The ferry leaves.", "b.md": "The gate leaks.", "sub/c.txt": "Oats grow."}
    )


def rows(*ids: str) -> str:
    return "\n".join(json.dumps({"id": id, "text": f"What {id} said."}) for id in ids)


def test_files_become_documents(kumi: Kumihimo, notes: Path) -> None:
    built = kumi.index(notes)
    assert (built.read, built.unchanged, built.removed, built.failed) == (3, 0, 0, ())
    assert texts(kumi) == {
        "notes/a.txt": "The ferry leaves.", "notes/b.md": "The gate leaks.", "notes/sub/c.txt": "Oats grow.",
    }  # fmt: skip


def test_only_what_changed_is_read(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    fill(notes, {"a.txt": "The ferry came back.", "new.txt": "A newcomer."})
    (notes / "b.md").unlink()
    built = kumi.index()
    assert (built.read, built.unchanged, built.removed) == (2, 1, 1)
    assert texts(kumi) == {
        "notes/a.txt": "The ferry came back.", "notes/new.txt": "A newcomer.", "notes/sub/c.txt": "Oats grow.",
    }  # fmt: skip


def test_what_made_a_row_goes_and_the_row_goes(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    with kumi.snapshot() as reading:
        before = {chunk.id: chunk.text for chunk in reading.table("chunks")}
    (notes / "a.txt").unlink()
    kumi.index()
    with kumi.snapshot() as reading:
        after = {chunk.id: chunk.text for chunk in reading.table("chunks")}
    assert sorted(set(before.values()) - set(after.values())) == ["The ferry leaves."]
    assert after.items() < before.items()


def test_a_file_that_becomes_empty_has_no_document(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    fill(notes, {"a.txt": " \n"})
    assert kumi.index().read == 1
    assert uris(kumi) == ["notes/b.md", "notes/sub/c.txt"]
    assert kumi.index().unchanged == 3
    fill(notes, {"a.txt": "Back again."})
    kumi.index()
    assert texts(kumi)["notes/a.txt"] == "Back again."


def test_an_empty_folder_is_no_mistake(kumi: Kumihimo, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert not any(kumi.index(tmp_path / "empty").rows.values())
    assert len(kumi.retrieve("anything")) == 0
    fill(tmp_path / "empty", {"first.txt": "Here I am."})
    assert kumi.index().rows.items() >= {"documents": 1, "chunks": 1}.items()


def test_three_hundred_small_files(kumi: Kumihimo, tmp_path: Path) -> None:
    many = fill(tmp_path / "many", {f"{n % 7}/{n:03}.txt": f"Lamp number {n} is lit." for n in range(300)})
    assert kumi.index(many).rows.items() >= {"documents": 300, "chunks": 300}.items()
    assert kumi.ask("Is lamp number 217 lit?").citations[0].span.uri == "many/0/217.txt"
    assert kumi.index().unchanged == 300


def test_the_same_text_in_two_files_is_two_documents(kumi: Kumihimo, tmp_path: Path) -> None:
    kumi.index(fill(tmp_path / "notes", {"a.txt": "Twice told.", "b.txt": "Twice told."}))
    assert uris(kumi) == ["notes/a.txt", "notes/b.txt"]
    (tmp_path / "notes" / "a.txt").unlink()
    kumi.index()
    assert [e.text for e in kumi.retrieve("Twice told")] == ["Twice told."]


def test_size_and_time_tell_a_change_and_check_looks_closer(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    path, stat = notes / "a.txt", (notes / "a.txt").stat()
    path.write_text("The ferry sleeps.", encoding="utf-8")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert kumi.index().read == 0
    assert kumi.index(reread=True).read == 3
    assert texts(kumi)["notes/a.txt"] == "The ferry sleeps."


def test_files_of_no_known_kind_are_told(kumi: Kumihimo, notes: Path) -> None:
    fill(notes, {"photo.jpg": "not a photo"})
    assert kumi.index(notes).skipped == ("notes/photo.jpg",)
    assert "notes/photo.jpg" not in uris(kumi)


# -- sources


def test_a_path_refreshes_its_source_only(kumi: Kumihimo, notes: Path, tmp_path: Path) -> None:
    other = fill(tmp_path / "other", {"x.txt": "Old words."})
    kumi.index(notes, other)
    fill(notes, {"a.txt": "New ferry."})
    fill(other, {"x.txt": "New words."})
    kumi.index(notes)
    assert (texts(kumi)["notes/a.txt"], texts(kumi)["other/x.txt"]) == ("New ferry.", "Old words.")
    kumi.index()
    assert texts(kumi)["other/x.txt"] == "New words."


def test_a_path_within_a_source_belongs_to_it(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    kumi.index(notes / "sub" / "c.txt")
    kumi.index(notes / "sub")
    assert list(kumi.status().sources) == ["notes"]
    assert len(uris(kumi)) == 3


def test_two_folders_of_one_name(kumi: Kumihimo, notes: Path, tmp_path: Path) -> None:
    twin = fill(tmp_path / "elsewhere" / "notes", {"a.txt": "Another ferry."})
    kumi.index(notes, twin)
    assert kumi.status().sources == {"notes": str(notes), "notes-2": str(twin)}
    assert texts(kumi)["notes-2/a.txt"] == "Another ferry."
    kumi.remove(twin)
    assert (list(kumi.status().sources), len(uris(kumi))) == (["notes"], 3)


def test_a_file_may_be_a_source(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes / "a.txt")
    assert texts(kumi) == {"a.txt": "The ferry leaves."}
    kumi.remove("a.txt")
    assert (uris(kumi), dict(kumi.status().sources)) == ([], {})


def test_names_are_given_once() -> None:
    sources: dict[str, IndexedSource] = {}
    paths = ["/x/notes", "/y/notes", "/z/notes-2", "/x/notes/sub", normalize("NFD", "/x/ガ"), "/"]
    names = [add_source_paths(sources, [Path(p)]) for p in paths]
    assert names == [{"notes"}, {"notes-2"}, {"notes-2-2"}, {"notes"}, {"ガ"}, {"root"}]
    assert list(sources) == ["root"]  # it contains all of them


def test_a_folder_that_disappeared_keeps_what_it_held(kumi: Kumihimo, notes: Path, tmp_path: Path) -> None:
    kumi.index(notes, fill(tmp_path / "other", {"x.txt": "Still here."}))
    notes.rename(tmp_path / "away")
    built = kumi.index()
    assert [(step, maker) for step, maker, _ in built.failed] == [("documents", "notes")]
    assert "`kumi remove notes`" in built.failed[0][2]
    assert len(uris(kumi)) == 4
    (tmp_path / "away").rename(notes)
    assert kumi.index().failed == ()


def test_a_path_that_is_not_there_changes_nothing(kumi: Kumihimo, notes: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="check the path"):
        kumi.index(notes, tmp_path / "gone")
    assert not (tmp_path / ".kumi").exists()


def test_sources_whose_names_begin_alike_are_kept_apart(kumi: Kumihimo, tmp_path: Path) -> None:
    fill(tmp_path, {"notes/a.txt": "One.", "notes#1/b.txt": "Two."})
    kumi.index(tmp_path / "notes", tmp_path / "notes#1")
    kumi.remove("notes#1/b.txt")
    assert uris(kumi) == ["notes/a.txt"]


def test_a_row_and_a_file_of_one_uri_are_both_kept(kumi: Kumihimo, tmp_path: Path) -> None:
    kumi.index(fill(tmp_path / "odd", {"r.jsonl": '{"id": "1.txt", "text": "Row."}', "r.jsonl#1.txt": "File."}))
    assert sorted(texts(kumi).values()) == ["File.", "Row."]


def test_a_name_that_is_no_utf8(kumi: Kumihimo, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    path.write_text("Coffee.", encoding="utf-8")
    kumi.index(path)
    assert list(texts(kumi).values()) == ["Coffee."]


# -- unreadable files


@pytest.mark.parametrize("broken", ['{"a":', "[" * 5000, "\x00\x01\x02" * 50])
def test_a_broken_file_keeps_what_it_held(kumi: Kumihimo, tmp_path: Path, broken: str) -> None:
    notes = fill(tmp_path / "notes", {"a.json": '{"text": "Whole."}', "b.txt": "Beside it."})
    kumi.index(notes)
    fill(notes, {"a.json": broken, "b.txt": "Changed beside it."})
    built = kumi.index()
    assert [maker for _, maker, _ in built.failed] == ["notes/a.json"]
    assert "\n" not in built.failed[0][2]
    assert texts(kumi) == {"notes/a.json": "Whole.", "notes/b.txt": "Changed beside it."}
    assert failed(kumi) == ["notes/a.json"]
    fill(notes, {"a.json": '{"text": "Mended."}'})
    assert kumi.index().failed == ()
    assert (failed(kumi), texts(kumi)["notes/a.json"]) == ([], "Mended.")


def test_a_broken_file_mended_as_it_was_is_taken_off_the_list(kumi: Kumihimo, tmp_path: Path) -> None:
    notes = fill(tmp_path / "notes", {"a.json": '{"text": "Whole."}'})
    kumi.index(notes)
    stat = (notes / "a.json").stat()
    fill(notes, {"a.json": "{"})
    kumi.index()
    fill(notes, {"a.json": '{"text": "Whole."}'})
    os.utime(notes / "a.json", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    kumi.index()
    assert failed(kumi) == []


def test_a_broken_file_that_is_deleted_is_taken_off_the_list(kumi: Kumihimo, tmp_path: Path) -> None:
    kumi.index(fill(tmp_path / "notes", {"a.json": "{", "b.txt": "Beside it."}))
    (tmp_path / "notes" / "a.json").unlink()
    assert kumi.index().failed == ()
    kumi.index(fill(tmp_path / "more", {"c.json": "{"}))
    kumi.remove("more")
    assert (failed(kumi), uris(kumi)) == ([], ["notes/b.txt"])


def test_what_is_broken_in_one_source_stays_listed_while_another_is_refreshed(kumi: Kumihimo, tmp_path: Path) -> None:
    kumi.index(fill(tmp_path / "notes", {"a.json": "{"}))
    built = kumi.index(fill(tmp_path / "other", {"x.txt": "Fine."}))
    assert [maker for _, maker, _ in built.failed] == ["notes/a.json"]


def test_a_file_that_goes_while_it_is_read_spoils_nothing(kumi: Kumihimo, notes: Path) -> None:
    def delete(event: ProgressEvent) -> None:
        (notes / "b.md").unlink(missing_ok=True)

    built = kumi.index(notes, progress=delete)
    assert [maker for _, maker, _ in built.failed] == ["notes/b.md"]
    assert uris(kumi) == ["notes/a.txt", "notes/sub/c.txt"]
    assert kumi.index().failed == ()


@pytest.mark.skipif(ROOT_READS_ALL, reason="root may read everything")
def test_a_file_that_may_not_be_read_keeps_what_it_held(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    fill(notes, {"a.txt": "Now it is a secret."})
    (notes / "a.txt").chmod(0)
    assert [maker for _, maker, _ in kumi.index().failed] == ["notes/a.txt"]
    assert texts(kumi)["notes/a.txt"] == "The ferry leaves."
    (notes / "a.txt").chmod(0o600)
    assert kumi.index().failed == ()
    assert texts(kumi)["notes/a.txt"] == "Now it is a secret."


@pytest.mark.skipif(ROOT_READS_ALL, reason="root may read everything")
def test_a_folder_that_may_not_be_entered(kumi: Kumihimo, tmp_path: Path) -> None:

    closed = fill(tmp_path / "closed", {"notes/a.txt": "Kept."})
    kumi.index(closed / "notes", fill(tmp_path / "other", {"x.txt": "Old."}))
    fill(tmp_path / "other", {"x.txt": "New."})
    closed.chmod(0)
    built = kumi.index()
    closed.chmod(0o700)
    assert [maker for _, maker, _ in built.failed] == ["notes"]
    assert texts(kumi) == {"notes/a.txt": "Kept.", "other/x.txt": "New."}


# -- removal


@pytest.mark.parametrize("target", ["notes", "{tmp}/notes", "{tmp}/notes/", "{tmp}/other/../notes"])
def test_a_source_is_taken_out(kumi: Kumihimo, notes: Path, tmp_path: Path, target: str) -> None:
    kumi.index(notes, fill(tmp_path / "other", {"x.txt": "Stays."}))
    kumi.remove(target.format(tmp=tmp_path))
    assert uris(kumi) == ["other/x.txt"]
    assert (kumi.index().read, uris(kumi)) == (0, ["other/x.txt"])
    assert kumi.index(notes).rows["documents"] == 4


@pytest.mark.parametrize("target", ["notes/sub", "notes/sub/", "notes/sub/c.txt", "{tmp}/notes/sub"])
def test_a_part_of_a_source_is_taken_out(kumi: Kumihimo, notes: Path, tmp_path: Path, target: str) -> None:
    kumi.index(notes)
    assert kumi.remove(target.format(tmp=tmp_path)).removed == 1
    assert uris(kumi) == ["notes/a.txt", "notes/b.md"]
    fill(notes, {"sub/c.txt": "Oats grow again."})
    kumi.index()
    assert uris(kumi) == ["notes/a.txt", "notes/b.md"]
    kumi.index(notes / "sub" / "c.txt")
    assert texts(kumi)["notes/sub/c.txt"] == "Oats grow again."


def test_all_comes_back_when_its_source_is_named(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    kumi.remove("notes/a.txt")
    kumi.remove("notes/sub")
    assert kumi.status().removed == ("notes/a.txt", "notes/sub")
    kumi.index(notes)
    assert len(uris(kumi)) == 3
    assert kumi.status().removed == ()


def test_one_file_named_does_not_bring_its_neighbours_back(kumi: Kumihimo, notes: Path) -> None:
    fill(notes, {"sub/secret.txt": "Hush."})
    kumi.index(notes)
    kumi.remove("notes/sub")
    kumi.index(notes / "sub" / "c.txt")
    assert "notes/sub/secret.txt" not in uris(kumi)
    assert "notes/sub/c.txt" in uris(kumi)


def test_a_row_is_taken_out(kumi: Kumihimo, tmp_path: Path) -> None:
    talks = fill(tmp_path / "talks", {"t.jsonl": rows("ada", "bo", "cy"), "u.jsonl": rows("ada")})
    kumi.index(talks)
    kumi.remove("talks/t.jsonl#bo")
    remaining = ["talks/t.jsonl#ada", "talks/t.jsonl#cy", "talks/u.jsonl#ada"]
    assert uris(kumi) == remaining
    fill(talks, {"t.jsonl": rows("ada", "bo", "cy", "dee")})
    kumi.index()
    assert uris(kumi) == sorted([*remaining, "talks/t.jsonl#dee"])
    kumi.index(talks / "t.jsonl")
    assert "talks/t.jsonl#bo" in uris(kumi)


def test_a_file_of_rows_is_taken_out_whole(kumi: Kumihimo, tmp_path: Path) -> None:
    kumi.index(fill(tmp_path / "talks", {"t.jsonl": rows("ada", "bo"), "u.jsonl": rows("cy")}))
    kumi.remove("talks/t.jsonl")
    assert uris(kumi) == ["talks/u.jsonl#cy"]


@pytest.mark.parametrize("target", ["notes/bad.json", "{tmp}/notes/bad.json"])
def test_a_file_that_could_never_be_read_is_taken_out(kumi: Kumihimo, notes: Path, tmp_path: Path, target: str) -> None:
    fill(notes, {"bad.json": "{"})
    kumi.index(notes)
    assert failed(kumi) == ["notes/bad.json"]
    assert kumi.remove(target.format(tmp=tmp_path)).failed == ()
    assert (kumi.index().failed, failed(kumi), len(uris(kumi))) == ((), [], 3)


def test_what_is_not_there_cannot_be_taken_out(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    for target in ("note", "notes/a", "notes/a.txt#1", "notes/photo.jpg"):
        with pytest.raises(SourceError, match="no source or document"):
            kumi.remove(target)
    with pytest.raises(SourceError, match=r"did you mean 'notes/a\.txt'"):
        kumi.remove("notes/a.tx")
    assert len(uris(kumi)) == 3


def test_taken_out_while_the_file_is_broken(kumi: Kumihimo, tmp_path: Path) -> None:
    talks = fill(tmp_path / "talks", {"t.jsonl": rows("ada", "bo")})
    kumi.index(talks)
    fill(talks, {"t.jsonl": "{"})
    kumi.remove("talks/t.jsonl#ada")
    assert uris(kumi) == ["talks/t.jsonl#bo"]


def test_taken_out_while_the_folder_is_away(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    shutil.rmtree(notes)
    kumi.remove("notes/a.txt")
    assert uris(kumi) == ["notes/b.md", "notes/sub/c.txt"]


def test_what_is_taken_out_is_counted_as_gone(kumi: Kumihimo, notes: Path) -> None:
    kumi.index(notes)
    assert kumi.remove("notes").removed == 3


def test_a_decomposed_name_is_taken_out_by_its_path_and_comes_back(kumi: Kumihimo, tmp_path: Path) -> None:
    path = tmp_path / "notes" / normalize("NFD", "ガ.txt")
    kumi.index(fill(tmp_path / "notes", {path.name: "A garage."}))
    kumi.remove(path)
    assert uris(kumi) == []
    kumi.index(path)
    assert uris(kumi) == [normalize("NFC", "notes/ガ.txt")]


def test_nothing_is_no_path(kumi: Kumihimo, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kumi.index(notes)
    monkeypatch.chdir(notes)
    with pytest.raises(KumiError):
        kumi.remove("")
    with pytest.raises(KumiError):
        kumi.index("")
    assert len(uris(kumi)) == 3


# -- regressions


def test_a_document_taken_out_while_its_folder_is_away_comes_back(kumi: Kumihimo, notes: Path, tmp_path: Path) -> None:
    kumi.index(notes)
    notes.rename(tmp_path / "away")
    kumi.remove("notes/a.txt")
    (tmp_path / "away").rename(notes)
    kumi.index(notes / "a.txt")
    assert uris(kumi) == ["notes/a.txt", "notes/b.md", "notes/sub/c.txt"]


def test_a_row_is_no_folder(kumi: Kumihimo, tmp_path: Path) -> None:
    talks = fill(tmp_path / "talks", {"t.jsonl": rows("a", "a/b", "a#c")})
    kumi.index(talks)
    kumi.remove("talks/t.jsonl#a")
    assert uris(kumi) == ["talks/t.jsonl#a#c", "talks/t.jsonl#a/b"]


def test_documents_of_another_shape_are_all_read_again(kumi: Kumihimo, notes: Path, tmp_path: Path) -> None:
    kumi.index(notes, fill(tmp_path / "other", {"x.txt": "Here, too."}))
    before = texts(kumi)
    with kumi.store.write_transaction() as db:
        db.run("UPDATE steps SET shape = shape || ' of another version' WHERE step = 'documents'")
    kumi.index(notes)
    assert texts(kumi) == before
    assert kumi.status().rows.items() >= {"documents": 4, "chunks": 4}.items()


def test_documents_of_another_shape_lose_none_whose_source_is_away(kumi: Kumihimo, notes: Path, tmp_path: Path) -> None:
    kumi.index(notes, fill(tmp_path / "other", {"x.txt": "Here, too."}))
    before = texts(kumi)
    with kumi.store.write_transaction() as db:
        db.run("UPDATE steps SET shape = shape || ' of another version' WHERE step = 'documents'")
    notes.rename(tmp_path / "away")
    with pytest.raises(KumiError, match="put it back"):
        kumi.index()
    assert texts(kumi) == before
    (tmp_path / "away").rename(notes)
    kumi.index()
    assert texts(kumi) == before


def test_the_work_for_many_sources_grows_with_their_number(tmp_path: Path) -> None:
    def count(size: int) -> tuple[int, int]:
        """Return the lines run to add the sources, and to index them."""
        files = [tmp_path / f"{size}-{n}.txt" for n in range(size)]
        for file in files:
            file.write_text("One line.", encoding="utf-8")
        with Kumihimo.open(tmp_path / f".kumi-{size}") as kumi:
            lines = count_lines(lambda: add_source_paths({}, files)), count_lines(lambda: kumi.index(*files))
            assert len(uris(kumi)) == size
        return lines

    few, many = count(100), count(400)
    assert many[0] < 5 * few[0]
    assert many[1] < 5 * few[1]


def test_an_unchanged_file_is_looked_up_once(kumi: Kumihimo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = fill(tmp_path / "notes", {f"{number}.txt": "The ferry leaves." for number in range(20)})
    kumi.index(notes)
    looked_up: list[str] = []
    for name in ("stat", "lstat"):
        look_up = getattr(os, name)

        def count(path: object, look_up: object = look_up, **options: object) -> object:
            looked_up.append(str(path))
            return look_up(path, **options)  # type: ignore[operator]

        monkeypatch.setattr(os, name, count)
    assert not kumi.index(notes).written
    files = sorted(map(str, notes.glob("*.txt")))
    assert sorted(path for path in looked_up if Path(path).parent == notes and path.endswith(".txt")) == files
