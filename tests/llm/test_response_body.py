"""pieces of a body -> JSON or lines; never more of it than fits, and never longer than the time allows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from time import process_time

import pytest

from kumihimo.llm import response_body
from kumihimo.llm.protocols import FailedTry
from kumihimo.llm.response_body import LateReply, read_json_body, split_lines


def endless(piece: bytes, read: list[int]) -> Iterator[bytes]:
    for n in itertools.count(1):
        read[:] = [n]
        yield piece


def test_a_body_is_read_in_pieces() -> None:
    text = json.dumps({"text": "naïve 港"}, ensure_ascii=False).encode()
    assert read_json_body([text[i : i + 1] for i in range(len(text))], 60.0) == {"text": "naïve 港"}
    assert read_json_body([b"[1]"], 60.0) == {"data": [1]}


def test_no_more_of_a_body_is_read_than_the_limit() -> None:
    read: list[int] = []
    with pytest.raises(FailedTry, match=r"^the answer is longer than 2 MB: is base_url right\?$") as error:
        read_json_body(endless(b"x" * 2**20, read), 60.0, 2**21)
    assert (error.value.paid, read) == (True, [3])
    with pytest.raises(FailedTry, match="longer than 8 MB"):
        read_json_body(endless(b"x" * 2**20, read), 60.0)


def test_the_work_for_a_body_grows_with_its_length() -> None:
    pieces = [b'["', *[b"x" * 4096] * 16_000, b'"]']  # 64 MB
    started = process_time()
    assert len(read_json_body(pieces, 600.0, 2**27)["data"][0]) == 4096 * 16_000
    assert process_time() - started < 10.0  # bytes that are copied for each piece take minutes


def test_a_body_that_takes_too_long_is_not_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    monkeypatch.setattr(response_body, "monotonic", iter(range(0, 1000, 10)).__next__)
    with pytest.raises(LateReply, match="did not come within 25 s"):
        read_json_body(endless(b"x", read), 25.0)
    assert read == [3]


def test_lines_are_split_at_line_ends_alone() -> None:
    pieces = ["data: a\u2028b\x85c\r\n".encode(), b"data: \xe6\xb8", b"\xaf\n\nda", b"ta: e"]
    assert [line for line in split_lines(pieces) if line] == ["data: a\u2028b\x85c", "data: 港", "data: e"]


def test_a_line_without_end_is_not_read_on() -> None:
    read: list[int] = []
    with pytest.raises(FailedTry, match="longer than 1 MB"):
        list(split_lines(endless(b"x" * 65536, read)))
    assert read == [17]


def test_a_stream_without_end_is_not_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_body, "_MAX_STREAM_BYTES", 2**20)
    read: list[int] = []
    with pytest.raises(FailedTry, match="longer than 1 MB"):
        list(split_lines(endless(b"x" * 1023 + b"\n", read)))
    assert read == [1025]


def test_a_piece_without_a_line_end_lets_the_reader_look_at_the_clock() -> None:
    lines = split_lines(endless(b"x", []))
    assert [next(lines) for _ in range(3)] == ["", "", ""]
