"""a request -> the reply recorded for it, or an error with a remedy."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.llm.cached_llm import create_llm
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.llm.protocols import ChatRequest
from kumihimo.llm.recorded import RecordedChat, describe_request, read_recordings, request_digest
from kumihimo.llm.registry import ModelRegistry
from kumihimo.storage.response_cache import ResponseCache

REPLY = "The ferry leaves at nine. 船は九時に出る。\nIt waits for nobody [1]."


def request(text: str, sample: int = 0) -> ChatRequest:
    return ChatRequest([{"role": "user", "content": text}], sample=sample)


def recorded(folder: Path, *pairs: tuple[ChatRequest, str]) -> RecordedChat:
    rows = [json.dumps({"key": request_digest(asked), "reply": reply}) for asked, reply in pairs]
    folder.mkdir(exist_ok=True)
    (folder / "answer.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return RecordedChat(folder)


def test_a_request_gets_its_reply_and_counted_tokens(tmp_path: Path) -> None:
    reply = recorded(tmp_path, (request("When?"), REPLY))(request("When?"))
    assert reply.raw == REPLY
    count = LocalTokenizer()
    assert (reply.usage.calls, reply.usage.cost) == (1, 0)
    assert reply.usage.prompt_tokens == len(count("When?"))
    assert reply.usage.completion_tokens == len(count(REPLY))


def test_a_reply_arrives_token_by_token(tmp_path: Path) -> None:
    tokens: list[str] = []
    asked = ChatRequest([{"role": "user", "content": "When?"}], on_token=tokens.append)
    recorded(tmp_path, (request("When?"), REPLY))(asked)
    assert "".join(tokens) == REPLY
    assert len(tokens) > 10


@pytest.mark.parametrize("other", [request("When? "), request("When?", sample=1)])
def test_another_request_fails_with_a_remedy(other: ChatRequest, tmp_path: Path) -> None:
    with pytest.raises(ItemFailed, match=r"commands\.txt lists what is recorded; .* connect a model"):
        recorded(tmp_path, (request("When?"), REPLY))(other)


def test_the_digest_depends_on_messages_schema_and_sample_alone() -> None:
    asked = ChatRequest([{"role": "user", "content": "When?"}])
    same = ChatRequest([{"content": "When?", "role": "user"}], parameters={"max_tokens": 5}, attempt=1, followups=2)
    assert request_digest(asked) == request_digest(same)
    others = [ChatRequest([{"role": "system", "content": "When?"}]), ChatRequest(asked.messages, {"type": "object"})]
    assert request_digest(asked) not in map(request_digest, others)


@pytest.mark.parametrize(
    ("turns", "head"),
    [
        (["Say  hello."], "Say hello."),
        (["Read:\n<text>\nIt rains.\n</text>"], "It rains."),
        (["<title>\nA\n</title>\n<source 1, p. 2>\nB\nC\n</source 1>"], "A | B C"),
        (["Read:\n<text>\nIt rains.\n</text>", "Write what is missing."], "(turn 2) It rains."),
        (["x" * 300], "x" * 200),
    ],
)
def test_the_head_is_the_material(turns: Sequence[str], head: str) -> None:
    assert describe_request(ChatRequest([{"role": "user", "content": turn} for turn in turns])) == head


def test_a_line_separator_within_a_reply_is_no_end_of_line(tmp_path: Path) -> None:
    path = tmp_path / "answer.jsonl"
    path.write_text(json.dumps({"key": "k", "reply": "a\u2028b"}, ensure_ascii=False), encoding="utf-8")
    assert [row.reply for row in read_recordings(path)] == ["a\u2028b"]


@pytest.mark.parametrize("line", ["{", "[]", '{"key": "k"}', "1", "[" * 100_000])
def test_a_damaged_line_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "answer.jsonl"
    path.write_text('{"key": "k", "reply": "r"}\n' + line, encoding="utf-8")
    with pytest.raises(SettingsError, match=r"answer\.jsonl, line 2 is no recorded reply"):
        read_recordings(path)


def test_a_folder_without_replies_is_an_error_and_a_pipe_is_not_read(tmp_path: Path) -> None:
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(SettingsError, match="there are no recorded replies in"):
        RecordedChat(tmp_path)(request("When?"))


def test_the_fingerprint_does_not_depend_on_the_place(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place / "replies").mkdir(parents=True)
    names = {RecordedChat(tmp_path / place / "replies").fingerprint for place in ("a", "b")}
    assert names == {"recorded:replies"}


def test_a_changed_reply_is_not_taken_from_the_response_cache(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    for reply in ("At nine.", "At ten."):
        chat = recorded(tmp_path / "replies", (request("When?"), reply))
        assert create_llm(chat, cache)("When?") == reply
    cache.close()


def test_the_settings_choose_it_relative_to_the_index(tmp_path: Path) -> None:
    recorded(tmp_path / "replies", (request("When?"), REPLY))
    chat = {"model": "recorded:replies", "workers": 3, "temperature": 0.0, "prompt_price": 7.0}
    registry = ModelRegistry({"chat": chat, "answer": {}}, lambda: None, tmp_path)  # type: ignore[arg-type, return-value]
    model = registry.chat("answer")
    assert isinstance(model, RecordedChat)
    assert model(request("When?")).raw == REPLY
    assert (model.workers, model.prices.cost(10**6, 0, 10**6), model.server) == (3, 0, None)
