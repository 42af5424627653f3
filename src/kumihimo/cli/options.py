"""options that commands share -> their names, types and help texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kumihimo.app.catalogue import METHODS
from kumihimo.app.settings_registry import ALL_SETTINGS

IndexFolder = Annotated[Path, typer.Option("--index", envvar="KUMI_INDEX", help="The index folder.", metavar="DIR")]
CacheFile = Annotated[
    Path | None,
    typer.Option(envvar="KUMI_CACHE", help="The response cache, if not the index's own.", metavar="FILE"),
]
JsonOutput = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
SettingOverrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="A setting for this command: chunks.size=600.",
        metavar="NAME=VALUE",
        autocompletion=lambda: [f"{scope}.{name}=" for scope, settings in ALL_SETTINGS.items() for name in settings],
    ),
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        help="Retrieval method, such as bm25: see `kumi methods`.",
        metavar="NAME",
        autocompletion=lambda: list(METHODS),
    ),
]
Methods = Annotated[
    str,
    typer.Option(
        help="Methods to build for, and to remember: bm25,naive.",
        metavar="NAMES",
        autocompletion=lambda: list(METHODS),
    ),
]
FilterExpression = Annotated[
    str, typer.Option(help="Only documents that match: 'author = \"Sabine Orrell\" and date >= 2024'.")
]
Explain = Annotated[bool, typer.Option("--explain", help="Explain why each piece of evidence was chosen.")]
Suggest = Annotated[bool, typer.Option("--suggest", help="Suggest follow-up questions (one more call).")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for another build to finish.")]
MaxCalls = Annotated[int | None, typer.Option(help="Maximum number of model calls.", min=0)]
MaxTokens = Annotated[int | None, typer.Option(help="Maximum number of tokens, prompts and replies together.", min=0)]
MaxCost = Annotated[float | None, typer.Option(help="Maximum cost, at the prices in the settings.", min=0)]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log each request and its errors.")]
ShowPrompts = Annotated[bool, typer.Option("--show-prompts", help="Show each prompt and each reply.")]
DEFAULT_INDEX = Path(".kumi")
