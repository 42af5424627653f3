"""parts -> Answer: one text with its markers, its citations, and one form in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from kumihimo.core.answer import TRUNCATION_NOTE, Answer, Part, PartKind
from kumihimo.core.context import Context, Evidence
from kumihimo.core.records import Chunk, Record
from kumihimo.core.spans import Citation, Span
from kumihimo.core.usage import Usage
from kumihimo.generation.answer import PROMPT, answer
from kumihimo.generation.citation_filter import CitationFilter
from kumihimo.llm.protocols import Reply
from tests.counters import check_linear

TEXTS = ("The ferry leaves at nine. It rained.", "# Gate\n\nThe gate leaks. Nobody mends it.")


def source(n: int) -> Span:
    return Span(f"c{n}", f"{n}.md", 10 * n, 10 * n + 5, "words", f"line {n}")


def answer_of(*parts: Part, **fields: Any) -> Answer:
    return Answer("?", "naive", parts, Context(), Usage(), **fields)


# -- for a person


def answer_with_quote(text: str, *, quote: str = "Two.", passage: str = "One <b>. Two. Three.") -> Answer:
    chunk = Chunk(id="c", title="Gates & doors", start=0, end=9, tokens=3, text=passage)
    citation = Citation(1, Span("c", "notes/<a>.md", 9, 13, quote, "line 2"))
    part = Part.ending_with("passage", text, [citation])
    return replace(answer_of(part), context=Context((Evidence("chunks", chunk, 1.0),)))


def test_an_answer_reads_as_text_with_its_sources() -> None:
    assert str(answer_with_quote("“Two.”")) == "“Two.” [1]\n\n[1] notes/<a>.md, line 2"
    assert str(answer_of(Part("note", "Nothing."))) == "Nothing."
    assert str(answer_of()) == ""


def test_an_answer_reads_with_what_its_status_says() -> None:
    assert str(answer_of(status="nothing")) == "No passage that answers this was found."
    closest = replace(answer_with_quote("“Two.”"), status="closest")
    assert str(closest) == f"The nearest passages:\n\n{answer_with_quote('“Two.”')}"
    assert (closest.text, closest.remark) == ("“Two.”", "The nearest passages:")
    assert answer_of().remark == ""


def test_a_source_is_named_once_however_many_of_its_sentences_are_cited() -> None:
    sentences = [Citation(1, replace(source(1), start=start, end=start + 5)) for start in (10, 20)]
    assert str(answer_of(Part.ending_with("passage", "So.", sentences))) == "So. [1]\n\n[1] 1.md, line 1"


def test_a_notebook_shows_an_answer_escaped_with_the_quote_marked() -> None:
    html = answer_with_quote("a < b")._repr_html_()
    assert "a &lt; b [1]" in html
    assert "[1] notes/&lt;a&gt;.md, line 2" in html
    assert "One &lt;b&gt;. <mark>Two.</mark> Three." in html
    long = answer_with_quote("x", passage="a " * 200 + "Two." + " b" * 200)._repr_html_()
    assert len(long) < 600
    assert "a <mark>Two.</mark> b" in long
    assert "<mark>gone</mark>" in answer_with_quote("x", quote="gone")._repr_html_()


def test_a_notebook_shows_what_the_status_says() -> None:
    html = replace(answer_with_quote("x"), status="closest")._repr_html_()
    assert ">The nearest passages:\n\nx [1]<" in html
    assert ">No passage that answers this was found.<" in answer_of(status="nothing")._repr_html_()


def test_a_text_that_was_cut_is_told_to_a_person_and_is_no_part_of_the_text() -> None:
    cut = replace(answer_with_quote("At nine, or"), truncated=True)
    assert cut.text == "At nine, or"
    assert str(cut) == f"At nine, or [1]\n\n{TRUNCATION_NOTE}\n\n[1] notes/<a>.md, line 2"
    assert "it reached the maximum length" in cut._repr_html_()


def test_an_earlier_answer_may_be_its_text_alone() -> None:
    earlier = Answer.of_text("When?", "At nine [1].\n\n- So.")
    assert (earlier.question, earlier.text) == ("When?", "At nine [1].\n\n- So.")
    assert (earlier.citations, earlier.markers, len(earlier.context)) == ((), (), 0)
    assert earlier.marked().text == earlier.text


# -- markers


def cited_line(line: str, *numbers: int, kind: PartKind = "list") -> Part:
    return Part.ending_with(kind, line, [Citation(n, source(n)) for n in numbers])


def test_lines_keep_their_markers_when_they_become_one_part() -> None:
    both = cited_line("- Ada", 1).with_line(cited_line("- Bo", 2, 3)).with_line(cited_line("- Cy"))
    assert (both.kind, both.text) == ("list", "- Ada\n- Bo\n- Cy")
    assert both.markers == ((5, 5, (1,)), (10, 10, (2, 3)))
    assert both.marked().text == "- Ada [1]\n- Bo [2, 3]\n- Cy"
    assert [citation.n for citation in both.citations] == [1, 2, 3]


def test_markers_of_an_answer_are_places_in_the_whole_text() -> None:
    parts = Part("note", "(about Ada)"), cited_line("- Ada", 1), cited_line("So.", 2, 1, kind="sentence")
    quoted = answer_of(*parts)
    assert quoted.text == "(about Ada)\n\n- Ada\n\nSo."
    assert [(quoted.text[:start][-3:], numbers) for start, _, numbers in quoted.markers] == [
        ("Ada", (1,)),
        ("So.", (2, 1)),
    ]
    marked = quoted.marked()
    assert marked.text == "(about Ada)\n\n- Ada [1]\n\nSo. [2, 1]"
    assert [marked.text[start:end] for start, end, _ in marked.markers] == ["[1]", "[2, 1]"]


def test_a_marker_is_written_as_its_reader_needs_it() -> None:
    part = Part("sentence", "At nine [1]. So.", markers=((8, 11, (1,)), (16, 16, (2,))))
    links = part.marked(lambda text, numbers: f"{text or 'new'}({numbers[0]})")
    assert links.text == "At nine [1](1). So. new(2)"
    assert [links.text[start:end] for start, end, _ in links.markers] == ["[1](1)", "new(2)"]


def test_each_citation_is_listed_once_and_by_number() -> None:
    quoted = answer_of(cited_line("Two.", 2), cited_line("One.", 1), cited_line("Two again.", 2))
    assert [(citation.n, citation.span.uri) for citation in quoted.citations] == [(1, "1.md"), (2, "2.md")]


def test_citations_are_located_in_every_part() -> None:
    found = answer_of(cited_line("One.", 1), cited_line("Two.", 2)).located(lambda span: replace(span, place="p. 9"))
    assert [part.citations[0].span.place for part in found.parts] == ["p. 9"] * 2
    assert [citation.span.place for citation in found.citations] == ["p. 9"] * 2


# -- laws of answers


def check_form(made: Answer) -> None:
    """Fail unless parts, text, markers, citations and JSON agree."""
    value = made.to_dict()
    assert json.loads(json.dumps(value)) == value
    assert value["text"] == made.text == "\n\n".join(part["text"] for part in value["parts"])
    begin, markers = 0, list[tuple[int, int, tuple[int, ...]]]()
    for part, of_json in zip(made.parts, value["parts"], strict=True):
        assert made.text[begin:].startswith(part.text)
        assert [(each["start"], each["end"], tuple(each["n"])) for each in of_json["markers"]] == [*part.markers]
        assert all(0 <= start <= end <= len(part.text) for start, end, _ in part.markers)
        assert [*part.markers] == sorted(part.markers)
        cited = {citation.n for citation in part.citations}
        assert cited == {*of_json["citations"]} == {n for _, _, numbers in part.markers for n in numbers}
        markers += [(begin + start, begin + end, numbers) for start, end, numbers in part.markers]
        begin += len(part.text) + 2
    assert tuple(markers) == made.markers
    assert {each["n"] for each in value["citations"]} == {n for _, _, numbers in markers for n in numbers}
    assert [each["n"] for each in value["citations"]] == [citation.n for citation in made.citations]


NUMBERS = st.lists(st.integers(1, 4), max_size=3)
LINES = st.lists(st.tuples(st.text("ab 港。[]1`|-\n", max_size=9), NUMBERS), min_size=1, max_size=3)


def join_lines(kind: PartKind, lines: Sequence[tuple[str, Sequence[int]]]) -> Part:
    first, *others = (cited_line(text, *numbers, kind=kind) for text, numbers in lines)
    return reduce(Part.with_line, others, first)


QUOTED = st.lists(st.builds(join_lines, st.sampled_from(get_args(PartKind)), LINES), max_size=4)


@given(QUOTED)
def test_an_answer_without_a_model_is_its_text_and_places_for_markers(parts: list[Part]) -> None:
    quoted = answer_of(*parts)
    check_form(quoted)
    assert [start for start, end, _ in quoted.markers if start != end] == []


@given(QUOTED)
def test_marking_adds_the_markers_and_nothing_else(parts: list[Part]) -> None:
    quoted = answer_of(*parts)
    marked = quoted.marked()
    check_form(marked)
    assert marked.citations == quoted.citations
    assert [numbers for _, _, numbers in marked.markers] == [numbers for _, _, numbers in quoted.markers]
    pieces, end = list[str](), 0
    for start, stop, numbers in marked.markers:
        assert marked.text[start - 1 : stop] == f" [{', '.join(map(str, numbers))}]"
        pieces.append(marked.text[end : start - 1])
        end = stop
    assert "".join([*pieces, marked.text[end:]]) == quoted.text
    assert marked.marked() == marked


class Writer:
    """A chat model that writes one reply."""

    fingerprint, workers = "m", 1

    def __init__(self, reply: str) -> None:
        self.reply = Reply(reply)

    def __call__(self, _: object, *, parse: Callable[[Reply], Reply], **__: object) -> Reply:
        return parse(self.reply)


class Words:
    """A tokenizer: a word is a token."""

    fingerprint = "words"

    def __call__(self, text: str) -> list[int]:
        return [0] * len(text.split())


def spans(item: Evidence) -> Iterator[Span]:
    yield Span(item.record.id, f"{item.record.id[:2]}.md", 0, len(item.text), item.text)


def written(reply: str) -> Answer:
    """Return the answer of a model with this reply, from two sources."""
    chunks = [Chunk(id=f"d{n}.00000", text=text, title="", start=0, end=0, tokens=9) for n, text in enumerate(TEXTS)]
    context = Context(tuple(Evidence("chunks", chunk, 1.0) for chunk in chunks))
    return answer("When?", context, spans, str, Writer(reply), Words(), PROMPT, None)  # type: ignore[arg-type]


MARKDOWN = """
[1]|[2]|[1, 2]|[1–2]|[9]|[2, 9]|［１］|【2】|[7](a)|The ferry leaves at nine|The gate leaks.|港。| |
- a|1. b|## c|> d|```|~~~|`x [1]`|`|x | y |||---|   e|**f**|***|
""".replace("\n", "").split("|")
REPLIES = st.lists(st.sampled_from([*MARKDOWN, "|", "\n", "\n\n", "\n\n\n", "\n```\n", "\n\n- "]), max_size=25)


@given(REPLIES.map("".join).filter(lambda reply: Reply(reply).text))
def test_the_text_of_a_model_is_its_reply_with_its_own_markers(reply: str) -> None:
    kept = CitationFilter(len(TEXTS))
    kept(Reply(reply).text)
    kept.end()
    made = written(reply)
    check_form(made)
    assert (made.text, made.markers, made.dangling) == (kept.text, tuple(kept.citations), kept.dangling)
    for start, end, numbers in made.markers:
        marker = made.text[start:end]
        assert re.fullmatch(r"[\[［【][\d\s,–]+[\]］】]", marker)
        digits = [int(digit) for digit in re.findall(r"\d+", marker)]
        assert {*numbers} == ({*range(digits[0], digits[-1] + 1)} if "–" in marker else {*digits})
    assert made.marked() == made


@pytest.mark.parametrize(
    ("reply", "kinds"),
    [
        ("It leaves. [1]\n\nIt leaks. [2]", ["sentence", "sentence"]),
        ("So:\n\n- a [1]\n\n  more\n\n- b [2]\n\nEnd.", ["sentence", "list", "sentence"]),
        ("| a [1] |\n|---|\n| b |\n\n1. c\n2. d", ["table", "list"]),
        ("So:\n\n```\na [1]\n\n- b\n\n| c |\n```\n\nEnd [1].", ["sentence", "sentence", "sentence"]),
        ("```\nnever\n\nclosed", ["sentence"]),
    ],
)
def test_paragraphs_lists_and_tables_are_parts(reply: str, kinds: list[str]) -> None:
    assert [part.kind for part in written(reply).parts] == kinds


@pytest.mark.parametrize(
    "code",
    [
        "```\n- x\n\n| y |\n```",
        "~~~\nx\n\n## y\n~~~",
        "````\n```\n\n- x\n````",
        "```\n~~~\n\n- x\n```",
        "~~~\n```\n\n- x\n~~~",
    ],
)
def test_code_is_in_one_part_whatever_it_holds(code: str) -> None:
    made = written(f"So:\n\n{code}\n\n- a [1]")
    assert [(part.kind, part.text) for part in made.parts] == [
        ("sentence", "So:"),
        ("sentence", code),
        ("list", "- a [1]"),
    ]


def test_each_part_has_the_sentences_that_it_cites() -> None:
    made = written("The ferry leaves at nine [1].\n\n- It rained [1]\n- The gate leaks [2]")
    assert [[citation.span.text for citation in part.citations] for part in made.parts] == [
        ["The ferry leaves at nine."],
        ["It rained.", "The gate leaks."],
    ]


@pytest.mark.parametrize("piece", ["The gate leaks [2]. ", "The ferry leaves at nine [1].\n\n", "- [1, 2]\n", "[1]"])
def test_the_work_grows_with_the_number_of_markers(piece: str) -> None:
    def work(reply: str) -> None:
        made = written(reply)
        markers = reply.count("]")
        assert len(made.markers) == len(made.marked().markers) == markers
        made.to_dict()

    check_linear(work, piece, 20_000 * len(piece))


def test_the_work_grows_with_the_number_of_parts() -> None:
    def work(lines: str) -> None:
        parts = [cited_line(line, n) for n, line in enumerate(lines.split(), 1)]
        quoted = answer_of(*parts)
        assert len(quoted.markers) == len(quoted.marked().markers) == len(quoted.citations) == len(parts)
        quoted.to_dict()

    check_linear(work, "So-it-is. ", 200_000)  # 20,000 parts


# -- as JSON


def test_an_answer_is_a_dict_as_json_has_it() -> None:
    span = Span("d.00000", "a.md", 3, 8, "tides", place="line 1", title="A", metadata={"author": "Ada"})
    evidence = Evidence("chunks", Record(id="d.00000", text="High tides."), 0.5)
    context = Context((evidence,), replaced=(("tydes", "tides"),))
    sources = ((("chunks", "d.00000"),),)
    part = Part("sentence", "tides [1]", (Citation(1, span),), ((6, 9, (1,)),))
    made = Answer("When?", "bm25", (part,), context, Usage(calls=1), "m", sources=sources, approach="model")
    value = made.to_dict()
    assert json.loads(json.dumps(value)) == value
    (citation,) = value["citations"]
    assert (citation["n"], citation["location"], citation["text"]) == (1, "a.md, line 1", "tides")
    assert citation["metadata"] == {"author": "Ada"}
    assert value["parts"] == [
        {
            "kind": "sentence",
            "text": "tides [1]",
            "citations": [1],
            "markers": [{"start": 6, "end": 9, "n": [1]}],
            "headings": [],
            "marks": [],
        }
    ]
    assert value["evidence"] == [evidence.to_dict(1)]
    assert value["sources"] == [{"n": 1, "rows": [{"table": "chunks", "id": "d.00000"}]}]
    assert value["replaced"] == [{"word": "tydes", "searched": "tides"}]
    assert (value["text"], value["approach"], value["status"], value["truncated"]) == (
        "tides [1]", "model", "answered", False,
    )  # fmt: skip
    assert (value["usage"]["calls"], value["saved"]["calls"]) == (1, 0)


def test_an_answer_that_is_printed_sends_no_commands_to_the_terminal() -> None:
    answer = Answer.of_text("?", "\x1b]0;title\x07The ferry \u202eleft.")
    assert str(answer) == r"\x1b]0;title\x07The ferry \u202eleft."
    assert answer.text == "\x1b]0;title\x07The ferry \u202eleft."
