"""One call words the question anew, each wording is searched, and a chunk counts by the best that any says of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import ItemFailed, MalformedReply, SettingsError, UnparsableReply
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.methods.naive import naive
from kumihimo.methods.rq import _merge_rankings, rq
from kumihimo.methods.shared.hybrid_search import hybrid_search, new_questions
from tests.methods.factories_search import Nearby, Scripted, chunk, match, near, rank, ruler, table

QUESTION = "Who lit the lamp that burnt the mill?"
TEXTS = [
    "The mill burnt when a lamp fell.",
    "Bo Lind trimmed every wick on Sunday.",
    "Ruta Haverlock sold eels.",
    "Ferries leave at nine in winter.",
    "Oats are sown in April.",
]
CHUNKS = table("chunks", Chunk, {f"d0.{n:05}": chunk(text) for n, text in enumerate(TEXTS)})


@dataclass
class Noted(Nearby):
    """It notes what is searched."""

    searched: list[list[str]] = field(default_factory=list)

    def search_many(self, table: Table[Any], texts: Sequence[str], **options: Any) -> list[Context]:
        self.searched.append(list(texts))
        return super().search_many(table, texts, **options)


class Unread(Scripted):
    """A model whose replies may be no good: that ends as it does where it has been asked three times."""

    def __call__(self, prompt: Any, *, schema: Any = None, parse: Any = None, **_: Any) -> Any:
        try:
            return super().__call__(prompt, schema=schema, parse=parse)
        except MalformedReply as wrong:
            raise UnparsableReply("three replies that cannot be read") from wrong


def said(rewrite: str = "", decompose: tuple[str, ...] = (), disambiguate: tuple[str, ...] = ()) -> dict[str, object]:
    return {"rewrite": rewrite, "decompose": list(decompose), "disambiguate": list(disambiguate)}


def searched(ask: Scripted, question: str = QUESTION, **settings: Any) -> list[list[str]]:
    """The questions that are searched, round by round."""
    noted = Noted()
    rq(question, CHUNKS, ask, match, noted, ruler, rank, **settings)
    return noted.searched


def test_the_question_comes_first_then_its_wording_its_parts_and_its_meanings() -> None:
    ask = Scripted(lambda _: said("Mill fire?", ("Who trimmed wicks?", "What fell?"), ("Which mill?",)))
    assert searched(ask) == [[QUESTION, "Mill fire?", "Who trimmed wicks?", "What fell?", "Which mill?"]]
    assert len(ask.asked) == 1


def test_what_was_searched_for_is_told() -> None:
    ask = Scripted(lambda _: said("Mill fire?", ("Who trimmed wicks?",)))
    context = rq(QUESTION, CHUNKS, ask, match, near, ruler, rank, k=1)
    assert context.queries == ("Mill fire?", "Who trimmed wicks?")


def test_at_most_so_many_are_searched() -> None:
    ask = Scripted(lambda _: said("Mill fire?", tuple(f"Part {n}?" for n in range(9))))
    assert searched(ask) == [[QUESTION, "Mill fire?", "Part 0?", "Part 1?", "Part 2?"]]
    assert searched(ask, queries=2) == [[QUESTION, "Mill fire?"]]
    assert searched(ask, queries=1) == [[QUESTION]]


def test_what_asks_for_the_same_is_searched_once() -> None:
    ask = Scripted(
        lambda _: said("The lamp that burnt the mill: who lit it", (" Who sold eels? ", "who sold the eels"))
    )
    assert searched(ask) == [[QUESTION, "Who sold eels?"]]
    assert searched(Scripted(lambda _: said("?", ("", "  "))), "?") == [["?"]]
    assert new_questions(["Who sold eels?"], ["eels: sold"]) == []


def test_where_nothing_is_needed_it_finds_what_plain_search_finds() -> None:
    plainly = naive(QUESTION, CHUNKS, match, near, ruler, rank)
    for ask in (Unread(lambda _: said()), Unread(lambda _: "I cannot say.")):
        found = rq(QUESTION, CHUNKS, ask, match, near, ruler, rank)
        assert [item.reference for item in found] == [item.reference for item in plainly]


def test_a_reply_that_cannot_be_read_leaves_the_question(caplog: pytest.LogCaptureFixture) -> None:
    assert searched(Unread(lambda _: "I cannot say.")) == [[QUESTION]]
    assert "rq searches for no further questions: " in caplog.text
    ask = Unread(lambda told: "No." if "Searched so far" in told else said("Mill fire?"))
    assert searched(ask, depth=2) == [[QUESTION, "Mill fire?"]]
    ask = Unread(lambda told: said("Mill fire?") if "Searched so far" in told else "No.")
    assert searched(ask, depth=2) == [[QUESTION], ["Mill fire?"]]


def test_a_server_that_does_not_answer_is_an_error() -> None:
    def down(_: str) -> object:
        raise ItemFailed("no answer in 60 s")

    with pytest.raises(ItemFailed, match="no answer"):
        searched(Scripted(down))


def test_a_part_finds_what_the_question_does_not() -> None:
    ask = Scripted(lambda _: said(decompose=("Who trimmed every wick on Sunday?",)))
    assert [item.text for item in rq(QUESTION, CHUNKS, ask, match, near, ruler, rank, k=2)] == TEXTS[:2]
    assert [item.text for item in rq(QUESTION, CHUNKS, ask, match, near, ruler, rank, k=1)] == TEXTS[:1]
    assert not rq(QUESTION, CHUNKS, ask, match, near, ruler, rank, budget=1)


def test_a_row_has_the_best_of_its_scores_and_those_of_other_questions_count_less() -> None:
    rows = {name: Evidence("chunks", CHUNKS[f"d0.{n:05}"], 0.0) for n, name in enumerate("abcd")}

    def ranking(**scores: float) -> Context:
        return Context(tuple(Evidence("chunks", rows[name].record, score) for name, score in scores.items()))

    # spread from 0 to 1:  a 1, b .5, c 0      then .9 of: d 1, b .75, a 0
    found = _merge_rankings([ranking(a=8.0, b=6.0, c=4.0), ranking(d=0.9, b=0.8, a=0.5)])
    assert [item.record.id[-1] for item in found] == ["0", "3", "1", "2"]
    assert [item.score for item in found] == pytest.approx([1.0, 0.9, 0.675, 0.0])
    assert not _merge_rankings([Context(), Context()])


def test_the_second_round_is_shown_what_was_found_and_searches_what_is_new() -> None:
    again = said("Who trimmed wicks?", ("Mill fire?", "Where was Bo Lind?"))
    ask = Scripted(lambda told: again if "Searched so far" in told else said("Mill fire?"))
    assert searched(ask, depth=2, queries=2) == [[QUESTION, "Mill fire?"], ["Who trimmed wicks?", "Where was Bo Lind?"]]
    first, second = ask.asked
    assert not any(text in first for text in TEXTS)
    assert TEXTS[0] in second
    assert f"- {QUESTION}\n- Mill fire?\n" in second
    assert second.endswith(f"Question: {QUESTION}")
    searched(ask, depth=2, shown=8)
    assert [text for text in TEXTS if text in ask.asked[-1]] == TEXTS[:1]


def test_rounds_end_when_there_is_nothing_new() -> None:
    ask = Scripted(lambda _: said("Mill fire?"))
    assert searched(ask, depth=9) == [[QUESTION, "Mill fire?"]]
    assert len(ask.asked) == 2
    ask = Scripted(lambda told: said(f"Part {told.count('- Part')}?"))
    assert searched(ask, depth=3) == [[QUESTION, "Part 0?"], ["Part 1?"], ["Part 2?"]]
    nothing = Scripted(lambda _: said())
    assert not rq(QUESTION, table("chunks", Chunk, {}), nothing, match, near, ruler, rank, depth=2)
    assert len(nothing.asked) == 1  # nothing was found that could be shown


def test_no_prompt_holds_an_id_or_a_score() -> None:
    ask = Scripted(lambda told: said("Mill fire?"))
    rq(QUESTION, CHUNKS, ask, match, near, ruler, rank, depth=2)
    assert all(re.search(r"\d", told.replace(QUESTION, "")) is None for told in ask.asked)


def test_less_than_one_is_refused_before_anybody_is_asked() -> None:
    ask = Scripted(lambda _: said())
    with pytest.raises(SettingsError, match=r"rq\.depth = 0.* 1 or more"):
        searched(ask, depth=0)
    with pytest.raises(SettingsError, match=r"rq\.queries = 0.* 1 or more"):
        searched(ask, queries=0)
    assert not ask.asked


def test_several_questions_are_searched_as_each_alone() -> None:
    questions = [QUESTION, "Who sold eels?"]
    together = hybrid_search(questions, CHUNKS, match, near, pool=3, meaning=0.5)
    assert together == [hybrid_search([one], CHUNKS, match, near, pool=3, meaning=0.5)[0] for one in questions]
    alone = Context.fuse([match(CHUNKS, QUESTION, k=3), near(CHUNKS, QUESTION, k=3)], weights=[1.0, 0.5])
    assert together[0] == alone
