"""Rows -> batches -> points: the same wherever they were made, zeros and wrong numbers left out."""

from __future__ import annotations

import pytest

from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import MalformedReply
from kumihimo.core.records import KeyPoint
from kumihimo.methods.shared.map_step import (
    batch_evidence,
    cited_references,
    extract_points,
    format_sources,
    make_point,
    rank_points,
    shuffle_ids,
)
from tests.methods.factories_search import Scripted, chunk, report, ruler


def rows(*texts: str) -> list[Evidence]:
    made = [(f"d.{n:05}", chunk(text)) for n, text in enumerate(texts)]
    return [
        Evidence("chunks", type(c)(text=c.text, title="", start=0, end=0, tokens=c.tokens, id=id), 0) for id, c in made
    ]


def points(context: Context) -> list[tuple[str, float, tuple[tuple[str, str], ...]]]:
    return [
        (item.text, item.score, item.record.sources)
        for item in context
        if isinstance(item.record, KeyPoint) and item.table == "points"
    ]


def test_the_order_is_that_of_the_digests_alone() -> None:
    ids = [f"c{n}" for n in range(20)]
    assert shuffle_ids(ids, 0) == shuffle_ids(reversed(ids), 0) != ids
    assert shuffle_ids(ids, 0) != shuffle_ids(ids, 1)
    assert [id for id in shuffle_ids(ids, 0) if id in ids[:5]] == shuffle_ids(
        ids[:5], 0
    )  # what comes or goes moves nothing


def test_a_batch_holds_what_the_window_takes_and_a_long_row_stands_alone() -> None:
    found = batch_evidence(rows("a b", "c d", "e", "f g h i j k l", "m"), 4, ruler)
    assert [[row.text for row in batch] for batch in found] == [["a b", "c d"], ["e"], ["f g h i j k l"], ["m"]]
    assert list(batch_evidence([], 4, ruler)) == []


def test_points_come_best_first_and_zeros_are_dropped() -> None:
    def answer(told: str) -> object:
        if "ferry" in told:
            return {
                "answer": [
                    {"description": "It leaves.", "score": 40, "sources": [1]},
                    {"description": "No.", "score": 0, "sources": [1]},
                ]
            }
        return {"answer": [{"description": "It burnt.", "score": 900, "sources": [2]}]}

    ask = Scripted(answer)
    found = extract_points("What happened?", rows("the ferry left", "a cat", "the mill burnt"), ask, ruler, window=6)
    assert len(ask.asked) == 2
    assert points(found) == [
        ("It burnt.", 100.0, (("chunks", "d.00002"),)),  # of a single row, whatever is named
        ("It leaves.", 40.0, (("chunks", "d.00000"),)),
    ]


def test_where_no_number_is_right_a_point_rests_on_one_of_all_that_was_read() -> None:
    three = rows("one", "two", "three")
    assert cited_references([3, 9, 1, 0, -1, 3], three) == (("chunks", "d.00000"), ("chunks", "d.00002"))
    assert cited_references([7], three) == tuple(row.reference for row in three)
    ask = Scripted(
        lambda _: [{"description": "So.", "score": 9, "sources": [7]}, {"description": " ", "score": 9, "sources": [1]}]
    )
    (only,) = extract_points("?", three, ask, ruler, window=99)
    assert (only.text, only.record.parents()) == ("So.", cited_references([7], three))


def test_a_reply_that_cannot_be_read_is_no_zero() -> None:
    with pytest.raises(MalformedReply):
        extract_points("?", rows("one"), Scripted(lambda _: "I cannot say."), ruler, window=9)


def test_nothing_helps_and_nothing_is_given() -> None:
    assert len(extract_points("?", rows("one", "two"), Scripted(lambda _: []), ruler, window=9)) == 0


def test_references_within_a_report_are_not_told() -> None:
    said = report("It burnt [Data: Entities (5, 7); Sources (2)]. So they say.")
    assert format_sources([Evidence("reports", said, 0.0)]) == "[1]\nIt burnt. So they say."


def test_equal_points_stand_in_the_order_of_their_texts_and_fill_the_window() -> None:
    made = [make_point(text, [("chunks", "a")], ruler) for text in ("b b", "a a a", "c")]
    assert [item.text for item in rank_points((5.0, p) for p in made).fit(4, ruler)] == ["a a a", "c"]
    assert make_point("x", [("chunks", "a")], ruler).id != make_point("x", [("reports", "a")], ruler).id
