"""names of several documents, resolved by a model -> the laws hold, and an update asks only about what changed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings, strategies as st

from kumihimo.cli.graph_commands import list_merged_names
from kumihimo.core.errors import ItemFailed
from tests import fake_graph_reader
from tests.fixtures_index import Held, apart
from tests.laws.factories_town import SETTINGS, TOWN, Documents, FreshProcess, Settings, Town, differences

WITH_MODEL: Settings = {**SETTINGS, "mentions": {**SETTINGS["mentions"], "resolve": "model"}}
RESOLUTION = ("name_uses", "name_clusters", "same_names")
SPELLINGS = {
    "Ada": "Katherine",
    "Bea": "Katharine",
    "Mo": "Fezziwig",
    "Ned": "Fezziwigg",
    "Pim": "Stephenson",
    "Quin": "Stephensen",
    "Rae": "Marguerite",
    "Sol": "Margueritte",
}
PAIRS = {("Katharine", "Katherine"), ("Fezziwig", "Fezziwigg"), ("Stephensen", "Stephenson")}
PROMPT = "You read numbered entries"
FEW_EXAMPLES = settings(
    max_examples=int(os.environ.get("HISTORIES", "3")),
    derandomize="CI" in os.environ,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
LETTERS = st.sampled_from("abcdefgh")


def rename(text: str) -> str:
    """Return a text of the town in which some people have two names."""
    return re.sub(r"\b[A-Z][a-z]+\b", lambda match: SPELLINGS.get(match[0], match[0]), text)


NAMED = {name: rename(text) for name, text in TOWN.items()}


@pytest.fixture(scope="module")
def twin() -> Iterator[FreshProcess]:
    twin = FreshProcess()
    yield twin
    twin.close()


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """Return the town, resolved by a model; no test changes it."""
    town = Town(tmp_path_factory.mktemp("town"), WITH_MODEL)
    town.build(NAMED)
    yield town
    town.kumi.close()


def asked(town: Town) -> set[str]:
    """Return the clusters that the model was asked about."""
    return {conversation for conversation in town.reply_counts if PROMPT in conversation}


def forms(town: Town) -> set[tuple[str, ...]]:
    with town.kumi.snapshot() as snapshot:
        return {tuple(sorted(entity.forms)) for entity in snapshot.table("entities")}


def check_settled(town: Town, documents: Documents) -> Held:
    """Check that nothing is missing, and that a rebuild changes and asks nothing."""
    contents, counts = town.all_rows(), town.reply_counts
    assert not contents["failed"]
    town.build(documents)
    assert not differences(town.all_rows(), contents)
    assert town.reply_counts == counts
    assert set(counts.values()) <= {1}
    return contents


def test_the_model_merges_names_of_several_documents(town: Town) -> None:
    contents = town.all_rows()
    assert len(asked(town)) == len(contents["name_clusters"]) >= 3
    merged = {form for form in forms(town) if len(form) > 1}
    assert merged & PAIRS
    ids = {row[0] for row in contents["entities"]}
    assert {row[1 + 1] for row in contents["same_names"]}.isdisjoint(ids)  # nothing is left of a merged entity
    check_settled(town, NAMED)


def test_merges_of_the_model_are_listed_with_their_documents(town: Town) -> None:
    with town.kumi.snapshot() as snapshot:
        listed = {(row["name"], row["form"]): row for row in list_merged_names(snapshot, "", 99)["merged"]}
    [merge] = [merge for merge in listed if set(merge) == {"Fezziwig", "Fezziwigg"}]
    row = listed[merge]
    form = re.compile(rf"\b{row['form']}\b")
    assert (row["rule"], row["documents"]) == ("model", [f"town/{n}" for n, text in NAMED.items() if form.search(text)])


def test_another_process_resolves_the_same(town: Town, twin: FreshProcess) -> None:
    assert not differences(twin.fresh(NAMED, WITH_MODEL), town.all_rows())


def test_without_the_setting_nothing_is_asked_and_no_table_is_built(tmp_path: Path, twin: FreshProcess) -> None:
    town = Town(tmp_path)
    town.build(NAMED)
    assert not asked(town)
    assert not town.all_rows().keys() & {*RESOLUTION}
    assert ("Katherine",) in forms(town)
    town.kumi.close()


def test_only_clusters_with_a_new_or_changed_name_are_asked_again(tmp_path: Path) -> None:
    town = Town(tmp_path, WITH_MODEL)
    town.build(NAMED)
    before = asked(town)
    town.build({**NAMED, "x.txt": "Zed met Quentin on a day. Wilma saw Zed."})
    assert asked(town) == before
    town.build({**NAMED, "x.txt": "Kathrine met Quentin on a day."})
    [new] = asked(town) - before
    assert "Names: Kathrine" in new
    town.kumi.close()


def test_the_plan_counts_the_calls(tmp_path: Path) -> None:
    town = Town(tmp_path)
    town.build(NAMED)
    town.kumi.close()
    town = Town(tmp_path, WITH_MODEL)
    [estimate] = [step for step in town.kumi.plan().estimates if step.step == "same_names"]
    town.build(NAMED, consent=True)
    assert estimate.calls == (len(asked(town)), len(asked(town)))
    town.kumi.close()


@FEW_EXAMPLES
@given(changes=st.lists(st.tuples(LETTERS, LETTERS), min_size=1, max_size=4))
def test_every_history_keeps_the_laws(twin: FreshProcess, changes: Sequence[tuple[str, str]]) -> None:
    with TemporaryDirectory() as folder:
        town, documents = Town(Path(folder), WITH_MODEL), dict(NAMED)
        town.build(documents)
        for gone, copied in changes:
            documents = {name: text for name, text in documents.items() if name != f"{gone}.txt" or len(documents) == 1}
            documents[f"{copied}.txt"] = documents.get(f"{copied}.txt", "") + " Kathrine met Fezzivig."
            town.build(documents)
            check_settled(town, documents)
        assert not differences(apart(town.all_rows()), apart(twin.fresh(documents, WITH_MODEL)))
        town.kumi.close()


def test_a_removed_document_leaves_nothing_behind(tmp_path: Path, twin: FreshProcess) -> None:
    town = Town(tmp_path, WITH_MODEL)
    town.build({**NAMED, "x.txt": "Kathrine met Fezzivig and Quentin on a day."})
    town.kumi.remove("town/x.txt")
    assert not differences(apart(town.all_rows()), apart(twin.fresh(NAMED, WITH_MODEL)))
    town.kumi.close()


def test_a_failed_call_keeps_the_names_apart_and_is_listed(tmp_path: Path) -> None:
    def fail(conversation: str) -> None:
        if PROMPT in conversation:
            raise ItemFailed("no answer")

    town = Town(tmp_path, WITH_MODEL, fail)
    failed = town.build(NAMED).failed
    assert {step for step, *_ in failed} == {"same_names"}
    assert {("Katherine",), ("Katharine",)} <= forms(town)
    town.intercept = lambda _: None
    assert not town.build(NAMED).failed
    assert len({form for form in forms(town) if len(form) > 1}) > 0
    town.kumi.close()


def test_switched_off_the_names_are_apart_again(tmp_path: Path, twin: FreshProcess) -> None:
    town = Town(tmp_path, WITH_MODEL)
    town.build(NAMED)
    town.kumi.close()
    off = Town(tmp_path)
    off.build(NAMED, consent=True)
    assert not off.all_rows().keys() & {*RESOLUTION}
    ours, fresh = (
        {k: v for k, v in rows.items() if k not in RESOLUTION} for rows in (off.all_rows(), twin.fresh(NAMED))
    )
    assert not differences(apart(ours), apart(fresh))
    off.kumi.close()


def test_names_that_the_user_keeps_apart_stay_apart(tmp_path: Path) -> None:
    mentions = {**WITH_MODEL["mentions"], "aliases": ["Katherine != Katharine", "Wim = Fezziwig"]}
    town = Town(tmp_path, {**WITH_MODEL, "mentions": mentions})
    town.build(NAMED)
    assert {("Katherine",), ("Katharine",)} <= forms(town)
    assert any({"Fezziwig", "Wim"} <= set(names) for names in forms(town))
    town.kumi.close()


SENATES = {
    "ky.txt": ("Senate", "Kentucky Senate", "Frankfort"),
    "wi.txt": ("Senate", "Wisconsin Senate", "Madison"),
    "tx.txt": ("Senate", "Austin"),
}


def read_senates(conversation: str) -> str:
    """Extract the names of each document; put the Senate of Frankfort with that of Kentucky."""
    if PROMPT in conversation:
        entries = dict(re.findall(r"^<item (\d+)>\nNames: (.*\n(?:Kind: .*\n)?With: .*)$", conversation, re.M))
        of_kentucky = [
            n for n, text in entries.items() if "Senate\n" in text and "Frankfort" in text and "Austin" not in text
        ]
        return json.dumps({"groups": [list(map(int, of_kentucky))]})
    if "entity<|>NAME<|>TYPE" not in conversation:
        return fake_graph_reader.answer(conversation)
    [names] = [names for names in SENATES.values() if f"{names[-1]} is a town." in conversation]
    records = [f"entity<|>{name}<|>organization<|>{name} met near {names[-1]}." for name in names]
    ties = [f"relation<|>{name}<|>{names[-1]}<|>It meets there.<|>place<|>5" for name in names[:-1]]
    return "\n".join([*records, *ties, "END"])


def test_a_name_of_two_things_is_told_apart_by_what_it_belongs_to(tmp_path: Path) -> None:
    documents = {name: f"{names[-1]} is a town." for name, names in SENATES.items()}
    quiet = {**WITH_MODEL["mentions"], "claims": False, "gleanings": 0}
    town = Town(tmp_path, {**WITH_MODEL, "mentions": quiet}, read_senates)

    def entities_named(name: str) -> dict[str, str]:
        with town.kumi.snapshot() as snapshot:
            names = {entity.id: entity.name for entity in snapshot.table("entities")}
            uris = {document.id: document.uri for document in snapshot.table("documents")}
            mentions = [mention for mention in snapshot.table("mentions") if mention.name == name]
            return {
                uris[mention.id.partition(".")[0]].rpartition("/")[2]: names[mention.entity] for mention in mentions
            }

    town.build(documents)
    assert entities_named("Senate") == {"ky.txt": "Kentucky Senate", "wi.txt": "Senate", "tx.txt": "Senate"}
    check_settled(town, documents)
    town.build({name: text for name, text in documents.items() if name != "wi.txt"})
    assert entities_named("Senate") == {"ky.txt": "Senate", "tx.txt": "Senate"}  # nothing tells two things apart
    town.kumi.close()
