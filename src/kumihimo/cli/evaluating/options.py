"""options that evaluation commands share -> their names, types and help texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kumihimo.app.catalogue import METHODS

StudyFolder = Annotated[
    Path,
    typer.Option("--study", envvar="KUMI_STUDY", help="The study folder: questions, answers, verdicts.", metavar="DIR"),
]
SystemNames = Annotated[
    str,
    typer.Option(
        "--methods",
        "-m",
        help="Systems: naive,global:C0,light:hybrid,naive:words=false+k=10. Default: all methods of the index.",
        metavar="NAMES",
        autocompletion=lambda: list(METHODS),
    ),
]
AnsweredSystems = Annotated[
    str,
    typer.Option(
        "--methods", "-m", help="Only these systems: bm25,global:C0. Default: all that answered.", metavar="NAMES"
    ),
]
DEFAULT_STUDY = Path("eval")
Merge = Annotated[bool, typer.Option("--merge", help="Add to the questions of the study.")]
Replace = Annotated[bool, typer.Option("--replace", help="Replace what the study holds.")]


def split_names(names: str) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in names.split(",") if name.strip()]
