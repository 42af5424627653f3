"""fake models, a town, examples, podcasts -> a plan holds what the build then asks, before and after a sample."""

from __future__ import annotations

import json
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
from benchmarks import plans
from benchmarks.plans import Comparison, Corpus
from benchmarks.tiny_data import write_tiny_data

from kumihimo import Kumihimo
from kumihimo.app.opened.results import Plan, Total
from tests import cli_runner
from tests.factories_paid_steps import notes, opened, paid
from tests.fake_server import FakeServer

__all__ = ["paid"]
MOST_MISSES = 0.1  # of the counts of single steps; totals have none


def corpora(folder: Path) -> dict[str, Corpus]:
    data = write_tiny_data(folder / "data")
    return {
        "town": plans.town(folder, 120),
        "examples": plans.examples(folder),
        "podcasts": plans.podcasts(folder, data, 8),
    }


def check(comparison: Comparison) -> None:
    misses = comparison.misses()
    assert comparison.total_is_within, misses
    assert len(misses) <= MOST_MISSES * comparison.checked + 1, misses


@pytest.mark.parametrize("name", ["town", "examples", "podcasts"])
@pytest.mark.parametrize("sample", [0, 4])
def test_a_build_stays_within_its_plan(name: str, sample: int, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    comparisons = list(plans.compare(corpora(tmp_path)[name], tmp_path / "index", sample=sample))
    assert len(comparisons) == 2
    assert comparisons[0].built.spent["mentions"].calls
    for comparison in comparisons:
        check(comparison)


@pytest.mark.parametrize("sample", [0, 3])
@pytest.mark.parametrize(("options", "calls"), [({}, 12), ({"claims": True}, 18), ({"glean_from": 999}, 6)])
def test_steps_that_share_a_conversation_are_planned_once(
    options: dict[str, Any], calls: int, sample: int, tmp_path: Path
) -> None:
    corpus = plans.town(tmp_path, 120)
    corpus = replace(corpus, methods=("local",), settings={"mentions": {"glean_from": 1, **options}})
    comparison = next(plans.compare(corpus, tmp_path / "index", sample=sample))
    estimates = {estimate.step: estimate for estimate in comparison.plan.estimates}
    mentions = estimates["mentions"]
    left = round(calls * (6 - sample) / 6)
    assert comparison.built.spent["mentions"].calls == left
    assert mentions.calls[0] <= left <= mentions.calls[1]
    if sample:
        assert sqrt(mentions.calls[0] * mentions.calls[1]) == pytest.approx(left, rel=0.1)
    else:
        assert mentions.calls[1] == left
    check(comparison)


def test_a_plan_that_is_too_low_is_noticed(tmp_path: Path) -> None:
    first, _ = plans.compare(plans.town(tmp_path, 120), tmp_path / "index")
    low = Plan(tuple(e for e in first.plan.estimates if e.step != "reports"))
    assert not Comparison("", low, first.built).total_is_within or Comparison("", low, first.built).misses()
    assert "reports: not planned" in Comparison("", low, first.built).misses()


def test_every_step_and_method_has_a_total(tmp_path: Path) -> None:
    corpus = plans.town(tmp_path, 120)
    corpus.write(2)
    with corpus.open(tmp_path) as kumi:
        plan = kumi.plan(corpus.source, methods=["local", "meta", "discourse", "bm25"])
        alone = {name: kumi.plan(corpus.source, methods=[name]).total for name in ("local", "meta", "discourse")}
        sampled = kumi.plan(corpus.source, methods=["local"], sample=3).total
    assert all(estimate.cost and estimate.calls[1] and estimate.seconds[1] for estimate in plan.estimates)
    assert plan.total == Total.of("total", plan.estimates)
    assert [total.name for total in plan.methods] == ["local", "meta", "discourse"]  # bm25 asks nothing
    for total in plan.methods:
        assert (total.calls, total.tokens, total.cost) == tuple(
            getattr(alone[total.name], name) for name in ("calls", "tokens", "cost")
        )
    assert plan.calls[1] == sum(total.calls[1] for total in plan.methods)  # these three share no step
    assert sampled.calls[1] < alone["local"].calls[1]


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


def test_an_up_to_date_index_costs_nothing(tmp_path: Path) -> None:
    corpus = plans.town(tmp_path, 120)
    corpus.write(1)
    with corpus.open(tmp_path) as kumi:
        assert isinstance(kumi, Kumihimo)
        kumi.index(corpus.source, methods=["local"])
        assert kumi.plan(corpus.source, methods=["local"]) == Plan(())
