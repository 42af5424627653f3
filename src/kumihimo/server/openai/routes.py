"""requests to /v1 -> models, chat completions and embeddings."""

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from kumihimo.app.build.prepare_build import usable_methods
from kumihimo.app.upkeep.embedding import embed_texts
from kumihimo.core.catalogue import Catalogue
from kumihimo.core.errors import IndexUnavailable
from kumihimo.server.access import find_access
from kumihimo.server.disconnect import cancel_on_disconnect
from kumihimo.server.events import encode_events
from kumihimo.server.openai.chat_request import ADAPTER as CHAT
from kumihimo.server.openai.chat_request import ChatRequest, parse_chat_request, split_conversation
from kumihimo.server.openai.embeddings import ADAPTER as EMBEDDINGS
from kumihimo.server.openai.embeddings import embedding_reply, parse_embedding_request
from kumihimo.server.openai.errors import BadParameter, ModelNotFound
from kumihimo.server.openai.model_names import ChosenModel, choose_model, index_names, model_names
from kumihimo.server.openai.replies import ReplyHead, completion
from kumihimo.server.openai.request_body import body_schema
from kumihimo.server.openai.stream import first_events, stream_chunks
from kumihimo.server.passage_links import passage_link

router = APIRouter(prefix="/v1", tags=["OpenAI"])


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
    served = {name: find_access(request, name).served for name in index_names(request)}
    for name, index in served.items():
        try:
            methods[name] = await index.questions.run(usable_methods)
        except IndexUnavailable:  # it has not been built
            methods[name] = []
    return [
        {
            "id": id,
            "object": "model",
            "created": _created(served[index].kumi.folder),
            "owned_by": "kumihimo",
            "description": _description(served[index].kumi.catalogue, method),
        }
        for id, index, method in model_names(methods)
    ]


def _created(folder: Path) -> int:
    """Return the time of an index folder, 0 without one here."""
    return int(folder.stat().st_mtime) if folder.exists() else 0


def _description(catalogue: Catalogue, method: str) -> str:
    return f"For {catalogue.methods[method].declaration.best_for}." if method else "The default method."


@router.post("/chat/completions", openapi_extra=body_schema(CHAT), response_model=None)
async def complete_chat(request: Request) -> Response:
    """Answer the last question of a conversation, with citations."""
    body = parse_chat_request(await request.body())
    chosen = choose_model(request, body.model)
    head, link = ReplyHead(body.model), passage_link(request, chosen.access)
    question, options = _question_options(chosen, body)
    questions = chosen.asked.questions
    if not body.stream:
        answer = await cancel_on_disconnect(request, questions.ask(question, chosen.method, **options))
        return JSONResponse(completion(head, answer, link))
    events = questions.events(question, chosen.method, **options)
    received = await cancel_on_disconnect(request, first_events(events))
    chunks = stream_chunks(head, received, events, link, with_usage=body.with_usage)
    return StreamingResponse(
        encode_events(chunks), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


def _question_options(chosen: ChosenModel, body: ChatRequest) -> tuple[str, dict[str, Any]]:
    """Return the question of a request, and the options of `ask`."""
    question, history = split_conversation(body.messages)
    chosen.access.notes.question = question
    known = {name for method in chosen.access.served.kumi.catalogue.methods.values() for name in method.settings}
    if unknown := sorted(body.kumihimo.settings.keys() - known):
        raise BadParameter(f"no method has a setting {unknown[0]!r}: see docs/methods.md", "kumihimo.settings")
    max_tokens = body.max_completion_tokens or body.max_tokens
    return question, {
        **({"max_tokens": max_tokens} if max_tokens else {}),
        **body.kumihimo.settings,  # before the rest, which is not theirs to set
        "filter": body.kumihimo.filter,
        "length": body.kumihimo.length,
        "history": history,
        "rights": chosen.asked.rights,
        "paid_by": chosen.asked.new_budget(),
    }


@router.post("/embeddings", openapi_extra=body_schema(EMBEDDINGS), response_model=None)
async def create_embeddings(request: Request) -> Response:
    """Embed texts with the embedding model of an index."""
    body = parse_embedding_request(await request.body())
    chosen = choose_model(request, body.model)
    if len(chosen.asked.accesses) > 1:
        raise BadParameter("embeddings are those of one index: name one model", "model")
    access = chosen.access
    as_questions, budget = body.kumihimo.input_type == "query", access.grant.new_budget()
    vectors, usage = await access.served.questions.run(
        lambda kumi: embed_texts(kumi, body.texts, as_questions=as_questions, budget=budget)
    )
    return JSONResponse(embedding_reply(body, vectors, usage))
