"""pairs that may be one entity -> clusters, each judged by one call: which entries are the same thing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kumihimo.core.digests import hash_parts
from kumihimo.llm.prompts import number_sources, render_prompt
from kumihimo.llm.protocols import LLM
from kumihimo.text.sentences import collapse_spaces, shorten_line

PROMPT = Path(__file__).with_name("entity_resolution.md")
MAX_ENTRIES = 12  # of a cluster: a prompt stays short, and a reply right
MAX_NEIGHBOURS = 6  # of an entry
_MAX_FORMS, _MAX_LINES = 6, 4
_MAX_LINE_CHARS = 240

ScoredPair = tuple[float, str, str]  # score, and the ids of two entities
DatedLine = tuple[str, str]  # ISO 8601 or empty, what a document says


@dataclass(frozen=True, slots=True)
class NameGroups:
    """The groups of a cluster, as the model replies."""

    groups: list[list[int]]


def cluster_pairs(pairs: Iterable[ScoredPair]) -> list[list[str]]:
    """Return the entities that pairs connect, in clusters of at most `MAX_ENTRIES`.

    The best pairs connect first, so that a cluster splits at its weakest pairs.

    >>> cluster_pairs([(0.9, "kit roake", "k roake"), (0.6, "roake", "kit roake"), (0.8, "usa", "united states")])
    [['k roake', 'kit roake', 'roake'], ['united states', 'usa']]
    """
    cluster_of: dict[str, list[str]] = {}
    for _, *ends in sorted(pairs, key=lambda pair: (-pair[0], *sorted(pair[1:]))):
        one, other = (cluster_of.setdefault(end, [end]) for end in sorted(ends))
        if one is not other and len(one) + len(other) <= MAX_ENTRIES:
            one += other
            cluster_of.update(dict.fromkeys(other, one))
    clusters = {id(cluster): sorted(cluster) for cluster in cluster_of.values() if len(cluster) > 1}
    return sorted(clusters.values())


def describe_entry(
    forms: Iterable[str], types: Iterable[str], neighbours: Iterable[str], lines: Iterable[DatedLine]
) -> str:
    """Return the text of an entry, for the prompt.

    It does not depend on the order of documents. forms, types, neighbours: the most frequent first. lines: those with
    the lowest digests are kept, so that one more line seldom changes a prompt.
    """
    kept = sorted(set(lines), key=lambda line: hash_parts(*line))[:_MAX_LINES]
    parts = {"Names": _join(forms, _MAX_FORMS), "Kind": _join(types, 2), "With": _join(neighbours, MAX_NEIGHBOURS)}
    labelled = [f"{label}: {text}" for label, text in parts.items() if text]
    described = [f"{f'{date}: ' if date else ''}{shorten_line(text, _MAX_LINE_CHARS)}" for date, text in sorted(kept)]
    return "\n".join([*labelled, *described])


def _join(names: Iterable[str], limit: int) -> str:
    return "; ".join(sorted(map(collapse_spaces, list(names)[:limit])))


def judge_cluster(entries: Sequence[str], llm: LLM) -> list[list[int]]:
    """Return groups of positions, each one thing, the best name first.

    An entry stands in the first group that has it. Raises ItemFailed.
    """
    order = sorted(range(len(entries)), key=lambda position: (entries[position], position))
    reply: NameGroups = llm(
        render_prompt(PROMPT, items=number_sources(entries[position] for position in order)), schema=NameGroups
    )
    unused = dict(enumerate(order, 1))
    groups = ([unused.pop(number) for number in group if number in unused] for group in reply.groups)
    return [group for group in groups if len(group) > 1]
