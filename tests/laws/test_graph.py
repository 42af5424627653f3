"""The entity graph as a model makes it, communities and reports included -> the laws hold."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kumihimo.core.records import Community
from kumihimo.index import STEPS, upstream_steps
from kumihimo.methods import METHODS
from tests.fixtures_index import Held, apart
from tests.laws.factories_town import DAYS, TOWN, Documents, Town, Twin, lacking, told

MERGE, REPORT = "You bring several descriptions", "You write a report"
OF = re.compile(r"^Of: (.*)$", re.M)
MERGED = ("entities", "relations", "claims")
GRAPH = [step for step in STEPS if step in upstream_steps(METHODS["local"].tables)]
FEW = settings(
    max_examples=int(os.environ.get("HISTORIES", "5")),
    deadline=None,
    derandomize="CI" in os.environ,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)

Rows = Mapping[str, Mapping[str, Any]]
Event = tuple[str, str, list[int]]
DAY = st.integers(0, DAYS + 20)
EVENTS: st.SearchStrategy[Event] = st.tuples(
    st.sampled_from(("put", "append", "drop")), st.sampled_from("abcdefghij"), st.lists(DAY, min_size=1, max_size=9)
)


@pytest.fixture(scope="module")
def twin() -> Iterator[Twin]:
    twin = Twin()
    yield twin
    twin.close()


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """All of the town, which nobody changes."""
    town = Town(tmp_path_factory.mktemp("town"))
    town.build(TOWN)
    yield town
    town.kumi.close()


def after(documents: Documents, event: Event) -> dict[str, str]:
    """The documents, one of which comes, grows or goes."""
    kind, letter, days = event
    name = f"{letter}.txt"
    if kind == "drop":
        return {other: text for other, text in documents.items() if other != name or len(documents) == 1}
    before = f"{documents[name]} " if kind == "append" and name in documents else ""
    return {**documents, name: before + told(days)}


def new(town: Town, before: dict[str, int]) -> list[str]:
    """What was asked since then."""
    return [conversation for conversation in town.asked if conversation not in before]


def rows(town: Town) -> Rows:
    """The tables of what was merged, and of communities, by id."""
    with town.kumi.snapshot() as reading:
        return {table: {row.id: row for row in reading.table(table)} for table in (*MERGED, "communities")}


def settled(town: Town, documents: Documents) -> Held:
    """Nothing is missing, and building again changes nothing and asks nothing; what there is then."""
    held, asked = town.held(), town.asked
    assert not held["failed"]
    assert not town.build(documents).spent
    assert not lacking(town.held(), held)
    assert town.asked == asked
    assert set(asked.values()) <= {1}  # nothing is paid twice
    return held


def test_the_town_is_large_enough(town: Town) -> None:
    held = town.held()
    assert all(held[step] for step in GRAPH)
    with town.kumi.snapshot() as reading:
        assert {community.level for community in reading.table("communities")} >= {0, 1, 2}
    asked = list(town.asked)
    assert sum(REPORT in said for said in asked) == len(held["reports"])
    for part in (MERGE, "\nReports:\n", "are still missing", "claim<|>SUBJECT"):
        assert any(part in said for said in asked)


@pytest.mark.parametrize("table", GRAPH)
def test_every_row_stands_in_the_documents(town: Town, table: str) -> None:
    with town.kumi.snapshot() as reading:
        for (id,) in reading.table(table).columns("id"):
            spans = list(reading.trace((table, id)))
            assert spans
            assert all(TOWN[span.uri.partition("/")[2]][span.start : span.end] == span.text for span in spans)


def test_building_again_asks_nothing(town: Town) -> None:
    settled(town, TOWN)


def test_a_later_version_changes_nothing_and_asks_nothing(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    held, asked = town.held(), town.asked
    monkeypatch.setattr("kumihimo.app.build.code_digest", lambda *rooms: "a later version")
    assert town.build(TOWN).read == len(TOWN)
    assert not lacking(town.held(), held)
    assert town.asked == asked


def test_another_process_makes_the_same(town: Town, twin: Twin) -> None:
    assert not lacking(twin.fresh(TOWN), town.held())


@FEW
@given(history=st.lists(EVENTS, min_size=1, max_size=6))
def test_every_history_keeps_the_laws(twin: Twin, history: Sequence[Event]) -> None:
    with TemporaryDirectory() as folder:
        town, documents = Town(Path(folder)), dict(TOWN)
        town.build(documents)
        for event in history:
            documents = after(documents, event)
            town.build(documents)
            held = settled(town, documents)
        fresh = twin.fresh(documents)
        assert not lacking(apart(held), apart(fresh))
        town.build(documents, regroup=True)
        assert not lacking(town.held(), fresh)
        settled(town, documents)
        town.kumi.close()


@FEW
@given(gone=st.sets(st.sampled_from(sorted(TOWN)), min_size=1, max_size=3), days=st.lists(DAY, max_size=6))
def test_deleted_is_never_added(twin: Twin, gone: set[str], days: list[int]) -> None:
    with TemporaryDirectory() as folder:
        town, documents = Town(Path(folder)), {**TOWN, "x.txt": told(days) or "Nobody came."}
        town.build(documents)
        whole = town.held()
        for name in sorted(gone):
            before, asked = rows(town), town.asked
            town.kumi.remove(f"town/{name}")
            only_what_changed(before, rows(town), new(town, asked))
        kept = {name: text for name, text in documents.items() if name not in gone}
        held, fresh = town.held(), twin.fresh(kept)
        assert not lacking(apart(held), apart(fresh))
        assert held["entities"] != whole["entities"]
        asked = town.asked
        town.kumi.index(*(town.home / name for name in gone))
        assert not lacking(apart(town.held()), apart(whole))
        assert all(REPORT in said for said in new(town, asked))  # communities may have changed in between
        town.kumi.close()


def only_what_changed(before: Rows, now: Rows, asked: list[str]) -> None:
    """What was asked are merges of what changed, and reports of communities that changed or that this touches."""
    merges, reports = ([said for said in asked if kind in said] for kind in (MERGE, REPORT))
    assert len(merges) + len(reports) == len(asked)
    changed = {table: differs(before[table], now[table]) for table in MERGED}
    named = [changed["entities"].values(), changed["relations"].values(), changed["claims"].values()]
    names = {entity.name for entity in named[0]} | {" and ".join(row.names) for rows in named[1:] for row in rows}
    assert {OF.search(said)[1] for said in merges} <= names  # type: ignore[index]
    touched = {*changed["entities"], *(c.subject for c in changed["claims"].values())}
    touched |= {end for relation in changed["relations"].values() for end in (relation.source, relation.target)}
    other = differs(before["communities"], now["communities"])
    concerned = [c for c in now["communities"].values() if c.id in other or touched.intersection(within(c, now))]
    assert len(reports) <= len(concerned)


def within(community: Community, rows: Rows) -> Iterator[str]:
    """The entities of a community and its parts."""
    yield from community.members
    for id in community.children:
        yield from within(rows["communities"][id], rows)


def differs(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The rows that came or changed, as they are now, and those that went."""
    return {
        id: row for rows, others in ((before, now), (now, before)) for id, row in rows.items() if others.get(id) != row
    }
