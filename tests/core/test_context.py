"""evidence -> Context: no duplicates, fitting into a budget, fusing rankings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kumihimo.core.context import Context, Evidence
from kumihimo.core.records import Chunk, Record
from kumihimo.core.spans import Explanation, Phrase, Reason, Span


class Words:
    """A tokenizer with a token for each word."""

    fingerprint = "words"

    def __call__(self, text: str) -> Sequence[int]:
        return [i for i, char in enumerate(text) if not char.isspace() and (i == 0 or text[i - 1].isspace())]


def make_context(*hits: tuple[str, float], table: str = "t") -> Context:
    return Context(tuple(Evidence(table, Record(id=id, text=id), score) for id, score in hits))


def ids_and_scores(context: Context) -> list[tuple[str, float]]:
    return [(item.record.id, round(item.score, 6)) for item in context]


def test_a_row_met_twice_keeps_its_first_place_and_score() -> None:
    assert ids_and_scores(make_context(("b", 3.0), ("a", 2.0), ("b", 9.0))) == [("b", 3.0), ("a", 2.0)]


def test_the_same_id_in_two_tables_is_two_rows() -> None:
    both = make_context(("a", 1.0)) + make_context(("a", 1.0), table="u")
    assert [item.reference for item in both] == [("t", "a"), ("u", "a")]


def test_adding_puts_the_right_after_the_left() -> None:
    assert ids_and_scores(make_context(("a", 0.1)) + make_context(("b", 5.0), ("a", 7.0))) == [("a", 0.1), ("b", 5.0)]
    assert ids_and_scores(make_context(("b", 5.0), ("a", 7.0)) + make_context(("a", 0.1))) == [("b", 5.0), ("a", 7.0)]
    assert (
        ids_and_scores(Context() + make_context(("a", 1.0)))
        == ids_and_scores(make_context(("a", 1.0)) + Context())
        == [("a", 1.0)]
    )


def test_the_first_k() -> None:
    three = make_context(("c", 3.0), ("b", 2.0), ("a", 1.0))
    assert ids_and_scores(three.top(2)) == [("c", 3.0), ("b", 2.0)]
    assert ids_and_scores(three.top(0)) == []
    assert len(three.top(9)) == 3


def test_what_is_too_long_gives_way_to_what_comes_after_it() -> None:
    ranked = make_context(("one two", 4.0), ("one two three", 3.0), ("one", 2.0), ("four", 1.0))
    # 4 tokens: 2 for the first, the second needs 3, then 1 and 1
    assert [item.text for item in ranked.fit(4, Words())] == ["one two", "one", "four"]
    assert [item.text for item in ranked.fit(5, Words())] == ["one two", "one two three"]
    assert [item.text for item in ranked.fit(1, Words())] == ["one"]
    assert len(ranked.fit(0, Words())) == 0


def test_a_row_that_knows_its_tokens_is_not_counted_again() -> None:
    chunk = Chunk(id="d.00000", title="", start=0, end=7, tokens=5, text="one two")
    assert Evidence("chunks", chunk, 1.0).tokens(Words()) == 5
    assert len(Context((Evidence("chunks", chunk, 1.0),)).fit(4, Words())) == 0


def test_a_tokens_column_of_another_kind_is_no_count() -> None:
    @dataclass(frozen=True, slots=True)
    class Odd(Record):
        tokens: str = "many"

    assert Evidence("t", Odd(text="one two"), 1.0).tokens(Words()) == 2


def test_fusing_spreads_weighs_and_adds() -> None:
    words = make_context(("a", 8.0), ("b", 4.0), ("c", 2.0))  # scaled: a (8-2)/6 = 1, b (4-2)/6 = .333333, c 0
    meaning = make_context(("b", 0.9), ("a", 0.3))  # scaled: b 1, a 0
    assert ids_and_scores(Context.fuse([words, meaning])) == [("b", 1.333333), ("a", 1.0), ("c", 0.0)]
    # a: 3 * 1 + .5 * 0 = 3; b: 3 * .333333 + .5 * 1 = 1.5
    assert ids_and_scores(Context.fuse([words, meaning], weights=[3, 0.5])) == [("a", 3.0), ("b", 1.5), ("c", 0.0)]


def test_scores_below_zero_are_spread_too() -> None:
    assert ids_and_scores(Context.fuse([make_context(("a", -1.0), ("b", -2.0), ("c", -3.0))])) == [
        ("a", 1.0),
        ("b", 0.5),
        ("c", 0.0),
    ]


def test_equals_come_in_the_order_of_table_and_id() -> None:
    fused = Context.fuse([make_context(("b", 2.0)), make_context(("c", 7.0), table="s"), make_context(("a", 1.0))])
    assert [(item.table, item.record.id, item.score) for item in fused] == [
        ("s", "c", 1.0),
        ("t", "a", 1.0),
        ("t", "b", 1.0),
    ]


def test_fusing_does_not_depend_on_the_order_of_the_contexts() -> None:
    one, two = make_context(("a", 3.0), ("b", 2.0), ("c", 1.0)), make_context(("c", 4.0), ("b", 3.0), ("d", 2.0))
    expected = [("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", 0.0)]  # b: .5 + .5
    assert ids_and_scores(Context.fuse([one, two])) == ids_and_scores(Context.fuse([two, one])) == expected


def test_rows_that_a_search_finds_alike_count_in_full() -> None:
    alike = make_context(("z", 0.4), ("a", 0.4))
    assert ids_and_scores(Context.fuse([make_context(("a", 2.0), ("b", 1.0)), alike])) == [
        ("a", 2.0),
        ("z", 1.0),
        ("b", 0.0),
    ]


def test_fusing_nothing_gives_nothing() -> None:
    assert ids_and_scores(Context.fuse([])) == ids_and_scores(Context.fuse([Context(), Context()])) == []
    assert ids_and_scores(Context.fuse([Context(), make_context(("a", 3.0))], weights=[5, 2])) == [("a", 2.0)]


def test_what_was_searched_for_is_kept_whatever_becomes_of_the_evidence() -> None:
    one = Context(make_context(("a", 1.0), ("b", 0.5)).evidence, ("Which?", "When?"))
    other = Context(make_context(("c", 1.0)).evidence, ("When?", "Who?"))
    assert one.top(1).queries == one.fit(0, Words()).queries == ("Which?", "When?")
    assert (one + other).queries == Context.fuse([one, other]).queries == ("Which?", "When?", "Who?")


def test_rows_that_say_the_same_are_told_and_measured_together() -> None:
    rows = [Record(id=id, text=text) for id, text in (("a", "At nine."), ("b", "At ten."), ("c", "At nine."))]
    item = Evidence("t", rows[0], 0.5, duplicates=(rows[1], rows[2]))
    assert item.prompt_text == "At nine.\n\nAt ten."
    assert item.tokens(Words()) == 6
    assert [part.reference for part in item.parts] == [("t", "a"), ("t", "b"), ("t", "c")]
    (fused,) = Context.fuse([Context((item,))])
    assert (fused.duplicates, fused.score) == (item.duplicates, 1.0)


PASSAGE = Chunk(id="c", title="Gates & doors", start=0, end=9, tokens=3, text="One <b>. Two. Three.")


def test_evidence_reads_as_ranked_titles_and_snippets() -> None:
    context = Context((Evidence("chunks", PASSAGE, 1.0), Evidence("t", Record(id="r", text="y" * 300), 0.5)))
    assert str(context).splitlines()[:3] == ["1. Gates & doors", "   One <b>. Two. Three.", "2. t:r"]
    assert str(context).endswith(f"   {'y' * 200}…")
    assert "<li><b>Gates &amp; doors</b><br>One &lt;b&gt;. Two. Three.</li>" in context._repr_html_()


SOURCE = Span("c", "notes/a.md", 3, 23, "One <b>. Two. Three.", "p. 2", "Gates", metadata={"author": "Ada"})
PLACE = {
    "document": SOURCE.document,
    "chunk": "c",
    "title": "Gates",
    "uri": "notes/a.md",
    "place": "p. 2",
    "location": "notes/a.md, p. 2",
    "start": 3,
    "end": 23,
}


def test_evidence_knows_where_it_stands() -> None:
    item = Evidence("chunks", PASSAGE, 1.0, source=SOURCE)
    assert (item.uri, item.start, item.end, item.place, item.location) == (
        "notes/a.md", 3, 23, "p. 2", "notes/a.md, p. 2",
    )  # fmt: skip
    assert (item.document, item.metadata) == (SOURCE.document, {"author": "Ada"})
    assert len(item.document) > 8
    nowhere = Evidence("chunks", PASSAGE, 1.0)
    assert (nowhere.document, nowhere.uri, nowhere.location, {**nowhere.metadata}) == ("", "", "", {})
    assert item == nowhere, "where a row stands does not make it another one"


def test_evidence_is_a_dict_as_json_has_it() -> None:
    copy = Span("d", "notes/b.md", 0, 20, "One <b>. Two. Three.")
    rows = (Record(id="d", text=PASSAGE.text), Record(id="e", text=PASSAGE.text))
    features = (("words", 0.75),)
    item = Evidence("chunks", PASSAGE, 1.0, rows[:1], features, source=SOURCE, copies=(copy,))
    value = item.to_dict(3)
    assert json.loads(json.dumps(value)) == value
    assert value == {
        **PLACE,
        "rank": 3,
        "score": 1.0,
        "table": "chunks",
        "id": "c",
        "title": "Gates & doors",
        "text": PASSAGE.text,
        "metadata": {"author": "Ada"},
        "duplicates": [{**copy.to_place(), "table": "chunks", "id": "d"}],
        "feature_scores": {"words": 0.75},
    }


def test_an_explanation_is_a_part_of_its_evidence_as_json_has_it() -> None:
    other = Span("d", "notes/b.md", 0, 9, "Four.", title="Doors")
    phrases = (Phrase("two", frozenset(["two"]), False, frozenset([2])),)
    reason = Reason(
        phrases,
        text="says “two”; continues passage 2 on Doors through Hild",
        linked=other,
        rank=2,
        continues=True,
        subject="Doors",
        entity="e7",
        name="Hild",
    )
    two = replace(SOURCE, start=12, end=16, text="Two.")
    explanation = Explanation(reason, "…Two. Three.", ((1, 4),), (two,))
    value = Evidence("chunks", PASSAGE, 1.0, source=SOURCE, explanation=explanation).to_dict(1)
    assert json.loads(json.dumps(value)) == value
    assert (value["start"], value["end"]) == (3, 23), "the place is that of the whole passage"
    assert {name: value[name] for name in ("snippet", "marks", "spans", "reason", "words", "via")} == {
        "snippet": "…Two. Three.",
        "marks": [[1, 4]],
        "spans": [{**PLACE, "start": 12, "end": 16}],
        "reason": "says “two”; continues passage 2 on Doors through Hild",
        "words": ["two"],
        "via": {**other.to_place(), "rank": 2, "continues": True, "entity": "e7", "name": "Hild"},
    }


def test_a_context_is_a_dict_as_json_has_it() -> None:
    items = (Evidence("chunks", PASSAGE, 1.0, source=SOURCE), Evidence("t", Record(id="r"), 0.5))
    rounds = (("tydes?", "tides?"), ("When?",))
    context = Context(items, ("tides?", "When?"), "a question", (("tydes", "tides"),), rounds)
    value = context.to_dict()
    assert json.loads(json.dumps(value)) == value
    assert value == {
        "queries": ["tides?", "When?"],
        "query_type": "a question",
        "replaced": [{"word": "tydes", "searched": "tides"}],
        "rounds": [{"queries": ["tydes?", "tides?"]}, {"queries": ["When?"]}],
        "evidence": [items[0].to_dict(1), items[1].to_dict(2)],
    }
