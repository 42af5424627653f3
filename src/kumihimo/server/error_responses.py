"""an error of a request -> its response in the form that the sender expects: a problem, OpenAI's, or a page."""

from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from kumihimo.core.errors import KumiError
from kumihimo.server.openai.errors import openai_error
from kumihimo.server.pages.context import accepted_language
from kumihimo.server.pages.errors import error_page
from kumihimo.server.problems import InvalidRequest, NotFound, describe_invalid, problem, problem_response, wants_page


def error_response(error: KumiError, path: str, language: str = "en") -> Response:
    """Return the response for an error of a request to a path."""
    return openai_error(error) if path.startswith("/v1/") else problem(error, language)


def add_error_handlers(app: FastAPI) -> None:
    """Answer each error of a route.

    Other exceptions are for `Guard`.
    """

    @app.exception_handler(KumiError)
    async def respond(request: Request, error: KumiError) -> Response:
        language = accepted_language(request.headers.get("accept-language", ""))
        return error_response(error, request.url.path, language)

    @app.exception_handler(RequestValidationError)
    async def respond_invalid(request: Request, error: RequestValidationError) -> Response:
        return error_response(InvalidRequest(describe_invalid(error.errors())), request.url.path)

    @app.exception_handler(HTTPException)
    async def respond_http(request: Request, error: HTTPException) -> Response:
        path, status = request.url.path, error.status_code
        if status == 404 and wants_page(path, request.headers):
            return await error_page(request, status, f"there is no page at {path}: begin at the start")
        if status == 404:
            return error_response(NotFound(f"there is nothing at {path}: see /openapi.json"), path)
        return problem_response(
            status, HTTPStatus(status).phrase, str(error.detail), "See /openapi.json.", error.headers
        )
