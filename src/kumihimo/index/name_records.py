"""the names and merges of a document -> `NameResolver`: the entity of a name, whoever found it.

`mentions`, `ties` and `assertions` ask it, for the names of a rule and of a model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Self

from kumihimo.core import records, settings, table
from kumihimo.text.graph_edits import GraphEdits, find_edit_fault, local_key, parse_edits
from kumihimo.text.name_keys import entity_id, name_key

PERSON_TYPES = frozenset(["person", "people", "character", "人物", "人"])
PERSON_RULES = frozenset(["surname", "given name"])  # rules that hold for persons only

_EDIT = settings.TextForm(
    "`name = other name`, `name != other name` or another edit", lambda line: not find_edit_fault({1: line})
)
Aliases = Annotated[tuple[Annotated[str, settings.Bounds(1, 10_000), _EDIT], ...], settings.Bounds(0, 100_000)]


@dataclass(frozen=True, slots=True)
class ChunkNames(records.Record):
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
class NameMerges(records.Record):
    """Forms of the names of a document; the id is that of the document.

    merges: (form, name, rule) each.
    """

    BIG: ClassVar[bool] = True
    SEARCHED_BY: ClassVar[tuple[str, ...]] = ()

    merges: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class NameResolver:
    """The entities of the names of one document.

    merged: key of a form -> key of its name, and the rule. edits: of a person.
    """

    merged: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    edits: GraphEdits = field(default_factory=GraphEdits)
    document: str = ""

    @classmethod
    def for_document(cls, document: str, merges: table.Table[NameMerges], alias_lines: tuple[str, ...] = ()) -> Self:
        """Return the resolver of a document, with the user's lines."""
        row = merges.get(document)
        keys = {name_key(form): (name_key(name), rule) for form, name, rule in row.merges} if row else {}
        return cls(keys, parse_edits(alias_lines), document)

    def entity_of_key(self, key: str, kind: str = "") -> str:
        """Return the entity id for the key of a name.

        The user's aliases come first, then the rules. A rule for persons needs the type
        of a person, or none.
        """
        aliases = self.edits.aliases
        is_given = key in aliases or (bool(aliases) and local_key(key, self.document) in aliases)
        if not is_given and key in self.merged:
            name, rule = self.merged[key]
            key = name if rule not in PERSON_RULES or not kind or kind.lower() in PERSON_TYPES else key
        here = aliases.get(local_key(key, self.document)) if aliases else None
        return entity_id(here or aliases.get(key, key))
