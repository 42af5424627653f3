"""a question in a form -> the page that asks, or the page with the answer; scripts stream it instead."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from kumihimo.app.ask.query import check_length
from kumihimo.app.ask.snapshot import Length, Snapshot
from kumihimo.app.browse.browse import list_entities
from kumihimo.app.browse.json_values import Json
from kumihimo.core.wiring import ROOT
from kumihimo.server.api import ask as ask_api
from kumihimo.server.pages.answers import show_answer
from kumihimo.server.pages.errors import PageRoute
from kumihimo.server.pages.method_list import list_methods
from kumihimo.server.pages.reading import read_or
from kumihimo.server.pages.rendering import ReaderVisit, Visit, render
from kumihimo.server.sessions import read_form

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_MAX_HINTS, _MAX_NAMES = 3, 20


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """The fields of the form that asks; empty: the default. hint: a proposed question that was chosen instead."""

    question: str = ""
    method: str = ""
    filter: str = ""
    length: str = ""
    hint: str = ""


@router.get("/")
async def show_ask(visit: ReaderVisit, question: str = "", method: str = "", filter: str = "") -> HTMLResponse:
    """Send the page that asks."""
    chosen = visit.look.preferences
    form = QuestionForm(question, method or chosen.method, filter or chosen.filter, chosen.length)
    return await _render(visit, form)


@router.post("/")
async def answer_question(visit: ReaderVisit) -> HTMLResponse:
    """Send the page with the answer, for a browser without scripts."""
    fields = await read_form(visit.request)
    form = QuestionForm(*(str(fields.get(name, "")) for name in ("question", "method", "filter", "length", "hint")))
    length: Length | None = check_length(form.length) if form.length else None
    question = ask_api.AskBody(
        question=form.hint or form.question, method=form.method, filter=form.filter, length=length
    )
    response = await ask_api.ask(visit.request, visit.access, question)
    answer = cast(Json, json.loads(bytes(response.body)))
    return await _render(visit, QuestionForm("", form.method, form.filter, form.length), show_answer(visit, answer))


async def _render(visit: Visit, form: QuestionForm, answer: object = None) -> HTMLResponse:
    facts = await read_or(visit, dict[str, Any](documents=0, hints=[], methods=[]), lambda s: _read(visit, s))
    model = visit.access.served.kumi.models.chat("answer")
    length = visit.access.served.kumi.settings["answer"]["length"]
    return render(visit, "ask.html", form=form, answer=answer, model=model, usual_length=length, **facts)


def _read(visit: Visit, snapshot: Snapshot) -> dict[str, Any]:
    names = [entity.name for entity in list_entities(snapshot, limit=_MAX_NAMES).items]
    hints = [*_hints(visit, names)]
    return {"documents": len(snapshot.table(ROOT)), "hints": hints, "methods": list_methods(snapshot)}


def _hints(visit: Visit, names: list[str]) -> Iterator[str]:
    """Yield questions about the entities with most mentions.

    A name of several words, or in kanji, rarely stands for something else.
    """
    clear = [name for name in names if " " in name or not name.isascii()]
    for name in (clear or names)[:_MAX_HINTS]:
        yield visit.translate(f"What do the documents say about {name}?")
