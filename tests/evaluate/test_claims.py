"""answers -> claims: selection, disambiguation, decomposition, and the outcome of every sentence."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kumihimo.evaluate.claims.stages import ECONOMY_VOTES, PAPER_VOTES, render_excerpt, split_answer_sentences
from kumihimo.evaluate.claims.study_claims import (
    count_outcomes,
    estimate_claim_calls,
    extract_answer_claims,
    mean_and_count,
    measure_claims,
)
from kumihimo.evaluate.records import AnswerClaim, AnswerSentence, AnswerSource, EvalQuestion, SystemAnswer
from kumihimo.evaluate.study import Study
from kumihimo.llm.budget import Caps
from tests.cli_runner import kumi
from tests.evaluate.factories_claims import default_reply, script_replies, scripted_claim_llm, stage_reply
from tests.fake_server import FakeServer
from tests.fenced_texts import fenced_text

QUESTIONS = [
    EvalQuestion("q1", "How did the piers change?"),
    EvalQuestion("q2", "紐の歴史は?"),
    EvalQuestion("q3", "Who paid?"),
]
PIERS = """## Piers

Several things have to be said about this. Kettle Narrows and Oban rebuilt their piers in 1922 [1][3].

- He refused, and the works stopped [2].
- The wonderful ferry leaves at nine.
- Kettle Narrows rebuilt its pier in **1922**."""
CORDS = "組紐には歴史がある。最初の紐は九十センチである。それは一九二二年に作られた[1]。"
SCRIPT = script_replies(
    select={
        "Several": stage_reply("none"),
        "組紐には": stage_reply("none"),
        "The wonderful": stage_reply("part", "The ferry leaves at nine."),
    },
    read={
        "He refused": stage_reply("unresolvable"),
        "それは": stage_reply("resolved", "最初の紐は一九二二年に作られた。"),
    },
    decompose={
        "Kettle Narrows and": [
            "Kettle Narrows rebuilt its pier in 1922.",
            " Oban rebuilt its  pier [for the ferries] in 1922.",
            "kettle narrows rebuilt its pier in 1922",
        ],
    },
)


def make_answer(text: str, question: str = "q1", **more: Any) -> SystemAnswer:
    return SystemAnswer("naive", question, text, **more)


def test_sentences_become_claims(tmp_path: Path) -> None:
    llm, chat = scripted_claim_llm(tmp_path, SCRIPT)
    claims, sentences = extract_answer_claims(
        QUESTIONS, [make_answer(PIERS), make_answer(CORDS, "q2"), make_answer("", "q3")], llm
    )
    assert [(c.question, c.sentence, c.text) for c in claims] == [
        ("q1", 2, "Kettle Narrows rebuilt its pier in 1922."),
        ("q1", 2, "Oban rebuilt its pier [for the ferries] in 1922."),
        ("q1", 4, "The ferry leaves at nine."),
        ("q2", 1, "最初の紐は九十センチである。"),
        ("q2", 2, "最初の紐は一九二二年に作られた。"),
    ]
    assert [(s.sentence, s.outcome) for s in sentences] == [
        *enumerate(["heading", "not selected", "claims", "ambiguous", "claims", "repeated"]),
        *enumerate(["not selected", "claims", "claims"]),
        (-1, "empty"),
    ]
    assert sentences[4].trace["selection"] == {"votes": ["part", "part"], **reply_fields("The ferry leaves at nine.")}
    assert sentences[3].trace["disambiguation"] == {"votes": ["unresolvable", "unresolvable"], **reply_fields("")}
    assert sum(chat.prompt_counts.values()) == 8 * 2 + 6 * 2 + 5  # two of three votes agree; decomposition has one


def reply_fields(sentence: str) -> dict[str, str]:
    return {"reasoning": "so", "sentence": sentence}


def test_excerpts_show_the_neighbours(tmp_path: Path) -> None:
    text = " ".join(f"Boat {n} left." for n in range(14))
    llm, chat = scripted_claim_llm(tmp_path, default_reply)
    extract_answer_claims(QUESTIONS, [make_answer(text)], llm, ECONOMY_VOTES)
    excerpts = {
        prompt.partition("You decide whether ")[2][:4]: fenced_text(prompt, "excerpt")
        for prompt in chat.prompt_counts
        if fenced_text(prompt, "sentence") == "Boat 7 left."
    }
    before = "[...]\n" + "\n".join(f"Boat {n} left." for n in range(2, 8))
    assert excerpts["this"].startswith(before + "\nBoat 8 left.")
    assert "Boat 12 left.\n[...]" in excerpts["this"]
    assert excerpts["ever"] == before + "\n[...]"
    assert (
        render_excerpt(split_answer_sentences("# Boats\nOne left. Two stayed."), 1, 5, 5)
        == "# Boats\nOne left.\nTwo stayed."
    )


@pytest.mark.parametrize(
    ("votes", "replies", "outcome", "requests"),
    [
        ((3, 1, 1), ["all", "none", "part"], "claims", 3),
        ((3, 1, 1), ["none", "all", "none"], "not selected", 3),
        ((3, 1, 1), ["none", "none", "all"], "not selected", 2),
        ((3, 1, 1), ["", "all", "none"], "invalid", 3),
        ((3, 1, 1), ["", "none", "none"], "not selected", 3),
        ((1, 1, 1), [""], "invalid", 1),
        ((2, 1, 1), ["all", "none"], "not selected", 2),
    ],
)
def test_votes(tmp_path: Path, votes: Any, replies: list[str], outcome: str, requests: int) -> None:
    """Two of three must agree; an unreadable reply ("") is requested three times."""
    planned = [reply for verdict in replies for reply in ([stage_reply(verdict)] if verdict else ["?!"] * 3)]
    turns = iter(planned)

    def reply_to(stage: str, about: str) -> Any:
        return next(turns) if stage == "select" else default_reply(stage, about)

    llm, chat = scripted_claim_llm(tmp_path, reply_to)
    _, [sentence] = extract_answer_claims(QUESTIONS, [make_answer("The ferry left.")], llm, votes)
    assert sentence.outcome == outcome
    votes_cast = sentence.trace["selection"]["votes"]
    assert sum(vote.startswith("invalid: fake gave 3 replies") for vote in votes_cast) == replies.count("")
    selections = sum(count for prompt, count in chat.prompt_counts.items() if "You decide whether this" in prompt)
    assert selections == requests + 2 * replies.count("")


def test_decomposed_claims_need_a_majority(tmp_path: Path) -> None:
    turns = iter([["A left.", "B left."], ["b left", "C left."], []])
    llm, _ = scripted_claim_llm(
        tmp_path, lambda stage, about: next(turns) if stage == "decompose" else default_reply(stage, about)
    )
    claims, _ = extract_answer_claims(QUESTIONS, [make_answer("A, B and C left.")], llm, (1, 1, 3))
    assert [claim.text for claim in claims] == ["B left."]


@pytest.mark.parametrize(("stage", "trace"), [("select", 1), ("read", 2), ("decompose", 3)])
def test_invalid_replies_are_counted(tmp_path: Path, stage: str, trace: int) -> None:
    garbage = {"select": stage_reply("maybe"), "read": "I cannot.", "decompose": '{"answer": "one'}
    llm, _ = scripted_claim_llm(tmp_path, script_replies(**{stage: {"The ferry": garbage[stage]}}))
    claims, sentences = extract_answer_claims(QUESTIONS, [make_answer("The ferry left. A boat left.")], llm)
    assert [claim.text for claim in claims] == ["A boat left."]
    assert count_outcomes(sentences, "naive") == {"claims": 1, "invalid": 1}
    assert len(sentences[0].trace) == trace


def test_nothing_decomposed(tmp_path: Path) -> None:
    llm, _ = scripted_claim_llm(tmp_path, script_replies(decompose={"A": [" ", "."], "B": []}))
    claims, sentences = extract_answer_claims(QUESTIONS, [make_answer("A left. B left.")], llm)
    assert (claims, count_outcomes(sentences, "naive")) == ([], {"nothing decomposed": 2})


def test_a_capped_run_fails_and_resumes_without_repeated_calls(tmp_path: Path) -> None:
    llm, chat = scripted_claim_llm(tmp_path, SCRIPT, Caps(calls=9))
    claims, sentences = extract_answer_claims(QUESTIONS, [make_answer(PIERS)], llm)
    assert sum(chat.prompt_counts.values()) == 9
    assert count_outcomes(sentences, "naive")["failed"] > 0
    assert measure_claims(claims, QUESTIONS, "naive", sentences)["claims"]["q1"] is None
    second_llm, second_chat = scripted_claim_llm(tmp_path, SCRIPT)
    all_claims, sentences = extract_answer_claims(QUESTIONS, [make_answer(PIERS)], second_llm)
    assert len(all_claims) == 3
    assert sum((chat.prompt_counts + second_chat.prompt_counts).values()) == 5 * 2 + 4 * 2 + 3
    assert measure_claims(all_claims, QUESTIONS, "naive", sentences)["claims"]["q1"] == 3


def test_votes_set_the_temperature(tmp_path: Path) -> None:
    temperatures: Counter[tuple[str, Any]] = Counter()

    class RecordingLLM:
        fingerprint, workers = "m", 1

        def __call__(self, prompt: Any, *, schema: Any, sample: int = 0, **parameters: Any) -> Any:
            temperatures[getattr(schema, "__name__", "list"), parameters.get("temperature")] += 1
            return (
                schema("so", "all" if schema.__name__ == "Selection" else "clear", "")
                if schema != list[str]
                else ["A."]
            )

    recorder: Any = RecordingLLM()
    extract_answer_claims(QUESTIONS, [make_answer("The ferry left.")], recorder)
    assert temperatures == {("Selection", 0.2): 2, ("Read", 0.2): 2, ("list", None): 1}
    extract_answer_claims(QUESTIONS, [make_answer("The ferry left.")], recorder, ECONOMY_VOTES)
    assert temperatures["Selection", None] == temperatures["Read", None] == 1


def test_calls_are_estimated() -> None:
    answers = [make_answer(PIERS), make_answer(CORDS, "q2"), make_answer("", "q3"), make_answer("A.", failed="capped")]
    assert estimate_claim_calls(answers, PAPER_VOTES) == (8 * 2, 8 * 7)
    assert estimate_claim_calls(answers, ECONOMY_VOTES) == (8, 8 * 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**Causes**\n\nRain [Data: Reports (1, 2, +more)]. Wind【3】.", ["# Causes", "Rain.", "Wind."]),
        ("1. One [link](http://x.y/z) [2](u).\n2) Two `a[1]`.", ["One link 2.", "Two a."]),
        ("Title\n=====\n> Quoted\n> text.\n\n---\n", ["# Title", "Quoted text."]),
        ("```python\nx = 1\n```\n", ["x = 1"]),
        ("a | b\n--- | ---\n1 [1] | 2\n| 3 |  |\n", ["# a; b", "a: 1; b: 2", "a: 3"]),
        ("| Tern | 1922 |\n| Gull | 1930 |", ["Tern; 1922", "Gull; 1930"]),
        ("これは**太字**です。[2]次の文です［1、3］。", ["これは太字です。", "次の文です。"]),
        ("snake_case_name and 2*3*4 stay.", ["snake_case_name and 2*3*4 stay."]),
        ("…\n***\n[1]", []),
        ("", []),
    ],
)
def test_markdown(text: str, expected: list[str]) -> None:
    assert [piece.markdown for piece in split_answer_sentences(text)] == expected


def test_numbers_per_question() -> None:
    claims = [
        AnswerClaim("naive", "q1", 0, text) for text in ("The ferry left at nine.", "The ferry left at ten.", "Oh.")
    ]
    rows = [AnswerSentence("naive", "q1", 0, "?", "claims"), AnswerSentence("naive", "q2", 0, "?", "not selected")]
    rows += [
        AnswerSentence("naive", "q3", -1, "", "no answer", {"why": "capped"}),
        AnswerSentence("bm25", "q3", 0, "?", "claims"),
    ]
    values = measure_claims(claims, QUESTIONS, "naive", rows)
    assert values["claims"] == {"q1": 3.0, "q2": 0.0, "q3": None}
    assert values["clusters@0.5"] == {"q1": 2.0, "q2": 0.0, "q3": None}
    assert mean_and_count(values["claims"]) == (1.5, 2)
    assert mean_and_count({"q1": None}) == (None, 0)
    assert measure_claims(claims, QUESTIONS, "naive")["claims"]["q3"] == 0.0


# -- the command

REPLIES = [
    ('"none"', json.dumps(stage_reply())),
    ('"clear"', json.dumps(stage_reply("clear"))),
    ('"unsure"', '[{"claim": 1, "supported": "no"}]'),
    ('"sources"', '[{"claim": 1, "supported": "yes", "sources": [1]}]'),
    ("<sentence>\nRoake", '["Roake mended it."]'),
    ("<sentence>\nIt was", '{"answer": ["The breakwater was mended in 1922."]}'),
]


@pytest.fixture
def folder(tmp_path: Path, server: FakeServer) -> Path:
    server.configure(replies=REPLIES)
    (tmp_path / "kumi.toml").write_text(f'[chat]\nmodel = "m"\nbase_url = "{server.url}"\n', "utf-8")
    study = Study(tmp_path / "eval")
    study.write("questions", [EvalQuestion("q1", "Who mended it?"), EvalQuestion("q2", "When?")])
    evidence = (AnswerSource(1, "Roake mended it."),)
    answers = [
        SystemAnswer("naive", "q1", "Roake mended it [1].", evidence),
        SystemAnswer("naive", "q2", "It was in 1922.", evidence),
    ]
    study.write_answers("naive", 0, answers)
    study.write_answers("naive", 1, answers)
    study.write_answers("bm25", 0, [SystemAnswer("bm25", "q1", "", failed="capped"), SystemAnswer("bm25", "q2", "")])
    return tmp_path


def test_the_command(folder: Path, server: FakeServer) -> None:
    (folder / "notes").mkdir()
    (folder / "notes/a.txt").write_text("Roake mended the breakwater.", "utf-8")
    assert kumi(folder, "index", "notes", "--methods", "naive").returncode == 0
    checks = ("--context", "--corpus", "--selfcheck")
    ran = kumi(folder, "eval", "claims", *checks)
    assert ran.returncode == 0, ran.stderr
    assert "4 to 14 calls to m temperature=0.0: about 7 per sentence" in ran.stderr
    assert "naive    2 of 2" in ran.stdout
    assert "100.0 % of 2" in ran.stdout
    assert "bm25     1 of 2" in ran.stdout
    assert "2 other answers, 2 from the same evidence; 2 are identical to the first" in ran.stdout
    assert "bm25 has answered once: `kumi eval run --methods bm25 --generations 5`" in ran.stdout
    study = Study(folder / "eval")
    claims = list(study.rows("claims", AnswerClaim))
    assert [(c.text, c.supported, c.in_corpus, c.doubt, c.sources) for c in claims] == [
        ("Roake mended it.", True, True, 1.0, (1,)),
        ("The breakwater was mended in 1922.", True, True, 1.0, (1,)),
    ]
    assert [s.outcome for s in study.rows("sentences", AnswerSentence)] == ["no answer", "empty", "claims", "claims"]
    calls = server.counts()["chats"]
    output = json.loads(kumi(folder, "eval", "claims", *checks, "--json").stdout)
    assert server.counts()["chats"] == calls == 2 * 5 + 2 + 2 + 2
    assert output["systems"]["naive"]["means"]["claims"] == 1.0
    assert output["systems"]["bm25"]["sentences"] == {"empty": 1, "no answer": 1}
    entry = study.read_manifest()["claims"]["naive"]
    assert (entry["model"], entry["votes"], entry["merges"]) == ("m temperature=0.0", [3, 3, 1], "<")
    assert set(study.read_manifest()["claims"]) == {"naive", "bm25"}
    assert kumi(folder, "eval", "claims", "--methods", "bm25").returncode == 0
    assert list(study.rows("claims", AnswerClaim)) == claims


def test_errors_stop_the_command(folder: Path, server: FakeServer) -> None:
    ran = kumi(folder, "eval", "claims", "--methods", "naive", "--max-calls", "3")
    assert ran.returncode == 1
    assert "rows failed: run the same command to try them again; the first: capped" in ran.stderr
    assert (folder / "eval/claims.jsonl").exists()
    assert "–" in ran.stdout
    assert "did you mean 'naive'" in kumi(folder, "eval", "claims", "--methods", "naiv").stderr
    study = Study(folder / "eval")
    long = " ".join(f"Boat {n} left." for n in range(200))
    study.write_answers("naive", 0, [SystemAnswer("naive", "q1", long)])
    ran = kumi(folder, "eval", "claims")
    assert (ran.returncode, "up to 1,400 calls: no model was called" in ran.stderr) == (2, True)
    assert server.counts()["chats"] == 3


def test_the_sample_of_questions_is_fixed(folder: Path) -> None:
    ran = kumi(folder, "eval", "claims", "--methods", "naive", "--economy", "--sample", "1", "--json")
    output = json.loads(ran.stdout)["systems"]["naive"]
    assert (output["questions"], output["n"], output["claims"]) == (1, 1, 1)
