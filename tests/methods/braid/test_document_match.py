"""a question that names documents by their metadata -> these documents, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kumihimo.core.records import Document
from kumihimo.index.chunk_background import Description
from kumihimo.index.descriptions import descriptions
from kumihimo.methods.braid.document_match import DocumentMatch, match_documents
from kumihimo.text.question import ParsedQuestion
from tests.factories_tables import table
from tests.methods.factories_search import keyword_search


def match(question: str, *documents: Mapping[str, Any]) -> dict[str, DocumentMatch]:
    """Match documents that are called a, b, c ..., with these titles, uris and metadata."""
    rows = []
    for letter, fields in zip("abcdefghijklmnop", documents, strict=False):
        document = Document(
            uri=fields.get("uri", "news.jsonl#1"),
            file="news.jsonl",
            title=fields.get("title", "news"),
            media_type="text/plain",
            metadata={key: value for key, value in fields.items() if key not in ("uri", "title")},
            fields={"date_source": "metadata"} if "date" in fields else {},
        )
        if described := descriptions(document):
            rows.append(Description(described.dates, text=described.text, id=letter))
    return match_documents(ParsedQuestion(question), table(Description, rows), keyword_search)


def scores(question: str, *documents: Mapping[str, Any]) -> dict[str, float]:
    return {id: round(found.score, 2) for id, found in match(question, *documents).items()}


NEWS: Sequence[Mapping[str, Any]] = (
    {"title": "A Bank Fails", "source": "TechCrunch", "author": "Neha Narkhede", "date": "2023-09-28"},
    {"title": "The Trial Begins", "source": "The Verge", "author": "Kevin Scott", "date": "2023-10-03"},
    {"title": "Cheaper Phones", "source": "TechCrunch", "author": "Kevin Roose", "date": "2022-04-12"},
    {"title": "How to save money", "source": "Fortune", "author": "Mira Murati", "tags": ["money"], "year": 2021},
)


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("What did the TechCrunch article of 28 September say about the bank?", "a"),
        ("What was reported on September 28, 2023?", "a"),
        ("What does Narkhede think of queues?", "a"),
        ("according to the verge, who is on trial?", "b"),
        ("What was written in October 2023?", "b"),
        ("2023年10月の記事で誰が裁判を受けますか", "b"),
        ("2021年的报告说什么?", "d"),
        ("Did Kevin Roose compare prices?", "c"),
        ("did kevin roose compare prices?", "c"),
    ],
)
def test_a_document_that_is_named_comes_first(question: str, best: str) -> None:
    found = scores(question, *NEWS)
    assert max(found, key=found.__getitem__) == best
    assert [id for id, score in found.items() if score == found[best]] == [best]


@pytest.mark.parametrize(
    "question",
    ["What is money?", "How do phones work?", "Who was on trial in 1999?", "What Are Banks?", "", "？", "28 people"],
)
def test_a_common_word_names_no_document(question: str) -> None:
    assert scores(question, *NEWS) == {}


def test_the_words_that_match_are_given() -> None:
    found = match("What did Neha Narkhede write in TechCrunch in 2023?", *NEWS)
    assert found["a"] == DocumentMatch(1.0, ("Neha Narkhede", "TechCrunch", "2023"))
    assert found["c"].terms == ("TechCrunch",)
    for date in ("28 September", "September 2023", "September"):
        assert match(f"What happened in {date}?", *NEWS)["a"].terms == (date,), "as the question writes it"
    assert 0 < found["b"].score < found["c"].score + 0.01 < 0.5


def test_a_name_counts_once_and_as_it_is_written() -> None:
    [found] = match("Did Roose hear that Roose left?", *NEWS).values()
    assert found == DocumentMatch(0.5, ("Roose",))
    assert scores("Can a Bank leave?", {"title": "Iain Banks"}, {"title": "Other"}) == {}


def test_small_letters_name_less() -> None:
    titles = [
        {"title": title} for title in ("The Verge", "Notes with Andrew Ng on a long evening", "How to save water")
    ]
    assert scores("what does the verge say?", *titles) == {"a": 0.5}
    assert scores("whos andrew ng", *titles) == {"b": 0.5}
    assert scores("Who met Andrew Ng?", *titles) == {"b": 1.0}
    assert scores("Who asked Kevin how to save money?", *titles) == {}
    assert scores("who came in 14 days?", {"title": "Seen in 14 places"}, {"title": "Other"}) == {}


def test_what_all_documents_share_says_nothing() -> None:
    same = [{"source": "TechCrunch", "date": "2023-09-28", "author": name} for name in ("Ada Byron", "Grace Hopper")]
    assert scores("What did TechCrunch write on 28 September 2023?", *same) == {}
    assert scores("What did Grace Hopper write in TechCrunch?", *same) == {"b": 1.0}


def test_one_document_or_none_is_no_choice() -> None:
    assert scores("What did TechCrunch write?") == {}
    assert scores("What did TechCrunch write?", NEWS[0]) == {}


def test_a_number_needs_its_label() -> None:
    files = [{"uri": f"talks/EP-{n}_with_guests.txt", "title": "Talks"} for n in (12, 13, 14)]
    assert scores("What is said in episode 13?", *files) == {"b": 1.0}
    assert scores("What is said in episode 13?", {"episode": 12}, {"episode": 13}) == {"b": 1.0}
    assert (
        scores("第13回の議事録には何がありますか", {"title": "第12回 議事録"}, {"title": "第13回 議事録"})["b"] == 1.0
    )
    assert scores("Why do 13 people leave?", *files) == {}


def test_dates_in_titles_folders_and_file_names_count() -> None:
    files = [{"uri": uri, "title": "Minutes"} for uri in ("m/2019-04.md", "m/2019/05/x.md", "m/minutes_20190612.md")]
    assert scores("Who spoke in the minutes of April 2019?", *files) == {"a": 1.0}
    assert scores("Who spoke on 12 June?", *files) == {"c": 1.0}
    assert scores("Who spoke in May 2019?", *files) == {"b": 1.0}
    assert scores("Who was born in 1984?", {"uri": "train.jsonl#set-1984"}, {"uri": "train.jsonl#set-1985"}) == {}


def test_a_document_with_less_of_a_date_counts_half() -> None:
    assert scores("What happened in April 2019?", {"year": 2019}, {"date": "2019-05-01"}) == {"a": 0.5}


def test_japanese_and_chinese_titles_and_names() -> None:
    texts = [
        {"title": "汐縒からの手紙", "著者": "縒野すみ"},
        {"title": "梅雨", "著者": "遠瀬灯子"},
        {"title": "手引き"},
    ]
    assert scores("縒野すみは何を編みましたか", *texts) == {"a": 1.0}
    assert scores("汐縒からの手紙には何が書いてありますか", *texts) == {"a": 1.0}
    assert scores("梅雨はいつですか", *texts) == {"b": 0.5}
    assert scores("この手紙は誰が書いた手紙ですか", *texts) == {}


def test_what_more_documents_share_than_a_search_returns_counts_among_candidates() -> None:
    rows = [Description((), text=f"{'TechCrunch' if n % 4 else 'Fortune'}\nMoll {n}", id=f"{n:04}") for n in range(800)]
    rows.append(Description((), text="TechCrunch\nNeha Narkhede", id="9999"))
    descriptions = table(Description, rows)
    found = match_documents(ParsedQuestion("What did Neha Narkhede tell TechCrunch?"), descriptions, keyword_search)
    assert [(id, each.terms) for id, each in found.items()] == [("9999", ("Neha Narkhede",))]
    assert match_documents(ParsedQuestion("What did Fortune write?"), descriptions, keyword_search) == {}
    candidates = [f"{n:04}" for n in range(80)]
    found = match_documents(ParsedQuestion("What did Fortune write?"), descriptions, keyword_search, candidates)
    assert {id for id in candidates if id in found} == {f"{n:04}" for n in range(0, 80, 4)}
    assert {round(each.score, 1) for each in found.values()} == {0.6}
    same = [id for id in candidates if int(id) % 4 == 0]
    assert match_documents(ParsedQuestion("What did Fortune write?"), descriptions, keyword_search, same) == {}


def test_common_words_do_not_displace_a_name() -> None:
    rows = [Description((), text=f"water gate leak\nMoll {n}", id=f"{n:04}") for n in range(150)]
    rows.append(Description((), text="Neha Narkhede", id="9999"))
    question = "What does Narkhede make of the water in a gate with a leak?"
    assert list(match_documents(ParsedQuestion(question), table(Description, rows), keyword_search)) == ["9999"]
