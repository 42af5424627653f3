"""what an OpenIE model said of passages (HippoRAG's files) -> a ForeignStore."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kumihimo.core.errors import SourceError
from kumihimo.importers import store as foreign


def read_openie(path: Path) -> foreign.ForeignStore:
    """Read passages with their entities and triples.

    The file is HippoRAG's `openie_results_*.json`, or has a JSON object with `text`, `entities` and `triples` on each
    line.
    """
    store, malformed = foreign.ForeignStore(), 0
    entities: dict[str, list[str]] = {}
    for number, row in enumerate(_rows(path)):
        text = str(row.get("text") or row.get("passage") or "")
        id = str(row.get("passage_id") or row.get("idx") or number)
        title = str(row.get("title") or text.partition("\n")[0][:80])
        if not text.strip():
            continue
        store.documents.append(foreign.StoredDocument(id, title, text))
        store.units.append(foreign.StoredUnit(id, id, text))
        for name in foreign.strings(row.get("entities", row.get("extracted_entities"))):
            entities.setdefault(name, []).append(id)
        for triple in row.get("triples", row.get("extracted_triples")) or ():
            if not _is_triple(triple):
                malformed += 1
                continue
            source, verb, target = (part.strip() for part in triple)
            sentence = f"{source} {verb} {target}"
            store.relations.append(foreign.StoredRelation(source, target, sentence, (id,), (verb,), None, in_unit=True))
            for end in (source, target):
                entities.setdefault(end, []).append(id)
    store.entities = [
        foreign.StoredEntity(name, "", "", tuple(dict.fromkeys(ids))) for name, ids in entities.items() if name
    ]
    store.add_note(f"{malformed:,} triples that are not three texts.", malformed)
    return store


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        yield from foreign.read_json_lines(path)
        return
    content = foreign.read_json(path)
    rows = content.get("docs") if isinstance(content, dict) else content
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SourceError(f"{path}: no list of passages under `docs`: name a file openie_results_*.json of HippoRAG")
    yield from rows


def _is_triple(triple: Any) -> bool:
    return isinstance(triple, list) and len(triple) == 3 and all(isinstance(p, str) and p.strip() for p in triple)
