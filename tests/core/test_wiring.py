"""signatures -> steps: in dependency order, or an error that explains the wiring."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from typing import Any

import pytest

from kumihimo.core.errors import StepError
from kumihimo.core.records import Document
from kumihimo.core.signature import collect_signatures
from kumihimo.core.table import Group, Table
from kumihimo.core.wiring import order_steps
from tests.toy_steps import Line, Part, PartReport, Total, Word, lines


def words(line: Line, documents: Table[Document]) -> Iterable[Word]:
    return []


def entries(members: Group[Word]) -> Part:
    return Part(depth=0)


def pages(entry: Part, pages: Table[PartReport]) -> PartReport:
    return PartReport()


def sheets(lines: Table[Line], entries: Table[Part], previous: Table[Total]) -> Iterable[Total]:
    return previous


ALL: list[Any] = [lines, words, entries, pages, sheets]


def test_a_step_comes_after_those_it_reads() -> None:
    for order in permutations(ALL):
        names = [step.name for step in order_steps(collect_signatures(*order))]
        assert names.index("lines") < names.index("words") < names.index("entries") < names.index("pages")
        assert names.index("entries") < names.index("sheets")
        assert len(names) == len(ALL)


def test_how_each_shape_is_wired() -> None:
    steps = {step.name: step for step in order_steps(collect_signatures(*ALL))}
    wired = {name: (s.source, s.key, dict(s.tables), s.inputs, s.keyed, s.wave_column) for name, s in steps.items()}
    assert wired == {
        "lines": ("documents", "id", {}, ("documents",), True, ""),
        "words": ("lines", "id", {"documents": "documents"}, ("lines", "documents"), True, ""),
        "entries": ("words", "name", {}, ("words",), True, ""),
        "pages": ("entries", "id", {"pages": "pages"}, ("entries",), True, "depth"),
        "sheets": (
            "lines",
            "",
            {"lines": "lines", "entries": "entries", "previous": "sheets"},
            ("lines", "entries"),
            False,
            "",
        ),
    }


def test_a_class_with_a_wave_runs_in_waves_only_where_its_own_table_is_read() -> None:
    def pages(entry: Part) -> PartReport:
        return PartReport()

    steps = {step.name: step for step in order_steps(collect_signatures(lines, words, entries, pages))}
    assert steps["pages"].wave_column == ""


def test_nothing_to_do() -> None:
    assert order_steps({}) == []


def two_a(document: Document, two_b: Table[Word]) -> Line:
    return Line()


def two_b(document: Document, two_a: Table[Line]) -> Word:
    return Word(name="")


def misspelt(document: Document, lnies: Table[Line]) -> Word:
    return Word(name="")


def of_another_kind(document: Document, lines: Table[Word]) -> Part:
    return Part(depth=0)


def other_lines(document: Document) -> Iterable[Line]:
    return []


def of_one_of_two(line: Line) -> Word:
    return Word(name="")


def of_no_table(page: PartReport) -> Word:
    return Word(name="")


def of_no_group(members: Group[Line]) -> Word:
    return Word(name="")


def without_a_wave(line: Line, without_a_wave: Table[Word]) -> Word:
    return Word(name="")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([two_a, two_b], "these steps wait for each other: two_a, two_b"),
        (
            [lines, misspelt],
            "misspelt: no table 'lnies'; did you mean 'lines'? Known: documents, lines, misspelt",
        ),
        ([lines, of_another_kind], "of_another_kind: table lines holds Line, not Word"),
        ([lines, other_lines, of_one_of_two], "of_one_of_two: 2 tables hold Line rows; it needs exactly one"),
        ([of_no_table], "of_no_table: 0 tables hold PartReport rows; it needs exactly one"),
        ([lines, of_no_group], "of_no_group: Line needs a GROUP: the column whose value names the group"),
        (
            [lines, without_a_wave],
            "without_a_wave reads what it makes: Line needs a WAVE, the column that orders its rows",
        ),
    ],
)
def test_wrong_wiring_says_what_is_wrong(steps: list[Any], message: str) -> None:
    with pytest.raises(StepError) as refused:
        order_steps(collect_signatures(*steps))
    assert str(refused.value) == message


def test_a_step_that_can_run_is_not_among_those_that_wait() -> None:
    with pytest.raises(StepError, match=r"^these steps wait for each other: two_a, two_b$"):
        order_steps(collect_signatures(two_a, lines, two_b))
