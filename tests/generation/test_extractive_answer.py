"""evidence -> the sentences that best match the question, word for word."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kumihimo.core.context import Answer, Context, Evidence
from kumihimo.core.records import Chunk
from kumihimo.core.spans import Span
from kumihimo.generation.answer import no_answer_text, quote_answer
from kumihimo.testing.fake_models import FakeEmbedder
from kumihimo.text.tokens import subject_terms

ARM = "The Long Arm is a breakwater. Hild Garrow mended the breakwater in 2023. It rained.\n"
OATS = "# Mended oats\n\nOats grow in salt wind. Nobody sows them."


def evidence(*texts: str, starts: Iterable[int] = ()) -> tuple[Context, Callable[[Evidence], list[Span]]]:
    """Return chunks with these texts, best first, and their spans."""
    start_of = dict(enumerate(starts))
    items = [
        Evidence(
            "chunks", Chunk(id=str(i), text=text, title="", start=start_of.get(i, 0), end=0, tokens=0), 2.0 - i / 10
        )
        for i, text in enumerate(texts)
    ]

    def spans(item: Evidence) -> list[Span]:
        start = start_of.get(int(item.record.id), 0)
        return [Span(item.record.id, f"d{item.record.id}", start, start + len(item.text), item.text)]

    return Context(tuple(items)), spans


def answer_question(question: str, *texts: str, starts: Iterable[int] = ()) -> Answer:
    return quote_answer(question, "bm25", *evidence(*texts, starts=starts), FakeEmbedder(dimensions=4096))


def quotes(answer: Answer) -> list[str]:
    return [citation.span.text for citation in answer.citations]


def test_the_best_sentence_is_quoted_first() -> None:
    answer = answer_question("Who mended the breakwater?", ARM, OATS)
    assert quotes(answer)[0] == "Hild Garrow mended the breakwater in 2023."
    assert answer.text.startswith("“Hild Garrow mended the breakwater in 2023.” [1]")
    assert (answer.question, answer.method, len(answer.context)) == ("Who mended the breakwater?", "bm25", 2)


def test_each_quote_is_numbered_and_cited() -> None:
    answer = answer_question("Who mended the breakwater, and where do oats grow?", ARM, OATS)
    lines = answer.text.split("\n")
    assert [c.n for c in answer.citations] == list(range(1, len(lines) + 1))
    assert lines == [f"“{quote}” [{n}]" for n, quote in enumerate(quotes(answer), 1)]
    assert {c.span.uri for c in answer.citations} == {"d0", "d1"}


def test_quote_has_its_place_in_the_document() -> None:
    document = "A long beginning.\n\n" + ARM
    answer = answer_question("Who mended the breakwater?", ARM, starts=[19])
    assert answer.citations
    for span in (c.span for c in answer.citations):
        assert document[span.start : span.end] == span.text
        assert (span.chunk, span.uri) == ("0", "d0")


def test_unknown_subject_gives_no_answer() -> None:
    for question in ("What does parliament levy?", "???"):
        answer = answer_question(question, ARM, OATS)
        assert (answer.text, answer.citations) == (no_answer_text("", Context()), ())


def test_no_evidence_gives_no_answer() -> None:
    assert answer_question("Who mended the breakwater?").text == no_answer_text("", Context())
    assert answer_question("Who mended the breakwater?", "", "\n \n", "# Only a heading").text == no_answer_text(
        "", Context()
    )


def test_headings_are_not_quoted() -> None:
    assert not any("#" in quote for quote in quotes(answer_question("Mended oats", OATS)))


def test_repeated_sentence_is_quoted_once() -> None:
    answer = answer_question("Who mended the breakwater?", ARM, ARM)
    assert quotes(answer).count("Hild Garrow mended the breakwater in 2023.") == 1
    assert answer.citations[0].span.uri == "d0"


def test_number_of_quotes_is_limited() -> None:
    many = " ".join(f"The lamp was lit on day {n} of the year." for n in range(20))
    assert 1 <= len(answer_question("On which day was the lamp lit?", many).citations) <= 3


def test_only_the_best_evidence_is_scored() -> None:
    away = [f"Gulls cry on roof {n}." for n in range(8)]
    assert answer_question("Who mended the breakwater?", *away, ARM).text == no_answer_text("", Context())
    assert answer_question("Who mended the breakwater?", *away[:7], ARM).citations


def test_a_quote_is_on_one_line_but_cited_as_it_stands() -> None:
    answer = answer_question("Who mended the breakwater?", "Hild Garrow\n  mended the\nbreakwater.")
    assert answer.text == "“Hild Garrow mended the breakwater.” [1]"
    assert quotes(answer) == ["Hild Garrow\n  mended the\nbreakwater."]


def test_japanese_is_quoted_in_its_own_marks() -> None:
    answer = answer_question("組紐はいつ届きますか", "組紐は十月に届きます。雨の日は休みです。")
    assert answer.text == "「組紐は十月に届きます。」 [1]"


def test_quoting_is_the_same_every_time() -> None:
    texts = [f"Boat {n} and boat {n + 1} left the quay at noon." for n in range(8)]
    assert len({answer_question("Which boat left the quay?", *texts).text for _ in range(5)}) == 1


def test_no_answer_text_is_in_the_language_of_the_question() -> None:
    def no_answer(question: str, *context_texts: str) -> str:
        chunks = [
            Chunk(id=f"d{n}.00000", text=text, title="", start=0, end=0, tokens=9)
            for n, text in enumerate(context_texts)
        ]
        return no_answer_text(question, Context(tuple(Evidence("chunks", chunk, 1.0) for chunk in chunks)))

    japanese = "これに答える記述は見つかりませんでした。"
    assert no_answer("Who?", "組紐です。").startswith("No passage")
    assert no_answer("誰ですか") == no_answer("防波堤修理費用", "堤の修理にはお金がかかります。") == japanese
    assert no_answer("防波堤修理費用", "東京 (Tokyo)") == no_answer("防波堤修理費用") == "未找到能回答這個問題的段落。"
    assert no_answer("誰繪製了潮汐閘門", "這座閘門由她設計。") == "未找到能回答這個問題的段落。"
    assert no_answer("谁绘制了潮汐闸门") == "未找到能回答这个问题的段落。"


def test_asking_verbs_are_no_subject_terms() -> None:
    assert subject_terms("Describe the ferry, tell me about it and explain it") == subject_terms("ferry")
