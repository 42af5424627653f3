"""studies -> an HTML page and CSV tables: quality, cost and confidence of each system."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kumihimo.cli import jsonl, terminal
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, split_names
from kumihimo.cli.options import JsonOutput
from kumihimo.evaluate.report import write_evaluation_report

StudyFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--study",
        envvar="KUMI_STUDY",
        help="A study folder; give several for one grid row each.",
        metavar="DIR",
        show_default=str(DEFAULT_STUDY),
    ),
]


def report(
    studies: StudyFolders = None,
    out: Annotated[Path, typer.Option(help="The page to write, with its tables beside it.", metavar="FILE")] = Path(
        "report.html"
    ),
    systems: Annotated[
        str,
        typer.Option(help="Only these systems, in this order: naive,global:C2.", metavar="NAMES", show_default="all"),
    ] = "",
    neighbours: Annotated[
        bool, typer.Option("--neighbours", help="Compare ratings as MK-RAG does: each system with the previous one.")
    ] = False,
    as_json: JsonOutput = False,
) -> None:
    """Write the results of studies to an HTML page and CSV tables."""

    written = write_evaluation_report(
        studies or [DEFAULT_STUDY], out, systems=split_names(systems), neighbours=neighbours
    )
    if as_json:
        jsonl.print_json(asdict(written) | {"page": str(written.page), "tables": str(written.tables)})
        return
    for name, sentences in written.words.items():
        terminal.show_rows([(name if not i else "", sentence) for i, sentence in enumerate(sentences)])
    for sentence in written.cut:
        print(sentence)
    for name, missing in written.missing.items():
        terminal.show_rows([(f"{name}: {part}", f"not there yet: `{command}`") for part, command in missing.items()])
    print(f"{written.page} ({written.size / 1e6:.1f} MB), and its tables in {written.tables}/")
