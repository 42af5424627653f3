"""keyword search and vector search -> the same promises: order, ties, limits, filters, changes, errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

import pytest

from kumihimo.core.errors import IndexUnavailable
from tests.search.factories_search_index import Notes, mixed_texts
from tests.search.search_process import MAKE, find_hits

REPOSITORY = Path(__file__).parents[2]
MakeIndex = Callable[..., Notes]  # texts of the first build or None, folder= -> notes


@pytest.fixture(params=MAKE)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def make_index(kind: str, tmp_path: Path) -> Iterator[MakeIndex]:
    """Return a function that makes notes with an index of this kind."""
    made: list[Notes] = []

    def make(texts: Mapping[str, str] | None = None, *, folder: str = "index") -> Notes:
        made.append(MAKE[kind](tmp_path / folder, texts))
        return made[-1]

    yield make
    for index in made:
        index.store.close()


def found(index: Notes, question: str) -> list[str]:
    """Return the ids with a score: vector search also returns rows that have nothing of the question."""
    return [id for id, score in index.search_notes(question, 999) if score > 1e-6]


# -- order and limits


@pytest.mark.parametrize("question", ["sea", "ferry boat sea", "silk of the loom"])
def test_at_most_k_rows_best_first_each_once(make_index: MakeIndex, question: str) -> None:
    index = make_index(mixed_texts(400))
    everything = index.search_notes(question, 999)
    assert len(everything) > 50
    assert everything == sorted(everything, key=lambda hit: (-hit[1], hit[0]))
    assert len({id for id, _ in everything}) == len(everything)
    for k in (1, 3, 50, 399, 400):
        assert index.search_notes(question, k) == everything[:k]


def test_equal_scores_are_in_order_of_ids_beyond_any_limit(make_index: MakeIndex) -> None:
    ids = [f"{i * 7919 % 500:03d}" for i in range(500)]  # shuffled
    index = make_index({})
    index.build({**{id: "the same sea" for id in ids}, "x": "sky"})  # inserted in this order
    assert index.ids("sea", k=7) == sorted(ids)[:7]
    assert index.ids("sea", k=499) == sorted(ids)[:499]
    assert len({score for _, score in index.search_notes("sea", k=500)}) == 1


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_finds_nothing(make_index: MakeIndex, k: int) -> None:
    assert make_index({"a": "sea", "b": "sky", "c": "fog"}).ids("sea", k=k) == []


@pytest.mark.parametrize("question", ["", " ", "\n\t"])
def test_an_empty_query_is_like_no_row(make_index: MakeIndex, kind: str, question: str) -> None:
    hits = make_index({"c": "sea", "a": "sky", "b": "fog"}).search_notes(question, k=2)
    assert hits == ([] if kind == "keyword" else [("a", 0.0), ("b", 0.0)])


def test_an_empty_table_finds_nothing(make_index: MakeIndex) -> None:
    index = make_index({})
    assert index.search_notes("sea") == index.search_notes("") == []
    index.build({"a": "sea", "b": "sky", "c": "fog"})
    assert found(index, "sea") == ["a"]
    index.build({})
    assert index.search_notes("sea") == []


def test_filter_applies_before_the_limit(make_index: MakeIndex) -> None:
    random, texts = Random(7), mixed_texts(400)
    index = make_index(texts)
    everything = index.search_notes("sea fog", k=400)
    for _ in range(60):
        visible = set(random.sample(sorted(texts), random.choice([0, 1, 5, 60, 399, 400])))
        k = random.choice([1, 2, 10, 100, 500])
        hits, _ = index.filtered("sea fog", k, visible)
        assert hits == [(id, score) for id, score in everything if id in visible][:k]


# -- changing rows


def test_a_row_is_found_as_it_is_now(make_index: MakeIndex) -> None:
    others = {id: word for id, word in zip("uvwxyz", ("sky", "fog", "dew", "ice", "rain", "oat"), strict=True)}
    index = make_index({"a": "sea", **others})
    before = index.search_notes("sea")
    index.build({"a": "sea", "d": "sea", **others})
    assert found(index, "sea") == ["a", "d"], "added"
    index.build({"a": "silk", "d": "sea", **others})
    assert (found(index, "sea"), found(index, "silk")) == (["d"], ["a"]), "changed"
    index.build({"a": "silk", **others})
    assert found(index, "sea") == [], "removed"
    assert "d" not in index.ids("sea", 999)
    index.build({"a": "sea", **others})
    assert index.search_notes("sea") == before, "returned"
    assert index.was_empty == [True, *[False] * 4]


def test_former_rows_leave_no_trace(make_index: MakeIndex) -> None:
    former = {f"a{i:03d}": "sea" for i in range(200)}
    before = {"a": "sea sky", "b": "sea sun sun", "c": "fog fog fog", "d": "the sea 港 and the fog"}
    after = {"b": "sun", "d": "the sea 港 and the fog", "e": "sea", **mixed_texts(100)}
    changed, fresh = make_index(former | before), make_index(after, folder="fresh")
    changed.build(before)
    changed.build(after)
    for question in ("sea", "fog", "sun", "sky", "港", "sea fog sun"):
        assert changed.search_notes(question, 999) == fresh.search_notes(question, 999)  # also the scores


def test_the_order_of_builds_does_not_matter(make_index: MakeIndex) -> None:
    texts = mixed_texts(300)
    reversed_texts = list(reversed(texts.items()))
    one, two = make_index(texts), make_index({}, folder="two")
    for i in range(0, 300, 70):
        two.build(dict(reversed_texts[: i + 70]))
    for question in ("sea sky", "ferry oat"):
        assert one.search_notes(question, 20) == two.search_notes(question, 20)  # bit-identical


def test_another_fingerprint_fills_the_index_anew(make_index: MakeIndex) -> None:
    texts = {"a": "sea", "b": "sky", "c": "fog"}
    index = make_index(texts)
    before = index.search_notes("sea")
    index.build(texts)
    index.build(texts, fingerprint="2")
    index.build(texts, fingerprint="2")
    assert index.was_empty == [True, False, True, False]
    assert index.search_notes("sea") == before


# -- builds beside searches


def test_a_reader_searches_its_own_build(make_index: MakeIndex) -> None:
    index = make_index({"a": "sea", "b": "sky", "c": "fog"})
    before = index.search_notes("sea")
    with index.open_search() as search:
        with index.open_build({"b": "sea", "c": "fog", "d": "dew"}):
            assert search("sea", 10) == index.search_notes("sea") == before
        assert search("sea", 10) == before
        assert found(index, "sea") == ["b"]


@pytest.mark.parametrize("fingerprint", ["1", "2"])
def test_an_aborted_build_changes_nothing(make_index: MakeIndex, fingerprint: str) -> None:
    texts = {"a": "sea", "b": "sky", "e": "rain"}
    index = make_index(texts)
    questions = ("sea", "sky", "fog", "rain")
    before = [index.search_notes(question) for question in questions]

    def abort_build() -> None:
        with index.open_build({"b": "fog", "c": "sea", "d": "dew"}, fingerprint=fingerprint):
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            abort_build()
        assert [index.search_notes(question) for question in questions] == before
    more = {**texts, "f": "sea ice"}
    index.build(more)
    fresh = make_index(more, folder="fresh")
    for question in (*questions, "ice"):
        assert index.search_notes(question) == fresh.search_notes(question)


def test_a_table_without_an_index_names_the_command(make_index: MakeIndex, kind: str) -> None:
    index = make_index()
    with index.store.write_transaction():
        pass
    with pytest.raises(IndexUnavailable) as error:
        index.search_notes("sea")
    means, method = {"keyword": ("words", "bm25"), "vector": ("meaning", "naive")}[kind]
    assert str(error.value) == f"notes is not indexed by {means}: `kumi index --methods {method}` does that"


def test_another_process_finds_the_same(kind: str, tmp_path: Path) -> None:
    here = json.dumps(find_hits(kind, tmp_path / "here"))
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "tests.search.search_process", kind, str(tmp_path / seed)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        process = subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120, check=True
        )
        assert process.stdout.strip() == here
