"""chunks -> names -> merges: the names of a document, and which of them are forms of one name.

`mentions`, `ties` and `assertions` ask a `NameResolver` for the entity of a name, whoever found it: a rule or a model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Self

from kumihimo.core.records import Chunk, Record
from kumihimo.core.signature import declare
from kumihimo.core.table import Group, Table
from kumihimo.llm.protocols import NamedEntityRecognizer
from kumihimo.text.name_keys import entity_id, name_key, parse_aliases, parse_distinct_names

PERSON_TYPES = frozenset(["person", "people", "character", "人物", "人"])
PERSON_RULES = frozenset(["surname", "given name"])  # rules that hold for persons only

_parse_aliases = lru_cache(maxsize=16)(parse_aliases)  # each chunk has the same lines
_parse_distinct = lru_cache(maxsize=16)(parse_distinct_names)


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


def names(chunk: Chunk, recognizer: NamedEntityRecognizer | None) -> ChunkNames:
    """Find the names in a chunk, by rule or with a model.

    They are the mentions of a build without a chat model, and what `merges` reads. recognizer: an NER model of the
    user's choice.
    """
    from kumihimo.index.rules import ner  # imported here: only a build needs the rules

    return ner.find_names(chunk, recognizer)


@declare(scope="mentions")
def merges(names: Group[ChunkNames], chunks: Table[Chunk], *, aliases: tuple[str, ...] = ()) -> NameMerges | None:
    """Find the names of a document that are forms of others.

    aliases: a line `A != B` keeps two names apart.
    """
    from kumihimo.index.rules.name_merges import resolve_names

    def read_text() -> str:
        return "\n".join(chunk.text for chunk in chunks.get_many(row.id for row in names).values())

    typed_names = (name for row in names for *_, typed_names in row.sentences for name in typed_names)
    acronyms = (acronym for row in names for acronym in row.acronyms)
    triples = resolve_names(typed_names, acronyms, read_text, _parse_distinct(aliases))
    return NameMerges(tuple(triples)) if triples else None


@dataclass(frozen=True, slots=True)
class NameResolver:
    """The entities of the names of one document.

    merged: key of a form -> key of its name, and the rule. aliases: as `parse_aliases` returns them.
    """

    merged: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def for_document(cls, document: str, merges: Table[NameMerges], alias_lines: tuple[str, ...] = ()) -> Self:
        """Return the resolver of a document, with the user's alias lines."""
        row = merges.get(document)
        keys = {name_key(form): (name_key(name), rule) for form, name, rule in row.merges} if row else {}
        return cls(keys, _parse_aliases(alias_lines))

    def entity_of_key(self, key: str, kind: str = "") -> str:
        """Return the entity id for the key of a name.

        The user's aliases come first. A rule for persons needs the type of a person, or none.
        """
        if key not in self.aliases and key in self.merged:
            name, rule = self.merged[key]
            key = name if rule not in PERSON_RULES or not kind or kind.lower() in PERSON_TYPES else key
        return entity_id(self.aliases.get(key, key))
