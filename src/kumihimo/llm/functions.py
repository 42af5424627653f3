"""a function of this process -> ModelFunction: a chat model, an encoder or a reranker in place of a server."""

import json
import os
import sys
from base64 import b64encode
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import isawaitable
from math import isfinite, nan
from threading import Lock, Thread, current_thread
from typing import TYPE_CHECKING, Any, TypeVar

from kumihimo.core.errors import KumiError, RequestRefused, SettingsError
from kumihimo.core.redaction import redact
from kumihimo.core.settings import SettingValues
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.llm.protocols import FUNCTION_PREFIX, FailedTry, Messages
from kumihimo.llm.response_body import get_count

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from httpx2 import Response

T = TypeVar("T")
_PARAMETERS: Mapping[str, str] = {"chat": "chat", "embedding": "embed", "reranking": "rerank"}  # of Kumihimo.open
_UNUSED_SETTINGS: Mapping[str, Mapping[str, object]] = {  # those that only a server gets
    "chat": {"temperature": None, "max_tokens": None, "reasoning_effort": None, "extra": ""},
    "embedding": {"dimensions": None},
    "reranking": {},
}
_MISTAKES = (AttributeError, ImportError, LookupError, NameError, TypeError)  # in code: another try makes them again
_REPORTED = (  # where LlamaIndex and LangChain report the tokens of prompt and reply
    ("additional_kwargs", "prompt_tokens", "completion_tokens"),
    ("usage_metadata", "input_tokens", "output_tokens"),
)
_LIMIT_REASONS = ("length", "max_tokens")  # why a reply ends
_loop_lock = Lock()


class _UselessResult(Exception):
    """A result of no use; its text says what it is."""


@dataclass(frozen=True, slots=True)
class ModelFunction:
    """A function with the routes of a model server.

    name: the value of the setting `model`. call: messages -> text, texts -> vectors, or question and texts -> scores.
    """

    name: str
    call: Callable[..., Any]

    def respond(self, route: str, body: Mapping[str, Any]) -> "Response":
        """Return the response to a request, as a server sends it.

        Raises FailedTry where the function raises an error, and RequestRefused where its code is wrong or its result
        is of no use.
        """
        import httpx2

        answer_request, expected = _ROUTES[route]
        try:
            answer = answer_request(self.call, body)
        except _UselessResult as error:
            raise RequestRefused(f"{self.name} returned {error}: it has to return {expected}") from error
        except (FailedTry, KumiError):
            raise
        except Exception as error:
            message = f"{self.name} raised {type(error).__name__}: {redact(str(error))[:300]}"
            raise RequestRefused(message) if isinstance(error, _MISTAKES) else FailedTry(message) from error
        return httpx2.Response(200, content=json.dumps(answer).encode())


def missing_function(kind: str, name: str) -> SettingsError:
    """Return the error for a function that this program lacks."""
    return SettingsError(
        f"the model {name} is a function, which this program does not have: pass it to Kumihimo.open as "
        f"`{_PARAMETERS[kind]}`, or set {kind}.model to another model"
    )


def name_functions(models: Mapping[str, Any], settings: SettingValues) -> dict[str, ModelFunction]:
    """Return the functions of these models, with their names.

    models: by kind; None: none. settings: their `model` names them; else they are named after themselves.
    """
    named: dict[str, ModelFunction] = {}
    for kind, model in models.items():
        if model is not None:
            call = _chat_call(model) if kind == "chat" else model
            if not callable(call):
                needed = f"{_PARAMETERS[kind]} is a function, not {type(model).__name__}: see docs/own-models.md"
                raise SettingsError(needed)
            name = str(settings.get(kind, {}).get("model") or "") or _own_name(model, kind)
            named[kind] = ModelFunction(FUNCTION_PREFIX + name.removeprefix(FUNCTION_PREFIX), call)
    return named


def function_layers(functions: Mapping[str, ModelFunction]) -> tuple[SettingValues, SettingValues]:
    """Return the layers of settings below and above all others."""
    above = {kind: {**_UNUSED_SETTINGS[kind], "model": function.name} for kind, function in functions.items()}
    return {kind: {"workers": 1} for kind in functions}, above


def _own_name(model: Any, kind: str) -> str:
    """Return the name of a model or function. Raise SettingsError."""
    owner = getattr(model, "__self__", model)  # of a method
    for attribute in ("model_name", "model", "name"):
        if isinstance(name := getattr(owner, attribute, None), str) and name:
            return name
    name = getattr(model, "__qualname__", "")
    if owner is not model or not name or "<lambda>" in name or not getattr(model, "__module__", ""):
        raise SettingsError(
            f"{_PARAMETERS[kind]} has no name, which the cache of its replies needs: pass "
            f'settings={{"{kind}": {{"model": "NAME"}}}} to Kumihimo.open'
        )
    return f"{model.__module__}.{name}"


def _chat_call(model: Any) -> Any:
    """Return the function that asks a chat model of any form."""
    for name in ("invoke", "ainvoke"):  # of LangChain: they take such messages
        if hasattr(model, name):
            return getattr(model, name)
    chat = getattr(model, "chat", None) or getattr(model, "achat", None)
    types = sys.modules.get("llama_index.core.base.llms.types")
    if not chat or not types:
        return model

    def ask(messages: Messages) -> Any:
        return chat([types.ChatMessage(**message) for message in messages])

    return ask


def _wait_for(value: Any) -> Any:
    """Return the value, or the result of a coroutine.

    Raises SettingsError in the thread of the loop, which would wait for itself.
    """
    if not isawaitable(value):
        return value
    import asyncio  # few questions need it

    with _loop_lock:
        loop, thread = _event_loop(os.getpid())
    if thread is current_thread():
        if isinstance(value, Coroutine):
            value.close()
        raise SettingsError(
            "an asynchronous function asks for another one and would wait for ever: call Kumihimo in it by "
            "`await asyncio.to_thread(...)`"
        )
    return asyncio.run_coroutine_threadsafe(_result_of(value), loop).result()


async def _result_of(value: Awaitable[T]) -> T:
    try:
        return await value
    except (KeyboardInterrupt, SystemExit) as error:  # which would end the loop
        raise RuntimeError(repr(error)) from error


@cache
def _event_loop(_process: int) -> tuple["AbstractEventLoop", Thread]:
    """Return the event loop of all functions, and its thread.

    Clients of a model keep connections that belong to one loop. A forked process needs its own: it has no such thread.
    """
    from asyncio import new_event_loop

    loop = new_event_loop()
    thread = Thread(target=loop.run_forever, name="kumihimo-functions", daemon=True)
    thread.start()
    return loop, thread


# -- the routes of a server


def _complete(call: Callable[..., Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a completion."""
    reply = _wait_for(call([{**message} for message in body["messages"]]))
    message = getattr(reply, "message", reply)  # of LlamaIndex
    content = message if isinstance(message, str) else getattr(message, "content", None)
    if isinstance(content, list):  # of LangChain: texts, and blocks, some of them reasoning
        content = "".join(part if isinstance(part, str) else str(part.get("text") or "") for part in content)
    if not isinstance(content, str):
        raise _UselessResult(type(reply).__name__)
    count = LocalTokenizer()
    counted = sum(len(count(message["content"])) for message in body["messages"]), len(count(content))
    for place, *names in _REPORTED:
        reported = getattr(reply, place, None)
        counted = get_count(reported, names[0], guess=counted[0]), get_count(reported, names[1], guess=counted[1])
    usage = dict(zip(("prompt_tokens", "completion_tokens"), counted, strict=True))
    details = getattr(reply, "response_metadata", None) or {}
    reasons = [str(details.get(name)).lower() for name in ("finish_reason", "stop_reason", "done_reason")]
    finish_reason = "length" if any(reason in _LIMIT_REASONS for reason in reasons) else "stop"
    choice = {"index": 0, "message": {"content": content}, "finish_reason": finish_reason}
    return {"choices": [choice], "usage": usage}


def _embed(call: Callable[..., Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the vectors of texts."""
    import numpy as np

    texts = body["input"]
    values = _values(call([*texts]), texts)  # a copy, since a function may use its list up
    try:
        with np.errstate(over="ignore"):  # too large a number becomes infinite
            vectors = np.stack([np.asarray(value, dtype="<f4") for value in values])
    except (TypeError, ValueError) as error:
        raise _UselessResult("vectors of different lengths, or values that are not numbers") from error
    if vectors.ndim != 2 or not (np.isfinite(vectors).all() and vectors.any(axis=1).all()):
        raise _UselessResult("a vector of zeros, or values that are not numbers")
    data = [{"index": n, "embedding": b64encode(vector.tobytes()).decode()} for n, vector in enumerate(vectors)]
    return {"data": data, "usage": _count_tokens(texts)}


def _rerank(call: Callable[..., Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores of texts for a question."""
    texts = body["documents"]
    values = _values(call(body["query"], [*texts]), texts)
    try:
        scores = [float(value) for value in values]
    except (TypeError, ValueError):
        scores = [nan]
    if not all(map(isfinite, scores)):
        raise _UselessResult("values that are not numbers")
    results = [{"index": n, "relevance_score": score} for n, score in enumerate(scores)]
    return {"results": results, "usage": _count_tokens([body["query"], *texts])}


def _values(result: Any, texts: list[str]) -> list[Any]:
    """Return the values of a result, one for each text. Raise _UselessResult."""
    result = _wait_for(result)
    if isinstance(result, str | bytes) or not isinstance(result, Iterable):
        raise _UselessResult(type(result).__name__)
    values = list(result)
    if len(values) != len(texts):
        raise _UselessResult(f"{len(values):,} values for {len(texts):,} texts")
    return values


def _count_tokens(texts: list[str]) -> dict[str, int]:
    """Return the tokens of texts as the usage of a server."""
    count = LocalTokenizer()
    tokens = sum(len(count(text)) for text in texts)
    return {"prompt_tokens": tokens, "total_tokens": tokens}


_ROUTES = {  # and what a function has to return
    "/chat/completions": (_complete, "a text, or a message of LangChain or LlamaIndex"),
    "/embeddings": (_embed, "a vector for each text"),
    "/rerank": (_rerank, "a number for each text"),
}
