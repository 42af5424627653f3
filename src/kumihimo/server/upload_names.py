"""the name of an uploaded file, or a path that a client gives -> a path that may be written or read."""

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from unicodedata import normalize

from kumihimo.core.errors import SourceError, describe_unknown
from kumihimo.server.problems import Forbidden
from kumihimo.text.file_names import is_reserved

_MAX_BYTES = 200  # file systems allow 255, and a temporary name is longer
# C0 and C1, what Windows does not allow, and marks of the writing direction, which hide an ending
_UNSAFE = re.compile(r'[\x00-\x1f\x7f-\x9f<>:"|?*\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffd]')


def safe_name(name: str, readers: Iterable[str]) -> str:
    r"""Return the name under which an uploaded file is stored.

    Folders are left out, whichever way they are written. readers: the suffixes of readable files. Raises SourceError.

    >>> [safe_name(name, [".txt"]) for name in ("../../etc/x.txt", "C:\\notes\\nul.txt", "..a\0b?.txt", "名前.TXT")]
    ['x.txt', '_nul.txt', 'a_b_.txt', '名前.TXT']
    """
    last = re.split(r"[/\\]", name)[-1]
    cleaned = _UNSAFE.sub("_", normalize("NFC", last)).strip(". ")
    path, known = PurePosixPath(cleaned), [*filter(None, readers)]
    if path.suffix.lower() not in known:
        what = describe_unknown("reader for", path.suffix or cleaned[:100], known)
        raise SourceError(f"{cleaned[:100] or 'a file without a name'}: {what}")
    stem = path.stem.encode()[: _MAX_BYTES - len(path.suffix.encode())].decode(errors="ignore").strip()
    return f"{'_' * is_reserved(cleaned)}{stem}{path.suffix}"


def allowed_path(path: str, roots: Iterable[Path]) -> Path:
    """Return a path inside a root, with its links resolved.

    A relative path is inside the first root. Whether a path outside exists is not told. Raises Forbidden and
    SourceError.
    """
    resolved_roots = [root.resolve() for root in roots]
    if not resolved_roots:
        raise Forbidden("this server adds no paths: upload the files, or start it with `kumi serve --root FOLDER`")
    try:
        resolved = (resolved_roots[0] / path).resolve()
        exists = resolved.exists()
    except (OSError, ValueError, RuntimeError):  # a zero byte, a name that is too long, links in a circle
        raise SourceError(f"{path[:100]!r} is no path: check it") from None
    if not any(resolved == root or root in resolved.parents for root in resolved_roots):
        raise Forbidden(f"{path[:100]!r} is outside the folders that this server may read: see `kumi serve --root`")
    if not exists:
        raise SourceError(f"{path[:100]} does not exist: check the path")
    return resolved
