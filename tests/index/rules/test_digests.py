"""a community and sentences -> a report of the most telling of them, worked by hand, the same every time."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from kumihimo.core.records import Community, Mention, Record, Report
from kumihimo.core.table import Table
from kumihimo.index.data_refs import resolve_references, strip_references
from kumihimo.index.report_context import ReportTables
from kumihimo.index.report_render import rate_mentions, report_markdown
from kumihimo.index.rules.extractive_reports import (
    MAX_MENTIONS,
    MemberSentence,
    build_extractive_report,
    select_sentences,
)
from kumihimo.text.name_keys import entity_id
from tests.index.factories_rows import Words, entity, graph, leaf, mentions, relation, split, table

SAID: Mapping[str, Sequence[str]] = {
    "Ann mends the boats of the harbour every winter.": ["Ann"],
    "Every winter Ann mends the boats of the harbour.": ["Ann"],  # the same words
    "Bob pays Ann for her work at the end of May.": ["Ann", "Bob"],
    "The lighthouse on the cape belongs to Bob and his sister.": ["Bob"],
    "Short, says Bob.": ["Bob"],
    "Cy brews beer with water from the northern spring.": ["Cy"],
}
PEOPLE: list[Record] = [
    entity("Ann", mentions=3),
    entity("Bob", mentions=3),
    entity("Cy", mentions=1),
    relation("Ann", "Bob", weight=3),
    relation("Bob", "Cy", weight=1),
]
ALL = leaf("c", "Ann", "Bob", "Cy", level=1)


def digest(
    community: Community, graph: ReportTables, said: Table[Mention] | Mapping[str, Sequence[str]] = SAID
) -> Report:
    return build_extractive_report(community, graph, said if isinstance(said, Table) else mentions(said), Words())


def test_each_theme_has_one_sentence() -> None:
    found = digest(ALL, graph(*PEOPLE))
    plain = [strip_references(said) for said in (found.summary, *(said for _, said in found.findings))]
    assert sum(said.count("mends the boats") for said in plain) == 1
    told = " ".join(plain)
    assert all(name in told for name in ("pays Ann", "lighthouse", "northern spring"))
    assert "Short" not in told
    assert len(found.findings) == 2


def test_each_sentence_has_its_source() -> None:
    found = digest(ALL, graph(*PEOPLE))
    chunks = {f"doc.{n:05}": sentence for n, sentence in enumerate(SAID)}
    known = {"chunks": [id for _, _, id in found.data]}
    for sentence in (*found.summary.split("] ")[:1], *(said for _, said in found.findings)):
        (reference,) = resolve_references(sentence if sentence.endswith("]") else f"{sentence}]", known).data
        assert chunks[reference[2]] == strip_references(sentence if sentence.endswith("]") else f"{sentence}]")
    assert [n for _, n, _ in found.data] == [1, 2, 3, 4]
    assert resolve_references(found.text, known).dropped == 0
    assert resolve_references(found.text, known).data == found.data


def test_it_is_named_after_its_leaders_and_says_what_it_is() -> None:
    """Weights of the edges inside: Bob 4, Ann 3, Cy 1. Seven mentions: 10 ln 8 / ln 1001 = 3.01."""
    found = digest(ALL, graph(*PEOPLE))
    assert (found.title, found.rating, found.reason) == ("Bob, Ann, Cy", 3.0, "Named 7 times.")
    assert (found.level, found.extractive, found.dropped) == (1, True, 0)
    assert found.elements == 3 * 20 + 2 * 24
    assert found.text == report_markdown(found.title, found.summary, found.findings)
    assert found.tokens == len(found.text.split())


def test_findings_are_headed_by_whom_they_name() -> None:
    found = digest(ALL, graph(*PEOPLE))
    assert {about for about, _ in found.findings} <= {"Ann", "Bob", "Cy", "Ann, Bob"}


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_what_is_given_changes_nothing(seed: int) -> None:
    names = random.Random(seed).sample(["Ann", "Bob", "Cy"], 3)
    assert digest(leaf("c", *names, level=1), graph(*PEOPLE)) == digest(ALL, graph(*PEOPLE))


def test_sentences_that_share_nothing_are_all_as_good() -> None:
    """Each is a theme of its own, of the same weight: they come as they stand."""
    sentences = [MemberSentence(f"{word}a {word}b {word}c", "", "") for word in ("kel", "lom", "mun", "nop")]
    assert select_sentences(sentences) == sentences


def test_a_sentence_that_names_more_weighs_more() -> None:
    one, two = MemberSentence("red boats", "", ""), MemberSentence("green hills", "", "", weight=2.0)
    assert select_sentences([one, two]) == [two, one]


def test_few_or_no_words_are_no_trouble() -> None:
    assert select_sentences([]) == []
    assert select_sentences([MemberSentence("...", "", "")]) == []
    assert select_sentences([MemberSentence("...", "", ""), MemberSentence("A boat", "", "")]) == [
        MemberSentence("A boat", "", "")
    ]
    same = MemberSentence("A boat", "", "")
    assert select_sentences([same, same, same]) == [same]


def test_no_more_than_ten() -> None:
    assert len(select_sentences([MemberSentence(f"word{n} thing{n}", "", "") for n in range(40)])) == 10


def test_without_sentences_the_descriptions_speak() -> None:
    found = digest(leaf("c", "Ann", "Bob"), graph(*PEOPLE), {})
    assert found.summary == "Ann is here. Bob is here."
    assert found.data == ()
    assert digest(leaf("c", "Zoe"), graph(), {}).text == "# "


def test_japanese() -> None:
    told = ["工房は小樽の港の近くにあります。", "組紐は十月に工房から届きます。"]
    said = {sentence: ["工房"] for sentence in (*told, "短い。")}
    found = digest(leaf("c", "工房"), graph(entity("工房", mentions=3)), said)
    assert found.title == "工房"
    assert sorted(strip_references(found.summary).split(" ")) == told


def test_of_very_many_mentions_those_in_shared_chunks_are_read() -> None:
    lone = [
        Mention(entity_id("Ann"), "Ann", "", id=f"doc.{n:05}.00000", text=f"On day {n} Ann sat at home alone.")
        for n in range(MAX_MENTIONS * 2)
    ]
    told = "Bob met Ann at the old mill in winter."
    both = [
        Mention(entity_id(name), name, "", id=f"doc.99999.{n:05}", text=told) for n, name in enumerate(("Ann", "Bob"))
    ]
    people = [entity("Ann", mentions=MAX_MENTIONS * 2 + 1), entity("Bob")]
    found = digest(leaf("c", "Ann", "Bob"), graph(*people), table("mentions", Mention, [*lone, *both]))
    assert told in found.summary


def test_the_rating_grows_with_the_logarithm() -> None:
    assert [rate_mentions(n)[0] for n in (0, 1, 10, 100, 1000, 10**6)] == [0.0, 1.0, 3.5, 6.7, 10.0, 10.0]


# -- a community with parts


def test_it_chooses_among_what_its_parts_have_chosen() -> None:
    parts = [leaf("ab", "Ann", "Bob", level=1), leaf("cy", "Cy", level=1)]
    below = graph(*PEOPLE, *parts)
    made = [_stored(digest(part, below), part) for part in parts]
    whole = graph(*PEOPLE, *parts, *made)
    found = digest(split("all", "ab", "cy"), whole, table("mentions", Mention, []))
    assert found.title == "Ann, Cy"  # the first of each part
    assert found.elements == sum(part.elements for part in made)
    assert (found.level, found.extractive) == (0, True)
    assert "northern spring" in found.text
    assert {id for _, _, id in found.data} <= {id for part in made for _, _, id in part.data}
    assert (found.rating, found.reason) == (3.0, "Its parts are named about 7 times.")
    known = {"chunks": [id for _, _, id in found.data]}
    assert resolve_references(found.text, known).data == found.data
    assert digest(split("all", "cy", "ab"), whole) == found


def test_parts_without_reports_are_read_in_their_place() -> None:
    whole = graph(*PEOPLE, leaf("ab", "Ann", "Bob", level=1), leaf("cy", "Cy", level=1))
    found = digest(split("all", "ab", "cy", "gone"), whole)
    assert "northern spring" in found.text
    assert found.title


def _stored(report: Report, community: Community) -> Report:
    return replace(report, id=community.id)
