"""the summaries of an index -> what it can be asked: a table of their labels, or one of them whole."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from kumihimo.app.snapshot import Reading
from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import opened
from kumihimo.cli.options import HOME, Index, Json
from kumihimo.cli.sanitize import harmless
from kumihimo.core.errors import Unusable
from kumihimo.core.records import Summary
from kumihimo.core.table import Table
from kumihimo.index import summary_labels

_PLACES = 20


def summaries(
    value: Annotated[
        str | None, typer.Argument(help="Show this one, `research_field = NLP` or `NLP`; none: list them.")
    ] = None,
    limit: Annotated[int, typer.Option(help="How many to list.", min=1)] = 50,
    folder: Index = HOME,
    as_json: Json = False,
) -> None:
    """Show what the documents can be asked, by their metadata: the summaries that `meta` leans on."""
    with opened(folder) as kumi, kumi.reading() as reading:
        table = _there(reading)
        if value is None:
            listed = _listed(table, limit)
            jsonl.show(listed) if as_json else _show_list(listed)
        else:
            told = _told(
                reading, table[summary_labels.meant(value, ((id, label) for id, label in table.columns("id", "label")))]
            )
            jsonl.show(told) if as_json else _show(told)


def _there(reading: Reading) -> Table[Summary]:
    """The table. Raises Unusable where it was not built, or holds nothing, with what helps."""
    if not reading.db.has("summaries"):
        raise Unusable(
            "the index has no summaries yet: `kumi index --methods meta` has a chat model write them, "
            "`kumi plan --methods meta` says what that costs"
        )
    return reading.table("summaries")


def _listed(table: Table[Summary], limit: int) -> dict[str, Any]:
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
    terminal.show_rows(rows, head=("label", "questions"), figures=(1,))
    if left := found["total"] - len(rows):
        print(f"{left:,} more: `kumi summaries --limit {found['total']}` lists all.")


def _told(reading: Reading, summary: Summary) -> dict[str, Any]:
    spans = islice(reading.trace(("summaries", summary.id)), _PLACES)
    return {
        "id": summary.id,
        "label": summary.label,
        "questions": summary.questions,
        "tokens": summary.tokens,
        "text": summary.text,
        "documents": [span.uri for span in spans],
    }


def _show(found: dict[str, Any]) -> None:
    print(harmless(f"{found['label']}, {found['questions']:,} questions, id summaries:{found['id']}\n"))
    print(harmless(f"{found['text']}\n"))
    for uri in found["documents"]:
        print(harmless(uri))
