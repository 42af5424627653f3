"""changes on disk -> builds, one after the other, within one budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import count, islice
from pathlib import Path
from threading import Event, Thread

import pytest

from kumihimo import Caps, Kumihimo
from kumihimo.app.opened.results import Built
from kumihimo.app.upkeep.watch import Changes, is_watched, watch_files, watch_sources
from kumihimo.core.errors import KumiError, SettingsError
from tests.fake_graph_reader import Readers
from tests.stores import NEEDS_FILES


@pytest.fixture
def kumi(tmp_path: Path) -> Iterator[Kumihimo]:
    with Kumihimo(tmp_path / "notes" / "index.kumi") as kumi:
        yield kumi


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("The ferry leaves at nine.", "utf-8")
    return folder


def after(*steps: Callable[[], object]) -> Changes:
    """Return a source of changes: each step happens, then it tells of it."""

    def changes(paths: Sequence[Path], index: Path) -> Iterator[object]:
        for step in steps:
            step()
            yield paths, index

    return changes


def test_each_change_is_built(kumi: Kumihimo, notes: Path) -> None:
    changes = after(
        lambda: (notes / "b.md").write_text("The office opens at eight.", "utf-8"),
        lambda: (notes / "a.md").unlink(),
        lambda: None,
    )
    results = list(watch_sources(kumi.opened, [notes], ["bm25"], changes=changes))
    assert [isinstance(r, Built) and (r.new, r.removed, r.rows["documents"]) for r in results] == [
        (1, 0, 1),
        (1, 0, 2),
        (0, 1, 1),
        (0, 0, 1),
    ]


@NEEDS_FILES
def test_it_goes_on_after_an_error(kumi: Kumihimo, notes: Path) -> None:
    away = notes.parent / "away"
    changes = after(
        lambda: (notes / "broken.json").write_text("{", "utf-8"),
        lambda: (kumi.folder / "index.db").write_bytes(b"no database"),
        (kumi.folder / "index.db").unlink,
    )
    results = list(watch_sources(kumi.opened, [notes], ["bm25"], changes=changes))
    assert isinstance(results[1], Built)
    assert "broken.json" in results[1].failed[0][2]
    assert [isinstance(result, KumiError) for result in results] == [False, False, True, True]
    assert not away.exists()


def test_all_builds_share_one_limit(kumi: Kumihimo, notes: Path) -> None:
    kumi.models = Readers(kumi.models.settings, lambda: kumi.cache)
    with pytest.raises(SettingsError, match="set a limit for all of them together, such as --max-cost 5"):
        next(iter(watch_sources(kumi.opened, [notes], ["local"], changes=after())))
    changes = after(
        *(lambda n=n: (notes / f"{n}.md").write_text(f"Ada Quill {n} met Bo Lind in Oban.", "utf-8") for n in range(3))
    )
    results = list(watch_sources(kumi.opened, [notes], ["local"], Caps(calls=3), changes=changes))
    assert all(isinstance(result, Built) for result in results)
    calls = [sum(usage.calls for usage in r.spent.values()) for r in results if isinstance(r, Built)]
    assert sum(calls) == 3
    last = results[-1]
    assert isinstance(last, Built)
    assert "capped" in {error.partition(":")[0] for _, _, error in last.failed}


def test_files_are_watched(kumi: Kumihimo, notes: Path) -> None:
    pytest.importorskip("watchfiles")
    seen = Event()

    def write_until_seen() -> None:
        for number in count():
            (notes / "b.md").write_text(f"The office opens at {number}.", "utf-8")
            if seen.wait(3):  # longer than the pause after which changes are told
                return

    writer = Thread(target=write_until_seen, daemon=True)
    with closing(watch_sources(kumi.opened, [notes], ["bm25"])) as results:  # type: ignore[type-var]
        next(results)
        writer.start()
        built = next(result for result in islice(results, 9) if isinstance(result, Built) and result.new)
        seen.set()
    writer.join()
    assert built.rows["documents"] == 2


def test_changes_of_files_that_are_not_read_do_not_count(notes: Path) -> None:
    (notes / ".kumiignore").write_text("*.tmp\n/drafts/\n", "utf-8")
    (notes / "deep").mkdir()
    (notes / "deep" / ".gitignore").write_text("secret.md\n", "utf-8")
    index, single = notes / "index.kumi", notes.parent / "list.txt"
    names = ["a.md", "new.md", ".kumiignore", "deep/b.md", "deep/.gitignore"]
    names += [
        "x.tmp",
        "deep/y.tmp",
        "drafts/c.md",
        "deep/secret.md",
        ".cache/d.md",
        "index.kumi/index.db",
        "index.kumi",
    ]
    counted = [name for name in names if is_watched(notes / name, [notes, single], index)]
    assert counted == ["a.md", "new.md", ".kumiignore", "deep/b.md", "deep/.gitignore"]
    assert is_watched(single, [notes, single], index)
    (notes / ".kumiignore").write_text("#" * 200_000, "utf-8")  # more than is read
    assert is_watched(notes / "a.md", [notes], index)


def test_without_watchfiles(kumi: Kumihimo, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "watchfiles", None)
    with pytest.raises(SettingsError, match=r"pip install 'kumihimo\[watch\]'"):
        list(watch_files([notes], kumi.folder))
