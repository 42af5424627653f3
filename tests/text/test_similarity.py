"""names -> similar pairs with their reason, and pairs that look similar but are not."""

from __future__ import annotations

from itertools import combinations

import pytest

from kumihimo.text.name_keys import name_key
from kumihimo.text.similarity import fold_key, name_similarity, similar_pairs


def both_ways(one: str, other: str, *, people: bool = False) -> tuple[float, str]:
    """Return the result for two names, equal in both orders."""
    result = similar_pairs([fold_key(name_key(one)), fold_key(name_key(other))], [people, people]).get(
        (0, 1), (0.0, "")
    )
    assert (
        similar_pairs([fold_key(name_key(other)), fold_key(name_key(one))], [people, people]).get((0, 1), (0.0, ""))
        == result
    )
    return result


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Séxton Blake", "Sexton Blake", "letters"),
        ("スティーブ・ジョブズ", "スティーヴ・ジョブス", "spelling"),
        ("サーバー", "サーバ", "letters"),
        ("さくら", "サクラ", "letters"),
        ("森田先生", "森田", "title"),
        ("Mr. Topper", "Topper", "title"),
        ("Dr Ada Byron", "Professor Ada Byron", "title"),
        ("Holmes, Sherlock", "Sherlock Holmes", "same words"),
        ("data base", "database", "same words"),
        ("Bob Cratchit", "Robert Cratchit", "short form"),
        ("J. Watson", "John Watson", "short form"),
        ("International Business Machines", "IBM", "acronym"),
        ("United States of America", "USA", "acronym"),
        ("Internal Revenue Service (IRS)", "Internal Revenue Service", "part"),
        ("State of Mississippi", "Mississippi", "part"),
        ("Fezziwig", "Fezziwigg", "spelling"),
        ("Graph Retrieval", "Graph Retreival", "spelling"),
    ],
)
def test_names_of_one_thing_are_alike(one: str, other: str, expected: str) -> None:
    score, reason = both_ways(one, other)
    assert (reason, score >= 0.5) == (expected, True)


@pytest.mark.parametrize(
    ("one", "other"), [("Scrooge", "Ebenezer Scrooge"), ("Dick", "Dick Wilkins"), ("森田", "森田圭")]
)
def test_people_have_first_names(one: str, other: str) -> None:
    assert both_ways(one, other, people=True)[0] >= 0.75 > both_ways(one, other)[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Windows 10", "Windows 11"),
        ("Level 2", "Level 3"),
        ("Council Meeting 2022-06-01", "Council Meeting 2022-01-06"),
        ("Council Meeting 1 June 2022", "Council Meeting 6 January 2022"),
        ("Council Meeting 2022-06-01", "Council Meeting 6 January 2022"),
        ("Minutes of March", "Minutes of May"),
        ("令和4年度総会", "平成4年度総会"),
        ("令和4年6月1日総会", "令和4年1月6日総会"),
        ("Henry IV", "Henry V"),
        ("Paragraph 1.E.1", "Paragraph 1.E.8"),
        ("vitamin B", "vitamin C"),
        ("第一章", "第二章"),
        ("World War One", "World War Two"),
        ("North Korea", "South Korea"),
        ("Mr. Fezziwig", "Mrs. Fezziwig"),
        ("Mrs. Fezziwig", "Miss Fezziwig"),
        ("Boy Cratchit", "Girl Cratchit"),
        ("Old Scrooge", "Young Scrooge"),
        ("www.gutenberg.org/contact", "www.gutenberg.org"),
        ("Fan", "Fran"),
    ],
)
def test_what_tells_two_things_apart_is_never_overlooked(one: str, other: str) -> None:
    assert both_ways(one, other) == both_ways(one, other, people=True) == (0.0, "")


def test_a_number_more_makes_another_thing_of_it() -> None:
    assert both_ways("Windows", "Windows 11")[0] <= 0.3
    assert both_ways("Korea", "South Korea")[0] <= 0.3


def test_part_of_many_names_says_little_of_each() -> None:
    names = ["cratchit", "belinda cratchit", "martha cratchit", "peter cratchit", "ada roy", "roy"]
    scores = similar_pairs(names, [True] * len(names))
    assert scores[0, 1] == scores[0, 3] < (0.7, "part")
    assert scores[4, 5] == (0.8, "part")


def test_a_name_without_a_title_is_the_mans_where_there_is_a_woman_too() -> None:
    names = ["fezziwig", "mr fezziwig", "mrs fezziwig", "mrs dilber", "dilber"]
    scores = similar_pairs(names, [True] * len(names))
    assert (scores[0, 1][0], scores[0, 2][0], scores[3, 4][0]) == (0.95, 0.6, 0.95)


def test_what_is_looked_at_is_what_comparing_all_with_all_finds() -> None:
    typos = ["{}a", "x{}", "{}", "the {} {}", "old {}"]
    names = sorted(
        {form.format(word, word) for form in typos for word in ("kanrobar", "tenmisol", "vindorel", "quinlo")}
    )
    all_scores = {(i, j): name_similarity(names[i], names[j]) for i, j in combinations(range(len(names)), 2)}
    strong_pairs = {pair for pair, (score, _) in all_scores.items() if score >= 0.5}
    assert strong_pairs
    assert strong_pairs <= similar_pairs(names, [False] * len(names)).keys()
