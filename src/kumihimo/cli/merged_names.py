"""the merges of an index -> a table: each entity with the forms of its name, the rules and the documents."""

from typing import Any

from kumihimo.app.snapshot import Snapshot
from kumihimo.cli import printing
from kumihimo.text.name_keys import entity_id, name_key
from kumihimo.text.sentences import shorten_line

_MAX_PLACE = 24  # characters of a document's uri


def list_merged(snapshot: Snapshot, entity: str, limit: int) -> dict[str, Any]:
    """Return the merged forms, with rules and documents.

    entity: the id of the only one to list; empty: all of them.
    """
    uris: dict[tuple[str, str, str], list[str]] = {}
    for row in snapshot.table("merges"):
        uri = snapshot.table("documents")[row.id].uri
        for form, name, rule in row.merges:
            if entity in ("", entity_id(name_key(name))):
                uris.setdefault((name, form, rule), []).append(uri)
    rows = [
        {"name": name, "form": form, "rule": rule, "documents": sorted(uris[name, form, rule])}
        for name, form, rule in sorted(uris)
    ]
    return {"merged": rows[:limit], "total": len(rows)}


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
