"""an address -> an origin of files, the name of its mirror, and the names of its files there."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from unicodedata import category, normalize
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from kumihimo.core.errors import SourceError
from kumihimo.core.network import PAGE, STORE
from kumihimo.core.redaction import redact
from kumihimo.text.file_names import is_reserved

_ADDRESS = re.compile(r"(?i)[a-z][a-z0-9+.:-]+://")
_WEB = {"http": 80, "https": 443}
_UNSAFE = re.compile(r"[^\w. =,+@()~-]")
_MAX_NAME_CHARS = 100  # file systems allow 255 bytes
MAX_ADDRESS_CHARS = 2000  # of a link or a redirect: a sitemap allows 2,048, and many servers no more


@dataclass(frozen=True, slots=True)
class Origin:
    """An address that a person has named.

    protocol: http, https, or one of fsspec. name: of the folder in the mirrors, and so of the source.
    """

    url: str
    protocol: str
    name: str

    @property
    def is_web(self) -> bool:
        """Return whether it is a web page."""
        return self.protocol in _WEB


def is_address(text: object) -> bool:
    """Return whether a text is an address and no path.

    >>> [is_address(text) for text in ("https://example.org/a", "s3://bucket/a", "notes/a.md", "C:\\\\notes", "file:///a")]
    [True, True, False, False, True]
    """
    return isinstance(text, str) and bool(_ADDRESS.match(text))


def local_path(address: str) -> str:
    """Return the path of a file:// address, or any other text.

    >>> local_path("file:///notes/a%20b.md"), local_path("notes")
    ('/notes/a b.md', 'notes')
    """
    if not address.lower().startswith("file://"):
        return address
    from urllib.request import url2pathname  # noqa: TID251 (it loads much, and few commands need it)

    parts = urlsplit(address)
    if parts.hostname not in (None, "localhost"):
        raise SourceError(f"{address[:200]} is on another machine: name its folder as a path")
    return url2pathname(parts.path)


def parse_origin(address: str) -> Origin:
    """Return the origin of an address. Raise SourceError.

    >>> parse_origin("HTTP://Example.org:80/a/../b#c")
    Origin(url='http://example.org/b', protocol='http', name='example.org')
    >>> parse_origin("s3://papers/2024/").name
    's3-papers'
    """
    protocol = address.partition(":")[0].lower()
    (PAGE if protocol in _WEB else STORE).parse_address(address)
    parts = urlsplit(address)
    if parts.password is not None and protocol != "github":  # it would be stored in the index
        raise SourceError(
            f"{redact(address)[:200]}: an address with a password is not stored: give the key to the driver in its "
            "environment or its own settings"
        )
    if protocol in _WEB:
        host = parts.hostname or ""
        name = host if parts.port in (None, _WEB[protocol]) else f"{host}-{parts.port}"
        return Origin(normalize_url(address), protocol, safe_part(name))
    bucket = address.partition("://")[2].partition("/")[0]
    return Origin(address.rstrip("/"), protocol, safe_part(f"{protocol}-{bucket.rpartition('@')[2]}"))


def normalize_url(url: str) -> str:
    """Return a web address in one form, without its fragment.

    Raise ValueError if it is none.

    >>> normalize_url("HTTPS://Example.org:443?a=1"), normalize_url("http://h:8000/a/./b/../c")
    ('https://example.org/?a=1', 'http://h:8000/a/c')
    """
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    if parts.port not in (None, _WEB.get(scheme)):
        host = f"{host}:{parts.port}"
    path = urlsplit(urljoin("http://host/", parts.path.lstrip("/"))).path  # without . and ..
    return urlunsplit((scheme, host, path, parts.query, ""))


def join_address(base: str, link: str) -> str:
    """Return the web address of a link; empty if there is none.

    Addresses with control characters, or longer than MAX_ADDRESS_CHARS, are none.

    >>> join_address("https://example.org/a/", "../b c#d"), join_address("https://example.org/", "mailto:me")
    ('https://example.org/b c', '')
    """
    link = link.strip()
    if len(link) > MAX_ADDRESS_CHARS:
        return ""
    try:
        url = normalize_url(urljoin(base, link))
    except ValueError:
        return ""
    is_usable = url.startswith(("http://", "https://")) and len(url) <= MAX_ADDRESS_CHARS
    return url if is_usable and not any(category(letter) in ("Cc", "Cs") for letter in url) else ""


def mirror_name(url: str, suffixes: Collection[str] = ()) -> str:
    """Return the path of a file of this address in its mirror.

    suffixes: one of which the name gets, if it has none of them.

    >>> mirror_name("https://example.org/"), mirror_name("https://example.org/a b/c?id=3", [".html", ".htm"])
    ('index', 'a b/c_id=3.html')
    >>> mirror_name("https://example.org/../.git/x.htm", [".html", ".htm"])
    '_/_.git/x.htm'
    """
    path, _, query = url.partition("://")[2].partition("?")
    *folders, last = path.split("/")[1:] or [""]
    last = unquote(last) or "index"
    if query:
        last += f"_{unquote(query)}"
    if suffixes and Path(last).suffix.lower() not in suffixes:
        last += next(iter(suffixes))
    return "/".join(map(safe_part, [*(unquote(folder) for folder in folders if folder), last]))


def safe_part(name: str) -> str:
    """Return a name that every file system takes and no reader skips.

    >>> [safe_part(name) for name in ("..", ".env", "a/b:c?.md", "nul.txt")]
    ['_', '_.env', 'a_b_c_.md', '_nul.txt']
    """
    cleaned = _clean(name)
    if len(cleaned) <= _MAX_NAME_CHARS and len(cleaned.encode()) <= 2 * _MAX_NAME_CHARS:
        return cleaned
    suffix = Path(cleaned).suffix[:20]
    digest = blake2b(name.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return f"{cleaned[: _MAX_NAME_CHARS // 2]}-{digest}{suffix}"


def text_file_name(id: str) -> str:
    """Return the name of the file of a text with this id.

    No two ids have one name, also where names that differ in case are one file.

    >>> [text_file_name(id) for id in ("harbour-note", "notes/Harbour")]
    ['harbour-note.json', 'notes_Harbour~7d1ac3ba80f6.json']
    """
    name = safe_part(id)
    if name != id or name != name.casefold() or "~" in name:
        name = f"{name[: _MAX_NAME_CHARS // 2]}~{blake2b(id.encode('utf-8', 'replace'), digest_size=6).hexdigest()}"
    return f"{name}.json"


def is_file_name(path: str) -> bool:
    """Return whether a path may be one of `mirror_name`, numbered or not.

    >>> [is_file_name(path) for path in ("a b/c~2.html", "../c.html", "/c.html", "a//c.html", "")]
    [True, False, False, False, False]
    """
    return all(part == _clean(part) for part in path.split("/"))


def _clean(name: str) -> str:
    """Return a name of any length without special characters and meanings."""
    cleaned = _UNSAFE.sub("_", normalize("NFC", name)).rstrip(" .") or "_"
    return f"_{cleaned}" if cleaned.startswith((".", " ")) or is_reserved(cleaned) else cleaned
