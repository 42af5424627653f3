"""rows -> batches -> points: independent of order; zeros and wrong numbers dropped."""

from __future__ import annotations

import pytest

from kumihimo.core.context import Context, Evidence, KeyPoint
from kumihimo.core.errors import MalformedReply
from kumihimo.methods.shared.map_step import (
    batch_evidence,
    cited_references,
    extract_points,
    make_point,
    rank_points,
    shuffle_ids,
)
from tests.methods.factories_search import ScriptedLLM, chunk, tokenizer


def chunk_rows(*texts: str) -> list[Evidence]:
    chunks = [(f"d.{n:05}", chunk(text)) for n, text in enumerate(texts)]
    return [
        Evidence("chunks", type(c)(text=c.text, title="", start=0, end=0, tokens=c.tokens, id=id), 0)
        for id, c in chunks
    ]


def point_rows(context: Context) -> list[tuple[str, float, tuple[tuple[str, str], ...]]]:
    return [
        (item.text, item.score, item.record.sources)
        for item in context
        if isinstance(item.record, KeyPoint) and item.table == "points"
    ]


def test_shuffle_depends_on_ids_and_seed_only() -> None:
    ids = [f"c{n}" for n in range(20)]
    assert shuffle_ids(ids, 0) == shuffle_ids(reversed(ids), 0) != ids
    assert shuffle_ids(ids, 0) != shuffle_ids(ids, 1)
    assert [id for id in shuffle_ids(ids, 0) if id in ids[:5]] == shuffle_ids(
        ids[:5], 0
    )  # other ids do not change the order


def test_batches_fit_the_window_and_long_rows_stand_alone() -> None:
    points_found = batch_evidence(chunk_rows("a b", "c d", "e", "f g h i j k l", "m"), 4, tokenizer)
    assert [[row.text for row in batch] for batch in points_found] == [["a b", "c d"], ["e"], ["f g h i j k l"], ["m"]]
    assert list(batch_evidence([], 4, tokenizer)) == []


def test_a_point_rests_on_five_rows_at_most_the_first_that_it_names() -> None:
    rows = chunk_rows(*"abcdefgh")
    assert cited_references([8, 7, 99, 1, 2, 3, 4], rows) == tuple(rows[n].reference for n in (0, 1, 2, 6, 7))
    assert len(cited_references([0, 99], rows)) == 8


def test_points_are_ranked_without_zeros() -> None:
    def answer(text: str) -> object:
        if "ferry" in text:
            return {
                "answer": [
                    {"description": "It leaves.", "score": 40, "sources": [1]},
                    {"description": "No.", "score": 0, "sources": [1]},
                ]
            }
        return {"answer": [{"description": "It burnt.", "score": 900, "sources": [2]}]}

    llm = ScriptedLLM(answer)
    points_found = extract_points(
        "What happened?",
        batch_evidence(chunk_rows("the ferry left", "a cat", "the mill burnt"), 6, tokenizer),
        llm,
        tokenizer,
    )
    assert len(llm.prompts) == 2
    assert point_rows(points_found) == [
        ("It burnt.", 100.0, (("chunks", "d.00002"),)),  # the batch has a single row
        ("It leaves.", 40.0, (("chunks", "d.00000"),)),
    ]


def test_invalid_numbers_cite_the_whole_batch() -> None:
    three = chunk_rows("one", "two", "three")
    assert cited_references([3, 9, 1, 0, -1, 3], three) == (("chunks", "d.00000"), ("chunks", "d.00002"))
    assert cited_references([7], three) == tuple(row.reference for row in three)
    llm = ScriptedLLM(
        lambda _: [{"description": "So.", "score": 9, "sources": [7]}, {"description": " ", "score": 9, "sources": [1]}]
    )
    (only,) = extract_points("?", [three], llm, tokenizer)
    assert (only.text, only.record.parents()) == ("So.", cited_references([7], three))


def test_malformed_reply_raises() -> None:
    with pytest.raises(MalformedReply):
        extract_points("?", [chunk_rows("one")], ScriptedLLM(lambda _: "I cannot say."), tokenizer)


def test_no_points_from_empty_replies() -> None:
    assert len(extract_points("?", [chunk_rows("one", "two")], ScriptedLLM(lambda _: []), tokenizer)) == 0


def test_equal_points_are_sorted_by_text() -> None:
    points_made = [make_point(text, [("chunks", "a")], tokenizer) for text in ("b b", "a a a", "c")]
    assert [item.text for item in rank_points((5.0, p) for p in points_made).fit(4, tokenizer)] == ["a a a", "c"]
    assert make_point("x", [("chunks", "a")], tokenizer).id != make_point("x", [("reports", "a")], tokenizer).id
