"""functions as models -> tables, cache, budget and retries as of a server, and errors that name the function."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from subprocess import run
from threading import get_ident
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kumihimo import AsyncKumihimo, Kumihimo
from kumihimo.core.errors import (
    BudgetExceeded,
    ConsentRequired,
    IndexUnavailable,
    ItemFailed,
    ModelError,
    SettingsError,
)
from kumihimo.llm.budget import Caps
from kumihimo.llm.functions import ModelFunction
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.llm.protocols import FailedTry
from kumihimo.testing.fake_models import FakeEmbedder
from tests import fake_graph_reader
from tests.fake_server import FakeServer
from tests.fixtures_index import fill, tables

NOTES = {
    "harbour.txt": "Ada Orrell mended the breakwater. Ben Fenwick paid Ada for the stone.",
    "ferry.txt": "Ben Fenwick steers the ferry. It leaves at nine, says Cleo Marsh.",
    "seeds.txt": "Cleo Marsh lends oat seed to Ada Orrell each spring.",
}
QUESTION = "When does the ferry leave?"
ANSWER = "It leaves at nine [1]."
Messages = Sequence[dict[str, str]]


def read_graph(messages: Messages) -> str:
    return fake_graph_reader.answer("\n\n".join(message["content"] for message in messages))


def answer(_: Messages) -> str:
    return ANSWER


async def answer_later(messages: Messages) -> str:
    await asyncio.sleep(0)
    return answer(messages)


class ChainOfMessages:
    """A model as LangChain has it."""

    model_name = "chain"

    def invoke(self, messages: Messages) -> object:
        text = [{"type": "reasoning", "reasoning": "Nine?"}, {"type": "text", "text": answer(messages)}]
        return SimpleNamespace(content=text, usage_metadata={"input_tokens": 11, "output_tokens": 7})


class LaterChain:
    """The same, with its asynchronous call alone."""

    model = "later"

    async def ainvoke(self, messages: Messages) -> object:
        return ChainOfMessages().invoke(messages)


def embed(texts: Sequence[str]) -> Any:
    return FakeEmbedder()(texts)


def embed_one_by_one(texts: Sequence[str]) -> Iterator[list[float]]:
    yield from (embed([text])[0].tolist() for text in texts)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return fill(tmp_path / "notes", NOTES)


Open = Callable[..., Kumihimo]


@pytest.fixture
def indexed(tmp_path: Path, notes: Path) -> Iterator[Open]:
    """Open the index of the notes with these models, and build it."""
    opened: list[Kumihimo] = []

    def index(methods: Sequence[str] = (), consent: bool = True, **models: Any) -> Kumihimo:
        kumi = Kumihimo.open(tmp_path / ".kumi", **models)
        opened.append(kumi)
        kumi.index(notes, methods=methods, consent=consent)
        return kumi

    yield index
    for kumi in opened:
        kumi.close()


# -- as a server


def test_a_function_and_a_server_of_the_same_replies_build_the_same_tables(
    tmp_path: Path, notes: Path, server: FakeServer
) -> None:
    server.configure(reads_graph=True)
    methods = ["global", "naive"]
    served = {"chat": {"model": "m", "base_url": server.url}, "embedding": {"model": "e", "base_url": server.url}}
    with (
        Kumihimo.open(tmp_path / "served", settings=served) as over_http,
        Kumihimo.open(tmp_path / "own", chat=read_graph, embed=embed) as inside,
    ):
        for kumi in (over_http, inside):
            assert kumi.index(notes, methods=methods, consent=True).failed == ()
        assert tables(inside) == tables(over_http)
        assert len(tables(inside)["reports"]) > 0
        for method in methods:
            answers = [kumi.ask("Who pays Ada?", method) for kumi in (over_http, inside)]
            assert answers[0].text == answers[1].text
        entries = [
            {(e.scope, e.usage.calls) for e in kumi.spent() if e.kind == "spent"} for kumi in (over_http, inside)
        ]
        assert entries[0] == entries[1]


@pytest.mark.parametrize(
    "chat", [answer, answer_later, ChainOfMessages(), LaterChain()], ids=["function", "coroutine", "chain", "later"]
)
def test_a_model_of_any_form_answers_and_is_asked_once(chat: Any, indexed: Open) -> None:
    kumi = indexed(chat=chat)
    tokens: list[str] = []
    first = kumi.ask(QUESTION, on_token=tokens.append)
    assert (first.text, tokens) == (ANSWER, [ANSWER])  # a function writes its reply in one piece
    assert first.usage.calls == 1
    assert kumi.ask(QUESTION).usage.calls == 0
    counted = (len(LocalTokenizer()(ANSWER)), first.usage.prompt_tokens > 100)
    reported = (7, False)
    is_chain = isinstance(chat, ChainOfMessages | LaterChain)
    assert (first.usage.completion_tokens, first.usage.prompt_tokens > 100) == (reported if is_chain else counted)


def test_a_model_of_llama_index_gets_its_own_messages(monkeypatch: pytest.MonkeyPatch, indexed: Open) -> None:
    types = SimpleNamespace(ChatMessage=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "llama_index.core.base.llms.types", types)
    asked: list[Any] = []

    class Chat:
        model = "llama"

        def chat(self, messages: Sequence[Any]) -> object:
            asked.extend(messages)
            reply = SimpleNamespace(content=ANSWER)
            return SimpleNamespace(message=reply, additional_kwargs={"prompt_tokens": 3, "completion_tokens": 2})

    reply = indexed(chat=Chat()).ask(QUESTION)
    assert reply.text == ANSWER
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (3, 2)
    assert [message.role for message in asked][-1] == "user"


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({"finish_reason": "length"}, "length"),
        ({"stop_reason": "max_tokens"}, "length"),
        ({"done_reason": "stop"}, "stop"),
        (None, "stop"),
    ],
)
def test_a_reply_that_was_cut_off_is_recognised(details: Any, reason: str) -> None:
    call = returns(SimpleNamespace(content="It leaves", response_metadata=details))
    response = ModelFunction("function:mine", call).respond("/chat/completions", {"messages": []})
    assert response.json()["choices"][0]["finish_reason"] == reason


def test_a_budget_limits_the_calls(indexed: Open) -> None:
    kumi = indexed(chat=answer)
    with pytest.raises(BudgetExceeded):
        kumi.ask(QUESTION, caps=Caps(calls=0))


def test_an_error_is_no_end_of_a_question(indexed: Open) -> None:
    replies: list[str] = []

    def answer_at_last(messages: Messages) -> str:
        replies.append("")
        if len(replies) == 1:
            raise ConnectionError("the line is bad")
        return answer(messages)

    assert indexed(chat=answer_at_last).ask(QUESTION).text == ANSWER
    assert len(replies) == 2


def test_a_function_is_called_in_one_thread_at_a_time_unless_set(indexed: Open) -> None:
    running, most = [], []

    def count(texts: Sequence[str]) -> Any:
        running.append(get_ident())
        most.append(len(running))
        vectors = embed(texts)
        running.remove(get_ident())
        return vectors

    kumi = indexed(["naive"], embed=count, settings={"embedding": {"batch": 1}})
    assert most == [1] * len(NOTES)
    assert kumi.models.paid_embedder
    assert kumi.models.paid_embedder.workers == 1


def test_coroutines_share_one_loop_and_run_together(indexed: Open) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def embed_together(texts: Sequence[str]) -> Any:
        loops.append(asyncio.get_running_loop())
        while len(loops) < len(NOTES):
            await asyncio.sleep(0)
        return embed(texts)

    together = {"embedding": {"batch": 1, "workers": len(NOTES)}}
    assert indexed(["naive"], embed=embed_together, settings=together).status().failed == ()
    assert loops == [loops[0]] * len(NOTES)


def test_async_questions_are_answered_in_this_process(tmp_path: Path, notes: Path) -> None:
    threads: list[int] = []

    def remember(messages: Messages) -> str:
        threads.append(get_ident())
        return answer(messages)

    async def ask() -> str:
        async with AsyncKumihimo.open(tmp_path / ".kumi", workers=2, chat=remember) as kumi:
            await kumi.index(notes)
            return (await kumi.ask(QUESTION)).text

    assert asyncio.run(ask()) == ANSWER
    assert len(threads) == 1


# -- vectors and scores


@pytest.mark.parametrize("encode", [embed, embed_one_by_one])
def test_vectors_come_as_arrays_or_one_by_one(encode: Any, indexed: Open) -> None:
    kumi = indexed(["naive"], embed=encode)
    assert kumi.retrieve(NOTES["ferry.txt"], "naive", words=False).evidence[0].text == NOTES["ferry.txt"]
    assert kumi.status().models["embedder"] == f"function:{__name__}.{encode.__name__}"


def test_another_encoder_is_noticed(indexed: Open, notes: Path) -> None:
    indexed(["naive"], embed=embed)
    with pytest.raises(
        ConsentRequired, match=r"embedded by function:tests\.\S+\.embed, and would be by function:small"
    ):
        indexed(["naive"], consent=False, embed=embed, settings={"embedding": {"model": "small"}})
    with (
        Kumihimo.open(notes.parent / ".kumi") as without,
        pytest.raises(
            IndexUnavailable, match=r"function:tests\.\S+\.embed: pass this function as `embed` to Kumihimo.open"
        ),
    ):
        without.retrieve("Who?", "naive")
    (notes / "new.txt").write_text("A new note of the harbour.", "utf-8")
    with pytest.raises(ModelError, match="64 dimensions now, and gave others before"):
        indexed(["naive"], embed=FakeEmbedder(64), settings={"embedding": {"model": f"{__name__}.embed"}})


def test_a_reranker_orders_the_evidence(indexed: Open) -> None:
    def prefer_seeds(_: str, texts: Sequence[str]) -> list[np.float32]:
        return [np.float32("seed" in text) for text in texts]

    kumi = indexed(["naive"], rerank=prefer_seeds)
    found = kumi.retrieve("Who steers the ferry?", "naive", reranker="endpoint")
    assert "oat seed" in found.evidence[0].text
    assert found.evidence[0].score == 2


# -- what goes wrong


def returns(value: Any) -> Callable[..., Any]:
    return lambda *_: value


def raises(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("chat", "message"),
    [
        (returns(None), "returned NoneType: it has to return a text"),
        (returns(b"At nine"), "returned bytes: it has to return a text"),
        (raises(TypeError("no such argument")), "raised TypeError: no such argument"),
        (raises(OSError("the socket is closed")), "raised OSError: the socket is closed"),
        (raises(OSError("Bearer sk-proj-abcdefghijklmnopqrstuvwx0123")), r"raised OSError: Bearer \[hidden\]$"),
        (lambda: ANSWER, "raised TypeError: .* takes 0 positional arguments"),
    ],
)
def test_a_useless_reply_names_the_function(chat: Any, message: str, indexed: Open) -> None:
    kumi = indexed(chat=chat, settings={"chat": {"model": "mine", "retries": 0}})
    with pytest.raises(ItemFailed, match=f"^function:mine {message}"):
        kumi.ask(QUESTION)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (None, "returned NoneType: it has to return a vector for each text"),
        (b"12", "returned bytes: it has to return a vector for each text"),
        ([[1.0, 2.0]] * 7, "returned 7 values for 1 texts"),
        ([[1.0, float("nan")]], "returned a vector of zeros, or values that are not numbers"),
        ([[0.0, 0.0]], "returned a vector of zeros"),
        (["oat"], "returned vectors of different lengths, or values that are not numbers"),
        ([1.0], "returned a vector of zeros, or values that are not numbers"),
    ],
)
def test_useless_vectors_name_the_function_and_lose_nothing(vectors: Any, message: str, indexed: Open) -> None:
    def encode_some(texts: Sequence[str]) -> Any:
        if not any("oat seed" in text for text in texts):
            return embed(texts)
        return vectors if len(texts) == 1 else []

    own = {"embedding": {"model": "mine"}}
    kumi = indexed(["naive"], embed=encode_some, settings=own)
    ((step, _, reason),) = kumi.status().failed
    assert step == "vectors_chunks"
    assert reason.startswith(f"function:mine {message}")
    assert kumi.retrieve(NOTES["ferry.txt"], "naive", words=False).evidence[0].text == NOTES["ferry.txt"]
    assert indexed(["naive"], embed=embed, settings=own).status().failed == ()


def test_vectors_of_different_lengths_name_the_function(indexed: Open) -> None:
    with pytest.raises(ModelError, match=r"^function:mine gives vectors of \d+ dimensions now"):
        indexed(
            ["naive"], embed=lambda texts: [[1.0] * len(t) for t in texts], settings={"embedding": {"model": "mine"}}
        )


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([1.0], r"returned 1 values for \d texts: it has to return a number for each"),
        (None, "returned NoneType"),
        (["a"] * 3, "returned values that are not numbers"),
    ],
)
def test_useless_scores_name_the_function(scores: Any, message: str, indexed: Open) -> None:
    kumi = indexed(["naive"], rerank=returns(scores), settings={"reranking": {"model": "mine"}})
    with pytest.raises(ItemFailed, match=f"^function:mine {message}"):
        kumi.retrieve("Who lends seed?", "naive", reranker="endpoint", k=3)


def test_a_function_may_change_what_it_gets(indexed: Open) -> None:
    def use_up(texts: list[str]) -> Iterator[list[float]]:
        while texts:
            yield from embed([texts.pop(0)]).tolist()

    def add_a_message(messages: list[dict[str, str]]) -> str:
        messages[0]["content"] = ""
        messages.clear()
        return ANSWER

    own = {"embedding": {"model": "mine"}, "chat": {"model": "mine"}}
    kumi = indexed(["naive"], embed=use_up, chat=add_a_message, settings=own)
    assert kumi.status().failed == ()
    assert kumi.retrieve(NOTES["ferry.txt"], "naive", words=False).evidence[0].text == NOTES["ferry.txt"]
    assert kumi.ask(QUESTION).usage.prompt_tokens > 100


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_coroutine_cannot_end_the_loop(error: BaseException) -> None:
    async def end(_: Messages) -> str:
        raise error

    with pytest.raises(FailedTry, match=type(error).__name__):
        ModelFunction("function:mine", end).respond("/chat/completions", {"messages": []})
    reply = ModelFunction("function:mine", answer_later).respond("/chat/completions", {"messages": []})
    assert reply.json()["choices"][0]["message"]["content"] == ANSWER


def test_a_coroutine_that_asks_for_another_one_is_refused(indexed: Open) -> None:
    async def embed_later(texts: Sequence[str]) -> Any:
        return embed(texts)

    async def search_and_answer(_: Messages) -> str:
        return kumi.retrieve("Who lends seed?", "naive", words=False).evidence[0].text

    async def search_in_a_thread(_: Messages) -> str:
        found = await asyncio.to_thread(kumi.retrieve, NOTES["seeds.txt"], "naive", words=False)
        return found.evidence[0].text

    own = {"embedding": {"model": "mine"}, "chat": {"model": "mine"}}
    kumi = indexed(["naive"], embed=embed_later, chat=search_and_answer, settings=own)
    with pytest.raises(SettingsError, match=r"would wait for ever: .*`await asyncio\.to_thread"):
        kumi.ask(QUESTION)
    kumi = indexed(embed=embed_later, chat=search_in_a_thread, settings=own)
    assert kumi.ask(QUESTION).text.startswith(NOTES["seeds.txt"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_coroutines_run_in_a_forked_process() -> None:
    code = """if True:
        import os, signal
        from kumihimo.llm.functions import ModelFunction
        async def answer(_):
            return "nine"
        ask = lambda: ModelFunction("function:mine", answer).respond("/chat/completions", {"messages": []})
        ask()
        if os.fork() == 0:
            signal.alarm(60)
            os._exit(ask().status_code == 200)
        print(os.wait()[1])
    """
    ran = run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{1 << 8}\n"  # the exit status 1


def test_a_function_of_no_use_stops_the_build(indexed: Open, notes: Path) -> None:
    fill(notes, {f"{n}.txt": f"Note {n} of the harbour." for n in range(8)})
    with pytest.raises(ModelError, match=r"^function:mine returned NoneType: it has to return a vector for each text"):
        indexed(["naive"], embed=returns(None), settings={"embedding": {"model": "mine"}})


def test_a_function_has_no_batches(indexed: Open, notes: Path) -> None:
    kumi = indexed(chat=read_graph)
    with pytest.raises(SettingsError, match=r"^function:\S+\.read_graph has no Batch API"):
        kumi.index(notes, methods=["global"], batch=True, consent=True)


# -- names


@pytest.mark.parametrize("chat", [lambda _: ANSWER, partial(answer), FakeEmbedder().__call__, str.upper])
def test_a_function_without_a_name_needs_one(chat: Any, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r'chat has no name, .* settings={"chat": {"model": "NAME"}}'):
        Kumihimo.open(tmp_path, chat=chat)
    with Kumihimo.open(tmp_path, chat=chat, settings={"chat": {"model": "mine"}}) as kumi:
        model = kumi.models.chat("answer")
        assert model
        assert model.fingerprint == "function:mine"


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="chat is a function, not str"):
        Kumihimo.open(tmp_path, chat="gpt-4.1-mini")


def test_a_method_has_the_name_of_the_model_that_it_belongs_to(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path, chat=ChainOfMessages().invoke) as kumi:
        model = kumi.models.chat("answer")
        assert model
        assert model.fingerprint == "function:chain"


def test_the_name_of_a_function_alone_is_no_model(tmp_path: Path) -> None:
    with (
        Kumihimo.open(tmp_path, settings={"chat": {"model": "function:mine"}}) as kumi,
        pytest.raises(SettingsError, match=r"function:mine is a function, .* pass it to Kumihimo\.open as `chat`"),
    ):
        kumi.models.chat("answer")


def test_a_function_takes_the_place_of_the_server_in_a_file(tmp_path: Path) -> None:
    text = '[chat]\nmodel = "m"\ntemperature = 0.5\nworkers = 3\n[embedding]\nmodel = "e"\ndimensions = 8\n'
    (tmp_path / "kumi.toml").write_text(text, "utf-8")
    with Kumihimo.open(tmp_path / ".kumi", chat=answer, embed=embed) as kumi:
        model, encoder = kumi.models.chat("answer"), kumi.models.paid_embedder
        assert model
        assert encoder
        assert (model.fingerprint, model.workers) == (f"function:{__name__}.answer", 3)
        assert (encoder.fingerprint, encoder.workers) == (f"function:{__name__}.embed", 1)


def test_a_step_may_use_a_server_beside_the_function(tmp_path: Path, server: FakeServer) -> None:
    own = {"answer": {"model": "m", "base_url": server.url}}
    with Kumihimo.open(tmp_path, chat=answer, settings=own) as kumi:
        models = [kumi.models.chat(scope) for scope in ("answer", "reports")]
        assert [model.fingerprint for model in models if model] == ["m", f"function:{__name__}.answer"]
