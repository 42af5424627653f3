"""a community and its rows -> evidence by document; an earlier report -> whether it stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kumihimo.core.records import Assertion, Community, Mention, Record, RelationMention, Report
from kumihimo.index.reports import collect_evidence, keep_report, update_report, with_evidence
from kumihimo.text.name_keys import entity_id, relation_id
from tests.index.factories_rows import claim, entity, graph, leaf, relation, report, split

CLAIM = claim("Ann", "Ann left.")
ENTITIES: list[Record] = [
    entity("Ann"),
    entity("Bob"),
    entity("Cy"),
    relation("Ann", "Bob"),
    relation("Bob", "Cy"),
    CLAIM,
]


def mention(document: str, n: int, name: str, text: str = "") -> Mention:
    return Mention(entity_id(name), name, "", id=f"{document}.00000.{n:05}", text=text or f"{name} is in {document}.")


def tie(document: str, n: int, one: str, other: str) -> RelationMention:
    source, target = sorted((entity_id(one), entity_id(other)))
    id = f"{document}.00000.{n:05}"
    return RelationMention(relation_id(source, target), source, target, (one, other), id=id, text="They met.")


def assertion(document: str, status: str) -> Assertion:
    id = f"{document}.00000.00000"
    return Assertion(CLAIM.id, CLAIM.subject, "", ("Ann",), "deed", status, "", "", "", id=id, text="Ann left.")


ROWS: list[Record] = [
    *(mention("a", n, name) for n, name in enumerate(("Ann", "Bob", "Cy"))),
    *(mention("b", n, name) for n, name in enumerate(("Ann", "Bob"))),
    tie("a", 0, "Ann", "Bob"),
    tie("b", 0, "Bob", "Cy"),
    assertion("a", "TRUE"),
]
ALL = leaf("c", "Ann", "Bob", "Cy")


def written(community: Community, rows: list[Record]) -> Report:
    evidence = collect_evidence(community, graph(*ENTITIES, *rows))
    return replace(with_evidence(report("c", 9, 9), evidence), written_with="model")


def keep(earlier: Report, rows: list[Record], community: Community = ALL, refresh: float = 0.1) -> Report | None:
    evidence = collect_evidence(community, graph(*ENTITIES, *rows))
    return keep_report(earlier, community, evidence, "model", refresh)


def test_evidence_counts_the_rows_of_each_document() -> None:
    assert {document: rows for document, (rows, _) in collect_evidence(ALL, graph(*ENTITIES, *ROWS)).items()} == {
        "a": 5,
        "b": 3,
    }
    assert not collect_evidence(leaf("c", "Zoe"), graph(*ENTITIES, *ROWS))


def test_parts_add_up_to_the_whole() -> None:
    parts = [leaf("ab", "Ann", "Bob", parent="w"), leaf("cy", "Cy", parent="w")]
    part_reports = [replace(written(part, ROWS), id=part.id) for part in parts]
    whole = collect_evidence(split("w", "ab", "cy"), graph(*ENTITIES, *ROWS, *parts, *part_reports))
    assert whole == collect_evidence(ALL, graph(*ENTITIES, *ROWS))


def test_without_changes_it_stays_as_it_is() -> None:
    earlier = written(ALL, ROWS)
    assert keep(earlier, ROWS) == earlier


@pytest.mark.parametrize(
    "rows",
    [
        ROWS[1:],
        ROWS[:3],
        [mention("a", 0, "Ann", "Ann is gone."), *ROWS[1:]],
        [*ROWS[:-1], assertion("a", "FALSE")],
        [*ROWS, mention("a", 9, "Cy")],
        [*ROWS[:-3], *ROWS[-2:]],
    ],
    ids=["a mention less", "a document less", "another text", "another status", "more in a document", "a tie less"],
)
def test_what_is_removed_or_changed_writes_anew(rows: list[Record]) -> None:
    assert keep(written(ALL, ROWS), rows, refresh=1) is None
    assert update_report(written(ALL, ROWS), ALL, collect_evidence(ALL, graph(*ENTITIES, *rows))) is None


def test_additions_count_up_to_the_share() -> None:
    earlier = written(ALL, ROWS)  # of 8 rows
    one = [*ROWS, mention("n", 0, "Ann")]
    kept = keep(earlier, one, refresh=1 / 9)
    assert kept
    assert (kept.added, kept.text) == (("n",), earlier.text)
    assert keep(earlier, one, refresh=0.11) is None
    two = [*one, mention("o", 0, "Bob")]
    again = keep(kept, two, refresh=0.2)
    assert again
    assert again.added == ("n", "o")
    assert keep(kept, two, refresh=0.19) is None
    assert keep(again, ROWS) == earlier  # what it was not written from may go


def test_another_model_or_prompt_writes_anew() -> None:
    assert keep(replace(written(ALL, ROWS), written_with="other"), ROWS) is None
    assert keep(replace(written(ALL, ROWS), written_with=""), ROWS) is None


def test_a_cited_part_has_to_exist() -> None:
    earlier = replace(written(ALL, ROWS), sources=((), (("reports", "gone"),)))
    assert keep(earlier, ROWS) is None
