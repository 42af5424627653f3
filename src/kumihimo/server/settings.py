"""options of `kumi serve` -> ServerSettings: addresses, limits and what is written down."""

from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings of one server.

    roots: folders whose files may be added by path. uploads: the folder for uploaded files; None: `uploads` beside each
    index. require_keys: ask for a key on loopback too. hosts: names, beside the address, that the Host header may have.
    workers: processes for questions that no model answers; 0: threads. questions: that run together. seconds: of one
    question. max_upload, max_body: bytes of a request with files, and of any other. header_seconds, body_seconds: how
    long a client may be silent before its headers are complete, and between parts of its body. max_connections: open at
    once. audit: the file of the audit log; None: no log. audit_questions: whether it holds the text of questions.
    """

    host: str = "127.0.0.1"
    port: int = 8460
    roots: tuple[Path, ...] = ()
    uploads: Path | None = None
    require_keys: bool = False
    hosts: tuple[str, ...] = ()
    workers: int = 0
    questions: int = 32
    seconds: float = 300.0
    max_upload: int = 200 * MEGABYTE
    max_body: int = 2 * MEGABYTE
    header_seconds: float = 15.0
    body_seconds: float = 30.0
    max_connections: int = 2_000
    audit: Path | None = None
    audit_questions: bool = False
