"""requests, questions, builds and model calls -> the metrics of one server, for Prometheus."""

from collections.abc import Collection, Iterator
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from kumihimo.server.workspace import ServedIndex, Workspace

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
_METHODS = ("GET", "POST", "DELETE", "HEAD", "OPTIONS")  # a sender may invent others: each would stay in memory
_GAUGES = {
    "bytes": ("kumihimo_index_bytes", "Bytes of each file of the index.", ("index", "file")),
    "builds": ("kumihimo_builds", "Builds by state.", ("index", "state")),
    "running": ("kumihimo_questions_running", "Questions that run.", ("index",)),
    "waiting": ("kumihimo_questions_waiting", "Questions that wait for a place.", ("index",)),
    "calls": ("kumihimo_model_calls", "Calls by step and method.", ("index", "scope")),
    "tokens": ("kumihimo_model_tokens", "Tokens by step and method.", ("index", "scope")),
}


class Metrics:
    """The metrics of one server."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._registry = workspace, CollectorRegistry()
        self._requests = Counter(
            "kumihimo_requests", "Requests by route and status.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "kumihimo_request_seconds",
            "Seconds until the end of the response.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._questions = Histogram(
            "kumihimo_question_seconds",
            "Seconds of answered questions by method, without those of waiting for a place.",
            ("index", "method"),
            buckets=_SECONDS,
            registry=None,
        )
        for name, served in workspace.indexes.items():
            served.questions.on_answered = partial(self._record_question, name)

    def _record_question(self, index: str, method: str, seconds: float) -> None:
        self._questions.labels(index, method).observe(seconds)

    def record_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        self._requests.labels(method if method in _METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self, names: Collection[str]) -> bytes:
        """Return the metrics of these indexes in the text format of Prometheus.

        Those of the whole server are there only if these are all indexes.
        """
        registry = CollectorRegistry()
        registry.register(_IndexCollector(self._workspace, names, self._questions))
        is_all = all(name in names for name in self._workspace.indexes)
        return (generate_latest(self._registry) if is_all else b"") + generate_latest(registry)


class _IndexCollector:
    """The state of some indexes, read when Prometheus asks."""

    def __init__(self, workspace: Workspace, names: Collection[str], questions: Histogram) -> None:
        self._indexes = {name: served for name, served in workspace.indexes.items() if name in names}
        self._questions = questions

    def collect(self) -> Iterator[Metric]:
        gauges = {key: GaugeMetricFamily(name, text, labels=labels) for key, (name, text, labels) in _GAUGES.items()}
        for name, served in self._indexes.items():
            for key, *labels, value in _read_values(served):
                gauges[str(key)].add_metric((name, *map(str, labels)), float(value))
        yield from gauges.values()
        for metric in self._questions.collect():
            metric.samples = [sample for sample in metric.samples if sample.labels["index"] in self._indexes]
            yield metric


def _read_values(served: ServedIndex) -> Iterator[tuple[str | float, ...]]:
    """Yield the gauges of an index: key, further labels, value."""
    if served.kumi.place.database:
        yield "bytes", "database", served.kumi.store.size()
    for file in () if served.kumi.place.database else ("index.db", "index.db-wal", "cache.db"):
        path = served.kumi.folder / file
        yield "bytes", file, path.stat().st_size if path.exists() else 0
    for state in ("queued", "running", "done", "failed", "cancelled"):
        yield "builds", state, sum(job.state == state for job in served.builds.jobs)
    yield "running", served.questions.running
    yield "waiting", served.questions.waiting
    for entry in served.kumi.spent():
        if entry.kind == "spent":
            yield "calls", entry.scope, entry.usage.calls
            yield "tokens", entry.scope, entry.usage.tokens
