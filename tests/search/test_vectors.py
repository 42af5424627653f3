"""table -> vectors: exact results, a file that only grows, searches undisturbed by builds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kumihimo.core.context import Context
from kumihimo.core.errors import IndexUnavailable, ItemFailed, RequestTimedOut
from kumihimo.core.table import Table, codec
from kumihimo.search.protocols import encode_vectors, unit_vectors
from kumihimo.search.vectors import CosineSearch, load_matrices, remove_unused_files
from kumihimo.storage.database import SqlRows
from kumihimo.testing.fake_models import FakeEmbedder
from tests.search.factories_search_index import Embed, Note, Notes, Vectors, mixed_texts, vector_notes
from tests.stores import NEEDS_FILES


def files(folder: Path) -> list[tuple[str, int]]:
    return sorted((path.name, path.stat().st_size) for path in (folder / "vectors").iterdir())


# -- searching


def test_scores_are_cosines_best_first(tmp_path: Path) -> None:
    index = vector_notes(tmp_path, {"a": "sea", "b": "sea sky", "c": "sky"})
    hits = index.search_notes("sea")
    assert [id for id, _ in hits] == ["a", "b", "c"]
    assert [score for _, score in hits] == pytest.approx([1.0, 0.5**0.5, 0.0], abs=2e-5)
    index.store.close()


@pytest.mark.parametrize("k", [1, 3, 50, 399, 400, 999])
def test_the_nearest_are_exact(tmp_path: Path, k: int) -> None:
    texts = mixed_texts(400)
    index = vector_notes(tmp_path, texts)
    embed = FakeEmbedder()
    matrix = unit_vectors(encode_vectors(embed(list(texts.values()))))
    for question in ("sea sky", "ferry boat port", "silk"):
        scores = matrix @ embed([question])[0].astype(np.float64)
        expected = sorted(zip(-np.round(scores, 9), texts, strict=True))[:k]
        assert index.ids(question, k) == [id for _, id in expected]
    index.store.close()


def test_batch_search_equals_single_searches(tmp_path: Path) -> None:
    embed = Embed()
    index = vector_notes(tmp_path, mixed_texts(400), embed)
    questions = ["sea sky", "silk", "nothing of it", "sea sky"]
    with index.store.read_transaction() as db:
        table = Table("notes", codec(Note), SqlRows(db, "notes"))
        near = CosineSearch(db, lambda *_: embed, load_matrices(db, tmp_path, {}))
        embed.texts.clear()
        hits = near.search_many(table, questions, k=7)
        assert embed.texts == questions, "one batch"
        assert [list(context) for context in hits] == [list(near(table, text, k=7)) for text in questions]
        few = sorted(mixed_texts(400))[::3]
        of_few = [list(near(table, text, k=7, candidate_ids=few)) for text in questions]
        assert [list(context) for context in near.search_many(table, questions, k=7, candidate_ids=few)] == of_few
        assert near.search_many(table, [], k=7) == [], "no queries"
        assert near.search_many(table, questions, k=0) == [Context()] * 4
    index.store.close()


def test_each_row_is_checked_once(tmp_path: Path) -> None:
    texts = mixed_texts(2000)
    index = vector_notes(tmp_path, texts)
    assert index.filtered("sea fog", 5, set(texts))[1] < 2020  # and the rows that were read
    assert index.filtered("sea fog", 5, set()) == ([], 2000)
    index.store.close()


def test_other_embedder_is_reported(tmp_path: Path) -> None:
    vector_notes(tmp_path, {"a": "sea"}).store.close()
    other = vector_notes(tmp_path, embed=Embed(FakeEmbedder(dimensions=8), fingerprint="another"))
    with pytest.raises(IndexUnavailable) as refused:
        other.search_notes("sea")
    assert str(refused.value) == (
        "the notes of this index were embedded by made up: set that as `model` under [embedding] in kumi.toml, "
        "or `kumi index --yes` (in Python `index(consent=True)`) embeds them by another"
    )
    other.store.close()


# -- building


def test_only_new_texts_are_embedded(tmp_path: Path) -> None:
    embed = Embed()
    index = vector_notes(tmp_path, {"a": "sea", "b": "sky"}, embed)
    assert embed.texts == ["sea", "sky"]
    index.build({"a": "sea", "b": "fog", "c": "dew"}, pages=7)
    assert embed.texts == ["sea", "sky", "fog", "dew"]
    index.build({"a": "sea", "b": "fog", "c": "dew"}, pages=7)
    assert len(embed.texts) == 4
    index.store.close()


@NEEDS_FILES
def test_another_embedder_embeds_all_rows_again(tmp_path: Path) -> None:
    texts = {"a": "sea", "b": "sky"}
    vector_notes(tmp_path, texts).store.close()
    other = Embed(FakeEmbedder(dimensions=8), fingerprint="other")
    index = vector_notes(tmp_path, texts, other)
    assert index.was_empty == [True]
    assert other.texts == ["sea", "sky"]
    assert index.ids("sea", 1) == ["a"]
    index.build(texts, fingerprint="2")  # another fingerprint does the same
    assert index.was_empty == [True, True]
    assert index.ids("sky", 1) == ["b"]
    index.build({})  # removes unused files
    assert files(tmp_path) == [("notes-3.i8", 2 * 8)]
    index.store.close()


@NEEDS_FILES
@pytest.mark.parametrize("mark", ["1", "2"])
def test_the_next_build_overwrites_what_an_aborted_one_appended(tmp_path: Path, mark: str) -> None:
    index = vector_notes(tmp_path, {"a": "sea", "b": "sky"})

    def aborted() -> None:
        with index.open_build({"b": "fog", "c": "sea", "d": "dew"}, fingerprint=mark):
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            aborted()
    index.build({"a": "sea", "b": "sky", "e": "sea ice"})
    assert files(tmp_path) == [("notes-1.i8", 3 * 32)]
    index.store.close()


@NEEDS_FILES
def test_half_unused_file_is_compacted(tmp_path: Path) -> None:
    texts = mixed_texts(1300)
    visible = dict(list(texts.items())[::3])
    index, fresh = vector_notes(tmp_path, texts), vector_notes(tmp_path / "fresh", visible)
    with index.open_search() as snapshot_search:
        before = snapshot_search("sea sky", 20)
        index.build(visible)
        assert snapshot_search("sea sky", 20) == before  # a reader keeps the old file
    for question in ("sea sky", "ferry boat", "silk"):
        assert index.search_notes(question, 20) == fresh.search_notes(question, 20)
    assert [name for name, _ in files(tmp_path)] == ["notes-1.i8", "notes-2.i8"]
    index.build(visible)
    assert files(tmp_path) == [("notes-2.i8", 434 * 32)]
    assert index.was_empty == [True, False, False]
    assert index.search_notes("sea sky", 20) == fresh.search_notes("sea sky", 20)
    index.build({**visible, "new": "sea sky"})
    assert index.ids("sea sky", 999)[0] in ("new", *visible)
    assert "new" in index.ids("sea sky", 999)
    index.store.close()
    fresh.store.close()


def test_aborted_compaction_leaves_searches_unchanged(tmp_path: Path) -> None:
    texts = mixed_texts(1300)
    visible = dict(list(texts.items())[::3])
    index = vector_notes(tmp_path, texts)
    before = index.search_notes("sea sky", 20)

    def aborted() -> None:
        with index.open_build(visible):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        aborted()
    assert index.search_notes("sea sky", 20) == before
    index.build(visible)
    fresh = vector_notes(tmp_path / "fresh", visible)
    assert index.search_notes("sea sky", 20) == fresh.search_notes("sea sky", 20)
    index.store.close()
    fresh.store.close()


@NEEDS_FILES
@pytest.mark.parametrize("remaining_bytes", [None, 0, 50])
def test_lost_file_is_rebuilt(tmp_path: Path, remaining_bytes: int | None) -> None:
    texts = {"a": "sea", "b": "sky"}
    index = vector_notes(tmp_path, texts)
    before = index.search_notes("sea")
    index.store.close()
    path = tmp_path / "vectors" / "notes-1.i8"
    if remaining_bytes is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:remaining_bytes])
    index = vector_notes(tmp_path, texts)
    assert index.was_empty == [True]
    assert index.search_notes("sea") == before
    index.store.close()


def test_texts_are_embedded_in_batches_without_loss(tmp_path: Path) -> None:
    sizes: list[int] = []

    def make(texts: Sequence[str]) -> Vectors:
        sizes.append(len(texts))
        return FakeEmbedder()(texts)

    index = vector_notes(tmp_path, mixed_texts(600), Embed(make))
    assert (max(sizes), sum(sizes)) == (256, len(set(mixed_texts(600).values())))  # equal texts are embedded once
    assert len(index.ids("sea", 999)) == 600
    index.store.close()


@NEEDS_FILES
def test_row_changed_twice_in_one_build_has_its_last_vector(tmp_path: Path) -> None:
    index = vector_notes(tmp_path, {})
    encode = codec(Note).encode
    one, two = (encode("a", Note(text=text)) for text in ("sea", "sky"))
    with index.store.write_transaction() as db:
        view = index.view(db)
        view.ensure("1")
        view.replace([], [one])
        view.replace([one], [two])
        db.many("INSERT INTO notes VALUES (?, ?, ?)", [two])
        removed = encode("b", Note(text="sky"))
        view.replace([], [removed])
        view.replace([removed], [])
        view.finish()
    assert [(id, round(score, 6)) for id, score in index.search_notes("sky")] == [("a", 1.0)]
    assert files(tmp_path) == [("notes-1.i8", 32)]
    index.store.close()


def failures(index: Notes) -> dict[str, str]:
    with index.store.read_transaction() as db:
        return {item: error for _, item, error in db.failures()}


def test_a_batch_that_takes_too_long_is_halved_and_the_next_ones_are_as_small(tmp_path: Path) -> None:
    sizes: list[int] = []

    def slow(texts: Sequence[str]) -> Vectors:
        sizes.append(len(texts))
        if len(texts) > 2:
            raise RequestTimedOut("no answer in time")
        return FakeEmbedder()(texts)

    embed = Embed(slow)
    embed.batch = 8
    index = vector_notes(tmp_path, {f"n{i:02}": f"sea {i}" for i in range(16)}, embed)
    assert sizes == [8, 4, 2, 2, 4, 2, 2, *[2] * 4], "each time-out is waited for"
    assert failures(index) == {}
    assert len(index.ids("sea", 99)) == 16
    index.store.close()


def test_a_server_that_answers_nothing_is_waited_for_only_a_few_times(tmp_path: Path) -> None:
    sizes: list[int] = []

    def silent(texts: Sequence[str]) -> Vectors:
        sizes.append(len(texts))
        raise RequestTimedOut("no answer in time")

    embed = Embed(silent)
    embed.batch = 64
    index = vector_notes(tmp_path, {f"n{i:02}": f"sea {i}" for i in range(64)}, embed)
    assert sizes == [64, 32, 16, 8, 4, 2, 1]
    assert failures(index) == dict.fromkeys([f"n{i:02}" for i in range(64)], "no answer in time")
    index.store.close()


@NEEDS_FILES
def test_vectors_that_are_refused_are_listed_and_not_written(tmp_path: Path) -> None:
    def broken(texts: Sequence[str]) -> Vectors:
        raise ItemFailed("1 of 2 vectors are zero")

    index = vector_notes(tmp_path, {"a": "sea"})
    index.build({"a": "sea"})
    size = files(tmp_path)
    other = vector_notes(tmp_path, None, Embed(broken))
    other.build({"a": "sea", "b": "sky", "c": "fog"})
    assert failures(other) == {"b": "1 of 2 vectors are zero", "c": "1 of 2 vectors are zero"}
    assert files(tmp_path) == size
    index.build({"a": "sea", "b": "sky", "c": "fog"})
    assert failures(index) == {}
    assert len(index.ids("sea", 9)) == 3
    index.store.close()
    other.store.close()


@NEEDS_FILES
def test_used_vectors_alone_stay_after_an_erasure(tmp_path: Path) -> None:
    index = vector_notes(tmp_path, {"a": "sea", "b": "sea sky", "c": "sky"})
    secret = encode_vectors(FakeEmbedder()(["sea sky"])).tobytes()
    before = index.search_notes("sea sky")
    index.build({"a": "sea", "c": "sky"})
    assert [secret in path.read_bytes() for path in (tmp_path / "vectors").iterdir()] == [True]
    with index.store.write_transaction() as db:
        index.view(db).vectors.finish(erase=True)
    with index.store.write_transaction() as db:
        index.view(db).vectors.finish(erase=True)  # this time nothing is unused
        assert [secret in path.read_bytes() for path in (tmp_path / "vectors").iterdir()] == [False]
    assert files(tmp_path) == [("notes-2.i8", 2 * 32)]
    assert index.search_notes("sea sky") == [hit for hit in before if hit[0] != "b"]
    index.store.close()


# -- files that a reader maps: Windows neither removes nor shortens them


@NEEDS_FILES
def test_a_file_that_cannot_be_removed_is_left_to_a_later_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = vector_notes(tmp_path, {"a": "sea", "b": "sky"})
    index.build({"a": "sea", "b": "sky"}, fingerprint="2")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        index.build({"a": "sea"}, fingerprint="2")
        with index.store.write_transaction() as db:
            assert [path.name for path in remove_unused_files(db, tmp_path)] == ["notes-1.i8"]
    assert index.ids("sea", 1) == ["a"]
    index.build({"a": "sea"}, fingerprint="2")
    assert "notes-1.i8" not in dict(files(tmp_path))
    index.store.close()


@NEEDS_FILES
def test_a_file_that_cannot_be_shortened_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embed = Embed()
    index = vector_notes(tmp_path, {"a": "sea", "b": "sky"}, embed)
    path = tmp_path / "vectors" / "notes-1.i8"
    path.write_bytes(path.read_bytes() + b"left by a killed build")
    monkeypatch.setattr(os, "truncate", refuse)
    index.build({"a": "sea", "b": "sky", "c": "fog"})
    assert embed.texts == ["sea", "sky", "fog"]
    assert dict(files(tmp_path))["notes-2.i8"] == 3 * 32
    assert [index.ids(text, 1) for text in ("sea", "sky", "fog")] == [["a"], ["b"], ["c"]]
    index.store.close()


def refuse(*_: object, **__: object) -> None:
    raise PermissionError(13, "The process cannot access the file because it is being used by another process")


def test_eight_bits_keep_cosines_and_no_length() -> None:
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(500, 256)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    stored = encode_vectors(vectors)
    errors = np.abs(unit_vectors(stored) @ vectors[:20].T.astype(np.float64) - vectors @ vectors[:20].T)
    assert errors.max() < 3e-3
    assert errors.mean() < 5e-4
    assert (encode_vectors(vectors * 7) == stored).all()
    assert not unit_vectors(encode_vectors(np.zeros((1, 4), dtype=np.float32))).any()
