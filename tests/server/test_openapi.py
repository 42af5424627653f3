"""/openapi.json says how to sign in, and how each route fails."""

from __future__ import annotations

from typing import Any

import pytest

from kumihimo.server.app import create_app
from kumihimo.server.problems import problem_response
from kumihimo.server.sessions import COOKIE
from kumihimo.server.workspace import Workspace
from tests.server.clients import GUARDED, LOCAL, Open

OPERATIONS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture(scope="module")
def description(workspace: Workspace) -> dict[str, Any]:
    return create_app(Workspace(workspace.indexes), LOCAL).openapi()


def failures(description: dict[str, Any], path: str, method: str) -> dict[str, str]:
    """Status -> the schema of its body, of all that are no success."""
    responses = description["paths"][path][method]["responses"]
    return {
        status: content["schema"]["$ref"].rpartition("/")[2]
        for status, response in responses.items()
        if not status.startswith("2")
        for content in response["content"].values()
    }


def test_a_key_or_a_session_signs_in(description: dict[str, Any]) -> None:
    schemes = description["components"]["securitySchemes"]
    assert (schemes["key"]["type"], schemes["key"]["scheme"]) == ("http", "bearer")
    assert (schemes["session"]["in"], schemes["session"]["name"]) == ("cookie", COOKIE)
    assert description["security"] == [{"key": []}, {"session": []}, {}]
    assert [description["paths"][path]["get"]["security"] for path in ("/health", "/ready")] == [[], []]


def test_each_route_has_its_failures(description: dict[str, Any]) -> None:
    for path, methods in description["paths"].items():
        schema = "OpenAIError" if path.startswith("/v1/") else "Problem"
        for method in OPERATIONS & methods.keys():
            found = failures(description, path, method)
            assert set(found.values()) == {schema}
            assert {"401", "403", "404", "429", "default"} <= found.keys() or path in ("/health", "/ready")


def test_every_reference_leads_to_a_schema(description: dict[str, Any]) -> None:
    def references(value: Any) -> set[str]:
        if isinstance(value, dict):
            return {value["$ref"]} if "$ref" in value else set().union(*map(references, value.values()))
        return set().union(*map(references, value)) if isinstance(value, list) else set()

    found = {reference.rpartition("/")[2] for reference in references(description)}
    assert {"Problem", "OpenAIError"} <= found <= description["components"]["schemas"].keys()
    assert not [name for name in description["components"]["schemas"] if "ValidationError" in name]


def test_a_problem_is_as_described(description: dict[str, Any], open_client: Open) -> None:
    schema = description["components"]["schemas"]["Problem"]
    response = open_client(GUARDED).get("/api/v1/documents")
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json().keys() == schema["properties"].keys() == set(schema["required"])
    assert (
        problem_response(400, "x", "y", "z").media_type
        in description["paths"]["/metrics"]["get"]["responses"]["401"]["content"]
    )


def test_an_openai_error_is_as_described(description: dict[str, Any], open_client: Open) -> None:
    schema = description["components"]["schemas"]["OpenAIError"]["properties"]["error"]
    response = open_client(GUARDED).get("/v1/models")
    assert response.status_code == 401
    assert response.json()["error"].keys() == schema["properties"].keys()


def test_the_description_is_the_same_each_time(open_client: Open) -> None:
    client = open_client(LOCAL)
    assert client.get("/openapi.json").json() == client.get("/openapi.json").json()
