"""entities of an index -> likely duplicates, a model's verdicts, and the lines that the user accepts."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, cast, get_args

from typer import Exit

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.facade import Kumihimo
from kumihimo.app.settings import config
from kumihimo.cli import options, printing
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Entity
from kumihimo.index.entity_clusters import cluster_pairs, describe_entry, judge_cluster
from kumihimo.index.entity_resolution import EntityPair, find_similar_entities, neighbour_ids
from kumihimo.llm.budget import Caps
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.text import graph_edits, sentences

Verdict = Literal["same", "different", "unsure"]
_MAX_WIDTH = 160  # characters of a description


def find_similar(
    kumi: Kumihimo, snapshot: Snapshot, session: options.PaidSession, *, least: float, limit: int, ask_model: bool
) -> "Review":
    """Return likely duplicates, with a model's verdicts if wanted."""
    edits = graph_edits.parse_edits(tuple(cast(Sequence[str], kumi.settings["mentions"]["aliases"])))
    neighbours = neighbour_ids(snapshot.table("relations"))
    pairs = find_similar_entities(
        snapshot.table("entities"),
        neighbours,
        LocalEmbedder(),
        least=least,
        limit=limit,
        aliases=edits.aliases,
        distinct=edits.distinct,
    )
    verdicts = _ask_verdicts(kumi, snapshot, pairs, neighbours, session.caps) if ask_model else {}
    return Review(pairs, verdicts, session.index.base / config.ALIASES)


def _ask_verdicts(
    kumi: Kumihimo, snapshot: Snapshot, pairs: Sequence[EntityPair], neighbours: Mapping[str, set[str]], caps: Caps
) -> dict[str, str]:
    """Return the model's verdict on each pair, or the error, by line.

    Pairs that hang together are one call; a pair of two calls is `unsure`.
    """
    llm = kumi.models.llm("entities", kumi.models.budget(caps))
    entities = {entity.id: entity for pair in pairs for entity in (pair.one, pair.other)}
    table = snapshot.table("entities")

    def describe(id: str) -> str:
        near = sorted(table.get_many(neighbours.get(id, ())).values(), key=lambda e: (-e.mentions, e.name, e.id))
        lines = [("", line) for line in entities[id].text.splitlines()]
        return describe_entry(entities[id].forms, entities[id].types, [entity.name for entity in near], lines)

    def group_or_error(cluster: list[str]) -> dict[str, str | int]:
        try:
            groups = judge_cluster(list(map(describe, cluster)), llm)
        except ItemFailed as failure:
            return dict.fromkeys(cluster, str(failure))
        group_of = {position: number for number, group in enumerate(groups) for position in group}
        return {id: group_of.get(position, -1 - position) for position, id in enumerate(cluster)}

    clusters = cluster_pairs((pair.score, pair.one.id, pair.other.id) for pair in pairs)
    cluster_of = {id: number for number, cluster in enumerate(clusters) for id in cluster}
    results = dict(chain.from_iterable(r.items() for r in map_concurrent(group_or_error, clusters, llm.workers)))

    def verdict(pair: EntityPair) -> str:
        one, other = results[pair.one.id], results[pair.other.id]
        if cluster_of[pair.one.id] != cluster_of[pair.other.id]:
            return "unsure"
        return one if isinstance(one, str) else "same" if one == other else "different"

    return {pair.alias_line: verdict(pair) for pair in pairs}


@dataclass(frozen=True, slots=True)
class Review:
    """Pairs of entities, the model's verdicts, and the file for accepted lines."""

    pairs: Sequence[EntityPair]
    verdicts: Mapping[str, str]
    aliases_path: Path

    def show(self, session: options.PaidSession, write: bool, yes: bool) -> None:
        """Show the pairs, or ask about each.

        Exits with 1 if a verdict failed.
        """
        if session.as_json:
            self.print_json(write)
        elif write and not yes:
            self.ask_user()
        else:
            self.print_table(write)
        raise Exit(1 if {*self.verdicts.values()} - {*get_args(Verdict)} else 0)

    def print_json(self, write: bool) -> None:
        pairs: list[dict[str, Any]] = []
        for pair in self.pairs:
            ends = {"names": [pair.one.name, pair.other.name], "ids": [pair.one.id, pair.other.id]}
            evidence = {"score": pair.score, "why": pair.reasons, "line": pair.alias_line}
            pairs.append({**ends, **evidence, "verdict": self.verdicts.get(pair.alias_line, "")})  # or an error
        accepted = self._accepted_lines() if write else []
        config.append_aliases(self.aliases_path, accepted)
        printing.print_json({"pairs": pairs, "written": accepted})

    def print_table(self, write: bool) -> None:
        if self.pairs:
            rows = [(pair.alias_line, f"{pair.score:.2f}", self._reasons(pair)) for pair in self.pairs]
            printing.show_rows(rows, head=("line for aliases.txt", "score", "why"), numeric=(1,))
        else:
            printing.print_message("No two entities seem to be the same.")
        if write:
            self._add_aliases(self._accepted_lines())
        elif self.pairs:
            printing.print_message(
                f"\nAdd the correct lines to {self.aliases_path}, or let `kumi entities --similar --write` ask about "
                "each pair; then `kumi index` applies them."
            )

    def ask_user(self) -> None:
        """Ask the user about each pair, until they quit."""
        accepted: list[str] = []
        for pair in self.pairs:
            for entity in (pair.one, pair.other):
                self._print_entity(entity)
            question = f"{pair.score:.2f}: {self._reasons(pair)}. Same entity? [y/N/q] "
            printing.print_message(question, end="")
            reply = sys.stdin.readline().strip().lower()
            if reply in ("y", "yes"):
                accepted.append(pair.alias_line)
            if reply in ("q", "quit"):
                break
        self._add_aliases(accepted)

    def _print_entity(self, entity: Entity) -> None:
        text = sentences.shorten_line(entity.text, _MAX_WIDTH)
        printing.print_text(f"{entity.name} ({entity.type or '?'}, {entity.mentions:,}): {text}")

    def _reasons(self, pair: EntityPair) -> str:
        verdict = self.verdicts.get(pair.alias_line)
        return ", ".join([*pair.reasons, *([f"the model says: {verdict}"] if verdict else [])])

    def _accepted_lines(self) -> list[str]:
        """Return the lines of the pairs, but not of rejected ones."""
        return [line for pair in self.pairs if self.verdicts.get(line := pair.alias_line, "same") == "same"]

    def _add_aliases(self, accepted: Sequence[str]) -> None:
        config.append_aliases(self.aliases_path, accepted)
        lines = "line" if len(accepted) == 1 else "lines"
        printing.print_message(
            f"{len(accepted):,} {lines} added to {self.aliases_path}: `kumi index` merges each pair; "
            "delete a line to undo it."
        )
