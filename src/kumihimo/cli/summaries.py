"""the summaries of an index -> what it can be asked: a table of their labels, or one of them whole."""

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
        str | None, typer.Argument(help="Show this one, `research_field = NLP` or `NLP`; none: list them.")
    ] = None,
    limit: Annotated[int, typer.Option(help="How many to list.", min=1)] = 50,
    folder: IndexFolder = DEFAULT_INDEX,
    as_json: JsonOutput = False,
) -> None:
    """Show what the documents can be asked, by their metadata: the summaries that `meta` leans on."""
    with open_index(folder) as kumi, kumi.snapshot() as reading:
        table = _summary_table(reading)
        if value is None:
            listed = _list_summaries(table, limit)
            jsonl.print_json(listed) if as_json else _show_list(listed)
        else:
            told = _summary_details(
                reading,
                table[
                    summary_labels.resolve_label_id(value, ((id, label) for id, label in table.columns("id", "label")))
                ],
            )
            jsonl.print_json(told) if as_json else _show_summary(told)


def _summary_table(reading: Snapshot) -> Table[Summary]:
    """The table. Raises Unusable where it was not built, or holds nothing, with what helps."""
    if not reading.db.has("summaries"):
        raise IndexUnavailable(
            "the index has no summaries yet: `kumi index --methods meta` has a chat model write them, "
            "`kumi plan --methods meta` says what that costs"
        )
    return reading.table("summaries")


def _list_summaries(table: Table[Summary], limit: int) -> dict[str, Any]:
    rows = sorted(table.columns("label", "questions", "tokens", "id"), key=lambda row: (-row[1], row[0]))
    listed = [{"id": id, "label": label, "questions": n, "tokens": tokens} for label, n, tokens, id in rows[:limit]]
    return {"summaries": listed, "total": len(rows)}


def _show_list(found: dict[str, Any]) -> None:
    if not found["total"]:
        print(
            "There are no summaries: no document says anything by which questions are summed up. "
            "`tags.by` in kumi.toml names the fields of metadata for that."
        )
        return
    rows = [(each["label"], f"{each['questions']:,}") for each in found["summaries"]]
    terminal.show_rows(rows, head=("label", "questions"), numeric=(1,))
    if left := found["total"] - len(rows):
        print(f"{left:,} more: `kumi summaries --limit {found['total']}` lists all.")


def _summary_details(reading: Snapshot, summary: Summary) -> dict[str, Any]:
    spans = islice(reading.trace(("summaries", summary.id)), _MAX_PLACES)
    return {
        "id": summary.id,
        "label": summary.label,
        "questions": summary.questions,
        "tokens": summary.tokens,
        "text": summary.text,
        "documents": [span.uri for span in spans],
    }


def _show_summary(found: dict[str, Any]) -> None:
    print(replace_controls(f"{found['label']}, {found['questions']:,} questions, id summaries:{found['id']}\n"))
    print(replace_controls(f"{found['text']}\n"))
    for uri in found["documents"]:
        print(replace_controls(uri))
