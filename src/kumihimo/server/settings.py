"""options of `kumi serve` -> ServerSettings: addresses, limits and what is written down."""

import re
from dataclasses import dataclass
from pathlib import Path

from kumihimo.core.errors import SettingsError
from kumihimo.core.network import read_ip

MEGABYTE = 2**20
_PATH = re.compile(r"(/[\w.~-]*[\w~-])+", re.ASCII)
_OWN_PATHS = (
    *(
        "api",
        "v1",
        "mcp",
        "health",
        "ready",
        "metrics",
        "openapi.json",
        "login",
        "logout",
        "preferences",
        "static",
        "edits",
    ),
    *("indexes", "overview", "documents", "graph", "reports", "trace", "status", "builds"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of one server.

    path: of the server in the site of a proxy, such as `/kumi`. roots: folders whose files may be added by path.
    uploads: the folder for uploaded files; None: `uploads` beside each index. require_keys: ask for a key on loopback
    too. hosts: names, beside the address, that the Host header may have. proxies: addresses and networks of proxies;
    what they say of a client is believed. workers: processes for questions that no model answers; 0: threads.
    questions: that run together. seconds: of one question. max_upload, max_text, max_body: bytes of a request with
    files, with a conversation or texts, and of any other. upload_space: bytes of all uploads of an index.
    header_seconds: until the headers of a request are complete. body_seconds: how long a client may be silent between
    parts of its body, and may not read what it asked for. max_connections: open at once. audit: the file of the audit
    log; None: no log. audit_questions: whether it holds the text of questions.
    """

    host: str = "127.0.0.1"
    port: int = 8460
    path: str = ""
    roots: tuple[Path, ...] = ()
    uploads: Path | None = None
    require_keys: bool = False
    hosts: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    workers: int = 0
    questions: int = 32
    seconds: float = 300.0
    max_upload: int = 200 * MEGABYTE
    max_text: int = 2 * MEGABYTE
    max_body: int = MEGABYTE // 4
    upload_space: int = 20 * 10**9
    header_seconds: float = 15.0
    body_seconds: float = 30.0
    max_connections: int = 2_000
    audit: Path | None = None
    audit_questions: bool = False

    def __post_init__(self) -> None:
        own = self.path.split("/")[1] if "/" in self.path else ""
        if self.path and not (_PATH.fullmatch(self.path) and own not in _OWN_PATHS):
            raise SettingsError(
                f"--path {self.path}: write a path that begins with / and is no address of the server, such as /kumi"
            )

    @property
    def needs_keys(self) -> bool:
        """Return whether each request needs a key.

        A name or a proxy of the server means that other machines reach it, even on loopback.
        """
        is_public = self.proxies or any(not is_loopback(name) for name in (self.host, *self.hosts))
        return self.require_keys or bool(is_public)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "192.168.0.4")]
    [True, True, True, False, False]
    """
    address = read_ip(host)
    return address.is_loopback if address else host == "localhost"
