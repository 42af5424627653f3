"""evidence of several indexes -> one order: that of each index stays, and what compares between them decides."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from kumihimo import Chunk, Context, Evidence, Kumihimo
from kumihimo.app.several.merged_evidence import drop_copies, fit_to_order, match_texts, merge_evidence, name_evidence
from kumihimo.app.several.several_snapshot import read_tokens
from kumihimo.core.context import KeyPoint
from kumihimo.core.records import Entity
from kumihimo.llm.local_embedder import LocalTokenizer
from tests.fixtures_index import fill

TOKENIZER = LocalTokenizer()
QUESTION = "Who mended the pier of Orsay?"
MENDED = "Dov Marsh mended the pier of Orsay."
PIER = "The pier of Orsay is long."
OTHER = ("The ferry leaves at nine.", "Boats are tied up at dusk.", "The lamp is lit.", "Oats grow here.")


def chunks(*texts: str, start: float = 9.0) -> list[Evidence]:
    rows = [Chunk(id=f"d{n}.00000", text=text, title="", start=0, end=9, tokens=9) for n, text in enumerate(texts)]
    return [Evidence("chunks", row, start - n) for n, row in enumerate(rows)]


def entities(*names: str) -> list[Evidence]:
    rows = [Entity(id=name, name=name, type="", forms=(), types=(), mentions=1, tokens=9) for name in names]
    return [Evidence("entities", row, 1.0) for row in rows]


def merge(*contexts: list[Evidence], k: int | None = None, budget: int | None = None) -> Context:
    named = {f"i{n}": Context(tuple(items)) for n, items in enumerate(contexts)}
    return merge_evidence(QUESTION, named, TOKENIZER, k=k, budget=budget)


def order(context: Context) -> list[str]:
    return [item.text or item.title for item in context]


def test_scores_of_the_methods_do_not_decide() -> None:
    merged = merge(chunks(*OTHER[:2], start=900.0), chunks(MENDED, PIER, start=0.2))
    assert order(merged) == [MENDED, PIER, *OTHER[:2]]
    assert [item.score for item in merged][:2] == [900.0, 899.0]
    assert all(one.score >= next_one.score for one, next_one in pairwise(merged))


def test_the_order_of_each_index_stays() -> None:
    texts = [*OTHER, MENDED, PIER]
    for seed in range(20):
        shuffled = Random(seed).sample(texts, len(texts))
        one, other = shuffled[:3], shuffled[3:]
        merged = order(merge(chunks(*one), chunks(*other)))
        assert [text for text in merged if text in one] == one
        assert [text for text in merged if text in other] == other


def test_a_row_that_two_indexes_have_takes_the_better_place_and_the_first_name() -> None:
    merged = merge(chunks(*OTHER[:2], MENDED), chunks(MENDED, *OTHER[2:]))
    assert order(merged).count(MENDED) == 1
    assert (merged.evidence[0].text, merged.evidence[0].index) == (MENDED, "i0")
    repeated = merge(chunks(MENDED, MENDED, PIER), chunks(OTHER[0]))  # as one index gives it
    assert order(repeated) == [MENDED, MENDED, PIER, OTHER[0]]


def test_rows_and_tokens_are_those_of_one_search() -> None:
    two = chunks(MENDED, OTHER[0]), chunks(PIER, OTHER[1])
    assert len(merge(*two)) == 4
    assert order(merge(*two, k=2)) == [MENDED, PIER]
    assert len(merge(*two, k=1)) == 4, "an index gives more than k: then k is no limit of the whole"
    assert len(merge(*two, k=9, budget=27)) == 3
    assert len(merge(*two, budget=1)) == 2, "as many as one index needs"


def test_copies_go_and_the_best_place_stays() -> None:
    found = [name_evidence(index, item) for index, item in zip("baab", chunks(MENDED, PIER, MENDED, PIER), strict=True)]
    kept = drop_copies(Context(tuple(found)), ["a", "b"])
    assert [(item.index, item.text) for item in kept] == [("a", MENDED), ("a", PIER)]
    assert drop_copies(kept, ["a", "b"]) is kept


def test_tables_come_in_the_order_of_the_method() -> None:
    blocks = merge([*entities("a", "b"), *chunks(MENDED)], [*entities("c"), *chunks(PIER)])
    assert [item.table for item in blocks] == ["entities"] * 3 + ["chunks"] * 2
    first, second = entities("a", "b")
    mixed = merge([first, *chunks(MENDED), second], [])
    assert [item.table for item in mixed] == ["entities", "chunks", "entities"]


def test_a_model_has_rated_its_points_on_one_scale() -> None:
    def points(*scores: float) -> list[Evidence]:
        texts = [f"{MENDED if score < 50 else PIER} {score}" for score in scores]
        return [
            Evidence("points", KeyPoint(id=text, text=text, sources=(), tokens=9), score)
            for text, score in zip(texts, scores, strict=True)
        ]

    assert [item.score for item in merge(points(90.0, 20.0), points(70.0, 10.0))] == [90.0, 70.0, 20.0, 10.0]


@pytest.mark.parametrize(
    ("scores", "fitted"), [([], []), ([1, 2, 3], [2, 2, 2]), ([3, 2, 1], [3, 2, 1]), ([5, 1, 4, 0], [5, 2.5, 2.5, 0])]
)
def test_the_fit_never_rises(scores: list[float], fitted: list[float]) -> None:
    assert fit_to_order(scores) == fitted


def test_stored_tokens_match_as_the_text_does(tmp_path: Path) -> None:
    folder = fill(tmp_path, {f"notes/{n}.md": text for n, text in enumerate((MENDED, PIER, *OTHER, "組紐の工房"))})
    with Kumihimo.open(folder / ".kumi") as kumi:
        kumi.index(folder / "notes", methods=["bm25"])
        with kumi.snapshot() as snapshot:
            found = Context(tuple(Evidence("chunks", chunk, 1.0) for chunk in snapshot.table("chunks")))
            tokens = read_tokens(snapshot, found)
    texts = [item.record.prompt_text for item in found]
    assert tokens.keys() == set(texts)
    assert match_texts(QUESTION, texts, tokens) == match_texts(QUESTION, texts)
    assert match_texts("", texts) == [0.0] * len(texts)
