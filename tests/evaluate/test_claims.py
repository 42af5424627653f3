"""answers -> claims: what is selected, made clear, taken apart, and what is said of all the rest."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kumihimo.evaluate.claims import estimate_claim_calls, extract_answer_claims
from kumihimo.evaluate.claims.claim_counts import count_outcomes, mean_and_count, measure_claims
from kumihimo.evaluate.claims.sentences import render_excerpt, split_answer
from kumihimo.evaluate.claims.stages import ECONOMY_VOTES, PAPER_VOTES
from kumihimo.evaluate.records import AnswerClaim, AnswerSentence, AnswerSource, EvalQuestion, SystemAnswer
from kumihimo.evaluate.study import Study
from kumihimo.llm.budget import Caps
from kumihimo.testing.fake_server import FakeServer
from tests.cli_runner import kumi
from tests.evaluate.factories_claims import script, scripted, selected, usual

ASKED = [
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
SCRIPT = script(
    select={
        "Several": selected("none"),
        "組紐には": selected("none"),
        "The wonderful": selected("part", "The ferry leaves at nine."),
    },
    read={
        "He refused": selected("unresolvable"),
        "それは": selected("resolved", "最初の紐は一九二二年に作られた。"),
    },
    decompose={
        "Kettle Narrows and": [
            "Kettle Narrows rebuilt its pier in 1922.",
            " Oban rebuilt its  pier [for the ferries] in 1922.",
            "kettle narrows rebuilt its pier in 1922",
        ],
    },
)


def answer(text: str, question: str = "q1", **more: Any) -> SystemAnswer:
    return SystemAnswer("naive", question, text, **more)


def test_from_sentences_to_claims(tmp_path: Path) -> None:
    ask, chat = scripted(tmp_path, SCRIPT)
    found, sentences = extract_answer_claims(ASKED, [answer(PIERS), answer(CORDS, "q2"), answer("", "q3")], ask)
    assert [(c.question, c.sentence, c.text) for c in found] == [
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
    assert sentences[4].trace["selection"] == {"votes": ["part", "part"], **said("The ferry leaves at nine.")}
    assert sentences[3].trace["disambiguation"] == {"votes": ["unresolvable", "unresolvable"], **said("")}
    assert sum(chat.prompt_counts.values()) == 8 * 2 + 6 * 2 + 5  # two of three agree; then one


def said(sentence: str) -> dict[str, str]:
    return {"reasoning": "so", "sentence": sentence}


def test_what_is_shown_around_a_sentence(tmp_path: Path) -> None:
    text = " ".join(f"Boat {n} left." for n in range(14))
    ask, chat = scripted(tmp_path, usual)
    extract_answer_claims(ASKED, [answer(text)], ask, ECONOMY_VOTES)
    shown = {
        prompt.partition("You decide whether ")[2][:4]: prompt.partition("Excerpt of the answer:\n")[2]
        for prompt in chat.prompt_counts
        if "Sentence: Boat 7 left." in prompt
    }
    before = "[...]\n" + "\n".join(f"Boat {n} left." for n in range(2, 8))
    assert shown["this"].startswith(before + "\nBoat 8 left.")
    assert "Boat 12 left.\n[...]" in shown["this"]
    assert shown["ever"].startswith(before + "\n[...]\n\nSentence:")
    assert render_excerpt(split_answer("# Boats\nOne left. Two stayed."), 1, 5, 5) == "# Boats\nOne left.\nTwo stayed."


@pytest.mark.parametrize(
    ("votes", "replies", "outcome", "asked"),
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
def test_votes(tmp_path: Path, votes: Any, replies: list[str], outcome: str, asked: int) -> None:
    """Two of three have to agree; one that cannot be read, "", is asked for three times."""
    given = [reply for verdict in replies for reply in ([selected(verdict)] if verdict else ["?!"] * 3)]
    turns = iter(given)

    def say(stage: str, about: str) -> Any:
        return next(turns) if stage == "select" else usual(stage, about)

    ask, chat = scripted(tmp_path, say)
    _, [sentence] = extract_answer_claims(ASKED, [answer("The ferry left.")], ask, votes)
    assert sentence.outcome == outcome
    given_votes = sentence.trace["selection"]["votes"]
    assert sum(vote.startswith("invalid: fake gave 3 replies") for vote in given_votes) == replies.count("")
    firsts = sum(count for prompt, count in chat.prompt_counts.items() if "You decide whether this" in prompt)
    assert firsts == asked + 2 * replies.count("")


def test_claims_are_voted_on_where_decomposition_is(tmp_path: Path) -> None:
    turns = iter([["A left.", "B left."], ["b left", "C left."], []])
    ask, _ = scripted(tmp_path, lambda stage, about: next(turns) if stage == "decompose" else usual(stage, about))
    found, _ = extract_answer_claims(ASKED, [answer("A, B and C left.")], ask, (1, 1, 3))
    assert [claim.text for claim in found] == ["B left."]


@pytest.mark.parametrize(("stage", "trace"), [("select", 1), ("read", 2), ("decompose", 3)])
def test_garbage_is_invalid_and_counted(tmp_path: Path, stage: str, trace: int) -> None:
    garbage = {"select": selected("maybe"), "read": "I cannot.", "decompose": '{"answer": "one'}
    ask, _ = scripted(tmp_path, script(**{stage: {"The ferry": garbage[stage]}}))
    found, sentences = extract_answer_claims(ASKED, [answer("The ferry left. A boat left.")], ask)
    assert [claim.text for claim in found] == ["A boat left."]
    assert count_outcomes(sentences, "naive") == {"claims": 1, "invalid": 1}
    assert len(sentences[0].trace) == trace


def test_nothing_decomposed(tmp_path: Path) -> None:
    ask, _ = scripted(tmp_path, script(decompose={"A": [" ", "."], "B": []}))
    found, sentences = extract_answer_claims(ASKED, [answer("A left. B left.")], ask)
    assert (found, count_outcomes(sentences, "naive")) == ([], {"nothing decomposed": 2})


def test_what_a_cap_left_is_failed_and_goes_on_without_a_call_twice(tmp_path: Path) -> None:
    ask, chat = scripted(tmp_path, SCRIPT, Caps(calls=9))
    found, sentences = extract_answer_claims(ASKED, [answer(PIERS)], ask)
    assert sum(chat.prompt_counts.values()) == 9
    assert count_outcomes(sentences, "naive")["failed"] > 0
    assert measure_claims(found, ASKED, "naive", sentences)["claims"]["q1"] is None
    again, more = scripted(tmp_path, SCRIPT)
    whole, sentences = extract_answer_claims(ASKED, [answer(PIERS)], again)
    assert len(whole) == 3
    assert sum((chat.prompt_counts + more.prompt_counts).values()) == 5 * 2 + 4 * 2 + 3
    assert measure_claims(whole, ASKED, "naive", sentences)["claims"]["q1"] == 3


def test_temperature_is_sent_where_there_are_votes(tmp_path: Path) -> None:
    seen: Counter[tuple[str, Any]] = Counter()

    class Noting:
        fingerprint, workers = "m", 1

        def __call__(self, prompt: Any, *, schema: Any, sample: int = 0, **parameters: Any) -> Any:
            seen[getattr(schema, "__name__", "list"), parameters.get("temperature")] += 1
            return (
                schema("so", "all" if schema.__name__ == "Selected" else "clear", "") if schema != list[str] else ["A."]
            )

    noting: Any = Noting()
    extract_answer_claims(ASKED, [answer("The ferry left.")], noting)
    assert seen == {("Selected", 0.2): 2, ("Read", 0.2): 2, ("list", None): 1}
    extract_answer_claims(ASKED, [answer("The ferry left.")], noting, ECONOMY_VOTES)
    assert seen["Selected", None] == seen["Read", None] == 1


def test_calls_are_known_before() -> None:
    told = [answer(PIERS), answer(CORDS, "q2"), answer("", "q3"), answer("A.", failed="capped")]
    assert estimate_claim_calls(told, PAPER_VOTES) == (8 * 2, 8 * 7)
    assert estimate_claim_calls(told, ECONOMY_VOTES) == (8, 8 * 3)


@pytest.mark.parametrize(
    ("text", "shown"),
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
def test_markdown(text: str, shown: list[str]) -> None:
    assert [piece.markdown for piece in split_answer(text)] == shown


def test_numbers_of_each_question() -> None:
    found = [
        AnswerClaim("naive", "q1", 0, text) for text in ("The ferry left at nine.", "The ferry left at ten.", "Oh.")
    ]
    rows = [AnswerSentence("naive", "q1", 0, "?", "claims"), AnswerSentence("naive", "q2", 0, "?", "not selected")]
    rows += [
        AnswerSentence("naive", "q3", -1, "", "no answer", {"why": "capped"}),
        AnswerSentence("bm25", "q3", 0, "?", "claims"),
    ]
    told = measure_claims(found, ASKED, "naive", rows)
    assert told["claims"] == {"q1": 3.0, "q2": 0.0, "q3": None}
    assert told["clusters@0.5"] == {"q1": 2.0, "q2": 0.0, "q3": None}
    assert mean_and_count(told["claims"]) == (1.5, 2)
    assert mean_and_count({"q1": None}) == (None, 0)
    assert measure_claims(found, ASKED, "naive")["claims"]["q3"] == 0.0


# -- the command

REPLIES = [
    ('"none"', json.dumps(selected())),
    ('"clear"', json.dumps(selected("clear"))),
    ('"unsure"', '[{"claim": 1, "supported": "no"}]'),
    ('"sources"', '[{"claim": 1, "supported": "yes", "sources": [1]}]'),
    ("Sentence: Roake", '["Roake mended it."]'),
    ("Sentence: It was", '{"answer": ["The breakwater was mended in 1922."]}'),
]


@pytest.fixture
def folder(tmp_path: Path, server: FakeServer) -> Path:
    server.configure(replies=REPLIES)
    (tmp_path / "kumi.toml").write_text(f'[chat]\nmodel = "m"\nbase_url = "{server.url}"\n', "utf-8")
    study = Study(tmp_path / "eval")
    study.write("questions", [EvalQuestion("q1", "Who mended it?"), EvalQuestion("q2", "When?")])
    shown = (AnswerSource(1, "Roake mended it."),)
    told = [
        SystemAnswer("naive", "q1", "Roake mended it [1].", shown),
        SystemAnswer("naive", "q2", "It was in 1922.", shown),
    ]
    study.write_answers("naive", 0, told)
    study.write_answers("naive", 1, told)
    study.write_answers("bm25", 0, [SystemAnswer("bm25", "q1", "", failed="capped"), SystemAnswer("bm25", "q2", "")])
    return tmp_path


def test_the_command(folder: Path, server: FakeServer) -> None:
    (folder / "notes").mkdir()
    (folder / "notes/a.txt").write_text("Roake mended the breakwater.", "utf-8")
    assert kumi(folder, "index", "notes", "--methods", "naive").returncode == 0
    checks = ("--context", "--corpus", "--selfcheck")
    ran = kumi(folder, "eval", "claims", *checks)
    assert ran.returncode == 0, ran.stderr
    assert "4 to 14 calls to m temperature=0.0: about 7 for a sentence" in ran.stderr
    assert "naive    2 of 2" in ran.stdout
    assert "100.0 % of 2" in ran.stdout
    assert "bm25     1 of 2" in ran.stdout
    assert "2 other answers, 2 from the same evidence; 2 are the first one word for word" in ran.stdout
    assert "bm25 has answered once: `kumi eval run --methods bm25 --generations 5`" in ran.stdout
    study = Study(folder / "eval")
    found = list(study.rows("claims", AnswerClaim))
    assert [(c.text, c.supported, c.in_corpus, c.doubt, c.sources) for c in found] == [
        ("Roake mended it.", True, True, 1.0, (1,)),
        ("The breakwater was mended in 1922.", True, True, 1.0, (1,)),
    ]
    assert [s.outcome for s in study.rows("sentences", AnswerSentence)] == ["no answer", "empty", "claims", "claims"]
    asked = server.counts()["chats"]
    told = json.loads(kumi(folder, "eval", "claims", *checks, "--json").stdout)
    assert server.counts()["chats"] == asked == 2 * 5 + 2 + 2 + 2
    assert told["systems"]["naive"]["means"]["claims"] == 1.0
    assert told["systems"]["bm25"]["sentences"] == {"empty": 1, "no answer": 1}
    noted = study.read_manifest()["claims"]["naive"]
    assert (noted["model"], noted["votes"], noted["merges"]) == ("m temperature=0.0", [3, 3, 1], "<")
    assert set(study.read_manifest()["claims"]) == {"naive", "bm25"}
    assert kumi(folder, "eval", "claims", "--methods", "bm25").returncode == 0
    assert list(study.rows("claims", AnswerClaim)) == found


def test_what_stops_the_command(folder: Path, server: FakeServer) -> None:
    ran = kumi(folder, "eval", "claims", "--methods", "naive", "--max-calls", "3")
    assert ran.returncode == 1
    assert "sentences or checks failed: the same command goes on with them; of the first: capped" in ran.stderr
    assert (folder / "eval/claims.jsonl").exists()
    assert "–" in ran.stdout
    assert "did you mean 'naive'" in kumi(folder, "eval", "claims", "--methods", "naiv").stderr
    study = Study(folder / "eval")
    long = " ".join(f"Boat {n} left." for n in range(200))
    study.write_answers("naive", 0, [SystemAnswer("naive", "q1", long)])
    ran = kumi(folder, "eval", "claims")
    assert (ran.returncode, "up to 1,400 calls: nothing was asked" in ran.stderr) == (2, True)
    assert server.counts()["chats"] == 3


def test_some_of_the_questions_are_always_the_same(folder: Path) -> None:
    ran = kumi(folder, "eval", "claims", "--methods", "naive", "--economy", "--sample", "1", "--json")
    told = json.loads(ran.stdout)["systems"]["naive"]
    assert (told["questions"], told["n"], told["claims"]) == (1, 1, 1)
