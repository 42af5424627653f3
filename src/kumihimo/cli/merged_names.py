"""the merges of an index -> a table: each entity with the forms of its name, the rules and the documents."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Any

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.cli import printing
from kumihimo.text.name_keys import entity_id, name_key
from kumihimo.text.sentences import shorten_line

_MAX_PLACE = 24  # characters of a document's uri


def list_merged(snapshot: Snapshot, entity: str, limit: int) -> dict[str, Any]:
    """Return the merged forms, with rules and documents.

    entity: the id of the only one to list; empty: all of them.
    """
    uris: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    documents = snapshot.table("documents")
    for target, document, merge in chain(_merges_by_rule(snapshot), _merges_by_model(snapshot)):
        if entity in ("", target):
            uris[merge].add(documents[document].uri)
    rows = [
        {"name": name, "form": form, "rule": rule, "documents": sorted(uris[name, form, rule])}
        for name, form, rule in sorted(uris)
    ]
    return {"merged": rows[:limit], "total": len(rows)}


Merge = tuple[str, str, tuple[str, str, str]]  # an entity, a document, and (name, form, rule)


def _merges_by_rule(snapshot: Snapshot) -> Iterator[Merge]:
    """Yield the merges within documents."""
    for row in snapshot.table("merges"):
        for form, name, rule in row.merges:
            yield entity_id(name_key(name)), row.id, (name, form, rule)


def _merges_by_model(snapshot: Snapshot) -> Iterator[Merge]:
    """Yield the merges of several documents, if a model made some."""
    if not snapshot.db.has("same_names"):
        return
    names: defaultdict[str, dict[str, str]] = defaultdict(dict)  # entity -> document -> name
    for id, entity, name in snapshot.table("name_uses").columns("id", "entity", "name"):
        names[entity].setdefault(id.partition(".")[0], name)
    rows: dict[tuple[str, str], str] = {(r.entity, r.document): r.target for r in snapshot.table("same_names")}
    for entity in dict.fromkeys(entity for entity, _ in rows):
        for document, form in names[entity].items():
            target = rows.get((entity, document), rows.get((entity, ""), entity))
            if target != entity:
                yield target, document, (next(iter(names[target].values())), form, "model")


def show_merged(result: dict[str, Any]) -> None:
    """Print the merged forms, with the first document of each."""
    rows = [(row["name"], row["form"], row["rule"], _shorten_places(row["documents"])) for row in result["merged"]]
    printing.show_rows(rows, head=("entity", "merged form", "rule", "in"))
    if remaining := result["total"] - len(rows):
        printing.print_message(f"{remaining:,} more: `kumi entities --merged --limit {result['total']}` lists all.")
    if rows:
        printing.print_message("\nTo undo one, add a line to aliases.txt, and run `kumi index`:")
        printing.print_text(f"{result['merged'][0]['form']} != {result['merged'][0]['name']}")


def _shorten_places(uris: list[str]) -> str:
    """Return the first document, and the number of others.

    >>> _shorten_places(["notes/harbour.md", "notes/island.md"])
    'notes/harbour.md + 1'
    """
    return shorten_line(uris[0], _MAX_PLACE) + (f" + {len(uris) - 1:,}" if len(uris) > 1 else "")
