"""work -> its counts: lines, statements, characters; endless work is stopped."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress

import pytest

from kumihimo.llm.local_embedder import LocalTokenizer
from tests import counters
from tests.counters import CountingTokenizer, check_linear, count_lines, stop_endless_work, trace_statements, wait_until

HERE = __file__.rpartition("/")[0]


def loop(times: int) -> int:
    return sum(1 for _ in range(times))


def test_each_round_of_a_loop_is_counted() -> None:
    few, many = count_lines(lambda: loop(10), HERE), count_lines(lambda: loop(110), HERE)
    assert many - few == 100
    assert count_lines(lambda: loop(10)) == 0  # not our source code


def test_what_a_failing_work_did_is_not_counted_later() -> None:
    with pytest.raises(ZeroDivisionError):
        count_lines(lambda: 1 // 0)
    assert count_lines(lambda: loop(10), HERE) == count_lines(lambda: loop(10), HERE)


def test_statements_are_collected_inside_the_context() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        with trace_statements(connection) as statements:
            connection.execute("SELECT 1")
        connection.execute("SELECT 2")
    assert statements == ["SELECT 1"]


def test_characters_are_counted() -> None:
    tokenizer = CountingTokenizer(LocalTokenizer())
    assert len(tokenizer("tide")) == len(LocalTokenizer()("tide"))
    assert tokenizer.characters == 4


def test_endless_work_is_stopped_even_if_it_catches_all_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        with suppress(AssertionError):
            while True:
                pass

    monkeypatch.setattr(counters, "PATIENCE", 0.01)
    with pytest.raises(AssertionError, match=r"not finished after 0\.01 s"), stop_endless_work():
        work()
    with pytest.raises(AssertionError, match="it never happens"):
        wait_until(lambda: False)


def test_quadratic_work_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters.count_lines, "__defaults__", (HERE,))
    check_linear(lambda text: loop(len(text)), "a", 10_000)
    with pytest.raises(AssertionError):
        check_linear(lambda text: loop(len(text) ** 2), "a", 10)
