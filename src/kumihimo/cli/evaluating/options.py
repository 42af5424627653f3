"""options that commands of an evaluation share -> what they are called, and what they say of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kumihimo.methods import METHODS

StudyFolder = Annotated[
    Path,
    typer.Option("--study", envvar="KUMI_STUDY", help="The folder of questions, answers, verdicts.", metavar="DIR"),
]
SystemNames = Annotated[
    str,
    typer.Option(
        "--methods",
        "-m",
        help="What to compare: naive,global:C0,light:hybrid,naive:words=false+k=10; none: all it was built for.",
        metavar="NAMES",
        autocompletion=lambda: list(METHODS),
    ),
]
AnsweredSystems = Annotated[
    str,
    typer.Option(
        "--methods", "-m", help="These systems only: bm25,global:C0; none: all that answered.", metavar="NAMES"
    ),
]
DEFAULT_STUDY = Path("eval")
Merge = Annotated[bool, typer.Option("--merge", help="Add to the questions that are there.")]
Replace = Annotated[bool, typer.Option("--replace", help="Put these in the place of what is there.")]


def split_names(names: str) -> list[str]:
    """Names between commas."""
    return [name.strip() for name in names.split(",") if name.strip()]
