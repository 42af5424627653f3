"""A document has an author, a date, a language and a kind, where its file says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.records import Document
from tests import factories_office

PROSE = "The ferry leaves the harbour at nine, and it is back before the tide has turned.\n"


def fields(tmp_path: Path, name: str, text: str = PROSE) -> dict[str, object]:
    """Return the fields of a file."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    document = factories_office.one(tmp_path, name, text.encode())
    return dict(document.fields)


@pytest.mark.parametrize(
    ("name", "text", "date", "source"),
    [
        (
            "2024-05-18-minutes.md",
            "---\ndate: 2023-02-01\n---\n# Meeting of 2022-01-01\n",
            "2023-02-01",
            "front matter",
        ),
        ("2024-05-18-minutes.org", "#+DATE: 2023-02-01\n* Meeting of 2022-01-01\n", "2023-02-01", "metadata"),
        ("2024-05-18-minutes.md", "# Meeting of 2022-01-01\n", "2024-05-18", "name"),
        ("minutes.md", "# Meeting of 1 March 2022\n", "2022-03-01", "heading"),
        ("minutes.md", "---\n日付: 令和6年5月18日\n---\n# 議事録\n", "2024-05-18", "front matter"),
        ("minutes.md", "---\ndate: soon\n---\n# Meeting of 2022-01-01\n", "2022-01-01", "heading"),
        ("minutes.md", "---\ndate: 2024-05-18T10:30:00+09:00\n---\n", "2024-05-18T10:30:00+09:00", "front matter"),
        ("minutes.md", "---\nyear: 2024\n---\n", "2024", "front matter"),
        ("令和6年5月.txt", PROSE, "2024-05", "name"),
        ("IMG_20240518_101500.txt", PROSE, "2024-05-18", "name"),
        ("2024.txt", PROSE, "2024", "name"),
        ("May-2024.txt", PROSE, "2024-05", "name"),
        ("notes.md", "---\npath: 2019/12/20/meeting\n---\n", "2019-12-20", "front matter"),
        ("2024/05/18.txt", PROSE, "2024-05-18", "name"),
        ("2024/05/minutes.txt", PROSE, "2024-05", "name"),
        ("minutes/2024-05/a.txt", PROSE, "2024-05", "name"),
    ],
)
def test_the_date_of_a_document_and_where_it_stands(
    tmp_path: Path, name: str, text: str, date: str, source: str
) -> None:
    found = fields(tmp_path, name, text + PROSE)
    assert (found["date"], found["date_source"]) == (date, source)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("令和6年度第1回会議.md", "# 議事録\n"),  # a year from April to March
        ("report-2023-24.md", "# Report\n"),
        ("2024-05-01_2024-05-07.md", "# Week\n"),
        ("ticket-1234.md", "# Ticket\n"),
        ("es2015.md", "# Modules\n"),
        ("goals-2024.md", "# Goals\n"),
        ("CVE-2024-4317.md", "# A fault\n"),
        ("created_2024.py", "# Created by Bo Lind, September 2002\n"),
        ("20191305.md", "# A number\n"),
        ("notes.md", "# The winter of 1917\n"),
        ("notes.md", "# From 1 March to 3 March 2022\n"),
        ("notes.md", "---\ndate: 2024-13-45\n---\n"),
        ("notes.md", "---\ndate: 1970-01-01\n---\n"),  # the zero of a clock
        ("notes.md", "---\ndate: [1, {a: 2}]\nauthor: {}\n---\n"),
    ],
)
def test_no_date_is_better_than_a_wrong_one(tmp_path: Path, name: str, text: str) -> None:
    assert "date" not in fields(tmp_path, name, text + PROSE)


@pytest.mark.parametrize(
    ("text", "author"),
    [
        ("---\nauthor: Sabine  Orrell\n---\n", "Sabine Orrell"),
        ("---\nAuthors: [Bo Lind, {name: Hild Garrow}]\n---\n", ["Bo Lind", "Hild Garrow"]),
        ("---\n著者: 縒野すみ\n---\n", "縒野すみ"),
        ("# The Long Arm\n\n*By Sabine Orrell*\n\n", "Sabine Orrell"),
        ("# The Long Arm\n\nAuthors: Bo Lind and Hild Garrow\n\n", "Bo Lind and Hild Garrow"),
        ("# 潮返し\n\n文責：縒野すみ\n\n", "縒野すみ"),
        ("---\nauthor: python-docx\n---\n", None),
        ("---\nauthor: admin\n---\n", None),
        ("# By Land\n\nBy the sea we rest.\n\n", None),
        ("# Fields\n\nAuthor: The name of the person, such as the one who wrote it.\n\n", None),
    ],
)
def test_the_author_of_a_document(tmp_path: Path, text: str, author: object) -> None:
    assert fields(tmp_path, "a.md", text + PROSE).get("author") == author


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (PROSE, "en"),
        ("誰が門を描きましたか。この門は古い。", "ja"),
        (f"---\nlanguage: de-CH\n---\n{PROSE}", "en"),  # a template says anything
        ("---\nlang: de\n---\nTide table 2024\n", "de"),
        ("---\nlanguage: English\n---\nTide table 2024\n", "en"),
        ("---\nlang: [en, ja]\n---\n" + PROSE, ["en", "ja"]),
        ("---\nlanguage: python\n---\nTide table 2024\n", None),
        ("Tide table 2024\n", None),
    ],
)
def test_the_language_of_a_document(tmp_path: Path, text: str, language: object) -> None:
    assert fields(tmp_path, "a.md", text).get("language") == language


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.md", "text"), ("a.csv", "sheet"), ("a.py", "code"), ("a.html", "page"), ("a.yaml", "data")],
)
def test_the_kind_of_a_document(tmp_path: Path, name: str, kind: str) -> None:
    assert fields(tmp_path, name, "a,b\n1,2\n")["kind"] == kind


def test_code_is_in_no_natural_language(tmp_path: Path) -> None:
    text = "def is_in(it, the): return it in the or not it is the and for this in that\n"
    assert "language" not in fields(tmp_path, "a.py", text)


def test_a_file_of_a_program_has_not_the_author_and_date_of_its_template(tmp_path: Path) -> None:
    data = factories_office.word(lambda made: made.add_paragraph(PROSE))
    assert dict(factories_office.one(tmp_path, "2024-05-18.docx", data).fields) == {
        "date": "2024-05-18",
        "date_source": "name",
        "language": "en",
        "kind": "document",
    }


def test_an_attachment_has_its_own_date_before_that_of_its_letter(tmp_path: Path) -> None:
    parts: dict[str, Any] = {"boats_csv": b"boat,built\nMaru,1922\n", "minutes_2024_05_18_txt": PROSE.encode()}
    letter, *attached = factories_office.every(tmp_path, "mail.eml", factories_office.letter(**parts))
    by_name: dict[str, Document] = {document.uri.rpartition("#")[2]: document for document in attached}
    assert letter.fields["kind"] == "mail"
    assert letter.fields["date"] == "2026-05-01T00:30:00Z"
    dates = {name: (d.fields["date"], d.fields["date_source"]) for name, d in by_name.items()}
    assert sorted(dates.values()) == [("2024-05-18", "name"), ("2026-05-01T00:30:00Z", "letter")]
