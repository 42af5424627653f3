"""Each error has a status and a remedy, in the form that the client expects."""

from __future__ import annotations

import json

import pytest

from kumihimo.core import errors
from kumihimo.server import problems
from kumihimo.server.problems import error_response


def all_errors(kind: type[errors.KumiError] = errors.KumiError) -> list[type[errors.KumiError]]:
    below = [each for each in kind.__subclasses__() if each.__module__.startswith("kumihimo.")]
    return [each for child in below for each in (child, *all_errors(child))]


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
def test_each_error_has_a_status_and_a_remedy(kind: type[errors.KumiError]) -> None:
    error = kind.__new__(kind)
    assert 400 <= problems.status_of(error) < 600
    assert problems.remedy_of(error).endswith(".")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (problems.NotFound("no document"), 404),
        (problems.InvalidRequest("question: missing"), 400),
        (problems.Forbidden("no"), 403),
        (problems.WrongHost("no"), 421),
        (problems.TooSlow("no"), 408),
        (errors.SettingsError("no method x"), 400),
        (errors.LimitExceeded("too long"), 413),
        (errors.IndexBusy("another build"), 409),
        (errors.IndexUnavailable("no index"), 503),
        (errors.BudgetExceeded("spent"), 429),
        (errors.Cancelled("too long"), 504),
    ],
)
def test_a_problem_says_what_went_wrong_and_what_helps(error: errors.KumiError, status: int) -> None:
    response = error_response(error, "/api/v1/ask")
    body = json.loads(bytes(response.body))
    assert (response.status_code, response.media_type) == (status, "application/problem+json")
    assert body == {
        "type": "about:blank",
        "title": type(error).__name__,
        "status": status,
        "detail": str(error),
        "remedy": problems.remedy_of(error),
    }


def test_a_client_learns_how_to_come_in_and_when_to_come_back() -> None:
    refused = problems.problem(problems.Unauthorized("no key"))
    assert refused.headers["www-authenticate"] == 'Bearer realm="Kumihimo"'
    late = error_response(problems.TooManyRequests("wait", 0.2), "/v1/models")
    assert (late.status_code, late.headers["retry-after"]) == (429, "1")


def test_clients_of_openai_get_their_form() -> None:
    body = json.loads(bytes(error_response(problems.NotFound("no model"), "/v1/chat/completions").body))
    assert body["error"]["message"].startswith("no model")


def test_five_wrong_fields_are_enough() -> None:
    wrong = [{"loc": ("body", "settings", n), "msg": "Wrong"} for n in range(9)]
    assert problems.describe_invalid(wrong).count("Wrong") == 5
    assert problems.describe_invalid([{"loc": ("body",), "msg": "Field required"}]) == "body: Field required"
