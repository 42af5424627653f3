"""each call sees passages and gives queries, each is searched, and the best rank of a chunk counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import ItemFailed, MalformedReply, UnparsableReply
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.methods.hyde import hyde
from kumihimo.methods.naive import naive
from kumihimo.methods.rq import _merge_rankings, rq
from kumihimo.methods.shared.ranking import hybrid_search, new_questions
from tests.fenced_texts import fenced_text
from tests.methods.factories_search import (
    FakeVectorSearch,
    ScriptedLLM,
    chunk,
    keyword_search,
    rerank,
    table,
    tokenizer,
    vector_search,
)

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
class RecordingSearch(FakeVectorSearch):
    """A vector search that records its queries."""

    searches: list[list[str]] = field(default_factory=list)

    def search_many(self, table: Table[Any], texts: Sequence[str], **options: Any) -> list[Context]:
        self.searches.append(list(texts))
        return super().search_many(table, texts, **options)


class UnreadableLLM(ScriptedLLM):
    """LLM whose unreadable replies end as after three attempts."""

    def __call__(self, prompt: Any, *, schema: Any = None, parse: Any = None, **_: Any) -> Any:
        try:
            return super().__call__(prompt, schema=schema, parse=parse)
        except MalformedReply as wrong:
            raise UnparsableReply("three replies that cannot be read") from wrong


def queries_reply(*queries: str) -> dict[str, object]:
    return {"known": "", "queries": list(queries)}


def search_rounds(llm: ScriptedLLM, question: str = QUESTION, **settings: Any) -> list[list[str]]:
    """Return the queries searched, round by round."""
    recorder = RecordingSearch()
    rq(question, CHUNKS, llm, keyword_search, recorder, tokenizer, rerank, **settings)
    return recorder.searches


def test_the_question_is_searched_before_the_first_call() -> None:
    llm = ScriptedLLM(lambda _: queries_reply("Mill fire?", "Who trimmed wicks?"))
    assert search_rounds(llm) == [[QUESTION], ["Mill fire?", "Who trimmed wicks?"]]
    assert len(llm.prompts) == 1
    assert TEXTS[0] in llm.prompts[0]


def test_context_has_queries() -> None:
    llm = ScriptedLLM(lambda _: queries_reply("Mill fire?", "Who trimmed wicks?"))
    context = rq(QUESTION, CHUNKS, llm, keyword_search, vector_search, tokenizer, rerank, k=1)
    assert context.queries == ("Mill fire?", "Who trimmed wicks?")


def test_number_of_queries_is_limited() -> None:
    llm = ScriptedLLM(lambda _: queries_reply(*(f"Part {n}?" for n in range(9))))
    assert search_rounds(llm)[1:] == [[f"Part {n}?" for n in range(4)]]
    assert search_rounds(llm, queries=1)[1:] == [["Part 0?"]]


def test_a_name_that_the_model_put_in_is_not_searched() -> None:
    """Names of the question and of the passages are; in German, where each noun has a capital letter, all are."""
    proposed = ("When did Bo Lind trim wicks?", "When did Ada Finch light the mill?", "Wo ist der Docht von Ada Finch?")
    llm = ScriptedLLM(lambda _: queries_reply(*proposed))
    assert search_rounds(llm)[1:] == [[proposed[0], proposed[2]]]


def test_equal_queries_are_searched_once() -> None:
    again = ("The lamp that burnt the mill: who lit it", " Who sold eels? ", "who sold the eels")
    assert search_rounds(ScriptedLLM(lambda _: queries_reply(*again))) == [[QUESTION], ["Who sold eels?"]]
    assert search_rounds(ScriptedLLM(lambda _: queries_reply("?", "", "  ")), "?") == [["?"]]
    assert new_questions(["Who sold eels?"], ["eels: sold"]) == []


def test_without_queries_results_equal_naive() -> None:
    baseline = naive(QUESTION, CHUNKS, keyword_search, vector_search, tokenizer, rerank)
    for llm in (UnreadableLLM(lambda _: queries_reply()), UnreadableLLM(lambda _: "I cannot say.")):
        context = rq(QUESTION, CHUNKS, llm, keyword_search, vector_search, tokenizer, rerank)
        assert [item.reference for item in context] == [item.reference for item in baseline]


def test_unparsable_reply_searches_the_question(caplog: pytest.LogCaptureFixture) -> None:
    assert search_rounds(UnreadableLLM(lambda _: "I cannot say.")) == [[QUESTION]]
    assert "rq searches for the question alone: " in caplog.text
    llm = UnreadableLLM(lambda text: "No." if "- Mill fire?" in text else queries_reply("Mill fire?"))
    assert search_rounds(llm, depth=2) == [[QUESTION], ["Mill fire?"]]


def test_a_server_that_does_not_answer_is_an_error() -> None:
    def down(_: str) -> object:
        raise ItemFailed("no answer in 60 s")

    with pytest.raises(ItemFailed, match="no answer"):
        search_rounds(ScriptedLLM(down))


def test_further_query_finds_more() -> None:
    llm = ScriptedLLM(lambda _: queries_reply("Who trimmed every wick on Sunday?"))
    assert [
        item.text for item in rq(QUESTION, CHUNKS, llm, keyword_search, vector_search, tokenizer, rerank, k=2)
    ] == TEXTS[:2]
    assert [
        item.text for item in rq(QUESTION, CHUNKS, llm, keyword_search, vector_search, tokenizer, rerank, k=1)
    ] == TEXTS[:1]
    assert not rq(QUESTION, CHUNKS, llm, keyword_search, vector_search, tokenizer, rerank, budget=1)


def test_best_score_counts_and_model_queries_weigh_less() -> None:
    rows = {name: Evidence("chunks", CHUNKS[f"d0.{n:05}"], 0.0) for n, name in enumerate("abcd")}

    def ranking(**scores: float) -> Context:
        return Context(tuple(Evidence("chunks", rows[name].record, score) for name, score in scores.items()))

    # scaled: a 1, b .5, c 0; then times .9: d 1, b .75, a 0
    context = _merge_rankings([ranking(a=8.0, b=6.0, c=4.0), ranking(d=0.9, b=0.8, a=0.5)])
    assert [item.record.id[-1] for item in context] == ["0", "3", "1", "2"]
    assert [item.score for item in context] == pytest.approx([1.0, 0.9, 0.675, 0.0])
    assert not _merge_rankings([Context(), Context()])


def test_second_round_sees_what_was_searched() -> None:
    llm = ScriptedLLM(lambda text: queries_reply("Who trimmed wicks?" if "- Mill fire?" in text else "Mill fire?"))
    assert search_rounds(llm, depth=2) == [[QUESTION], ["Mill fire?"], ["Who trimmed wicks?"]]
    _, second = llm.prompts
    assert fenced_text(second, "queries") == f"- {QUESTION}\n- Mill fire?"
    assert second.endswith(f"<question>\n{QUESTION}\n</question>")
    search_rounds(llm, shown=8)
    assert [text for text in TEXTS if text in llm.prompts[-1]] == TEXTS[:1]


def test_a_call_sees_at_most_eight_passages() -> None:
    many = table("chunks", Chunk, {f"d0.{n:05}": chunk(f"The mill burnt {n} times.") for n in range(12)})
    llm = ScriptedLLM(lambda _: queries_reply())
    rq(QUESTION, many, llm, keyword_search, vector_search, tokenizer, rerank)
    assert llm.prompts[0].count("The mill burnt") == 8


def test_rounds_end_without_new_queries() -> None:
    llm = ScriptedLLM(lambda _: queries_reply("Mill fire?"))
    assert search_rounds(llm, depth=9) == [[QUESTION], ["Mill fire?"]]
    assert len(llm.prompts) == 2
    nothing = ScriptedLLM(lambda _: queries_reply())
    assert not rq(QUESTION, table("chunks", Chunk, {}), nothing, keyword_search, vector_search, tokenizer, rerank)
    assert not nothing.prompts  # no passage to read


def test_prompts_have_no_ids_or_scores() -> None:
    llm = ScriptedLLM(lambda text: queries_reply("Mill fire?"))
    rq(QUESTION, CHUNKS, llm, keyword_search, vector_search, tokenizer, rerank, depth=2)
    asked = [text.partition("Searched so far")[2] for text in llm.prompts]
    assert all(re.search(r"\d", re.sub(r"<.*>", "", text.replace(QUESTION, ""))) is None for text in asked)


def test_batch_search_equals_single_searches() -> None:
    questions = [QUESTION, "Who sold eels?"]
    together = hybrid_search(questions, CHUNKS, keyword_search, vector_search, pool=3, meaning=0.5)
    assert together == [
        hybrid_search([one], CHUNKS, keyword_search, vector_search, pool=3, meaning=0.5)[0] for one in questions
    ]
    alone = Context.fuse(
        [keyword_search(CHUNKS, QUESTION, k=3), vector_search(CHUNKS, QUESTION, k=3)], weights=[1.0, 0.5]
    )
    assert together[0] == alone


def test_hyde_searches_each_step_alone() -> None:
    """With several passages, the mean is over those of one step."""
    for count, replies in ((1, ["Who lit it.\n\nIt burnt."]), (2, ["Who lit it.\n\nIt burnt.", "Bo lit it."])):
        searches: list[Any] = []

        class Search(FakeVectorSearch):
            def __call__(self, table: Table[Any], text: str | Sequence[str], **options: Any) -> Context:
                searches.append(list(text))  # noqa: B023
                return super().__call__(table, text, **options)

        class Samples(ScriptedLLM):
            def samples(self, *_: Any, **__: Any) -> list[str]:
                return replies  # noqa: B023

        found = hyde(QUESTION, CHUNKS, Samples(lambda _: ""), Search(), tokenizer, rerank, passages=count)
        assert searches[0] == [*(["Who lit it."] if count == 1 else ["Who lit it.", "Bo lit it."]), QUESTION]
        assert searches[1] == ["It burnt.", QUESTION]
        assert found.evidence[0].text == TEXTS[0]
