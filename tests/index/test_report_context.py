"""a community -> what its report is written from: order, window and substitution, worked by hand.

Lines cost 10 tokens for an entity, 14 for an edge, 30 for a claim, 4 for a report, beside their texts: with texts of
10 tokens 20, 24, 40, 14.
"""

from __future__ import annotations

import random

import pytest

from kumihimo.core.records import Community, Record
from kumihimo.index.report_context import (
    LINE_OVERHEAD,
    Element,
    ElementOrder,
    ReportContext,
    ReportTables,
    line_tokens,
    render_report_context,
    select_report_context,
)
from tests.index.factories_rows import Looks, claim, entity, graph, leaf, relation, report, split

STAR = [entity(name) for name in ("Hub", "Ann", "Bob", "Cy", "Dee")]
EDGES = [relation("Hub", name) for name in ("Ann", "Bob", "Cy", "Dee")]
ALL = ("Hub", "Ann", "Bob", "Cy", "Dee")
MUCH = 10_000


def names(found: ReportContext) -> list[str]:
    return [e.name for e in found.entities]


def edges(found: ReportContext) -> list[set[str]]:
    return [set(r.names) for r in found.relations]


def the(community: Community, graph: ReportTables, window: int = MUCH, order: ElementOrder = "paper") -> ReportContext:
    return select_report_context(community, graph, window=window, order=order)


def test_all_edges_of_one_node_are_there() -> None:
    found = the(leaf("c", *ALL), graph(*STAR, *EDGES))
    assert sorted(map(sorted, edges(found))) == [["Ann", "Hub"], ["Bob", "Hub"], ["Cy", "Hub"], ["Dee", "Hub"]]
    assert sorted(names(found)) == sorted(ALL)
    assert found.elements == 5 * 20 + 4 * 24


def test_the_edges_of_highest_combined_degree_come_first() -> None:
    """A star of four and an edge between two of its tips: Cy and Dee have degree 2, Hub 4, Ann and Bob 1.

    Hub-Cy and Hub-Dee: 6; Hub-Ann and Hub-Bob: 5; Cy-Dee: 4. Of equals, the names in the order of the edge decide.
    """
    found = the(leaf("c", *ALL), graph(*STAR, *EDGES, relation("Cy", "Dee")))
    assert {frozenset(e) for e in edges(found)[:2]} == {frozenset({"Hub", "Cy"}), frozenset({"Hub", "Dee"})}
    assert {frozenset(e) for e in edges(found)[2:4]} == {frozenset({"Hub", "Ann"}), frozenset({"Hub", "Bob"})}
    assert edges(found)[4] == {"Cy", "Dee"}
    assert set(names(found)[:2]) == edges(found)[0]
    for first, second in ((0, 1), (2, 3)):
        assert found.relations[first].names < found.relations[second].names


def test_degrees_are_of_the_whole_graph() -> None:
    """Ann has three friends elsewhere: with them Hub-Ann is 4 + 4, before 4 + 1 of the others."""
    elsewhere = [relation("Ann", name) for name in ("X", "Y", "Z")]
    found = the(leaf("c", *ALL), graph(*STAR, *EDGES, *elsewhere, entity("X"), entity("Y"), entity("Z")))
    assert edges(found)[0] == {"Hub", "Ann"}
    assert len(found.relations) == 4  # none of those elsewhere


def test_the_window_ends_it_at_the_first_element_that_does_not_fit() -> None:
    """Two ends and an edge are 64, one more end 84, its edge 108."""
    whole = graph(*STAR, *EDGES)
    community = leaf("c", *ALL)
    sizes = [
        (len(found.entities), len(found.relations))
        for w in (63, 64, 83, 84, 107, 108)
        if (found := the(community, whole, w))
    ]
    assert sizes == [(2, 0), (2, 1), (2, 1), (3, 1), (3, 1), (3, 2)]
    assert the(community, whole, 64).elements == 196  # what there would be


def test_what_is_shorter_and_comes_later_is_not_taken_in_its_place() -> None:
    whole = graph(entity("A", 10), entity("B", 500), entity("C", 1))
    assert names(the(leaf("c", "A", "B", "C"), whole, 100)) == ["A"]


def test_the_first_element_is_kept_however_long() -> None:
    assert names(the(leaf("c", "A"), graph(entity("A", 500)), 100)) == ["A"]


def test_claims_come_after_the_edge_that_brings_their_subject() -> None:
    """Hub-Ann: two ends, the edge, the claim: 104. A claim on somebody else is none of theirs."""
    told = [claim("Ann", "Ann paid."), claim("X", "X paid Ann.", of="Ann")]
    whole = graph(entity("Hub"), entity("Ann"), relation("Hub", "Ann"), *told)
    community = leaf("c", "Hub", "Ann")
    assert [c.text for c in the(community, whole, 104).claims] == ["Ann paid."]
    assert the(community, whole, 103).claims == ()
    assert the(community, whole).elements == 104


def test_one_member_is_its_description_and_its_claims() -> None:
    found = the(
        leaf("c", "Ann"), graph(entity("Ann"), relation("Ann", "Bob"), entity("Bob"), claim("Ann", "Ann paid."))
    )
    assert (names(found), edges(found), [c.text for c in found.claims]) == (["Ann"], [], ["Ann paid."])


def test_members_without_an_edge_inside_come_last() -> None:
    """Eve has an edge to elsewhere, Flo none."""
    whole = graph(*STAR, *EDGES, entity("Eve"), entity("Flo"), entity("X"), relation("Eve", "X"))
    assert names(the(leaf("c", "Flo", "Eve", *ALL), whole))[5:] == ["Eve", "Flo"]


def test_an_edge_with_an_end_that_is_missing_is_passed_over() -> None:
    found = the(leaf("c", *ALL), graph(*STAR[1:], *EDGES))
    assert (sorted(names(found)), edges(found)) == (sorted(ALL[1:]), [])


# -- communities with parts: two pairs, and an edge between them

PAIRS: list[Record] = [
    *(entity(name) for name in ("A", "B", "C", "D")),
    relation("A", "B"),
    relation("C", "D", 50),
    relation("B", "C"),
    leaf("ab", "A", "B", level=1),
    leaf("cd", "C", "D", level=1),
]
WHOLE = split("whole", "ab", "cd")
AB, CD, BETWEEN = 64, 104, 24  # tokens of elements: 20 + 20 + 24, 20 + 20 + 64
REPORTS = [report("ab", 30, AB), report("cd", 30, CD)]  # 34 tokens each in a prompt


def test_nothing_is_replaced_where_all_elements_fit() -> None:
    found = the(WHOLE, graph(*PAIRS, *REPORTS), AB + CD + BETWEEN)
    assert (sorted(names(found)), len(found.relations), found.reports) == (["A", "B", "C", "D"], 3, ())
    assert found.elements == AB + CD + BETWEEN


def test_one_token_less_and_the_largest_part_is_replaced() -> None:
    """The report of C and D, A and B with their edge, and the edge between B and C, one end of which stays."""
    found = the(WHOLE, graph(*PAIRS, *REPORTS), AB + CD + BETWEEN - 1)
    assert [r.id for r in found.reports] == ["cd"]
    assert sorted(names(found)) == ["A", "B"]
    assert sorted(map(sorted, edges(found))) == [["A", "B"], ["B", "C"]]
    assert found.elements == CD + AB + BETWEEN


def test_the_second_is_replaced_where_that_is_still_too_much() -> None:
    """34 + 64 + 24 = 122 tokens with one report; with both 68, and an edge between two reports goes."""
    assert [r.id for r in the(WHOLE, graph(*PAIRS, *REPORTS), 122).reports] == ["cd"]
    found = the(WHOLE, graph(*PAIRS, *REPORTS), 121)
    assert [r.id for r in found.reports] == ["cd", "ab"]
    assert (found.entities, found.relations) == ((), ())
    assert found.elements == CD + AB


def test_the_last_reports_are_dropped_where_all_of_them_are_too_much() -> None:
    assert [r.id for r in the(WHOLE, graph(*PAIRS, *REPORTS), 68).reports] == ["cd", "ab"]
    assert [r.id for r in the(WHOLE, graph(*PAIRS, *REPORTS), 67).reports] == ["cd"]


def test_a_part_that_is_surely_replaced_is_never_read() -> None:
    looks: Looks = []
    found = select_report_context(WHOLE, graph(*PAIRS, *REPORTS, looks=looks), window=70)
    assert [r.id for r in found.reports] == ["ab", "cd"]
    assert {table for table, _, _ in looks} == {"reports"}


def test_a_report_that_is_no_shorter_replaces_nothing() -> None:
    """60 tokens and 4 for the line are no fewer than A and B have; those are cut at the end instead.

    In order: the report of C and D, 34; B, 20; its edge to C, 24; A, 20; their edge, which is too much.
    """
    longer = [report("ab", 60, AB), report("cd", 30, CD)]
    found = the(WHOLE, graph(*PAIRS, *longer), 34 + 20 + 24 + 20)
    assert ([r.id for r in found.reports], names(found), edges(found)) == (["cd"], ["B", "A"], [{"B", "C"}])


def test_a_part_without_a_report_stays_as_it_is() -> None:
    found = the(WHOLE, graph(*PAIRS, REPORTS[0]), 34 + CD + BETWEEN)
    assert ([r.id for r in found.reports], sorted(names(found))) == (["ab"], ["C", "D"])
    assert len(found.relations) == 2


def test_two_levels() -> None:
    """The upper community has the pairs as one part and E and F as another: its elements are of all leaves below."""
    upper = split("upper", "whole", "ef")
    records = [
        *PAIRS, entity("E"), entity("F"), relation("E", "F"), relation("D", "E"), leaf("ef", "E", "F", level=1),
        split("whole", "ab", "cd", level=1, parent="upper"),
        *REPORTS, report("whole", 40, AB + CD + BETWEEN), report("ef", 30, 64),
    ]  # fmt: skip
    everything = AB + CD + BETWEEN + 64 + 24
    whole = graph(*records)
    assert sorted(names(the(upper, whole, everything))) == ["A", "B", "C", "D", "E", "F"]
    assert len(the(upper, whole, everything).relations) == 5
    below = the(upper, whole, everything - 1)
    assert ([r.id for r in below.reports], sorted(names(below))) == (["whole"], ["E", "F"])
    assert sorted(map(sorted, edges(below))) == [["D", "E"], ["E", "F"]]
    assert [r.id for r in the(upper, whole, 44 + 64 + 24 - 1).reports] == ["whole", "ef"]


# -- what the prompt shows


def test_content_order_is_by_name_and_paper_order_as_selected() -> None:
    whole = graph(*STAR, *EDGES, relation("Cy", "Dee"))
    content, paper = (the(leaf("c", *ALL), whole, order=order) for order in ("content", "paper"))
    assert names(content) == ["Ann", "Bob", "Cy", "Dee", "Hub"]
    assert "Hub" in names(paper)[:2]
    assert set(content.relations) == set(paper.relations)
    assert [r.names for r in content.relations] == sorted(r.names for r in content.relations)
    assert content.ids_by_table["entities"][0] == STAR[1].id


def test_a_new_edge_elsewhere_leaves_the_prompt_as_it_was() -> None:
    before = graph(*STAR, *EDGES)
    after = graph(*STAR, *EDGES, entity("X"), *(relation(name, "X") for name in ("Dee", "Cy")))
    community = leaf("c", *ALL)
    assert the(community, before).relations != the(community, after).relations  # other degrees, another order
    told = [render_report_context(the(community, whole, order="content")) for whole in (before, after)]
    assert told[0] == told[1]


def test_the_order_of_members_and_parts_changes_nothing() -> None:
    whole = graph(*STAR, *EDGES, *PAIRS, *REPORTS)
    for seed in range(5):
        mixed = random.Random(seed).sample(ALL, len(ALL))
        for window in (70, 110, MUCH):
            assert the(leaf("c", *mixed), whole, window) == the(leaf("c", *ALL), whole, window)
    for window in (60, 120, 150, MUCH):
        assert the(split("w", "cd", "ab"), whole, window) == the(split("w", "ab", "cd"), whole, window)


def test_the_context_is_tables_without_ids_or_counts() -> None:
    told = [
        entity("Ann", kind="person", text='Ann, called "the first".', mentions=7),
        entity("Bob", text="Bob."),
        relation("Ann", "Bob", weight=99, text="They met."),
        claim("Bob", "Bob paid.", of="Ann"),
    ]
    found = the(leaf("c", "Ann", "Bob"), graph(*told), order="content")
    source, target = found.relations[0].names
    assert render_report_context(found) == "\n".join([
        "Entities:", "number,name,type,description", '1,Ann,person,"Ann, called ""the first""."', "2,Bob,,Bob.", "",
        "Relationships:", "number,source,target,description", f"1,{source},{target},They met.", "",
        "Claims:", "number,subject,object,type,status,description", "1,Bob,Ann,deed,TRUE,Bob paid.",
    ])  # fmt: skip


def test_the_references_of_a_part_are_not_passed_on() -> None:
    part = report("cd", 30, CD, text="# C and D\n\nThey met [Data: Entities (1, 2)]. They left [data: claim 4].")
    found = the(WHOLE, graph(*PAIRS, part), 34 + AB + BETWEEN)
    assert 'Reports:\nnumber,report\n1,"# C and D\n\nThey met. They left."' in render_report_context(found)


@pytest.mark.parametrize("element", [STAR[0], EDGES[0], claim("A", "b"), REPORTS[0]])
def test_a_line_costs_its_text_and_a_little(element: Element) -> None:
    assert line_tokens(element) == element.tokens + LINE_OVERHEAD[type(element)]


def test_nothing_is_nothing() -> None:
    found = the(leaf("c", "Nobody"), graph())
    assert (found.entities, found.elements, render_report_context(found)) == ((), 0, "")
    assert render_report_context(the(split("w", "gone"), graph())) == ""
