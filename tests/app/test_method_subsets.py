"""every method alone, and random sets of methods -> plans and builds with a model."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from random import Random

import pytest

from kumihimo import Kumihimo
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.methods import METHODS
from kumihimo.testing.fake_models import FakeChat
from tests import fake_graph_reader

NOTES = {
    "pier.txt": "Ada Vane built the pier in Fenwick. Bea Orrell paid for the stones because the storm took the wall.",
    "ferry.txt": "The ferry of Fenwick leaves at nine. Ada Vane mends it in winter, and Cal Roe sails it.",
}


class OneModel(ModelRegistry):
    """The same fake model for every step, method and role."""

    @cached_property
    def model(self) -> FakeChat:
        return FakeChat(fake_graph_reader.answer, join_messages=True)

    def chat(self, scope: str) -> Chat | None:
        return self.model


def random_sets(count: int) -> list[str]:
    random = Random(19)
    return [",".join(sorted(random.sample(sorted(METHODS), random.randint(2, 5)))) for _ in range(count)]


@pytest.mark.parametrize("names", [*METHODS, *random_sets(10)])
def test_a_set_of_methods_is_planned_and_built(names: str, tmp_path: Path) -> None:
    home = tmp_path / "notes"
    home.mkdir()
    for name, text in NOTES.items():
        (home / name).write_text(text, encoding="utf-8")
    methods = names.split(",")
    with Kumihimo(tmp_path / ".kumi") as kumi:
        kumi.models = OneModel(kumi.models.settings, kumi.models.cache)
        plan = kumi.plan(home, methods=methods)
        built = kumi.index(home, methods=methods)
        steps = {step for method in methods for step in kumi.catalogue.upstream_steps(METHODS[method].tables)}
        scopes = {kumi.catalogue.scope(step) for step in steps if "llm" in kumi.catalogue.steps[step].ports}
        assert {estimate.step for estimate in plan.estimates} >= built.spent.keys() - {"embedding"}
        assert {estimate.step for estimate in plan.estimates} <= scopes
        assert kumi.status().methods == tuple(methods)
        for method in methods:
            kumi.estimate_query_cost(method, "Who built the pier?")
            kumi.retrieve("Who built the pier?", method)
