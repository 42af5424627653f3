"""options of `kumi mcp` -> an MCP server on standard input and output."""

from pathlib import Path
from typing import Annotated

from typer import Option

from kumihimo.core.errors import SettingsError

IndexFolders = Annotated[
    list[Path] | None,
    Option("--index", envvar="KUMI_INDEX", help="An index folder; repeat it for several.", metavar="DIR"),
]


def mcp(index_folders: IndexFolders = None) -> None:
    """Serve indexes to an AI application that starts this command."""
    try:
        from kumihimo.server.access import local_caller
        from kumihimo.server.mcp.stdio import run_stdio
        from kumihimo.server.workspace import open_workspace
    except ModuleNotFoundError as error:
        raise SettingsError(f"the server needs {error.name}: `pip install 'kumihimo[server]'`") from error
    workspace = open_workspace(index_folders or [Path(".kumi")])
    run_stdio(workspace, local_caller(workspace))
