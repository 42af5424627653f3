"""Metrics count requests by route, and questions by index and method."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from kumihimo.server.monitoring import Metrics
from kumihimo.server.workspace import Workspace


def read(metrics: Metrics, *names: str) -> dict[tuple[str, ...], float]:
    """Name and labels of each series, without those of buckets and of the time of creation."""
    families = text_string_to_metric_families(metrics.render(names).decode())
    samples = [sample for family in families for sample in family.samples]
    return {
        (sample.name, *sample.labels.values()): sample.value
        for sample in samples
        if not sample.name.endswith(("_bucket", "_created"))
    }


def test_requests_are_counted_by_route_and_status(harbour: Workspace) -> None:
    metrics = Metrics(harbour)
    for status in (200, 200, 404):
        metrics.record_request("GET", "/api/v1/documents", status, 0.25)
    metrics.record_request("BREW", "none", 405, 0.0)
    series = read(metrics, *harbour.indexes)
    assert series["kumihimo_requests_total", "GET", "/api/v1/documents", "200"] == 2
    assert series["kumihimo_requests_total", "GET", "/api/v1/documents", "404"] == 1
    assert series["kumihimo_requests_total", "other", "none", "405"] == 1
    assert series["kumihimo_request_seconds_sum", "/api/v1/documents"] == 0.75


def test_questions_are_counted_by_index_and_method(harbour: Workspace) -> None:
    metrics = Metrics(harbour)
    (served,) = harbour.indexes.values()
    served.questions.on_answered("braid", 0.5)
    served.questions.on_answered("braid", 1.5)
    assert read(metrics, served.name)["kumihimo_question_seconds_sum", served.name, "braid"] == 2.0
    assert read(metrics, served.name)["kumihimo_question_seconds_count", served.name, "braid"] == 2.0


def test_the_state_of_an_index_is_that_of_now(harbour: Workspace) -> None:
    metrics = Metrics(harbour)
    (served,) = harbour.indexes.values()
    series = read(metrics, served.name)
    size = (served.kumi.folder / "index.db").stat().st_size
    assert series["kumihimo_index_bytes", "index.db", served.name] == size
    assert series["kumihimo_builds", served.name, "running"] == 0
    assert series["kumihimo_questions_waiting", served.name] == 0


def test_an_index_that_is_not_named_is_not_there(harbour: Workspace) -> None:
    metrics = Metrics(harbour)
    metrics.record_request("GET", "/", 200, 0.1)
    assert read(metrics) == {}
