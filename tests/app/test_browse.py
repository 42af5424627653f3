"""a graph -> pages of its entities, relations and passages, neighbours and paths, without reading the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse import browse
from kumihimo.app.browse.graph_path import find_path
from kumihimo.core.errors import StepError
from kumihimo.search.row_listing import Listing
from tests.factories_graph_text import document, entity, id, mention, put, relation

NAMES = {
    "Ada Holm": 9,
    "Joss Kerrow": 7,
    "Kerrow Bridge": 5,
    "Kerrowan": 8,
    "Émile Kerrow": 3,
    "ADA": 2,
    'The "Gull"': 2,
    "渡し船": 1,
    "新渡し場": 2,
    "Mile End": 1,
    "50% [net]": 1,
}
PAIRS = [
    ("Ada Holm", "Joss Kerrow", 5),
    ("Joss Kerrow", "Kerrow Bridge", 4),
    ("Ada Holm", "ADA", 1),
    ("ADA", "Kerrow Bridge", 1),
    ("Kerrow Bridge", "Émile Kerrow", 2),
    ("Ada Holm", 'The "Gull"', 3),
]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshot]:
    folder = tmp_path_factory.mktemp("town") / ".kumi"
    made, chunks = document("notes/a.md", "They say that Ada mended the net.", "Ada Holm sang.", "Nobody spoke.")
    mentions = [mention(chunks[0].id, 0, "Ada Holm"), mention(chunks[1].id, 0, "Ada Holm")]
    put(
        folder,
        {
            "documents": [made],
            "chunks": chunks,
            "mentions": mentions,
            "entities": [
                entity(name, "thing" if name == 'The "Gull"' else "person", mentions=n, forms=[f"{name} of Oban"])
                for name, n in NAMES.items()
            ],
            "relations": [relation(one, other, weight=weight) for one, other, weight in PAIRS],
        },
    )
    with Kumihimo.open(folder) as kumi, kumi.snapshot() as snapshot:
        yield snapshot


def names(snapshot: Snapshot, text: str = "", **options: str) -> list[str]:
    return [found.name for found in browse.list_entities(snapshot, text, limit=20, **options).items]


def test_entities_are_listed_by_mentions(snapshot: Snapshot) -> None:
    assert names(snapshot)[:3] == ["Ada Holm", "Kerrowan", "Joss Kerrow"]
    assert names(snapshot)[-3:] == ["50% [net]", "Mile End", "渡し船"]  # as often
    assert names(snapshot, kind="thing") == ['The "Gull"']


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("kerrow", ["Joss Kerrow", "Kerrow Bridge", "Émile Kerrow", "Kerrowan"]),  # whole words, by mentions
        ("ada", ["ADA", "Ada Holm"]),  # a whole name first
        ("éMILE", ["Émile Kerrow"]),
        ("mile", ["Mile End", "Émile Kerrow"]),  # É is a letter
        ("渡し", ["渡し船", "新渡し場"]),  # no spaces between words: the beginning first
        ("gull of", []),
        ('"gull" of', ['The "Gull"']),  # only a form has it, in JSON
        ('oban","', []),  # not across two forms
        ("50% [n", ["50% [net]"]),
        ("*", []),
        ("k?r", []),
    ],
)
def test_a_part_of_a_name_is_found_in_any_case(snapshot: Snapshot, text: str, found: list[str]) -> None:
    assert names(snapshot, text) == found


def test_only_named_things_are_listed_and_the_others_are_counted(tmp_path: Path) -> None:
    named, other = (
        replace(entity(name, text=text, mentions=n), type="", types=())
        for name, text, n in (("Oban", "We walked to Oban.", 2), ("In16", "See In16 and in16.", 9))
    )
    put(tmp_path / ".kumi", {"documents": [document("a.md", "Oban.")[0]], "entities": [named, other]})
    with Kumihimo.open(tmp_path / ".kumi") as kumi, kumi.snapshot() as snapshot:
        assert names(snapshot) == ["Oban"]
        assert names(snapshot, "in16") == ["In16"]  # who looks for it finds it
        assert browse.count_listed(snapshot) == {"total": 1, "other": 1}


def test_pages_make_the_whole_list(snapshot: Snapshot) -> None:
    listed, after = list[str](), ""
    while True:
        page = browse.list_entities(snapshot, after=after, limit=3)
        listed += [found.name for found in page.items]
        after = page.next
        if not after:
            break
    assert listed == names(snapshot)
    assert len(listed) == len(NAMES)
    assert browse.list_entities(snapshot, after="gone", limit=3).items == ()


def test_an_unknown_column_is_named(snapshot: Snapshot) -> None:
    with pytest.raises(StepError, match="no column 'nmae'; did you mean 'name'"):
        list(Listing("nmae").ids(snapshot.db, snapshot.table("entities")))


def test_an_entity_is_found_by_id_name_or_form(snapshot: Snapshot) -> None:
    for name in ("Ada Holm", id("Ada Holm"), "ada-holm", "Ada Holm of Oban"):
        found = browse.find_entity(snapshot, name)
        assert found
        assert found.name == "Ada Holm"
    assert browse.find_entity(snapshot, "Holm") is None
    assert browse.find_entity(snapshot, " ") is None
    assert browse.search_entities(snapshot, "Ada", 3) == []  # no keyword index of entities


def test_neighbours_come_by_weight_with_the_relations_between_them(snapshot: Snapshot) -> None:
    ada = browse.find_entity(snapshot, "Ada Holm")
    assert ada
    near = browse.find_neighbours(snapshot, ada, 2)
    assert [found.name for found in near.entities] == ["Ada Holm", "Joss Kerrow", 'The "Gull"']
    assert (len(near.relations), near.more) == (2, True)
    bridge = browse.find_entity(snapshot, "Kerrow Bridge")
    assert bridge
    near = browse.find_neighbours(snapshot, bridge, 9)
    assert ([relation.weight for relation in near.relations], near.more) == ([4, 2, 1], False)
    first = browse.list_relations(snapshot, ada.id, limit=2)
    rest = browse.list_relations(snapshot, ada.id, after=first.next, limit=2)
    assert [relation.weight for relation in first.items + rest.items] == [5, 3, 1]
    assert rest.next == ""


def test_passages_show_the_name_in_its_place(snapshot: Snapshot) -> None:
    ada = browse.find_entity(snapshot, "Ada Holm")
    assert ada
    first = browse.list_passages(snapshot, ada, limit=1)
    rest = browse.list_passages(snapshot, ada, after=first.next, limit=1)
    assert [span.text for span in first.items + rest.items] == ["They say that Ada mended the net.", "Ada Holm sang."]
    assert [span.location for span in rest.items] == ["notes/a.md, line 2"]
    assert rest.next == ""
    assert browse.list_claims(snapshot, ada.id, 3) == []


def path(snapshot: Snapshot, one: str, other: str, **options: int) -> tuple[list[str], list[int], bool]:
    start, end = browse.find_entity(snapshot, one), browse.find_entity(snapshot, other)
    assert start
    assert end
    found = find_path(snapshot, start, end, **options)
    return [e.name for e in found.entities], [relation.weight for relation in found.relations], found.complete


def test_a_path_is_short_and_strong(snapshot: Snapshot) -> None:
    assert path(snapshot, "Ada Holm", "Kerrow Bridge") == (["Ada Holm", "Joss Kerrow", "Kerrow Bridge"], [5, 4], True)
    there = path(snapshot, 'The "Gull"', "Émile Kerrow")
    assert there == (['The "Gull"', "Ada Holm", "Joss Kerrow", "Kerrow Bridge", "Émile Kerrow"], [3, 5, 4, 2], True)
    back = path(snapshot, "Émile Kerrow", 'The "Gull"')
    assert back == (there[0][::-1], there[1][::-1], True)
    assert path(snapshot, "ADA", "ADA") == (["ADA"], [], True)
    assert path(snapshot, "ADA", "渡し船") == ([], [], True)
    assert path(snapshot, 'The "Gull"', "Émile Kerrow", max_rows=1) == ([], [], False)
