"""an answer -> the list of its sources, which a later request takes off again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kumihimo.core.answer import TRUNCATION_NOTE, Answer, Marker, Part
from kumihimo.core.context import Context
from kumihimo.core.spans import Citation, Span
from kumihimo.core.usage import Usage
from kumihimo.server.openai.replies import source_list, url_citations, without_source_list, write_content


def link(span: Span) -> str:
    return f"http://localhost/documents/d?start={span.start}&end={span.end}"


def cited(text: str, *spans: tuple[int, str, str], markers: Sequence[Marker] = ()) -> Answer:
    """An answer of a model. spans: number, uri and title of each citation."""
    citations = tuple(
        Citation(n, Span("c", uri, start, start + 5, "words", title=title, metadata={"author": f"the one of {uri}"}))
        for start, (n, uri, title) in enumerate(spans)
    )
    return Answer("Who?", "braid", (Part("sentence", text, citations, tuple(markers)),), Context(), Usage())


def places(content: str, answer: Answer) -> list[str]:
    """What stands at each annotation."""
    found = [each["url_citation"] for each in url_citations(answer, link)]
    return [content[each["start_index"] : each["end_index"]] for each in found]


def test_each_number_has_a_line_for_each_place() -> None:
    listed = source_list(cited("At nine [1]. At ten [2].", (1, "a.md", "A"), (2, "b.md", ""), (2, "c.md", "C")), link)
    assert listed.splitlines() == [
        "",
        "",
        "---",
        "",
        "- [1] [A · a.md](http://localhost/documents/d?start=0&end=5)",
        "- [2] [b.md](http://localhost/documents/d?start=1&end=6)",
        "- [2] [C · c.md](http://localhost/documents/d?start=2&end=7)",
    ]


def test_without_citations_there_is_no_list() -> None:
    assert source_list(cited("Nobody knows."), link) == ""


def test_a_long_list_is_cut() -> None:
    many = cited("At nine [1].", *[(1, f"{i}.md", "") for i in range(50)], *[(n, "b.md", "") for n in range(2, 90)])
    lines = source_list(many, link).splitlines()[4:]
    assert len(lines) == 30
    assert [line for line in lines if line.startswith("- [1]")] == lines[:3]


@pytest.mark.parametrize("title", ["[x](http://evil.example)", "<img src=x>", "a * b ` c", "two\nlines", "x" * 999])
def test_a_title_cannot_break_out_of_its_line(title: str) -> None:
    (line,) = source_list(cited("At nine [1].", (1, "a.md", title)), link).splitlines()[4:]
    label = line.removeprefix("- [1] [").removesuffix("](http://localhost/documents/d?start=0&end=5)")
    assert len(label) < 300
    assert [i for i, char in enumerate(label) if char in "[]<*`" and label[i - 1] != "\\"] == []


def test_a_long_title_leaves_the_place_whole() -> None:
    title = f"Meeting of {'the very long ' * 30}committee, 2026-05-01"
    (line,) = source_list(cited("At nine [1].", (1, "a.md", title)), link).splitlines()[4:]
    assert line.startswith("- [1] [Meeting of the very")
    assert "committee, 2026-05-01 · a.md](http" in line


@pytest.mark.parametrize("text", ["At nine [1].", "One.\n\n---\n\n- a list\n\nTwo [1]", "夜の九時 [1]。"])
@pytest.mark.parametrize("title", ["A", "[x](y)", "x\n---\ny"])
def test_the_list_is_taken_off_again(text: str, title: str) -> None:
    answer = cited(text, (1, "a.md", title), (1, "b (1).md", title))
    assert without_source_list(text + source_list(answer, link)) == text
    assert without_source_list(text) == text


def test_long_lines_that_look_like_a_list_are_read_quickly() -> None:
    text = "\n\n---\n\n" + ("- [1] [" + "](" * 200_000)
    assert without_source_list(text) == text


def test_annotations_stand_where_the_text_has_a_number() -> None:
    text = "At nine [1], at ten [2, 1]. See `a[1]` and [7]."
    markers = [(8, 11, (1,)), (20, 26, (2, 1))]
    answer = cited(text, (1, "a.md", "A"), (2, "b.md", "B"), markers=markers)
    found = [one["url_citation"] for one in url_citations(answer, link)]
    assert places(text, answer) == ["[1]", "[2, 1]", "[2, 1]"]
    assert [one["title"] for one in found] == ["A · a.md", "B · b.md", "A · a.md"]
    assert [one["metadata"]["author"] for one in found] == ["the one of a.md", "the one of b.md", "the one of a.md"]


def test_annotations_stand_right_in_the_whole_content() -> None:
    """It has a remark before the text, a number at the end of each passage, and a note after the text."""
    first, second = cited("", (1, "a.md", "A"), (2, "b.md", "B")).citations
    passages = (
        Part.ending_with("passage", "It left at nine.", [first]),
        Part.ending_with("passage", "十時。", [second]),
    )
    answer = Answer("When?", "braid", passages, Context(), Usage(), status="closest", truncated=True)
    content = write_content(answer, link)
    assert content == (f"It left at nine. [1]\n\n十時。 [2]\n\n{TRUNCATION_NOTE}{source_list(answer, link)}")
    assert places(content, answer) == ["[1]", "[2]"]


def test_content_that_answers_nothing_is_its_remark() -> None:
    answer = replace(cited(""), parts=(), status="nothing")
    assert write_content(answer, link) == "No passage that answers this was found."
    assert url_citations(answer, link) == []


def test_a_marker_of_a_model_stays_as_it_was_written() -> None:
    answer = cited("夜の九時【1】。", (1, "a.md", "A"), markers=[(4, 7, (1,))])
    assert write_content(answer, link) == f"夜の九時【1】。{source_list(answer, link)}"
    assert places(answer.text, answer) == ["【1】"]


@pytest.mark.parametrize("line", ["- [1] [" + "](a" * 100 + ")", "- [1] [" + "[" * 400 + "](" + "(" * 400 + ")"])
def test_a_text_that_nearly_is_a_list_takes_no_time(line: str) -> None:
    """A search that tries each way of reading it would take years."""
    text = "At nine.\n\n---\n\n" + "\n".join([line] * 40) + "\nand more"
    assert without_source_list(text) == text


def test_titles_with_brackets_are_taken_off() -> None:
    answer = cited("At nine [1].", (1, "a.md", r"a](b) [c\] (d) `e`"))
    assert without_source_list(answer.text + source_list(answer, link)) == answer.text
