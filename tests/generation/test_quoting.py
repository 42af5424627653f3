"""evidence -> passages that one can read, how well they answer, and the words that no document has."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import pytest

from kumihimo.core.answer import Answer
from kumihimo.core.context import Context, Evidence
from kumihimo.core.records import Chunk
from kumihimo.core.spans import Span
from kumihimo.generation.phrases import question_language
from kumihimo.generation.quoting import quote_answer, ranking
from kumihimo.generation.quoting.requests import read_request
from kumihimo.generation.quoting.windows import MAX_WIDTH, Headings, Region
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.tokens import subject_terms, tokenize

T = TypeVar("T")
ARM = "The Long Arm is a breakwater. Hild Garrow mended the breakwater in 2023. It rained.\n"
OATS = "# Mended oats\n\nOats grow in salt wind. Nobody sows them."
HOURS = "# The museum\n\n| Day | Opens | Closes |\n|---|---|---|\n| Monday | 10 | 16 |\n| Sunday | 11 | 15 |\n"


@dataclass
class FakeIndex:
    """Documents `d0`, `d1` and so on, each with one chunk; a `WordIndex` and an `IndexReader`."""

    texts: Sequence[str]
    start: int = 0

    def spans(self, item: Evidence) -> list[Span]:
        numbers = [int(record.id) for record in (item.record, *item.duplicates)]
        texts = {number: self.texts[number] for number in numbers}
        return [Span(str(n), f"d{n}", self.start, len(text), text[self.start :]) for n, text in texts.items()]

    def document(self, uri: str) -> tuple[str, str, int]:
        return self.texts[int(uri[1:])], "", 0

    def find_table(self, name: str) -> None:
        return None

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        return compute()

    def has(self, text: str) -> bool:
        return f" {' '.join(tokenize(text))} " in f" {' '.join(tokenize(' | '.join(self.texts)))} "

    def stems(self, letter: str) -> Mapping[str, int]:
        return {}

    def passages(self, text: str, k: int) -> Sequence[str]:
        return ()

    def rarity(self, tokens: Sequence[str]) -> Sequence[float]:
        return [1 / (1 + sum(token in tokenize(text) for text in self.texts)) for token in tokens]


def evidence(*texts: str) -> Context:
    found = tuple(Evidence("chunks", chunk(i, text), 2.0 - i / 10) for i, text in enumerate(texts))
    return Context(found, method="bm25")


def chunk(number: int, text: str = "") -> Chunk:
    return Chunk(id=str(number), text=text, title="", start=0, end=0, tokens=0)


def ask(question: str, *texts: str, start: int = 0) -> Answer:
    index = FakeIndex(texts, start)
    asked = ParsedQuestion(question)
    request = read_request(asked)
    return quote_answer(asked, evidence(*texts), index, words=index, request=request)


def quotes(answer: Answer) -> list[str]:
    return [citation.span.text for citation in answer.citations]


def windows(text: str) -> list[str]:
    """Return the windows of a text as they are shown."""
    region = Region(text, 0, len(text), Headings(text))
    return ["\n".join(line for _, line in region.lines(window)) for window in region.windows]


# -- windows


def test_a_window_holds_whole_paragraphs() -> None:
    assert windows("One. Two.\n\nThree.\n") == ["One. Two.\nThree.", "Three."]


def test_a_long_paragraph_is_cut_at_sentences() -> None:
    text = " ".join(f"Sentence number {n} tells us about the weather of the day." for n in range(60))
    found = windows(text)
    assert all(len(window) <= MAX_WIDTH and window.startswith("Sentence") for window in found)
    assert all(window.endswith("of the day.") for window in found)


def test_a_list_that_fits_is_never_begun_within() -> None:
    text = "What to bring:\n- a rope\n- a lamp for the slip, and oil\n- bread\n"
    assert windows(text) == [text.strip()]


def test_a_long_list_keeps_its_introduction_and_counts_the_rest() -> None:
    text = "What to bring:\n" + "".join(f"- boat {n} with its own rope and a lamp\n" for n in range(50))
    answer = ask("What about boat 30 and its lamp?", text)
    lines = answer.text.split("\n")
    assert lines[0] == "What to bring:"
    assert "- boat 30 with its own rope and a lamp" in lines
    last = int(lines[-2].split()[2])
    assert lines[-1] == f"… and {49 - last} more."
    assert len(answer.citations[0].span.text) <= MAX_WIDTH


def test_a_row_comes_with_the_header_of_its_table() -> None:
    rows = "".join(f"| day {n} | {n} | 16 |\n" for n in range(200))
    answer = ask(
        "When does the museum open on day 150?", f"# The museum\n\n| Day | Opens | Closes |\n|---|---|---|\n{rows}"
    )
    lines = answer.text.split("\n")
    assert lines[0] == "| Day | Opens | Closes |"
    assert "| day 150 | 150 | 16 |" in lines
    assert "|---|" not in answer.text
    assert answer.parts[0].headings == ("The museum",)


def test_rows_of_another_table_are_another_section() -> None:
    many = "".join(f"city: Otaru {n}; founded: 1922; people: {n}\n" for n in range(10))
    assert [w for w in windows(f"{many}boat: Annie; quay: north; crew: 4\n") if "Annie" in w and "Otaru 1" in w] == []


def test_a_window_ends_before_the_next_section() -> None:
    long = "It sails at nine. " * 25
    text = f"# Ferry\n\n{long}\n\n# Seals\n\nThey hardened in the cold."
    assert windows(text)[0] == long.strip()
    short = windows("# Ferry\n\nIt sails at nine.\n\n# Seals\n\nThey hardened.")[0]
    assert short == "It sails at nine.\nSeals\nThey hardened."


def test_the_header_of_a_mail_is_in_no_window() -> None:
    mail = "From: Ann <a@b.c>\nTo: Bob <b@c.d>\nSubject: Rope\n\nThe rope is in the shed. Ask Nell for the key."
    assert quotes(ask("Where is the rope?", mail)) == ["The rope is in the shed. Ask Nell for the key."]


def test_links_are_shown_as_their_text() -> None:
    assert ask("Where is the guide?", "The guide is [here](https://x.example/a%20b).").text == "The guide is here."


def test_code_keeps_its_lines() -> None:
    assert windows("Run this:\n\n```sh\nkumi index\nkumi ask\n```\n")[-1] == "kumi index\nkumi ask"


# -- passages


def test_a_passage_is_shown_with_its_number_headings_and_best_sentence() -> None:
    answer = ask("Who mended the breakwater?", f"# The Arm\n\n{ARM}", OATS)
    part = answer.parts[0]
    assert (part.kind, part.text, part.headings) == ("passage", ARM.strip(), ("The Arm",))
    assert [part.text[start:end] for start, end in part.marks] == ["Hild Garrow mended the breakwater in 2023."]
    assert part.emphasized().marked().text == (
        "The Long Arm is a breakwater. **Hild Garrow mended the breakwater in 2023.** It rained. [1]"
    )
    assert (answer.question, answer.method, answer.status) == ("Who mended the breakwater?", "bm25", "answered")


def test_headings_are_no_passages_but_count() -> None:
    answer = ask("Mended oats", OATS)
    assert quotes(answer) == ["Oats grow in salt wind. Nobody sows them."]
    assert quotes(ask("Only a heading?", "# Only a heading")) == []


def test_passages_are_numbered_and_true() -> None:
    answer = ask("Who mended the breakwater, and where do oats grow?", ARM, OATS)
    assert [(part.kind, [c.n for c in part.citations]) for part in answer.parts] == [("passage", [1]), ("passage", [2])]
    assert {c.span.uri for c in answer.citations} == {"d0", "d1"}
    for span in (c.span for c in answer.citations):
        assert (ARM, OATS)[int(span.uri[1:])][span.start : span.end] == span.text


def test_a_passage_keeps_its_place_in_the_document() -> None:
    document = "# Tea\n\nA long beginning, about tea.\n\n# Arm\n\n" + ARM
    (span,) = [c.span for c in ask("Who mended the breakwater?", document, start=38).citations]
    assert document[span.start : span.end] == span.text == ARM.strip()


def test_passages_are_from_different_places() -> None:
    many = "\n\n".join(f"The lamp was lit on day {n}. " + "It burned with a clear flame. " * 9 for n in range(20))
    found = quotes(ask("On which day was the lamp lit?", f"# Log\n\n{many}", "# Guide\n\nThe lamp is lit each day."))
    assert len(found) == 2
    assert all(len(text) <= MAX_WIDTH for text in found)


def test_copies_stand_with_their_passage() -> None:
    texts = (ARM, ARM, OATS)
    item, _, oats = evidence(*texts)
    same = Evidence("chunks", item.record, 2.0, duplicates=(chunk(1),))
    index = FakeIndex(texts)
    asked = ParsedQuestion("Who mended the breakwater?")
    answer = quote_answer(asked, Context((same, oats)), index, words=index)
    assert [(c.n, c.span.uri) for c in answer.parts[0].citations] == [(1, "d0"), (1, "d1")]


def test_a_filler_is_not_shown() -> None:
    other = "A walk along the shore, past the breakwater, takes an hour and is best in spring or autumn."
    assert len(ask("Who mended the breakwater of the Long Arm in 2023?", ARM, other).parts) == 1


def test_a_comparison_has_a_passage_for_each_subject() -> None:
    texts = ("The ferry sails at nine and at noon from the quay.", "The barge needs two tides.", ARM)
    answer = ask("What is the difference between the ferry and the barge?", *texts)
    assert {citation.span.uri for citation in answer.citations} >= {"d0", "d1"}


def test_an_encoder_ranks_by_meaning() -> None:
    texts = ("The boat leaves the quay at noon.", "The boat leaves the quay at nine.")
    index, asked = FakeIndex(texts), ParsedQuestion("boat quay?")

    def prefer_nine(read: Sequence[str]) -> object:
        import numpy as np

        return np.array([[1.0, 0.0], *([1.0, 0.0] if "nine" in text else [0.0, 1.0] for text in read[1:])])

    found = ranking.choose_passages(asked, evidence(*texts), index, prefer_nine, index)  # type: ignore[arg-type]
    assert found[0].span.uri == "d1"


# -- status


def test_an_absent_fact_is_not_answered() -> None:
    answer = ask("Who is the mayor of the breakwater?", ARM, OATS)
    assert (answer.status, answer.remark) == ("closest", "The nearest passages:")
    assert answer.parts[-1].text.startswith("The Long Arm")
    answer = ask("???", ARM, OATS)
    assert (answer.text, answer.parts, answer.citations, answer.status) == ("", (), (), "nothing")
    assert answer.remark == "No passage that answers this was found."


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("Who mended the breakwater in Kubernetes?", "No document mentions “Kubernetes”."),
        ("Who mended the breakwater?", ""),
        ("Barack Obama was born where?", "No document mentions “Barack Obama”."),
        ("富士山の防波堤を直したのは誰ですか", "「富士山」、「防波堤」に触れている文書はありません。"),
    ],
)
def test_a_name_that_no_document_has_is_named(question: str, note: str) -> None:
    answer = ask(question, ARM, OATS)
    notes = [part.text for part in answer.parts if part.kind == "note"]
    assert notes == ([note] if note else [])
    assert answer.status == ("closest" if note and answer.citations else "nothing" if note else "answered")


def test_no_evidence_gives_no_answer() -> None:
    assert ask("Who mended the breakwater?").status == "nothing"
    assert ask("Who mended the breakwater?", "", "\n \n", "# Only a heading").status == "nothing"


def test_japanese_is_shown_in_sentences() -> None:
    answer = ask("組紐はいつ届きますか", "組紐は十月に届きます。雨の日は休みです。")
    assert answer.text == "組紐は十月に届きます。雨の日は休みです。"
    assert answer.parts[0].emphasized().text == "**組紐は十月に届きます。**雨の日は休みです。"
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


def test_quoting_is_the_same_every_time() -> None:
    texts = [f"Boat {n} and boat {n + 1} left the quay at noon." for n in range(8)]
    assert len({ask("Which boat left the quay?", *texts).text for _ in range(5)}) == 1


def test_the_language_of_a_question() -> None:
    def language(question: str, *texts: str) -> str:
        return question_language(question, evidence(*texts))

    assert language("Who?", "組紐です。") == "en"
    assert language("誰ですか") == language("防波堤修理費用", "堤の修理にはお金がかかります。") == "ja"
    assert language("防波堤修理費用", "東京 (Tokyo)") == language("誰繪製了潮汐閘門", "這座閘門由她設計。") == "zh-Hant"
    assert language("谁绘制了潮汐闸门") == language("合唱的人数是多少", "合唱は六時からです。") == "zh"


def test_asking_verbs_are_no_subject_terms() -> None:
    assert subject_terms("Describe the ferry, tell me about it and explain it") == subject_terms("ferry")


def test_questions_to_one_build_read_a_document_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known = ranking._KnownRegions()
    read: list[str] = []

    class CountingIndex(FakeIndex):
        def document(self, uri: str) -> tuple[str, str, int]:
            read.append(uri)
            return super().document(uri)

        def once(self, key: Hashable, compute: Callable[[], T]) -> T:
            return cast(T, known)

    def answer(question: str) -> Answer:
        index = CountingIndex((OATS, ARM))
        return quote_answer(ParsedQuestion(question), evidence(OATS, ARM), index, words=index)

    first = answer("Who sows the oats?")
    assert first.parts == ask("Who sows the oats?", OATS, ARM).parts
    assert answer("Where do oats grow?").parts == ask("Where do oats grow?", OATS, ARM).parts
    assert read == ["d0", "d1"]
    monkeypatch.setattr(ranking, "_MAX_CHARS", len(OATS))  # what is kept has a bound
    assert answer("Who sows the oats?").parts == first.parts
    assert read == ["d0", "d1", "d0", "d1"]
    assert known.chars <= len(OATS) + len(ARM)
