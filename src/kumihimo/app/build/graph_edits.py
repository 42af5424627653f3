"""a line of a person -> aliases.txt, if it is about something in the index; the lines that are about nothing."""

from collections.abc import Sequence
from threading import Lock
from typing import cast

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.community_tree import table_or_empty
from kumihimo.app.opened.open_index import OpenIndex
from kumihimo.app.settings import config
from kumihimo.core.digests import hash_parts, replace_surrogates
from kumihimo.core.errors import SettingsError
from kumihimo.core.settings import resolve_settings
from kumihimo.text.graph_edits import EditLine, GraphEdits, alias_key, find_edit_fault, parse_edits, parse_line
from kumihimo.text.name_keys import entity_id, name_key
from kumihimo.text.repetition import contains_phrase

_FILE_LOCK = Lock()  # of threads that change the file
_READ_CHUNKS = 20  # of those that may name a deleted entity


def edit_graph(index: OpenIndex, snapshot: Snapshot, line: str, *, undo: bool = False) -> dict[str, bool]:
    """Add a line to aliases.txt, or remove it; return its lines.

    Each comes with whether it is about something in the snapshot. Raises SettingsError as `Kumihimo.edit` says.
    """
    line, path = replace_surrogates(" ".join(line.split())), index.base / config.ALIASES
    with _FILE_LOCK:
        lines = read_lines(index)
        if undo:
            if line not in lines:
                raise SettingsError(f"{line!r} is not in {path}: `kumi edit` lists its lines")
            config.remove_edit_line(path, line)
            lines.remove(line)
        elif line and line not in lines:
            if fault := find_edit_fault(dict(enumerate([*lines, line], 1))):
                raise SettingsError(fault)
            resolve_settings(index.settings_registry.all, {"mentions": {"aliases": (*lines, line)}})  # its bounds
            if line.startswith("#") or find_unmatched(snapshot, [line]):
                raise SettingsError(f"{line!r} matches nothing in the index: {_remedy(parse_line(line))}")
            config.append_aliases(path, [line])
            lines.append(line)
    unmatched = find_unmatched(snapshot, lines) if lines else ()
    return {each: each not in unmatched for each in lines}


def read_lines(index: OpenIndex) -> list[str]:
    """Return the lines of aliases.txt, with single spaces."""
    layer = config.read_aliases(index.base / config.ALIASES)
    lines = cast(Sequence[str], layer["mentions"]["aliases"]) if layer else ()
    return list(dict.fromkeys(" ".join(line.split()) for line in lines))


def _remedy(parts: EditLine) -> str:
    if parts.verb == "relation" and not parts.document:
        return "no passage names both; say which document tells it, `relation: NAME -> NAME @ DOCUMENT = DESCRIPTION`"
    return "write names as `kumi entities` shows them, and documents as `kumi trace` does"


def find_unmatched(snapshot: Snapshot, added: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the lines of the last build that match nothing.

    added: later lines, which are looked at in their place.
    """
    built = tuple(snapshot.db.meta("settings", {}).get("mentions", {}).get("aliases", ()))
    if not snapshot.db.has("mentions"):
        return ()
    matcher = _Matcher(snapshot, (parse_edits(built), parse_edits((*built, *added))))
    return tuple(line for line in added or built if not matcher.matches(parse_line(line)))


class _Matcher:
    """Finds what lines match. edits: those that made the index, and those of the next build."""

    def __init__(self, snapshot: Snapshot, edits: Sequence[GraphEdits]) -> None:
        self.snapshot, self.edits = snapshot, edits
        self.mentions = table_or_empty(snapshot, "mentions")

    def matches(self, parts: EditLine) -> bool:
        """Return whether a line is about something in the index."""
        if parts.verb.endswith("relation"):
            if len(set(map(self.edits[-1].entity_of, parts.names))) == 1:
                return False
            one, other = map(self._chunks, parts.names)
            document = hash_parts(parts.document)
            return any(id.startswith(f"{document}.") for id in one | other) if parts.document else bool(one & other)
        if parts.verb in ("type", "delete"):
            return bool(self._chunks(parts.names[0])) or (parts.verb == "delete" and self._is_written(parts.names[0]))
        return any(map(self._is_named, parts.names if parts.verb else parts.names[1:]))

    def _entities(self, name: str) -> set[str]:
        return {entity_id(name_key(name)), *(edits.entity_of(name) for edits in self.edits)}

    def _chunks(self, name: str) -> set[str]:
        """Return the chunks that mention the entity of a name."""
        return {id.rpartition(".")[0] for entity in self._entities(name) for id in self.mentions.ids(entity=entity)}

    def _is_named(self, name: str) -> bool:
        """Return whether a mention has this name, in its document if given."""
        plain, _, uri = name.partition(" @ ")
        entities = self._entities(plain).union(entity_id(e.aliases.get(alias_key(name), "")) for e in self.edits)
        document = f"{hash_parts(uri.strip())}." if uri else ""
        return any(
            row.id.startswith(document) and name_key(row.name) == name_key(plain)
            for entity in entities
            for row in self.mentions.where(entity=entity)
        ) or any(entity in edits.deleted for edits in self.edits for entity in entities)

    def _is_written(self, name: str) -> bool:
        """Return whether a chunk has a name, mentioned or not."""
        chunks = self.snapshot.table("chunks")
        if not self.snapshot.db.has("words_chunks_postings"):
            return True
        hits = self.snapshot.keyword_search()(chunks, name, k=_READ_CHUNKS)
        return any(contains_phrase(hit.record.index_text.casefold(), name.casefold()) for hit in hits)
