"""a community and a model's reply -> its report, with references to rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kumihimo.core.errors import ItemFailed, MalformedReply
from kumihimo.core.records import Community, Record, Relation, Report
from kumihimo.index.imports import ImportedCommunity
from kumihimo.index.reports import PARTS_RULE, reports
from kumihimo.llm.prompts import reply_form
from kumihimo.llm.protocols import Reply
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
    entity("Cy"),
    entity("Dee"),
    relation("Ann", "Bob", text="Bob has paid Ann since May."),
    claim("Bob", "Bob paid twice."),
]
COMMUNITY = leaf("c", "Ann", "Bob", "Cy", "Dee", level=1)
# in the prompt: 1 Ann, 2 Bob, 3 Cy, 4 Dee, 5 Ann – Bob, 6 the claim
REPLY = {
    "title": "Ann and Bob [Data: Entities (1)]",
    "summary": "Bob pays Ann [Data: Relationships (1)].",
    "findings": [
        {"summary": "Ann mends", "explanation": "Ann mends boats.", "sources": [1, 9]},
        {"summary": "Bob pays", "explanation": "He paid twice. [Data: Entities (1)].", "sources": [6, 2, 6, 0]},
    ],
    "rating": 6.5,
    "rating_explanation": "The boats need it.",
}
TWO_CHUNKS = mentions({"Ann mends boats.": ["Ann"], "Bob pays Ann.": ["Bob", "Ann"]})


class Model:
    """A model with one fixed reply, which records its prompts."""

    fingerprint = "model"

    def __init__(self, reply: Any) -> None:
        self.answer = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
        self.prompts: list[Any] = []

    def __call__(self, messages: Any, *, schema: Any) -> Any:
        self.prompts.append(messages)
        return reply_form(schema).parse(Reply(self.answer))


class FailingModel:
    """A model that never replies."""

    fingerprint = "model"

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise ItemFailed("no reply")


def make_report(
    community: Community,
    records: list[Record],
    llm: Any,
    mention_table: Any = TWO_CHUNKS,
    previous: Report | None = None,
    imported: Sequence[ImportedCommunity] = (),
    **settings: Any,
) -> Report | None:
    tables = graph(*records)
    return reports(
        community,
        tables.communities,
        tables.entities,
        tables.relations,
        tables.claims,
        mention_table,
        tables.ties,
        tables.assertions,
        tables.reports,
        table("reports", Report, [previous] if previous else []),
        table("imported_communities", ImportedCommunity, list(imported)),
        WordTokenizer(),
        llm,
        **settings,
    )


def prompt_text(records: list[Record], community: Community = COMMUNITY, **settings: Any) -> str:
    model = Model(REPLY)
    assert make_report(community, records, model, **settings)
    (messages,) = model.prompts
    return "\n".join(message["content"] for message in messages)


def test_numbers_become_rows_and_those_of_no_row_go() -> None:
    result = make_report(COMMUNITY, PAIR, Model(REPLY))
    assert result
    assert result.sources == (
        (),
        (("entities", entity_id("Ann")),),
        (("claims", PAIR[-1].id), ("entities", entity_id("Bob"))),
    )
    assert set(result.citations()) == {source for part in result.sources for source in part}
    assert (result.dropped, result.level) == (2, 1)
    assert (result.rating, result.reason) == (6.5, "The boats need it.")
    assert result.written_with


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ([1, 2], ["Ann", "Bob"]),
        (["2", 1.0], ["Bob", "Ann"]),
        ("1, 2", ["Ann", "Bob"]),
        (["Entities (2, 1)"], ["Bob", "Ann"]),
        (3, ["Cy"]),
        (None, []),
        ([], []),
        ("none", []),
    ],
)
def test_sources_are_read_however_they_are_written(written: Any, names: list[str]) -> None:
    findings = [{"summary": "So", "explanation": "So it is.", "sources": written}, {"summary": "a", "explanation": "b"}]
    result = make_report(COMMUNITY, PAIR, Model(REPLY | {"findings": findings}))
    assert result
    assert result.sources == ((), tuple(("entities", entity_id(name)) for name in names), ())


def test_the_text_is_all_of_it_in_markdown_without_references() -> None:
    result = make_report(COMMUNITY, PAIR, Model(REPLY))
    assert result
    assert result.text == (
        "# Ann and Bob\n\nBob pays Ann.\n\n## Ann mends\n\nAnn mends boats.\n\n## Bob pays\n\nHe paid twice."
    )
    assert result.tokens == len(result.text.split())
    assert result.elements == 5 * 10 + 10 + 4 * 10 + 14 + 30  # six texts of 10 tokens and their line overheads


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
    with pytest.raises(ItemFailed, match=r"^no reply$") as failure:
        make_report(COMMUNITY, PAIR, FailingModel())
    assert failure.value.fallback == ()


def test_nobody_is_no_report() -> None:
    assert make_report(leaf("c", "Zoe"), PAIR, Model(REPLY)) is None
    assert make_report(leaf("c", "Zoe", "Yan"), PAIR, Model(REPLY)) is None
    assert make_report(leaf("c", "Zoe"), PAIR, None) is None


# -- by rule


def test_one_entity_is_reported_as_it_is_described() -> None:
    model = Model(REPLY)
    result = make_report(leaf("c", "Ann", level=1, parent="b"), PAIR, model)
    assert result
    assert not model.prompts
    assert make_report(leaf("c", "Ann"), PAIR, model) is None  # an isolated entity has no report
    assert (result.title, result.summary, result.findings) == ("Ann", "Ann mends boats.", ())
    assert result.sources == ((("entities", entity_id("Ann")),),)
    assert (result.text, result.tokens, result.level) == ("# Ann\n\nAnn mends boats.", 5, 1)
    assert (result.rating, result.reason) == (2.0, "Named 3 times.")
    assert not result.written_with


@pytest.mark.parametrize(
    ("community", "sentences"),
    [
        (leaf("c", "Ann", "Bob", "Cy"), {"Ann mends boats.": ["Ann"], "Bob pays Ann.": ["Bob", "Ann"]}),
        (COMMUNITY, {"Ann and Bob mend boats.": ["Ann", "Bob", "Cy", "Dee"]}),
    ],
)
def test_few_entities_or_one_chunk_take_no_model(community: Community, sentences: dict[str, list[str]]) -> None:
    model = Model(REPLY)
    result = make_report(community, PAIR, model, mentions(sentences))
    assert result
    assert not model.prompts
    assert (result.title, result.summary) == ("Ann, Bob, Cy", "Ann mends boats.")
    assert result.findings[:2] == (
        ("Bob", "Bob pays for them.\nBob has paid Ann since May.\nBob paid twice."),
        ("Cy", "Cy is here."),
    )
    assert result.sources[1] == (("entities", entity_id("Bob")), ("relations", PAIR[4].id), ("claims", PAIR[5].id))
    assert len(result.sources) == len(result.findings) + 1
    assert not result.written_with


def test_a_parent_of_one_chunk_takes_no_model() -> None:
    records = [*PAIR, leaf("ab", "Ann", "Bob", level=1, parent="all"), leaf("cd", "Cy", "Dee", level=1, parent="all")]
    model = Model(REPLY)
    one_chunk = mentions({"They all met.": ["Ann", "Bob", "Cy", "Dee"]})
    result = make_report(split("all", "ab", "cd"), records, model, one_chunk)
    assert result
    assert not model.prompts
    assert result.title == "Ann, Bob, Cy"
    assert make_report(split("all", "ab", "cd"), records, model, TWO_CHUNKS)
    assert model.prompts


def test_below_the_depth_a_model_writes_only_what_a_large_parent_needs() -> None:
    deep = leaf("c", "Ann", "Bob", "Cy", "Dee", level=2, parent="all")
    records = [*PAIR, deep, split("all", "c", level=1)]
    model = Model(REPLY)
    assert (report := make_report(deep, records, model))
    assert (report.written_with, model.prompts) == ("", [])
    assert make_report(deep, records, model, window=80)  # the parent does not fit
    assert make_report(deep, records, model, depth=2)
    assert len(model.prompts) == 2


# -- the prompt


def test_the_prompt_is_numbered_lines() -> None:
    assert prompt_text(PAIR).partition("<notes>\n")[2].partition("\n</notes>")[0] == (
        "Entities:\n1. Ann mends boats.\n2. Bob pays for them.\n3. Cy is here.\n4. Dee is here.\n\n"
        "Relations:\n5. Bob has paid Ann since May.\n\nClaims:\n6. Bob (deed, TRUE): Bob paid twice."
    )


def test_a_relation_is_named_where_its_text_lacks_a_name() -> None:
    tie = next(row for row in PAIR if isinstance(row, Relation))
    records = [replace(tie, text="They have\nmet.") if row is tie else row for row in PAIR]
    assert f"5. {' – '.join(tie.names)}: They have met.\n" in prompt_text(records)


def test_a_relation_that_its_ends_tell_is_no_note() -> None:
    told = "Bob has paid Ann since May."
    records = [replace(row, text=f"Bob is rich. {told}") if row is PAIR[1] else row for row in PAIR]
    assert "Relations:" not in prompt_text(records)
    others = [replace(row, text=f"Cy is here. {told}") if row is PAIR[2] else row for row in PAIR]
    assert f"Relations:\n5. {told}" in prompt_text(others), "Cy may be left out for want of room"
    new = "He pays in June, too."
    more = [replace(row, text=f"{told} {new}") if row is PAIR[4] else row for row in records]
    assert new in prompt_text(more)


def test_a_finding_has_at_most_five_sources() -> None:
    findings = [{"summary": "So", "explanation": "So it is.", "sources": [6, 5, 4, 3, 2, 1]}]
    result = make_report(COMMUNITY, PAIR, Model(REPLY | {"findings": findings}))
    assert result
    assert len(result.sources[1]) == 5
    assert result.sources[1][0][0] == "claims"


def test_a_group_around_one_hub_takes_no_model() -> None:
    names = ("Bob", "Cy", "Dee")
    rays: list[Record] = [*map(entity, ("Ann", *names)), *(relation("Ann", name) for name in names)]
    model = Model(REPLY)
    result = make_report(COMMUNITY, rays, model)
    assert result
    assert not model.prompts
    assert {heading for heading, _ in result.findings} <= {*names, "Ann"}
    assert make_report(COMMUNITY, [*rays, relation("Bob", "Cy")], model)
    assert model.prompts


def test_claims_are_announced_where_there_are_some() -> None:
    assert "Claims are what somebody says" in prompt_text(PAIR)
    assert "laim" not in prompt_text(PAIR[:-1])


def test_the_prompt_holds_no_ids_and_no_counts() -> None:
    others: list[Record] = [entity("Bob"), entity("Cy"), entity("Dee")]
    records = [entity("Ann", mentions=4711), *others, relation("Ann", "Bob", weight=4712, tokens=4713)]
    prompt = prompt_text(records)
    assert not any(n in prompt for n in ("4711", "4712", "4713"))
    assert not any(record.id in prompt for record in records)


def test_the_size_is_in_bands() -> None:
    assert "Size: 4 to 9 members, in 1 document; one of the broadest groups." in prompt_text(PAIR)
    part = replace(COMMUNITY, parent="b")
    assert "in 1 document; part of a broader group." in prompt_text(PAIR, part)


@pytest.mark.parametrize(
    "change",
    [
        lambda: [entity("X"), relation("Bob", "X"), relation("Cy", "X")],
        lambda: [entity(name) for name in "VWXYZ"] + [relation("Cy", name) for name in "VWXYZ"],
    ],
)
def test_an_edge_elsewhere_does_not_change_the_prompt(change: Callable[[], list[Record]]) -> None:
    records = [*PAIR, relation("Ann", "Cy"), relation("Bob", "Cy")]
    assert prompt_text(records) == prompt_text([*records, *change()])
    assert prompt_text(records, order="paper") != prompt_text([*records, *change()], order="paper")


def test_persona_and_language_are_told() -> None:
    plain = prompt_text(PAIR)
    prompt = prompt_text(PAIR, persona="You know boats.", language="Japanese")
    assert prompt.startswith("You know boats.\n\n")
    assert "- Write in Japanese." in prompt
    assert plain.startswith("You write")
    assert "- Write in the language of most notes" in plain


def test_parts_that_are_too_long_are_told_by_their_reports() -> None:
    records = [
        *PAIR, leaf("ab", "Ann", "Bob", level=1), leaf("cd", "Cy", "Dee", level=1),
        report("ab", 10, 104, text="# Ann and Bob\n\nThey met."), report("cd", 50, 40),
    ]  # fmt: skip
    findings = [{"summary": "They met", "explanation": "They met.", "sources": [1, 3]}]
    model = Model(REPLY | {"findings": findings})
    result = make_report(split("all", "ab", "cd"), records, model, window=80)
    prompt = model.prompts[0][-1]["content"]
    assert "Reports:\n3. # Ann and Bob\n\nThey met." in prompt
    assert PARTS_RULE in prompt
    assert PARTS_RULE not in prompt_text(PAIR)
    assert "Ann mends boats" not in prompt
    assert result
    assert result.sources[1] == (("entities", entity_id("Cy")), ("reports", "ab"))
    assert result.elements == 104 + 40


def test_without_a_model_there_is_none() -> None:
    assert make_report(COMMUNITY, PAIR, None, mentions({"Ann mends the boats of the harbour.": ["Ann"]})) is None


# -- the report of the last build


def test_an_earlier_report_stays_without_a_call() -> None:
    model = Model(REPLY)
    earlier = make_report(COMMUNITY, PAIR, model)
    assert earlier
    stored = replace(earlier, id="c", title="As it was")
    assert make_report(COMMUNITY, PAIR, FailingModel(), previous=stored) == stored
    rewritten = make_report(COMMUNITY, PAIR, model, previous=stored, refresh=0)
    assert rewritten
    assert rewritten.title == "Ann and Bob"
    for settings in ({"persona": "You know boats."}, {"window": 4000}, {"order": "paper"}, {"language": "Japanese"}):
        with pytest.raises(ItemFailed) as failure:
            make_report(COMMUNITY, PAIR, FailingModel(), previous=stored, **settings)
        (fallback,) = failure.value.fallback
        assert fallback == stored  # until the model replies, nothing in it is wrong


def test_a_removed_text_leaves_a_report_by_rule_where_the_model_fails() -> None:
    earlier = make_report(COMMUNITY, PAIR, Model(REPLY))
    assert earlier
    stored = replace(earlier, id="c", title="As it was")
    two_other_chunks = mentions({"Ann mends nets.": ["Ann"], "Bob pays Ann.": ["Bob", "Ann"]})
    with pytest.raises(ItemFailed, match="no reply") as failure:
        make_report(COMMUNITY, PAIR, FailingModel(), two_other_chunks, previous=stored)
    (fallback,) = failure.value.fallback
    assert isinstance(fallback, Report)
    assert (fallback.title, fallback.written_with, fallback.added) == ("Ann, Bob, Cy", "", ())
    assert "As it was" not in repr(fallback)
