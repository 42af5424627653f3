"""a model that appears or vanishes, merged names -> changes of an index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.core.errors import SettingsError
from kumihimo.llm.budget import Caps
from tests.fenced_texts import fenced_text
from tests.fixtures_index import Held, apart, fill, tables
from tests.laws.factories_town import SETTINGS, TOWN, Town, differences

SOME_DOCUMENTS = dict(list(TOWN.items())[:3])
MODEL_STEPS = ("mentions", "ties", "assertions", "entities", "relations", "claims", "reports")


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    town = Town(tmp_path)
    yield town
    town.kumi.close()


def without_a_model(town: Town, **settings: Any) -> Kumihimo:
    """Return the same index without a model."""
    return Kumihimo(town.folder / ".kumi", {**town.settings, **settings})


def by_rule(town: Town) -> Held:
    """Build the index without a model."""
    town.write(SOME_DOCUMENTS)
    with without_a_model(town) as kumi:
        kumi.index(town.home)
        return tables(kumi)


def made_by(kumi: Kumihimo) -> set[str]:
    return {maker for step, maker in kumi.status().models.items() if step in MODEL_STEPS}


def test_where_nobody_names_methods_a_model_makes_no_difference(town: Town, tmp_path: Path) -> None:
    town.write(TOWN)
    plan = town.kumi.plan(town.home)
    assert (plan.calls, plan.rule_based) == ((0, 0), ("braid", "global", "local"))
    built = town.kumi.index(town.home)
    assert (built.spent, built.failed, town.reply_counts) == ({}, (), {})
    assert (built.rule_based, built.skipped_methods) == (("braid", "global", "local"), ("meta",))
    assert made_by(town.kumi) == {"rules"}
    other = Town(tmp_path / "other")
    other.write(TOWN)
    with without_a_model(other) as kumi:
        alone = kumi.index(other.home)
        assert not differences(town.all_rows(), tables(kumi))
        assert (alone.rule_based, alone.skipped_methods) == ((), ())
        assert kumi.status().methods == town.kumi.status().methods
    with town.kumi.snapshot() as snapshot:
        assert snapshot.default_method() == "braid"
    other.kumi.close()


def test_what_was_built_unasked_is_made_by_the_model_once_methods_are_named(town: Town, tmp_path: Path) -> None:
    town.write(SOME_DOCUMENTS)
    town.kumi.index(town.home)
    estimate = town.kumi.plan(methods=["local", "discourse"])
    assert (estimate.calls[0] > 0, estimate.rule_based) == (True, ())
    built = town.kumi.index(methods=["local", "discourse"], recluster=True)
    assert (built.rule_based, made_by(town.kumi)) == ((), {"fake"})
    never = Town(tmp_path / "never")
    never.build(SOME_DOCUMENTS)
    assert not differences(town.all_rows(), never.all_rows())
    never.kumi.close()


def test_a_build_by_a_model_that_was_capped_goes_on_by_it(town: Town, tmp_path: Path) -> None:
    capped = town.build(SOME_DOCUMENTS, caps=Caps(calls=1))
    assert {step for step, _, _ in capped.failed} >= {"mentions"}
    assert made_by(town.kumi) == {"fake"}
    assert not town.kumi.index().failed
    never = Town(tmp_path / "never")
    never.build(SOME_DOCUMENTS)
    assert not differences(apart(town.all_rows()), apart(never.all_rows()))
    never.kumi.close()


def test_a_model_of_the_step_itself_waits_to_be_named_for_too(town: Town) -> None:
    town.write(SOME_DOCUMENTS)
    step_settings = {
        **SETTINGS,
        "mentions": {**SETTINGS["mentions"], "model": "small", "base_url": "http://192.0.2.1/v1"},
    }
    with Kumihimo(town.folder / ".kumi", step_settings) as kumi:
        assert kumi.plan(town.home).calls == (0, 0)
        assert (kumi.index(town.home).failed, made_by(kumi)) == ((), {"rules"})
        assert {e.step for e in kumi.plan(methods=["local"]).estimates} == {"mentions"}


def test_a_model_that_appears_changes_nothing(town: Town) -> None:
    rows = by_rule(town)
    assert not town.kumi.index().spent
    assert not differences(town.all_rows(), rows)
    town.write(TOWN)
    assert not town.kumi.index().spent
    assert made_by(town.kumi) == {"rules"}


def test_a_model_that_appears_is_asked_once_a_method_is_named(town: Town, tmp_path: Path) -> None:
    by_rule(town)
    assert town.kumi.index(methods=["local", "discourse"]).spent["mentions"].calls
    assert made_by(town.kumi) == {"fake"}
    never = Town(tmp_path / "never")
    never.build(SOME_DOCUMENTS)
    assert not differences(apart(town.all_rows()), apart(never.all_rows()))
    town.kumi.index(recluster=True)
    assert not differences(town.all_rows(), never.all_rows())
    never.kumi.close()


@pytest.mark.parametrize("methods", [[], ["local", "discourse"], ["local", "discourse", "naive"]])
def test_a_model_that_vanishes_changes_nothing(town: Town, methods: list[str]) -> None:
    town.build(SOME_DOCUMENTS)
    rows = town.all_rows()
    with without_a_model(town) as kumi:
        assert not kumi.plan().calls[1]
        built = kumi.index(methods=methods)
        assert not built.failed
        assert not differences(tables(kumi), rows)
        assert made_by(kumi) == {"fake"}
        assert kumi.retrieve("Who met Ada?", "local")
    assert not town.kumi.index(methods=methods).spent
    assert not differences(town.all_rows(), rows)


def test_without_the_model_that_made_it_documents_can_be_removed_and_nothing_is_forgotten(town: Town) -> None:
    town.build({**SOME_DOCUMENTS, "z.txt": "Zoe met Zed."})
    replies = town.kumi.cache_stats()["replies"]
    with without_a_model(town) as kumi:
        kumi.remove("town/z.txt")
        with pytest.raises(SettingsError, match="needs a chat model"):
            kumi.prune()
        assert kumi.cache_stats()["replies"] == replies
    rows = town.all_rows()
    assert not town.kumi.index().spent
    assert not differences(town.all_rows(), rows)


def test_what_needs_a_model_that_has_vanished_says_so_and_changes_nothing(town: Town) -> None:
    town.build(SOME_DOCUMENTS)
    rows = town.all_rows()
    town.write(TOWN)
    with without_a_model(town) as kumi:
        for _ in range(2):
            with pytest.raises(SettingsError, match=r"frames was made by fake.*set `model"):
                kumi.index()
        assert not differences(tables(kumi), rows)
    assert town.kumi.index().spent["mentions"].calls


def test_a_model_that_was_given_up_is_not_asked(town: Town) -> None:
    town.build(SOME_DOCUMENTS)
    town.write(TOWN)
    with without_a_model(town, chat={"model": "rules"}) as kumi:
        kumi.index()
        assert made_by(kumi) == {"rules"}
        ruled = tables(kumi)
    other = Town(town.folder / "other")
    other.write(TOWN)
    with without_a_model(other) as kumi:
        kumi.index(other.home, methods=["local", "discourse"])
        assert not differences(apart(ruled), apart(tables(kumi)))
    other.kumi.close()


def test_mentions_by_rule_merged_and_reported_on_by_a_model(tmp_path: Path) -> None:
    town = Town(tmp_path, {**SETTINGS, "mentions": {"model": "rules"}})
    built = town.build(SOME_DOCUMENTS)
    assert "mentions" not in built.spent
    assert built.spent["reports"].calls
    models = town.kumi.status().models
    assert [models[step] for step in ("mentions", "ties", "entities", "reports")] == ["rules", "rules", "fake", "fake"]
    assert not town.kumi.index().spent
    town.kumi.close()


def test_edits_ask_only_about_what_they_change_and_are_undone(town: Town) -> None:
    town.build(SOME_DOCUMENTS)
    rows, prompts = town.all_rows(), town.reply_counts
    lines = ["Captain Ada = Ada", "relation: Ada -> Bea = They sail.", "delete: Cal", "type: Bea = sailor"]
    fill(town.folder, {"aliases.txt": "\n".join(lines)})
    with Kumihimo.open(town.folder / ".kumi", settings=SETTINGS) as kumi:
        kumi.models = town.models
        built = kumi.index(consent=True)
        assert (built.failed, built.unmatched) == ((), ())
        with kumi.snapshot() as snapshot:
            entities = {entity.name: entity for entity in snapshot.table("entities")}
            texts = {relation.text for relation in snapshot.table("relations")}
            for table in ("relations", "claims"):
                assert not [row for row in snapshot.table(table) if "Cal" in row.names]
        assert entities["Captain Ada"].forms == ("Ada",)
        assert entities["Bea"].types == ("sailor",)
        assert "Cal" not in entities
        assert "They sail." in texts
        new = [prompt for prompt in town.reply_counts if prompt not in prompts]
        assert all("You bring several descriptions" in prompt or "You write a report" in prompt for prompt in new)
    town.kumi.index(recluster=True)
    assert not differences(town.all_rows(), rows)


def test_an_alias_is_followed_and_taken_back(town: Town) -> None:
    town.build(SOME_DOCUMENTS)
    rows, prompts = town.all_rows(), town.reply_counts
    fill(town.folder, {"aliases.txt": "Ada = Bea\n"})
    with Kumihimo.open(town.folder / ".kumi", settings=SETTINGS) as kumi:
        kumi.models = town.models
        built = kumi.index(consent=True)
        assert not built.failed
        with kumi.snapshot() as snapshot:
            forms = [set(entity.forms) for entity in snapshot.table("entities")]
        assert [each for each in forms if each & {"Ada", "Bea"}] == [{"Ada", "Bea"}]
        new = [prompt for prompt in town.reply_counts if prompt not in prompts]
        merged = [names for prompt in new if (names := fenced_text(prompt, "names"))]
        assert merged
        assert all(re.search("Ada|Bea", names) for names in merged)
        assert len(new) - len(merged) == sum("You write a report" in prompt for prompt in new) <= len(rows["reports"])
        assert not kumi.index().spent
    assert not town.kumi.index().spent.keys() - {"reports"}
    assert not differences(apart(town.all_rows()), apart(rows))
    town.kumi.index(recluster=True)
    assert not differences(town.all_rows(), rows)
    assert set(town.reply_counts.values()) == {1}
