"""options of the command line -> what they are called, and what they say of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kumihimo.app.settings_registry import ALL_SETTINGS
from kumihimo.methods import METHODS

IndexFolder = Annotated[Path, typer.Option("--index", envvar="KUMI_INDEX", help="The index folder.", metavar="DIR")]
CacheFile = Annotated[
    Path | None,
    typer.Option(
        envvar="KUMI_CACHE", help="The file of what models have said, if not the index's own.", metavar="FILE"
    ),
]
JsonOutput = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, and nothing else.")]
SettingOverrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="A setting for this command: chunks.size=600.",
        metavar="NAME=VALUE",
        autocompletion=lambda: [f"{scope}.{name}=" for scope, known in ALL_SETTINGS.items() for name in known],
    ),
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        help="How to search, such as bm25: see `kumi methods`.",
        metavar="NAME",
        autocompletion=lambda: list(METHODS),
    ),
]
Methods = Annotated[
    str,
    typer.Option(
        help="Build for these methods, and remember them: bm25,naive.",
        metavar="NAMES",
        autocompletion=lambda: list(METHODS),
    ),
]
FilterExpression = Annotated[
    str, typer.Option(help="Only documents of which this holds: 'author = \"Sabine Orrell\" and date >= 2024'.")
]
Explain = Annotated[bool, typer.Option("--explain", help="Tell why each piece of evidence was chosen.")]
Suggest = Annotated[bool, typer.Option("--suggest", help="Suggest what to ask next: one call more.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for another build to end.")]
MaxCalls = Annotated[int | None, typer.Option(help="Ask models no more often than this.", min=0)]
MaxTokens = Annotated[int | None, typer.Option(help="Spend no more tokens than this, prompts and replies.", min=0)]
MaxCost = Annotated[float | None, typer.Option(help="Spend no more than this, by the prices that are set.", min=0)]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Tell of each request, and what went wrong with it.")]
ShowPrompts = Annotated[bool, typer.Option("--show-prompts", help="Show each prompt and each reply.")]
DEFAULT_INDEX = Path(".kumi")
