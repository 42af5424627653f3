"""documents -> tables: the built-in steps."""

from kumihimo.core.signature import collect_signatures
from kumihimo.index import (
    chunks,
    communities,
    descriptions,
    frames,
    graph,
    imports,
    links,
    mentions,
    metadata,
    name_resolution,
    reports,
    summaries,
)

_NAMES = (chunks.chunks, descriptions.descriptions, name_resolution.names, name_resolution.merges)
_IMPORTS = (imports.imported_units, imports.imported_descriptions, imports.imported_communities)
_EXTRACTION = (mentions.mentions, mentions.ties, mentions.assertions)
_GRAPH = (graph.entities, graph.relations, graph.claims, communities.communities, communities.members, reports.reports)
_METADATA = (metadata.metadata, metadata.questions, summaries.tags, summaries.summaries)
_DISCOURSE = (chunks.passages, frames.frames, links.links)

STEPS = collect_signatures(*_NAMES, *_IMPORTS, *_EXTRACTION, *_GRAPH, *_METADATA, *_DISCOURSE)
