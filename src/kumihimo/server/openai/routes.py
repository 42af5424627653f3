"""requests to /v1 -> models, chat completions, responses and embeddings."""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from kumihimo.app.ask.query import Query
from kumihimo.app.build.prepare_build import usable_methods
from kumihimo.core import digests, errors, spans
from kumihimo.core.answer import Answer
from kumihimo.server.access import Access, find_access
from kumihimo.server.openai import formats, replies, requests
from kumihimo.server.problems import BadParameter, ModelNotFound, NotFound
from kumihimo.server.responses import event_response, json_response

router = APIRouter(prefix="/v1", tags=["OpenAI"])
FIRST_INDEX = "kumi"  # the name of the first index that the caller may use


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """An index, and a method of it; an empty method is the default."""

    access: Access
    method: str


def choose_model(request: Request, name: str) -> ChosenModel:
    """Return the index and the method of a model, `kumi/bm25` or `NAME/bm25`.

    Raises ModelNotFound if they do not exist.
    """
    index, _, method = name.partition("/")
    is_first = index == FIRST_INDEX and index not in request.state.caller.grants
    try:
        access = find_access(request, "" if is_first else index)
    except NotFound:
        raise ModelNotFound(f"no model {name!r}: GET /v1/models lists the names") from None
    if method and method not in access.served.kumi.catalogue.methods:
        raise ModelNotFound(f"no model {name!r}: GET /v1/models lists the names")
    return ChosenModel(access, method)


def passage_link(request: Request, access: Access) -> Callable[[spans.Span], str]:
    """Return a function: a passage -> the address that marks it."""
    is_first = [*request.state.caller.grants][:1] == [access.served.name]
    part = "" if is_first else f"indexes/{quote(access.served.name, safe='')}/"
    base = f"{request.base_url}{part}documents/"
    return lambda span: f"{base}{digests.hash_parts(span.uri)}?start={span.start}&end={span.end}#passage"


def model_names(methods: Mapping[str, list[str]]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the index and the method of each model.

    methods: those that work, of each index; without one the index is left out.

    >>> [name for name, *_ in model_names({"notes": ["bm25"], "reports": []})]
    ['kumi', 'kumi/bm25', 'notes', 'notes/bm25']
    """
    first = "" if FIRST_INDEX in methods else next(iter(methods), "")
    for prefix, index in [*([(FIRST_INDEX, first)] if first else []), *((name, name) for name in methods)]:
        if methods[index]:
            yield prefix, index, ""
            yield from ((f"{prefix}/{method}", index, method) for method in methods[index])


@router.get("/models")
async def list_models(request: Request) -> dict[str, Any]:
    """List the models: an index, with a method that works there."""
    return {"object": "list", "data": await _models(request)}


@router.get("/models/{name:path}")
async def show_model(request: Request, name: str) -> dict[str, Any]:
    """Show one model."""
    found = next((model for model in await _models(request) if model["id"] == name), None)
    if found is None:
        raise ModelNotFound(f"no model {name!r}: GET /v1/models lists the names")
    return found


async def _models(request: Request) -> list[dict[str, Any]]:
    methods: dict[str, list[str]] = {}
    accesses = {name: find_access(request, name) for name in request.state.caller.grants}
    for name, access in accesses.items():
        try:
            methods[name] = await access.questions.run(lambda kumi: usable_methods(kumi.opened))
        except errors.IndexUnavailable:  # it has not been built
            methods[name] = []
    models = []
    for id, name, method in model_names(methods):
        kumi = accesses[name].served.kumi
        created = int(kumi.folder.stat().st_mtime) if kumi.folder.exists() else 0  # it may be elsewhere
        best_for = kumi.catalogue.methods[method].declaration.best_for if method else ""
        description = f"For {best_for}." if method else "The default method."
        fields = {"created": created, "owned_by": "kumihimo", "description": description}
        models.append({"id": id, "object": "model", **fields})
    return models


@router.post("/chat/completions", openapi_extra=requests.CHAT_BODY, response_model=None)
async def complete_chat(request: Request) -> Response:
    """Answer the last question of a conversation, with citations."""
    body = await run_in_threadpool(requests.parse_chat, await request.body())
    return await _reply(request, body, partial(formats.ChatFormat, with_usage=body.with_usage))


@router.post("/responses", openapi_extra=requests.RESPONSE_BODY, response_model=None)
async def create_response(request: Request) -> Response:
    """Answer the last question of a conversation, in the newer form."""
    body = await run_in_threadpool(requests.parse_response, await request.body())
    return await _reply(request, body, formats.ResponseFormat)


async def _reply(
    request: Request, body: requests.ChatRequest, make: Callable[[str, replies.Link], formats.ReplyFormat]
) -> Response:
    """Return the answer to a request, in the form that is made."""
    chosen = choose_model(request, body.model)
    reply = make(body.model, passage_link(request, chosen.access))
    question, history = await run_in_threadpool(requests.split_conversation, body.messages)
    query, questions = _query(chosen, body, question, history), chosen.access.questions
    if not body.stream:
        answer = await questions.answer(query)
        return await json_response(lambda: reply.whole(answer))
    events = await replies.await_first(questions.answer_events(query))
    return event_response(formats.stream_reply(reply, events))


def _query(chosen: ChosenModel, body: requests.ChatRequest, question: str, history: list[Answer]) -> Query:
    """Return the query of a request. Raise BadParameter for an unknown setting."""
    more, methods = body.kumihimo, chosen.access.served.kumi.catalogue.methods
    known = {name for method in methods.values() for name in method.settings}
    if unknown := sorted(more.settings.keys() - known):
        raise BadParameter(f"no method has a setting {unknown[0]!r}: see docs/methods.md", "kumihimo.settings")
    options = {"filter": more.filter, "length": more.length, "settings": more.settings, "history": history}
    max_tokens = body.max_completion_tokens or body.max_tokens or None
    return chosen.access.query(question, chosen.method, max_tokens=max_tokens, **options)


@router.post("/embeddings", openapi_extra=requests.EMBEDDINGS_BODY, response_model=None)
async def create_embeddings(request: Request) -> Response:
    """Embed texts with the embedding model of an index."""
    body = await run_in_threadpool(requests.EmbeddingRequest.parse, await request.body())
    access = choose_model(request, body.model).access
    as_questions, budget = body.kumihimo.input_type == "query", access.grant.new_budget()
    vectors, usage = await access.questions.embed(body.texts, as_questions=as_questions, budget=budget)
    dimensions = vectors.shape[1]
    if body.dimensions not in (None, dimensions):
        raise BadParameter(f"vectors have {dimensions} dimensions here: leave dimensions out", "dimensions")
    counts = {"prompt_tokens": usage.prompt_tokens, "total_tokens": usage.tokens}

    def write_reply() -> dict[str, Any]:
        encoded = (_encode(vector, body.encoding_format) for vector in vectors)
        rows = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(encoded)]
        return {"object": "list", "model": body.model, "data": rows, "usage": counts}

    return await json_response(write_reply)


def _encode(vector: Any, encoding: str | None) -> str | list[float]:
    """Return a vector as numbers, or in base64: little-endian, 32 bits."""
    return b64encode(vector.astype("<f4").tobytes()).decode() if encoding == "base64" else vector.tolist()
