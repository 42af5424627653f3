"""lines of a person -> GraphEdits: which names are one entity, and what of the graph is changed, added or left out.

    Kit Roake = K. Roake                        one entity; the first name is shown
    Roake != Kit Roake                          two entities
    Kentucky Senate = Senate @ news/a.txt       in one document
    type: Mercury = planet
    delete: Table of Contents
    relation: Kit Roake -> Oban = She was born there.
    relation: Kit Roake -> Oban @ news/a.txt = She was born there.
    no relation: Kit Roake -> Oban

Of two lines that give an entity a type, or are about one relation, the last one counts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SettingsError
from kumihimo.text.name_keys import entity_id, name_key, relation_id

_VERBS = {
    "type": "type: NAME = TYPE",
    "delete": "delete: NAME",
    "relation": "relation: NAME -> NAME = DESCRIPTION",
    "no relation": "no relation: NAME -> NAME",
}
_EDIT = re.compile(rf"({'|'.join(_VERBS)}):\s++(.*)")


class EditLine(NamedTuple):
    """The parts of a line.

    verb: empty for names of one entity, `!=` for names of two. names: as written. value: a type or a description.
    document: a uri, for a relation of one document.
    """

    verb: str
    names: tuple[str, ...]
    value: str = ""
    document: str = ""


@dataclass(frozen=True, slots=True)
class RelationEdit:
    """A relation of a person.

    ends: entities, the smaller id first. names: of both, in that order. text: its description; empty: it is left out.
    """

    ends: tuple[str, str]
    names: tuple[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class GraphEdits:
    """The lines of a person.

    aliases: as `parse_aliases` returns them. names: entity -> the name to show. distinct: pairs of keys to keep apart.
    types: entity -> type. deleted: entities. relations: (relation, document) -> edit; without a document, for all.
    """

    aliases: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    distinct: frozenset[frozenset[str]] = frozenset()
    types: Mapping[str, str] = field(default_factory=dict)
    deleted: frozenset[str] = frozenset()
    relations: Mapping[tuple[str, str], RelationEdit] = field(default_factory=dict)

    def entity_of(self, name: str) -> str:
        """Return the id of the entity with a name."""
        key = name_key(name)
        return entity_id(self.aliases.get(key, key))

    def relation(self, relation: str, document: str) -> RelationEdit | None:
        """Return the edit of a relation in a document, if any."""
        return self.relations.get((relation, document)) or self.relations.get((relation, ""))


@lru_cache(maxsize=16)  # each chunk has the same lines
def parse_edits(lines: tuple[str, ...]) -> GraphEdits:
    """Parse lines. Raise SettingsError for one that is no edit.

    >>> edits = parse_edits(("Kit Roake = K. Roake", "type: K. Roake = captain", "Roake != Kit Roake"))
    >>> [*edits.names.values()], edits.types[edits.entity_of("Kit Roake")], len(edits.distinct)
    (['Kit Roake'], 'captain', 1)
    """
    parsed = [parse_line(line) for line in lines]
    merging = [line for line, parts in zip(lines, parsed, strict=True) if not parts.verb]
    edits = GraphEdits(aliases := parse_aliases(merging))
    firsts = [parts.names[0] for parts in parsed if not parts.verb]
    shown = {entity_id(key): name for name in reversed(firsts) if (key := name_key(name)) not in aliases}
    return GraphEdits(
        aliases,
        shown,
        frozenset(frozenset(map(alias_key, names)) for verb, names, *_ in parsed if verb == "!="),
        {edits.entity_of(name): value for verb, (name, *_), value, _ in parsed if verb == "type"},
        frozenset(edits.entity_of(name) for verb, (name, *_), *_ in parsed if verb == "delete"),
        dict(_read_relations(edits, parsed)),
    )


def _read_relations(edits: GraphEdits, parsed: Iterable[EditLine]) -> Iterator[tuple[tuple[str, str], RelationEdit]]:
    """Yield the edit of each relation of two entities, with its key."""
    for parts in parsed:
        if parts.verb.endswith("relation"):
            (first, one), (second, other) = sorted((edits.entity_of(name), name) for name in parts.names)
            if first != second:
                key = relation_id(first, second), hash_parts(parts.document) if parts.document else ""
                yield key, RelationEdit((first, second), (one, other), parts.value)


def parse_line(line: str) -> EditLine:
    """Return the parts of a line. Raise SettingsError for no edit.

    >>> parse_line("relation: Kit Roake -> Oban @ news/a.txt = She was born there.")
    EditLine(verb='relation', names=('Kit Roake', 'Oban'), value='She was born there.', document='news/a.txt')
    >>> parse_line("type: Mercury = planet").value, parse_line("Kit Roake = K. Roake = Kit").names
    ('planet', ('Kit Roake', 'K. Roake', 'Kit'))
    """
    if not (match := _EDIT.fullmatch(line.strip())):
        if fault := _find_alias_fault(line):
            raise SettingsError(fault)
        return EditLine("!=" if "!=" in line else "", tuple(_split_names(line)))
    verb, rest = match[1], match[2]
    subject, _, value = rest.partition("=") if verb in ("type", "relation") else (rest, "", "")
    ends, at, document = subject.partition(" @ ")
    names = tuple(name.strip() for name in (ends.split(" -> ") if verb.endswith("relation") else [subject]))
    keys = {name_key(name) for name in names if name}
    if not len(names) == len(keys) == _VERBS[verb].count("NAME") or bool(value.strip()) != ("=" in _VERBS[verb]):
        raise SettingsError(f"{line!r} is no edit: write {_VERBS[verb]!r}")
    return EditLine(verb, names, value.strip(), document.strip() if at and verb.endswith("relation") else "")


def parse_aliases(lines: Iterable[str]) -> Mapping[str, str]:
    """Parse lines of names into a map from keys to canonical keys.

    A line is `Bob Cratchit = Robert Cratchit = Mr Cratchit`; its first name is canonical. Lines that share a name form
    one group, with the first name of the first line. `Kentucky Senate = Senate @ news/a.txt` is about one document; its
    key is `local_key`. Raise SettingsError for a line without `=`.

    >>> parse_aliases(["Bob Cratchit = Robert Cratchit", "Robert Cratchit = Mr Cratchit"])
    {'robert cratchit': 'bob cratchit', 'mr cratchit': 'bob cratchit'}
    >>> parse_aliases(["Mr Cratchit = Bob", "Robert = Bob", "Tim = Tiny Tim"])
    {'bob': 'mr cratchit', 'robert': 'mr cratchit', 'tiny tim': 'tim'}
    """
    places: dict[str, int] = {}  # of each name, in order
    parents: dict[int, int] = {}  # of each place, an earlier one of its group, or itself

    def find(place: int) -> int:
        while parents[place] != place:
            parents[place] = place = parents[parents[place]]
        return place

    for line in lines:
        names = [alias_key(name) for name in parse_line(line).names]
        for name in names:
            parents.setdefault(places.setdefault(name, len(places)), places[name])
        roots = {find(places[name]) for name in names}
        parents.update(dict.fromkeys(roots, min(roots)))
    ordered = list(places)
    return {name: ordered[find(place)] for name, place in places.items() if find(place) != place}


def find_edit_fault(lines: Mapping[int, str]) -> str:
    """Return the first fault of numbered lines, or empty.

    A line `A != B` has two different names, which the other lines do not merge.

    >>> find_edit_fault({1: "Roake = Kit Roake", 2: "Bob != Roake"})
    ''
    >>> find_edit_fault({1: "Roake = Kit Roake", 4: "Kit Roake != Roake"})
    "line 4: 'Kit Roake != Roake' keeps apart what line 1 merges ('Roake = Kit Roake'): delete one of them"
    """
    parsed: dict[int, EditLine] = {}
    for number, line in lines.items():
        try:
            parsed[number] = parse_line(line)
        except SettingsError as error:
            return f"line {number}: {error}"
    merging = {number: lines[number] for number, parts in parsed.items() if not parts.verb}
    keys = parse_aliases(merging.values())
    for number, parts in parsed.items():
        group_keys = [keys.get(key, key) for key in map(alias_key, parts.names)]
        if parts.verb == "!=" and group_keys[0] == group_keys[1]:
            group = [n for n in merging if group_keys[0] in (keys.get(k, k) for k in map(alias_key, parsed[n].names))]
            places = " and ".join(f"line {n} merges ({merging[n]!r})" for n in group)
            return f"line {number}: {lines[number]!r} keeps apart what {places}: delete one of them"
    return ""


def local_key(key: str, document: str) -> str:
    """Return the key of a name in one document.

    document: its id. No other key has an @.
    """
    return f"{key} @ {document}"


def alias_key(name: str) -> str:
    """Return the key of a name in a line of names.

    >>> alias_key("Bob Cratchit"), alias_key("Senate @ news/a.txt") == local_key("senate", hash_parts("news/a.txt"))
    ('bob cratchit', True)
    """
    plain, at, uri = name.partition(" @ ")
    return local_key(name_key(plain), hash_parts(uri.strip())) if at else name_key(name)


def _split_names(line: str) -> list[str]:
    return [name.strip() for name in re.split("!?=", line) if name.strip()]


def _find_alias_fault(line: str) -> str:
    """Return what is wrong with a line of names, or empty."""
    keys, is_distinct = list(map(alias_key, _split_names(line))), "!=" in line
    if len(keys) < 2 or not all(keys[:2]) or (is_distinct and line.count("=") > 1):
        return (
            f"{line!r} is no edit: write `name = other name` or `name != other name`, "
            "or begin with `type:`, `delete:`, `relation:` or `no relation:`"
        )
    if is_distinct and keys[0] == keys[1]:
        return f"{line!r} has the same name twice: write two different names, or delete the line"
    if "@" in keys[0] or (is_distinct and "@" in keys[1]):
        return f"{line!r} names a document where it may not: write `name = other name @ document`"
    return ""
