"""a question, texts and links -> the reason in words: names, phrases, documents, passages that it continues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.app.evidence.explanations import describe_reason, explain_context, find_phrases
from kumihimo.cli.repl import ask_question
from kumihimo.core.context import Context, Evidence
from kumihimo.core.records import Document
from kumihimo.core.spans import Explanation, Reason, Span
from kumihimo.llm.budget import Caps

LETTER = "Joss Kerrow would carry the first stone over the bar himself. The ferries lost sailings in March 2023."


def reason(question: str, text: str, title: str = "", document_terms: Sequence[str] = ()) -> str:
    found = sorted(find_phrases(question, text, title), key=lambda phrase: not phrase.is_name)
    return describe_reason(Reason(tuple(found), tuple(document_terms)))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who carries the first stone over the bar?", "says “carries” and “first stone over the bar” close together"),
        ("Which stone did Joss Kerrow carry first?", "names Joss Kerrow near “stone”, “carry” and “first”"),
        ("What did Kerrow's ferry lose?", "names Kerrow near “ferry”"),
        ("Kerrow: what did he say?", "names Kerrow"),
        ("Stone or concrete?", "says “Stone”"),
        ("When did Anna Kerrow leave?", "says “Kerrow”"),
        ("What did joss kerrow promise?", "says “joss kerrow”"),
        ("What was lost in March 2023?", "says “lost” and “March 2023” close together"),
        ("What is it about?", "has no word of the question; it may say it in other words"),
        ("WHO LOST SAILINGS?", "says “LOST SAILINGS”"),
        ("Can you tell me who that was?", "has no word of the question; it may say it in other words"),
    ],
)
def test_names_come_before_words_and_common_words_are_left_out(question: str, expected: str) -> None:
    assert reason(question, LETTER) == expected


def test_names_of_several_words() -> None:
    text = "The Journal of Physics names Ada Holm; another journal of Oban does not."
    assert (
        reason("Is Ada Holm in the Journal of Physics?", text) == "names Ada Holm and Journal of Physics close together"
    )
    assert reason("Is it in The Journal Of Letters?", text) == "says “Journal”", "a part of a name is a word"


def test_words_that_are_far_apart_are_no_neighbours() -> None:
    text = f"The gate leaks. {'Nothing else. ' * 30}Kerrow alone mends it."
    assert reason("Who mends the gate, Kerrow?", text) == "names Kerrow; says “mends” and “gate”"
    assert reason("Does Kerrow mend it?", text) == "names Kerrow near “mend”"


def test_a_document_that_the_question_names_comes_first() -> None:
    question = "What does Nell Attery write on the bar in March 2023?"
    document = "is from a document of March 2023 that you name: Nell Attery"
    assert reason(question, LETTER, document_terms=["Nell Attery's", "March 2023"]) == f"{document}; says “bar”"
    assert reason("Which report names Kerrow?", LETTER, "Report on gates") == "names Kerrow; has “report” in its title"


def test_japanese_and_chinese_words() -> None:
    assert reason("東京タワーの高さは何メートルですか", "東京タワーの高さは333メートルです。") == (
        "says “東京タワーの高” and “メートル” close together"
    )
    assert reason("渡船几点离开港口?", "渡船九点离开港口。") == "says “渡船” and “点离开港口” close together"


def test_long_lists_are_cut() -> None:
    words = [f"{letter * 12}word" for letter in "abcdef"]
    assert reason(f"{', '.join(words)}?", "; ".join(words)).count("“") == 3
    assert reason("x" * 100, "x" * 100) == f"says “{'x' * 39}…”"


def link(**fields: object) -> Reason:
    values = {"rank": 2, "continues": True, "subject": "Tidal gates", "name": "Sabine Orrell", **fields}
    return Reason(linked=Span("", "a.md", 0, 9, ""), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("linked", "words", "alone"),
    [
        (link(), "; continues passage 2 on Tidal gates through Sabine Orrell", ""),
        (link(subject="Sabine Orrell"), "; continues passage 2 on Sabine Orrell", ""),
        (link(continues=False, rank=3), "", "mentions Sabine Orrell, as does passage 3 on Tidal gates"),
        (link(continues=False, rank=0), "", "mentions Sabine Orrell, as does a passage on Tidal gates"),
    ],
)
def test_a_linked_passage_has_a_name(linked: Reason, words: str, alone: str) -> None:
    found = tuple(find_phrases("Where is the bar?", LETTER))
    assert describe_reason(replace(linked, phrases=found)) == f"says “bar”{words}"
    assert describe_reason(linked) == (alone or words.removeprefix("; "))


# -- what to show of evidence


class Tracer:
    """A tracer of texts that are whole documents."""

    def read_ahead(self, items: Context) -> None:
        """Do nothing: the texts are known."""

    def trace_part(self, item: Evidence, start: int, end: int) -> Iterator[Span]:
        for n in range(30):
            yield Span("", f"{item.record.id}{n or ''}.md", start, end, item.text[start:end])


def explained(question: str, *texts: str, replaced: tuple[tuple[str, str], ...] = ()) -> list[Explanation]:
    rows = [Document(id=f"d{n}", uri="", file="", title="", media_type="", text=text) for n, text in enumerate(texts)]
    queries = tuple(question.replace(*pair) for pair in replaced)
    context = Context(tuple(Evidence("documents", row, 0.75) for row in rows), queries, replaced=replaced)
    found = explain_context(Tracer(), question, context)  # type: ignore[arg-type]
    return [item.explanation for item in found if item.explanation]


def test_a_snippet_is_short_and_on_one_line() -> None:
    assert [each.snippet for each in explained("?", "one\n  two", "x" * 301)] == ["one two", "x" * 300 + "…"]


def test_a_snippet_is_where_the_words_of_the_question_are() -> None:
    text = "Fog came. " * 100 + "Hild mended\nthe pier. " + "Rain fell. " * 100
    (found,) = explained("Who mended the pier?", text)
    assert found.snippet.startswith("…Hild mended the pier. Rain fell.")
    assert found.snippet.endswith("Rain fell.…")
    assert len(found.snippet) < 303
    assert [found.snippet[start:end] for start, end in found.marks] == ["mended", "pier"]
    assert (found.reason.text, found.reason.words) == ("says “mended the pier”", ("mended the pier",))


def test_the_places_of_a_snippet_are_those_of_its_part_and_few() -> None:
    text = "Fog came. " * 100 + "Hild mended\nthe pier. " + "Rain fell. " * 100
    (found,) = explained("Who mended the pier?", text)
    assert len(found.spans) == 20
    assert found.spans[0].uri == "d0.md"
    for span in found.spans:
        assert (text[span.start : span.end], f"…{' '.join(span.text.split())}…") == (span.text, found.snippet)


def test_words_that_were_searched_instead_are_marked() -> None:
    (found,) = explained("Who mended the peir?", "Hild mended the pier.", replaced=(("peir", "pier"),))
    assert [found.snippet[start:end] for start, end in found.marks] == ["mended", "pier"]
    assert found.reason.words == ("mended the pier",)


def test_the_command_line_explains_what_it_shows_as_the_library_does(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(f"{LETTER}\n\nThe harbour office opens at eight.", encoding="utf-8")
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(tmp_path / "notes.txt")
        with kumi.snapshot() as snapshot:
            for question, is_cited in (("Who carried the first stone?", True), ("Zebra?", False)):
                at_once = snapshot.ask(question, explain=True)
                shown, _ = ask_question(snapshot, question, "", Caps(), quiet=True, suggest=False, explain=False)
                assert at_once.context
                assert bool(shown.citations) == is_cited
                assert (shown.context == at_once.context) == (not is_cited)
                assert snapshot.explained(shown).context == at_once.context
