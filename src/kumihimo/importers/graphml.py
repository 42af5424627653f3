"""a graph in GraphML, without texts -> a ForeignStore whose text says what the graph says."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from kumihimo.core.errors import SourceError
from kumihimo.importers import store as foreign

UNIT_CHARS = 2_000  # of a text unit, which holds whole nodes
_NAMES = ("entity_id", "name", "label", "title")
_TYPES = ("entity_type", "type", "kind", "category", "labels")
_VERBS = ("label", "relation", "type", "predicate", "name", "keywords")


def read_graphml(path: Path) -> foreign.ForeignStore:
    """Read nodes and edges, and write a text of them, for citations.

    A node is named by `name`, `label` or its id. Other attributes become sentences.
    """
    graph = foreign.read_graph(path)
    if not graph.nodes:
        raise SourceError(f"{path}: no nodes; export the graph with its nodes")
    names = {id: _first(values, _NAMES) or id for id, values in graph.nodes.items()}
    outgoing: dict[str, list[tuple[str, foreign.Values]]] = {}
    for source, target, values in graph.edges:
        if source in names and target in names:
            outgoing.setdefault(source, []).append((target, values))
    store, unit_of = foreign.ForeignStore(), dict[str, str]()
    for unit, (text, ids) in enumerate(_pack(graph, names, outgoing)):
        store.units.append(foreign.StoredUnit(str(unit), "graph", text))
        unit_of.update(dict.fromkeys(ids, str(unit)))
    store.documents = [foreign.StoredDocument("graph", path.stem, "\n\n".join(unit.text for unit in store.units))]
    neighbours: dict[str, set[str]] = {id: {unit_of[id]} for id in names}
    for source, edges in outgoing.items():
        for target, values in edges:
            neighbours[target].add(unit_of[source])
            keywords = (verb,) if (verb := _first(values, _VERBS)) else ()
            sentence = _edge_line(names[source], names[target], values)
            ends, unit_ids = (names[source], names[target]), (unit_of[source],)
            store.relations.append(
                foreign.StoredRelation(*ends, sentence, unit_ids, keywords, foreign.number(values.get("weight"), None))
            )
    for id, values in graph.nodes.items():
        units = tuple(sorted(neighbours[id], key=int))
        store.entities.append(
            foreign.StoredEntity(names[id], _first(values, _TYPES).lower(), foreign.describe(values), units)
        )
    lost = sum(source not in names or target not in names for source, target, _ in graph.edges)
    store.add_note(f"{lost:,} edges to nodes that the file does not hold.", lost)
    store.add_note("The direction of edges: a relation has two ends here. The text of the document says it.")
    return store


def _first(values: foreign.Values, keys: tuple[str, ...]) -> str:
    return next((" ".join(values[key].split()) for key in keys if values.get(key)), "")


def _pack(
    graph: foreign.Graph, names: Mapping[str, str], outgoing: Mapping[str, list[tuple[str, foreign.Values]]]
) -> Iterator[tuple[str, list[str]]]:
    """Yield texts of about `UNIT_CHARS`, each with the ids of its nodes."""
    texts, ids, length = list[str](), list[str](), 0
    for id, values in graph.nodes.items():
        lines = [_node_line(names[id], values)]
        lines += [_edge_line(names[id], names[target], edge) for target, edge in outgoing.get(id, ())]
        text = "\n".join(lines)
        if texts and length + len(text) > UNIT_CHARS:
            yield "\n\n".join(texts), ids
            texts, ids, length = [], [], 0
        texts.append(text)
        ids.append(id)
        length += len(text)
    if texts:
        yield "\n\n".join(texts), ids


def _node_line(name: str, values: foreign.Values) -> str:
    kind, text = _first(values, _TYPES), foreign.describe(values)
    others = [f"{key}: {' '.join(value.split())}" for key, value in sorted(values.items()) if _is_fact(key, value)]
    line = f"{name} ({kind})" if kind else name
    return f"{line}: {text or '; '.join(others)}" if text or others else f"{line}."


def _is_fact(key: str, value: str) -> bool:
    return bool(value) and key not in (*_NAMES, *_TYPES, "source_id", "clusters", "description", "file_path")


def _edge_line(source: str, target: str, values: foreign.Values) -> str:
    """Return an edge as a sentence.

    >>> _edge_line("Ann", "Oban", {"label": "lives in"})
    'Ann – lives in – Oban.'
    """
    verb, text = _first(values, _VERBS), " ".join(foreign.describe(values).split())
    line = " – ".join(filter(None, [source, verb, target]))
    return f"{line}: {text}" if text else f"{line}."
