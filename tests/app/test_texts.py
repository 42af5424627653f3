"""texts of a program -> documents: incremental, replaced and removed by id, in step with a fresh index."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from kumihimo import AsyncKumihimo, Kumihimo, copy_index
from kumihimo.app.build import prepare_build
from kumihimo.core.cancel import CancelToken
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import Cancelled, SettingsError, SourceError
from kumihimo.readers.remote.mirror import changed_files
from tests.fixtures_index import fill, tables

FERRY, NETS = "The ferry leaves at nine. The office opens at eight.", "# Nets\n\nAda Holm mended the nets."
METHODS = ["bm25"]


@pytest.fixture
def kumi(tmp_path: Path) -> Iterator[Kumihimo]:
    with Kumihimo.open(tmp_path / "harbour.kumi") as kumi:
        yield kumi


@pytest.fixture
def filled(kumi: Kumihimo) -> Kumihimo:
    fields: list[dict[str, object]] = [
        {"author": "Bo Lind", "day": date(2024, 5, 1), "text": "lost"},
        {"title": "Of nets"},
    ]
    kumi.index_texts([FERRY, NETS], ids=["ferry", "notes/Nets"], metadata=fields, methods=METHODS)
    return kumi


def documents(kumi: Kumihimo) -> dict[str, str]:
    """Return the text of each document by the id of its text."""
    with kumi.snapshot() as snapshot:
        return {str(each.metadata["id"]): each.text for each in snapshot.table("documents")}


def test_a_text_is_cited_by_its_id_and_characters(filled: Kumihimo) -> None:
    assert documents(filled) == {"ferry": FERRY, "notes/Nets": NETS}
    (citation,) = filled.ask("When does the office open?", "bm25", filter='author = "Bo Lind"').citations
    span = citation.span
    assert (span.uri, span.title, FERRY[span.start : span.end]) == ("texts/ferry.json", "ferry", span.text)
    assert {name: span.metadata[name] for name in ("id", "day", "kind")} == {
        "id": "ferry", "day": "2024-05-01", "kind": "text",
    }  # fmt: skip
    assert filled.ask("Who mended the nets?", "bm25", filter='id = "notes/Nets"').citations[0].span.title == "Of nets"


def test_only_what_changed_is_read(filled: Kumihimo) -> None:
    built = filled.index_texts(FERRY, ids="ferry", metadata={"author": "Bo Lind"})
    assert (built.read, built.changed, built.unchanged) == (1, 1, 1)
    before = tables(filled)
    built = filled.index_texts([FERRY], ids=["ferry"], metadata=[{"author": "Bo Lind"}])
    assert (built.read, built.unchanged) == (0, 2)
    assert tables(filled) == before
    built = filled.index_texts("The ferry leaves at ten.", ids="ferry")
    assert (built.new, built.changed) == (0, 1)
    assert documents(filled) == {"ferry": "The ferry leaves at ten.", "notes/Nets": NETS}


def test_without_an_id_a_text_is_its_own(kumi: Kumihimo) -> None:
    assert kumi.index_texts([FERRY, NETS, FERRY], methods=METHODS).new == 2
    assert kumi.index_texts([NETS, FERRY]).read == 0
    with kumi.snapshot() as snapshot:
        assert {each.title for each in snapshot.table("documents")} == {FERRY, "Nets"}
    assert kumi.index_texts([]).unchanged == 2
    assert kumi.index_texts(np.array([NETS])).read == 0  # type: ignore[arg-type]
    assert kumi.remove(hash_parts(NETS)).removed == 1


def test_folders_and_texts_leave_each_other_alone(filled: Kumihimo, tmp_path: Path) -> None:
    home = fill(tmp_path / "texts", {"a.md": "A gull.", "b.md": "A tern."})
    filled.index(home)
    (home / "a.md").write_text("A heron.", "utf-8")
    assert filled.index_texts("A kite.", ids="b").read == 1
    assert filled.index().read == 1
    assert set(filled.status().sources) == {"texts", "texts-2"}
    filled.remove("b")
    (home / "b.md").unlink()
    built = filled.index(rebuild=True)
    assert (built.rows["documents"], filled.status().rows["documents"]) == (3, 3)


@pytest.mark.parametrize("target", ["ferry", "texts/ferry.json", "harbour.kumi/texts/ferry.json"])
@pytest.mark.parametrize("forget", [False, True])
def test_a_text_is_removed_with_its_file(
    filled: Kumihimo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, *, forget: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    assert filled.remove(target, forget=forget).removed == 1
    assert documents(filled) == {"notes/Nets": NETS}
    assert b"office" not in b"".join(path.read_bytes() for path in (filled.folder / "texts").iterdir())
    assert filled.index(reread=True).rows["documents"] == 1
    assert filled.index_texts(FERRY, ids="ferry").new == 1
    with pytest.raises(SourceError, match="the index holds no source or document 'nothing'"):
        filled.remove("nothing")


@pytest.mark.parametrize("change", ["replace", "remove", "forget"])
@pytest.mark.parametrize("late", [False, True])
def test_a_cancelled_build_leaves_the_texts_as_they_were(
    filled: Kumihimo, monkeypatch: pytest.MonkeyPatch, change: str, *, late: bool
) -> None:
    token, folder = CancelToken(), filled.folder / "texts"
    before, rows = {path.name: path.read_bytes() for path in folder.iterdir()}, tables(filled)
    if late:  # everything is written, and not yet committed
        monkeypatch.setattr(prepare_build, "find_unmatched", lambda _: token.cancel())
    changes: dict[str, Callable[..., object]] = {
        "replace": partial(filled.index_texts, ["The ferry is lost.", "A gull."], ids=["ferry", "gull"]),
        "remove": partial(filled.remove, "ferry"),
        "forget": partial(filled.remove, "ferry", forget=True),
    }
    with pytest.raises(Cancelled):
        changes[change](cancel=token, progress=None if late else lambda _: token.cancel())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    monkeypatch.undo()
    assert filled.index().rows["documents"] == 2
    assert tables(filled) == rows


def test_a_text_that_another_build_wrote_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "ferry.json"

    def write_and_fail() -> None:
        path.write_bytes(b"theirs")
        raise Cancelled("enough")

    with pytest.raises(Cancelled), changed_files({path: b"ours"}):
        write_and_fail()
    assert path.read_bytes() == b"theirs"


def test_an_id_that_is_a_source_too_is_asked_back(filled: Kumihimo, tmp_path: Path) -> None:
    filled.index(fill(tmp_path / "ferry", {"a.md": "A gull."}))
    with pytest.raises(SourceError, match=r"several sources.*ferry, .*texts/ferry\.json"):
        filled.remove("ferry")
    filled.remove(str(filled.folder / "texts" / "ferry.json"))
    filled.remove("ferry")
    assert filled.remove("texts").rows["documents"] == 0
    assert not (filled.folder / "texts").exists()


def test_a_copy_has_the_texts(filled: Kumihimo, tmp_path: Path) -> None:
    copy_index(filled.folder, tmp_path / "elsewhere" / "copy.kumi")
    filled.remove("texts")
    with Kumihimo.open(tmp_path / "elsewhere" / "copy.kumi") as copied:
        assert copied.index(reread=True).read == 2
        assert copied.remove("notes/Nets").removed == 1
        assert documents(copied) == {"ferry": FERRY}


def test_every_text_comes_back_as_it_is(kumi: Kumihimo) -> None:
    texts = ["---\na: b\n---\n# Title\r\n\t<b>x</b> &amp; \\u0041 港\u2028\ufffe", '{"text": "y"}', "A sail. \ud800\0"]
    ids = ["", "../../x", "x" * 300]
    kumi.index_texts(texts, ids=ids, metadata=[{"n": float("nan")}, {}, {}], methods=METHODS)
    stored = documents(kumi)
    assert {*stored.values()} == {*texts[:2], "A sail. \ufffd\ufffd"}
    assert {path.suffix for path in (kumi.folder / "texts").iterdir()} == {".json"}
    kumi.index_texts(FERRY, ids="\ud800")
    assert kumi.remove("\ud800").removed == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": ["a", "b"], "ids": ["x"]}, "there are 2 texts, and 1 ids: give one for each text"),
        ({"texts": ["a", "b"], "ids": ["x", "x"]}, "two texts have the id 'x'"),
        ({"texts": [b"a"]}, "texts, ids and titles are strings, not bytes"),
        ({"texts": b"a"}, "texts, ids and titles are strings, not bytes"),
        ({"texts": 5}, "texts, ids and titles are strings, not int"),
        ({"texts": ["a"], "ids": [0]}, "texts, ids and titles are strings, not int"),
        ({"texts": "a", "ids": 7}, "texts, ids and titles are strings, not int"),
        ({"texts": ["a"], "titles": [7]}, "texts, ids and titles are strings, not int"),
        ({"texts": ["a"], "methods": "bm25"}, r"methods is a list of names: write \['bm25'\]"),
        ({"texts": ["a"], "metadata": [["b"]]}, "metadata are a dictionary for each text, not list"),
        ({"texts": ["a"], "metadata": 5}, "metadata are a dictionary for each text, not int"),
        ({"texts": ["a"], "ids": ["x"], "metadata": [{("a", 1): 2}]}, "the metadata of 'x' is no JSON"),
    ],
)
def test_what_cannot_be_stored_is_said_first(kumi: Kumihimo, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        kumi.index_texts(**arguments)  # type: ignore[arg-type]
    assert not kumi.store.exists()


def test_nothing_is_written_through_a_link(kumi: Kumihimo, tmp_path: Path) -> None:
    kumi.index_texts(FERRY, ids="ferry", methods=METHODS)
    kumi.remove("texts")
    (tmp_path / "other").mkdir()
    (kumi.folder / "texts").symlink_to(tmp_path / "other", target_is_directory=True)
    with pytest.raises(SourceError, match="texts is a link"):
        kumi.index_texts(FERRY, ids="ferry")
    assert not [*(tmp_path / "other").iterdir()]


def test_texts_in_asyncio(tmp_path: Path) -> None:
    async def build() -> int:
        async with AsyncKumihimo.open(tmp_path / ".kumi") as kumi:
            steps: list[str] = []
            built = await kumi.index_texts(
                [FERRY], ids=["ferry"], methods=METHODS, progress=lambda event: steps.append(event.step)
            )
            assert "documents" in steps
            assert (await kumi.run(lambda kumi: kumi.remove("ferry"))).removed == 1
            return built.new

    assert asyncio.run(build()) == 1
