"""table -> vectors: the exact nearest, a file that only grows, and searches that no build disturbs."""

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
    """Made-up vectors; it counts the texts it is given."""

    batch, workers = 256, 1

    def __init__(self, make: Callable[[Sequence[str]], Vectors] | None = None, fingerprint: str = "made up") -> None:
        self.make = make or FakeEmbedder()
        self.fingerprint = fingerprint
        self.given: list[str] = []

    def __call__(self, texts: Sequence[str]) -> Vectors:
        self.given += texts
        return self.make(texts)


def notes(folder: Path, texts: Mapping[str, str] | None = None, embed: Embed | None = None) -> Notes:
    embedder = embed or Embed()
    files: MappedFiles = {}

    def view(db: Db) -> VectorIndex:
        remove_unused_files(db, folder)  # as every build begins
        return VectorIndex(db, folder, "notes", codec(Note), embedder)

    def search(db: Db) -> SqliteVectorSearch:
        return SqliteVectorSearch(db, embedder, load_matrices(db, folder, files))

    made = Notes(folder, view, search)
    if texts is not None:
        made.build(texts)
    return made


def files(folder: Path) -> list[tuple[str, int]]:
    return sorted((path.name, path.stat().st_size) for path in (folder / "vectors").iterdir())


WORDS = "sea sky sun fog dew ice rain wind port ferry boat oat seed cord silk loom".split()  # noqa: SIM905


def mixed(n: int, seed: int = 0) -> dict[str, str]:
    random = Random(seed)
    return {f"n{i:05d}": " ".join(random.choices(WORDS, k=random.randint(1, 6))) for i in range(n)}


# -- searching


def test_scores_are_cosines_best_first(tmp_path: Path) -> None:
    made = notes(tmp_path, {"a": "sea", "b": "sea sky", "c": "sky"})
    found = [(id, round(score, 6)) for id, score in made.found("sea")]
    assert found == [("a", 1.0), ("b", round(0.5**0.5, 6)), ("c", 0.0)]
    assert made.ids("sea", k=2) == ["a", "b"]
    assert made.ids("sea", k=0) == made.ids("sea", k=-1) == []
    made.store.close()


@pytest.mark.parametrize("k", [1, 3, 50, 399, 400, 999])
def test_the_nearest_are_exact(tmp_path: Path, k: int) -> None:
    texts = mixed(400)
    made = notes(tmp_path, texts)
    embed = FakeEmbedder()
    matrix = embed(list(texts.values())).astype(np.float64)
    for question in ("sea sky", "ferry boat port", "silk"):
        scores = matrix @ embed([question])[0].astype(np.float64)
        expected = sorted(zip(-np.round(scores, 9), texts, strict=True))[:k]
        assert made.ids(question, k) == [id for _, id in expected]
    made.store.close()


def test_equals_come_in_the_order_of_ids_beyond_any_limit(tmp_path: Path) -> None:
    ids = [f"{i * 7919 % 500:03d}" for i in range(500)]  # mixed up
    made = notes(tmp_path, {})
    made.build({**{id: "the same sea" for id in ids}, "x": "sky"})  # in this order
    assert made.ids("sea", k=7) == sorted(ids)[:7]
    assert len({score for _, score in made.found("sea", k=500)}) == 1
    made.store.close()


def test_several_questions_at_once_find_what_each_finds(tmp_path: Path) -> None:
    embed = Embed()
    made = notes(tmp_path, mixed(400), embed)
    questions = ["sea sky", "silk", "nothing of it", "sea sky"]
    with made.store.read_transaction() as db:
        table = Table("notes", codec(Note), SqlRows(db, "notes"))
        near = SqliteVectorSearch(db, embed, load_matrices(db, tmp_path, {}))
        embed.given.clear()
        found = near.search_many(table, questions, k=7)
        assert embed.given == questions, "they are embedded together"
        assert [list(context) for context in found] == [list(near(table, text, k=7)) for text in questions]
        few = sorted(mixed(400))[::3]
        of_few = [list(near(table, text, k=7, candidate_ids=few)) for text in questions]
        assert [list(context) for context in near.search_many(table, questions, k=7, candidate_ids=few)] == of_few
        assert near.search_many(table, [], k=7) == [], "nothing is asked for"
        assert near.search_many(table, questions, k=0) == [Context()] * 4
    made.store.close()


def test_a_filter_takes_rows_out_before_they_are_counted(tmp_path: Path) -> None:
    random, texts = Random(7), mixed(400)
    made = notes(tmp_path, texts)
    everything = made.found("sea fog", k=400)
    for _ in range(60):
        kept = set(random.sample(sorted(texts), random.choice([0, 1, 5, 60, 399, 400])))
        k = random.choice([1, 2, 10, 100, 500])
        found, _ = made.filtered("sea fog", k, kept)
        assert found == [(id, score) for id, score in everything if id in kept][:k]
    made.store.close()


def test_no_more_rows_are_looked_at_than_it_takes(tmp_path: Path) -> None:
    texts = mixed(2000)
    made = notes(tmp_path, texts)
    assert made.filtered("sea fog", 5, set(texts))[1] < 400
    found, asked = made.filtered("sea fog", 5, set())
    assert found == []
    assert asked < 4 * 2000  # all rows once, and some of them in the rounds before
    made.store.close()


def test_a_place_in_the_file_makes_no_difference(tmp_path: Path) -> None:
    texts = mixed(300)
    turned = dict(reversed(texts.items()))
    one, two = notes(tmp_path / "one", texts), notes(tmp_path / "two", {})
    for i in range(0, 300, 70):
        two.build(dict(list(turned.items())[: i + 70]))
    for question in ("sea sky", "ferry oat"):
        assert one.found(question, 20) == two.found(question, 20)  # to the last bit
    one.store.close()
    two.store.close()


def test_rows_that_are_gone_hide_nothing(tmp_path: Path) -> None:
    gone = {f"a{i:03d}": "sea" for i in range(200)}
    kept = {f"b{i:03d}": f"sky {WORDS[i % 16]}" for i in range(100)}
    made = notes(tmp_path, gone | kept)
    made.build(kept)
    assert made.filled == [True, False]
    fresh = notes(tmp_path / "fresh", kept)
    assert made.found("sea", 5) == fresh.found("sea", 5)
    assert len(made.ids("sea", 999)) == 100
    made.store.close()
    fresh.store.close()


def test_a_question_of_no_words_is_near_nothing_in_particular(tmp_path: Path) -> None:
    made = notes(tmp_path, {"b": "sea", "a": "sky"})
    assert made.found("") == [("a", 0.0), ("b", 0.0)]
    made.store.close()


def test_an_empty_table_is_searched_in_vain(tmp_path: Path) -> None:
    made = notes(tmp_path, {})
    assert made.found("sea") == []
    made.build({"a": "sea"})
    assert made.ids("sea") == ["a"]
    made.build({})
    assert made.found("sea") == []
    made.store.close()


def test_a_table_that_is_not_indexed_says_how_to(tmp_path: Path) -> None:
    made = notes(tmp_path)
    with made.store.write_transaction():
        pass
    with pytest.raises(IndexUnavailable) as refused:
        made.found("sea")
    assert str(refused.value) == "notes is not indexed by meaning: `kumi index --methods naive` does that"
    made.store.close()


def test_a_question_in_other_dimensions_says_so(tmp_path: Path) -> None:
    notes(tmp_path, {"a": "sea"}).store.close()
    other = notes(tmp_path, embed=Embed(FakeEmbedder(dimensions=8), fingerprint="another"))
    with pytest.raises(IndexUnavailable) as refused:
        other.found("sea")
    assert str(refused.value) == (
        "the notes of this index were embedded by made up: set that as `model` under [embedding] in kumi.toml, "
        "or `kumi index --yes` embeds them by another"
    )
    other.store.close()


# -- building


def test_only_new_texts_are_embedded(tmp_path: Path) -> None:
    embed = Embed()
    made = notes(tmp_path, {"a": "sea", "b": "sky"}, embed)
    assert embed.given == ["sea", "sky"]
    made.build({"a": "sea", "b": "fog", "c": "dew"}, pages=7)
    assert embed.given == ["sea", "sky", "fog", "dew"]
    made.build({"a": "sea", "b": "fog", "c": "dew"}, pages=7)
    assert len(embed.given) == 4
    made.store.close()


def test_another_embedder_embeds_all_anew(tmp_path: Path) -> None:
    texts = {"a": "sea", "b": "sky"}
    notes(tmp_path, texts).store.close()
    other = Embed(FakeEmbedder(dimensions=8), fingerprint="other")
    made = notes(tmp_path, texts, other)
    assert made.filled == [True]
    assert other.given == ["sea", "sky"]
    assert made.ids("sea", 1) == ["a"]
    made.build(texts, fingerprint="2")  # and so does other code
    assert made.filled == [True, True]
    assert made.ids("sky", 1) == ["b"]
    made.build({})  # which sweeps the files that no build needs
    assert files(tmp_path) == [("notes-3.f32", 2 * 8 * 4)]
    made.store.close()


def test_a_build_in_progress_disturbs_no_search(tmp_path: Path) -> None:
    made = notes(tmp_path, {"a": "sea", "b": "sky"})
    before = made.found("sea")
    with made.searching() as early:
        with made.building({"b": "sea sky", "c": "sea"}):
            assert early("sea", 9) == before
            assert made.found("sea") == before
        assert early("sea", 9) == before
        assert made.ids("sea") == ["c", "b"]
    made.store.close()


@pytest.mark.parametrize("mark", ["1", "2"])
def test_an_aborted_build_leaves_the_searches_as_they_were(tmp_path: Path, mark: str) -> None:
    made = notes(tmp_path, {"a": "sea", "b": "sky"})
    before = made.found("sea")

    def aborted() -> None:
        with made.building({"b": "fog", "c": "sea", "d": "dew"}, fingerprint=mark):
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            aborted()
        assert made.found("sea") == before
    made.build({"a": "sea", "b": "sky", "e": "sea ice"})
    fresh = notes(tmp_path / "fresh", {"a": "sea", "b": "sky", "e": "sea ice"})
    for question in ("sea", "sky", "ice", "fog"):
        assert made.found(question) == fresh.found(question)
    assert files(tmp_path) == [("notes-1.f32", 3 * 32 * 4)]  # what was aborted is written over
    made.store.close()
    fresh.store.close()


def test_half_of_no_use_is_copied_away(tmp_path: Path) -> None:
    texts = mixed(1300)
    kept = dict(list(texts.items())[::3])
    made, fresh = notes(tmp_path, texts), notes(tmp_path / "fresh", kept)
    with made.searching() as early:
        before = early("sea sky", 20)
        made.build(kept)
        assert early("sea sky", 20) == before  # the old file is there as long as a reader needs it
    for question in ("sea sky", "ferry boat", "silk"):
        assert made.found(question, 20) == fresh.found(question, 20)
    assert [name for name, _ in files(tmp_path)] == ["notes-1.f32", "notes-2.f32"]
    made.build(kept)
    assert files(tmp_path) == [("notes-2.f32", 434 * 32 * 4)]
    assert made.filled == [True, False, False]
    assert made.found("sea sky", 20) == fresh.found("sea sky", 20)
    made.build({**kept, "new": "sea sky"})
    assert made.ids("sea sky", 999)[0] in ("new", *kept)
    assert "new" in made.ids("sea sky", 999)
    made.store.close()
    fresh.store.close()


def test_an_aborted_copy_leaves_the_searches_as_they_were(tmp_path: Path) -> None:
    texts = mixed(1300)
    kept = dict(list(texts.items())[::3])
    made = notes(tmp_path, texts)
    before = made.found("sea sky", 20)

    def aborted() -> None:
        with made.building(kept):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        aborted()
    assert made.found("sea sky", 20) == before
    made.build(kept)
    fresh = notes(tmp_path / "fresh", kept)
    assert made.found("sea sky", 20) == fresh.found("sea sky", 20)
    made.store.close()
    fresh.store.close()


@pytest.mark.parametrize("left", [None, 0, 100])
def test_a_file_that_is_lost_is_made_again(tmp_path: Path, left: int | None) -> None:
    texts = {"a": "sea", "b": "sky"}
    made = notes(tmp_path, texts)
    before = made.found("sea")
    made.store.close()
    path = tmp_path / "vectors" / "notes-1.f32"
    if left is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:left])
    made = notes(tmp_path, texts)
    assert made.filled == [True]
    assert made.found("sea") == before
    made.store.close()


def test_vectors_wait_for_each_other_and_none_is_left_behind(tmp_path: Path) -> None:
    sizes: list[int] = []

    def make(texts: Sequence[str]) -> Vectors:
        sizes.append(len(texts))
        return FakeEmbedder()(texts)

    made = notes(tmp_path, mixed(600), Embed(make))
    assert (max(sizes), sum(sizes)) == (256, len(set(mixed(600).values())))  # equal texts are embedded once
    assert len(made.ids("sea", 999)) == 600
    made.store.close()


def test_a_row_that_changes_twice_in_one_build_has_its_last_vector_or_none(tmp_path: Path) -> None:
    made = notes(tmp_path, {})
    encode = codec(Note).encode
    one, two = (encode("a", Note(text=text)) for text in ("sea", "sky"))
    with made.store.write_transaction() as db:
        view = made.view(db)
        view.ensure("1")
        view.replace([], [one])
        view.replace([one], [two])
        db.many("INSERT INTO notes VALUES (?, ?, ?)", [two])
        gone = encode("b", Note(text="sky"))
        view.replace([], [gone])
        view.replace([gone], [])
        view.finish()
    assert [(id, round(score, 6)) for id, score in made.found("sky")] == [("a", 1.0)]
    assert files(tmp_path) == [("notes-1.f32", 32 * 4)]
    made.store.close()
