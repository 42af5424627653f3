"""a document's title, uri and metadata -> the names and dates that a question may call it by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.core.context import Context
from kumihimo.core.records import Document
from kumihimo.core.table import Table
from kumihimo.index.chunk_background import Description, date_terms
from kumihimo.index.descriptions import descriptions
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.dates import compare_dates
from tests.fixtures_index import fill


def describe(uri: str = "notes.md", title: str = "", **metadata: Any) -> Description:
    described = descriptions(Document(uri=uri, file=uri, title=title, media_type="text/plain", metadata=metadata))
    assert described
    return described


def test_names_come_from_title_folders_file_and_metadata() -> None:
    described = describe(
        "minutes/AnnualReport_v2.pdf#p-3",
        "On Gates",
        author="Bo Lind <bo@x.example>",
        tags=["tide", "gate"],
        episode=14,
    )
    assert described.text.split("\n") == [
        "On Gates",
        "minutes",
        "Annual Report v 2",
        "p-3",
        "Bo Lind",
        "tide",
        "gate",
        "episode 14",
    ]


@pytest.mark.parametrize(
    ("metadata", "names"),
    [
        ({"url": "https://www.techcrunch.com/2023/a?b"}, ["techcrunch.com"]),
        ({"source": {"name": "Net Loft", "rank": 3}}, ["Net Loft", "rank 3"]),
        ({"summary": "word " * 30, "read": True, "note": None, "not_read": ["page 3"]}, []),
        ({"date": "2023-09-28T10:00:00Z"}, []),
    ],
)
def test_values_are_names_unless_they_are_texts(metadata: dict[str, Any], names: list[str]) -> None:
    assert describe("a.md", **metadata).text.split("\n") == ["a", *names]


@pytest.mark.parametrize(
    ("uri", "metadata", "dates"),
    [
        ("m/2019/05/x.md", {}, ("2019-05",)),
        ("minutes-2019-04-12-final.md", {}, ("2019-04-12",)),
        ("Report2023.pdf", {"date": "2024-02-01", "year": 2023}, ("2023", "2024-02-01")),
        ("train.jsonl#set-1984", {}, ()),
        ("log.jsonl#2024-05-01", {}, ("2024-05-01",)),
        ("x.md", {"年": "２０２３年５月"}, ("2023-05",)),
    ],
)
def test_dates_come_from_the_same_places(uri: str, metadata: dict[str, Any], dates: tuple[str, ...]) -> None:
    assert describe(uri, **metadata).dates == dates


DATES = ["2023", "2023-09", "2023-09-28", "--09", "--09-28", "2022", "2022-09-28"]


def test_dates_that_match_share_a_word_in_the_index() -> None:
    for date in DATES:
        for asked in DATES:
            if compare_dates(date, asked):
                assert set(date_terms(date)) & set(date_terms(asked, is_question=True)), (date, asked)
    assert not set(date_terms("2022-09-28")) & set(date_terms("2023-09-28", is_question=True))


def both_searches(
    question: str, descriptions: Table[Description], keyword_search: KeywordSearch, vector_search: VectorSearch
) -> Context:
    """Return the descriptions with the words of the question."""
    return keyword_search(descriptions, question, k=5)


def test_descriptions_are_searched_by_words_and_never_embedded(tmp_path: Path) -> None:
    notes = fill(tmp_path / "notes", {"gate.md": "---\nauthor: Bo Lind\n---\nIt leaks.", "pier.md": "It stands."})
    with Kumihimo.open(tmp_path / ".kumi", methods=[both_searches]) as kumi:
        kumi.index(notes, methods=["both_searches"])
        assert not list(tmp_path.glob(".kumi/vectors/*"))
        with kumi.snapshot() as snapshot:
            [found] = snapshot.retrieve("What does Lind say?", "both_searches")
            assert found.record.id in {each.id for each in snapshot.table("documents") if each.uri == "notes/gate.md"}
            assert found.text == "gate\nnotes\nBo Lind"
