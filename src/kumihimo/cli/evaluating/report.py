"""studies -> a page that says which system answers best, at what cost, and how sure that is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kumihimo.cli import jsonl, terminal
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, split_names
from kumihimo.cli.options import JsonOutput

StudyFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--study",
        envvar="KUMI_STUDY",
        help="The folder of a study; several: a row of the grid for each.",
        metavar="DIR",
        show_default=str(DEFAULT_STUDY),
    ),
]


def report(
    studies: StudyFolders = None,
    out: Annotated[Path, typer.Option(help="The page to write; its tables go beside it.", metavar="FILE")] = Path(
        "report.html"
    ),
    systems: Annotated[
        str, typer.Option(help="Only these, in this order: naive,global:C2.", metavar="NAMES", show_default="all")
    ] = "",
    neighbours: Annotated[
        bool, typer.Option("--neighbours", help="Compare ratings as MK-RAG: each system with the one before it.")
    ] = False,
    as_json: JsonOutput = False,
) -> None:
    """Write what a study found to one HTML page, and to tables as CSV."""
    from kumihimo.evaluate.report import write_evaluation_report

    written = write_evaluation_report(
        studies or [DEFAULT_STUDY], out, systems=split_names(systems), neighbours=neighbours
    )
    if as_json:
        jsonl.print_json(asdict(written) | {"page": str(written.page), "tables": str(written.tables)})
        return
    for name, said in written.words.items():
        terminal.show_rows([(name if not i else "", sentence) for i, sentence in enumerate(said)])
    for sentence in written.cut:
        print(sentence)
    for name, missing in written.missing.items():
        terminal.show_rows([(f"{name}: {what}", f"not there yet: `{by}`") for what, by in missing.items()])
    print(f"{written.page} ({written.size / 1e6:.1f} MB), and its tables in {written.tables}/")
