"""answers and evidence -> printed text: passages below their sources, lists with numbers, reasons."""

from __future__ import annotations

from contextvars import copy_context
from dataclasses import replace
from functools import reduce

import pytest
from rich.cells import cell_len
from rich.text import Text

from kumihimo.cli import terminal
from kumihimo.core.answer import TRUNCATION_NOTE, Answer, Part
from kumihimo.core.context import Context, Evidence
from kumihimo.core.records import Document
from kumihimo.core.spans import Citation, Explanation, Reason, Span
from kumihimo.core.usage import Usage
from kumihimo.text.translation import choose_language
from tests.cli.test_terminal import ENGLISH, JAPANESE, Capture

CITATIONS = (
    Citation(1, Span("c", "notes/[b]a.md", 0, 1234, "", "line 1", "The gate")),
    Citation(2, Span("c", f"notes/{'long' * 20}.md", 5, 9, "")),
)


def note(id: str, text: str, title: str = "") -> Evidence:
    """Return explained evidence, whose snippet is the text."""
    place = Span("", f"notes/{id}.txt", 1000, 2000, "")
    explanation = Explanation(Reason(text=f"says “{id}”"), text, (), (place,))
    row = Document(id=id, uri=id, file=id, title=title, media_type="", text=text)
    return Evidence("documents", row, 0.75, source=place, explanation=explanation)


def quoted(*parts: Part, question: str = "?") -> Answer:
    """Return an answer without a model."""
    return Answer(question, "naive", parts, Context(), Usage())


def passage(text: str, citation: Citation) -> Part:
    return Part.ending_with("passage", text, [citation])


def list_of(*lines: tuple[str, Citation]) -> Part:
    first, *others = (Part.ending_with("list", line, [citation]) for line, citation in lines)
    return reduce(Part.with_line, others, first)


def test_excerpts_stand_below_their_sources(capsys: Capture) -> None:
    first = passage("**Hild** mended it.\n| Fare | Crowns |\n| 大人 | 9 |", CITATIONS[0])
    terminal.show_answer(replace(quoted(first, passage("So.", CITATIONS[1])), status="closest"))
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "The nearest passages:",
        "",
        "[1] The gate · notes/[b]a.md, line 1",
        "    Hild mended it.",
        "    Fare  Crowns",
        "    大人  9",
        "",
        f"[2] notes/{'long' * 6}…ong{'long' * 6}.md",
        "    So.",
    ]
    assert err == terminal.NO_MODEL + "\n"


@pytest.mark.parametrize("columns", ["24", "40", "80"])
def test_an_excerpt_fits_the_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", columns)
    table = f"| Fare | {'Crowns ' * 9}|\n| 大人 | 9 |"
    text = f"{JAPANESE} {ENGLISH}\n- {ENGLISH}\n{table}"
    terminal.show_answer(quoted(passage(text, CITATIONS[0])))
    lines = Text.from_ansi(capsys.readouterr().out).plain.splitlines()
    assert max(map(cell_len, lines)) <= int(columns)
    assert not [line for line in lines if line != line.rstrip() or line.strip()[:1] in tuple("、。」")]
    assert ("[1] The gate · notes/[b]a.md, line 1" in lines) == (columns != "24")
    first = next(i for i, line in enumerate(lines) if line.startswith("    - "))
    assert lines[first + 1].startswith("      ")
    assert ("    大人  9" in lines) == (columns == "80")


def test_sources_of_one_document_have_no_titles(capsys: Capture) -> None:
    terminal.show_answer(quoted(list_of(("- So", CITATIONS[0]), ("- And so", replace(CITATIONS[0], n=2)))))
    places = [f"[{n}] notes/[b]a.md, line 1" for n in (1, 2)]
    assert capsys.readouterr().out.splitlines() == ["- So [1]", "- And so [2]", "", *places]


def test_lines_stand_above_their_sources(capsys: Capture) -> None:
    people = list_of(("- Hild", CITATIONS[0]), ("   - Bo", CITATIONS[1]))
    terminal.show_answer(quoted(Part("note", "People:"), people))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == ["People:", "- Hild [1]", "   - Bo [2]", "", "[1] The gate · notes/[b]a.md, line 1"]


def test_a_note_stands_above_excerpts_and_has_no_source(capsys: Capture) -> None:
    terminal.show_answer(quoted(Part("note", "(about Hild)"), passage("So.", CITATIONS[1])))
    lines = capsys.readouterr().out.splitlines()
    assert (lines[:2], lines[2][:4], lines[3:]) == (["(about Hild)", ""], "[2] ", ["    So."])


def test_points_stand_above_their_sources(capsys: Capture) -> None:
    points = [Part.ending_with("sentence", f"Point {citation.n}.", [citation]) for citation in CITATIONS]
    terminal.show_answer(quoted(*points))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["Point 1. [1]", "Point 2. [2]", "", "[1] The gate · notes/[b]a.md, line 1"]


def test_what_answers_is_marked_below_its_headings(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    found = replace(passage("It rained. She mended the gates.", CITATIONS[0]), headings=("Log",), marks=((11, 32),))
    terminal.show_answer(quoted(found, question="Who mended the gate?"))
    first, second = capsys.readouterr().out.splitlines()
    assert "[1] The gate › Log · notes/[b]a.md, line 1" in first
    assert second == "    It rained. \x1b[1mShe mended the gates.\x1b[0m"


def test_copies_of_a_passage_are_named_below_it(capsys: Capture) -> None:
    part = passage("It rained.", CITATIONS[0])
    copy = replace(CITATIONS[0], span=replace(CITATIONS[0].span, uri="copy.md"))
    terminal.show_answer(quoted(replace(part, citations=(*part.citations, copy))))
    assert capsys.readouterr().out.splitlines()[-1] == "    = copy.md, line 1"


def test_an_answer_of_nothing_has_no_sources(capsys: Capture) -> None:
    terminal.show_answer(replace(quoted(), status="nothing"))
    assert capsys.readouterr().out == "No passage that answers this was found.\n"


def test_what_the_status_says_is_in_the_language_of_the_reader(capsys: Capture) -> None:
    def show() -> None:
        choose_language("ja_JP.UTF-8")
        terminal.show_answer(replace(quoted(passage("So.", CITATIONS[0])), status="closest"))
        terminal.show_answer(replace(quoted(), status="nothing"))

    copy_context().run(show)
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[-1]) == (
        "参考になりそうな箇所:",
        "これに答える記述は見つかりませんでした。",
    )


def test_the_nearest_passages_are_named_where_nothing_is_cited(capsys: Capture) -> None:
    context = Context((note("a", "One."), note("b", "Two.")))
    terminal.show_answer(replace(quoted(), context=context, status="nothing"))
    nearest = ["", "The nearest passages:", "  notes/a.txt", "  notes/b.txt"]
    assert capsys.readouterr().out.splitlines() == ["No passage that answers this was found.", *nearest]
    terminal.show_answer(replace(quoted(passage("So.", CITATIONS[1])), context=context))
    assert "nearest" not in capsys.readouterr().out


def test_a_model_says_who_it_is_and_what_it_cost(capsys: Capture) -> None:
    usage = Usage(2, 1500, 0, 30, 0.25, 1.5)
    parts = (Part("sentence", "So."),)
    terminal.show_answer(Answer("?", "naive", parts, Context(), usage, model="m t=0", dangling=3))
    assert capsys.readouterr() == (
        "",
        "(Citations removed because they matched no source: 3.)\n"
        "(m t=0: 2 calls, 1,500 + 30 tokens, cost 0.2500, 1.5 s)\n",
    )


def test_a_reply_that_was_cut_is_told_after_it(capsys: Capture) -> None:
    parts = (Part("sentence", "At nine [1], or", CITATIONS[:1], ((8, 11, (1,)),)),)
    terminal.show_answer(Answer("?", "naive", parts, Context(), Usage(), model="m", truncated=True))
    out = capsys.readouterr().out
    assert out == f"\n{TRUNCATION_NOTE}\n\n[1] notes/[b]a.md, line 1\n"


def test_evidence_is_shown_by_its_places_its_title_and_its_snippet(capsys: Capture) -> None:
    terminal.show_evidence(Context((note("a", "one **two**…", "Gates"), note("b", "three"))), "?")
    rows = ["1. notes/a.txt", "   Gates  documents:a", "   one two…", "", "2. notes/b.txt", "   documents:b"]
    assert capsys.readouterr().out.splitlines() == [*rows, "   three", ""]


def test_evidence_is_shown_with_its_reasons(capsys: Capture) -> None:
    terminal.show_evidence(Context((note("a", "one"), note("b", "two"))), "?", reasons=True)
    assert capsys.readouterr().out.splitlines() == [
        "1. notes/a.txt", "   documents:a", "   says “a”", "   one", "",
        "2. notes/b.txt", "   documents:b", "   says “b”", "   two", "",
    ]  # fmt: skip


def test_rows_have_the_number_of_their_source_in_the_answer(capsys: Capture) -> None:
    context = Context((note("a", "One."), note("b", "Two."), note("c", "Three.")))
    sources = ((("documents", "c"),), (("documents", "a"),))
    answer = Answer("?", "naive", (Part("sentence", "So [2]."),), context, Usage(), "m", sources=sources)
    places = ["1. [2] notes/a.txt", "2. notes/b.txt", "3. [1] notes/c.txt"]
    terminal.show_evidence(context, "?", numbers=answer.source_numbers)
    assert capsys.readouterr().out.splitlines()[::4] == places
    terminal.show_reasons(answer)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["", "Why these passages:"]
    assert (lines[2::2], lines[3::2]) == (places, [f"   says “{id}”" for id in "abc"])


def test_places_of_copies_stand_beside_that_of_the_row(capsys: Capture) -> None:
    copies = tuple(Span("", f"notes/copy{n}.txt", 0, 9, "") for n in range(5))
    context = Context((replace(note("a", "One."), copies=copies),))
    terminal.show_reasons(replace(quoted(), context=context))
    assert capsys.readouterr().out.splitlines()[2] == "1. notes/a.txt; notes/copy0.txt; notes/copy1.txt"


def test_words_of_the_question_are_marked_in_evidence(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    terminal.show_evidence(Context((note("a", "…Hild mended the pier.…"),)), "Who mended the pier?")
    assert "…Hild \x1b[1mmended\x1b[0m the \x1b[1mpier\x1b[0m.…" in capsys.readouterr().out


def test_no_evidence_is_said(capsys: Capture) -> None:
    terminal.show_evidence(Context(), "?")
    assert capsys.readouterr().out == "Nothing was found.\n"
