"""the names and merges of a document -> `NameResolver`: the entity of a name, whoever found it.

`mentions`, `ties` and `assertions` ask it, for the names of a rule and of a model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import ClassVar, Literal, Self

from kumihimo.core.records import Record
from kumihimo.core.table import Table
from kumihimo.text.name_keys import entity_id, local_key, name_key, parse_aliases

PERSON_TYPES = frozenset(["person", "people", "character", "人物", "人"])
PERSON_RULES = frozenset(["surname", "given name"])  # rules that hold for persons only

Resolve = Literal["rules", "model"]  # who finds names of one thing in several documents

_parse_aliases = lru_cache(maxsize=16)(parse_aliases)  # each chunk has the same lines


@dataclass(frozen=True, slots=True)
class ChunkNames(Record):
    """The names in a chunk, found by rule or by an NER model.

    sentences: start and end in the chunk, whether it is a heading, and (name, type) each. acronyms: (acronym, what the
    text says it stands for) each.
    """

    BIG: ClassVar[bool] = True
    GROUP: ClassVar[str] = "document"
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()

    document: str
    sentences: tuple[tuple[int, int, bool, tuple[tuple[str, str], ...]], ...]
    acronyms: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class NameMerges(Record):
    """Forms of the names of a document; the id is that of the document.

    merges: (form, name, rule) each.
    """

    BIG: ClassVar[bool] = True
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()

    merges: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class SameName(Record):
    """An entity that is another one, as a model judged it.

    document: the only document where it is; empty: all that have no row of their own.
    """

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("entity",)
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()

    entity: str
    document: str
    target: str


def _keep(entity: str) -> str:
    return entity


@dataclass(frozen=True, slots=True)
class NameResolver:
    """The entities of the names of one document.

    merged: key of a form -> key of its name, and the rule. aliases: as `parse_aliases` returns them. find_target: the
    entity that an entity is in this document.
    """

    merged: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    document: str = ""
    find_target: Callable[[str], str] = _keep

    @classmethod
    def for_document(
        cls,
        document: str,
        merges: Table[NameMerges],
        alias_lines: tuple[str, ...] = (),
        same_names: Table[SameName] | None = None,
    ) -> Self:
        """Return the resolver of a document, with the user's alias lines.

        same_names: the judgements of a model on names of several documents, if they count.
        """
        row = merges.get(document)
        keys = {name_key(form): (name_key(name), rule) for form, name, rule in row.merges} if row else {}
        find_target = _keep if same_names is None else _target_finder(document, same_names)
        return cls(keys, _parse_aliases(alias_lines), document, find_target)

    def entity_of_key(self, key: str, kind: str = "") -> str:
        """Return the entity id for the key of a name.

        The user's aliases come first, then the rules, then the judgements of a model. A rule for persons needs the type
        of a person, or none.
        """
        here = self.aliases.get(local_key(key, self.document)) if self.aliases else None
        if not here and key not in self.aliases and key in self.merged:
            name, rule = self.merged[key]
            key = name if rule not in PERSON_RULES or not kind or kind.lower() in PERSON_TYPES else key
        return self.find_target(entity_id(here or self.aliases.get(key, key)))


def _target_finder(document: str, same_names: Table[SameName]) -> Callable[[str], str]:
    """Return a function from an entity to its target in a document."""

    @cache
    def find_target(entity: str) -> str:
        targets = {row.document: row.target for row in same_names.where(entity=entity)}
        return targets.get(document) or targets.get("") or entity

    return find_target
