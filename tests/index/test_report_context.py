"""a community -> the context of its report: order, window and substitution, calculated by hand.

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
from tests.index.factories_rows import Lookups, claim, entity, graph, leaf, relation, report, split

STAR = [entity(name) for name in ("Hub", "Ann", "Bob", "Cy", "Dee")]
EDGES = [relation("Hub", name) for name in ("Ann", "Bob", "Cy", "Dee")]
ALL = ("Hub", "Ann", "Bob", "Cy", "Dee")
MUCH = 10_000


def entity_names(context: ReportContext) -> list[str]:
    return [e.name for e in context.entities]


def edge_ends(context: ReportContext) -> list[set[str]]:
    return [set(r.names) for r in context.relations]


def select_context(
    community: Community, graph: ReportTables, window: int = MUCH, order: ElementOrder = "paper"
) -> ReportContext:
    return select_report_context(community, graph, window=window, order=order)


def test_all_edges_of_one_node_are_there() -> None:
    context = select_context(leaf("c", *ALL), graph(*STAR, *EDGES))
    assert sorted(map(sorted, edge_ends(context))) == [["Ann", "Hub"], ["Bob", "Hub"], ["Cy", "Hub"], ["Dee", "Hub"]]
    assert sorted(entity_names(context)) == sorted(ALL)
    assert context.elements == 5 * 20 + 4 * 24


def test_the_edges_of_highest_combined_degree_come_first() -> None:
    """A star of four and an edge between two tips: degrees are Hub 4, Cy and Dee 2, Ann and Bob 1.

    Hub-Cy and Hub-Dee: 6; Hub-Ann and Hub-Bob: 5; Cy-Dee: 4. Of equals, the names in the order of the edge decide.
    """
    context = select_context(leaf("c", *ALL), graph(*STAR, *EDGES, relation("Cy", "Dee")))
    assert {frozenset(e) for e in edge_ends(context)[:2]} == {frozenset({"Hub", "Cy"}), frozenset({"Hub", "Dee"})}
    assert {frozenset(e) for e in edge_ends(context)[2:4]} == {frozenset({"Hub", "Ann"}), frozenset({"Hub", "Bob"})}
    assert edge_ends(context)[4] == {"Cy", "Dee"}
    assert set(entity_names(context)[:2]) == edge_ends(context)[0]
    for first, second in ((0, 1), (2, 3)):
        assert context.relations[first].names < context.relations[second].names


def test_degrees_are_of_the_whole_graph() -> None:
    """Ann has three relations outside, so Hub-Ann scores 4 + 4, the others 4 + 1."""
    other_relations = [relation("Ann", name) for name in ("X", "Y", "Z")]
    context = select_context(
        leaf("c", *ALL), graph(*STAR, *EDGES, *other_relations, entity("X"), entity("Y"), entity("Z"))
    )
    assert edge_ends(context)[0] == {"Hub", "Ann"}
    assert len(context.relations) == 4  # without the outside relations


def test_the_window_ends_it_at_the_first_element_that_does_not_fit() -> None:
    """Two ends and an edge take 64 tokens, another end 84, its edge 108."""
    report_tables = graph(*STAR, *EDGES)
    community = leaf("c", *ALL)
    sizes = [
        (len(context.entities), len(context.relations))
        for w in (63, 64, 83, 84, 107, 108)
        if (context := select_context(community, report_tables, w))
    ]
    assert sizes == [(2, 0), (2, 1), (2, 1), (3, 1), (3, 1), (3, 2)]
    assert select_context(community, report_tables, 64).elements == 196  # without a window


def test_what_is_shorter_and_comes_later_is_not_taken_in_its_place() -> None:
    report_tables = graph(entity("Al", 10), entity("B", 500), entity("C", 1))
    assert entity_names(select_context(leaf("c", "Al", "B", "C"), report_tables, 100)) == ["Al"]


def test_the_first_element_is_kept_however_long() -> None:
    assert entity_names(select_context(leaf("c", "Al"), graph(entity("Al", 500)), 100)) == ["Al"]


def test_claims_come_after_the_edge_that_brings_their_subject() -> None:
    """Hub-Ann: two ends, the edge and the claim take 104. Claims about other entities are not included."""
    records = [claim("Ann", "Ann paid."), claim("X", "X paid Ann.", object_name="Ann")]
    report_tables = graph(entity("Hub"), entity("Ann"), relation("Hub", "Ann"), *records)
    community = leaf("c", "Hub", "Ann")
    assert [c.text for c in select_context(community, report_tables, 104).claims] == ["Ann paid."]
    assert select_context(community, report_tables, 103).claims == ()
    assert select_context(community, report_tables).elements == 104


def test_one_member_is_its_description_and_its_claims() -> None:
    context = select_context(
        leaf("c", "Ann"), graph(entity("Ann"), relation("Ann", "Bob"), entity("Bob"), claim("Ann", "Ann paid."))
    )
    assert (entity_names(context), edge_ends(context), [c.text for c in context.claims]) == (["Ann"], [], ["Ann paid."])


def test_members_without_an_edge_inside_come_last() -> None:
    """Eve has an edge to the outside, Flo none."""
    report_tables = graph(*STAR, *EDGES, entity("Eve"), entity("Flo"), entity("X"), relation("Eve", "X"))
    assert entity_names(select_context(leaf("c", "Flo", "Eve", *ALL), report_tables))[5:] == ["Eve", "Flo"]


def test_an_edge_with_an_end_that_is_missing_is_passed_over() -> None:
    context = select_context(leaf("c", *ALL), graph(*STAR[1:], *EDGES))
    assert (sorted(entity_names(context)), edge_ends(context)) == (sorted(ALL[1:]), [])


# -- communities with children: two pairs, and an edge between them

PAIRS: list[Record] = [
    *(entity(name) for name in ("Al", "B", "C", "D")),
    relation("Al", "B"),
    relation("C", "D", 50),
    relation("B", "C"),
    leaf("ab", "Al", "B", level=1),
    leaf("cd", "C", "D", level=1),
]
WHOLE = split("whole", "ab", "cd")
AB, CD, BETWEEN = 64, 104, 24  # tokens of elements: 20 + 20 + 24, 20 + 20 + 64
REPORTS = [report("ab", 30, AB), report("cd", 30, CD)]  # 34 tokens each in a prompt


def test_nothing_is_replaced_where_all_elements_fit() -> None:
    context = select_context(WHOLE, graph(*PAIRS, *REPORTS), AB + CD + BETWEEN)
    assert (sorted(entity_names(context)), len(context.relations), context.reports) == (["Al", "B", "C", "D"], 3, ())
    assert context.elements == AB + CD + BETWEEN


def test_one_token_less_and_the_largest_part_is_replaced() -> None:
    """The report of C and D; A and B with their edge; and the edge B-C, because B stays."""
    context = select_context(WHOLE, graph(*PAIRS, *REPORTS), AB + CD + BETWEEN - 1)
    assert [r.id for r in context.reports] == ["cd"]
    assert sorted(entity_names(context)) == ["Al", "B"]
    assert sorted(map(sorted, edge_ends(context))) == [["Al", "B"], ["B", "C"]]
    assert context.elements == CD + AB + BETWEEN


def test_the_second_is_replaced_where_that_is_still_too_much() -> None:
    """One report: 34 + 64 + 24 = 122 tokens. Both: 68, because the edge between them goes."""
    assert [r.id for r in select_context(WHOLE, graph(*PAIRS, *REPORTS), 122).reports] == ["cd"]
    context = select_context(WHOLE, graph(*PAIRS, *REPORTS), 121)
    assert [r.id for r in context.reports] == ["cd", "ab"]
    assert (context.entities, context.relations) == ((), ())
    assert context.elements == CD + AB


def test_the_last_reports_are_dropped_where_all_of_them_are_too_much() -> None:
    assert [r.id for r in select_context(WHOLE, graph(*PAIRS, *REPORTS), 68).reports] == ["cd", "ab"]
    assert [r.id for r in select_context(WHOLE, graph(*PAIRS, *REPORTS), 67).reports] == ["cd"]


def test_a_part_that_is_surely_replaced_is_never_read() -> None:
    lookups: Lookups = []
    context = select_report_context(WHOLE, graph(*PAIRS, *REPORTS, lookups=lookups), window=70)
    assert [r.id for r in context.reports] == ["ab", "cd"]
    assert {table for table, _, _ in lookups} == {"reports"}


def test_a_report_that_is_no_shorter_replaces_nothing() -> None:
    """The report of A and B needs 60 + 4 tokens, no fewer than its elements; so these are cut at the end.

    In order: the report of C and D, 34; B, 20; its edge to C, 24; A, 20; their edge does not fit.
    """
    longer_reports = [report("ab", 60, AB), report("cd", 30, CD)]
    context = select_context(WHOLE, graph(*PAIRS, *longer_reports), 34 + 20 + 24 + 20)
    assert ([r.id for r in context.reports], entity_names(context), edge_ends(context)) == (
        ["cd"],
        ["B", "Al"],
        [{"B", "C"}],
    )


def test_a_part_without_a_report_stays_as_it_is() -> None:
    context = select_context(WHOLE, graph(*PAIRS, REPORTS[0]), 34 + CD + BETWEEN)
    assert ([r.id for r in context.reports], sorted(entity_names(context))) == (["ab"], ["C", "D"])
    assert len(context.relations) == 2


def test_two_levels() -> None:
    """The upper community has two children, the pairs and E-F; its elements come from all leaves."""
    upper = split("upper", "whole", "ef")
    records = [
        *PAIRS, entity("E"), entity("F"), relation("E", "F"), relation("D", "E"), leaf("ef", "E", "F", level=1),
        split("whole", "ab", "cd", level=1, parent="upper"),
        *REPORTS, report("whole", 40, AB + CD + BETWEEN), report("ef", 30, 64),
    ]  # fmt: skip
    everything = AB + CD + BETWEEN + 64 + 24
    report_tables = graph(*records)
    assert sorted(entity_names(select_context(upper, report_tables, everything))) == ["Al", "B", "C", "D", "E", "F"]
    assert len(select_context(upper, report_tables, everything).relations) == 5
    smaller = select_context(upper, report_tables, everything - 1)
    assert ([r.id for r in smaller.reports], sorted(entity_names(smaller))) == (["whole"], ["E", "F"])
    assert sorted(map(sorted, edge_ends(smaller))) == [["D", "E"], ["E", "F"]]
    assert [r.id for r in select_context(upper, report_tables, 44 + 64 + 24 - 1).reports] == ["whole", "ef"]


# -- the prompt


def test_content_order_is_by_name_and_paper_order_as_selected() -> None:
    report_tables = graph(*STAR, *EDGES, relation("Cy", "Dee"))
    content, paper = (select_context(leaf("c", *ALL), report_tables, order=order) for order in ("content", "paper"))
    assert entity_names(content) == ["Ann", "Bob", "Cy", "Dee", "Hub"]
    assert "Hub" in entity_names(paper)[:2]
    assert set(content.relations) == set(paper.relations)
    assert [r.names for r in content.relations] == sorted(r.names for r in content.relations)
    assert content.references[0] == ("entities", STAR[1].id)


def test_a_new_edge_elsewhere_leaves_the_prompt_as_it_was() -> None:
    before = graph(*STAR, *EDGES)
    after = graph(*STAR, *EDGES, entity("X"), *(relation(name, "X") for name in ("Dee", "Cy")))
    community = leaf("c", *ALL)
    assert (
        select_context(community, before).relations != select_context(community, after).relations
    )  # different degrees, so a different order
    rendered = [
        render_report_context(select_context(community, report_tables, order="content"))
        for report_tables in (before, after)
    ]
    assert rendered[0] == rendered[1]


def test_the_order_of_members_and_parts_changes_nothing() -> None:
    report_tables = graph(*STAR, *EDGES, *PAIRS, *REPORTS)
    for seed in range(5):
        shuffled = random.Random(seed).sample(ALL, len(ALL))
        for window in (70, 110, MUCH):
            assert select_context(leaf("c", *shuffled), report_tables, window) == select_context(
                leaf("c", *ALL), report_tables, window
            )
    for window in (60, 120, 150, MUCH):
        assert select_context(split("w", "cd", "ab"), report_tables, window) == select_context(
            split("w", "ab", "cd"), report_tables, window
        )


def test_the_context_is_notes_without_ids_or_counts() -> None:
    records = [
        entity("Ann", kind="person", text='Ann, called "the first".', mentions=7),
        entity("Bob", text="Bob."),
        relation("Ann", "Bob", weight=99, text="They met."),
        claim("Bob", "Bob paid.", object_name="Ann"),
    ]
    context = select_context(leaf("c", "Ann", "Bob"), graph(*records), order="content")
    names = " – ".join(context.relations[0].names)
    assert render_report_context(context) == "\n".join([
        "Entities:", '1. Ann (person): Ann, called "the first".', "2. Bob: Bob.", "",
        "Relations:", f"3. {names}: They met.", "",
        "Claims:", "4. Bob – Ann (deed, TRUE): Bob paid.",
    ])  # fmt: skip
    assert context.references[2:] == (("relations", records[2].id), ("claims", records[3].id))


def test_the_report_of_a_part_is_a_numbered_note() -> None:
    part = report("cd", 30, CD, text="# C and D\n\nThey met.")
    context = select_context(WHOLE, graph(*PAIRS, part), 34 + AB + BETWEEN)
    number = context.references.index(("reports", "cd")) + 1
    assert f"Reports:\n{number}. # C and D\n\nThey met." in render_report_context(context)


@pytest.mark.parametrize("element", [STAR[0], EDGES[0], claim("Al", "b"), REPORTS[0]])
def test_a_line_costs_its_text_and_a_little(element: Element) -> None:
    assert line_tokens(element) == element.tokens + LINE_OVERHEAD[type(element)]


def test_nothing_is_nothing() -> None:
    context = select_context(leaf("c", "Nobody"), graph())
    assert (context.entities, context.elements, render_report_context(context)) == ((), 0, "")
    assert render_report_context(select_context(split("w", "gone"), graph())) == ""
