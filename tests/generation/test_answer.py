"""Question + context -> the answer in a model's words: each citation points to a source, no other word is touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kumihimo.core.context import Answer, Context, Evidence
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Chunk
from kumihimo.core.spans import Span
from kumihimo.core.usage import Usage
from kumihimo.generation.answer import PROMPT, TRUNCATION_NOTE, answer
from kumihimo.generation.citation_filter import CitationFilter
from kumihimo.generation.extractive_answer import no_answer_text
from kumihimo.llm.budget import Budget
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.llm.protocols import TokenCallback
from kumihimo.llm.structured import Reply
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat

FERRY = "The ferry leaves at nine. The office opens at eight. It rained."
GATE = "# Gate\n\nThe gate leaks. Nobody mends it."
CORD = "組紐は十月に届きます。雨の日は休みです。"


class Words:
    """A ruler by which a word is a token."""

    fingerprint = "words"

    def __call__(self, text: str) -> list[int]:
        return [0] * len(text.split())


def context(*texts: str) -> Context:
    chunks = [Chunk(id=f"d{n}.00000", text=text, title="", start=7, end=0, tokens=9) for n, text in enumerate(texts)]
    return Context(tuple(Evidence("chunks", chunk, 1.0) for chunk in chunks))


def spans(item: Evidence) -> Iterator[Span]:
    yield Span(item.record.id, f"notes/{item.record.id[:2]}.md", 7, 7 + len(item.text), item.text)


def answered(
    chat: FakeChat, *texts: str, on_token: TokenCallback | None = None, budget: int = 1000, response: str = ""
) -> Answer:
    """What is answered on these sources."""
    with TemporaryDirectory() as folder:
        memo = ResponseCache(Path(folder, "cache.db"))
        ask = CachedLLM(chat, memo, Budget(), "answer")
        found = answer(
            "When?", "naive", context(*texts), spans, ask, Words(), PROMPT, on_token, budget=budget, response=response
        )
        memo.close()
        return found


def said(reply: str, *texts: str) -> Answer:
    """The answer where that is what the model says."""
    return answered(FakeChat(lambda prompt: reply), *texts)


def quotes(found: Answer) -> list[tuple[int, str]]:
    return [(citation.n, citation.span.text) for citation in found.citations]


def streamed(text: str, size: int, sources: int) -> tuple[str, int]:
    """What is heard of a text that comes in pieces of that size, and how many citations were taken out."""
    heard: list[str] = []
    cited = CitationFilter(sources, heard.append)
    for i in range(0, len(text), size):
        cited(text[i : i + size])
    cited.end()
    assert "".join(heard) == cited.text
    return "".join(heard), cited.dangling


# -- what is asked


def test_the_model_is_given_numbered_sources_and_the_question() -> None:
    chat = FakeChat(lambda prompt: "At nine [1].")
    found = answered(chat, FERRY, GATE)
    assert chat.prompt_counts == {f"[1] (notes/d0.md)\n{FERRY}\n\n[2] (notes/d1.md)\n{GATE}\n\nQuestion: When?": 1}
    assert (found.question, found.method, found.model, found.text) == ("When?", "naive", "fake", "At nine [1].")
    assert (len(found.context), found.usage, found.dangling) == (2, Usage(), 0)


def test_the_form_of_the_answer_may_be_asked_for() -> None:
    chat = FakeChat(lambda prompt: "At nine [1].")
    answered(chat, FERRY, response="a table")
    assert chat.prompt_counts == {f"[1] (notes/d0.md)\n{FERRY}\n\nQuestion: When?\n\nForm of the answer: a table": 1}


def test_evidence_over_the_budget_is_left_out() -> None:
    chat = FakeChat(lambda prompt: "Both [1][2].")
    found = answered(chat, FERRY, GATE, budget=17)  # each is of nine tokens
    assert "[2]" not in next(iter(chat.prompt_counts))
    assert (found.text, found.dangling, len(found.context)) == ("Both [1].", 1, 2)


def test_without_evidence_nobody_is_asked() -> None:
    heard: list[str] = []
    chat = FakeChat(str)
    found = answered(chat, on_token=heard.append)
    assert (found.text, found.citations, found.model, chat.prompt_counts) == (
        no_answer_text("", Context()),
        (),
        "fake",
        {},
    )
    assert heard == [no_answer_text("", Context())]


def test_a_model_that_says_nothing_has_failed() -> None:
    with pytest.raises(ItemFailed, match="3 replies that cannot be read; of the last: The reply is empty"):
        said("<think>Hm.</think>", FERRY)


class Cut(FakeChat):
    """Its replies break off."""

    def __call__(self, *given: object, **more: object) -> Reply:
        return Reply("At nine [1], and the of", "length")


def test_an_answer_that_breaks_off_says_so() -> None:
    heard: list[str] = []
    found = answered(Cut(str), FERRY, on_token=heard.append)
    assert found.text == "".join(heard) == f"At nine [1], and the of\n\n{TRUNCATION_NOTE}"
    assert quotes(found) == [(1, "The ferry leaves at nine.")]


# -- citations that point nowhere

CITED = {
    "At nine [1]. It leaks [2].": ("At nine [1]. It leaks [2].", 0),
    "At nine [9].": ("At nine.", 1),
    "[9] At nine [1][0].": (" At nine [1].", 2),
    "At nine [1, 9].": ("At nine [1].", 1),
    "At nine [9; 1].": ("At nine [1].", 1),
    "At nine [1-3].": ("At nine [1, 2].", 1),
    "At nine [1–2].": ("At nine [1–2].", 0),
    "At nine [8-9].": ("At nine.", 2),
    "At nine 【2】, 【9】.": ("At nine 【2】,.", 1),
    "九時です［1］［７］。": ("九時です［1］。", 1),
    "九時です[1、9]。": ("九時です[1]。", 1),
    "At nine\n[9]\nIt leaks.": ("At nine\n\nIt leaks.", 1),
    "In [2020] and [1234] it leaked.": ("In [2020] and [1234] it leaked.", 0),
    "Say [x], [ ], [], [1a], [^9], (9), [9.5] or {9}.": ("Say [x], [ ], [], [1a], [^9], (9), [9.5] or {9}.", 0),
    "Take `a[9]`, then [9] or `b[8] [7]` [1].": ("Take `a[9]`, then or `b[8] [7]` [1].", 1),
    "So:\n```python\na[9] = [8]\n```\nand [9] so": ("So:\n```python\na[9] = [8]\n```\nand so", 1),
    "At nine [": ("At nine [", 0),
    "At nine [9": ("At nine [9", 0),
    "At nine [9] ": ("At nine ", 1),
    "  At  nine \n\n\n [9]  . ": ("  At  nine \n\n\n  . ", 1),
    "": ("", 0),
}


@pytest.mark.parametrize(("text", "kept"), CITED.items())
def test_only_citations_of_sources_are_kept(text: str, kept: tuple[str, int]) -> None:
    assert streamed(text, 1000, 2) == kept


@pytest.mark.parametrize(("text", "kept"), CITED.items())
def test_in_pieces_of_every_size_it_is_the_same_text(text: str, kept: tuple[str, int]) -> None:
    for size in range(1, len(text) + 1):
        assert streamed(text, size, 2) == kept


def test_what_is_heard_is_what_is_answered() -> None:
    reply = "The ferry leaves at nine [1, 9].\n\nThe gate leaks [7] [2]; see `a[9]`."
    chat = FakeChat(lambda prompt: reply)
    heard: list[str] = []
    found = answered(chat, FERRY, GATE, on_token=heard.append)
    assert found == said(reply, FERRY, GATE) == said(f"<think>[8]</think>{reply}", FERRY, GATE)
    assert "".join(heard) == found.text == "The ferry leaves at nine [1].\n\nThe gate leaks [2]; see `a[9]`."
    assert (found.dangling, len(heard) > 8) == (2, True)


WORDS = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("[]［］【】`,、-– \n\tab港"))).filter(
    lambda text: not any(character.isdigit() for character in text)
)


@given(WORDS, st.integers(1, 9))
def test_other_words_go_through_as_they_are(text: str, size: int) -> None:
    assert streamed(text, size, 2) == streamed(text, len(text) + 1, 2) == (text, 0)


@given(
    st.lists(st.sampled_from(["[1]", "[9]", "[1, 9]", "【3】", " ", "\n", "a", "港", "`", "[", "12", "]", ". "])),
    st.integers(1, 9),
)
def test_whatever_comes_is_the_same_in_pieces(parts: list[str], size: int) -> None:
    text = "".join(parts)
    assert streamed(text, size, 2) == streamed(text, len(text) + 1, 2)


def test_a_long_text_takes_no_longer_than_it_has_to() -> None:
    for text in ("word " * 20_000, " " * 20_000, "[" * 20_000, "`" * 20_000, "[1" * 20_000):
        assert streamed(text, 50_000, 2) == (text, 0)


# -- what is quoted


def test_each_citation_quotes_the_sentence_that_says_it() -> None:
    found = said("The office opens at eight [1]. The ferry leaves at nine [1]. The gate leaks [2].", FERRY, GATE)
    assert quotes(found) == [
        (1, "The office opens at eight."),
        (1, "The ferry leaves at nine."),
        (2, "The gate leaks."),
    ]
    for span in (citation.span for citation in found.citations):
        text = FERRY if span.chunk == "d0.00000" else GATE
        assert text[span.start - 7 : span.end - 7] == span.text
        assert span.uri == f"notes/{span.chunk[:2]}.md"


@pytest.mark.parametrize(
    "text",
    [
        "The office opens at eight. [1] The ferry leaves at nine. [1]",
        "- The office opens at eight [1]\n- The ferry leaves at nine [1]",
        "It is so: the office opens at eight [1]! Does the ferry leave at nine [1]?",
    ],
)
def test_a_citation_belongs_to_the_sentence_before_it(text: str) -> None:
    assert quotes(said(text, FERRY)) == [(1, "The office opens at eight."), (1, "The ferry leaves at nine.")]


def test_several_sources_of_one_statement_are_each_quoted() -> None:
    sources = ("It rained. The ferry leaves at nine.", "At nine the ferry leaves the quay. So.")
    for text in (
        "The ferry leaves at nine [1][2].",
        "The ferry leaves at nine [1, 2].",
        "The ferry leaves at nine [1-2].",
    ):
        assert quotes(said(text, *sources)) == [
            (1, "The ferry leaves at nine."),
            (2, "At nine the ferry leaves the quay."),
        ]


def test_a_source_that_says_it_in_no_one_sentence_is_quoted_whole() -> None:
    assert quotes(said("Zebras sleep [1].", FERRY)) == [(1, FERRY)]
    assert quotes(said("[1]", FERRY)) == [(1, FERRY)]


def test_the_same_quote_is_listed_once() -> None:
    found = said("The ferry leaves at nine [1]. Yes, the ferry leaves at nine [1].", FERRY)
    assert quotes(found) == [(1, "The ferry leaves at nine.")]


def test_japanese_statements_are_quoted() -> None:
    found = said("雨の日は休みです[1]。組紐は十月に届きます【1】。", CORD, FERRY)
    assert quotes(found) == [(1, "雨の日は休みです。"), (1, "組紐は十月に届きます。")]
    assert quotes(said("組紐は十月に届きます。［1］", CORD)) == [(1, "組紐は十月に届きます。")]
