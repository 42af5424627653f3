"""prompts -> replies of a real server: streamed, structured, cut off, too long, slow."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import pytest

from kumihimo.core.errors import ItemFailed, RequestRefused, RequestTimedOut
from kumihimo.llm.budget import Account, Budget
from kumihimo.llm.cached_llm import connect_model
from kumihimo.llm.openai import OpenAIChat
from kumihimo.llm.protocols import ChatRequest, Reply
from tests.real_server.conftest import CONTEXT, NewLLM, is_idle

QUESTION = "When does the ferry leave?"
LONG = "The ferry leaves at nine. " * CONTEXT  # some six times the window


def whole(reply: Reply) -> Reply:
    """Accept any reply: the model is too small to end one."""
    return reply


def test_a_reply_is_streamed_and_its_tokens_are_counted(new_llm: NewLLM) -> None:
    llm, budget = new_llm()
    tokens: list[str] = []
    reply = llm(QUESTION, parse=whole, on_token=tokens.append)
    assert len([token for token in tokens if token]) > 1
    assert "".join(tokens) == reply.text
    assert (budget.total.calls, budget.total.completion_tokens) == (1, 16)
    assert len(QUESTION.split()) < budget.total.prompt_tokens < 100


def test_a_streamed_reply_and_a_whole_one_are_the_same(new_llm: NewLLM) -> None:
    streamed, _ = new_llm(max_tokens=8)
    whole_reply, budget = new_llm(max_tokens=8, extra='{"cache_prompt": true}')  # another key in the cache
    assert streamed(QUESTION, parse=whole, on_token=print).text == whole_reply(QUESTION, parse=whole).text
    assert budget.total.calls == 1


def test_a_reply_that_reaches_its_limit_says_so(new_llm: NewLLM) -> None:
    llm, budget = new_llm(max_tokens=4)
    assert llm(QUESTION, parse=whole).truncated
    with pytest.raises(ItemFailed, match=r"3 replies that cannot be read; the last: .*(cut off|length)"):
        llm("Where does the ferry leave?")
    assert budget.total.calls == 4


def test_a_stop_word_ends_a_reply(new_llm: NewLLM) -> None:
    llm, budget = new_llm(extra='{"stop": ["e"]}', max_tokens=200)
    reply = llm(QUESTION, parse=whole)
    assert (reply.finish_reason, "e" in reply.text) == ("stop", False)
    assert budget.total.completion_tokens < 200


@dataclass(frozen=True)
class Verdict:
    answer: Literal["yes", "no"]
    grade: Literal[1, 2, 3]


def test_a_schema_is_kept(new_llm: NewLLM) -> None:
    llm, budget = new_llm(max_tokens=200)
    assert isinstance(llm("Does it leave at nine?", schema=Verdict), Verdict)
    assert llm("Does it leave at ten?", schema=Literal["yes", "no"]) in ("yes", "no")
    assert budget.total.calls == 2


@pytest.mark.parametrize("structured", ["json", "text"])
def test_without_a_schema_a_reply_fits_or_is_listed(new_llm: NewLLM, structured: str) -> None:
    llm, budget = new_llm(max_tokens=24, structured=structured)
    failure = ""
    try:
        assert isinstance(llm("Does it leave at nine?", schema=Verdict), Verdict)
    except ItemFailed as error:
        failure = str(error)
    assert not failure or "gave 3 replies that cannot be read" in failure
    assert budget.total.calls == 3 or not failure


def test_a_schema_that_the_server_refuses_is_replaced_by_json_mode(llama: str) -> None:
    chat = OpenAIChat(model="gemma", base_url=llama, max_tokens=16)
    request = ChatRequest([{"role": "user", "content": QUESTION}], {"type": "nonsense"})
    send = connect_model(chat, chat.server, Budget(), Account("", "gemma", chat.prices))
    assert set(send(request).raw[:1]) <= set("{[ \n")  # nothing but JSON, with spaces before it
    assert chat.server.refused_parameters == {"json_schema"}


@pytest.mark.parametrize("streams", [False, True])
def test_a_prompt_longer_than_the_window_is_refused_once_with_a_remedy(new_llm: NewLLM, streams: bool) -> None:
    llm, budget = new_llm()
    message = rf"exceeds the available context size \({CONTEXT} tokens\).*lower budget under \[answer\]"
    with pytest.raises(RequestRefused, match=message):
        llm(LONG, parse=whole, on_token=print if streams else None)
    assert budget.total.calls == 0
    assert llm(QUESTION, parse=whole).text


def test_a_reply_that_fills_the_window_is_cut_off(new_llm: NewLLM) -> None:
    """Without a limit of its own."""
    llm, budget = new_llm(max_tokens=None)
    assert llm("The ferry leaves at nine. " * (CONTEXT // 8), parse=whole).truncated
    assert budget.total.prompt_tokens + budget.total.completion_tokens >= CONTEXT - 1


def test_more_requests_than_slots_wait_for_each_other(new_llm: NewLLM) -> None:
    llm, budget = new_llm(max_tokens=2, workers=4)
    prompts = [f"{QUESTION} {hour}" for hour in range(6)]
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda prompt: llm(prompt, parse=whole).finish_reason, prompts))
    assert (replies, budget.total.calls) == (["length"] * 6, 6)


@pytest.mark.parametrize(("streams", "timeout"), [(False, 3.0), (True, 0.02)])
def test_a_server_that_is_too_slow_is_given_up_and_not_kept_busy(
    new_llm: NewLLM, llama: str, streams: bool, timeout: float
) -> None:
    llm, _ = new_llm(timeout=timeout, max_tokens=None, patience=0.0)
    with pytest.raises(RequestTimedOut, match="set a longer `timeout`"):
        llm(QUESTION, parse=whole, on_token=print if streams else None)
    assert is_idle(llama)
