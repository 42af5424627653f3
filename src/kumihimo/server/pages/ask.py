"""a question in a form -> the page that asks, or the page with the answer; scripts stream it instead."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool

from kumihimo.app.ask.query import Length, check_length
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse import community_tree, json_values
from kumihimo.core.answer import Answer
from kumihimo.core.wiring import ROOT
from kumihimo.server.api import ask as ask_api, state
from kumihimo.server.pages import errors, markdown, rendering
from kumihimo.server.pages.context import AllowedPage, IndexPage, read_or
from kumihimo.server.sessions import read_form

router = APIRouter(route_class=errors.PageRoute, include_in_schema=False)
_MAX_HINTS, _MAX_NAMES, _MAX_MENTIONS = 3, 20, 5000


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """The fields of the form that asks; empty: the default. hint: a proposed question that was chosen instead."""

    question: str = ""
    method: str = ""
    filter: str = ""
    length: str = ""
    hint: str = ""


@router.get("/")
async def show_ask(page: AllowedPage, question: str = "", method: str = "", filter: str = "") -> HTMLResponse:
    """Send the page that asks."""
    chosen = page.preferences
    form = QuestionForm(question, method or chosen.method, filter or chosen.filter, chosen.length)
    return await _render(page, form)


@router.post("/")
async def answer_form(page: AllowedPage) -> HTMLResponse:
    """Send the page with the answer, for a browser without scripts."""
    fields = await read_form(page.request)
    form = QuestionForm(*(fields.get(name, "") for name in ("question", "method", "filter", "length", "hint")))
    length: Length | None = check_length(form.length) if form.length else None
    question = ask_api.AskBody(
        question=form.hint or form.question, method=form.method, filter=form.filter, length=length
    )
    answer = await ask_api.find_answer(page.access, question)
    shown = await run_in_threadpool(answer_values, page, answer)
    return await _render(page, QuestionForm("", form.method, form.filter, form.length), shown)


async def _render(page: IndexPage, form: QuestionForm, answer: object = None) -> HTMLResponse:
    facts = await read_or(page, dict[str, Any](documents=0, hints=[], methods=[]), lambda s: _read(page, s))
    model = page.access.served.kumi.models.chat("answer")
    length = page.access.served.kumi.settings["answer"]["length"]
    return await rendering.render(page, "ask.html", form=form, answer=answer, model=model, usual_length=length, **facts)


def _read(page: IndexPage, snapshot: Snapshot) -> dict[str, Any]:
    mentions = islice(community_tree.table_or_empty(snapshot, "mentions").columns("name"), _MAX_MENTIONS)
    names = [name for (name,), _ in Counter(mentions).most_common(_MAX_NAMES)]
    clear = [name for name in names if " " in name or not name.isascii()]  # which rarely stands for something else
    hints = [page.translate(f"What do the documents say about {name}?") for name in (clear or names)[:_MAX_HINTS]]
    return {"documents": len(snapshot.table(ROOT)), "hints": hints, "methods": state.describe_methods(snapshot)}


def answer_values(page: IndexPage, answer: Answer) -> json_values.Json:
    """Return the values of the template of an answer.

    A passage is shown with its source; the sources of other parts are listed.
    """
    values = answer.to_dict()
    spans: dict[int, list[json_values.Json]] = {}
    for citation in values["citations"]:
        spans.setdefault(citation["n"], []).append(citation)
    quoted = {n for part in values["parts"] if part["kind"] == "passage" for n in part["citations"]}
    return {
        **values,
        "remark": answer.remark,
        "parts": [
            {
                "blocks": markdown.markdown_blocks(part.emphasized().text),
                "headings": part.headings,
                "source": spans[part.citations[0].n][0],
                "copies": spans[part.citations[0].n][1:],
            }
            if part.kind == "passage"
            else {"blocks": markdown.markdown_blocks(part.marked(markdown.write_cite).text), "source": None}
            for part in answer.parts
        ],
        "cites": {n: _link(page, n, found[0]) for n, found in spans.items()},
        "sources": [{"n": n, "places": _by_place(found)} for n, found in spans.items() if n not in quoted],
        "evidence": [
            {**item, "pieces": markdown.marked_pieces(item["snippet"], item["marks"])} for item in values["evidence"]
        ],
        "about": describe_cost(page, answer),
    }


def _by_place(spans: Sequence[json_values.Json]) -> list[list[json_values.Json]]:
    """Return the spans of each place, such as a page."""
    places: dict[tuple[str, str], list[json_values.Json]] = {}
    for span in spans:
        places.setdefault((span["uri"], span["place"]), []).append(span)
    return list(places.values())


def _link(page: IndexPage, n: int, span: json_values.Json) -> dict[str, str]:
    """Return the address and the name of a citation."""
    where = ", ".join(filter(None, [span["title"] or span["uri"], page.translate(span["place"])]))
    return {"address": page.passage(span), "label": page.translate(f"Source {n}: {where}")}


def describe_cost(page: IndexPage, answer: Answer) -> str:
    """Return the method, the time, and what a model took."""
    usage, parts = answer.usage, [answer.method]
    if answer.model:
        parts += [answer.model, page.count_of(usage.calls, "call"), page.count_of(usage.tokens, "token")]
    if usage.cost:
        parts.append(f"${usage.cost:.4f}")
    return " · ".join([*parts, page.translate(f"{usage.seconds:.1f} s")])
