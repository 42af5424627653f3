"""a community + what a model says -> its report, with references that point to rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kumihimo.core.errors import ItemFailed, MalformedReply
from kumihimo.core.records import Community, Mention, Record, Report
from kumihimo.index.reports import reports
from kumihimo.llm.structured import Reply, reply_form
from kumihimo.text.name_keys import entity_id
from tests.index.factories_rows import Words, claim, entity, graph, leaf, mentions, relation, report, split, table

PAIR: list[Record] = [
    entity("Ann", text="Ann mends boats.", mentions=3),
    entity("Bob", text="Bob pays for them."),
    relation("Ann", "Bob", text="Bob has paid Ann since May."),
    claim("Bob", "Bob paid twice."),
]
COMMUNITY = leaf("c", "Ann", "Bob", level=2)
SAID = {
    "title": "Ann and Bob",
    "summary": "Bob pays Ann [Data: Relationships (1)].",
    "rating": 6.5,
    "rating_explanation": "The boats need it.",
    "findings": [
        {"summary": "Ann mends", "explanation": "Ann mends boats [Data: Entities (1, 9)]."},
        {
            "summary": "Bob pays",
            "explanation": "He paid twice (data: claims 1; Entities 2). So far [Data: Claims (4)].",
        },
    ],
}


class Model:
    """Says the same to everybody; what it was asked is kept."""

    fingerprint = "model"

    def __init__(self, said: Any) -> None:
        self.said = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
        self.asked: list[Any] = []

    def __call__(self, messages: Any, *, schema: Any) -> Any:
        self.asked.append(messages)
        return reply_form(schema).parse(Reply(self.said))


def made(community: Community, records: list[Record], ask: Any, said: Any = None, **settings: Any) -> Report | None:
    tables = graph(*records)
    return reports(
        community, tables.communities, tables.entities, tables.relations, tables.claims,
        table("mentions", Mention, []) if said is None else said, tables.reports, Words(), ask, **settings,
    )  # fmt: skip


def asked(records: list[Record], community: Community = COMMUNITY, **settings: Any) -> str:
    model = Model(SAID)
    assert made(community, records, model, **settings)
    (messages,) = model.asked
    return "\n".join(message["content"] for message in messages)


def test_references_become_rows_and_those_to_nowhere_go() -> None:
    found = made(COMMUNITY, PAIR, Model(SAID))
    assert found
    assert found.title == "Ann and Bob"
    assert found.summary == "Bob pays Ann [Data: Relationships (1)]."
    assert found.findings == (
        ("Ann mends", "Ann mends boats [Data: Entities (1)]."),
        ("Bob pays", "He paid twice [Data: Entities (2); Claims (1)]. So far."),
    )
    ids = {record.id for record in PAIR}
    assert [(table, n) for table, n, _ in found.data] == [
        ("claims", 1),
        ("entities", 1),
        ("entities", 2),
        ("relations", 1),
    ]
    assert {id for _, _, id in found.data} == ids
    assert ("entities", 1, entity_id("Ann")) in found.data
    assert set(found.citations()) == {(table, id) for table, _, id in found.data}
    assert (found.dropped, found.level, found.extractive) == (2, 2, False)
    assert (found.rating, found.reason) == (6.5, "The boats need it.")


def test_the_text_is_all_of_it_in_markdown() -> None:
    found = made(COMMUNITY, PAIR, Model(SAID))
    assert found
    assert found.text == (
        "# Ann and Bob\n\nBob pays Ann [Data: Relationships (1)].\n\n"
        "## Ann mends\n\nAnn mends boats [Data: Entities (1)].\n\n"
        "## Bob pays\n\nHe paid twice [Data: Entities (2); Claims (1)]. So far."
    )
    assert found.tokens == len(found.text.split())
    assert found.elements == 3 * 10 + 10 + 10 + 10 + 14 + 30  # four texts of 10 tokens and their lines


@pytest.mark.parametrize(("said", "kept"), [(11, 10.0), (-1, 0.0), ("7", 7.0), (0, 0.0)])
def test_the_rating_is_between_0_and_10(said: Any, kept: float) -> None:
    found = made(COMMUNITY, PAIR, Model(SAID | {"rating": said}))
    assert found
    assert found.rating == kept


@pytest.mark.parametrize(
    "said", [SAID | {"title": " "}, SAID | {"rating": "high"}, json.dumps(SAID).replace("6.5", "NaN"), {"title": "T"}]
)
def test_a_reply_that_is_no_report_is_asked_for_again(said: Any) -> None:
    with pytest.raises(MalformedReply):
        made(COMMUNITY, PAIR, Model(said))


def test_few_findings_and_no_reason_will_do() -> None:
    said = {key: value for key, value in SAID.items() if key != "rating_explanation"} | {"findings": []}
    found = made(COMMUNITY, PAIR, Model(said))
    assert found
    assert (found.findings, found.reason) == ((), "")


def test_a_failure_of_the_model_is_passed_on() -> None:
    def ask(*_: Any, **__: Any) -> Any:
        raise ItemFailed("no reply")

    with pytest.raises(ItemFailed, match=r"^no reply$") as failure:
        made(COMMUNITY, PAIR, ask)
    assert failure.value.fallback == ()


@pytest.mark.parametrize("ask", [None, Model(SAID)])
def test_what_is_wanted_when_asked_is_not_made_before(ask: Any) -> None:
    assert made(COMMUNITY, PAIR, ask, when="asked") is None


def test_one_entity_is_reported_as_it_is_described() -> None:
    model = Model(SAID)
    found = made(leaf("c", "Ann", level=1, parent="b"), PAIR, model)
    assert found
    assert not model.asked
    assert made(leaf("c", "Ann"), PAIR, model) is None  # tied to no other, it is no part of anything
    assert (found.title, found.summary, found.findings, found.data) == ("Ann", "Ann mends boats.", (), ())
    assert (found.text, found.tokens, found.level) == ("# Ann\n\nAnn mends boats.", 5, 1)
    assert (found.rating, found.reason, found.extractive) == (2.0, "Named 3 times.", False)


def test_nobody_is_no_report() -> None:
    assert made(leaf("c", "Zoe"), PAIR, Model(SAID)) is None
    assert made(leaf("c", "Zoe", "Yan"), PAIR, Model(SAID)) is None
    assert made(leaf("c", "Zoe"), PAIR, None) is None


# -- what is asked


def test_the_prompt_holds_no_ids_and_no_counts() -> None:
    records = [entity("Ann", mentions=4711), entity("Bob"), relation("Ann", "Bob", weight=4712, tokens=4713)]
    told = asked(records)
    assert not any(n in told for n in ("4711", "4712", "4713"))
    assert not any(record.id in told for record in records)


@pytest.mark.parametrize(
    "change",
    [
        lambda: [entity("X"), relation("Bob", "X"), relation("Cy", "X")],
        lambda: [entity(name) for name in "VWXYZ"] + [relation("Cy", name) for name in "VWXYZ"],
    ],
)
def test_an_edge_elsewhere_does_not_change_the_prompt(change: Callable[[], list[Record]]) -> None:
    records = [*PAIR, entity("Cy"), relation("Ann", "Cy"), relation("Bob", "Cy")]
    community = leaf("c", "Ann", "Bob", "Cy")
    assert asked(records, community) == asked([*records, *change()], community)
    assert asked(records, community, order="paper") != asked([*records, *change()], community, order="paper")


def test_persona_and_language_are_told() -> None:
    plain = asked(PAIR)
    told = asked(PAIR, persona="You know boats.", language="Japanese")
    assert told.startswith("You know boats.\n\n")
    assert "- Write in Japanese." in told
    assert plain.startswith("You write")
    assert "- Write in the language of the descriptions" in plain


def test_parts_that_are_too_long_are_told_by_their_reports() -> None:
    records = [
        *PAIR, entity("Cy"), leaf("ab", "Ann", "Bob", level=1), leaf("cy", "Cy", level=1),
        report("ab", 10, 104, text="# Ann and Bob\n\nThey met [Data: Entities (1, 2)]."),
        report("cy", 30, 20),
    ]  # fmt: skip
    model = Model(SAID | {"summary": "They met [Data: Reports (1); Entities (1)]."})
    found = made(split("all", "ab", "cy"), records, model, window=60)
    told = model.asked[0][-1]["content"]
    assert 'number,report\n1,"# Ann and Bob\n\nThey met."' in told
    assert "Ann mends boats" not in told
    assert found
    assert [reference for reference in found.data if reference[0] == "reports"] == [("reports", 1, "ab")]
    assert found.elements == 104 + 20


def test_without_a_model_it_is_made_of_sentences() -> None:
    said = mentions(
        {"Ann mends the boats of the harbour.": ["Ann"], "Bob pays Ann for her work in May.": ["Ann", "Bob"]}
    )
    found = made(COMMUNITY, PAIR, None, said)
    assert found
    assert found.extractive
    assert (found.title, found.level) == ("Ann, Bob", 2)
