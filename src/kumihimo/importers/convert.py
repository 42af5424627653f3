"""a ForeignStore -> files of text units: each row stands at the text units that it rests on."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kumihimo.core import digests, spans
from kumihimo.importers import store as foreign
from kumihimo.importers.locate import LocatedDocument, find_title, locate_units
from kumihimo.readers.page import unique_name
from kumihimo.text import file_names, name_keys, text_units

_FILE_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,4}$")


@dataclass(frozen=True, slots=True)
class Converted:
    """The files of an import by name, and what was not kept. counts: of rows in the store, by table of an index."""

    files: Mapping[str, text_units.TextUnits]
    counts: Mapping[str, int]
    notes: tuple[str, ...]


def convert_store(store: foreign.ForeignStore) -> Converted:
    """Return the files of an import.

    A description stands once for its entity or relation, with the files that it rests on. A relation is at each of its
    units. A community and its report are at the first unit of their members.
    """
    return _Conversion(store).convert()


class _Conversion:
    """The conversion of one store. places: of the units, in the order of the files."""

    def __init__(self, store: foreign.ForeignStore) -> None:
        self.store = store
        self.located, self.places = _place_documents(store)
        self.rows: dict[str, defaultdict[str, list[Any]]] = {id: defaultdict(list) for id in self.places}  # by field
        self.order = {id: number for number, id in enumerate(self.places)}
        self.units_of: dict[str, tuple[str, ...]] = {}  # entity -> its units
        self.related_in: defaultdict[str, set[str]] = defaultdict(set)  # entity -> the units of its relations
        self.names: dict[str, str] = {}  # entity -> its name, as the texts write it
        self.kept: set[tuple[str, ...]] = set()  # the keys of entities, relations and claims

    def convert(self) -> Converted:
        store = self.store
        self._add_entities()
        self._add_relations()
        self._add_claims()
        kept = self._add_communities()
        counts = {
            "documents": len(store.documents) or len({unit.document for unit in store.units}),
            "chunks": len(store.units),
            "entities": len(store.entities),
            "relations": len(store.relations),
            "claims": len(store.claims),
            "communities": len(store.communities),
            "reports": sum(community.report is not None for community in store.communities),
        }
        empty, dropped = len(store.units) - len(self.places), len(store.communities) - kept
        bare = len({document.id for document in store.documents} - {unit.document for unit in store.units})
        store.add_note(f"{bare:,} documents without text units.", bare)
        store.add_note(f"{empty:,} text units without text.", empty)
        store.add_note(f"{dropped:,} communities without entities, or equal to another one.", dropped)
        return Converted(self._files(), counts, tuple(store.notes))

    def _placed(self, units: Iterable[str]) -> tuple[str, ...]:
        """Return the units that have a place, in order."""
        return tuple(sorted({unit for unit in units if unit in self.places}, key=self.order.__getitem__))

    def _documents(self, units: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({self.places[unit][0] for unit in units}))

    def _describe(self, names: tuple[str, ...], text: str, units: Sequence[str]) -> None:
        if text:
            description = text_units.SharedDescription(names, text, self._documents(units))
            self.rows[units[0]]["descriptions"].append(description)

    def _add_entities(self) -> None:
        kinds: defaultdict[str, list[foreign.StoredEntity]] = defaultdict(list)
        for entity in self.store.entities:
            if entity.name.strip() and self._placed(entity.units):
                kinds[name_keys.entity_id(name_keys.name_key(entity.name))].append(entity)
        for id, entities in kinds.items():
            self.kept.add((id,))
            self.units_of[id] = self._placed(unit for entity in entities for unit in entity.units)
            self.names[id] = self._written_form(entities[0].name, self.units_of[id])
            for entity in entities:
                units = self._placed(entity.units)
                for unit in units:
                    self.rows[unit]["entities"].append((self.names[id], entity.type))
                self._describe((self.names[id],), entity.text, units)
        kept = sum(map(len, kinds.values()))
        homeless, repeated = len(self.store.entities) - kept, kept - len(kinds)
        self.store.add_note(f"{homeless:,} entities without a text unit.", homeless)
        self.store.add_note(f"{repeated:,} entities whose name is another spelling of one: merged.", repeated)

    def _written_form(self, name: str, units: Sequence[str]) -> str:
        """Return a name in capitals as the texts write it."""
        if not name.isupper():
            return name
        pattern = re.compile(r"\s+".join(map(re.escape, name.split())), re.I)
        for unit in units:
            file, number = self.places[unit]
            for match in pattern.finditer(self.located[file].text, *self.located[file].spans[number]):
                form = " ".join(match[0].split())
                if not form.isupper() and name_keys.name_key(form) == name_keys.name_key(name):
                    return form
        return name

    def _name(self, name: str) -> str:
        return self.names.get(name_keys.entity_id(name_keys.name_key(name)), name.strip())

    def _add_relations(self) -> None:
        homeless = loops = 0
        for relation in self.store.relations:
            ends = self._ends((relation.source, relation.target))
            shared = set(self.units_of.get(ends[0], ())) & set(self.units_of.get(ends[1], ()))
            units = self._placed(relation.units) or self._placed(shared)
            if ends[0] == ends[1] or not units:
                loops += ends[0] == ends[1]
                homeless += ends[0] != ends[1]
                continue
            names = self._name(relation.source), self._name(relation.target)
            strength = None if relation.weight is None else min(max(relation.weight / len(units), 1.0), 10.0)
            self.kept.add(tuple(sorted(ends)))
            for end in ends:
                self.related_in[end].update(units)
            for unit in units:
                self.rows[unit]["relations"].append(
                    text_units.UnitRelation(*names, keywords=relation.keywords, strength=strength)
                )
            self._describe(names, relation.text, units)
        self.store.add_note(f"{homeless:,} relations without a text unit.", homeless)
        self.store.add_note(f"{loops:,} relations of an entity with itself.", loops)

    def _add_claims(self) -> None:
        claims = [claim for claim in self.store.claims if claim.unit in self.places and claim.subject]
        for claim in claims:
            subject, object_name = self._name(claim.subject), self._name(claim.object) if claim.object else ""
            row = text_units.UnitClaim(
                subject, claim.text, object_name, claim.type, claim.status, claim.start, claim.end, claim.quote
            )
            self.rows[claim.unit]["claims"].append(row)
            self.kept.add((*self._ends((subject, object_name)), claim.type))
        homeless = len(self.store.claims) - len(claims)
        self.store.add_note(f"{homeless:,} claims without a text unit or a subject.", homeless)

    def _add_communities(self) -> int:
        """Add the communities and return their number."""
        by_id = {community.id: community for community in self.store.communities}
        level = {id: min(community.level, len(by_id)) for id, community in by_id.items()}
        members = {id: self._members(community) for id, community in by_id.items()}
        keys = {id: digests.hash_parts(str(level[id]), *sorted(members[id])) for id in by_id}
        parents = {by_id[id].parent for id in by_id if members[id]}
        seen = set[str]()
        for id in sorted(by_id, key=lambda id: (level[id], by_id[id].report is None, id)):
            if not members[id] or keys[id] in seen:
                continue
            seen.add(keys[id])
            units = self._placed(unit for entity in members[id] for unit in self.units_of[entity])
            related = {unit for entity in members[id] for unit in self.related_in[entity]}
            row = text_units.UnitCommunity(
                key=keys[id],
                level=level[id],
                members=() if id in parents else tuple(self.names[entity] for entity in members[id]),
                documents=self._documents(related.union(units)),
                parent=keys.get(by_id[id].parent, ""),
            )
            self.rows[units[0]]["communities"].append(self._with_report(row, id, by_id[id].report))
        return len(seen)

    def _members(self, community: foreign.StoredCommunity) -> list[str]:
        ids = dict.fromkeys(name_keys.entity_id(name_keys.name_key(name)) for name in community.members)
        return [id for id in ids if id in self.units_of]

    def _with_report(
        self, row: text_units.UnitCommunity, id: str, report: foreign.StoredReport | None
    ) -> text_units.UnitCommunity:
        if report is None:
            return row
        findings = tuple(
            text_units.UnitFinding(
                summary, text, tuple(self._source(names) for names in sources if self._is_kept(names))
            )
            for summary, text, sources in report.findings
        )
        title = " ".join(report.title.split()) or f"Community {id}"
        return replace(
            row, title=title, summary=report.summary, rating=report.rating, reason=report.reason, findings=findings
        )

    def _ends(self, names: Sequence[str]) -> list[str]:
        return [name_keys.entity_id(name_keys.name_key(name)) if name else "" for name in names]

    def _is_kept(self, names: tuple[str, ...]) -> bool:
        """Return whether the index will hold the named row."""
        ends = self._ends(names[:2])
        return (tuple(sorted(ends)) if len(names) == 2 else (*ends, *names[2:])) in self.kept

    def _source(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of a row as the texts write them."""
        return (*(self._name(name) if name else "" for name in names[:2]), *names[2:])

    def _files(self) -> dict[str, text_units.TextUnits]:
        files = {}
        for name, located in self.located.items():
            units = []
            for id, span in zip(located.units, located.spans, strict=True):
                rows: dict[str, Any] = {field: tuple(values) for field, values in self.rows[id].items()}
                entities = tuple(dict.fromkeys(rows.pop("entities", ())))
                units.append(text_units.TextUnit(*span, entities, **rows))
            document = located.document
            title = _FILE_SUFFIX.sub("", document.title) or document.title
            files[name] = text_units.TextUnits(title, located.text, tuple(units), document.metadata, document.modified)
        return files


def _place_documents(store: foreign.ForeignStore) -> tuple[dict[str, LocatedDocument], dict[str, tuple[str, int]]]:
    """Return the texts of all files, and each unit's file and number."""
    documents = {document.id: document for document in store.documents}
    units: dict[str, list[foreign.StoredUnit]] = {}
    for unit in store.units:
        units.setdefault(unit.document, []).append(unit)
    located: dict[str, LocatedDocument] = {}
    places: dict[str, tuple[str, int]] = {}
    used: dict[str, int] = {}
    for id, parts in units.items():
        document = documents.get(id) or foreign.StoredDocument(id, "")
        documents[id] = document if document.title else replace(document, title=find_title(parts) or id or "text")
    for id, parts in sorted(units.items(), key=lambda item: (documents[item[0]].title, item[0])):
        document = documents[id]
        for part in locate_units(document, parts):
            name = _file_name(document.title, used)
            located[name] = part
            places |= {unit: (name, number) for number, unit in enumerate(part.units)}
    return located, places


def _file_name(title: str, used: dict[str, int]) -> str:
    """Return a free name that every file system takes.

    >>> used = {}
    >>> _file_name("a/b: c?.txt", used), _file_name("A B C .txt", used)
    ('a b c .txt.textunits', 'A B C .txt~2.textunits')
    """
    name = file_names.file_name(title)
    folded = name.casefold()
    return f"{name}{unique_name(folded, used).removeprefix(folded)}{spans.IMPORT_SUFFIX}"
