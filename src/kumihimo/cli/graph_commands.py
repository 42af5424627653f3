"""the entity graph on the command line -> its entities, one of them, likely duplicates."""

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

_AUTO_SCORE = 0.9  # the score from which pairs are written unasked
_MIN_SCORE = 0.5  # and from which they are shown
_MAX_PLACES = 20
_MAX_NEIGHBOURS = 20
_MAX_WIDTH = 160  # characters of a description in a table


def entities(
    name: Annotated[str | None, typer.Argument(help="Show this one; none: list them, those named most first.")] = None,
    list_similar: Annotated[bool, typer.Option("--similar", help="List pairs that are likely one thing.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Put pairs into aliases.txt: a terminal asks of each.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --write: all pairs, unasked.")] = False,
    least: Annotated[
        float | None, typer.Option(help="The least score of a pair: .5, with --yes .9.", min=0, max=1)
    ] = None,
    ask_model: Annotated[bool, typer.Option("--ask", help="Ask the chat model about each pair.")] = False,
    limit: Annotated[int, typer.Option(help="How many to show.", min=1)] = 50,
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
    """Show the entities of the graph, one of them, or which are likely the same."""
    configure_logging(verbose, show_prompts)
    if yes and not write:
        raise SettingsError("--yes is about --write: add that")
    _check_options(name, list_similar, bool(write or ask_model or least is not None), write and not yes, as_json)
    caps = Caps(max_calls, max_tokens, max_cost)
    with open_index(folder, options, cache) as kumi, kumi.snapshot() as reading:
        if not list_similar:
            _show_entities(
                _entity_details(reading, _find_entity(kumi, reading, name)) if name else _list_entities(reading, limit),
                as_json,
            )
            return
        from kumihimo.index.entity_resolution import (
            PairVerdict,
            find_similar_entities,
        )  # here: other commands compare no names

        least = least if least is not None else _AUTO_SCORE if yes else _MIN_SCORE
        found = find_similar_entities(
            reading.table("entities"),
            reading.table("relations"),
            LocalEmbedder(),
            least=least,
            limit=limit,
            aliases=name_keys.parse_aliases(_aliases(kumi)),
        )
        said = _ask_verdicts(kumi, found, caps) if ask_model else {}
    told = _PairReview(found, said, folder.resolve().parent / "aliases.txt")
    told.print_json(write) if as_json else told.review() if write and not yes else told.print_table(write)
    raise typer.Exit(1 if any(what not in get_args(PairVerdict) for what in said.values()) else 0)


def _check_options(name: str | None, list_similar: bool, pair_options: bool, interactive: bool, as_json: bool) -> None:
    if list_similar and name:
        raise SettingsError("--similar looks at all entities: leave the name out")
    if pair_options and not list_similar:
        raise SettingsError("--write, --ask and --least are about pairs: add --similar")
    if interactive and (as_json or not terminal.is_interactive()):
        raise SettingsError("--write asks about each pair in a terminal: elsewhere add --yes")


def _aliases(kumi: Kumihimo) -> Sequence[str]:
    return cast(Sequence[str], kumi.settings["mentions"]["aliases"])


# -- entities


def _find_entity(kumi: Kumihimo, reading: Snapshot, name: str) -> Entity:
    """The entity that goes by that name, in any of its forms."""
    table = reading.table("entities")
    key = name_keys.name_key(name)
    found: Entity | None = table.get(
        name_keys.entity_id(name_keys.parse_aliases(_aliases(kumi)).get(key, key))
    ) or table.get(name)
    if found:
        return found
    known: dict[str, str] = {}
    for entity in table:
        if key in map(name_keys.name_key, entity.forms):
            return cast(Entity, entity)
        known[name_keys.name_key(entity.name)] = entity.name
    near = [repr(known[like]) for like in get_close_matches(key, known, n=3, cutoff=0.6)]
    hint = f"; did you mean {' or '.join(near)}?" if near else ":"
    raise SettingsError(f"no entity {name!r}{hint} `kumi entities` lists them")


def _list_entities(reading: Snapshot, limit: int) -> dict[str, Any]:
    table = reading.table("entities")
    listed = nsmallest(limit, table, key=lambda entity: (-entity.mentions, entity.name, entity.id))
    return {"entities": [_entity_summary(entity) for entity in listed], "total": len(table)}


def _entity_summary(entity: Entity) -> dict[str, Any]:
    return {
        "id": entity.id,
        "name": entity.name,
        "type": entity.type,
        "mentions": entity.mentions,
        "forms": list(entity.forms),
    }


def _entity_details(reading: Snapshot, entity: Entity) -> dict[str, Any]:
    relations = reading.table("relations")
    around: list[Relation] = [*relations.where(source=entity.id), *relations.where(target=entity.id)]
    around.sort(key=lambda relation: (-relation.weight, relation.names, relation.id))
    return {
        **_entity_summary(entity),
        "types": list(entity.types),
        "text": entity.text,
        "neighbours": [_neighbour_row(entity, relation) for relation in around],
        "places": [span_location(span) for span in islice(reading.trace(("entities", entity.id)), _MAX_PLACES)],
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


def _show_entities(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        jsonl.print_json(found)
    elif "entities" in found:
        rows = [(e["name"], e["type"], f"{e['mentions']:,}", f"{len(e['forms']):,}") for e in found["entities"]]
        terminal.show_rows(rows, head=("entity", "type", "mentions", "forms"), numeric=(2, 3))
        left = found["total"] - len(rows)
        print(f"{left:,} more: `kumi entities --limit {found['total']}` lists all." if left else "")
    else:
        _show_entity(found)


def _show_entity(found: dict[str, Any]) -> None:
    kinds = f" ({', '.join(found['types'])})" if found["types"] else ""
    print(replace_controls(f"{found['name']}{kinds}, {found['mentions']:,} mentions, id entities:{found['id']}"))
    if len(found["forms"]) > 1:
        print(replace_controls(f"Forms: {'; '.join(found['forms'])}"))
    print(replace_controls(f"\n{found['text']}\n"))
    if found["neighbours"]:
        rows = [(n["name"], f"{n['weight']:,}", _one_line(n["text"])) for n in found["neighbours"][:_MAX_NEIGHBOURS]]
        terminal.show_rows(rows, head=("neighbour", "ties", ""), numeric=(1,))
        left = len(found["neighbours"]) - len(rows)
        print(f"{left:,} more neighbours.\n" if left else "")
    for span in found["places"]:
        print(terminal.format_span(Span("", span["uri"], span["start"], span["end"], "", span["place"])))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_WIDTH else f"{line[: _MAX_WIDTH - 1]}…"


# -- likely duplicates


def _ask_verdicts(kumi: Kumihimo, found: Sequence[EntityPair], caps: Caps) -> dict[str, str]:
    """What the model says of each pair, or why it does not, by the pair's line."""
    from kumihimo.index.entity_resolution import judge_pair

    ask = kumi.models.llm("entities", kumi.models.budget(caps))

    def one(pair: EntityPair) -> str:
        try:
            return judge_pair(pair, ask)
        except ItemFailed as failure:
            return str(failure)

    return dict(zip((pair.alias_line for pair in found), map_concurrent(one, found, ask.chat.workers), strict=True))


@dataclass(frozen=True, slots=True)
class _PairReview:
    """Pairs, what a model says of them, and the file that takes the lines of those that are accepted."""

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
                "verdict": self.verdicts.get(pair.alias_line, ""),  # or why there is none
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
            f"\nPut the lines that hold into {self.aliases_path}, or have `kumi entities --similar --write` ask you of each;"
            " then `kumi index` makes one of the two."
        )

    def review(self) -> None:
        """Of each pair whether it is one thing, until somebody has enough."""
        accepted: list[str] = []
        for pair in self.pairs:
            for entity in (pair.one, pair.other):
                print(
                    replace_controls(
                        f"{entity.name} ({entity.type or '?'}, {entity.mentions:,}): {_one_line(entity.text)}"
                    )
                )
            print(replace_controls(f"{pair.score:.2f}: {self._reasons(pair)}. One thing? [y/N/q] "), end="", flush=True)
            said = sys.stdin.readline().strip().lower()
            if said in ("y", "yes"):
                accepted.append(pair.alias_line)
            if said in ("q", "quit"):
                break
        self._add_aliases(accepted)

    def _reasons(self, pair: EntityPair) -> str:
        told = self.verdicts.get(pair.alias_line)
        return ", ".join([*pair.reasons, *([f"the model says: {told}"] if told else [])])

    def _accepted_lines(self) -> list[str]:
        """The lines of all pairs; where a model was asked, of those that it takes for the same."""
        return [pair.alias_line for pair in self.pairs if self.verdicts.get(pair.alias_line, "same") == "same"]

    def _add_aliases(self, accepted: Sequence[str]) -> None:
        config.append_aliases(self.aliases_path, accepted)
        count = f"{len(accepted):,} {'line' if len(accepted) == 1 else 'lines'}"
        print(f"{count} put into {self.aliases_path}: `kumi index` makes one of the two; take a line away to undo it.")
