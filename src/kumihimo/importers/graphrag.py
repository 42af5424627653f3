"""the output folder of Microsoft graphrag, versions 1 to 3 -> a ForeignStore."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from kumihimo.core.errors import SourceError
from kumihimo.importers import store as foreign
from kumihimo.readers.page import format_utc

Row = Mapping[str, Any]
SUFFIXES = (".parquet", ".jsonl")
_REFERENCE = re.compile(r"(Entities|Relationships|Claims)\s*\(([\d,\s]+)", re.I)
_DATE = re.compile(r"\d{4}(?:-\d\d){0,2}")


def read_graphrag(folder: Path) -> foreign.ForeignStore:
    """Read the tables of an index or project.

    Version 1 calls them `create_final_entities.parquet`, later ones `entities.parquet`. Raises SourceError without
    text units and entities.
    """
    folder = _find_tables(folder)
    units, entities = (_read_table(folder, name, required=True) for name in ("text_units", "entities"))
    relations, claims = (_read_table(folder, name) for name in ("relationships", "covariates"))
    names = {str(row["id"]): _name(row) for row in entities}
    store = foreign.ForeignStore(
        documents=[_document(row) for row in _read_table(folder, "documents")],
        units=[
            foreign.StoredUnit(str(row["id"]), _document_of(row), str(row["text"] or ""))
            for row in sorted(units, key=lambda row: foreign.number(row.get("human_readable_id"), 0.0))
        ],
        entities=[_entity(row) for row in entities],
        relations=[_relation(row) for row in relations],
        claims=[_claim(row) for row in claims],
        communities=_communities(folder, names, _Numbers(entities, relations, claims)),
    )
    store.add_note("Vectors: they are made again, by the embedder of this index.")
    store.add_note("The direction of relations: a relation has two ends here.")
    return store


def _find_tables(folder: Path) -> Path:
    """Return the folder of the tables.

    Early versions made `output/TIME/artifacts` in each run; the last one counts.
    """
    runs = sorted(folder.glob("output/*/artifacts"))[-1:]
    places = [folder, folder / "output", folder / "artifacts", *runs]
    return next((place for place in places if list(place.glob("*entities.*"))), folder)


def _read_table(folder: Path, name: str, *, required: bool = False) -> list[dict[str, Any]]:
    """Return the rows of a table.

    Raise SourceError if a required one is missing.
    """
    candidates = [folder / f"{stem}{suffix}" for stem in (name, f"create_final_{name}") for suffix in SUFFIXES]
    if path := next((path for path in candidates if path.is_file()), None):
        return read_parquet(path) if path.suffix == ".parquet" else foreign.read_json_lines(path)
    if required:
        raise SourceError(
            f"{folder}: no {name}.parquet: name the project of graphrag, or its output folder, after a complete "
            "`graphrag index`"
        )
    return []


def read_parquet(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a parquet file.

    Raise SourceError with the remedy.
    """
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError as error:
        raise SourceError(f"{path}: reading it needs pyarrow: `pip install 'kumihimo[parquet]'`") from error
    try:
        rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    except (ArrowException, OSError) as error:
        raise SourceError(f"{path}: cannot be read ({error}); run `graphrag index` again") from error
    return rows


def _document_of(unit: Row) -> str:
    return str(unit.get("document_id") or next(iter(foreign.strings(unit.get("document_ids"))), ""))


def _document(row: Row) -> foreign.StoredDocument:
    metadata = row.get("metadata") or row.get("raw_data")
    if isinstance(metadata, str):
        try:
            metadata = json.loads(metadata)
        except ValueError:
            metadata = None
    values = {str(key): value for key, value in metadata.items()} if isinstance(metadata, Mapping) else {}
    kept = {key: value for key, value in values.items() if isinstance(value, str | int | float | bool)}
    text, title = str(row.get("text") or row.get("raw_content") or ""), str(row.get("title") or "")
    return foreign.StoredDocument(str(row["id"]), title, text, _modified(row.get("creation_date")), kept)


def _modified(value: object) -> str:
    """Return a time as `Document.modified` holds it.

    >>> _modified("2026-11-26 16:54:51 +0000"), _modified("yesterday")
    ('2026-11-26T16:54:51Z', '')
    """
    try:
        return format_utc(datetime.fromisoformat(re.sub(r" ([+-]\d{4})$", r"\1", str(value))))
    except ValueError:
        return ""


def _name(row: Row) -> str:
    return str(row.get("title") or row.get("name") or row["id"])


def _entity(row: Row) -> foreign.StoredEntity:
    return foreign.StoredEntity(
        _name(row),
        foreign.clean_text(row, "type").lower(),
        foreign.clean_text(row, "description"),
        foreign.strings(row["text_unit_ids"]),
    )


def _relation(row: Row) -> foreign.StoredRelation:
    text, units = foreign.clean_text(row, "description"), foreign.strings(row.get("text_unit_ids"))
    weight = foreign.number(row.get("weight"), 1.0)
    return foreign.StoredRelation(str(row["source"]), str(row["target"]), text, units, weight=weight)


def _claim(row: Row) -> foreign.StoredClaim:
    names = ("text_unit_id", "subject_id", "object_id", "type", "status", "start_date", "end_date")
    unit, subject, object_name, kind, status, start, end = (foreign.clean_text(row, name) for name in names)
    text, quote = foreign.clean_text(row, "description"), foreign.clean_text(row, "source_text")
    known = status.upper() if status.upper() in ("TRUE", "FALSE", "SUSPECTED") else "SUSPECTED"
    return foreign.StoredClaim(unit, subject, object_name, kind, known, _date(start), _date(end), text, quote)


def _community_id(row: Row) -> str:
    """Return the number of a community, which early versions call `id`."""
    return str(row.get("community", row.get("id")))


def _date(text: str) -> str:
    return match[0] if (match := _DATE.match(text)) else ""


class _Numbers:
    """The rows that reports name by number. `[Data: Entities (5)]` is the entity whose `human_readable_id` is 5."""

    def __init__(self, entities: Sequence[Row], relations: Sequence[Row], claims: Sequence[Row]) -> None:
        self.rows: dict[tuple[str, int], foreign.RowNames] = {}
        for kind, rows in (("entities", entities), ("relationships", relations), ("claims", claims)):
            for row in rows:
                if (number := foreign.number(row.get("human_readable_id", row.get("short_id")), -1)) >= 0:
                    self.rows[kind, int(number)] = self._names(kind, row)

    @staticmethod
    def _names(kind: str, row: Row) -> foreign.RowNames:
        if kind == "entities":
            return (_name(row),)
        if kind == "relationships":
            return str(row["source"]), str(row["target"])
        return (
            foreign.clean_text(row, "subject_id"),
            foreign.clean_text(row, "object_id"),
            foreign.clean_text(row, "type"),
        )

    def find(self, text: str) -> tuple[foreign.RowNames, ...]:
        """Return the names of the rows that a text refers to."""
        found = (
            self.rows.get((kind.lower(), int(number)))
            for kind, numbers in _REFERENCE.findall(text)
            for number in re.findall(r"\d{1,9}", numbers)
        )
        return tuple(dict.fromkeys(names for names in found if names))


def _communities(folder: Path, names: Mapping[str, str], numbers: _Numbers) -> list[foreign.StoredCommunity]:
    """Return the communities with their reports."""
    reports = {
        str(row["community"]): foreign.read_report(row, numbers.find)
        for row in _read_table(folder, "community_reports")
    }
    rows = _read_table(folder, "communities")
    parents = {str(child): _community_id(row) for row in rows for child in foreign.strings(row.get("children"))}
    members_of = _members_of_nodes(folder)
    communities = []
    for row in rows:
        id = _community_id(row)
        members = [names[each] for each in foreign.strings(row.get("entity_ids")) if each in names]
        level, parent = int(foreign.number(row["level"], 0.0)), foreign.clean_text(row, "parent") or parents.get(id, "")
        own_members = tuple(members or members_of.get(id, ()))
        communities.append(foreign.StoredCommunity(id, level, parent, own_members, reports.get(id)))
    return communities


def _members_of_nodes(folder: Path) -> dict[str, list[str]]:
    """Return the members of communities from the nodes of version 1."""
    members: dict[str, list[str]] = {}
    for row in _read_table(folder, "nodes"):
        if (number := foreign.number(row.get("community"), -1)) >= 0:
            members.setdefault(str(int(number)), []).append(_name(row))
    return members
