"""`kumi serve`, `kumi mcp` and `kumi key` -> a running server, and the keys for it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from signal import SIGINT
from typing import Annotated

from typer import Argument, Option

from kumihimo.app.opened.open_index import IndexPlace
from kumihimo.app.upkeep import keys
from kumihimo.cli import options, printing
from kumihimo.cli.translated_help import Interrupted
from kumihimo.core.errors import SettingsError
from kumihimo.text.translation import translate

_MOST_WORKERS = 4
Indexes = Annotated[
    list[IndexPlace] | None,
    Option(
        "--index",
        envvar="KUMI_INDEX",
        help="An index: a folder or an address; several are possible.",
        metavar="DIR",
        parser=IndexPlace.at,
    ),
]
INSTALL_SERVER = "the server is not installed: `pip install 'kumihimo[server]'` does that"


@dataclass(frozen=True)
class IndexFolders(options.Output):
    """The option for several indexes."""

    indexes: Indexes = None

    @property
    def places(self) -> list[IndexPlace]:
        return self.indexes or [options.DEFAULT_INDEX]


@dataclass(frozen=True)
class ServerLimits:
    """The options for what a server takes and writes down."""

    roots: Annotated[
        list[Path] | None,
        Option("--root", help="A folder whose files may be added by path; several are possible.", metavar="DIR"),
    ] = None
    uploads: Annotated[
        Path | None, Option(help="The folder for uploaded files. Default: uploads beside the index.", metavar="DIR")
    ] = None
    upload_space: Annotated[
        int, Option(help="Gigabytes that all uploads of an index may take.", min=1, max=1_000_000, metavar="GB")
    ] = 20
    path: Annotated[
        str, Option(help="The path of this server in the site of a proxy, such as /kumi.", metavar="PATH")
    ] = ""
    hosts: Annotated[
        list[str] | None, Option("--allow-host", help="A name of this server, as behind a proxy.", metavar="NAME")
    ] = None
    proxies: Annotated[
        list[str] | None,
        Option("--proxy", help="The address of a proxy, which names the clients; several are possible.", metavar="IP"),
    ] = None
    require_keys: Annotated[bool, Option("--require-key", help="Ask for a key on this machine too.")] = False
    workers: Annotated[
        int | None,
        Option(
            help="Processes for questions that need no model. Default: one for each processor, up to 4.",
            min=0,
            max=1000,
        ),
    ] = None
    questions: Annotated[int, Option(help="Questions that run together; others wait.", min=1)] = 32
    seconds: Annotated[float, Option(help="Time limit of one question.", min=1, max=86_400)] = 300.0
    audit: Annotated[Path | None, Option(help="Write each request into this file.", metavar="FILE")] = None
    audit_questions: Annotated[bool, Option("--audit-questions", help="Write the text of questions too.")] = False


def serve(
    indexes: IndexFolders,
    limits: ServerLimits,
    host: Annotated[str, Option(help="The address to listen on.", metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[int, Option(help="The port to listen on.", min=0, max=65535)] = 8460,
    no_browser: Annotated[bool, Option("--no-browser", help="Do not open the page.")] = False,
) -> None:
    """Serve indexes: a page, HTTP, OpenAI-compatible and MCP."""
    with _requiring_server():
        from kumihimo.server.run import run_server
        from kumihimo.server.settings import ServerSettings
    settings = ServerSettings(
        host=host,
        port=port,
        path=limits.path.rstrip("/"),
        roots=tuple(path.resolve() for path in limits.roots or ()),
        uploads=limits.uploads and limits.uploads.resolve(),
        upload_space=limits.upload_space * 10**9,
        hosts=tuple(name.lower() for name in limits.hosts or ()),
        proxies=tuple(map(_parse_proxy, limits.proxies or ())),
        workers=min(os.cpu_count() or 1, _MOST_WORKERS) if limits.workers is None else limits.workers,
        **{
            name: getattr(limits, name) for name in ("require_keys", "questions", "seconds", "audit", "audit_questions")
        },
    )
    if run_server(indexes.places, settings, _announce, open_browser=not no_browser) == SIGINT:
        raise Interrupted


@contextmanager
def _requiring_server() -> Iterator[None]:
    """Raise SettingsError if a package of the server is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("kumihimo"):
            raise
        raise SettingsError(INSTALL_SERVER) from error


def _parse_proxy(address: str) -> str:
    """Return the address or network of a proxy.

    Raises SettingsError for another text.
    """
    try:
        return str(ip_network(address, strict=False))
    except ValueError:
        raise SettingsError(f"--proxy {address}: write an address such as 127.0.0.1, or a network") from None


def _announce(address: str) -> None:
    """Print where the server listens."""
    printing.print_message(f"Kumihimo listens on {address} (Ctrl-C ends it).")


def mcp(indexes: Indexes = None) -> None:
    """Serve indexes to an AI application that starts this command."""
    with _requiring_server():
        from kumihimo.server.mcp.server import run_stdio
    run_stdio(indexes or [options.DEFAULT_INDEX])


def new(
    indexes: IndexFolders,
    role: Annotated[str, Option(help="What it may do: reader, editor or admin.", metavar="NAME")],
    name: Annotated[str, Option(help="Whose key it is, for lists and logs.", metavar="TEXT")] = "",
    filter: options.FilterExpression = "",
    budget: Annotated[
        int | None, Option(help="Tokens of model calls a day, for each index. Default: no limit.", min=1)
    ] = None,
    rate: Annotated[int, Option(help="Requests a minute.", min=1)] = keys.REQUESTS_PER_MINUTE,
) -> None:
    """Make a key for these indexes, and show it once."""
    places = indexes.places
    if lost := [place.base for place in places if not place.base.is_dir()]:
        raise SettingsError(f"there is no folder {lost[0]}: check --index")
    id, token = keys.create_key(places, role, name=name, rights=filter, daily_tokens=budget, requests_per_minute=rate)
    for place in places:
        if not keys.has_index(place):
            printing.print_note(f"There is no index in {place} yet: add documents with `kumi index`, or on the page.")
    text = f"{translate('Keep this key: it is not shown again.')}\n{token}"
    indexes.show({"id": id, "key": token, "role": role, "filter": filter}, lambda _: printing.print_text(text))


def list_(indexes: IndexFolders) -> None:
    """List the keys of these indexes, without the keys themselves."""
    found = {str(place): keys.list_keys(place) for place in indexes.places}
    for place in indexes.places:
        options.require_contents(place, found[str(place)])
    indexes.show({folder: [key._asdict() for key in each] for folder, each in found.items()}, lambda _: _show(found))


def _show(found: dict[str, list[keys.StoredKey]]) -> None:
    for folder, each in found.items():
        rows = [
            (key.id, key.role, key.name, key.rights, str(key.daily_tokens or ""), key.created[:10], key.revoked[:10])
            for key in each
        ]
        printing.print_text(folder)
        printing.show_rows(rows, head=("id", "role", "name", "filter", "budget", "created", "revoked"))


def revoke(
    indexes: IndexFolders, id: Annotated[str, Argument(help="The id of the key, from `kumi key list`.")]
) -> None:
    """Revoke a key: from now on it opens nothing."""
    if not (revoked := [str(place) for place in indexes.places if keys.revoke_key(place, id)]):
        raise SettingsError(f"no key has the id {id!r}: `kumi key list` shows the ids")
    indexes.show({"id": id, "indexes": revoked}, f"Revoked {id}.")
