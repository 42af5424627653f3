"""models, caps, changes -> payments: nothing unrequested, nothing twice, nothing above a cap, all recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened import catalogue as catalogue_module
from kumihimo.app.opened.results import Plan
from kumihimo.core.context import Context
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import BudgetExceeded, ConsentRequired, KumiError, ModelError, SettingsError
from kumihimo.core.records import Chunk
from kumihimo.core.signature import collect_signatures, declare
from kumihimo.core.table import Table
from kumihimo.llm.budget import Caps
from kumihimo.llm.protocols import LLM
from kumihimo.search.protocols import KeywordSearch
from kumihimo.storage.postgres.connection import PostgresConnection
from kumihimo.storage.sqlite.connection import SqliteConnection
from tests.factories_paid_steps import install, notes, opened, paid
from tests.fake_clock import FakeClock, clock as clock
from tests.fake_server import FakeServer
from tests.stores import NEEDS_FILES
from tests.toy_steps import Gist

__all__ = ["paid"]
pytestmark = pytest.mark.usefixtures("paid")
COUNT = 30


def texts(kumi: Kumihimo, table: str) -> list[str]:
    with kumi.snapshot() as snapshot:
        return [record.text for record in snapshot.table(table)]


def test_what_is_free_is_built_unasked_and_what_is_paid_for_is_not(tmp_path: Path, server: FakeServer) -> None:
    embedding = {"model": "e", "base_url": server.url}
    with opened(tmp_path, server, embedding=embedding) as kumi:
        built = kumi.index(notes(tmp_path / "notes", 3))
        assert kumi.status().methods == ("bm25",)
        assert built.skipped_methods == (
            "braid",
            "wide",
            "naive",
            "hyde",
            "rq",
            "global",
            "local",
            "drift",
            "light",
            "meta",
            "discourse",
            "told",
            "meant",
        )
        assert "gists" not in built.rows
        assert server.counts()["requests"] == 0
        kumi.index(methods=["bm25", "naive", "told"])
        assert kumi.index().skipped_methods == ()  # the index remembers the requested methods
        assert (server.counts()["embeddings"], kumi.status().rows["gists"]) == (1, 3)


@NEEDS_FILES
def test_building_again_and_anew_asks_nothing(tmp_path: Path, server: FakeServer) -> None:
    source = notes(tmp_path / "notes", COUNT)
    with opened(tmp_path, server) as kumi:
        kumi.index(source, methods=["told"])
        requests = server.counts()["requests"]
        assert requests == COUNT + 7
        assert kumi.index().spent == {}
        (source / "000.txt").write_text("A note that is new.", "utf-8")
        assert kumi.index().spent["gists"].calls == 1
        kumi.remove("notes/000.txt")
    (tmp_path / ".kumi" / "index.db").unlink()
    before = server.counts()["requests"]
    with opened(tmp_path, server) as kumi:
        built = kumi.index(source, methods=["told"])
    assert server.counts()["requests"] == before
    assert built.saved["gists"].calls == COUNT


@NEEDS_FILES
def test_a_rebuild_without_replies_needs_consent(tmp_path: Path, server: FakeServer) -> None:
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", COUNT), methods=["told"])
    (tmp_path / ".kumi" / "cache.db").unlink()
    requests = server.counts()["requests"]
    with opened(tmp_path, server) as kumi:
        with pytest.raises(ConsentRequired, match=r"again: .* calls.*`kumi index --rebuild --yes` does it"):
            kumi.index(rebuild=True)
        assert server.counts()["requests"] == requests
        assert kumi.index(rebuild=True, consent=True).spent["gists"].calls == COUNT


@pytest.mark.parametrize(("name", "cap"), [("calls", 12), ("tokens", 500), ("cost", 0.002)])
def test_a_cap_is_met_within_one_call_and_the_next_run_goes_on(
    tmp_path: Path, server: FakeServer, name: str, cap: Any
) -> None:
    source, prices = notes(tmp_path / "notes", COUNT), {"prompt_price": 2.0, "completion_price": 6.0}
    with opened(tmp_path, server, chat={**prices, "workers": 16}) as kumi:
        built = kumi.index(source, methods=["told"], caps=replace(Caps(), **{name: cap}))
        total = sum((u for u in built.spent.values()), start=type(built.spent["gists"])())
        one = {"calls": 0, "tokens": 40, "cost": 40 * 6 / 1e6}[name]
        assert cap - one <= getattr(total, name) <= cap + one
        assert {why.partition(":")[0] for _, _, why in built.failed} == {"capped"}
        assert built.rows["gists"] + sum(step == "gists" for step, _, _ in built.failed) == COUNT
        assert kumi.status().failed == built.failed
        again = kumi.index()
        assert not again.failed
        assert (again.rows["gists"], again.rows["themes"]) == (COUNT, 7)
        counted, spent = server.counts(), [s.usage for s in kumi.spent() if s.kind == "spent"]
    assert counted["requests"] == sum(u.calls for u in spent)
    assert counted["prompt_tokens"] == sum(u.prompt_tokens for u in spent)
    assert counted["completion_tokens"] == sum(u.completion_tokens for u in spent)
    assert counted["repeats"] == 0


def test_a_cap_on_a_question(tmp_path: Path, server: FakeServer) -> None:
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 3))
        with pytest.raises(BudgetExceeded, match="--max-calls 1 was reached"):
            kumi.ask("Which ferry?", "hyde", caps=Caps(calls=1))
        answer = kumi.ask("Which ferry?", "hyde", caps=Caps(calls=1))  # the passage is cached
        assert (answer.usage.calls, server.counts()["requests"]) == (1, 2)


def test_cached_tokens_and_cost_are_told(tmp_path: Path, server: FakeServer) -> None:
    server.configure(cached=0.5)
    prices = {"prompt_price": 4.0, "cached_price": 1.0, "completion_price": 8.0}
    with opened(tmp_path, server, chat=prices) as kumi:
        kumi.index(notes(tmp_path / "notes", 3))
        usage = kumi.ask("Which ferry?").usage
    assert 0 < usage.cached_tokens == usage.prompt_tokens // 2
    fresh = usage.prompt_tokens - usage.cached_tokens
    assert usage.cost == pytest.approx((fresh * 4 + usage.cached_tokens + usage.completion_tokens * 8) / 1e6)


def test_another_model_prompt_or_setting_is_paid_for_only_by_consent(tmp_path: Path, server: FakeServer) -> None:
    source = notes(tmp_path / "notes", COUNT)
    with opened(tmp_path, server) as kumi:
        kumi.index(source, methods=["told"])
        before = texts(kumi, "gists")
    requests = server.counts()["requests"]
    for change in ({"chat": {"model": "other"}}, {"gists": {"model": "other"}}, {"gists": {"words": 5}}):
        with opened(tmp_path, server, **change) as kumi:
            with pytest.raises(ConsentRequired, match=r"gists(, themes)? would be asked for again: 3"):
                kumi.index()
            assert texts(kumi, "gists") == before
            assert kumi.plan().estimates[0].calls == (COUNT, COUNT)
    assert server.counts()["requests"] == requests
    plans: list[Plan] = []

    def agreeing(plan: Plan, changes: Sequence[str]) -> bool:
        plans.append(plan)
        return True

    with opened(tmp_path, server, gists={"words": 5}) as kumi:
        kumi.index(consent=agreeing)
        assert plans[0].estimates[0].calls == (COUNT, COUNT)
        assert server.counts()["requests"] >= requests + COUNT
    requests = server.counts()["requests"]
    with opened(tmp_path, server) as kumi:  # cached: going back is free and needs no consent
        kumi.index()
        assert texts(kumi, "gists") == before
    assert server.counts()["requests"] == requests


def test_another_embedding_model_needs_consent_even_where_it_is_free(tmp_path: Path, server: FakeServer) -> None:
    embedding = {"model": "e", "base_url": server.url}
    with opened(tmp_path, server, embedding=embedding) as kumi:
        kumi.index(notes(tmp_path / "notes", 3), methods=["naive"])
    with opened(tmp_path, server) as kumi:
        with pytest.raises(ConsentRequired, match="were embedded by e, and would be by wordllama"):
            kumi.index()
        with pytest.raises(KumiError, match=r"embedded by e: set that as `model` under \[embedding\]"):
            kumi.retrieve("Which ferry?")
        kumi.index(consent=True)
        assert len(kumi.retrieve("Which ferry?")) == 3


def test_keys_that_come_and_go_change_nothing(
    tmp_path: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.configure(key="right")
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 5), methods=["told"])
        before = {table: texts(kumi, table) for table in ("gists", "themes")}
    requests = server.counts()["requests"]
    for key in ("wrong", None):
        monkeypatch.setenv("OPENAI_API_KEY", key) if key else monkeypatch.delenv("OPENAI_API_KEY")
        with opened(tmp_path, server) as kumi:
            assert not kumi.index().failed
            assert {table: texts(kumi, table) for table in before} == before
            assert kumi.status().methods == ("told",)
            (tmp_path / "notes" / "new.txt").write_text("A new note.", "utf-8")
            with pytest.raises(ModelError, match=r"Incorrect API key.*OPENAI_API_KEY"):
                kumi.index()
            assert {table: texts(kumi, table) for table in before} == before
            (tmp_path / "notes" / "new.txt").unlink()
    assert server.counts()["requests"] == requests + 2
    bare = Kumihimo(tmp_path / ".kumi")  # no model is set now
    with bare as kumi:
        assert not kumi.index().failed
        assert {table: texts(kumi, table) for table in before} == before
        (tmp_path / "notes" / "new.txt").write_text("A new note.", "utf-8")
        with pytest.raises(SettingsError, match=r"gists was made by m .*, and no model is set now: set `model"):
            kumi.index()
        assert {table: texts(kumi, table) for table in before} == before


def test_a_key_in_the_environment_alone_asks_nobody(
    tmp_path: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "some")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(notes(tmp_path / "notes", 3))
        assert kumi.ask("Which ferry?").model == ""
    monkeypatch.setenv("KUMI_CHAT_MODEL", "m")
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        assert kumi.ask("Which ferry?").model.startswith("m ")
    assert server.counts()["requests"] == 1


def test_a_plan_says_what_will_be_asked(tmp_path: Path, server: FakeServer) -> None:
    source = notes(tmp_path / "notes", COUNT)
    with opened(tmp_path, server) as kumi:
        plan = kumi.plan(source, methods=["told"])
        gist, theme = plan.estimates
        assert (gist.step, gist.exact, gist.calls) == ("gists", True, (COUNT, COUNT))
        assert (theme.step, theme.exact) == ("themes", False)
        assert theme.calls[0] <= 7 <= theme.calls[1] <= 2 * COUNT
        assert server.counts()["requests"] == 0
        kumi.index(notes(tmp_path / "first", 10), methods=["told"])
        spent = server.counts()["requests"]
        assert 10 < spent <= 17
        gist, theme = kumi.plan(source, methods=["told"]).estimates
        assert gist.calls == (COUNT - 10, COUNT - 10)
        assert theme.calls[1] >= 7
        assert server.counts()["requests"] == spent
        built = kumi.index(source, methods=["told"])
    assert built.spent["gists"].calls == COUNT - 10
    assert gist.prompt_tokens[0] <= built.spent["gists"].prompt_tokens <= gist.prompt_tokens[1]
    assert gist.completion_tokens[0] <= built.spent["gists"].completion_tokens <= gist.completion_tokens[1]
    assert server.counts()["repeats"] == 0


def test_a_plan_knows_how_far_a_conversation_may_go(
    tmp_path: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gists(chunk: Chunk, llm: LLM, *, words: int = 9) -> Gist:
        """Return the subject of a chunk, over several turns."""
        messages: list[Mapping[str, str]] = [{"role": "user", "content": f"{chunk.text}\nThat in {words} words."}]
        for remaining in (2, 1, 0):
            messages.append({"role": "assistant", "content": llm(messages, followups=remaining)})
            if "more" not in messages[-1]["content"]:
                break
            messages.append({"role": "user", "content": "And what else?"})
        return Gist(text=messages[-1]["content"], theme=hash_parts(chunk.text[:1]))

    catalogue = catalogue_module.installed_catalogue()
    other = replace(catalogue, steps={**catalogue.steps, **collect_signatures(gists)})
    monkeypatch.setattr(catalogue_module, "installed_catalogue", lambda: other)
    server.configure(replies=[("note 1", "Harbours, and more"), ("And what else?", "Ferries, that is all")])
    source = notes(tmp_path / "notes", COUNT)
    with opened(tmp_path, server) as kumi:
        blind = kumi.plan(source, methods=["told"]).estimates[0]
        assert (blind.exact, blind.calls) == (False, (COUNT, 3 * COUNT))
        kumi.index(notes(tmp_path / "first", 10), methods=["told"])
        estimate = kumi.plan(source, methods=["told"]).estimates[0]
        assert (estimate.exact, estimate.calls) == (False, (COUNT - 10, 3 * (COUNT - 10)))
        built = kumi.index(source, methods=["told"]).spent["gists"]
        assert estimate.prompt_tokens[0] <= built.prompt_tokens <= estimate.prompt_tokens[1]
        assert estimate.completion_tokens[0] <= built.completion_tokens <= estimate.completion_tokens[1]
        assert estimate.calls[0] <= built.calls <= estimate.calls[1]
        (source / "new.txt").write_text("Another note.", "utf-8")
        again = kumi.plan().estimates[0]
        assert (again.exact, again.calls) == (False, (1, 3))
    assert server.counts()["repeats"] == 0


def test_a_plan_of_what_is_remembered_is_empty(tmp_path: Path, server: FakeServer) -> None:
    source = notes(tmp_path / "notes", 5)
    embedding: dict[str, Any] = {"model": "e", "base_url": server.url, "batch": 2}
    with opened(tmp_path, server, embedding=embedding) as kumi:
        assert kumi.plan(source, methods=["naive"]).estimates[0].calls == (3, 3)
        assert server.counts()["requests"] == 0
        kumi.index(source, methods=["naive"])
        assert server.counts()["requests"] == 3
        assert kumi.plan() == Plan(())


def test_recorded_replies_answer_without_a_server(tmp_path: Path, server: FakeServer) -> None:
    source, tape = notes(tmp_path / "notes", 5), tmp_path / "tape.db"
    with opened(tmp_path / "one", server, memo=tape) as kumi:
        kumi.index(source, methods=["told", "naive"])
        answer = kumi.ask("Which ferry?", "naive")
    server.configure(down=True)
    with opened(tmp_path / "two", server, memo=tape) as kumi:
        kumi.index(source, methods=["told", "naive"])
        again = kumi.ask("Which ferry?", "naive")
    assert (again.text, again.citations, again.usage.calls) == (answer.text, answer.citations, 0)


def test_nothing_beyond_this_machine_is_asked_in_tests(tmp_path: Path) -> None:
    assert os.environ["KUMI_OFFLINE"] == "1"
    for url in ("", "http://192.0.2.1/v1"):
        with Kumihimo(tmp_path / ".kumi", {"chat": {"model": "m", "base_url": url}}) as kumi:
            kumi.index(notes(tmp_path / "notes", 1))
            with pytest.raises(ModelError, match="KUMI_OFFLINE is set"):
                kumi.ask("Which ferry?")


def test_a_cap_on_cost_needs_prices(tmp_path: Path, server: FakeServer) -> None:
    with opened(tmp_path, server) as kumi, pytest.raises(SettingsError, match="a cap on cost needs prices"):
        kumi.index(notes(tmp_path / "notes", 1), caps=Caps(cost=1.0))


def test_requests_are_spaced_where_a_limit_is_set(
    tmp_path: Path, server: FakeServer, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.moves = False
    for connection in (SqliteConnection, PostgresConnection):  # the clock that all processes share
        monkeypatch.setattr(connection, "microseconds", lambda _: round(clock.now * 1_000_000))
    with opened(tmp_path, server, chat={"requests_per_minute": 600}) as kumi:
        kumi.index(notes(tmp_path / "notes", 7), methods=["told"])
    requests = server.counts()["requests"]
    assert requests > 5
    assert sorted(clock.waits) == pytest.approx([0.1 * n for n in range(1, requests)])


def test_a_method_may_bring_its_own_prompt(tmp_path: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt_path = tmp_path / "own.md"
    prompt_path.write_text(
        "# user\n{sources}\n{searched_for}\n{trusted length}\n{user form}\nIn a word: {user question}\n", "utf-8"
    )

    @declare(answer_prompt=prompt_path)
    def briefly(question: str, chunks: Table[Chunk], keyword_search: KeywordSearch) -> Context:
        """Return chunks by keywords, for an answer in a word."""
        return keyword_search(chunks, question, k=5)

    install(monkeypatch, methods=[briefly])
    server.configure(replies=[("In a word:", "Nine."), ("<question>", "At nine.")])
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 3))
        assert (kumi.ask("ferry", "briefly").text, kumi.ask("ferry", "naive").text) == ("Nine.", "At nine.")


def test_an_answer_comes_in_pieces(tmp_path: Path, server: FakeServer) -> None:
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 3))
        pieces = list(kumi.stream("Which ferry?"))
        assert len(pieces) > 1
        assert "".join(pieces) == kumi.ask("Which ferry?").text
        assert "".join(kumi.stream("Which ferry?")) == "".join(pieces)
    assert server.counts()["requests"] == 1


def test_other_vectors_under_the_same_name_are_refused(tmp_path: Path, server: FakeServer) -> None:
    source = notes(tmp_path / "notes", 3)
    with opened(tmp_path, server, embedding={"model": "e", "base_url": server.url}) as kumi:
        kumi.index(source, methods=["naive"])
        server.configure(dimensions=8)
        notes(source, 5)
        with pytest.raises(ModelError, match="8 dimensions now, and gave others before"):
            kumi.index()
        with pytest.raises(ModelError, match="8 dimensions now"):
            kumi.retrieve("A new question", "naive")
        server.configure(dimensions=32)
        assert kumi.index().rows["chunks"] == 5
        assert len(kumi.retrieve("harbour", "naive")) == 5


def test_nothing_is_pruned_while_another_model_is_set(tmp_path: Path, server: FakeServer) -> None:
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 5), methods=["told"])
        assert kumi.ask("Which note tells?").usage.calls == 1
    with opened(tmp_path, server, chat={"model": "other"}) as kumi, pytest.raises(ConsentRequired):
        kumi.prune()
    with opened(tmp_path, server) as kumi:
        assert kumi.prune() == 1  # the answer
        assert kumi.index().spent == {}
    assert server.counts()["repeats"] == 0


def test_what_failed_is_no_reason_to_ask_for_consent(
    tmp_path: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", COUNT), methods=["told"], caps=Caps(calls=5))
        monkeypatch.setattr("kumihimo.app.build.build.code_fingerprint", lambda *_: "a later version")
        assert not kumi.index().failed  # it continues without paying twice
    assert server.counts()["repeats"] == 0
