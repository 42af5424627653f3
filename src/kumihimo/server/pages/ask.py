"""a question in a form -> the page that asks, or the page with the answer; scripts stream it instead."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form
from fastapi.responses import HTMLResponse

from kumihimo.app.browse import list_entities
from kumihimo.app.json_values import answer_json, evidence_json
from kumihimo.app.snapshot import LENGTHS, Snapshot
from kumihimo.core.errors import IndexUnavailable
from kumihimo.core.wiring import ROOT
from kumihimo.server.pages.answers import show_answer
from kumihimo.server.pages.errors import PageRoute
from kumihimo.server.pages.rendering import ReaderVisit, Visit, render

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Text = Annotated[str, Form()]
_MAX_HINTS = 3
_MAX_NAMES = 20


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """The fields of the form that asks; empty: the default."""

    question: str = ""
    method: str = ""
    filter: str = ""
    length: str = ""


@router.get("/")
def show_ask(visit: ReaderVisit, question: str = "", method: str = "", filter: str = "") -> HTMLResponse:
    """Send the page that asks."""
    chosen = visit.preferences
    form = QuestionForm(question, method or chosen.method, filter or chosen.filter, chosen.length)
    return _render(visit, form)


@router.post("/")
def answer_question(
    visit: ReaderVisit, question: Text = "", method: Text = "", filter: Text = "", length: Text = "", hint: Text = ""
) -> HTMLResponse:
    """Send the page with the answer, for a browser without scripts.

    hint: a proposed question that was chosen instead.
    """
    form = QuestionForm(hint or question, method, filter, length)
    kumi, rights = visit.access.served.kumi, visit.access.rights
    settings: dict[str, Any] = {"filter": form.filter, "length": form.length or None}
    answer = kumi.ask(form.question, form.method, rights=rights, **settings)
    with kumi.snapshot(rights=rights) as snapshot:
        evidence = evidence_json(snapshot, answer.question, answer.context)
    shown = show_answer(visit, answer_json(answer, evidence))
    return _render(visit, QuestionForm("", form.method, form.filter, form.length), shown)


def _render(visit: Visit, form: QuestionForm, answer: object = None) -> HTMLResponse:
    kumi, facts = visit.access.served.kumi, dict[str, Any]()
    try:
        with kumi.snapshot(rights=visit.access.rights) as snapshot:
            facts = {"documents": len(snapshot.table(ROOT)), "hints": [] if answer else list(_hints(visit, snapshot))}
    except IndexUnavailable:
        facts = {"documents": 0, "hints": []}
    model = kumi.models.chat("answer")
    methods = [
        {
            "name": name,
            "summary": method.summary,
            "usable": "llm" not in method.ports or "llm" in method.optional_ports or kumi.models.chat(name) is not None,
        }
        for name, method in kumi.catalogue.methods.items()
    ]
    values = {"form": form, "answer": answer, "methods": methods, "model": model, "fields": []}
    return render(visit, "ask.html", **values, **facts, lengths=LENGTHS)


def _hints(visit: Visit, snapshot: Snapshot) -> Iterator[str]:
    """Yield questions about the entities with most mentions.

    A name of several words, or in kanji, rarely stands for something else.
    """
    names = [entity.name for entity in list_entities(snapshot, limit=_MAX_NAMES).items]
    clear = [name for name in names if " " in name or not name.isascii()]
    for name in (clear or names)[:_MAX_HINTS]:
        yield visit.translate(f"What do the documents say about {name}?")
