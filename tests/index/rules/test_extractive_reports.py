"""A community and sentences -> an extractive report, checked by hand and always the same."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from kumihimo.core.records import Community, Mention, Record, Report
from kumihimo.core.table import Table
from kumihimo.index.report_context import ReportTables, rate_mentions
from kumihimo.index.rules.rule_reports import MAX_MENTIONS, MemberSentence, build_extractive_report, select_sentences
from kumihimo.text.name_keys import entity_id
from tests.index.factories_rows import WordTokenizer, entity, graph, leaf, mentions, relation, split, table

SENTENCES: Mapping[str, Sequence[str]] = {
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


def build_report(
    community: Community, graph: ReportTables, mentioned: Table[Mention] | Mapping[str, Sequence[str]] = SENTENCES
) -> Report:
    table = mentioned if isinstance(mentioned, Table) else mentions(mentioned)
    return build_extractive_report(community, replace(graph, mentions=table), WordTokenizer())


def sentences_of(report: Report) -> list[str]:
    return [*report.summary.splitlines(), *(sentence for _, sentence in report.findings)]


def test_each_theme_has_one_sentence() -> None:
    result = build_report(ALL, graph(*PEOPLE))
    full_text = " ".join(sentences_of(result))
    assert full_text.count("mends the boats") == 1
    assert all(name in full_text for name in ("pays Ann", "lighthouse", "northern spring"))
    assert "Short" not in full_text
    assert len(result.findings) == 2


def test_each_sentence_has_its_source() -> None:
    result = build_report(ALL, graph(*PEOPLE))
    chunks = {("chunks", f"doc.{n:05}"): sentence for n, sentence in enumerate(SENTENCES)}
    sources = [*result.sources[0], *(source for (source,) in result.sources[1:])]
    assert [chunks[source] for source in sources] == sentences_of(result)
    assert "[" not in result.text
    assert set(result.citations()) == set(sources)


def test_a_title_leaves_out_names_that_are_everywhere() -> None:
    """Inner edge weights: Ann 3, Bob 3. But Ann has 4 edges, 1 of them inner."""
    elsewhere = [entity(name) for name in ("Dee", "Eve", "Flo")]
    edges = [relation("Ann", row.name, weight=1) for row in elsewhere]
    rows = graph(entity("Ann"), entity("Bob"), relation("Ann", "Bob", weight=3), *elsewhere, *edges)
    assert build_report(leaf("c", "Ann", "Bob"), rows).title == "Bob, Ann"


def test_title_and_rating() -> None:
    """Inner edge weights: Bob 4, Ann 3, Cy 1. Seven mentions: 10 ln 8 / ln 1001 = 3.01."""
    result = build_report(ALL, graph(*PEOPLE))
    assert (result.title, result.rating, result.reason) == ("Bob, Ann, Cy", 3.0, "Named 7 times.")
    assert (result.level, result.extractive, result.dropped) == (1, True, 0)
    assert result.elements == 3 * 20 + 2 * 24
    assert result.text == result.derived_text
    assert result.tokens == len(result.text.split())


def test_findings_are_headed_by_whom_they_name() -> None:
    result = build_report(ALL, graph(*PEOPLE))
    assert {about for about, _ in result.findings} <= {"Ann", "Bob", "Cy", "Ann, Bob"}


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_members_changes_nothing(seed: int) -> None:
    names = random.Random(seed).sample(["Ann", "Bob", "Cy"], 3)
    assert build_report(leaf("c", *names, level=1), graph(*PEOPLE)) == build_report(ALL, graph(*PEOPLE))


def test_sentences_that_share_nothing_are_all_as_good() -> None:
    """The themes have equal weight, so the sentences keep their order."""
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
    result = build_report(leaf("c", "Ann", "Bob"), graph(*PEOPLE), {})
    assert result.summary == "Ann is here.\nBob is here."
    assert result.citations() == ()
    assert build_report(leaf("c", "Zoe"), graph(), {}).text == "# "


def test_japanese() -> None:
    expected = ["工房は小樽の港の近くにあります。", "組紐は十月に工房から届きます。"]
    mentioned = {sentence: ["工房"] for sentence in (*expected, "短い。")}
    result = build_report(leaf("c", "工房"), graph(entity("工房", mentions=3)), mentioned)
    assert result.title == "工房"
    assert sorted(result.summary.splitlines()) == expected


def test_of_very_many_mentions_those_in_shared_chunks_are_read() -> None:
    lone = [
        Mention(entity_id("Ann"), "Ann", "", id=f"doc.{n:05}.00000", text=f"On day {n} Ann sat at home alone.")
        for n in range(MAX_MENTIONS * 2)
    ]
    shared_text = "Bob met Ann at the old mill in winter."
    both = [
        Mention(entity_id(name), name, "", id=f"doc.99999.{n:05}", text=shared_text)
        for n, name in enumerate(("Ann", "Bob"))
    ]
    people = [entity("Ann", mentions=MAX_MENTIONS * 2 + 1), entity("Bob")]
    result = build_report(leaf("c", "Ann", "Bob"), graph(*people), table("mentions", Mention, [*lone, *both]))
    assert shared_text in result.summary


def test_the_rating_grows_with_the_logarithm() -> None:
    assert [rate_mentions(n)[0] for n in (0, 1, 10, 100, 1000, 10**6)] == [0.0, 1.0, 3.5, 6.7, 10.0, 10.0]


# -- a community with parts


def test_a_parent_selects_from_its_parts() -> None:
    parts = [leaf("ab", "Ann", "Bob", level=1), leaf("cy", "Cy", level=1)]
    below = graph(*PEOPLE, *parts)
    part_reports = [_stored(build_report(part, below), part) for part in parts]
    whole = graph(*PEOPLE, *parts, *part_reports)
    result = build_report(split("all", "ab", "cy"), whole, table("mentions", Mention, []))
    assert result.title == "Ann, Cy"  # the first of each part
    assert result.elements == sum(part.elements for part in part_reports)
    assert (result.level, result.extractive) == (0, True)
    assert "northern spring" in result.text
    assert {*result.citations()} <= {source for part in part_reports for source in part.citations()}
    assert len(result.citations()) == len(sentences_of(result))
    assert (result.rating, result.reason) == (3.0, "Its parts are named about 7 times.")
    assert build_report(split("all", "cy", "ab"), whole) == result


def test_parts_without_reports_are_read_in_their_place() -> None:
    whole = graph(*PEOPLE, leaf("ab", "Ann", "Bob", level=1), leaf("cy", "Cy", level=1))
    result = build_report(split("all", "ab", "cy", "gone"), whole)
    assert "northern spring" in result.text
    assert result.title


def _stored(report: Report, community: Community) -> Report:
    return replace(report, id=community.id)
