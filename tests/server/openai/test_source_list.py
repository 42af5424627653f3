"""an answer -> the list of its sources, which a later request takes off again."""

from __future__ import annotations

import pytest

from kumihimo.core.answer import Answer
from kumihimo.core.context import Context
from kumihimo.core.spans import Citation, Span
from kumihimo.core.usage import Usage
from kumihimo.server.openai.replies import source_list, url_citations, without_source_list


def link(span: Span) -> str:
    return f"http://localhost/documents/d?start={span.start}&end={span.end}"


def cited(text: str, *spans: tuple[int, str, str]) -> Answer:
    citations = tuple(
        Citation(n, Span("c", uri, start, start + 5, "words", title=title))
        for start, (n, uri, title) in enumerate(spans)
    )
    return Answer("Who?", "braid", text, citations, Context(), Usage())


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
    found = url_citations(cited(text, (1, "a.md", "A"), (2, "b.md", "B")), link)
    places = [(one["url_citation"]["start_index"], one["url_citation"]["end_index"]) for one in found]
    assert [text[start:end] for start, end in places] == ["[1]", "[2, 1]", "[2, 1]"]
    assert [one["url_citation"]["title"] for one in found] == ["A · a.md", "B · b.md", "A · a.md"]


@pytest.mark.parametrize("line", ["- [1] [" + "](a" * 100 + ")", "- [1] [" + "[" * 400 + "](" + "(" * 400 + ")"])
def test_a_text_that_nearly_is_a_list_takes_no_time(line: str) -> None:
    """A search that tries each way of reading it would take years."""
    text = "At nine.\n\n---\n\n" + "\n".join([line] * 40) + "\nand more"
    assert without_source_list(text) == text


def test_titles_with_brackets_are_taken_off() -> None:
    answer = cited("At nine [1].", (1, "a.md", r"a](b) [c\] (d) `e`"))
    assert without_source_list(answer.text + source_list(answer, link)) == answer.text
