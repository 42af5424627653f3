"""the JSON of an answer -> what its template shows: text with links to passages, sources, evidence."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kumihimo.app.browse.json_values import Json
from kumihimo.server.pages.markdown import markdown_blocks
from kumihimo.server.pages.plain_text import marked_pieces
from kumihimo.server.pages.rendering import Visit

_NUMBERED = re.compile(r"(.*?)(?: \[(\d+)\])?", re.S)


def show_answer(visit: Visit, answer: Json) -> Json:
    """Return the values of the template of an answer.

    answer: as `answer_json` returns it. An answer of excerpts shows each one with its source, others list the sources.
    """
    spans: dict[int, list[Json]] = {}
    for citation in answer["citations"]:
        spans.setdefault(citation["n"], []).append(citation)
    excerpts = [] if answer["model"] else _split_excerpts(answer["text"], spans)
    return {
        "question": answer["question"],
        "text": answer["text"],
        "status": answer["status"],
        "parts": excerpts or [{"excerpt": False, "blocks": markdown_blocks(answer["text"])}],
        "cites": {n: _link(visit, n, found) for n, found in spans.items()},
        "sources": [] if excerpts else [{"n": n, "places": _by_place(found)} for n, found in sorted(spans.items())],
        "evidence": [{**item, "pieces": marked_pieces(item["snippet"], item["marks"])} for item in answer["evidence"]],
        "about": describe_cost(visit, answer),
    }


def _split_excerpts(text: str, spans: Mapping[int, Sequence[Json]]) -> list[Json]:
    """Return the excerpts of an answer with the lines between.

    Empty for another answer.
    """
    parts: list[Json] = []
    for block in filter(None, text.split("\n\n")):
        match = _NUMBERED.fullmatch(block)
        n = int(match[2]) if match and match[2] else 0
        excerpt = match[1] if match and n in spans else block
        parts.append({"excerpt": n in spans, "n": n, "span": spans.get(n, [{}])[0], "blocks": markdown_blocks(excerpt)})
    return parts if sum(part["excerpt"] for part in parts) == len(spans) > 0 else []


def _by_place(spans: Sequence[Json]) -> list[list[Json]]:
    """Return the spans of each place, such as a page."""
    places: dict[tuple[str, str], list[Json]] = {}
    for span in spans:
        places.setdefault((span["uri"], span["place"]), []).append(span)
    return list(places.values())


def _link(visit: Visit, n: int, spans: Sequence[Json]) -> dict[str, str]:
    """Return the address and the name of a citation."""
    first = spans[0]
    where = ", ".join(filter(None, [first["title"] or first["uri"], visit.translate(first["place"])]))
    return {"address": visit.passage(first), "label": visit.translate(f"Source {n}: {where}")}


def describe_cost(visit: Visit, answer: Mapping[str, Any]) -> str:
    """Return the method, the time, and what a model took."""
    usage, parts = answer["usage"], [answer["method"]]
    if answer["model"]:
        tokens = usage["prompt_tokens"] + usage["completion_tokens"]
        parts += [answer["model"], visit.look.count_of(usage["calls"], "call"), visit.look.count_of(tokens, "token")]
    if usage["cost"]:
        parts.append(f"${usage['cost']:.4f}")
    return " · ".join([*parts, visit.translate(f"{usage['seconds']:.1f} s")])
