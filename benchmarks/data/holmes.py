"""stories of Sherlock Holmes as RDF (Knowledge Graph Reasoning Challenge) -> scenes with text and gold 5W1H."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pyoxigraph import Literal, NamedNode, RdfFormat, parse

from benchmarks.data.sources import Row, Sample, SourceError, Tables

DATA = "http://kgc.knowledge-graph.jp/data/"
ONTOLOGY = "http://kgc.knowledge-graph.jp/ontology/kgc.owl#"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"

NUMBERS = re.compile(r"(\d*)(\D+|$)")  # SpeckledBand/9 before SpeckledBand/10


def convert_scenes(files: Sequence[Path], _sample: Sample) -> Tables:
    """Convert the resources that have a text (`kgc:source`), story by story."""
    return {".jsonl": [scene for path in files for scene in _read_scenes(path)]}


def _read_scenes(path: Path) -> list[Row]:
    scenes: dict[str, Row] = {}
    try:
        for quad in parse(path=str(path), format=RdfFormat.TURTLE):
            subject, name, value = quad.subject, quad.predicate.value, quad.object
            if not isinstance(subject, NamedNode) or not isinstance(value, NamedNode | Literal):
                continue
            id = subject.value.removeprefix(DATA)
            scene = scenes.setdefault(id, {"id": id, "story": id.partition("/")[0], "text_ja": [], "text_en": []})
            key = "type" if name == TYPE else name.removeprefix(ONTOLOGY)
            if key == "source" and isinstance(value, Literal):
                key = f"text_{value.language}"
            if key != name:  # of this ontology
                values = scene.setdefault(key, [])
                values += {value.value.removeprefix(DATA).removeprefix(ONTOLOGY)} - {*values}  # statements repeat
    except SyntaxError as error:
        raise SourceError(f"{path} is no Turtle: {error}") from None
    rows = [scene for scene in scenes.values() if scene["text_ja"] or scene["text_en"]]
    if not rows:
        raise SourceError(f"{path} holds no scenes: no subject below {DATA} has a kgc:source")
    return sorted(rows, key=lambda row: [(int(n or 0), rest) for n, rest in NUMBERS.findall(row["id"])])
