"""requests, questions, builds and model calls -> the metrics of one server, for Prometheus."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from kumihimo.server.workspace import Workspace

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


class Metrics:
    """The metrics of one server."""

    def __init__(self, workspace: Workspace) -> None:
        self._registry = CollectorRegistry()
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
        self._registry.register(_IndexCollector(workspace))

    def record_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class _IndexCollector:
    """The state of each index, read when Prometheus asks."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def collect(self) -> Iterator[Metric]:
        sizes = GaugeMetricFamily("kumihimo_index_bytes", "Bytes of each file of the index.", labels=("index", "file"))
        builds = GaugeMetricFamily("kumihimo_builds", "Builds by state.", labels=("index", "state"))
        running = GaugeMetricFamily("kumihimo_questions_running", "Questions that run.", labels=("index",))
        calls = GaugeMetricFamily("kumihimo_model_calls", "Calls by step and method.", labels=("index", "scope"))
        tokens = GaugeMetricFamily("kumihimo_model_tokens", "Tokens by step and method.", labels=("index", "scope"))
        for name, served in self._workspace.indexes.items():
            for file in ("index.db", "index.db-wal", "cache.db"):
                path = served.kumi.folder / file
                sizes.add_metric((name, file), path.stat().st_size if path.exists() else 0)
            for state in ("queued", "running", "done", "failed", "cancelled"):
                builds.add_metric((name, state), sum(job.state == state for job in served.builds.jobs))
            running.add_metric((name,), served.questions.running)
            for entry in served.kumi.spent():
                if entry.kind == "spent":
                    calls.add_metric((name, entry.scope), entry.usage.calls)
                    tokens.add_metric((name, entry.scope), entry.usage.tokens)
        yield from (sizes, builds, running, calls, tokens)
