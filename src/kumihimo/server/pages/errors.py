"""an error of a route -> a page that says what happened and what to do, or for programs a problem."""

import re
from collections.abc import Callable, Coroutine
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from kumihimo.core.errors import KumiError
from kumihimo.server import limits, problems, sessions
from kumihimo.server.pages import context, rendering
from kumihimo.text import sentences, translation

_SENTENCE_END = re.compile("[.?] ")


class PageRoute(APIRoute):
    """A route whose errors are pages, in the language of the person."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_page(request: Request) -> Response:
            translation.choose_language(context.find_page(request).language)
            try:
                if request.method == "POST" and not limits.takes_files(request.scope):
                    await sessions.read_form(
                        request
                    )  # which checks its token; that of a form with files comes among the files
                return await handle(request)
            except KumiError as error:
                return await error_page(request, problems.status_of(error), str(error))
            except RequestValidationError as error:
                return await error_page(request, 400, _describe(error))
            except HTTPException as error:
                return await error_page(request, error.status_code, str(error.detail))

        return handle_page


async def error_page(request: Request, status: int, message: str) -> Response:
    """Return the page of an error.

    message: it names the remedy after its last colon.
    """
    page = context.find_page(request)
    translated = page.translate(message)  # its order is that of the language
    what, remedy = split_remedy(message) if translated == message else (translated, "")
    with suppress(KumiError, AttributeError):  # without an index, the page has no menu
        page = context.find_index_page(request, "GET /")
    return await rendering.render(page, "error.html", status, status=status, what=what, remedy=remedy)


def split_remedy(message: str) -> tuple[str, str]:
    """Return the problem and the remedy of a message as sentences.

    >>> split_remedy("no index 'a': GET /api lists the names")
    ("No index 'a'.", 'GET /api lists the names.')
    >>> split_remedy("notes.txt: cannot be read")
    ('Notes.txt: cannot be read.', '')
    >>> split_remedy("no field 'autor'; did you mean 'author'? Known: author, date")
    ("No field 'autor'; did you mean 'author'? Known: author, date.", '')
    """
    what, _, remedy = message.rpartition(": ")
    if " " not in _SENTENCE_END.split(what)[-1] or "`" in what.rpartition(" ")[2]:
        what, remedy = message, ""
    return sentence(what), sentence(remedy)


def sentence(text: str) -> str:
    """Return a message as a sentence."""
    text = text.strip()
    ended = text if not text or sentences.ends_sentence(text) else f"{text}."
    return ended[:1].upper() + ended[1:]


def _describe(error: RequestValidationError) -> str:
    found = [f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors()[:3]]
    return f"the form has values that do not fit ({'; '.join(found)}): go back and correct them"


def add_error_handlers(app: FastAPI) -> None:
    """Answer each error of a route.

    Other exceptions are for `Guard`.
    """

    @app.exception_handler(KumiError)
    async def respond(request: Request, error: KumiError) -> Response:
        language = problems.accepted_language(request.headers)
        return problems.error_response(error, request.url.path, language)

    @app.exception_handler(RequestValidationError)
    async def respond_invalid(request: Request, error: RequestValidationError) -> Response:
        return problems.error_response(
            problems.InvalidRequest(problems.describe_invalid(error.errors())), request.url.path
        )

    @app.exception_handler(HTTPException)
    async def respond_http(request: Request, error: HTTPException) -> Response:
        path, status = request.url.path, error.status_code
        if status == 404 and problems.wants_page(path, request.headers):
            return await error_page(request, status, f"there is no page at {path}: begin at the start")
        if status == 404:
            return problems.error_response(problems.NotFound(f"there is nothing at {path}: see /openapi.json"), path)
        return problems.problem_response(
            status, HTTPStatus(status).phrase, str(error.detail), "See /openapi.json.", error.headers
        )
