"""table -> vectors: exact results, a file that only grows, searches undisturbed by builds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from kumihimo.core.context import Context
from kumihimo.core.errors import IndexUnavailable
from kumihimo.core.table import Table, codec
from kumihimo.search.vectors import MappedFiles, SqliteVectorSearch, VectorIndex, load_matrices, remove_unused_files
from kumihimo.storage.sqlite.store import Db, SqlRows
from kumihimo.testing.fake_models import FakeEmbedder
from tests.search.factories_search_index import Note, Notes

Vectors = NDArray[np.float32]


class Embed:
    """Fake embedder that records its texts."""

    batch, workers = 256, 1

    def __init__(self, make: Callable[[Sequence[str]], Vectors] | None = None, fingerprint: str = "made up") -> None:
        self.make = make or FakeEmbedder()
        self.fingerprint = fingerprint
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        return self.make(texts)


def notes(folder: Path, texts: Mapping[str, str] | None = None, embed: Embed | None = None) -> Notes:
    embedder = embed or Embed()
    files: MappedFiles = {}

    def view(db: Db) -> VectorIndex:
        remove_unused_files(db, folder)  # builds do this first
        return VectorIndex(db, folder, "notes", codec(Note), embedder)

    def search(db: Db) -> SqliteVectorSearch:
        return SqliteVectorSearch(db, embedder, load_matrices(db, folder, files))

    index = Notes(folder, view, search)
    if texts is not None:
        index.build(texts)
    return index


def files(folder: Path) -> list[tuple[str, int]]:
    return sorted((path.name, path.stat().st_size) for path in (folder / "vectors").iterdir())


WORDS = "sea sky sun fog dew ice rain wind port ferry boat oat seed cord silk loom".split()  # noqa: SIM905


def mixed(n: int, seed: int = 0) -> dict[str, str]:
    random = Random(seed)
    return {f"n{i:05d}": " ".join(random.choices(WORDS, k=random.randint(1, 6))) for i in range(n)}


# -- searching


def test_scores_are_cosines_best_first(tmp_path: Path) -> None:
    index = notes(tmp_path, {"a": "sea", "b": "sea sky", "c": "sky"})
    hits = [(id, round(score, 6)) for id, score in index.search_notes("sea")]
    assert hits == [("a", 1.0), ("b", round(0.5**0.5, 6)), ("c", 0.0)]
    assert index.ids("sea", k=2) == ["a", "b"]
    assert index.ids("sea", k=0) == index.ids("sea", k=-1) == []
    index.store.close()


@pytest.mark.parametrize("k", [1, 3, 50, 399, 400, 999])
def test_the_nearest_are_exact(tmp_path: Path, k: int) -> None:
    texts = mixed(400)
    index = notes(tmp_path, texts)
    embed = FakeEmbedder()
    matrix = embed(list(texts.values())).astype(np.float64)
    for question in ("sea sky", "ferry boat port", "silk"):
        scores = matrix @ embed([question])[0].astype(np.float64)
        expected = sorted(zip(-np.round(scores, 9), texts, strict=True))[:k]
        assert index.ids(question, k) == [id for _, id in expected]
    index.store.close()


def test_ties_are_sorted_by_id_beyond_any_limit(tmp_path: Path) -> None:
    ids = [f"{i * 7919 % 500:03d}" for i in range(500)]  # shuffled
    index = notes(tmp_path, {})
    index.build({**{id: "the same sea" for id in ids}, "x": "sky"})  # inserted in this order
    assert index.ids("sea", k=7) == sorted(ids)[:7]
    assert len({score for _, score in index.search_notes("sea", k=500)}) == 1
    index.store.close()


def test_batch_search_equals_single_searches(tmp_path: Path) -> None:
    embed = Embed()
    index = notes(tmp_path, mixed(400), embed)
    questions = ["sea sky", "silk", "nothing of it", "sea sky"]
    with index.store.read_transaction() as db:
        table = Table("notes", codec(Note), SqlRows(db, "notes"))
        near = SqliteVectorSearch(db, embed, load_matrices(db, tmp_path, {}))
        embed.texts.clear()
        hits = near.search_many(table, questions, k=7)
        assert embed.texts == questions, "one batch"
        assert [list(context) for context in hits] == [list(near(table, text, k=7)) for text in questions]
        few = sorted(mixed(400))[::3]
        of_few = [list(near(table, text, k=7, candidate_ids=few)) for text in questions]
        assert [list(context) for context in near.search_many(table, questions, k=7, candidate_ids=few)] == of_few
        assert near.search_many(table, [], k=7) == [], "no queries"
        assert near.search_many(table, questions, k=0) == [Context()] * 4
    index.store.close()


def test_filter_applies_before_the_limit(tmp_path: Path) -> None:
    random, texts = Random(7), mixed(400)
    index = notes(tmp_path, texts)
    everything = index.search_notes("sea fog", k=400)
    for _ in range(60):
        visible = set(random.sample(sorted(texts), random.choice([0, 1, 5, 60, 399, 400])))
        k = random.choice([1, 2, 10, 100, 500])
        hits, _ = index.filtered("sea fog", k, visible)
        assert hits == [(id, score) for id, score in everything if id in visible][:k]
    index.store.close()


def test_no_more_rows_are_checked_than_necessary(tmp_path: Path) -> None:
    texts = mixed(2000)
    index = notes(tmp_path, texts)
    assert index.filtered("sea fog", 5, set(texts))[1] < 400
    hits, checks = index.filtered("sea fog", 5, set())
    assert hits == []
    assert checks < 4 * 2000  # each round checks more rows, the last one all
    index.store.close()


def test_position_in_the_file_does_not_matter(tmp_path: Path) -> None:
    texts = mixed(300)
    reversed_texts = dict(reversed(texts.items()))
    one, two = notes(tmp_path / "one", texts), notes(tmp_path / "two", {})
    for i in range(0, 300, 70):
        two.build(dict(list(reversed_texts.items())[: i + 70]))
    for question in ("sea sky", "ferry oat"):
        assert one.search_notes(question, 20) == two.search_notes(question, 20)  # bit-identical
    one.store.close()
    two.store.close()


def test_removed_rows_hide_no_others(tmp_path: Path) -> None:
    removed = {f"a{i:03d}": "sea" for i in range(200)}
    visible = {f"b{i:03d}": f"sky {WORDS[i % 16]}" for i in range(100)}
    index = notes(tmp_path, removed | visible)
    index.build(visible)
    assert index.was_empty == [True, False]
    fresh = notes(tmp_path / "fresh", visible)
    assert index.search_notes("sea", 5) == fresh.search_notes("sea", 5)
    assert len(index.ids("sea", 999)) == 100
    index.store.close()
    fresh.store.close()


def test_question_without_words_scores_zero(tmp_path: Path) -> None:
    index = notes(tmp_path, {"b": "sea", "a": "sky"})
    assert index.search_notes("") == [("a", 0.0), ("b", 0.0)]
    index.store.close()


def test_empty_table_finds_nothing(tmp_path: Path) -> None:
    index = notes(tmp_path, {})
    assert index.search_notes("sea") == []
    index.build({"a": "sea"})
    assert index.ids("sea") == ["a"]
    index.build({})
    assert index.search_notes("sea") == []
    index.store.close()


def test_missing_index_error_has_a_remedy(tmp_path: Path) -> None:
    index = notes(tmp_path)
    with index.store.write_transaction():
        pass
    with pytest.raises(IndexUnavailable) as refused:
        index.search_notes("sea")
    assert str(refused.value) == "notes is not indexed by meaning: `kumi index --methods naive` does that"
    index.store.close()


def test_other_embedder_is_reported(tmp_path: Path) -> None:
    notes(tmp_path, {"a": "sea"}).store.close()
    other = notes(tmp_path, embed=Embed(FakeEmbedder(dimensions=8), fingerprint="another"))
    with pytest.raises(IndexUnavailable) as refused:
        other.search_notes("sea")
    assert str(refused.value) == (
        "the notes of this index were embedded by made up: set that as `model` under [embedding] in kumi.toml, "
        "or `kumi index --yes` embeds them by another"
    )
    other.store.close()


# -- building


def test_only_new_texts_are_embedded(tmp_path: Path) -> None:
    embed = Embed()
    index = notes(tmp_path, {"a": "sea", "b": "sky"}, embed)
    assert embed.texts == ["sea", "sky"]
    index.build({"a": "sea", "b": "fog", "c": "dew"}, pages=7)
    assert embed.texts == ["sea", "sky", "fog", "dew"]
    index.build({"a": "sea", "b": "fog", "c": "dew"}, pages=7)
    assert len(embed.texts) == 4
    index.store.close()


def test_another_embedder_embeds_all_rows_again(tmp_path: Path) -> None:
    texts = {"a": "sea", "b": "sky"}
    notes(tmp_path, texts).store.close()
    other = Embed(FakeEmbedder(dimensions=8), fingerprint="other")
    index = notes(tmp_path, texts, other)
    assert index.was_empty == [True]
    assert other.texts == ["sea", "sky"]
    assert index.ids("sea", 1) == ["a"]
    index.build(texts, fingerprint="2")  # another fingerprint does the same
    assert index.was_empty == [True, True]
    assert index.ids("sky", 1) == ["b"]
    index.build({})  # removes unused files
    assert files(tmp_path) == [("notes-3.f32", 2 * 8 * 4)]
    index.store.close()


def test_a_build_in_progress_disturbs_no_search(tmp_path: Path) -> None:
    index = notes(tmp_path, {"a": "sea", "b": "sky"})
    before = index.search_notes("sea")
    with index.open_search() as snapshot_search:
        with index.open_build({"b": "sea sky", "c": "sea"}):
            assert snapshot_search("sea", 9) == before
            assert index.search_notes("sea") == before
        assert snapshot_search("sea", 9) == before
        assert index.ids("sea") == ["c", "b"]
    index.store.close()


@pytest.mark.parametrize("mark", ["1", "2"])
def test_aborted_build_leaves_searches_unchanged(tmp_path: Path, mark: str) -> None:
    index = notes(tmp_path, {"a": "sea", "b": "sky"})
    before = index.search_notes("sea")

    def aborted() -> None:
        with index.open_build({"b": "fog", "c": "sea", "d": "dew"}, fingerprint=mark):
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            aborted()
        assert index.search_notes("sea") == before
    index.build({"a": "sea", "b": "sky", "e": "sea ice"})
    fresh = notes(tmp_path / "fresh", {"a": "sea", "b": "sky", "e": "sea ice"})
    for question in ("sea", "sky", "ice", "fog"):
        assert index.search_notes(question) == fresh.search_notes(question)
    assert files(tmp_path) == [("notes-1.f32", 3 * 32 * 4)]  # overwrites the aborted rows
    index.store.close()
    fresh.store.close()


def test_half_unused_file_is_compacted(tmp_path: Path) -> None:
    texts = mixed(1300)
    visible = dict(list(texts.items())[::3])
    index, fresh = notes(tmp_path, texts), notes(tmp_path / "fresh", visible)
    with index.open_search() as snapshot_search:
        before = snapshot_search("sea sky", 20)
        index.build(visible)
        assert snapshot_search("sea sky", 20) == before  # a reader keeps the old file
    for question in ("sea sky", "ferry boat", "silk"):
        assert index.search_notes(question, 20) == fresh.search_notes(question, 20)
    assert [name for name, _ in files(tmp_path)] == ["notes-1.f32", "notes-2.f32"]
    index.build(visible)
    assert files(tmp_path) == [("notes-2.f32", 434 * 32 * 4)]
    assert index.was_empty == [True, False, False]
    assert index.search_notes("sea sky", 20) == fresh.search_notes("sea sky", 20)
    index.build({**visible, "new": "sea sky"})
    assert index.ids("sea sky", 999)[0] in ("new", *visible)
    assert "new" in index.ids("sea sky", 999)
    index.store.close()
    fresh.store.close()


def test_aborted_compaction_leaves_searches_unchanged(tmp_path: Path) -> None:
    texts = mixed(1300)
    visible = dict(list(texts.items())[::3])
    index = notes(tmp_path, texts)
    before = index.search_notes("sea sky", 20)

    def aborted() -> None:
        with index.open_build(visible):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        aborted()
    assert index.search_notes("sea sky", 20) == before
    index.build(visible)
    fresh = notes(tmp_path / "fresh", visible)
    assert index.search_notes("sea sky", 20) == fresh.search_notes("sea sky", 20)
    index.store.close()
    fresh.store.close()


@pytest.mark.parametrize("remaining_bytes", [None, 0, 100])
def test_lost_file_is_rebuilt(tmp_path: Path, remaining_bytes: int | None) -> None:
    texts = {"a": "sea", "b": "sky"}
    index = notes(tmp_path, texts)
    before = index.search_notes("sea")
    index.store.close()
    path = tmp_path / "vectors" / "notes-1.f32"
    if remaining_bytes is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:remaining_bytes])
    index = notes(tmp_path, texts)
    assert index.was_empty == [True]
    assert index.search_notes("sea") == before
    index.store.close()


def test_texts_are_embedded_in_batches_without_loss(tmp_path: Path) -> None:
    sizes: list[int] = []

    def make(texts: Sequence[str]) -> Vectors:
        sizes.append(len(texts))
        return FakeEmbedder()(texts)

    index = notes(tmp_path, mixed(600), Embed(make))
    assert (max(sizes), sum(sizes)) == (256, len(set(mixed(600).values())))  # equal texts are embedded once
    assert len(index.ids("sea", 999)) == 600
    index.store.close()


def test_row_changed_twice_in_one_build_has_its_last_vector(tmp_path: Path) -> None:
    index = notes(tmp_path, {})
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
    assert files(tmp_path) == [("notes-1.f32", 32 * 4)]
    index.store.close()
