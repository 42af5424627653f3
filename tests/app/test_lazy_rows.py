"""rows made on demand -> equal to built rows: each paid once, none without need."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Barrier, Lock
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.app.lazy_rows import LazyRows, RowMaker
from kumihimo.core.errors import ItemFailed
from kumihimo.core.signature import collect_signatures
from kumihimo.core.table import Row
from kumihimo.core.wiring import ROOT, order_steps
from kumihimo.index import STEPS
from kumihimo.llm.budget import Caps
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.testing.fake_server import FakeServer
from tests.factories_paid_steps import add_steps, opened
from tests.factories_tables import Held
from tests.fixtures_index import EXAMPLES, fill
from tests.toy_steps import briefs, briefs_method, sections

NOTES = {
    "a.txt": "The ferry leaves at nine. The gate leaks badly. The lamp is lit.",
    "b.txt": "Oats grow here.",
}


@pytest.fixture(autouse=True)
def brief_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    add_steps(monkeypatch, collect_signatures(sections, briefs), collect_signatures(briefs_method))


SMALL: dict[str, Any] = {"chunks": {"size": 6, "overlap": 0}}


def build_index(tmp_path: Path, server: FakeServer | None, when: str, **more: Any) -> Kumihimo:
    settings = {**SMALL, "briefs": {"when": when, **more}}
    kumi = opened(tmp_path, server, **settings) if server else Kumihimo(tmp_path / ".kumi", settings)
    kumi.index(fill(tmp_path / "notes", NOTES), methods=["briefs_method"])
    return kumi


@pytest.fixture
def lazy(tmp_path: Path, server: FakeServer) -> Iterator[Kumihimo]:
    with build_index(tmp_path, server, "asked") as kumi:
        assert kumi.status().rows["sections"] == 4
        yield kumi


def texts(kumi: Kumihimo, **settings: Any) -> list[str]:
    return [item.text for item in kumi.retrieve("What?", "briefs_method", **settings)]


def test_build_makes_no_lazy_rows(lazy: Kumihimo, server: FakeServer) -> None:
    assert lazy.status().rows["briefs"] == 0
    assert lazy.index().spent == {}
    assert server.counts()["requests"] == 0


def test_reading_makes_rows_and_their_inputs_once(lazy: Kumihimo, server: FakeServer) -> None:
    first = texts(lazy, depth=0, times=5)
    assert len(first) == 2
    assert server.counts()["requests"] == 4  # the first part of both documents, and all later ones
    everything = texts(lazy)
    assert (len(everything), server.counts()["requests"]) == (4, 4)
    assert lazy.status().rows["briefs"] == 0
    assert {(s.scope, s.usage.calls) for s in lazy.spent() if s.kind == "spent"} == {("briefs", 4)}


def test_only_needed_rows_are_made(tmp_path: Path, server: FakeServer) -> None:
    with build_index(tmp_path, server, "asked") as kumi, kumi.snapshot() as reading:
        deepest = max((section for section in reading.table("sections")), key=lambda section: section.level)
        rows = reading._rows("briefs", reading.models.budget())
        assert rows.get(deepest.id)
        assert server.counts()["requests"] == 1
        assert rows.get("nobody") is None
        assert [rows.ids(("id",), (id,)) for id in (deepest.id, "nobody")] == [[deepest.id], []]
        assert [len(rows.where(("id",), (id,))) for id in (deepest.id, "nobody")] == [1, 0]
        assert (list(rows.pages()), rows.count()) == ([], 0)


def test_lazy_rows_equal_built_rows(tmp_path: Path, server: FakeServer) -> None:
    with build_index(tmp_path / "one", server, "asked", style="short") as kumi:
        lazy_texts = texts(kumi)
    with build_index(tmp_path / "two", server, "built", style="short") as kumi:
        assert texts(kumi) == lazy_texts
    with build_index(tmp_path / "three", None, "asked") as kumi:
        lazy_texts = texts(kumi)
        assert all(text.startswith("(") for text in lazy_texts)  # rule-based: no model is set
        assert not (tmp_path / "three" / ".kumi" / "cache.db").exists()
    with build_index(tmp_path / "four", None, "built") as kumi:
        assert texts(kumi) == lazy_texts


def test_lazy_rows_use_the_settings_of_the_build(tmp_path: Path, server: FakeServer) -> None:
    with build_index(tmp_path, server, "asked", style="short"):
        pass
    with opened(tmp_path, server, briefs={"style": "long", "when": "built"}) as kumi:
        texts(kumi)
        prompts = server.counts()["requests"]
    with opened(tmp_path, server, briefs={"style": "short"}) as kumi:
        texts(kumi)
        assert server.counts()["requests"] == prompts


def test_lazy_rows_can_be_traced_later(lazy: Kumihimo, server: FakeServer) -> None:
    answer = lazy.ask("What?", "briefs_method", depth=0)
    requests = server.counts()["requests"]
    with lazy.snapshot() as reading:  # not the snapshot of the answer
        for item in answer.context:
            (span,) = reading.trace(item)
            assert span.uri in ("notes/a.txt", "notes/b.txt")
            assert reading.find(f"briefs:{item.record.id}").text == item.text
    assert server.counts()["requests"] == requests


def test_table_access_makes_no_rows(lazy: Kumihimo, server: FakeServer) -> None:
    with lazy.snapshot() as reading:
        (id, *_) = [section.id for section in reading.table("sections")]
        assert reading.table("briefs").get(id) is None
        assert list(reading.table("briefs")) == []
    assert server.counts()["requests"] == 0


def test_filtered_rows_are_not_made(lazy: Kumihimo, server: FakeServer) -> None:
    assert len(texts(lazy, filter="uri = 'notes/b.txt'")) == 1
    assert server.counts()["requests"] == 1


def test_capped_question_can_be_continued(lazy: Kumihimo, server: FakeServer) -> None:
    with pytest.raises(ItemFailed, match="--max-calls 2 was reached"):
        lazy.ask("What?", "briefs_method", caps=Caps(calls=2))
    assert server.counts()["requests"] == 2
    answer = lazy.ask("What?", "briefs_method")
    assert answer.usage.calls == 3  # the two remaining rows and the answer
    assert server.counts()["repeats"] == 0


def test_cost_is_estimated(lazy: Kumihimo, server: FakeServer) -> None:
    calls = {e.step: e.calls for e in lazy.estimate_query_cost("briefs_method", "What?").estimates}
    assert calls == {"briefs": (4, 4), "answer": (1, 1)}
    assert (server.counts()["requests"], lazy.cache_stats()["replies"]) == (0, 0)
    texts(lazy, depth=0)
    assert {e.step: e.calls for e in lazy.estimate_query_cost("briefs_method", "What?").estimates} == {"answer": (1, 1)}


# -- reports


def reports_of(tmp_path: Path, when: str, *methods: str, **settings: Any) -> dict[str, str]:
    """Return the reports of all communities, as a method reads them."""
    with Kumihimo(tmp_path / when, {"reports": {"when": when}, **settings}) as kumi:
        built = kumi.index(EXAMPLES, methods=methods)
        assert (built.rows["reports"] > 0) == (when == "built")
        with kumi.snapshot() as reading:
            reports = reading._tables(["reports"], "", reading.models.budget())["reports"]
            ids = [community.id for community in reading.table("communities")]
            return {id: report.text for id in ids if (report := reports.get(id))}


def test_rule_based_lazy_reports_equal_built_ones(tmp_path: Path) -> None:
    lazy_texts = reports_of(tmp_path, "asked", "global")
    assert len(lazy_texts) > 50
    assert lazy_texts == reports_of(tmp_path, "built", "global")


def test_lazy_reports_by_a_model_equal_built_ones(tmp_path: Path, server: FakeServer) -> None:
    report = {"title": "Harbour", "summary": "All of it.", "rating": 5, "rating_explanation": "", "findings": []}
    server.configure(replies=[("", json.dumps(report))])
    by_rule = {name: {"model": "rules"} for name in ("mentions", "entities", "relations", "claims")}
    settings = {"chat": {"model": "m", "base_url": server.url}, **by_rule}
    lazy_texts = reports_of(tmp_path, "asked", "global", **settings)
    requests = server.counts()["requests"]
    assert lazy_texts == reports_of(tmp_path, "built", "global", **settings)
    assert requests == server.counts()["requests"] / 2  # two caches, the same prompts


def test_reports_of_a_default_index_are_rule_based(tmp_path: Path, server: FakeServer) -> None:
    chat = {"model": "m", "base_url": server.url}
    lazy_texts = reports_of(tmp_path / "one", "asked", chat=chat)
    assert server.counts()["requests"] == 0
    assert lazy_texts == reports_of(tmp_path / "two", "built", "global")


def test_corpus_level_question_makes_only_its_level(tmp_path: Path) -> None:
    with Kumihimo(tmp_path / ".kumi", {"reports": {"when": "asked"}}) as kumi:
        kumi.index(EXAMPLES, methods=["global"])
        with kumi.snapshot() as reading:
            answer = reading.ask("What are the main themes of these documents?", "global", level=9)
            assert answer.citations
            leaves = {community.id for community in reading.table("communities") if not community.children}
            assert set(reading.lazy_rows["reports"]) == leaves


# -- the classes alone


@dataclass
class FailingLLM:
    """LLM that fails a number of times."""

    fingerprint: str = "m"
    failures_left: int = 0
    calls: int = 0
    lock: Any = None

    def __call__(self, prompt: str) -> str:
        with self.lock:
            self.calls += 1
            if self.failures_left:
                self.failures_left -= 1
                raise ItemFailed("the model is ill")
        return prompt.upper()


def row_maker(ask: Any, futures: dict[str, Future[Row | None]]) -> RowMaker:
    steps = {ROOT: STEPS["chunks"], **STEPS}
    step = next(
        step
        for step in order_steps({n: s for n, s in steps.items() if n in ("chunks", "sections", "briefs")})
        if step.name == "briefs"
    )
    held_sections = Held((), [("d.00000", "one", 0), ("d.00001", "two", 1)])
    return RowMaker(
        step,
        {"style": "s", "when": "built"},
        {"llm": ask},
        lambda t: held_sections if t == "sections" else Held((), ()),
        futures,
    )


def test_concurrent_reads_make_one_row() -> None:
    ask, barrier = FailingLLM(lock=Lock()), Barrier(8)
    rows = LazyRows(Held((), ()), row_maker(ask, {}))

    def get(id: str) -> Row | None:
        barrier.wait()
        return rows.get(id)

    rows_found = list(map_concurrent(get, ["d.00000", "d.00001"] * 4, 8))
    assert {row[:2] for row in rows_found if row} == {("d.00000", "S: ONE / S: TWO"), ("d.00001", "S: TWO")}
    assert ask.calls == 2


def test_failed_row_is_tried_again() -> None:
    ask = FailingLLM(failures_left=1, lock=Lock())
    rows = LazyRows(Held((), ()), row_maker(ask, {}))
    with pytest.raises(ItemFailed, match="the model is ill"):
        rows.get("d.00000")
    assert rows.get("d.00000") == ("d.00000", "S: ONE / S: TWO")
    lenient = replace(rows, make=row_maker(FailingLLM(failures_left=9, lock=Lock()), {}), lenient=True)
    assert lenient.get("d.00000") is None
