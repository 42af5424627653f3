"""a small world -> the stores that graphrag, LightRAG and nano-graphrag write of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

HARBOUR = (
    "Ada Quill keeps the harbour of Netley. She winds the tide clock each morning, before the first boat comes in. "
    "Bo Lind repairs the clock. He walks from Gull Pier with his tools, and is paid in herring by Ada Quill."
)
LETTER = (
    "Dear Ada Quill, the spring of the tide clock is broken again. Bo Lind says that Gull Pier has none left. "
    "Yours, Cleo Marsh of the Netley Trust."
)
TEXTS = {"harbour.txt": HARBOUR, "letter.txt": LETTER}
SPLIT = {"harbour.txt": 110, "letter.txt": 62}  # where the second unit of a text begins; the first goes on a little
OVERLAP = 30
ENTITIES = {  # name -> type, description, units
    "ADA QUILL": ("PERSON", "Ada Quill keeps the harbour and winds the clock.", ("h0", "h1", "l0")),
    "BO LIND": ("PERSON", "Bo Lind repairs the clock.", ("h1", "l1")),
    "TIDE CLOCK": ("OBJECT", "The tide clock has a spring.", ("h0", "l0")),
    "GULL PIER": ("GEO", "Gull Pier is where Bo Lind starts.", ("h1", "l1")),
    "NETLEY TRUST": ("ORGANIZATION", "The Netley Trust writes letters.", ("l1",)),
}
RELATIONS = {  # ends -> description, weight, units
    ("ADA QUILL", "TIDE CLOCK"): ("Ada Quill winds the tide clock.", 16.0, ("h0", "l0")),
    ("BO LIND", "GULL PIER"): ("Bo Lind walks from Gull Pier.", 5.0, ("h1",)),
    ("ADA QUILL", "BO LIND"): ("Ada Quill pays Bo Lind.", 7.0, ("h1",)),
}
COMMUNITIES = {  # id -> level, parent, members
    0: (0, -1, tuple(ENTITIES)[:4]),
    1: (1, 0, ("ADA QUILL", "TIDE CLOCK")),
    2: (1, 0, ("BO LIND", "GULL PIER")),
}


def units() -> dict[str, tuple[str, str]]:
    """Return the units by id: the name of the text, and a part of it."""
    parts = {}
    for name, text in TEXTS.items():
        cut = SPLIT[name]
        parts[f"{name[0]}0"] = name, text[: cut + OVERLAP]
        parts[f"{name[0]}1"] = name, text[cut:]
    return parts


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def graphrag_tables(*, header: str = "") -> dict[str, list[dict[str, Any]]]:
    """Return the tables of a graphrag index. header: what stands before the text of each unit."""
    ids = {name: f"e{number}" for number, name in enumerate(ENTITIES)}
    return {
        "documents": [{"id": name, "title": name, "text": text, "raw_data": None} for name, text in TEXTS.items()],
        "text_units": [
            {"id": id, "human_readable_id": number, "document_id": name, "text": f"{header}{text}"}
            for number, (id, (name, text)) in enumerate(units().items())
        ],
        "entities": [
            {
                "id": ids[name],
                "human_readable_id": number,
                "title": name,
                "type": kind,
                "description": text,
                "text_unit_ids": list(of),
            }
            for number, (name, (kind, text, of)) in enumerate(ENTITIES.items())
        ],
        "relationships": [
            {
                "id": f"r{number}",
                "human_readable_id": number,
                "source": source,
                "target": target,
                "description": text,
                "weight": weight,
                "text_unit_ids": list(of),
            }
            for number, ((source, target), (text, weight, of)) in enumerate(RELATIONS.items())
        ],
        "covariates": [
            {
                "id": "c0",
                "human_readable_id": 0,
                "covariate_type": "claim",
                "type": "REPAIR",
                "description": "Bo Lind repairs the clock.",
                "subject_id": "BO LIND",
                "object_id": "NONE",
                "status": "TRUE",
                "start_date": "1990-05-01T00:00:00",
                "end_date": "NONE",
                "source_text": "Bo Lind repairs the clock.",
                "text_unit_id": "h1",
            }
        ],
        "communities": [
            {
                "id": f"k{id}",
                "human_readable_id": id,
                "community": id,
                "level": level,
                "parent": parent,
                "children": [child for child, (_, above, _) in COMMUNITIES.items() if above == id],
                "entity_ids": [ids[name] for name in members],
            }
            for id, (level, parent, members) in COMMUNITIES.items()
        ],
        "community_reports": [
            {
                "id": f"p{id}",
                "human_readable_id": id,
                "community": id,
                "title": f"Report on {members[0].title()}",
                "summary": "They care for the clock [Data: Entities (0)].",
                "rank": 6.5,
                "rating_explanation": "The clock matters.",
                "findings": [
                    {
                        "summary": "The clock is wound",
                        "explanation": "Ada winds it [Data: Entities (0, 2); Relationships (0); Claims (0)].",
                    }
                ],
            }
            for id, (_, _, members) in COMMUNITIES.items()
        ],
    }


def write_graphrag(folder: Path, tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None) -> Path:
    """Write the tables as JSON lines, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (tables or graphrag_tables()).items():
        write_rows(folder / f"{name}.jsonl", rows)
    return folder


def _graphml(nodes: Mapping[str, Mapping[str, str]], edges: Mapping[tuple[str, str], Mapping[str, str]]) -> str:
    keys = dict.fromkeys(key for values in (*nodes.values(), *edges.values()) for key in values)
    head = "".join(f'<key id="{key}" attr.name="{key}" for="all" attr.type="string"/>' for key in keys)

    def data(values: Mapping[str, str]) -> str:
        escaped = {key: value.replace("&", "&amp;").replace("<", "&lt;") for key, value in values.items()}
        return "".join(f'<data key="{key}">{value}</data>' for key, value in escaped.items())

    body = "".join(f'<node id="{id}">{data(values)}</node>' for id, values in nodes.items())
    body += "".join(f'<edge source="{a}" target="{b}">{data(values)}</edge>' for (a, b), values in edges.items())
    return f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{head}<graph>{body}</graph></graphml>'


def write_working_folder(folder: Path, *, nano: bool) -> Path:
    """Write the working folder of LightRAG, or of nano-graphrag."""
    folder.mkdir(parents=True, exist_ok=True)
    chunks = {
        id: {
            "content": text.strip(),
            "full_doc_id": name,
            "chunk_order_index": int(id[1]),
            **({} if nano else {"file_path": name}),
        }
        for id, (name, text) in units().items()
    }
    clusters = {
        name: [{"level": COMMUNITIES[id][0], "cluster": id} for id in COMMUNITIES if name in COMMUNITIES[id][2]]
        for name in ENTITIES
    }
    nodes = {
        (f"&quot;{name}&quot;" if nano else name.title()): {
            "entity_type": f'"{kind}"' if nano else kind.lower(),
            "description": "<SEP>".join([text, text, f"{name.title()} is named."]),
            "source_id": "<SEP>".join(of),
            **({"clusters": json.dumps(clusters[name])} if nano and clusters[name] else {}),
        }
        for name, (kind, text, of) in ENTITIES.items()
    }
    edges = {
        tuple(f"&quot;{end}&quot;" if nano else end.title() for end in ends): {
            "description": text,
            "weight": str(weight),
            "source_id": "<SEP>".join(of),
            **({} if nano else {"keywords": "care,harbour"}),
        }
        for ends, (text, weight, of) in RELATIONS.items()
    }
    reports = {
        str(id): {"report_json": {**row, "rating": 6.5}, "level": COMMUNITIES[id][0]}
        for id, row in enumerate(graphrag_tables()["community_reports"])
    }
    files = {
        "graph_chunk_entity_relation.graphml": _graphml(nodes, edges),  # type: ignore[arg-type]
        "kv_store_text_chunks.json": json.dumps(chunks),
        "kv_store_full_docs.json": json.dumps({name: {"content": text} for name, text in TEXTS.items()}),
        **({"kv_store_community_reports.json": json.dumps(reports)} if nano else {}),
    }
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    return folder
