"""options that the commands of an evaluation share -> what they are called, and what they say of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[
    Path,
    typer.Option("--study", envvar="KUMI_STUDY", help="The folder of questions, answers, verdicts.", metavar="DIR"),
]
STUDY = Path("eval")
