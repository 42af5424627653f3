"""a question, an answer, a scripted model -> scores worked by hand, and what is said where there are none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import BudgetExceeded, ItemFailed, SettingsError, UnparsableReply
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, Score, SystemAnswer
from kumihimo.evaluate.scoring import DEFAULT_MEASURES, MEASURE_GROUPS, SCORE_MEASURES, claims
from kumihimo.evaluate.scoring.case import Case, ScoreResult, Tools
from kumihimo.evaluate.scoring.run_scores import build_cases, mean_scores, resolve_measures, score_cases
from kumihimo.evaluate.study import Study
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from kumihimo.testing.fake_server import FakeServer
from tests.cli_runner import kumi

STATED = {  # by text: what a model takes it apart into
    "The Tern sails at nine. It is white and old.": [
        "The Tern sails at nine.",
        "The Tern is white.",
        "The Tern is old.",
    ],
    "The Tern sails at nine. She is white, and she is fast.": [
        "The Tern sails at nine.",
        "The Tern is white.",
        "The Tern is fast.",
    ],
    "組紐は十月に届きます。": ["組紐は十月に届く。"],
    "紐は十月。赤い。": ["組紐は十月に届く。", "組紐は赤い。"],
    "I do not know.": [],
}


class _Scripted:
    """Asked for statements it looks them up; asked for verdicts it says that what is in a text as it stands holds."""

    fingerprint, workers = "scripted", 1

    def __init__(self, **replies: Any) -> None:
        self.replies = replies  # by the name of a form: what is said instead, or how to find it
        self.asked: list[tuple[str, int]] = []

    def __call__(self, messages: Sequence[Any], *, schema: Any, sample: int = 0, **_: Any) -> Any:
        said = messages[-1]["content"]
        kind = getattr(schema, "__name__", "") if not getattr(schema, "__args__", ()) else "Verdicts"
        self.asked.append((said, sample))
        reply = self.replies.get(kind, getattr(self, kind.lower()))
        found = reply(said) if callable(reply) else reply
        made = schema.__args__[0] if kind == "Verdicts" else schema
        return [made(*row) for row in found] if kind == "Verdicts" else made(*found)

    def taken(self, said: str) -> tuple[list[str]]:
        return (STATED[said.partition("Text:\n")[2]],)

    def verdicts(self, said: str) -> list[tuple[int, str, bool]]:
        *_, items = re.split(r"\n\n(?:Statements|Assertions):\n", said)
        held = said.removesuffix(items)
        listed = (line.partition(". ") for line in items.splitlines())
        return [(int(n), "as it stands", _core(text) in held) for n, _, text in listed]

    def needed(self, said: str) -> tuple[list[int]]:
        return ([1, 3, 3, 99],)

    def grade(self, said: str) -> tuple[str, int]:
        return ("some", 2 if said.startswith("Text:") else 1)

    def samples(self, *_: Any) -> list[str]:
        raise NotImplementedError


def scripted(**replies: Any) -> Any:
    return _Scripted(**replies)


def _core(statement: str) -> str:
    """What a text has to hold to say it: its last word."""
    return re.findall(r"\w+", statement)[-1] if statement.isascii() else statement[3:].strip("。届くいはにをのが")


class Right:
    """Every text points the same way, but for those that begin with `!`: cosine .8."""

    fingerprint, batch, workers = "right", 8, 1

    def __call__(self, texts: Sequence[str]) -> Any:
        import numpy as np

        return np.asarray([[0.8, 0.6] if n else [1.0, 0.0] for n, _ in enumerate(texts)], dtype=np.float32)


REFERENCE = "The Tern sails at nine. She is white, and she is fast."
ASKED = EvalQuestion("q1", "What of the Tern?", reference=REFERENCE, assertions=("It says nine.", "It says blue."))


def case(text: str, *contexts: str, question: EvalQuestion = ASKED, **more: Any) -> Case:
    found = tuple(AnswerSource(n, context) for n, context in enumerate(contexts, 1))
    return Case(question, SystemAnswer("naive", question.id, text, found, **more))


SAID = case("The Tern sails at nine. It is white and old.", "At nine the white boat sails.", "Cords are wound. 組紐。")


def found(name: str, of: Case = SAID, model: Any = None) -> ScoreResult:
    return SCORE_MEASURES[name].function(of, Tools(model or scripted(), Right()))


# -- each measure, by hand


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("faithfulness", 2 / 3),  # nine, white; not old
        ("answer_correctness", 0.75 * 2 / 3 + 0.25 * 0.8),  # TP 2 of 3, FP 1, FN 1
        ("context_relevance_sentences", 2 / 3),  # of "At nine ...", "Cords ...", "組紐。"
        ("context_relevance_graded", 0.75),
        ("context_recall", 1 / 2),  # "... nine.", not "... fast."
        ("assertions", 1 / 2),
        ("token_f1", 2 * 7 / (9 + 11)),  # tern sails at nine, is, white, and
        ("exact_match", 0.0),
    ],
)
def test_worked_by_hand(name: str, value: float) -> None:
    assert found(name).value == pytest.approx(value)


def test_precision_is_of_the_ranks_that_are_of_use() -> None:
    of = case("x", "a", "b", "c")
    model = scripted(Verdicts=[(1, "", True), (2, "", False), (3, "", True)])
    assert found("context_precision", of, model).value == pytest.approx((1 + 2 / 3) / 2)
    none = scripted(Verdicts=[(1, "", False), (2, "", False), (3, "", False)])
    told = found("context_precision", of, none)
    assert (told.value, told.reason) == (None, "no piece of the evidence is of use")


def test_statements_and_verdicts_are_kept() -> None:
    kept = found("faithfulness").detail["statements"]
    assert [(row["text"], row["holds"]) for row in kept][1:] == [
        ("The Tern is white.", True),
        ("The Tern is old.", False),
    ]
    assert found("context_relevance_sentences").detail["beyond"] == [99]


def test_japanese() -> None:
    question = EvalQuestion("q", "組紐は?", reference="組紐は十月に届きます。")
    of = case("紐は十月。赤い。", "組紐は十月に届きます。", question=question)
    assert found("faithfulness", of).value == 0.5
    assert found("context_recall", of, scripted(Verdicts=[(1, "届く", True)])).value == 1.0
    assert found("token_f1", of).value == pytest.approx(2 * 4 / (6 + 10))  # 紐は十月
    assert found("exact_match", case("「組紐は、十月に届きます」", question=question)).value == 1.0


@pytest.mark.parametrize(
    ("name", "of", "value", "reason"),
    [
        ("faithfulness", case("I do not know.", "a"), None, "the answer makes no statement"),
        ("faithfulness", case(" ", "a"), None, "the answer makes no statement"),
        ("faithfulness", case(REFERENCE), 0.0, "there is no evidence"),
        ("answer_correctness", case(""), 0.0, "the answer states nothing"),
        ("answer_correctness", case("I do not know."), 0.0, "the answer states nothing"),
        ("answer_correctness", case("", question=EvalQuestion("q", "?")), None, "the question has no reference answer"),
        (
            "answer_correctness",
            case("", question=EvalQuestion("q", "?", reference="I do not know.")),
            None,
            "neither the answer nor the reference states anything",
        ),
        ("context_relevance_sentences", case("x"), None, "there is no evidence"),
        ("context_relevance_sentences", case("x", "# Boats"), None, "the evidence has no sentences"),
        ("context_relevance_graded", case("x", " "), None, "there is no evidence"),
        ("context_recall", case("x"), 0.0, "there is no evidence"),
        ("context_recall", case("x", question=EvalQuestion("q", "?")), None, "the question has no reference answer"),
        ("context_precision", case("x"), None, "there is no evidence"),
        ("assertions", case("x", question=EvalQuestion("q", "?")), None, "the question carries no assertions"),
        ("assertions", case(""), 0.0, "the answer is empty"),
        (
            "exact_match",
            case("x", question=EvalQuestion("q", "?", reference="The.")),
            None,
            "the reference answer has no words",
        ),
        ("token_f1", case("", question=EvalQuestion("q", "?")), None, "the question has no reference answer"),
        ("token_f1", case(""), 0.0, ""),
        ("chunk_precision", case(REFERENCE), None, "there is no evidence"),
        ("claim_recall", case(REFERENCE), 0.0, ""),
        ("hallucination", case("I do not know.", "a"), None, "the answer makes no statement"),
        ("self_knowledge", case("x", question=EvalQuestion("q", "?")), None, "the question has no reference answer"),
    ],
)
def test_edges(name: str, of: Case, value: float | None, reason: str) -> None:
    told = found(name, of)
    assert (told.value, told.reason) == (value, reason)


def test_the_best_of_several_references_counts() -> None:
    question = EvalQuestion("q", "When?", reference="nine o'clock", more={"references": ["at nine", 9]})
    assert found("exact_match", case("At nine!", question=question)).value == 1.0


# -- claims


MATRICES = claims.ClaimMatrices(
    correct=(True, True, False, False, False),
    covered=(True, False, True),
    reference_in_chunks=(
        (True, False, False),
        (True, False, False),
        (False, False, False),
    ),  # three claims of the reference
    answer_in_chunks=(
        (True, False, False),
        (False, False, False),  # right, and of its own knowledge
        (True, True, False),  # wrong, by a relevant chunk and another
        (False, True, False),  # wrong, by an irrelevant one alone
        (False, False, False),  # made up
    ),
)


@pytest.mark.parametrize(
    ("share", "value"),
    [
        (claims.claim_precision, 2 / 5),
        (claims.claim_recall, 2 / 3),
        (claims.chunk_precision, 1 / 3),
        (claims.context_utilisation, 1 / 2),
        (claims.noise_in_relevant, 1 / 5),
        (claims.noise_in_irrelevant, 1 / 5),
        (claims.hallucination, 1 / 5),
        (claims.self_knowledge, 1 / 5),
    ],
)
def test_claim_algebra(share: Callable[[claims.ClaimMatrices], float | None], value: float) -> None:
    assert share(MATRICES) == pytest.approx(value)
    assert share(claims.ClaimMatrices((), (), (), ())) is None


def test_what_is_wrong_in_an_answer_adds_up() -> None:
    parts = (claims.claim_precision, claims.noise_in_relevant, claims.noise_in_irrelevant, claims.hallucination)
    assert sum(share(MATRICES) or 0.0 for share in parts) == pytest.approx(1.0)


def test_claims_share_their_calls_with_the_other_measures() -> None:
    model = scripted()
    tools = Tools(model, Right())
    told = {
        name: SCORE_MEASURES[name].function(SAID, tools).value
        for name in resolve_measures(["claims", "faithfulness", "answer_correctness"])
    }
    assert told["claim_precision"] == pytest.approx(2 / 3)
    assert told["hallucination"] == pytest.approx(1 / 3)
    assert told["chunk_precision"] == 0.5
    assert len(model.asked) == len(set(model.asked)) == 2 + 1 + 2 + 4  # taken apart; faithful; correct; two chunks


# -- replies that leave something out, or cannot be had


def test_what_a_reply_leaves_out_is_asked_for_again() -> None:
    def first(said: str) -> list[tuple[int, str, bool]]:
        return [(1, "", "white" in said.rpartition("\n")[2]), (1, "twice", True), (77, "", True)]

    model = scripted(Verdicts=first)
    kept = found("faithfulness", SAID, model).detail["statements"]
    assert [row["text"].split()[-1] for row in kept] == ["nine.", "white.", "old."]
    assert len(model.asked) == 1 + 3
    with pytest.raises(UnparsableReply, match="no verdict on 3 of 3"):
        found("faithfulness", SAID, scripted(Verdicts=[]))


def test_failures_are_rows_and_are_paid_for_once() -> None:
    def fails(error: ItemFailed) -> Callable[[str], Any]:
        def reply(_: str) -> Any:
            raise error

        return reply

    model = scripted(Taken=fails(UnparsableReply("3 replies that cannot be read")))
    rows = list(score_cases([SAID], ["faithfulness", "answer_correctness", "token_f1"], model, Right()))
    assert [(row.value is None, row.status) for row in rows] == [(True, "invalid"), (True, "invalid"), (False, "ok")]
    assert len(model.asked) == 1
    capped = scripted(Grade=fails(BudgetExceeded("capped: --max-calls 3")))
    (row,) = score_cases([SAID], ["context_relevance_graded"], capped, repeats=2)
    assert (row.value, row.status, row.reason) == (None, "failed", "capped: --max-calls 3")
    (row,) = score_cases([case("", failed="timeout")], ["faithfulness"], model)
    assert (row.value, row.status, row.reason) == (None, "ok", "there is no answer: timeout")


def test_repeats_give_the_mean_and_the_spread() -> None:
    grades = iter([("", 2), ("", 2), ("", 1), ("", 0)])
    model = scripted(Grade=lambda _: next(grades))
    graded, words = score_cases([SAID], ["context_relevance_graded", "exact_match"], model, repeats=2)
    assert graded.value == pytest.approx((1 + 0.25) / 2)
    assert graded.detail["spread"] == 0.75
    assert [sample for _, sample in model.asked] == [0, 0, 1, 1]
    assert "repeats" not in words.detail
    made = iter([([],), (["Nine."],)])
    (row,) = score_cases(
        [SAID], ["faithfulness"], scripted(Taken=lambda _: next(made), Verdicts=[(1, "", True)]), repeats=2
    )
    assert (row.value, row.reason) == (1.0, "undefined in 1 of 2 repeats: the answer makes no statement")


# -- the catalogue, means, the command


def test_the_catalogue_is_described_as_it_is() -> None:
    said = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    for name, measure in SCORE_MEASURES.items():
        assert f"| `{name}` | {measure.group} |" in said
    assert {measure.group for measure in SCORE_MEASURES.values()} == {*MEASURE_GROUPS}
    assert resolve_measures([]) == list(DEFAULT_MEASURES)
    assert resolve_measures(["claims", "faithfulness"])[0] == "faithfulness"
    assert resolve_measures(["all"]) == list(SCORE_MEASURES)
    with pytest.raises(SettingsError, match="did you mean 'faithfulness'"):
        resolve_measures(["faithfullness"])


def test_means_leave_out_what_is_undefined_and_say_so() -> None:
    questions = [EvalQuestion(str(n), "?") for n in range(3)]
    rows = [
        Score("faithfulness", "naive", "0", 1.0),
        Score("faithfulness", "naive", "1", 0.5),
        Score("faithfulness", "naive", "2", None, "nothing said"),
        Score("token_f1", "naive", "0", None, "no reference"),
    ]
    words, faithful = mean_scores(rows, questions)
    assert (words.measure, words.value, words.low, words.n, words.of) == ("token_f1", None, None, 0, 1)
    assert (faithful.value, faithful.n, faithful.of) == (0.75, 2, 3)
    assert (faithful.low, faithful.high) == (0.5, 1.0)
    assert faithful.reasons == {"nothing said": 1}


def test_answers_to_what_is_not_asked_are_left_out() -> None:
    assert list(build_cases([ASKED], [SystemAnswer("naive", "q9", "x")])) == []


@pytest.fixture
def study(tmp_path: Path) -> Study:
    held = Study(tmp_path / "eval")
    held.write("questions", [ASKED, EvalQuestion("q2", "組紐は?", reference="組紐は十月に届きます。")])
    for system in ("bm25", "naive"):
        of_second = SystemAnswer(system, "q2", "十月です。", (AnswerSource(1, "組紐は十月に届きます。"),))
        held.write_answers(system, 0, [SystemAnswer(system, "q1", SAID.answer.text, SAID.answer.contexts), of_second])
    return held


def test_without_a_model_the_words_are_counted(study: Study) -> None:
    ran = kumi(study.folder.parent, "eval", "score")
    assert ran.returncode == 0, ran.stderr
    assert "token_f1" in ran.stdout
    assert "Not computed, since a chat model is needed: faithfulness, " in ran.stderr
    assert {row.name for row in study.rows("scores", Score)} == {"exact_match", "token_f1"}
    assert [run["measures"] for run in study.read_manifest()["score"]["runs"]] == [["exact_match", "token_f1"]]
    before = study.path("scores").read_bytes()
    assert kumi(study.folder.parent, "eval", "score", "--methods", "bm25", "--measures", "token_f1").returncode == 0
    assert sorted(study.path("scores").read_bytes().splitlines()) == sorted(before.splitlines())
    assert len(study.read_manifest()["score"]["runs"]) == 2
    ran = kumi(study.folder.parent, "eval", "score", "--measures", "faithfulness")
    assert (ran.returncode, "scorer needs a chat model" in ran.stderr) == (2, True)
    assert kumi(study.folder.parent, "eval", "score", "--measures", "recall").returncode == 2


def test_a_model_scores_and_is_asked_once(study: Study, server: FakeServer) -> None:
    told = {"KUMI_CHAT_MODEL": "fake", "KUMI_CHAT_BASE_URL": server.url}
    words = ("eval", "score", "--measures", "faithfulness,answer_correctness", "--methods", "naive", "--json")
    capped = kumi(study.folder.parent, *words, "--max-calls", "1", **told)
    assert capped.returncode == 1
    assert "4 of 4 scores could not be had" in capped.stderr
    assert json.loads(capped.stdout)["failed"] == 4
    ran = kumi(study.folder.parent, *words, **told)
    assert ran.returncode == 0, ran.stderr
    means_told = json.loads(ran.stdout)["means"]
    assert [(m["measure"], m["system"], m["n"], m["of"]) for m in means_told] == [
        ("faithfulness", "naive", 2, 2),
        ("answer_correctness", "naive", 2, 2),
    ]
    asked = server.counts()["requests"]
    first = study.path("scores").read_bytes()
    assert kumi(study.folder.parent, *words, **told).returncode == 0
    assert (server.counts()["requests"], study.path("scores").read_bytes()) == (asked, first)
    assert server.counts()["repeats"] == 0


def test_unreadable_replies_are_counted(study: Study, server: FakeServer) -> None:
    server.configure(replies=[("", "no JSON here")])
    told = {"KUMI_CHAT_MODEL": "fake", "KUMI_CHAT_BASE_URL": server.url}
    ran = kumi(study.folder.parent, "eval", "score", "--measures", "faithfulness,words", "--json", **told)
    assert ran.returncode == 1
    assert "4 of 12 scores could not be had, 4 of them since replies cannot be read" in ran.stderr
    assert json.loads(ran.stdout)["invalid"] == 4
    assert {row.status for row in study.rows("scores", Score) if row.name == "faithfulness"} == {"invalid"}


def test_equal_prompts_are_one_call(tmp_path: Path) -> None:
    chat = FakeChat(
        lambda prompt: (
            '{"statements": ["It sails."]}'
            if prompt.startswith("Question:")
            else '[{"number": 1, "reason": "", "holds": true}]'
        )
    )
    ask = CachedLLM(chat, ResponseCache(tmp_path / "cache.db"), Budget(Caps(calls=50)), "scorer")
    rows = list(score_cases([SAID, SAID], ["faithfulness", "claim_precision"], ask))
    assert len(rows) == 4
    assert max(chat.prompt_counts.values()) == 1
