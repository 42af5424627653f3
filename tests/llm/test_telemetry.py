"""questions and builds -> spans, without any text of a question or a document; nothing where nobody listens."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.core.errors import SettingsError
from kumihimo.core.task import ProgressEvent
from tests.fake_server import FakeServer

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

QUESTION = "Who keeps the tide clock of Netley?"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", lambda name: provider.get_tracer(name))
    yield exporter
    provider.shutdown()


@pytest.fixture
def kumi(tmp_path: Path, server: FakeServer) -> Iterator[Kumihimo]:
    (tmp_path / "note.md").write_text("Ada Quill keeps the tide clock of Netley.", "utf-8")
    server.configure(replies=[("", "Ada Quill keeps it. [1]")])
    with Kumihimo(tmp_path / ".kumi", {"chat": {"model": "m", "base_url": server.url}}) as kumi:
        yield kumi


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def test_a_question(kumi: Kumihimo, tmp_path: Path, spans: InMemorySpanExporter) -> None:
    kumi.index(tmp_path / "note.md", methods=["bm25"])
    spans.clear()
    list(kumi.stream(QUESTION, "bm25"))
    found = by_name(spans)
    assert list(found) == ["retrieve bm25", "chat m", "ask"]
    ask, retrieve, chat = (found[name] for name in ("ask", "retrieve bm25", "chat m"))
    attributes: dict[str, Any] = {**(ask.attributes or {}), **(chat.attributes or {}), **(retrieve.attributes or {})}
    assert {span.parent.span_id for span in (retrieve, chat) if span.parent} == {ask.context.span_id}
    assert attributes["kumihimo.method"] == "bm25"
    assert attributes["kumihimo.results"] == 1
    assert (attributes["gen_ai.operation.name"], attributes["gen_ai.request.model"]) == ("chat", "m")
    assert attributes["gen_ai.usage.output_tokens"] > 0
    text = repr([(span.name, span.attributes, span.events) for span in spans.get_finished_spans()])
    assert not any(word in text for word in ("Ada", "Netley", "clock", "keeps"))
    spans.clear()
    kumi.ask(QUESTION, "bm25")
    assert "chat m" not in by_name(spans)  # the cache has the reply


def test_a_build(kumi: Kumihimo, tmp_path: Path, spans: InMemorySpanExporter) -> None:
    kumi.index(tmp_path / "note.md", methods=["local"])
    found = by_name(spans)
    assert {"build", "step documents", "step chunks", "step mentions"} <= set(found)
    build = found["build"]
    assert build.context.span_id in {span.parent.span_id for span in found.values() if span.parent}
    chats = [span for span in spans.get_finished_spans() if span.name == "chat m"]
    assert {span.parent.span_id for span in chats if span.parent} == {build.context.span_id}
    assert "Ada" not in repr([span.attributes for span in spans.get_finished_spans()])


def test_a_build_that_fails_shows_the_step(kumi: Kumihimo, tmp_path: Path, spans: InMemorySpanExporter) -> None:
    def fail_at_mentions(event: ProgressEvent) -> None:
        if event.step == "mentions":
            raise RuntimeError("Ada")

    with pytest.raises(RuntimeError):
        kumi.index(tmp_path / "note.md", methods=["local"], progress=fail_at_mentions)
    found = by_name(spans)
    failed = {name for name, span in found.items() if span.status.status_code is trace.StatusCode.ERROR}
    assert failed == {"build", "step mentions"}
    assert (found["step mentions"].attributes or {})["error.type"] == "RuntimeError"
    assert found["step chunks"].status.status_code is trace.StatusCode.UNSET
    assert "Ada" not in repr([(span.attributes, span.events, span.status.description) for span in found.values()])


def test_an_error_tells_its_kind(kumi: Kumihimo, tmp_path: Path, spans: InMemorySpanExporter) -> None:
    kumi.index(tmp_path / "note.md", methods=["bm25"])
    spans.clear()
    with pytest.raises(SettingsError):
        kumi.ask(QUESTION, "bm25", filter="nobody_has_this = 1")
    [ask] = spans.get_finished_spans()
    assert ask.attributes == {"error.type": "SettingsError"}
    assert ask.status.status_code is trace.StatusCode.ERROR
    assert ask.status.description is None
    assert ask.events == ()


def test_it_is_not_imported_here() -> None:
    script = "import sys, kumihimo.app.facade; print([name for name in sys.modules if 'opentelemetry' in name])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
