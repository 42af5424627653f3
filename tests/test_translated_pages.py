"""a page in Japanese or Chinese -> it has what the English page has, of today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.translations import ROOT, TRANSLATED, changed_sections, english_page, section_digests, write_digests

from kumihimo.text.translation import translate

PAGES = "install.md", "first-steps.md", "asking.md", "formats.md", "troubleshooting.md"
CJK = "[\u3001-\u30ff\u3400-\u9fff\uff01-\uff60]"

each_page = pytest.mark.parametrize("path", TRANSLATED, ids=lambda path: path.relative_to(ROOT).as_posix())


def prose(path: Path) -> str:
    """The page without code and comments."""
    return re.sub(r"^```.*?^```|<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)


def levels(path: Path) -> list[int]:
    return [len(mark) for mark in re.findall(r"^(#+) ", prose(path), re.M)]


def first_cells(path: Path) -> list[str]:
    """The code in the first column of its tables."""
    return [code.strip() for _, code in re.findall(r"^\| (`+)(.+?)\1 \|", path.read_text(encoding="utf-8"), re.M)]


@pytest.mark.parametrize("language", ["ja", "zh"])
def test_the_pages_that_a_beginner_needs_are_translated(language: str) -> None:
    names = {
        path.name for path in TRANSLATED if path.parent == ROOT / "docs" / language or f".{language}." in path.name
    }
    assert names == {f"README.{language}.md", *PAGES}


@each_page
def test_a_page_translates_the_english_page_of_today(path: Path) -> None:
    """After a change of the English page: translate it, then `python -m docs.translations` with this page."""
    assert changed_sections(path) == []


@each_page
def test_a_page_has_the_sections_of_the_english_page(path: Path) -> None:
    assert levels(path) == levels(english_page(path))


@pytest.mark.parametrize("language", ["ja", "zh"])
def test_the_messages_of_a_page_are_those_in_its_language(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kumihimo.text.translation.fit_commands", str)  # the commands of this installation
    english, page = (ROOT / "docs" / folder / "troubleshooting.md" for folder in ("", language))
    assert first_cells(page) == [translate(message, language) for message in first_cells(english)]


@each_page
def test_no_line_breaks_inside_a_sentence(path: Path) -> None:
    """A line break between two such characters is shown as a space."""
    assert re.findall(rf".*{CJK}\n *(?:{CJK}|\[{CJK}).*", prose(path)) == []


def test_a_change_of_the_english_page_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    english, page = tmp_path / "docs" / "salt.md", tmp_path / "docs" / "ja" / "salt.md"
    page.parent.mkdir(parents=True)
    english.write_text("# Salt\n\nIt is white.\n\n## Use\n\nIn bread.\n", encoding="utf-8")
    page.write_text("# 塩\n\n白い。\n\n## 使い方\n\nパンに。\n", encoding="utf-8")
    monkeypatch.setattr("docs.translations.ROOT", tmp_path)
    assert len(changed_sections(page)) == 2
    write_digests(page)
    write_digests(page)
    assert changed_sections(page) == []
    english.write_text("# Salt\n\nIt is white.\n\n## Use\n\nIn bread, and on ice.\n", encoding="utf-8")
    assert {line.partition(" ")[2] for line in changed_sections(page)} == {"Use"}
    english.write_text("# Salt\n\nIt is white.\n\n## Taste\n", encoding="utf-8")
    assert [line.partition(" ")[2] for line in changed_sections(page)] == ["Taste", "Use"]
    assert page.read_text(encoding="utf-8").count("<!--") == 1
    assert len(section_digests(english.read_text(encoding="utf-8"))) == 2
