"""Rankings and gold -> TREC files, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.rankings import (
    _escape_field,
    _unescape_field,
    read_trec_qrels,
    read_trec_run,
    trec_qrels_lines,
    trec_run_lines,
)

NAMES = ["my notes/a b.md#r 1", "100%.md", "%20", "", "全角\u3000の名.md", "a\tb\nc", "plain[3,9)"]


def test_a_round_trip_is_exact(tmp_path: Path) -> None:
    rankings, gold = {"q 1": NAMES, "q%2": NAMES[::-1]}, {"q 1": NAMES[:2], "q%2": NAMES[3:]}
    run, qrels = tmp_path / "a.run", tmp_path / "gold"
    run.write_text("\n".join(trec_run_lines("light:k=3 + x", rankings)), encoding="utf-8")
    qrels.write_text("\n".join(trec_qrels_lines(gold)), encoding="utf-8")
    assert read_trec_run(run) == ("light:k=3 + x", rankings)
    assert read_trec_qrels(qrels) == gold
    assert {len(line.split(" ")) for line in run.read_text("utf-8").split("\n")} == {6}


def test_any_id_is_one_word() -> None:
    for name in (f"a{chr(code)}b" for code in (*range(0x3100), 0xFEFF, 0x1F600)):
        assert (_unescape_field(_escape_field(name)), len(_escape_field(name).split())) == (name, 1)


def test_a_run_of_another_program_is_read(tmp_path: Path) -> None:
    run, qrels = tmp_path / "a.run", tmp_path / "gold"
    run.write_text("\ufeffq Q0 b 1 0.5 s\nq\tQ0\tc 9 2e1 s\n\nq Q0 a 3 .5 s\n", encoding="utf-8")
    qrels.write_text("q 0 a 2\nq 0 b 0\np 0 c -1\n", encoding="utf-8")
    assert read_trec_run(run) == ("s", {"q": ["c", "a", "b"]})
    assert read_trec_qrels(qrels) == {"q": ["a"], "p": []}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q Q0 a 1 2\n", "line 1: 5 columns, not 6"),
        ("q Q0 a 1 x s\n", "line 1: 'x' is no number"),
        ("q Q0 a 1 nan s\n", "'nan' is no number"),
        ("q Q0 a 1 2 s\nq Q0 a 2 1 s\n", "line 2: 'a' stands twice"),
        ("q Q0 a 1 2 s\nq Q0 b 2 1 t\n", "holds runs of s, t"),
        ("", "holds no run"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.run").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=message):
        read_trec_run(tmp_path / "a.run")
