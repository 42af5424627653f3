"""a community and a model's reply -> its report, with references to rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kumihimo.core.errors import ItemFailed, MalformedReply
from kumihimo.core.records import Community, Mention, Record, Report
from kumihimo.index.reports import reports
from kumihimo.llm.prompts import Reply, reply_form
from kumihimo.text.name_keys import entity_id
from tests.index.factories_rows import (
    WordTokenizer,
    claim,
    entity,
    graph,
    leaf,
    mentions,
    relation,
    report,
    split,
    table,
)

PAIR: list[Record] = [
    entity("Ann", text="Ann mends boats.", mentions=3),
    entity("Bob", text="Bob pays for them."),
    relation("Ann", "Bob", text="Bob has paid Ann since May."),
    claim("Bob", "Bob paid twice."),
]
COMMUNITY = leaf("c", "Ann", "Bob", level=2)
REPLY = {
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
    """A model with one fixed reply, which records its prompts."""

    fingerprint = "model"

    def __init__(self, reply: Any) -> None:
        self.answer = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
        self.prompts: list[Any] = []

    def __call__(self, messages: Any, *, schema: Any) -> Any:
        self.prompts.append(messages)
        return reply_form(schema).parse(Reply(self.answer))


def make_report(
    community: Community, records: list[Record], llm: Any, mention_table: Any = None, **settings: Any
) -> Report | None:
    tables = graph(*records)
    return reports(
        community,
        tables.communities,
        tables.entities,
        tables.relations,
        tables.claims,
        table("mentions", Mention, []) if mention_table is None else mention_table,
        tables.reports,
        WordTokenizer(),
        llm,
        **settings,
    )


def prompt_text(records: list[Record], community: Community = COMMUNITY, **settings: Any) -> str:
    model = Model(REPLY)
    assert make_report(community, records, model, **settings)
    (messages,) = model.prompts
    return "\n".join(message["content"] for message in messages)


def test_references_become_rows_and_those_to_nowhere_go() -> None:
    result = make_report(COMMUNITY, PAIR, Model(REPLY))
    assert result
    assert result.title == "Ann and Bob"
    assert result.summary == "Bob pays Ann [Data: Relationships (1)]."
    assert result.findings == (
        ("Ann mends", "Ann mends boats [Data: Entities (1)]."),
        ("Bob pays", "He paid twice [Data: Entities (2); Claims (1)]. So far."),
    )
    ids = {record.id for record in PAIR}
    assert [(table, n) for table, n, _ in result.data] == [
        ("claims", 1),
        ("entities", 1),
        ("entities", 2),
        ("relations", 1),
    ]
    assert {id for _, _, id in result.data} == ids
    assert ("entities", 1, entity_id("Ann")) in result.data
    assert set(result.citations()) == {(table, id) for table, _, id in result.data}
    assert (result.dropped, result.level, result.extractive) == (2, 2, False)
    assert (result.rating, result.reason) == (6.5, "The boats need it.")


def test_the_text_is_all_of_it_in_markdown() -> None:
    result = make_report(COMMUNITY, PAIR, Model(REPLY))
    assert result
    assert result.text == (
        "# Ann and Bob\n\nBob pays Ann [Data: Relationships (1)].\n\n"
        "## Ann mends\n\nAnn mends boats [Data: Entities (1)].\n\n"
        "## Bob pays\n\nHe paid twice [Data: Entities (2); Claims (1)]. So far."
    )
    assert result.tokens == len(result.text.split())
    assert result.elements == 3 * 10 + 10 + 10 + 10 + 14 + 30  # four texts of 10 tokens and their line overheads


@pytest.mark.parametrize(("reply", "expected"), [(11, 10.0), (-1, 0.0), ("7", 7.0), (0, 0.0)])
def test_the_rating_is_between_0_and_10(reply: Any, expected: float) -> None:
    result = make_report(COMMUNITY, PAIR, Model(REPLY | {"rating": reply}))
    assert result
    assert result.rating == expected


@pytest.mark.parametrize(
    "reply",
    [REPLY | {"title": " "}, REPLY | {"rating": "high"}, json.dumps(REPLY).replace("6.5", "NaN"), {"title": "T"}],
)
def test_a_reply_that_is_no_report_is_asked_for_again(reply: Any) -> None:
    with pytest.raises(MalformedReply):
        make_report(COMMUNITY, PAIR, Model(reply))


def test_few_findings_and_no_reason_will_do() -> None:
    reply = {key: value for key, value in REPLY.items() if key != "rating_explanation"} | {"findings": []}
    result = make_report(COMMUNITY, PAIR, Model(reply))
    assert result
    assert (result.findings, result.reason) == ((), "")


def test_a_failure_of_the_model_is_passed_on() -> None:
    def llm(*_: Any, **__: Any) -> Any:
        raise ItemFailed("no reply")

    with pytest.raises(ItemFailed, match=r"^no reply$") as failure:
        make_report(COMMUNITY, PAIR, llm)
    assert failure.value.fallback == ()


def test_one_entity_is_reported_as_it_is_described() -> None:
    model = Model(REPLY)
    result = make_report(leaf("c", "Ann", level=1, parent="b"), PAIR, model)
    assert result
    assert not model.prompts
    assert make_report(leaf("c", "Ann"), PAIR, model) is None  # an isolated entity has no report
    assert (result.title, result.summary, result.findings, result.data) == ("Ann", "Ann mends boats.", (), ())
    assert (result.text, result.tokens, result.level) == ("# Ann\n\nAnn mends boats.", 5, 1)
    assert (result.rating, result.reason, result.extractive) == (2.0, "Named 3 times.", False)


def test_nobody_is_no_report() -> None:
    assert make_report(leaf("c", "Zoe"), PAIR, Model(REPLY)) is None
    assert make_report(leaf("c", "Zoe", "Yan"), PAIR, Model(REPLY)) is None
    assert make_report(leaf("c", "Zoe"), PAIR, None) is None


# -- the prompt


def test_the_prompt_holds_no_ids_and_no_counts() -> None:
    records = [entity("Ann", mentions=4711), entity("Bob"), relation("Ann", "Bob", weight=4712, tokens=4713)]
    prompt = prompt_text(records)
    assert not any(n in prompt for n in ("4711", "4712", "4713"))
    assert not any(record.id in prompt for record in records)


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
    assert prompt_text(records, community) == prompt_text([*records, *change()], community)
    assert prompt_text(records, community, order="paper") != prompt_text(
        [*records, *change()], community, order="paper"
    )


def test_persona_and_language_are_told() -> None:
    plain = prompt_text(PAIR)
    prompt = prompt_text(PAIR, persona="You know boats.", language="Japanese")
    assert prompt.startswith("You know boats.\n\n")
    assert "- Write in Japanese." in prompt
    assert plain.startswith("You write")
    assert "- Write in the language of the descriptions" in plain


def test_parts_that_are_too_long_are_told_by_their_reports() -> None:
    records = [
        *PAIR, entity("Cy"), leaf("ab", "Ann", "Bob", level=1), leaf("cy", "Cy", level=1),
        report("ab", 10, 104, text="# Ann and Bob\n\nThey met [Data: Entities (1, 2)]."),
        report("cy", 30, 20),
    ]  # fmt: skip
    model = Model(REPLY | {"summary": "They met [Data: Reports (1); Entities (1)]."})
    result = make_report(split("all", "ab", "cy"), records, model, window=60)
    prompt = model.prompts[0][-1]["content"]
    assert 'number,report\n1,"# Ann and Bob\n\nThey met."' in prompt
    assert "Ann mends boats" not in prompt
    assert result
    assert [reference for reference in result.data if reference[0] == "reports"] == [("reports", 1, "ab")]
    assert result.elements == 104 + 20


def test_without_a_model_it_is_made_of_sentences() -> None:
    mention_table = mentions(
        {"Ann mends the boats of the harbour.": ["Ann"], "Bob pays Ann for her work in May.": ["Ann", "Bob"]}
    )
    result = make_report(COMMUNITY, PAIR, None, mention_table)
    assert result
    assert result.extractive
    assert (result.title, result.level) == ("Ann, Bob", 2)
