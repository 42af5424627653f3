"""the entity graph by a model, with communities and reports -> the laws hold."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies as st

from kumihimo.app.opened.catalogue import BUILT_IN
from kumihimo.core.records import Community
from kumihimo.methods import METHODS
from tests.fixtures_index import Held, apart
from tests.laws.factories_town import DAYS, TOWN, Documents, FreshProcess, Town, differences, sentences_of

MERGE, REPORT = "You bring several descriptions", "You write a report"
OF_LINE = re.compile(r"^Of:\n<names>\n(.*)$", re.M)
MERGED = ("entities", "relations", "claims")
GRAPH = [
    name
    for name in BUILT_IN.steps
    if name in BUILT_IN.upstream_steps(METHODS["local"].tables) and not name.startswith("imported_")
]
FEW_EXAMPLES = settings(
    max_examples=int(os.environ.get("HISTORIES", "5")),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)

Rows = Mapping[str, Mapping[str, Any]]
Event = tuple[str, str, list[int]]
DAY = st.integers(0, DAYS + 20)
EVENTS: st.SearchStrategy[Event] = st.tuples(
    st.sampled_from(("put", "append", "drop")), st.sampled_from("abcdefghij"), st.lists(DAY, min_size=1, max_size=9)
)


@pytest.fixture(scope="module")
def twin() -> Iterator[FreshProcess]:
    twin = FreshProcess()
    yield twin
    twin.close()


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """Return the full town; no test changes it."""
    town = Town(tmp_path_factory.mktemp("town"))
    town.build(TOWN)
    yield town
    town.kumi.close()


def apply_event(documents: Documents, event: Event) -> dict[str, str]:
    """Return the documents after one comes, grows or goes."""
    kind, letter, days = event
    name = f"{letter}.txt"
    if kind == "drop":
        return {other: text for other, text in documents.items() if other != name or len(documents) == 1}
    before = f"{documents[name]} " if kind == "append" and name in documents else ""
    return {**documents, name: before + sentences_of(days)}


def new_conversations(town: Town, before: dict[str, int]) -> list[str]:
    """Return the conversations since then."""
    return [conversation for conversation in town.reply_counts if conversation not in before]


def rows(town: Town) -> Rows:
    """Return the merged tables and the communities, by id."""
    with town.kumi.snapshot() as snapshot:
        return {table: {row.id: row for row in snapshot.table(table)} for table in (*MERGED, "communities")}


def check_settled(town: Town, documents: Documents) -> Held:
    """Check that nothing is missing and a rebuild changes nothing.

    Returns the rows.
    """
    contents, counts = town.all_rows(), town.reply_counts
    assert not contents["failed"]
    assert not town.build(documents).spent
    assert not differences(town.all_rows(), contents)
    assert town.reply_counts == counts
    assert set(counts.values()) <= {1}  # nothing is paid twice
    return contents


def test_the_town_is_large_enough(town: Town) -> None:
    contents = town.all_rows()
    assert all(contents[step] for step in GRAPH)
    with town.kumi.snapshot() as snapshot:
        assert {community.level for community in snapshot.table("communities")} >= {0, 1, 2}
        written = [bool(report.written_with) for report in snapshot.table("reports")]
    conversations = list(town.reply_counts)
    assert sum(REPORT in conversation for conversation in conversations) == sum(written)
    assert sum(written) > 5
    assert not all(written)
    for part in (MERGE, "\nReports:\n", "are still missing", "claim<|>SUBJECT"):
        assert any(part in conversation for conversation in conversations)


@pytest.mark.parametrize("table", GRAPH)
def test_every_row_stands_in_the_documents(town: Town, table: str) -> None:
    with town.kumi.snapshot() as snapshot:
        for (id,) in snapshot.table(table).columns("id"):
            spans = list(snapshot.trace((table, id)))
            assert spans
            assert all(TOWN[span.uri.partition("/")[2]][span.start : span.end] == span.text for span in spans)


def test_building_again_asks_nothing(town: Town) -> None:
    check_settled(town, TOWN)


def test_a_later_version_changes_nothing_and_asks_nothing(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    contents, counts = town.all_rows(), town.reply_counts
    monkeypatch.setattr("kumihimo.app.build.build.code_fingerprint", lambda *_: "a later version")
    assert town.build(TOWN).read == len(TOWN)
    assert not differences(town.all_rows(), contents)
    assert town.reply_counts == counts


def test_another_process_makes_the_same(town: Town, twin: FreshProcess) -> None:
    assert not differences(twin.fresh(TOWN), town.all_rows())


@FEW_EXAMPLES
@given(history=st.lists(EVENTS, min_size=1, max_size=6))
def test_every_history_keeps_the_laws(twin: FreshProcess, history: Sequence[Event]) -> None:
    with TemporaryDirectory() as folder:
        town, documents = Town(Path(folder)), dict(TOWN)
        town.build(documents)
        for event in history:
            documents = apply_event(documents, event)
            town.build(documents)
            contents = check_settled(town, documents)
        fresh = twin.fresh(documents)
        assert not differences(apart(contents), apart(fresh))
        town.build(documents, recluster=True)
        assert not differences(town.all_rows(), fresh)
        check_settled(town, documents)
        town.kumi.close()


@FEW_EXAMPLES
@given(gone=st.sets(st.sampled_from(sorted(TOWN)), min_size=1, max_size=3), days=st.lists(DAY, max_size=6))
def test_deleted_is_never_added(twin: FreshProcess, gone: set[str], days: list[int]) -> None:
    with TemporaryDirectory() as folder:
        town, documents = Town(Path(folder)), {**TOWN, "x.txt": sentences_of(days) or "Nobody came."}
        town.build(documents)
        complete = town.all_rows()
        for name in sorted(gone):
            before, counts = rows(town), town.reply_counts
            town.kumi.remove(f"town/{name}")
            check_only_changed(before, rows(town), new_conversations(town, counts))
        remaining = {name: text for name, text in documents.items() if name not in gone}
        contents, fresh = town.all_rows(), twin.fresh(remaining)
        assert not differences(apart(contents), apart(fresh))
        assert contents["entities"] != complete["entities"]
        counts = town.reply_counts
        town.kumi.index(*(town.home / name for name in gone))
        assert not differences(apart(town.all_rows()), apart(complete))
        assert all(
            REPORT in conversation for conversation in new_conversations(town, counts)
        )  # communities may have changed in between
        town.kumi.close()


def check_only_changed(before: Rows, now: Rows, conversations: list[str]) -> None:
    """Check that only changed rows were merged or reported again.

    Reports also cover communities that contain a changed entity.
    """
    merges, reports = (
        [conversation for conversation in conversations if kind in conversation] for kind in (MERGE, REPORT)
    )
    assert len(merges) + len(reports) == len(conversations)
    changed = {table: changed_rows(before[table], now[table]) for table in MERGED}
    changed_tables = [changed["entities"].values(), changed["relations"].values(), changed["claims"].values()]
    names = {entity.name for entity in changed_tables[0]} | {
        " and ".join(row.names) for rows in changed_tables[1:] for row in rows
    }
    assert {OF_LINE.search(conversation)[1] for conversation in merges} <= names  # type: ignore[index]
    touched = {*changed["entities"], *(c.subject for c in changed["claims"].values())}
    touched |= {end for relation in changed["relations"].values() for end in (relation.source, relation.target)}
    other = changed_rows(before["communities"], now["communities"])
    affected = [c for c in now["communities"].values() if c.id in other or touched.intersection(within(c, now))]
    assert len(reports) <= len(affected)


def within(community: Community, rows: Rows) -> Iterator[str]:
    """Yield the entities of a community and its parts."""
    yield from community.members
    for id in community.children:
        yield from within(rows["communities"][id], rows)


def changed_rows(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return new and changed rows, as they are now, and removed rows."""
    return {
        id: row
        for rows, other_rows in ((before, now), (now, before))
        for id, row in rows.items()
        if other_rows.get(id) != row
    }
