"""`braid` reranked by a model after the first hop -> the order, the calls, the prompt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.core.context import Context
from kumihimo.llm.rerank import listwise_scorer
from tests.factories_paid_steps import opened
from tests.fake_server import FakeServer
from tests.fixtures_index import fill
from tests.llm.test_prompts import GOLDEN, RENEW

NOTES = {
    "Kestrel.txt": "The old ferry Kestrel was built by Ada Holm.",
    "Ada Holm.txt": "Ada Holm learnt her trade in Oban.",
    "c.txt": "The ferry Kestrel is tarred in spring.",
    "d.txt": "The mill burnt.",
}
RULES = {"model": "rules"}
QUESTION = "Where did the builder of the ferry Kestrel learn her trade?"


def index(tmp_path: Path, server: FakeServer) -> Kumihimo:
    kumi = opened(tmp_path, server, mentions=RULES)
    kumi.index(fill(tmp_path / "notes", NOTES), methods=["braid"])
    return kumi


def test_reranking_takes_one_call_and_the_answer_another(tmp_path: Path, server: FakeServer) -> None:
    server.configure(replies=[("known already", json.dumps([{"number": 3, "score": 90}]))])
    with index(tmp_path, server) as kumi:
        first_hop = NOTES["Kestrel.txt"]
        rest = [item.text for item in kumi.retrieve(QUESTION) if item.text != first_hop]
        assert server.counts()["chats"] == 0
        judged = [item.text for item in kumi.retrieve(QUESTION, reranker="model")]
        assert server.counts()["chats"] == 1
        assert judged == [first_hop, rest[2], *rest[:2]]  # the first hop is not judged
        answer = kumi.ask(QUESTION, reranker="model")
        assert (answer.method, server.counts()["chats"]) == ("braid", 2)  # the reranking is cached
        kumi.prune()
        assert kumi.ask(QUESTION, reranker="model").usage.calls == 2


def test_without_subjects_all_candidates_are_judged(tmp_path: Path, server: FakeServer) -> None:
    server.configure(replies=[(QUESTION, json.dumps([{"number": 4, "score": 90}]))])
    with opened(tmp_path, server, mentions=RULES) as kumi:
        numbered = {f"{n}.txt": text for n, text in enumerate(NOTES.values())}
        kumi.index(fill(tmp_path / "notes", numbered), methods=["braid"])
        plain = [item.text for item in kumi.retrieve(QUESTION)]
        judged = [item.text for item in kumi.retrieve(QUESTION, reranker="model")]
        assert judged == [plain[3], *plain[:3]]


def test_prompt_matches_golden_file(tmp_path: Path, server: FakeServer) -> None:
    prompts: list[str] = []

    def ask(messages: list[dict[str, str]], **_: object) -> list[object]:
        prompts.extend(f"# {message['role']}\n{message['content']}\n" for message in messages)
        return []

    def rank(question: str, context: Context, _: str) -> Context:
        listwise_scorer(ask)(question, [item.prompt_text for item in context])  # type: ignore[arg-type]
        return context

    with index(tmp_path, server) as kumi, kumi.snapshot() as reading, pytest.MonkeyPatch.context() as patch:
        ranking = type(
            "Ranks", (), {"check_available": lambda *_: None, "__call__": lambda _, *arguments: rank(*arguments)}
        )
        patch.setattr(type(reading.models), "candidate_reranker", lambda *_: ranking())
        reading.retrieve(QUESTION, reranker="model")
    path = GOLDEN / "braid_reranked.txt"
    if RENEW:
        path.write_text("\n".join(prompts), encoding="utf-8")
    assert "\n".join(prompts) == path.read_text(encoding="utf-8")
