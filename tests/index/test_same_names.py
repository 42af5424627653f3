"""uses of names -> clusters, with homonyms as entries of their own; a model's groups -> entities."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from kumihimo.core.digests import hash_parts
from kumihimo.index.chunk_background import Description
from kumihimo.index.name_records import NameMerges, NameResolver, SameName
from kumihimo.index.same_names import NameCluster, NameUse, name_clusters, same_names
from kumihimo.llm.cached_llm import create_llm
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from tests.factories_graph_text import id
from tests.factories_tables import table

KY, WI, TX = (hash_parts(uri) for uri in ("ky.txt", "wi.txt", "tx.txt"))
SENATES = (
    (KY, "Senate", "Frankfort"), (KY, "Kentucky Senate", "Frankfort"), (KY, "Frankfort", "Senate"),
    (WI, "Senate", "Madison"), (WI, "Wisconsin Senate", "Madison"), (WI, "Madison", "Senate"),
    (TX, "Senate", "Austin"), (TX, "Austin", "Senate"),
)  # fmt: skip


def uses(rows: Iterable[tuple[str, str, str]], kind: str = "organization") -> list[NameUse]:
    return [
        NameUse(id(name), name, kind, (id(near),), id=f"{document}.00000.{n:05}", text=f"{name} is near {near}.")
        for n, (document, name, near) in enumerate(rows)
    ]


def clusters(rows: Sequence[tuple[str, str, str]], aliases: tuple[str, ...] = ()) -> list[NameCluster]:
    dates = [Description(id=KY, dates=("2024-03-14",))]
    return list(name_clusters(table(NameUse, uses(rows)), table(Description, dates), aliases=aliases))


def judge(cluster: NameCluster, groups: Sequence[Sequence[str]], folder: Path) -> list[SameName]:
    """Return the rows of a reply; groups: the beginnings of the entries."""
    numbers = {text: number for number, text in enumerate(sorted(text for *_, text in cluster.entries), 1)}
    reply = [[next(n for text, n in numbers.items() if begin in text) for begin in group] for group in groups]
    llm = create_llm(FakeChat(lambda _: json.dumps({"groups": reply})), ResponseCache(folder / "cache.db"))
    return list(same_names(cluster, llm))


def test_a_name_of_several_things_is_an_entry_for_each_and_one_for_the_rest() -> None:
    [cluster] = clusters(SENATES)
    entries = {(entity, documents): text for entity, documents, text in cluster.entries}
    assert entries.keys() == {
        *((id("Senate"), documents) for documents in ((KY,), (WI,), ())),
        (id("Kentucky Senate"), ()),
        (id("Wisconsin Senate"), ()),
    }
    text = entries[id("Senate"), (KY,)]
    assert text == "Names: Senate\nKind: organization\nWith: Frankfort\n2024-03-14: Senate is near Frankfort."


def test_each_meaning_gets_the_entity_that_the_model_puts_it_with(tmp_path: Path) -> None:
    [cluster] = clusters(SENATES)
    rows = judge(cluster, [["Senate\nKind: organization\nWith: Frankfort\n2024-03-14: S", "Names: Kentucky"]], tmp_path)
    assert {(row.entity, row.document, row.target) for row in rows} == {
        (id("Senate"), KY, id("Kentucky Senate")),
        (id("Senate"), WI, id("Senate")),
    }
    stored = table(SameName, [SameName(r.entity, r.document, r.target, id=str(n)) for n, r in enumerate(rows)])
    found = {
        document: NameResolver.for_document(document, table(NameMerges, []), (), stored).entity_of_key("senate")
        for document in (KY, WI, TX)
    }
    assert found == {KY: id("Kentucky Senate"), WI: id("Senate"), TX: id("Senate")}


SPELLINGS = ((KY, "Tony Evers", "Madison"), (WI, "Evers, Tony", "Madison"), (WI, "Madison", "Evers, Tony"))


def test_the_first_name_of_a_group_is_the_entity(tmp_path: Path) -> None:
    [cluster] = clusters(SPELLINGS)
    for first, second in (("Tony Evers", "Evers, Tony"), ("Evers, Tony", "Tony Evers")):
        [row] = judge(cluster, [[f"Names: {first}", f"Names: {second}"]], tmp_path / first[0])
        assert (row.entity, row.document, row.target) == (id(second), "", id(first))


def test_names_that_the_user_keeps_apart_are_not_proposed() -> None:
    assert clusters(SPELLINGS, ("Tony Evers != Evers, Tony",)) == []


def test_a_line_between_two_of_a_cluster_is_kept_with_it() -> None:
    third = (*SPELLINGS, (TX, "Tony Everss", "Madison"))
    [cluster] = clusters(third)
    assert (len(cluster.entries), cluster.apart) == (3, ())
    [cluster] = clusters(third, ("Tony Everss != Tony Evers",))
    [(one, other)] = cluster.apart
    assert {cluster.entries[one][0], cluster.entries[other][0]} == {id("Tony Everss"), id("Tony Evers")}


def test_a_reply_cannot_merge_what_the_user_keeps_apart(tmp_path: Path) -> None:
    entries = [(name, (), f"Names: {name}") for name in ("Tony Evers", "T. Evers", "Evers, Tony")]
    cluster = NameCluster(tuple(entries), ((0, 1),), id="x")
    rows = judge(cluster, [["Names: Tony", "Names: T. Evers", "Names: Evers"]], tmp_path)
    assert [(row.entity, row.target) for row in rows] == [("Evers, Tony", "Tony Evers")]


def test_without_a_model_nothing_is_the_same() -> None:
    [cluster] = clusters(SPELLINGS)
    assert list(same_names(cluster, None)) == []
