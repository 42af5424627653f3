"""Rows that are made when they are first asked for -> as if they had been built: each paid once, and none unasked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Barrier, Lock
from typing import Any, ClassVar, Literal

import pytest

from kumihimo import Kumihimo
from kumihimo.app import settings_registry
from kumihimo.app.lazy_rows import LazyRows, RowMaker
from kumihimo.app.snapshot import RECORD_TYPES
from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Chunk, Record
from kumihimo.core.signature import collect_signatures
from kumihimo.core.table import Row, Table
from kumihimo.core.wiring import ROOT, order_steps
from kumihimo.index import STEPS
from kumihimo.llm.budget import Caps
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.protocols import LLM
from kumihimo.llm.registry import scope_chat_settings
from kumihimo.methods import METHODS
from kumihimo.testing.fake_server import FakeServer
from tests.factories_paid_steps import opened
from tests.factories_tables import Held
from tests.fixtures_index import EXAMPLES, fill

NOTES = {
    "a.txt": "The ferry leaves at nine. The gate leaks badly. The lamp is lit.",
    "b.txt": "Oats grow here.",
}


@dataclass(frozen=True, slots=True)
class Part(Record):
    WAVE: ClassVar[str] = "level"
    level: int


@dataclass(frozen=True, slots=True)
class Brief(Record):
    pass


def parts(chunk: Chunk) -> Part:
    """A chunk, and how deep it stands in its document."""
    return Part(text=chunk.text, level=chunk.ordinal)


def briefs(
    part: Part,
    briefs: Table[Brief],
    llm: LLM | None,
    *,
    style: str = "plain",
    when: Literal["built", "asked"] = "built",
) -> Brief | None:
    """What a part says, and what is said of those below it."""
    if when == "asked":
        return None
    document, _, ordinal = part.id.rpartition(".")
    below = briefs.get(f"{document}.{int(ordinal) + 1:05}")
    told = part.text + (f" / {below.text}" if below else "")
    if llm is None:
        return Brief(text=f"({told})")
    return Brief(text=llm(f"{style}: {told}"))


def briefed(question: str, parts: Table[Part], briefs: Table[Brief], *, depth: int = 9, times: int = 1) -> Context:
    """The briefs of all parts down to some depth, so many times over."""
    ids = [part.id for part in parts if part.level <= depth] * times
    found = map_concurrent(briefs.get, ids, 4)
    return Context(tuple(Evidence("briefs", brief, 1.0) for brief in found if brief))


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = collect_signatures(parts, briefs)
    for name, step in steps.items():
        monkeypatch.setitem(STEPS, name, step)
        monkeypatch.setitem(RECORD_TYPES, name, step.output_type)
        monkeypatch.setitem(
            settings_registry.ALL_SETTINGS, name, {**step.settings, **scope_chat_settings(step.settings)}
        )
        monkeypatch.setitem(settings_registry.SETTINGS, name, step.settings)
    for name, method in collect_signatures(briefed).items():
        monkeypatch.setitem(METHODS, name, method)
        monkeypatch.setitem(settings_registry.SETTINGS, name, method.settings)
        monkeypatch.setitem(settings_registry.ALL_SETTINGS, name, method.settings)
    monkeypatch.setattr(settings_registry, "LLM_SCOPES", (*settings_registry.LLM_SCOPES, "briefs"))


SMALL: dict[str, Any] = {"chunks": {"size": 6, "overlap": 0}}


def indexed(tmp_path: Path, server: FakeServer | None, when: str, **more: Any) -> Kumihimo:
    settings = {**SMALL, "briefs": {"when": when, **more}}
    kumi = opened(tmp_path, server, **settings) if server else Kumihimo(tmp_path / ".kumi", settings)
    kumi.index(fill(tmp_path / "notes", NOTES), methods=["briefed"])
    return kumi


@pytest.fixture
def lazy(tmp_path: Path, server: FakeServer) -> Iterator[Kumihimo]:
    with indexed(tmp_path, server, "asked") as kumi:
        assert kumi.status().rows["parts"] == 4
        yield kumi


def said(kumi: Kumihimo, **settings: Any) -> list[str]:
    return [item.text for item in kumi.retrieve("What?", "briefed", **settings)]


def test_nothing_is_made_at_first(lazy: Kumihimo, server: FakeServer) -> None:
    assert lazy.status().rows["briefs"] == 0
    assert lazy.index().spent == {}
    assert server.counts()["requests"] == 0


def test_what_is_asked_for_is_made_with_what_it_is_made_of_once(lazy: Kumihimo, server: FakeServer) -> None:
    first = said(lazy, depth=0, times=5)
    assert len(first) == 2
    assert server.counts()["requests"] == 4  # each of both documents, and all below
    everything = said(lazy)
    assert (len(everything), server.counts()["requests"]) == (4, 4)
    assert lazy.status().rows["briefs"] == 0
    assert {(s.scope, s.usage.calls) for s in lazy.spent() if s.kind == "spent"} == {("briefs", 4)}


def test_only_what_is_needed_is_made(tmp_path: Path, server: FakeServer) -> None:
    with indexed(tmp_path, server, "asked") as kumi, kumi.snapshot() as reading:
        deepest = max((part for part in reading.table("parts")), key=lambda part: part.level)
        rows = reading._rows("briefs", reading.models.budget())
        assert rows.get(deepest.id)
        assert server.counts()["requests"] == 1
        assert rows.get("nobody") is None
        assert [rows.ids(("id",), (id,)) for id in (deepest.id, "nobody")] == [[deepest.id], []]
        assert [len(rows.where(("id",), (id,))) for id in (deepest.id, "nobody")] == [1, 0]
        assert (list(rows.pages()), rows.count()) == ([], 0)


def test_they_are_as_if_they_had_been_built(tmp_path: Path, server: FakeServer) -> None:
    with indexed(tmp_path / "one", server, "asked", style="short") as kumi:
        later = said(kumi)
    with indexed(tmp_path / "two", server, "built", style="short") as kumi:
        assert said(kumi) == later
    with indexed(tmp_path / "three", None, "asked") as kumi:
        later = said(kumi)
        assert all(text.startswith("(") for text in later)  # by rule: no model is set
        assert not (tmp_path / "three" / ".kumi" / "cache.db").exists()
    with indexed(tmp_path / "four", None, "built") as kumi:
        assert said(kumi) == later


def test_they_are_made_as_the_index_was_built(tmp_path: Path, server: FakeServer) -> None:
    with indexed(tmp_path, server, "asked", style="short"):
        pass
    with opened(tmp_path, server, briefs={"style": "long", "when": "built"}) as kumi:
        said(kumi)
        prompts = server.counts()["requests"]
    with opened(tmp_path, server, briefs={"style": "short"}) as kumi:
        said(kumi)
        assert server.counts()["requests"] == prompts


def test_what_is_made_is_traced_now_and_later(lazy: Kumihimo, server: FakeServer) -> None:
    answer = lazy.ask("What?", "briefed", depth=0)
    asked = server.counts()["requests"]
    with lazy.snapshot() as reading:  # another one than the answer came from
        for item in answer.context:
            (span,) = reading.trace(item)
            assert span.uri in ("notes/a.txt", "notes/b.txt")
            assert reading.find(f"briefs:{item.record.id}").text == item.text
    assert server.counts()["requests"] == asked


def test_what_is_not_made_is_not_paid_for_by_looking(lazy: Kumihimo, server: FakeServer) -> None:
    with lazy.snapshot() as reading:
        (id, *_) = [part.id for part in reading.table("parts")]
        assert reading.table("briefs").get(id) is None
        assert list(reading.table("briefs")) == []
    assert server.counts()["requests"] == 0


def test_what_does_not_pass_is_not_made(lazy: Kumihimo, server: FakeServer) -> None:
    assert len(said(lazy, filter="uri = 'notes/b.txt'")) == 1
    assert server.counts()["requests"] == 1


def test_a_cap_ends_the_question_and_the_next_goes_on(lazy: Kumihimo, server: FakeServer) -> None:
    with pytest.raises(ItemFailed, match="--max-calls 2 was reached"):
        lazy.ask("What?", "briefed", caps=Caps(calls=2))
    assert server.counts()["requests"] == 2
    answer = lazy.ask("What?", "briefed")
    assert answer.usage.calls == 3  # the other two, and the answer
    assert server.counts()["repeats"] == 0


def test_what_it_costs_is_foretold(lazy: Kumihimo, server: FakeServer) -> None:
    calls = {e.step: e.calls for e in lazy.estimate_query_cost("briefed", "What?").estimates}
    assert calls == {"briefs": (4, 4), "answer": (1, 1)}
    assert (server.counts()["requests"], lazy.cache_stats()["replies"]) == (0, 0)
    said(lazy, depth=0)
    assert {e.step: e.calls for e in lazy.estimate_query_cost("briefed", "What?").estimates} == {"answer": (1, 1)}


# -- reports


def reports_of(tmp_path: Path, when: str, *methods: str, **settings: Any) -> dict[str, str]:
    """The reports of all communities, as a method reads them."""
    with Kumihimo(tmp_path / when, {"reports": {"when": when}, **settings}) as kumi:
        built = kumi.index(EXAMPLES, methods=methods)
        assert (built.rows["reports"] > 0) == (when == "built")
        with kumi.snapshot() as reading:
            reports = reading._tables(["reports"], "", reading.models.budget())["reports"]
            ids = [community.id for community in reading.table("communities")]
            return {id: report.text for id in ids if (report := reports.get(id))}


def test_reports_by_rule_are_those_of_a_build(tmp_path: Path) -> None:
    later = reports_of(tmp_path, "asked", "global")
    assert len(later) > 50
    assert later == reports_of(tmp_path, "built", "global")


def test_reports_of_a_model_are_those_of_a_build(tmp_path: Path, server: FakeServer) -> None:
    report = {"title": "Harbour", "summary": "All of it.", "rating": 5, "rating_explanation": "", "findings": []}
    server.configure(replies=[("", json.dumps(report))])
    by_rule = {name: {"model": "rules"} for name in ("mentions", "entities", "relations", "claims")}
    settings = {"chat": {"model": "m", "base_url": server.url}, **by_rule}
    later = reports_of(tmp_path, "asked", "global", **settings)
    asked = server.counts()["requests"]
    assert later == reports_of(tmp_path, "built", "global", **settings)
    assert asked == server.counts()["requests"] / 2  # one memo each, and the same was asked


def test_reports_of_an_index_that_nobody_named_methods_for_are_by_rule(tmp_path: Path, server: FakeServer) -> None:
    chat = {"model": "m", "base_url": server.url}
    later = reports_of(tmp_path / "one", "asked", chat=chat)
    assert server.counts()["requests"] == 0
    assert later == reports_of(tmp_path / "two", "built", "global")


def test_a_question_of_the_whole_makes_its_level_alone(tmp_path: Path) -> None:
    with Kumihimo(tmp_path / ".kumi", {"reports": {"when": "asked"}}) as kumi:
        kumi.index(EXAMPLES, methods=["global"])
        with kumi.snapshot() as reading:
            answer = reading.ask("What are the main themes of these documents?", "global", level=9)
            assert answer.citations
            leaves = {community.id for community in reading.table("communities") if not community.children}
            assert set(reading.lazy_rows["reports"]) == leaves


# -- alone


@dataclass
class Telling:
    """A model that fails as often as it is told to."""

    fingerprint: str = "m"
    failing: int = 0
    asked: int = 0
    lock: Any = None

    def __call__(self, prompt: str) -> str:
        with self.lock:
            self.asked += 1
            if self.failing:
                self.failing -= 1
                raise ItemFailed("the model is ill")
        return prompt.upper()


def maker(ask: Any, held: dict[str, Future[Row | None]]) -> RowMaker:
    known = {ROOT: STEPS["chunks"], **STEPS}
    step = next(
        step
        for step in order_steps({n: s for n, s in known.items() if n in ("chunks", "parts", "briefs")})
        if step.name == "briefs"
    )
    parts = Held((), [("d.00000", "one", 0), ("d.00001", "two", 1)])
    return RowMaker(
        step, {"style": "s", "when": "built"}, {"llm": ask}, lambda t: parts if t == "parts" else Held((), ()), held
    )


def test_many_who_ask_at_once_are_given_one() -> None:
    ask, barrier = Telling(lock=Lock()), Barrier(8)
    rows = LazyRows(Held((), ()), maker(ask, {}))

    def get(id: str) -> Row | None:
        barrier.wait()
        return rows.get(id)

    found = list(map_concurrent(get, ["d.00000", "d.00001"] * 4, 8))
    assert {row[:2] for row in found if row} == {("d.00000", "S: ONE / S: TWO"), ("d.00001", "S: TWO")}
    assert ask.asked == 2


def test_what_has_failed_is_tried_again_by_whoever_asks_later() -> None:
    ask = Telling(failing=1, lock=Lock())
    rows = LazyRows(Held((), ()), maker(ask, {}))
    with pytest.raises(ItemFailed, match="the model is ill"):
        rows.get("d.00000")
    assert rows.get("d.00000") == ("d.00000", "S: ONE / S: TWO")
    lenient = replace(rows, make=maker(Telling(failing=9, lock=Lock()), {}), lenient=True)
    assert lenient.get("d.00000") is None
