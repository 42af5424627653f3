"""models of several habits, a town, examples -> the total of a plan holds what the build asks, at first and later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import plans
from benchmarks.habits import USUAL, HabitModels
from benchmarks.plans import Comparison

from kumihimo import Kumihimo
from kumihimo.app.build.cost import PlanEstimator, RequestTally
from kumihimo.app.opened.results import Plan, Total
from kumihimo.core.errors import IndexUnavailable
from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import Prices
from tests import cli_runner
from tests.factories_paid_steps import notes, opened, paid
from tests.fake_server import FakeServer

__all__ = ["paid"]
CORPORA = {"town": plans.town(120), "examples": plans.examples()}


def town(folder: Path, options: dict[str, object] | None = None) -> Kumihimo:
    """Write the town and open a new index of the usual model."""
    (folder / "town").mkdir()
    for name, text in CORPORA["town"].items():
        (folder / "town" / name).write_text(text, encoding="utf-8")
    kumi = Kumihimo(folder / ".kumi", {"mentions": options or {}})
    kumi.models = HabitModels(kumi.models.settings, kumi.models.cache)
    return kumi


def test_the_total_of_a_build_lies_within_a_narrow_plan(tmp_path: Path) -> None:
    first, later = plans.compare("examples", CORPORA["examples"], tmp_path, USUAL, ("local", "global"))
    for comparison, calls, tokens in ((first, 2, 4), (later, 1.3, 2)):
        assert comparison.built.spent["mentions"].calls
        assert comparison.total_is_within, str(comparison)
        assert comparison.widths()[0] <= calls + 0.05, str(comparison)
        assert comparison.widths()[1] <= tokens + 0.01, str(comparison)


@pytest.mark.parametrize("options", [{}, {"claims": True}, {"glean_below": 0}])
def test_steps_that_share_a_conversation_are_planned_once(options: dict[str, object], tmp_path: Path) -> None:
    with town(tmp_path, options) as kumi:
        plan = kumi.plan(tmp_path / "town", methods=["local"])
        asked = kumi.index(tmp_path / "town", methods=["local"]).spent["mentions"].calls
    estimates = {estimate.step: estimate for estimate in plan.estimates}
    low, high = estimates["mentions"].calls
    assert low <= asked <= high <= 1.3 * asked


@pytest.mark.parametrize(("keys", "least", "most"), [(0, 100, 145), (20, 139, 161), (90, 100, 145)])
def test_built_keys_tell_how_many_turns_a_key_takes(keys: int, least: int, most: int) -> None:
    tally = RequestTally("m", Prices(), 1, calls=100, tokens=150_000, read=50_000, followups=100)
    past = {"mentions": Usage(calls=30, completion_tokens=9_000)}
    [estimate] = PlanEstimator({"mentions": tally}, past=past, built_keys={"mentions": keys}).estimates()
    assert estimate.calls == (least, most)


def test_a_plan_that_is_too_low_is_noticed(tmp_path: Path) -> None:
    first, _ = plans.compare("town", CORPORA["town"], tmp_path, USUAL, ("local",))
    low = Plan(tuple(e for e in first.plan.estimates if e.step != "mentions"))
    assert first.total_is_within
    assert not Comparison("", low, first.built).total_is_within


def test_every_step_and_method_has_a_total(tmp_path: Path) -> None:
    source = tmp_path / "town"
    with town(tmp_path) as kumi:
        plan = kumi.plan(source, methods=["local", "meta", "discourse", "bm25"])
        alone = {name: kumi.plan(source, methods=[name]).total for name in ("local", "meta", "discourse")}
    assert all(estimate.cost and estimate.calls[1] and estimate.seconds[1] for estimate in plan.estimates)
    assert plan.total == Total.of("total", plan.estimates)
    assert [total.name for total in plan.methods] == ["local", "meta", "discourse"]  # bm25 asks nothing
    for total in plan.methods:
        assert (total.calls, total.tokens, total.cost) == tuple(
            getattr(alone[total.name], name) for name in ("calls", "tokens", "cost")
        )
    assert plan.calls[1] == sum(total.calls[1] for total in plan.methods)  # these three share no step


@pytest.mark.usefixtures("paid")
def test_texts_that_are_not_written_yet_are_embedded_too(tmp_path: Path, server: FakeServer) -> None:
    embedding = {"model": "e", "base_url": server.url, "price": 1.0, "batch": 4}
    with opened(tmp_path, server, embedding=embedding) as kumi:
        plan = kumi.plan(notes(tmp_path / "notes", 30), methods=["meant"])
        built = kumi.index(tmp_path / "notes", methods=["meant"])
    steps = {estimate.step: estimate for estimate in plan.estimates}
    assert steps.keys() == {"gists", "embedding"}
    low, high = steps["embedding"].calls
    assert low <= built.spent["embedding"].calls <= high


def test_without_prices_the_plan_says_what_to_set(tmp_path: Path, server: FakeServer) -> None:
    notes(tmp_path / "notes", 9)
    setting = (f"chat.base_url={server.url}", "chat.model=m")
    command = ["plan", "notes", "--methods", "local,meta", *(word for each in setting for word in ("--set", each))]
    shown = cli_runner.kumi(tmp_path, *command).stdout
    assert "?" not in shown
    assert "Cost needs prices: prompt_price, completion_price under [chat]" in shown
    assert max(map(len, shown.splitlines()[:9])) <= 80
    lines = [line.split()[0] for line in shown.splitlines() if line]
    assert [name for name in lines if name in ("total", "local", "meta")] == ["total", "local", "meta"]
    plan = json.loads(cli_runner.kumi(tmp_path, *command, "--json").stdout)
    assert plan["total"]["cost"] is None
    assert plan["total"]["calls"][0] > 9
    prices = ["--set", "chat.prompt_price=2", "--set", "chat.completion_price=8"]
    plan = json.loads(cli_runner.kumi(tmp_path, *command, *prices, "--json").stdout)
    assert 0 < plan["total"]["cost"][0] < plan["total"]["cost"][1]
    assert [method["name"] for method in plan["methods"]] == ["local", "meta"]
    assert "Cost needs prices" not in cli_runner.kumi(tmp_path, *command, *prices).stdout


def test_a_question_at_a_level_without_written_reports_names_the_command(tmp_path: Path) -> None:
    source = tmp_path / "texts"
    source.mkdir()
    for name, text in CORPORA["examples"].items():
        (source / name).write_text(text, encoding="utf-8")
    with Kumihimo(tmp_path / ".kumi", {"reports": {"depth": 0}}) as kumi:
        kumi.models = HabitModels(kumi.models.settings, kumi.models.cache)
        kumi.index(source, methods=["global"])
        with kumi.snapshot("") as snapshot:
            assert {row.level for row in snapshot.table("reports") if row.written_with} == {0}
        kumi.retrieve("Who mends the nets?", "global", level=0)
        with pytest.raises(IndexUnavailable, match=r"down to level 0: `kumi index --set reports.depth=1` writes"):
            kumi.retrieve("Who mends the nets?", "global")


def test_an_up_to_date_index_costs_nothing(tmp_path: Path) -> None:
    with town(tmp_path) as kumi:
        kumi.index(tmp_path / "town", methods=["local"])
        assert kumi.plan(tmp_path / "town", methods=["local"]) == Plan(())
