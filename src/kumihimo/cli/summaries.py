"""the summaries of an index -> a table of their labels, or one summary."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from kumihimo.app.snapshot import Snapshot
from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import open_index
from kumihimo.cli.options import DEFAULT_INDEX, IndexFolder, JsonOutput
from kumihimo.cli.sanitize import replace_controls
from kumihimo.core.errors import IndexUnavailable
from kumihimo.core.records import Summary
from kumihimo.core.table import Table
from kumihimo.index import summary_labels

_MAX_PLACES = 20


def summaries(
    value: Annotated[
        str | None, typer.Argument(help="The summary to show: `research_field = NLP` or `NLP`. Default: list them.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of rows.", min=1)] = 50,
    folder: IndexFolder = DEFAULT_INDEX,
    as_json: JsonOutput = False,
) -> None:
    """List the metadata summaries that `meta` uses, or show one."""
    with open_index(folder) as kumi, kumi.snapshot() as snapshot:
        table = _summary_table(snapshot)
        if value is None:
            listing = _list_summaries(table, limit)
            jsonl.print_json(listing) if as_json else _show_list(listing)
        else:
            details = _summary_details(
                snapshot,
                table[
                    summary_labels.resolve_label_id(value, ((id, label) for id, label in table.columns("id", "label")))
                ],
            )
            jsonl.print_json(details) if as_json else _show_summary(details)


def _summary_table(snapshot: Snapshot) -> Table[Summary]:
    """Return the summaries table. Raises IndexUnavailable if it was not built."""
    if not snapshot.db.has("summaries"):
        raise IndexUnavailable(
            "the index has no summaries yet: `kumi index --methods meta` has a chat model write them, "
            "`kumi plan --methods meta` says what that costs"
        )
    return snapshot.table("summaries")


def _list_summaries(table: Table[Summary], limit: int) -> dict[str, Any]:
    rows = sorted(table.columns("label", "questions", "tokens", "id"), key=lambda row: (-row[1], row[0]))
    entries = [
        {"id": id, "label": label, "questions": count, "tokens": tokens} for label, count, tokens, id in rows[:limit]
    ]
    return {"summaries": entries, "total": len(rows)}


def _show_list(listing: dict[str, Any]) -> None:
    if not listing["total"]:
        print(
            "There are no summaries: no document has metadata to group questions by. "
            "`tags.by` in kumi.toml names the metadata fields."
        )
        return
    rows = [(entry["label"], f"{entry['questions']:,}") for entry in listing["summaries"]]
    terminal.show_rows(rows, head=("label", "questions"), numeric=(1,))
    if remaining := listing["total"] - len(rows):
        print(f"{remaining:,} more: `kumi summaries --limit {listing['total']}` lists all.")


def _summary_details(snapshot: Snapshot, summary: Summary) -> dict[str, Any]:
    spans = islice(snapshot.trace(("summaries", summary.id)), _MAX_PLACES)
    return {
        "id": summary.id,
        "label": summary.label,
        "questions": summary.questions,
        "tokens": summary.tokens,
        "text": summary.text,
        "documents": [span.uri for span in spans],
    }


def _show_summary(details: dict[str, Any]) -> None:
    print(replace_controls(f"{details['label']}, {details['questions']:,} questions, id summaries:{details['id']}\n"))
    print(replace_controls(f"{details['text']}\n"))
    for uri in details["documents"]:
        print(replace_controls(uri))
