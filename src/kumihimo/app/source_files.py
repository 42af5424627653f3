"""a snapshot -> where the files of its sources are, and the uris of files."""

from pathlib import Path

from kumihimo.app.facade import Kumihimo
from kumihimo.app.snapshot import Snapshot
from kumihimo.index.sources import IndexedSource, load_sources


def find_file(kumi: Kumihimo, snapshot: Snapshot, uri: str) -> Path | None:
    """Return the path of a file by its uri, or None."""
    source = next((source for source in _sources(kumi, snapshot) if source.contains_uri(uri)), None)
    if source is None or not source.path.exists():
        return None
    return source.files().get(uri)


def file_uri(kumi: Kumihimo, snapshot: Snapshot, path: Path) -> str:
    """Return the uri of a file; empty outside all sources."""
    for source in _sources(kumi, snapshot):
        if path == source.path or source.path in path.parents:
            return source.name if path == source.path else source.uri(path)
    return ""


def is_excluded(kumi: Kumihimo, snapshot: Snapshot, path: Path) -> bool:
    """Return whether a file, or a part of it, was removed."""
    uri = file_uri(kumi, snapshot, path)
    rules = (rule for source in _sources(kumi, snapshot) for rule in source.rules if not rule.startswith("!"))
    return bool(uri) and any(rule == uri or rule.startswith(f"{uri}#") or uri.startswith(f"{rule}/") for rule in rules)


def _sources(kumi: Kumihimo, snapshot: Snapshot) -> list[IndexedSource]:
    return list(load_sources(snapshot.db, kumi.base).values())
