"""Objects become pages, none is lost, and a broken file is refused."""

from __future__ import annotations

import json as standard
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers.page import Page
from kumihimo.readers.tables import read_json_pages, read_jsonl_pages
from tests import factories_office
from tests.counters import count_lines


def read(reader: Callable[[bytes, str], Iterator[Page]], source: str) -> list[Page]:
    return list(reader(source.encode(), "a.json"))


def test_a_line_with_a_text_is_a_page() -> None:
    source = '{"id": "r-17", "title": "Sea", "text": "The\\nsea.", "n": [1], "date": "2026-11-21T11:31:00+09:00"}\r\n'
    metadata: dict[str, object] = {"n": [1], "date": "2026-11-21T11:31:00+09:00"}
    assert read(read_jsonl_pages, source) == [Page("r-17", "Sea", "The\nsea.", metadata, "2026-11-21T02:31:00Z")]


def test_a_line_without_id_goes_by_its_number() -> None:
    pages = read(read_jsonl_pages, '{"text": "a"}\n\n  \n{"text": "b", "id": null}\n{"text": "c", "id": 0}\n')
    assert [page.fragment for page in pages] == ["1", "4", "0"]


def test_a_line_without_text_keeps_its_words() -> None:
    (page,) = read(
        read_jsonl_pages, '{"id": "e1", "title": "Ayu", "role": "cook", "also": ["host", "guide"], "age": 31, "at": {}}'
    )
    assert page == Page("e1", "Ayu", "role: cook\n\nalso: host; guide", {"age": 31, "at": {}})


@pytest.mark.parametrize("text", ['""', "null", "7", "[]", '[1, "a"]'])
def test_a_text_that_is_none_is_empty(text: str) -> None:
    (page,) = read(read_jsonl_pages, f'{{"id": 1, "text": {text}, "note": "x"}}')
    assert page == Page("1", "", "", {"note": "x"})


def test_a_text_in_paragraphs() -> None:
    assert read(read_jsonl_pages, '{"id": 1, "text": ["one", "two"]}') == [Page("1", "", "one\ntwo")]


def test_the_same_id_twice_loses_no_row() -> None:
    pages = read(read_jsonl_pages, "\n".join(f'{{"id": "{own}", "text": "x"}}' for own in ["a", "a", "a~2", "a", "b"]))
    assert [page.fragment for page in pages] == ["a", "a~2", "a~2~2", "a~3", "b"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2026-01-02", "2026-01-02"),
        ("2026-01-02T03:04", "2026-01-02T03:04:00Z"),
        ("2026-01-02T03:04:05.6-01:00", "2026-01-02T04:04:05Z"),
        ("2 January", ""),
        ("0001-01-01T00:00+09:00", ""),
        (1700000000, ""),
    ],
)
def test_modified_times(written: object, expected: str) -> None:
    (page,) = read(read_jsonl_pages, standard.dumps({"text": "x", "modified": written}))
    assert (page.modified, page.metadata) == (expected, {"modified": written})


def test_what_json_can_write_and_no_text_can_hold() -> None:
    source = r'{"id": "\ud800", "text": "a\u0000b \ud83d\ude00 \\ud800 \\\udc00 \uD55C\n", "x": ["\udfff"]}'
    assert read(read_jsonl_pages, source) == [
        Page("\ufffd", "", "a\ufffdb 😀 \\ud800 \\\ufffd 한\n", {"x": ["\ufffd"]})
    ]


def test_separators_within_a_string_end_no_line() -> None:
    assert read(read_jsonl_pages, '{"text": "a\u2028b\x85c"}')[0].text == "a\u2028b\x85c"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('{"text": "a"}\n{"text": \n{"text": ', r"a\.json: line 2 is not JSON .*; mend the line"),
        ("[0]\n\n[1]", r"a\.json: line 1 is no JSON object; name the file \.json"),
        ("{\n  1", r"a\.json: line 1 is not JSON"),
        ("[" * 100_000, r"a\.json: line 1 is beyond this reader"),
        ('{"n": ' + "9" * 5000 + "}", r"a\.json: line 1 is beyond this reader"),
    ],
)
def test_a_file_of_broken_lines_is_refused(source: str, message: str) -> None:
    with pytest.raises(SourceError, match=f"^{message}"):
        read(read_jsonl_pages, source)


def test_broken_lines_are_named_and_the_others_read(tmp_path: Path) -> None:
    good = [standard.dumps({"text": f"watch {number}"}) for number in range(60)]
    log = factories_office.every(tmp_path, "a.jsonl", "\n".join([*good, '{"text": "wat']).encode())
    assert [document.text for document in log] == [f"watch {number}" for number in range(60)]
    assert ["not_read" in document.metadata for document in log] == [False] * 59 + [True]
    notes = log[-1].metadata["not_read"]
    assert isinstance(notes, list)
    assert re.match(r"a\.jsonl: line 61 is not JSON \(.*\); mend the line", notes[0])
    mixed = "\n".join([good[0], "{", *good[1:30], *["[0]"] * 25])
    notes = read(read_jsonl_pages, mixed)[-1].metadata["not_read"]
    assert isinstance(notes, list)
    assert [re.split(" is | more", note)[0] for note in notes[:2]] == ["a.json: line 2", "a.json: line 32"]
    assert (len(notes), notes[-1]) == (21, "a.json: 6 more such lines")


def test_a_list_of_objects_is_read_like_lines() -> None:
    pages = read(read_json_pages, '[{"text": "a"}, {"id": "x", "text": "b"}, {"name": "c"}]')
    assert [(page.fragment, page.text) for page in pages] == [("1", "a"), ("x", "b"), ("3", "name: c")]


def test_an_object_with_a_text_is_the_file() -> None:
    assert read(read_json_pages, '{"id": 1, "title": "Sea", "text": "a", "n": 2}') == [
        Page("", "Sea", "a", {"id": 1, "n": 2})
    ]


def test_any_other_value_becomes_lines_with_paths() -> None:
    source = '{"title": "T", "a": {"b": [1, 2], "c": [{"d": "x"}, null]}, "e": true, "f": NaN, "g": "", "h": {}}'
    text = "title: T\n\na.b: 1; 2\n\na.c.0.d: x\n\ne: true\n\nf: NaN"
    assert read(read_json_pages, source) == [Page("", "T", text)]
    assert read(read_json_pages, '"just words"') == [Page(text="just words")]
    assert read(read_json_pages, '["a", "b"]') == [Page(text="a; b")]
    assert read(read_json_pages, "[]") == read(read_json_pages, " \n") == []


def test_a_file_nested_almost_as_deep_as_the_stack() -> None:
    (page,) = read(read_json_pages, '{"a":' * 900 + '"x"' + "}" * 900)
    assert page.text.endswith(".a.a: x")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('{\n"a": 1,\n"b": }\n', r"a\.json: line 3 is not JSON \(.*\); mend it"),
        ('{"a": 1}\n{"a": 2}\n', r"a\.json: line 2 is not JSON .* name the file \.jsonl"),
        ("{", r"a\.json is not JSON"),
        ("[" * 100_000, r"a\.json is beyond this reader"),
    ],
)
def test_broken_json_names_the_line(source: str, message: str) -> None:
    with pytest.raises(SourceError, match=f"^{message}"):
        read(read_json_pages, source)


def test_the_work_for_passages_grows_with_their_number() -> None:
    def count(size: int) -> int:
        source = "\n".join(standard.dumps({"id": n, "title": "T", "text": "word " * 100}) for n in range(size))
        return count_lines(lambda: read(read_jsonl_pages, source))

    assert count(2000) < 5 * count(500)
