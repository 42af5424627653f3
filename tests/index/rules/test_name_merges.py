"""The names of a document -> which are forms of one name, by hand in three languages."""

from __future__ import annotations

import pytest

from kumihimo.core.records import Chunk
from kumihimo.index.name_records import NameResolver
from kumihimo.index.rules.name_merges import resolve_names
from kumihimo.text.graph_edits import parse_edits
from kumihimo.text.name_keys import entity_id, name_key
from tests.index.factories_names import merges_of

Triples = list[tuple[str, str, str]]


def merged(text: str, *aliases: str) -> Triples:
    """Return the merges of a document of one chunk."""
    chunk = Chunk(id="d.00000", title="", start=0, end=len(text), tokens=0, text=text)
    row = merges_of(chunk, aliases=aliases).get("d")
    return list(row.merges) if row else []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We met Martha Kerrow. Later Kerrow left.", [("Kerrow", "Martha Kerrow", "surname")]),
        ("We met Martha Kerrow. Then Martha left.", [("Martha", "Martha Kerrow", "given name")]),
        ("We met Oona Fellbeck. Then Fellbeck said so.", [("Fellbeck", "Oona Fellbeck", "surname")]),
        ("We met Dr. Martha Kerrow.", [("Dr. Martha Kerrow", "Martha Kerrow", "title")]),
        ("We met Mr Roake. Then Roake left.", [("Mr Roake", "Roake", "title")]),
        ("Here Prime Minister Vance met us. Then Vance left.", [("Prime Minister Vance", "Vance", "title")]),
        ("We met Martha J. Kerrow and Martha Kerrow.", [("Martha Kerrow", "Martha J. Kerrow", "part of the name")]),
        ("We met Martha Kerrow and M. Kerrow.", [("M. Kerrow", "Martha Kerrow", "part of the name")]),
        ("It joined the Otaru Trade Board (OTB).", [("OTB", "Otaru Trade Board", "acronym")]),
        ("The Otaru Trade Board met. Then OTB left.", [("OTB", "Otaru Trade Board", "acronym")]),
        ("彼は欧州小樽銀行（EOB）に行き、EOBで働く。", [("EOB", "欧州小樽銀行", "acronym")]),
        ("彼は小樽水産連合（以下「樽連」）に行く。", [("樽連", "小樽水産連合", "acronym")]),
        (
            "昨日は田中一郎に会う。また田中さんが来た。",
            [("田中", "田中一郎", "surname"), ("田中さん", "田中一郎", "title")],
        ),
        ("ここでグスタフ・ケロウと会う。ケロウは去る。", [("ケロウ", "グスタフ・ケロウ", "surname")]),
        ("在歐洲，威廉·瓊斯開創學校。後來瓊斯發現問題。", [("瓊斯", "威廉·瓊斯", "surname")]),
        ("We met Oban CTO Kit Roake. Then Kit Roake left.", [("Oban CTO Kit Roake", "Kit Roake", "title")]),
        ("We met Oona Fellbeck (born 1920). Then Fellbeck left.", [("Fellbeck", "Oona Fellbeck", "surname")]),
        ("We met Oona Fellbeck. Oona Fellbeck was a poet. Fellbeck left.", [("Fellbeck", "Oona Fellbeck", "surname")]),
        ("We met De Sallow. Then Sallow left.", [("Sallow", "De Sallow", "surname")]),
        ("We saw the Oban Trade Board. Then the Board left.", [("Board", "Oban Trade Board", "head")]),
        ("We saw the Order of Oban. Then the Order left.", [("Order", "Order of Oban", "head")]),
        ("We saw the Oban Trade\nBoard. Then the Board left.", [("Board", "Oban Trade Board", "head")]),
        ("We saw the Oban Tide Board. Then the Tide Board left.", [("Tide Board", "Oban Tide Board", "head")]),
        ("We left the United States. The US stays.", [("US", "United States", "acronym")]),
        ("We saw Sallow University. They left Sallow.", [("Sallow", "Sallow University", "part of the name")]),
    ],
)
def test_forms_of_one_name(text: str, expected: Triples) -> None:
    assert [triple for triple in merged(text) if triple in expected] == expected


@pytest.mark.parametrize(
    "text",
    [
        "We met Martha Kerrow and Joss Kerrow. Later Kerrow left.",
        "We met Mr Kerrow and Mrs Kerrow.",
        "We met Martha Kerrow of the Kerrow Trust. Later Kerrow left.",
        "We left South Otaru for Otaru.",
        "We read of Lake Brannet, and Brannet.",
        "We saw the Otaru Trade Board and the Oban Turf Bureau. Then OTB left.",
        "The model 2 (II) and the second Irish Isle (II) are here.",
        "We met George Sallow in Sallow Town. Later we left Sallow.",
        "東京に行く。東京都が発表した。東京大学もある。",
        "田中一郎と田中二郎に会う。田中が来た。",
        "法政大学と法政大学教授の話。",
        "社長の田中一郎（NHK）に会う。NHKで働く。",
        "ここでグスタフ・ケロウとハンス・ケロウが会う。ケロウは去る。",
        "ここで米田一と米田二郎と田中一郎に会う。田中一郎の話。米田の話。",
        "在北方，李清治和李清高發現問題。李清也去。",
        "We met Kit Roake and P. G. Roake.",
        "We met William Kerrow. Later Bill Kerrow left.",
        "We met Kit Roake Jr. and Kit Roake.",
        "We saw the Oban Trade Board. Then Board left.",
        "We saw the Oban Trade Board and the Otaru Tide Board. Then the Board left.",
        "We saw the West Oban Turf. Then the Turf left.",
        "We read Life of the Irish. Then the Irish left.",
        "We saw Sallow University. They stay in Sallow.",
        "We left for Georgia Tide. We saw Behind the Tide.",
        "He received a Doctor of Laws degree, and of Laws.",
        "We met Martha Kerrow, daughter of Martha I of Otaru.",
        "We saw the Prime Minister of Oban. Then the Prime Minister left.",
        "We saw Oban Week 13 and Oban Week 14.",
        "We saw Oban. Then Oban United and the Oban Harbour Club met.",
    ],
)
def test_names_that_stay_apart(text: str) -> None:
    assert merged(text) == []


def test_a_surname_needs_a_name_that_begins_so_only_once_in_the_text() -> None:
    names = [("田中一郎", "person"), ("田中", "person")]
    assert resolve_names(names, [], lambda: "田中一郎の話。田中は去る。") == [("田中", "田中一郎", "surname")]
    assert resolve_names(names, [], lambda: "田中一郎と田中二郎の話。田中は去る。") == []


def test_a_given_name_with_an_honorific_is_of_the_full_name_with_one() -> None:
    names = [("ルータ・ケロウさん", "person"), ("ルータさん", "person")]
    assert ("ルータさん", "ルータ・ケロウ", "title") in resolve_names(names, [], str)


def test_a_hall_is_no_honorific_in_chinese() -> None:
    assert resolve_names([("海勒殿", "person"), ("海勒", "")], [], lambda: "海勒殿是海勒的") == []


def test_a_dot_stands_in_chinese_names_of_persons() -> None:
    names = [("海勒·凱羅克", ""), ("凱羅克", "")]
    assert resolve_names(names, [], lambda: "海勒·凱羅克發現問題") == [("凱羅克", "海勒·凱羅克", "surname")]
    assert resolve_names([("海勒·凱羅", ""), ("凱羅", "")], [], lambda: "海勒·凱羅發現問題") == []


def test_a_region_is_the_place_that_it_is_called_after() -> None:
    assert resolve_names([("小樽", ""), ("小樽地方", "")], [], str) == [("小樽", "小樽地方", "place")]
    assert resolve_names([("小樽", ""), ("小樽地方", ""), ("小樽市", "")], [], str) == []


def test_the_type_of_a_foreign_name_tells_its_surname() -> None:
    names = [("ペッタ・ケロウ", "person"), ("ケロウ", "")]
    assert resolve_names(names, [], str) == [("ケロウ", "ペッタ・ケロウ", "surname")]
    assert resolve_names([("ペッタ・ケロウ", "place"), ("ケロウ", "")], [], lambda: "ペッタ・ケロウの話") == []


def test_a_line_keeps_two_names_apart() -> None:
    text = "We met Martha Kerrow. Later Kerrow left with Mr Kerrow."
    assert merged(text, "Kerrow != Martha Kerrow") == [("Mr Kerrow", "Kerrow", "title")]
    assert merged(text, "Mr Kerrow != Martha Kerrow") == [("Kerrow", "Martha Kerrow", "surname")]


def test_a_surname_follows_its_full_name() -> None:
    assert merged("Then Apple left. We met Max Apple.") == []


def test_the_type_of_a_mention_tells_places_from_persons() -> None:
    names = [("George Washington", "person"), ("Washington", "")]
    assert resolve_names(names, [], str) == [("Washington", "George Washington", "surname")]
    assert resolve_names([*names, ("Washington", "place")], [], str) == []


def test_a_type_that_a_model_gives_decides_at_each_mention() -> None:
    resolver = NameResolver({"washington": ("george washington", "surname")})
    assert resolver.entity_of_key("washington", "place") == entity_id("washington")
    assert {resolver.entity_of_key("washington", kind) for kind in ("", "Person")} == {entity_id("george washington")}


def test_the_lines_of_the_user_come_first() -> None:
    resolver = NameResolver({"kerrow": ("martha kerrow", "surname")}, parse_edits(("Joss Kerrow = Kerrow",)))
    assert resolver.entity_of_key(name_key("Kerrow")) == entity_id("joss kerrow")
