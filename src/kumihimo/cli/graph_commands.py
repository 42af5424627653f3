"""the entity graph -> a list of entities, one entity, or likely duplicates."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from kumihimo.app import config
from kumihimo.app.facade import Kumihimo
from kumihimo.app.snapshot import Snapshot
from kumihimo.cli import jsonl, terminal
from kumihimo.cli.ask_commands import span_location
from kumihimo.cli.cli_session import configure_logging, open_index
from kumihimo.cli.options import (
    DEFAULT_INDEX,
    CacheFile,
    IndexFolder,
    JsonOutput,
    MaxCalls,
    MaxCost,
    MaxTokens,
    SettingOverrides,
    ShowPrompts,
    Verbose,
)
from kumihimo.cli.sanitize import replace_controls
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.core.records import Entity, Relation
from kumihimo.core.spans import Span
from kumihimo.llm.budget import Caps
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.text import name_keys

if TYPE_CHECKING:
    from kumihimo.index.entity_resolution import EntityPair

_AUTO_SCORE = 0.9  # pairs from this score are written without asking
_MIN_SCORE = 0.5  # pairs from this score are shown
_MAX_PLACES = 20
_MAX_NEIGHBOURS = 20
_MAX_WIDTH = 160  # characters of a description in a table


def entities(
    name: Annotated[
        str | None, typer.Argument(help="The entity to show. Default: list them, most mentions first.")
    ] = None,
    list_similar: Annotated[
        bool, typer.Option("--similar", help="List pairs that are likely the same entity.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Write pairs to aliases.txt; a terminal asks about each.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --write: write all pairs without asking.")] = False,
    least: Annotated[
        float | None, typer.Option(help="Minimum similarity (default 0.5; 0.9 with --yes).", min=0, max=1)
    ] = None,
    ask_model: Annotated[bool, typer.Option("--ask", help="Ask the chat model about each pair.")] = False,
    limit: Annotated[int, typer.Option(help="Maximum number of rows.", min=1)] = 50,
    folder: IndexFolder = DEFAULT_INDEX,
    options: SettingOverrides = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: CacheFile = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: JsonOutput = False,
) -> None:
    """List the entities of the graph, show one, or find duplicates."""
    configure_logging(verbose, show_prompts)
    if yes and not write:
        raise SettingsError("--yes needs --write: add it")
    _check_options(name, list_similar, bool(write or ask_model or least is not None), write and not yes, as_json)
    caps = Caps(max_calls, max_tokens, max_cost)
    with open_index(folder, options, cache) as kumi, kumi.snapshot() as snapshot:
        if not list_similar:
            _show_entities(
                _entity_details(snapshot, _find_entity(kumi, snapshot, name))
                if name
                else _list_entities(snapshot, limit),
                as_json,
            )
            return
        # imported here: other commands compare no names
        from kumihimo.index.entity_resolution import PairVerdict, find_similar_entities

        least = least if least is not None else _AUTO_SCORE if yes else _MIN_SCORE
        pairs = find_similar_entities(
            snapshot.table("entities"),
            snapshot.table("relations"),
            LocalEmbedder(),
            least=least,
            limit=limit,
            aliases=name_keys.parse_aliases(_aliases(kumi)),
        )
        verdicts = _ask_verdicts(kumi, pairs, caps) if ask_model else {}
    review = _PairReview(pairs, verdicts, folder.resolve().parent / "aliases.txt")
    review.print_json(write) if as_json else review.review() if write and not yes else review.print_table(write)
    raise typer.Exit(1 if any(verdict not in get_args(PairVerdict) for verdict in verdicts.values()) else 0)


def _check_options(name: str | None, list_similar: bool, pair_options: bool, interactive: bool, as_json: bool) -> None:
    if list_similar and name:
        raise SettingsError("--similar compares all entities: leave the name out")
    if pair_options and not list_similar:
        raise SettingsError("--write, --ask and --least apply to pairs: add --similar")
    if interactive and (as_json or not terminal.is_interactive()):
        raise SettingsError("--write asks about each pair in a terminal: elsewhere add --yes")


def _aliases(kumi: Kumihimo) -> Sequence[str]:
    return cast(Sequence[str], kumi.settings["mentions"]["aliases"])


# -- entities


def _find_entity(kumi: Kumihimo, snapshot: Snapshot, name: str) -> Entity:
    """Return the entity of a name or form.

    Raises SettingsError, with similar names.
    """
    table = snapshot.table("entities")
    key = name_keys.name_key(name)
    match: Entity | None = table.get(
        name_keys.entity_id(name_keys.parse_aliases(_aliases(kumi)).get(key, key))
    ) or table.get(name)
    if match:
        return match
    name_by_key: dict[str, str] = {}
    for entity in table:
        if key in map(name_keys.name_key, entity.forms):
            return cast(Entity, entity)
        name_by_key[name_keys.name_key(entity.name)] = entity.name
    suggestions = [repr(name_by_key[close]) for close in get_close_matches(key, name_by_key, n=3, cutoff=0.6)]
    hint = f"; did you mean {' or '.join(suggestions)}?" if suggestions else ":"
    raise SettingsError(f"no entity {name!r}{hint} `kumi entities` lists them")


def _list_entities(snapshot: Snapshot, limit: int) -> dict[str, Any]:
    table = snapshot.table("entities")
    ranked = nsmallest(limit, table, key=lambda entity: (-entity.mentions, entity.name, entity.id))
    return {"entities": [_entity_summary(entity) for entity in ranked], "total": len(table)}


def _entity_summary(entity: Entity) -> dict[str, Any]:
    return {
        "id": entity.id,
        "name": entity.name,
        "type": entity.type,
        "mentions": entity.mentions,
        "forms": list(entity.forms),
    }


def _entity_details(snapshot: Snapshot, entity: Entity) -> dict[str, Any]:
    relations = snapshot.table("relations")
    edges: list[Relation] = [*relations.where(source=entity.id), *relations.where(target=entity.id)]
    edges.sort(key=lambda relation: (-relation.weight, relation.names, relation.id))
    return {
        **_entity_summary(entity),
        "types": list(entity.types),
        "text": entity.text,
        "neighbours": [_neighbour_row(entity, relation) for relation in edges],
        "places": [span_location(span) for span in islice(snapshot.trace(("entities", entity.id)), _MAX_PLACES)],
    }


def _neighbour_row(entity: Entity, relation: Relation) -> dict[str, Any]:
    end = 1 if relation.source == entity.id else 0
    return {
        "id": (relation.source, relation.target)[end],
        "name": relation.names[end],
        "weight": relation.weight,
        "strength": relation.strength,
        "text": relation.text,
    }


def _show_entities(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        jsonl.print_json(result)
    elif "entities" in result:
        rows = [(e["name"], e["type"], f"{e['mentions']:,}", f"{len(e['forms']):,}") for e in result["entities"]]
        terminal.show_rows(rows, head=("entity", "type", "mentions", "forms"), numeric=(2, 3))
        remaining = result["total"] - len(rows)
        print(f"{remaining:,} more: `kumi entities --limit {result['total']}` lists all." if remaining else "")
    else:
        _show_entity(result)


def _show_entity(result: dict[str, Any]) -> None:
    kinds = f" ({', '.join(result['types'])})" if result["types"] else ""
    print(replace_controls(f"{result['name']}{kinds}, {result['mentions']:,} mentions, id entities:{result['id']}"))
    if len(result["forms"]) > 1:
        print(replace_controls(f"Forms: {'; '.join(result['forms'])}"))
    print(replace_controls(f"\n{result['text']}\n"))
    if result["neighbours"]:
        rows = [(n["name"], f"{n['weight']:,}", _one_line(n["text"])) for n in result["neighbours"][:_MAX_NEIGHBOURS]]
        terminal.show_rows(rows, head=("neighbour", "ties", ""), numeric=(1,))
        remaining = len(result["neighbours"]) - len(rows)
        print(f"{remaining:,} more neighbours.\n" if remaining else "")
    for span in result["places"]:
        print(terminal.format_span(Span("", span["uri"], span["start"], span["end"], "", span["place"])))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_WIDTH else f"{line[: _MAX_WIDTH - 1]}…"


# -- likely duplicates


def _ask_verdicts(kumi: Kumihimo, pairs: Sequence[EntityPair], caps: Caps) -> dict[str, str]:
    """Return the model's verdict on each pair, or the error, by line."""
    from kumihimo.index.entity_resolution import judge_pair

    llm = kumi.models.llm("entities", kumi.models.budget(caps))

    def verdict_or_error(pair: EntityPair) -> str:
        try:
            return judge_pair(pair, llm)
        except ItemFailed as failure:
            return str(failure)

    return dict(
        zip((pair.alias_line for pair in pairs), map_concurrent(verdict_or_error, pairs, llm.chat.workers), strict=True)
    )


@dataclass(frozen=True, slots=True)
class _PairReview:
    """Pairs of entities, the model's verdicts, and the file for accepted pairs."""

    pairs: Sequence[EntityPair]
    verdicts: Mapping[str, str]
    aliases_path: Path

    def print_json(self, write: bool) -> None:
        pairs = [
            {
                "names": [pair.one.name, pair.other.name],
                "ids": [pair.one.id, pair.other.id],
                "score": pair.score,
                "why": list(pair.reasons),
                "line": pair.alias_line,
                "verdict": self.verdicts.get(pair.alias_line, ""),  # or an error
            }
            for pair in self.pairs
        ]
        accepted = self._accepted_lines() if write else []
        config.append_aliases(self.aliases_path, accepted)
        jsonl.print_json({"pairs": pairs, "written": accepted})

    def print_table(self, write: bool) -> None:
        if not self.pairs:
            print("No two entities seem to be the same.")
            return
        rows = [(pair.alias_line, f"{pair.score:.2f}", self._reasons(pair)) for pair in self.pairs]
        terminal.show_rows(rows, head=("line for aliases.txt", "score", "why"), numeric=(1,))
        self._add_aliases(self._accepted_lines()) if write else print(
            f"\nAdd the correct lines to {self.aliases_path}, or let `kumi entities --similar --write` ask about each "
            "pair; then `kumi index` merges each pair."
        )

    def review(self) -> None:
        """Ask the user about each pair, until they quit."""
        accepted: list[str] = []
        for pair in self.pairs:
            for entity in (pair.one, pair.other):
                print(
                    replace_controls(
                        f"{entity.name} ({entity.type or '?'}, {entity.mentions:,}): {_one_line(entity.text)}"
                    )
                )
            print(
                replace_controls(f"{pair.score:.2f}: {self._reasons(pair)}. Same entity? [y/N/q] "), end="", flush=True
            )
            reply = sys.stdin.readline().strip().lower()
            if reply in ("y", "yes"):
                accepted.append(pair.alias_line)
            if reply in ("q", "quit"):
                break
        self._add_aliases(accepted)

    def _reasons(self, pair: EntityPair) -> str:
        verdict = self.verdicts.get(pair.alias_line)
        return ", ".join([*pair.reasons, *([f"the model says: {verdict}"] if verdict else [])])

    def _accepted_lines(self) -> list[str]:
        """Return the lines of all pairs, without those the model rejects."""
        return [pair.alias_line for pair in self.pairs if self.verdicts.get(pair.alias_line, "same") == "same"]

    def _add_aliases(self, accepted: Sequence[str]) -> None:
        config.append_aliases(self.aliases_path, accepted)
        count = f"{len(accepted):,} {'line' if len(accepted) == 1 else 'lines'}"
        print(f"{count} added to {self.aliases_path}: `kumi index` merges each pair; delete a line to undo it.")
