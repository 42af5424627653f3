"""evidence -> excerpts that one can read, and how well they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from kumihimo.core.answer import Answer
from kumihimo.core.context import Context, Evidence
from kumihimo.core.records import Chunk
from kumihimo.core.spans import Span
from kumihimo.core.table import Table
from kumihimo.generation.phrases import question_language
from kumihimo.generation.quoting import quote_answer
from kumihimo.generation.quoting.answer_kinds import AnswerRules
from kumihimo.generation.quoting.excerpts import MAX_CHARS
from kumihimo.generation.quoting.readable import grow, read_region, says_something
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.tokens import subject_terms

ARM = "The Long Arm is a breakwater. Hild Garrow mended the breakwater in 2023. It rained.\n"
OATS = "# Mended oats\n\nOats grow in salt wind. Nobody sows them."
HOURS = "# The museum\n\n| Day | Opens | Closes |\n|---|---|---|\n| Monday | 10 | 16 |\n| Sunday | 11 | 15 |\n"


@dataclass
class FakeReader:
    """Documents `d0`, `d1` and so on, each with one chunk."""

    texts: Sequence[str]
    start: int = 0

    def spans(self, item: Evidence) -> list[Span]:
        number = int(item.record.id)
        return [
            Span(item.record.id, f"d{number}", self.start, len(self.texts[number]), self.texts[number][self.start :])
        ]

    def document(self, uri: str) -> tuple[str, str, int]:
        return self.texts[int(uri[1:])], "", 0

    def find_table(self, name: str) -> Table[Any] | None:
        return None


def evidence(*texts: str) -> Context:
    return Context(
        tuple(
            Evidence("chunks", Chunk(id=str(i), text=text, title="", start=0, end=0, tokens=0), 2.0 - i / 10)
            for i, text in enumerate(texts)
        )
    )


def ask(question: str, *texts: str, start: int = 0) -> Answer:
    return quote_answer(ParsedQuestion(question), "bm25", evidence(*texts), FakeReader(texts, start), LocalEmbedder())


def quotes(answer: Answer) -> list[str]:
    return [citation.span.text for citation in answer.citations]


def grown(text: str, word: str) -> str:
    """Return the stretch around the first unit with a word."""
    region = read_region(text, 0, len(text))
    i = next(i for i, unit in enumerate(region.units) if word in text[unit.start : unit.end])
    start, end, lead = grow(region, i)
    return f"{lead}\n{text[start:end]}".strip()


def test_a_short_paragraph_is_shown_as_a_whole() -> None:
    answer = ask("Who mended the breakwater?", ARM, OATS)
    assert quotes(answer)[0] == ARM.strip()
    assert answer.text.startswith(ARM.strip())
    assert answer.marked().text.startswith(f"{ARM.strip()} [1]")
    assert (answer.question, answer.method, answer.status) == ("Who mended the breakwater?", "bm25", "answered")


def test_a_long_paragraph_is_cut_at_sentences_around_the_best() -> None:
    text = " ".join(f"Sentence number {n} tells us about the weather of the day." for n in range(60))
    middle = grown(text, "number 30 ")
    assert "number 30 " in middle
    assert middle.startswith("Sentence number 2")
    assert middle.endswith("of the day.")
    assert 2 <= middle.count("Sentence") <= 5


def test_a_turn_of_two_words_grows() -> None:
    turns = (
        "ANN: Who made the seals?\n\nBOB: Nobody did.\n\nANN: They were bought in Dunmarrow in 1995, at nine crowns."
    )
    assert "nine crowns" in grown(turns, "Nobody")
    region = read_region(turns, 0, len(turns))
    assert [says_something(region, unit) for unit in region.units] == [True, False, True]


def test_an_excerpt_does_not_cross_a_heading() -> None:
    text = "# Ferry\n\nIt sails at nine.\n\n# Seals\n\nThey hardened in the cold and were thrown away."
    assert grown(text, "sails") == "It sails at nine."


def test_a_row_comes_with_the_header_of_its_table() -> None:
    answer = ask("When does the museum open on Sunday?", HOURS)
    assert answer.text.split("\n")[:2] == ["| Day | Opens | Closes |", "| Sunday | 11 | 15 |"]
    assert answer.marked().text.split("\n")[1] == "| Sunday | 11 | 15 | [1]"
    assert quotes(answer)[0] == "| Sunday | 11 | 15 |"
    assert "|---|" not in answer.text


def test_a_row_that_names_its_cells_needs_no_header() -> None:
    rows = "city: Otaru; founded: 1922; people: 114\ncity: Yoichi; founded: 1900; people: 19\n"
    assert grown(rows, "Yoichi") == "city: Yoichi; founded: 1900; people: 19"


def test_a_list_item_comes_with_its_introduction() -> None:
    text = "What to bring:\n- a rope\n- a lamp for the slip, and oil\n- bread\n"
    assert grown(text, "lamp") == text.strip()


def test_the_header_of_a_mail_is_no_excerpt() -> None:
    mail = "From: Ann <a@b.c>\nTo: Bob <b@c.d>\nSubject: Rope\n\nThe rope is in the shed. Ask Nell for the key."
    assert quotes(ask("Where is the rope?", mail)) == ["The rope is in the shed. Ask Nell for the key."]


def test_headings_are_not_excerpts_but_count() -> None:
    answer = ask("Mended oats", OATS)
    assert quotes(answer) == ["Oats grow in salt wind. Nobody sows them."]


def test_excerpts_are_numbered_and_true() -> None:
    answer = ask("Who mended the breakwater, and where do oats grow?", ARM, OATS)
    assert [c.n for c in answer.citations] == [1, 2]
    assert [(part.kind, [c.n for c in part.citations]) for part in answer.parts] == [("passage", [1]), ("passage", [2])]
    assert {c.span.uri for c in answer.citations} == {"d0", "d1"}
    for span in (c.span for c in answer.citations):
        assert (ARM, OATS)[int(span.uri[1:])][span.start : span.end] == span.text


def test_an_excerpt_keeps_its_place_in_the_document() -> None:
    document = "# Tea\n\nA long beginning, about tea.\n\n# Arm\n\n" + ARM
    (span,) = [c.span for c in ask("Who mended the breakwater?", document, start=38).citations]
    assert document[span.start : span.end] == span.text == ARM.strip()


def test_excerpts_are_few_and_small() -> None:
    many = "\n\n".join(
        f"The lamp was lit on day {n} of the year. " + "It burned with a clear flame. " * 9 for n in range(20)
    )
    found = quotes(ask("On which day was the lamp lit?", many))
    assert 1 <= len(found) <= 3
    assert sum(map(len, found)) <= MAX_CHARS


def test_excerpts_do_not_overlap() -> None:
    texts = quotes(ask("Who mended the breakwater?", ARM, ARM))
    assert texts == [ARM.strip()]


def test_an_absent_fact_is_not_answered() -> None:
    answer = ask("Who is the mayor of the breakwater?", ARM, OATS)
    assert answer.status == "closest"
    assert answer.remark == "The answer is uncertain. The closest passages:"
    assert answer.text.startswith("The Long Arm")
    for question in ("What does parliament levy?", "???"):
        answer = ask(question, ARM, OATS)
        assert (answer.text, answer.parts, answer.citations, answer.status) == ("", (), (), "nothing")
        assert answer.remark == "No passage that answers this was found."


def test_a_question_for_a_number_needs_a_number() -> None:
    boats = "The boats of the harbour are mended in the yard, and the boats of the island too."
    assert ask("How many boats are mended in the yard?", boats).status == "closest"
    assert ask("How many boats are mended in the yard?", boats + " Twelve boats are mended there.").status == "answered"


def test_no_evidence_gives_no_answer() -> None:
    assert ask("Who mended the breakwater?").status == "nothing"
    assert ask("Who mended the breakwater?", "", "\n \n", "# Only a heading").status == "nothing"


def test_an_introduction_is_the_best_answer_to_who() -> None:
    talk = (
        "ANN: Nell Attery!\n\nNELL ATTERY: That is right, it is wonderful to be here again today.\n\n"
        "ANN: Our guest today is Nell Attery, the clerk of the court. She has kept its books since 1990."
    )
    assert "clerk" in quotes(ask("Who is Nell Attery?", "Nell Attery laughed, and Nell Attery went home.", talk))[0]


def test_japanese_is_shown_in_sentences() -> None:
    answer = ask("組紐はいつ届きますか", "組紐は十月に届きます。雨の日は休みです。")
    assert (answer.text, answer.status) == ("組紐は十月に届きます。雨の日は休みです。", "answered")
    assert answer.marked().text == "組紐は十月に届きます。雨の日は休みです。 [1]"


@pytest.mark.parametrize(
    ("question", "kind", "subject"),
    [
        ("Who is Maren Oldacre?", "who", "Maren Oldacre"),
        ("What was the dog called?", "name", "the dog"),
        ("Who designed the gates?", "who", ""),
        ("How many boats are there?", "how_many", ""),
        ("When did it rain?", "when", ""),
        ("Where is the yard?", "where", ""),
        ("Why did it fail?", "why", ""),
        ("What is a breakwater?", "", "a breakwater"),
        ("What is the height of the tower?", "", ""),
        ("梅雨とは何ですか。", "", "梅雨"),
        ("料金はいくらですか", "how_many", ""),
        ("谁修理了大门？", "who", ""),
    ],
)
def test_kinds_of_questions(question: str, kind: str, subject: str) -> None:
    assert (ParsedQuestion(question).kind, ParsedQuestion(question).subject) == (kind, subject)


def test_a_name_without_middle_dots_is_found() -> None:
    text = "マリー・キュリーの夫はピエールである。二人はパリで結婚した。"
    assert ask("マリーキュリーの夫は誰ですか", text, OATS).status == "answered"


def test_a_heading_that_names_the_subject_is_best() -> None:
    guide = "# Guide\n\n## The ferry\n\nShe carries forty people to the mainland, and takes an hour.\n"
    other = "The wages in it are the same as those of the mate of the ferry. The court paid it."
    assert quotes(ask("Tell me about the ferry", other, guide))[0].startswith("She carries")


def test_a_definition_answers_and_a_mention_does_not() -> None:
    clerk, mention = "**Clerk:** Nell Attery.", "In the end Nell Attery wrote the letter."
    assert ask("Who is Nell Attery?", mention).status == "closest"
    answer = ask("Who is Nell Attery?", mention, clerk)
    assert (answer.status, quotes(answer)[0]) == ("answered", clerk)


@pytest.mark.parametrize(
    ("question", "text", "answers"),
    [
        ("Who painted the gate?", "The gate was painted by Maren Oldacre.", True),
        ("Who painted the gate?", "The gate was painted in a cold spring.", False),
        ("How much was paid in 2012?", "In 2012 the fund paid for the gate.", False),
        ("How much was paid in 2012?", "In 2012 the fund paid 40 crowns.", True),
        ("When was the gate mended?", "The gate was mended at last.", False),
        ("When was the gate mended?", "The gate was mended on 3 May 1998.", True),
        ("料金はいくらですか", "料金は三百円です。", True),
    ],
)
def test_the_kind_of_answer(question: str, text: str, answers: bool) -> None:
    assert AnswerRules(ParsedQuestion(question)).is_answered_by(text) is answers


def test_quoting_is_the_same_every_time() -> None:
    texts = [f"Boat {n} and boat {n + 1} left the quay at noon." for n in range(8)]
    assert len({ask("Which boat left the quay?", *texts).text for _ in range(5)}) == 1


def test_the_language_of_a_question() -> None:
    def language(question: str, *texts: str) -> str:
        return question_language(question, evidence(*texts))

    assert language("Who?", "組紐です。") == "en"
    assert language("誰ですか") == language("防波堤修理費用", "堤の修理にはお金がかかります。") == "ja"
    assert language("防波堤修理費用", "東京 (Tokyo)") == language("誰繪製了潮汐閘門", "這座閘門由她設計。") == "zh-Hant"
    assert language("谁绘制了潮汐闸门") == "zh"


def test_asking_verbs_are_no_subject_terms() -> None:
    assert subject_terms("Describe the ferry, tell me about it and explain it") == subject_terms("ferry")
