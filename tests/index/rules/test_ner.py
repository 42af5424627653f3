"""A chunk -> names and pairs of them, by hand in four languages, and with hostile texts."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import example, given, settings, strategies as st

from kumihimo.core.records import Chunk, Entity, Mention, RelationMention
from kumihimo.index import mentions as steps
from kumihimo.index.rules import ner
from kumihimo.index.rules.listed_names import select_named
from kumihimo.index.rules.ner_cjk import find_chinese_names, find_japanese_names
from kumihimo.index.rules.ner_words import drop_overlaps
from kumihimo.text import name_keys, parts_of_speech
from tests.counters import check_linear
from tests.index.factories_names import inputs


def chunk(text: str, title: str = "") -> Chunk:
    return Chunk(id="d.00000", title=title, start=0, end=len(text), tokens=0, text=text)


def mentions(text: str, title: str = "", aliases: tuple[str, ...] = ()) -> list[Mention]:
    return list(steps.mentions(*inputs(chunk(text, title)), None, aliases=aliases))


def ties(text: str, title: str = "", aliases: tuple[str, ...] = ()) -> list[RelationMention]:
    return list(steps.ties(*inputs(chunk(text, title)), None, aliases=aliases))


def names_in(text: str, title: str = "") -> list[str]:
    return [mention.name for mention in mentions(text, title)]


def names_with_types(text: str) -> list[tuple[str, str]]:
    return [(mention.name, mention.type) for mention in mentions(text)]


def entity(name: str) -> str:
    return name_keys.entity_id(name_keys.name_key(name))


# -- by hand


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ada and Bo sailed to Lisbon.", ["Ada", "Bo", "Lisbon"]),
        ("We saw Ludwig van Beethoven and Ivan the Terrible.", ["Ludwig van Beethoven", "Ivan the Terrible"]),
        ("However, The Beatles met us in Los Angeles on Monday.", ["Beatles", "Los Angeles"]),
        ("We sent it to J. R. R. Tolkien in the U.S. by AT&T.", ["J. R. R. Tolkien", "U.S.", "AT&T"]),
        (
            "It is Microsoft's Kevin Scott at St. Paul's Cathedral.",
            ["Microsoft", "Kevin Scott", "St. Paul's Cathedral"],
        ),
        ("Then the CEO of Microsoft met O'Brien.", ["Microsoft", "O'Brien"]),
        ("Her iPhone and al-Qaeda and C++ and COVID-19.", ["iPhone", "al-Qaeda", "C++", "COVID-19"]),
        ("Here Émile Zola met Фёдор Достоевский and Ödön.", ["Émile Zola", "Фёдор Достоевский", "Ödön"]),
        ("Da reiste Otto von Bismarck nach Preußen.", ["Otto von Bismarck", "Preußen"]),
        ("write to foo@Bar.com, http://www.Foo.com/Bar, a_Foo", []),
        ("I'm sure we don't. I know.", []),
    ],
)
def test_capitalised_runs(text: str, expected: list[str]) -> None:
    assert names_in(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("In 1960 Kennedy won.", ["Kennedy"]),
        ("They saw the 1960 Summer Olympics in May 1960.", ["1960 Summer Olympics"]),
        ("We ran Windows 95 on Apollo 11.", ["Windows 95", "Apollo 11"]),
        ("We left Lisbon 20 years ago.", ["Lisbon"]),
    ],
)
def test_years_and_numbers_count_only_within_a_name(text: str, expected: list[str]) -> None:
    assert names_in(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Lisbon is old.", ["Lisbon"]),
        ("Boats sail. We like boats.", []),  # it is in small letters elsewhere
        ("Boats sail. We like a boat.", []),
        ("Rust is old. We like Rust and rust.", ["Rust", "Rust"]),  # it is capitalised elsewhere
        ("Yesterday it rained. Sailing is fun. Finally we left.", []),
        ("NASA launched it.", ["NASA"]),
        ("Self-driving cars are rare. (Laughter.) [MUSIC]", []),
        ("He said: “Harbours are old.” We saw a harbour.", []),
    ],
)
def test_one_word_that_opens_a_sentence_must_show_that_it_is_a_name(text: str, expected: list[str]) -> None:
    assert names_in(text) == expected


def test_a_transcript() -> None:
    text = "KEVIN SCOTT:  Hi, everyone.  I work at Microsoft with Ada Vance.\n\n[MUSIC]\n\nADA VANCE: Hello, Kevin."
    assert names_with_types(text) == [
        ("KEVIN SCOTT", "person"),
        ("Microsoft", ""),
        ("Ada Vance", ""),
        ("ADA VANCE", "person"),
        ("Kevin", ""),
    ]
    assert len({mention.entity for mention in mentions(text)}) == 3  # Kevin is Kevin Scott


def test_lines_in_capitals_make_no_long_name() -> None:
    assert names_in("THIS IS A LINE OF CAPITALS FROM LISBON") == []
    assert names_in("One Two Three Alpha Beta Gamma Delta Epsilon Zeta Eta Theta Iota") == []


def test_titles_and_types() -> None:
    text = "Mr Kerrow met Captain Ahab of Whale Ltd at the University of Otaru."
    text += " Kerrow met Dr. Vance in Otaru Town Council."
    assert names_with_types(text) == [
        ("Mr Kerrow", "person"),
        ("Captain Ahab of Whale Ltd", "organization"),
        ("University of Otaru", "organization"),
        ("Kerrow", ""),
        ("Dr. Vance", "person"),
        ("Otaru Town Council", "organization"),
    ]
    assert mentions(text)[0].entity == mentions(text)[3].entity == entity("Kerrow")


@pytest.mark.parametrize(
    "text",
    [
        "It joined the World Health Organization (WHO). Then the WHO grew.",
        "It joined the WHO (World Health Organization). Then the WHO grew.",
    ],
)
def test_an_acronym_is_what_it_stands_for(text: str) -> None:
    result = mentions(text)
    assert {mention.entity for mention in result} == {entity("World Health Organization")}
    assert len(result) == 2


def test_an_acronym_of_small_words() -> None:
    assert names_in("We use natural language processing (NLP) here. NLP is old.") == [
        "natural language processing",
        "NLP",
    ]
    assert len({mention.entity for mention in mentions("We use machine learning (ML) here. ML is old.")}) == 1


def test_initials_that_do_not_match_are_another_name() -> None:
    result = mentions("It joined the World Health Organization (FIFA).")
    assert [mention.name for mention in result] == ["World Health Organization", "FIFA"]
    assert len({mention.entity for mention in result}) == 2


def test_quoted_titles_and_quoted_speech() -> None:
    text = 'He wrote "A Tale of Two Cities" and ‘Hard Times’. She said “Come in now, Bob.”'
    assert names_with_types(text) == [("A Tale of Two Cities", "work"), ("Hard Times", ""), ("Bob", "")]


def test_quantities_are_no_names() -> None:
    text = "it is 41 centimetres, 3.5 km, $20 million, 15%, 120 m², 20 MB, €5 and 20 years by Bo, 7 apples"
    assert names_in(text) == ["Bo"]
    assert names_in("三センチの箱に20万円が入る。") == []


@pytest.mark.parametrize(
    "text",
    [
        "we met on Tuesday, 5 May 2024; Mondays and Fridays are free",
        "Wrote it down. Struck the bell. Society grew.",
        "23.50 Third try failed. Eighteen children came. 4 Feb 1988 Wind S 7.",
        "Swept the yard. Unwound and oiled the horn.",
        "write to us: Subject: the pier; a@b.org Date: soon",
        "| Year | Boat | Skipper |\n|---|---|---|\n| 1922 | 3 | 4 |",
        "## The Old Rules\n\nthey bind us all.",
        'set it so:\nadd_header X-Kit "Otaru";\nand go',
        "to our Long Arm;\n```\n\nthey bind us all.",  # code that an earlier chunk begins
    ],
)
def test_capitals_of_a_place_make_no_name(text: str) -> None:
    assert names_in(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dear Nell, we saw them. Poor Ada, we saw Ada. Old Mr Kerrow.", ["Nell", "Ada", "Mr Kerrow"]),
        ("Nominating Bram Tolliver was easy. Rolling Stones rolled.", ["Bram Tolliver", "Rolling Stones"]),
        ("Walked the Long Arm in December the day after.", ["Long Arm"]),
        ("Last October Bram Tolliver saw Ivan the Terrible.", ["Bram Tolliver", "Ivan the Terrible"]),
        ("we mended the Old Pier:\n```\nsaw Kit\n```\n\nwith Ada.", ["Old Pier", "Ada"]),
        ("## The Old Pier\n\nwe mended the Old Pier.", ["Old Pier", "Old Pier"]),
        ("## What Lisbon owes to Ada\n\nnothing.", ["Lisbon", "Ada"]),
        ("| Year | Boat |\n|---|---|\n| 1922 | Otaru Maru |", ["Otaru Maru"]),
    ],
)
def test_a_name_stands_without_its_neighbours(text: str, expected: list[str]) -> None:
    assert names_in(text) == expected


@pytest.fixture
def _untagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """No extra for Japanese and Chinese is installed."""
    monkeypatch.setattr(parts_of_speech, "can_tag_japanese", lambda: False)
    monkeypatch.setattr(parts_of_speech, "can_tag_chinese", lambda: False)


@pytest.mark.usefixtures("_untagged")
def test_japanese() -> None:
    text = "三菱商事の田中一郎氏はニューヨーク・タイムズに「吾輩は猫である」と『坊っちゃん』を41センチで送った。"
    assert names_with_types(text) == [
        ("三菱商事", ""),
        ("田中一郎氏", "person"),
        ("ニューヨーク・タイムズ", ""),
        ("吾輩は猫である", ""),
        ("坊っちゃん", "work"),
    ]
    assert mentions(text)[1].entity == entity("田中一郎")


@pytest.mark.usefixtures("_untagged")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("今日は自分の問題が必要な場合である。", []),
        ("梅雨明けに三菱が九州で開始した。", ["梅雨", "三菱", "九州"]),
        ("2015年現在、二人が十二月に19世紀後半の東京タワーへ。", ["東京タワー"]),
        ("三センチの箱に20万円が入る。", []),
        ("行《ゆ》く人に「はい」と言い、【お知らせ】を貼る。", ["お知らせ"]),
        ("ジョンさんとNHKとGPS衛星", ["ジョンさん", "NHK", "GPS衛星"]),
    ],
)
def test_rules_of_japanese(text: str, expected: list[str]) -> None:
    assert names_in(text) == expected


@pytest.mark.usefixtures("_untagged")
def test_chinese() -> None:
    assert names_in("在歐洲，梵語的學術研究由威廉·瓊斯開創。") == ["歐洲", "梵語", "學術研究", "威廉·瓊斯"]
    assert names_with_types("周恩來與以色列、土耳其的《大公報》相距50公里。") == [
        *(("周恩來", ""), ("以色列", ""), ("土耳其", ""), ("大公報", "work")),
    ]
    assert names_in("中华人民共和国的首都是北京。") == ["中华人民共和国", "北京"]


# -- sentences, titles, aliases


def test_the_text_is_the_sentence_and_headings_count() -> None:
    result = mentions("# Notes on Lisbon, the town\n\nAda met\nBo. Ada left Ada.\n\nThe Old Pier\n============\n")
    assert [(mention.name, mention.text) for mention in result] == [
        ("Lisbon", "Notes on Lisbon, the town"),
        ("Ada", "Ada met Bo."),
        ("Bo", "Ada met Bo."),
        ("Ada", "Ada left Ada."),
    ]


def test_the_title_is_named_by_the_first_sentence_and_where_it_stands() -> None:
    result = mentions("It is a planet near Venus. All of mercury shines.", "Mercury (planet)")
    assert [(mention.name, mention.text) for mention in result] == [
        ("Venus", "It is a planet near Venus."),
        ("Mercury", "It is a planet near Venus."),
        ("mercury", "All of mercury shines."),
    ]
    assert len({mention.entity for mention in result}) == 2


@pytest.mark.parametrize("title", ["minutes_04.md", "notes/harbour", "What we did when it rained all day", "12", ""])
def test_a_title_that_is_no_name(title: str) -> None:
    assert names_in("it rained.", title) == []


def test_aliases_are_one_entity_and_named_once_in_a_sentence() -> None:
    text, aliases = "We saw Bob and Robert Cratchit.", ("Robert Cratchit = Bob",)
    result = mentions(text, aliases=aliases)
    assert [(mention.name, mention.entity) for mention in result] == [("Bob", entity("Robert Cratchit"))]
    assert ties(text, aliases=aliases) == []


# -- relation mentions


def test_a_tie_for_each_pair_of_a_sentence() -> None:
    result = ties("We saw Ada, Bo and Lisbon. Then Ada left.")
    assert {frozenset(tie.names) for tie in result} == {
        frozenset(pair) for pair in (("Ada", "Bo"), ("Ada", "Lisbon"), ("Bo", "Lisbon"))
    }
    for tie in result:
        assert tie.source < tie.target
        assert (tie.source, tie.target) == tuple(entity(name) for name in tie.names)
        assert tie.relation == name_keys.relation_id(tie.source, tie.target)
        assert (tie.text, tie.keywords, tie.strength) == ("We saw Ada, Bo and Lisbon.", (), None)


def test_a_list_of_200_names_makes_790_ties() -> None:
    listed = ", ".join(f"Bo{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(200))
    result = ties(f"we saw {listed}.")
    assert len(result) == 4 * 200 - 10
    assert max(Counter(end for tie in result for end in (tie.source, tie.target)).values()) == 8


# -- any text

TEXTS = st.text(
    alphabet=st.sampled_from("AbÉ.’' \n#[](“”\"「」『』《》・ー東京大学的タワさん氏0123年%kmof &:-_$　"), max_size=120
)


@settings(max_examples=200)
@given(TEXTS | st.text(max_size=80), TEXTS)
@example("《 》タ", "")  # a title without words
def test_any_text_is_read(text: str, title: str) -> None:
    result = mentions(text, title)
    assert Counter((mention.entity, mention.text) for mention in result) == Counter(
        (mention.entity, mention.text) for mention in mentions(text, title)
    )
    for mention in result:
        assert mention.name
        assert mention.name in mention.text or mention.name in title or mention.name in name_keys.title_as_name(title)
    entities = {mention.entity for mention in result}
    for tie in ties(text, title):
        assert tie.source < tie.target
        assert {tie.source, tie.target} <= entities


@settings(max_examples=200)
@given(TEXTS)
def test_spans_match_their_names_and_do_not_overlap(text: str) -> None:
    spans, spans_of_text, _ = ner._find_names(text, list(ner._split_sentences(text)), "東京"), [], 0
    for find in (find_japanese_names, find_chinese_names):
        spans_of_text = list(drop_overlaps(find(text)))
        assert all(text[span.start : span.end] == span.name for span in spans_of_text)
        assert all(span.end <= following.start for span, following in pairwise(spans_of_text))
    for sentence_spans in spans[0]:
        assert all(span.end <= following.start for span, following in pairwise(sentence_spans))


@pytest.mark.parametrize(
    "piece",
    [
        "A",
        "Ab ",
        "Ab of the ",
        "of the ",
        "(Aa ",
        '"Aa ',
        "1",
        "1,111",
        "A.",
        "A. ",
        "A-",
        "Ab & ",
        "Ab's ",
        "Aa Aa (AA) ",
        *("ア", "ア・", "東", "東京の", "A東", "「", "“", "‘", "(", "#", "[", "# a ", "Bob met Ann. "),
    ],
)
def test_work_grows_with_the_text(piece: str) -> None:
    check_linear(mentions, piece, 100_000)


@pytest.mark.parametrize(
    ("name", "text", "is_listed"),
    [
        ("Ruta Haverlock", "Ruta Haverlock opened the workshop.", True),
        ("Nominating Haverlock", "Nominating Haverlock was easy.", True),  # introduced
        ("Nominating Haverlock", "Nominating Haverlock for the board.", False),  # its first word is a common one
        ("Quarry Road", "The fence on Quarry Road fell.", True),
        ("VPS", "We moved to a large VPS and to the BBC.", False),
        ("BBC", "We moved to a large VPS and to the BBC.", True),
        ("Account Settings", "Open Account Settings, where the settings of an account are.", False),
        ("Account Settings", "Account Settings are a page; an account has settings.", False),
    ],
)
def test_one_mention_shows_a_name_if_its_words_are_rare_or_have_capitals(name: str, text: str, is_listed: bool) -> None:
    entity = Entity(name, "", (name,), (), mentions=1, tokens=9, id="e", text=text)
    assert bool(select_named([entity])) == is_listed


@pytest.mark.parametrize(("name", "is_listed"), [("Keeper", False), ("Board", True)])
def test_two_mentions_show_no_name_of_what_people_are(name: str, is_listed: bool) -> None:
    text = f"We asked the Harbour {name} twice.\nThen our Harbour {name} told a keeper of the board in the harbour."
    entity = Entity(f"Harbour {name}", "", (f"Harbour {name}",), (), mentions=2, tokens=9, id="e", text=text)
    assert bool(select_named([entity])) == is_listed
