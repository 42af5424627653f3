"""settings -> what an extraction has to keep to: entities that are always recognised, types of relations."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from kumihimo.core.errors import SettingsError
from kumihimo.core.settings import LINE, TextForm
from kumihimo.index.extraction_parser import ExtractedEntity, ExtractedRecord, ExtractedRelation
from kumihimo.text.repetition import contains_phrase

_RELATIONS_RULE = "\n- Begin the keywords with the type of the relation. The types, and the types of their ends:\n  - "
_RELATION_LINE = re.compile(r"[^:>,]*\w[^:>,]*(:[^:>,]+>[^:>,]+(,[^:>,]+>[^:>,]+)*)?")


@dataclass(frozen=True, slots=True)
class KnownEntity:
    """An entity that the user has named; line: as in the settings."""

    line: str
    names: tuple[str, ...]
    record: ExtractedEntity


@lru_cache(maxsize=16)
def parse_known_entities(lines: tuple[str, ...]) -> tuple[KnownEntity, ...]:
    """Parse lines `name = other name | type | description`.

    >>> (arm,) = parse_known_entities(("Long Arm = the breakwater | place | It lies in the west.",))
    >>> arm.names, arm.record
    (('Long Arm', 'the breakwater'), ExtractedEntity(name='Long Arm', type='place', text='It lies in the west.'))
    """
    known = []
    for line in lines:
        forms, entity_type, text, *rest = [part.strip() for part in (*line.split("|"), "", "")]
        names = tuple(name.strip() for name in forms.split("="))
        if not all(names) or any(rest):
            raise SettingsError(f"{line!r} is no known entity: write `name = other name | type | description`")
        known.append(KnownEntity(line, names, ExtractedEntity(names[0], entity_type, text)))
    return tuple(known)


KNOWN_ENTITY = TextForm(
    "`name = other name | type | description`, one line",
    lambda line: LINE.accepts(line) and parse_known_entities((line,)),
)
RELATION_TYPE = TextForm(
    "a type of relation, such as `works_for: person > organization`",
    lambda line: LINE.accepts(line) and _RELATION_LINE.fullmatch(line),
)


def find_known_entities(lines: tuple[str, ...], text: str) -> list[KnownEntity]:
    """Return the known entities with a name in a text."""
    known = parse_known_entities(lines)
    return [entity for entity in known if any(contains_phrase(text, name) for name in entity.names)]


@lru_cache(maxsize=16)
def _parse_relation_types(lines: tuple[str, ...]) -> Mapping[str, frozenset[frozenset[str]]]:
    """Return the pairs of types for each relation type; none: all."""
    allowed = {}
    for line in lines:
        name, _, pairs = line.partition(":")
        ends = (frozenset(map(_type_key, pair.split(">"))) for pair in pairs.split(",") if pair)
        allowed[_type_key(name)] = frozenset(ends)
    return allowed


def _type_key(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text).strip().casefold()


def relations_rule(lines: tuple[str, ...]) -> str:
    """Return the rule of the prompt; empty without types of relations."""
    return _RELATIONS_RULE + "\n  - ".join(lines) if _parse_relation_types(lines) else ""


def apply_rules(
    records: Sequence[ExtractedRecord],
    known: Sequence[KnownEntity],
    relation_types: tuple[str, ...],
    entity_of: Callable[[str], str],
) -> list[ExtractedRecord]:
    """Return the records with the known entities and their types.

    A relation loses each type whose pairs do not allow its ends, in either order: it stays as one without a type.
    """
    allowed = _parse_relation_types(relation_types)
    if not known and not allowed:
        return [*records]
    known_types = {entity_of(entity.record.name): entity.record.type for entity in known if entity.record.type}
    types = {entity_of(record.name): record.type for record in records if isinstance(record, ExtractedEntity)}
    types |= known_types

    def apply(record: ExtractedRecord) -> ExtractedRecord:
        if isinstance(record, ExtractedEntity):
            return replace(record, type=known_types.get(entity_of(record.name), record.type))
        if not isinstance(record, ExtractedRelation):
            return record
        ends = frozenset(_type_key(types.get(entity_of(name), "")) for name in (record.source, record.target))
        pairs_of = ((word, allowed.get(_type_key(word))) for word in record.keywords)
        return replace(record, keywords=tuple(word for word, pairs in pairs_of if not pairs or ends in pairs))

    return [*(entity.record for entity in known), *map(apply, records)]
