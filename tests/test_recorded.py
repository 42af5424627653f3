"""recorded commands -> requests used, stale, missing and malformed; and the recorded commands offline."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from docs import recorded
from docs.recorded_page import PAGE
from docs.recorded_run import Asked, Run, read_commands, run_commands

from kumihimo.llm.recorded import COMMANDS_FILE

LETTER = "index examples/mason-letter.txt --methods local,naive"
ASK = "ask --method {naive,local} 'Who built the Long Arm?'"
RECORDS = "entity<|>Hild Garrow<|>person<|>A mason.\nentity<|>Long Arm<|>place<|>A wall.\nEND"
ANSWER = "Tobit Garrow built it [1]."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of replies that holds nothing but commands, and a reply that nothing asks for."""
    folder = tmp_path / "replies"
    folder.mkdir()
    (folder / COMMANDS_FILE).write_text(f"{LETTER}\n# a note\n\n{ASK}\n", encoding="utf-8")
    (folder / "answer.jsonl").write_text('{"key": "old", "head": "old", "reply": "Old."}\n', encoding="utf-8")
    return folder


def write_reply(asked: Asked) -> str:
    return {"mentions": RECORDS, "answer": ANSWER}[asked.step]


def add(folder: Path, run: Run, write: Callable[[Asked], str] = write_reply) -> Run:
    return recorded.add_replies({each.key: write(each) for each in run.requests.missing.values()}, folder)


def complete(folder: Path) -> Run:
    """Add replies until none is missing."""
    run = run_commands(replies=folder)
    while run.requests.missing:
        run = add(folder, run)
    return run


def steps_missing(run: Run) -> list[str]:
    return sorted(each.step for each in run.requests.missing.values())


def test_one_run_collects_what_is_missing_at_a_stage(folder: Path) -> None:
    run = run_commands(replies=folder)
    assert {*steps_missing(run)} == {"mentions", "answer"}  # `naive` needs no graph
    assert [outcome.ran is None for outcome in run.outcomes] == [False, False, True]  # `local` waits
    first = {each.head for each in run.requests.missing.values() if each.step == "mentions"}
    run = add(folder, run)
    assert steps_missing(run) == ["mentions"] * len(first)  # the second turns
    assert all(each.head.startswith("(turn 2) ") for each in run.requests.missing.values())
    assert complete(folder).is_complete


def test_the_answer_names_the_recorded_model_and_costs_nothing(folder: Path) -> None:
    ran = complete(folder).outcomes[-1].ran
    assert ran
    answer = json.loads(ran.stdout)
    assert (answer["text"], answer["model"], answer["usage"]["cost"]) == (ANSWER, "recorded:replies", 0)


def test_replies_are_filed_by_step_with_their_heads(folder: Path) -> None:
    complete(folder)
    rows = recorded.read_replies(folder)
    assert {*rows} == {"mentions", "answer"}
    assert {row.reply for row in rows["answer"].values()} == {"Old.", ANSWER}
    assert any("To the Wardens of the Foreshore Court" in row.head for row in rows["mentions"].values())


@pytest.mark.parametrize(
    ("reply", "why"),
    [("A mason.", "The reply holds no record"), (f"entity<|>Wall\n{RECORDS}", "entity<|>Wall")],
    ids=["nothing", "a broken line"],
)
def test_a_malformed_reply_is_refused_by_name_and_not_kept(
    reply: str, why: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_commands(replies=folder)
    bad = next(key for key, each in run.requests.missing.items() if each.step == "mentions")
    run = add(folder, run, lambda each: reply if each.key == bad else write_reply(each))
    assert why in run.requests.missing[bad].refusal
    kept = recorded.read_replies(folder)
    assert bad not in kept["mentions"]
    recorded.show_counts(run, kept)
    assert f"refused: {bad} (mentions: " in capsys.readouterr().out


def test_a_reply_to_a_question_that_nobody_asks_is_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded.add_replies({"unknown": "Yes."}, folder)
    assert "rejected: unknown: no command asks for it" in capsys.readouterr().err
    assert "unknown" not in (folder / "answer.jsonl").read_text(encoding="utf-8")


def test_stale_replies_are_known_when_nothing_is_missing(folder: Path) -> None:
    run = run_commands(replies=folder)
    counts = {step: counts for step, *counts in recorded.count_rows(run, recorded.read_replies(folder))}
    assert counts["answer"][:3] == [0, 0, 1]  # unreached: nobody knows yet
    assert recorded.prune(run, folder) == 0
    run = complete(folder)
    counts = {step: counts for step, *counts in recorded.count_rows(run, recorded.read_replies(folder))}
    assert counts["answer"] == [1, 1, 0, 0]  # both methods find the one chunk: their prompts are the same
    assert recorded.prune(run, folder) == 1
    assert "Old." not in (folder / "answer.jsonl").read_text(encoding="utf-8")
    (folder / COMMANDS_FILE).write_text(LETTER, encoding="utf-8")
    assert recorded.prune(run_commands(replies=folder), folder) == 1
    assert not (folder / "answer.jsonl").exists()


def test_what_is_missing_is_written_and_replies_are_read_back(folder: Path, tmp_path: Path) -> None:
    run, file = run_commands(replies=folder), tmp_path / "missing.jsonl"
    recorded.write_missing(run, file)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert {row["key"]: row["messages"] for row in rows} == {
        key: list(each.request.messages) for key, each in run.requests.missing.items()
    }
    forms = [{"key": "a", "reply": "Yes.\u2028"}, {"key": "b", "reply": ""}]
    file.write_text("\n".join(json.dumps(form, ensure_ascii=False) for form in forms), encoding="utf-8")
    assert recorded.read_written([file]) == {"a": "Yes.\u2028"}


def test_recorded_commands_have_their_replies() -> None:
    """No reply is missing or malformed, and no command fails: the builds, and each question in one length.

    The first question is asked in all lengths. `python -m docs.recorded` runs all commands.
    """
    commands = read_commands()
    first_question = next(words[-1] for words in commands if "--length" in words)
    run = run_commands([words for words in commands if {"brief", "full"}.isdisjoint(words) or first_question in words])
    assert [(each.step, each.head, each.refusal) for each in run.requests.missing.values()] == []
    assert [(outcome.words, outcome.ran) for outcome in run.outcomes if outcome.failed] == []
    assert run.is_complete
    for step in ("reports", "global"):
        rows = recorded.read_replies()[step].values()
        used = [row.reply for row in rows if row.key in run.requests.used and row.reply != '{"answer": []}']
        assert len(used) == len({*used}), f"{step}: a reply stands for another request too"


def test_the_page_names_a_document_once_for_a_number() -> None:
    for answer in PAGE.read_text(encoding="utf-8").split("<details>"):
        cited = re.findall(r"^> (\[\d+\] examples/\S+)  $", answer, re.M)
        assert len(cited) == len({*cited})
