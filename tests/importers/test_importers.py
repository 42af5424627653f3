"""the store of another system -> its texts with their units, and all that stands at them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.core.spans import IMPORT_SUFFIX
from kumihimo.importers import read_store
from kumihimo.importers.convert import Converted, convert_store
from kumihimo.readers.plain_text import read_text_units
from kumihimo.text.text_units import TextUnits, dump_text_units
from tests.importers.factories_stores import (
    COMMUNITIES,
    ENTITIES,
    HARBOUR,
    TEXTS,
    graphrag_tables,
    units,
    write_graphrag,
    write_rows,
    write_working_folder,
)

NAMES = {"Ada Quill", "Bo Lind", "tide clock", "Gull Pier", "Netley Trust"}


def convert(kind: str, path: Path) -> Converted:
    return convert_store(read_store(kind, path))


def names_at(content: TextUnits) -> list[set[str]]:
    return [{name for name, _ in unit.entities} for unit in content.units]


def descriptions(converted: Converted) -> dict[tuple[str, ...], tuple[str, tuple[str, ...]]]:
    rows = [row for content in converted.files.values() for unit in content.units for row in unit.descriptions]
    return {row.names: (row.text, row.documents) for row in rows}


def communities(converted: Converted) -> list[Any]:
    return [row for content in converted.files.values() for unit in content.units for row in unit.communities]


STORES: dict[str, Callable[[Path], Path]] = {
    "graphrag": write_graphrag,
    "lightrag": lambda folder: write_working_folder(folder, nano=False),
    "nano": lambda folder: write_working_folder(folder, nano=True),
}


@pytest.mark.parametrize("kind", STORES)
def test_each_row_stands_at_its_text_units(kind: str, tmp_path: Path) -> None:
    converted = convert(kind, STORES[kind](tmp_path / "store"))
    texts = {content.text: content for content in converted.files.values()}
    assert set(texts) == set(TEXTS.values())
    harbour = texts[HARBOUR]
    assert [harbour.text[unit.start : unit.end].strip() for unit in harbour.units] == [
        text.strip() for name, text in units().values() if name == "harbour.txt"
    ]
    named = {name.casefold() for name in NAMES}
    assert {name.casefold() for content in texts.values() for at in names_at(content) for name in at} == named
    assert [{name.casefold() for name in at} for at in names_at(harbour)] == [
        {"ada quill", "tide clock"},
        {"ada quill", "bo lind", "gull pier"},
    ]
    assert {relation.strength for unit in harbour.units for relation in unit.relations} == {8.0, 5.0, 7.0}
    text, documents = next(value for names, value in descriptions(converted).items() if names[0] == "Ada Quill")
    assert text.startswith("Ada Quill keeps the harbour and winds the clock.")
    assert set(documents) == set(converted.files)
    assert text.count("keeps the harbour") == 1
    assert converted.counts["entities"] == len(ENTITIES)
    for name, content in converted.files.items():
        data = dump_text_units(content)
        [page] = read_text_units(data, name)
        assert (page.title, page.text) == (content.title, content.text)
        assert data == dump_text_units(content)


def test_names_are_written_as_in_the_texts(tmp_path: Path) -> None:
    converted = convert("graphrag", write_graphrag(tmp_path))
    assert {name for content in converted.files.values() for at in names_at(content) for name in at} == NAMES
    assert list(converted.files) == [f"{name}{IMPORT_SUFFIX}" for name in TEXTS]
    assert [content.title for content in converted.files.values()] == ["harbour", "letter"]


@pytest.mark.parametrize("kind", ["graphrag", "nano"])
def test_communities_and_reports(kind: str, tmp_path: Path) -> None:
    converted = convert(kind, STORES[kind](tmp_path / "store"))
    rows = communities(converted)
    assert sorted((row.level, row.title, row.rating) for row in rows) == [
        (0, "Report on Ada Quill", 6.5),
        (1, "Report on Ada Quill", 6.5),
        (1, "Report on Bo Lind", 6.5),
    ]
    top = next(row for row in rows if row.level == 0)
    assert top.members == ()
    assert {row.parent for row in rows if row.level} == {top.key}
    assert {len(row.members) for row in rows if row.level} == {2}
    [finding] = top.findings
    assert finding.explanation == "Ada winds it."
    expected = (("Ada Quill",), ("tide clock",), ("Ada Quill", "tide clock"), ("Bo Lind", "", "REPAIR"))
    assert finding.sources == (expected if kind == "graphrag" else ())


def test_claims_have_dates_and_quotes(tmp_path: Path) -> None:
    converted = convert("graphrag", write_graphrag(tmp_path))
    [claim] = [c for content in converted.files.values() for unit in content.units for c in unit.claims]
    assert (claim.subject, claim.object, claim.status, claim.start, claim.end) == (
        "Bo Lind",
        "",
        "TRUE",
        "1990-05-01",
        "",
    )
    assert claim.quote == "Bo Lind repairs the clock."


def test_a_level_is_at_most_the_number_of_communities(tmp_path: Path) -> None:
    tables = graphrag_tables()
    for row in tables["communities"]:
        row["level"] *= 10**9
    rows = communities(convert("graphrag", write_graphrag(tmp_path, tables)))
    assert sorted(row.level for row in rows) == [0, *[len(COMMUNITIES)] * 2]


def test_older_versions_of_graphrag(tmp_path: Path) -> None:
    tables = graphrag_tables()
    nodes = [
        {"community": id, "level": level, "title": name}
        for id, (level, _, members) in COMMUNITIES.items()
        for name in members
    ]
    for row in tables["communities"]:
        del row["entity_ids"], row["children"]
    for row in tables["text_units"]:
        row["document_ids"] = [row.pop("document_id")]
    folder = tmp_path / "output"
    folder.mkdir()
    for name, rows in {**tables, "nodes": nodes}.items():
        write_rows(folder / f"create_final_{name}.jsonl", rows)
    (tmp_path / "new").mkdir()
    assert convert("graphrag", tmp_path) == convert("graphrag", write_graphrag(tmp_path / "new"))


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for name, rows in graphrag_tables().items():
        parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    expected = convert("graphrag", write_graphrag(tmp_path / "lines"))
    assert convert("graphrag", tmp_path) == expected
    (tmp_path / "entities.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(SourceError, match=r"entities.parquet: cannot be read .*run `graphrag index` again"):
        convert("graphrag", tmp_path)


def test_units_without_documents_are_joined(tmp_path: Path) -> None:
    tables = graphrag_tables(header="title: harbour.txt.\nauthor: Ada.\n")
    del tables["documents"]
    for row in tables["text_units"]:
        row["text"] = row["text"].replace("title: harbour.txt", f"title: {row['document_id']}")
    converted = convert("graphrag", write_graphrag(tmp_path, tables))
    assert {content.text for content in converted.files.values()} == set(TEXTS.values())
    assert list(converted.files) == [f"{name}{IMPORT_SUFFIX}" for name in TEXTS]


def test_what_is_lost_is_counted(tmp_path: Path) -> None:
    tables = graphrag_tables()
    tables["entities"] += [
        {"id": "x", "title": "NOWHERE", "type": "", "description": "", "text_unit_ids": ["gone"]},
        {"id": "y", "title": "Ada-Quill", "type": "PERSON", "description": "She.", "text_unit_ids": ["h0"]},
    ]
    tables["documents"] += [{"id": "z", "title": "empty.txt", "text": "Nothing was extracted."}]
    tables["relationships"] += [{"source": "NOWHERE", "target": "BO LIND", "description": "", "text_unit_ids": []}]
    tables["relationships"] += [{"source": "Ada Quill", "target": "ADA QUILL", "description": "", "text_unit_ids": []}]
    notes = " ".join(convert("graphrag", write_graphrag(tmp_path, tables)).notes)
    for note in (
        "1 documents without text units.",
        "1 entities without a text unit.",
        "1 entities whose name is another spelling of one: merged.",
        "1 relations without a text unit.",
        "1 relations of an entity with itself.",
    ):
        assert note in notes


FAULTS: list[tuple[str, str, str]] = [
    ("graphrag", "", "no text_units.parquet: name the project of graphrag"),
    ("lightrag", "", "no graph_chunk_entity_relation.graphml: name the working folder"),
]


@pytest.mark.parametrize(("kind", "content", "message"), FAULTS)
def test_errors_name_the_remedy(kind: str, content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    if content:
        path.write_text(content)
    else:
        path.mkdir()
    with pytest.raises(SourceError, match=message):
        convert(kind, path)


BAD_KEY = {"key": "../x", "level": 0, "members": [], "documents": []}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"text": 3}, "text: Input should be a valid string"),
    ({"format": "other"}, "its format is 'other'"),
    ({"units": [{"start": 0, "end": 99}]}, "a unit lies outside of the text"),
    ({"units": []}, "a unit lies outside of the text"),
    ({"units": [{"start": 1, "end": 2}, {"start": 1, "end": 3}]}, "not in the order of their starts"),
    (
        {
            "units": [
                {"start": 0, "end": 1, "communities": [{"key": "../x", "level": 0, "members": [], "documents": []}]}
            ]
        },
        "no digest",
    ),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_a_wrong_file_is_refused(change: dict[str, Any], message: str) -> None:
    content = {"title": "T", "text": "Ada keeps it.", "units": [{"start": 0, "end": 3}], **change}
    with pytest.raises(SourceError, match=message):
        list(read_text_units(json.dumps(content).encode(), "a.textunits"))


@pytest.mark.parametrize("value", [None, "missing", float("nan"), [[1]], {"a": 1}])
def test_wrong_values_are_read_or_refused(value: Any, tmp_path: Path) -> None:
    outcomes = Counter[str]()
    for table, rows in graphrag_tables().items():
        for column in rows[0]:
            tables = graphrag_tables()
            for row in tables[table]:
                if value == "missing":
                    del row[column]
                else:
                    row[column] = value
            try:
                converted = convert("graphrag", write_graphrag(tmp_path, tables))
            except SourceError:
                outcomes["refused"] += 1
            else:
                outcomes["read"] += 1
                for name, content in converted.files.items():
                    assert list(read_text_units(dump_text_units(content), name))
    assert outcomes["read"] > 30


def test_runs_of_early_versions_and_workspaces_are_found(tmp_path: Path) -> None:
    expected = convert("graphrag", write_graphrag(tmp_path / "now"))
    write_graphrag(tmp_path / "old/output/20240101-120000/artifacts", {"entities": [], "text_units": []})
    write_graphrag(tmp_path / "old/output/20240703-120000/artifacts")
    assert convert("graphrag", tmp_path / "old") == expected
    write_working_folder(tmp_path / "storage/minutes", nano=False)
    assert convert("lightrag", tmp_path / "storage") == convert("lightrag", tmp_path / "storage/minutes")
