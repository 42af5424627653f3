"""files with their addresses -> a folder that is read like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers.remote.mirror import (
    MIRRORS_FOLDER,
    Mirror,
    MirroredFile,
    find_mirrored_uri,
    remove_unused_mirrors,
)

ORIGIN = "https://example.org/"


def file(path: str) -> MirroredFile:
    return MirroredFile(f"{ORIGIN}{path}", f"{ORIGIN}{path}", ORIGIN)


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror(tmp_path / MIRRORS_FOLDER / "example.org", {ORIGIN: 0})


def test_names_differ_where_file_systems_see_no_difference(mirror: Mirror) -> None:
    names = [mirror.store(file(path), b"x", [".html"]) for path in ("Tide", "tide", "tide.html", "a?b=1", "a?b_1")]
    assert names == ["Tide.html", "tide~2.html", "tide~3.html", "a_b=1.html", "a_b_1.html"]
    assert mirror.store(file("tide"), b"y", [".html"]) == "tide~2.html"
    assert mirror.store(file("tide"), b"%PDF", [".pdf"]) == "tide.pdf"  # of another type now
    assert not (mirror.folder / "tide~2.html").exists()


def test_a_change_is_seen_though_its_time_is_the_same(mirror: Mirror) -> None:
    stats = []
    for content in (b"one", b"one", b"two"):
        path = mirror.folder / mirror.store(file("a"), content, [".txt"], modified=1_000_000.0)
        stats.append(path.stat().st_mtime_ns)
    assert stats[0] == stats[1] == 1_000_000 * 10**9 != stats[2]


def test_what_is_in_the_way_is_named(mirror: Mirror) -> None:
    mirror.store(file("a.html"), b"x", [".html"])
    with pytest.raises(SourceError, match="cannot be written"):
        mirror.store(file("a.html/b"), b"x", [".html"])


def test_it_is_as_it_was_saved(mirror: Mirror) -> None:
    mirror.store(file("a"), b"x", [".txt"])
    mirror.failed["a.txt"] = "later"
    mirror.save()
    assert Mirror.load(mirror.folder) == mirror
    (mirror.folder / "rest.txt").write_bytes(b"of a fetch that was killed")
    mirror.delete_unlisted()
    assert sorted(path.name for path in mirror.folder.iterdir()) == [".mirror.json", "a.txt"]
    (mirror.folder / ".mirror.json").write_text("[")
    assert Mirror.load(mirror.folder) == Mirror(mirror.folder)


def test_only_folders_of_the_index_are_mirrors(mirror: Mirror, tmp_path: Path) -> None:
    mirror.store(file("a"), b"x", [".txt"])
    mirror.save()
    other = mirror.folder.rename(tmp_path / "notes")
    assert Mirror.load(other) == Mirror(other)


def test_a_page_is_found_by_its_address(mirror: Mirror) -> None:
    mirror.store(file("a"), b"x", [".csv"])
    mirror.save()
    sources = {"example.org": mirror.folder}
    assert find_mirrored_uri(sources, f"{ORIGIN}a") == "example.org/a.csv"
    assert find_mirrored_uri(sources, "notes") == "notes"
    with pytest.raises(SourceError, match=r"remove the whole file, example\.org/a\.csv"):
        find_mirrored_uri(sources, "example.org/a.csv#7")


@pytest.mark.parametrize(
    "name", ["../mine.html", "{tmp}/mine.html", "a/../../mine.html", "a\\..\\mine.html", "a\0.html"]
)
def test_a_list_names_no_file_elsewhere(mirror: Mirror, tmp_path: Path, name: str) -> None:
    mirror.files[name.format(tmp=tmp_path)] = file("a")
    mirror.save()
    assert Mirror.load(mirror.folder) == Mirror(mirror.folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("origins", [1]), ("origins", {"https://a.example/": "x"}), ("files", []), ("files", {"a.html": {"asked": 1}}),
        ("failed", [1]), ("skipped", 5),
    ],
)  # fmt: skip
def test_a_list_of_another_form_is_none(mirror: Mirror, field: str, value: object) -> None:
    mirror.store(file("a"), b"x", [".txt"])
    mirror.save()
    path = mirror.folder / ".mirror.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    assert Mirror.load(mirror.folder) == Mirror(mirror.folder)


@pytest.mark.parametrize("place", ["", "example.org", "example.org/a"])
def test_nothing_is_written_or_deleted_through_a_link(mirror: Mirror, tmp_path: Path, place: str) -> None:
    mirror.store(file("a/b"), b"x", [".txt"])
    mirror.save()
    mine = (tmp_path / MIRRORS_FOLDER / place).rename(tmp_path / "mine")
    before = {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()}
    (tmp_path / MIRRORS_FOLDER / place).symlink_to(mine, target_is_directory=True)
    with pytest.raises(SourceError, match="remove the link"):
        Mirror.load(mirror.folder).store(file("a/b"), b"y", [".txt"])
    with pytest.raises(SourceError, match="remove the link"):
        Mirror.load(mirror.folder).remove("a/b.txt")
    if place != "example.org/a":
        with pytest.raises(SourceError, match="remove the link"):
            remove_unused_mirrors(tmp_path, [])
    assert {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()} == before


def test_a_file_that_is_a_link_is_replaced(mirror: Mirror, tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_bytes(b"mine")
    mirror.folder.mkdir(parents=True)
    (mirror.folder / ".next").symlink_to(mine)
    mirror.store(file("a"), b"x", [".txt"])
    assert (mine.read_bytes(), (mirror.folder / "a.txt").read_bytes()) == (b"mine", b"x")
