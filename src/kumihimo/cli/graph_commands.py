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
from kumihimo.app.snapshot import Reading
from kumihimo.cli import jsonl, terminal
from kumihimo.cli.ask_commands import place
from kumihimo.cli.cli_session import listen, opened
from kumihimo.cli.options import HOME, Index, Json, MaxCalls, MaxCost, MaxTokens, Memo, Set, ShowPrompts, Verbose
from kumihimo.cli.sanitize import harmless
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.core.records import Entity, Relation
from kumihimo.core.spans import Span
from kumihimo.llm.budget import Caps
from kumihimo.llm.concurrency import side_by_side
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.text import name_keys

if TYPE_CHECKING:
    from kumihimo.index.entity_resolution import Pair

_SURE = 0.9  # the score from which pairs are written unasked
_SHOWN = 0.5  # and from which they are shown
_PLACES = 20
_NEIGHBOURS = 20
_WIDE = 160  # characters of a description in a table


def entities(
    name: Annotated[str | None, typer.Argument(help="Show this one; none: list them, those named most first.")] = None,
    alike: Annotated[bool, typer.Option("--similar", help="List pairs that are likely one thing.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Put pairs into aliases.txt: a terminal asks of each.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --write: all pairs, unasked.")] = False,
    least: Annotated[
        float | None, typer.Option(help="The least score of a pair: .5, with --yes .9.", min=0, max=1)
    ] = None,
    asking: Annotated[bool, typer.Option("--ask", help="Ask the chat model about each pair.")] = False,
    limit: Annotated[int, typer.Option(help="How many to show.", min=1)] = 50,
    folder: Index = HOME,
    options: Set = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    memo: Memo = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: Json = False,
) -> None:
    """Show the entities of the graph, one of them, or which are likely the same."""
    listen(verbose, show_prompts)
    if yes and not write:
        raise SettingsError("--yes is about --write: add that")
    _check(name, alike, bool(write or asking or least is not None), write and not yes, as_json)
    caps = Caps(max_calls, max_tokens, max_cost)
    with opened(folder, options, memo) as kumi, kumi.reading() as reading:
        if not alike:
            _show(_one(reading, _named(kumi, reading, name)) if name else _all(reading, limit), as_json)
            return
        from kumihimo.index.entity_resolution import Verdict, similar  # here: other commands compare no names

        least = least if least is not None else _SURE if yes else _SHOWN
        found = similar(
            reading.table("entities"),
            reading.table("relations"),
            LocalEmbedder(),
            least=least,
            limit=limit,
            aliases=name_keys.aliases(_aliases(kumi)),
        )
        said = _verdicts(kumi, found, caps) if asking else {}
    told = _Told(found, said, folder.resolve().parent / "aliases.txt")
    told.as_json(write) if as_json else told.ask() if write and not yes else told.as_table(write)
    raise typer.Exit(1 if any(what not in get_args(Verdict) for what in said.values()) else 0)


def _check(name: str | None, alike: bool, of_pairs: bool, asks: bool, as_json: bool) -> None:
    if alike and name:
        raise SettingsError("--similar looks at all entities: leave the name out")
    if of_pairs and not alike:
        raise SettingsError("--write, --ask and --least are about pairs: add --similar")
    if asks and (as_json or not terminal.is_person()):
        raise SettingsError("--write asks about each pair in a terminal: elsewhere add --yes")


def _aliases(kumi: Kumihimo) -> Sequence[str]:
    return cast(Sequence[str], kumi.settings["mentions"]["aliases"])


# -- entities


def _named(kumi: Kumihimo, reading: Reading, name: str) -> Entity:
    """The entity that goes by that name, in any of its forms."""
    table = reading.table("entities")
    key = name_keys.key(name)
    found: Entity | None = table.get(name_keys.entity_id(name_keys.aliases(_aliases(kumi)).get(key, key))) or table.get(
        name
    )
    if found:
        return found
    known: dict[str, str] = {}
    for entity in table:
        if key in map(name_keys.key, entity.forms):
            return cast(Entity, entity)
        known[name_keys.key(entity.name)] = entity.name
    near = [repr(known[like]) for like in get_close_matches(key, known, n=3, cutoff=0.6)]
    hint = f"; did you mean {' or '.join(near)}?" if near else ":"
    raise SettingsError(f"no entity {name!r}{hint} `kumi entities` lists them")


def _all(reading: Reading, limit: int) -> dict[str, Any]:
    table = reading.table("entities")
    listed = nsmallest(limit, table, key=lambda entity: (-entity.mentions, entity.name, entity.id))
    return {"entities": [_brief(entity) for entity in listed], "total": len(table)}


def _brief(entity: Entity) -> dict[str, Any]:
    return {
        "id": entity.id,
        "name": entity.name,
        "type": entity.type,
        "mentions": entity.mentions,
        "forms": list(entity.forms),
    }


def _one(reading: Reading, entity: Entity) -> dict[str, Any]:
    relations = reading.table("relations")
    around: list[Relation] = [*relations.where(source=entity.id), *relations.where(target=entity.id)]
    around.sort(key=lambda relation: (-relation.weight, relation.names, relation.id))
    return {
        **_brief(entity),
        "types": list(entity.types),
        "text": entity.text,
        "neighbours": [_neighbour(entity, relation) for relation in around],
        "places": [place(span) for span in islice(reading.trace(("entities", entity.id)), _PLACES)],
    }


def _neighbour(entity: Entity, relation: Relation) -> dict[str, Any]:
    end = 1 if relation.source == entity.id else 0
    return {
        "id": (relation.source, relation.target)[end],
        "name": relation.names[end],
        "weight": relation.weight,
        "strength": relation.strength,
        "text": relation.text,
    }


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        jsonl.show(found)
    elif "entities" in found:
        rows = [(e["name"], e["type"], f"{e['mentions']:,}", f"{len(e['forms']):,}") for e in found["entities"]]
        terminal.show_rows(rows, head=("entity", "type", "mentions", "forms"), figures=(2, 3))
        left = found["total"] - len(rows)
        print(f"{left:,} more: `kumi entities --limit {found['total']}` lists all." if left else "")
    else:
        _show_one(found)


def _show_one(found: dict[str, Any]) -> None:
    kinds = f" ({', '.join(found['types'])})" if found["types"] else ""
    print(harmless(f"{found['name']}{kinds}, {found['mentions']:,} mentions, id entities:{found['id']}"))
    if len(found["forms"]) > 1:
        print(harmless(f"Forms: {'; '.join(found['forms'])}"))
    print(harmless(f"\n{found['text']}\n"))
    if found["neighbours"]:
        rows = [(n["name"], f"{n['weight']:,}", _line(n["text"])) for n in found["neighbours"][:_NEIGHBOURS]]
        terminal.show_rows(rows, head=("neighbour", "ties", ""), figures=(1,))
        left = len(found["neighbours"]) - len(rows)
        print(f"{left:,} more neighbours.\n" if left else "")
    for span in found["places"]:
        print(terminal.where(Span("", span["uri"], span["start"], span["end"], "", span["place"])))


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…"


# -- likely duplicates


def _verdicts(kumi: Kumihimo, found: Sequence[Pair], caps: Caps) -> dict[str, str]:
    """What the model says of each pair, or why it does not, by the pair's line."""
    from kumihimo.index.entity_resolution import verdict

    ask = kumi.models.asking("entities", kumi.models.purse(caps))

    def one(pair: Pair) -> str:
        try:
            return verdict(pair, ask)
        except ItemFailed as failure:
            return str(failure)

    return dict(zip((pair.line for pair in found), side_by_side(one, found, ask.chat.workers), strict=True))


@dataclass(frozen=True, slots=True)
class _Told:
    """Pairs, what a model says of them, and the file that takes the lines of those that are accepted."""

    found: Sequence[Pair]
    said: Mapping[str, str]
    path: Path

    def as_json(self, write: bool) -> None:
        pairs = [
            {
                "names": [pair.one.name, pair.other.name],
                "ids": [pair.one.id, pair.other.id],
                "score": pair.score,
                "why": list(pair.why),
                "line": pair.line,
                "verdict": self.said.get(pair.line, ""),  # or why there is none
            }
            for pair in self.found
        ]
        accepted = self._sure() if write else []
        config.add_aliases(self.path, accepted)
        jsonl.show({"pairs": pairs, "written": accepted})

    def as_table(self, write: bool) -> None:
        if not self.found:
            print("No two entities seem to be the same.")
            return
        rows = [(pair.line, f"{pair.score:.2f}", self._why(pair)) for pair in self.found]
        terminal.show_rows(rows, head=("line for aliases.txt", "score", "why"), figures=(1,))
        self._write(self._sure()) if write else print(
            f"\nPut the lines that hold into {self.path}, or have `kumi entities --similar --write` ask you of each;"
            " then `kumi index` makes one of the two."
        )

    def ask(self) -> None:
        """Of each pair whether it is one thing, until somebody has enough."""
        accepted: list[str] = []
        for pair in self.found:
            for entity in (pair.one, pair.other):
                print(harmless(f"{entity.name} ({entity.type or '?'}, {entity.mentions:,}): {_line(entity.text)}"))
            print(harmless(f"{pair.score:.2f}: {self._why(pair)}. One thing? [y/N/q] "), end="", flush=True)
            said = sys.stdin.readline().strip().lower()
            if said in ("y", "yes"):
                accepted.append(pair.line)
            if said in ("q", "quit"):
                break
        self._write(accepted)

    def _why(self, pair: Pair) -> str:
        told = self.said.get(pair.line)
        return ", ".join([*pair.why, *([f"the model says: {told}"] if told else [])])

    def _sure(self) -> list[str]:
        """The lines of all pairs; where a model was asked, of those that it takes for the same."""
        return [pair.line for pair in self.found if self.said.get(pair.line, "same") == "same"]

    def _write(self, accepted: Sequence[str]) -> None:
        config.add_aliases(self.path, accepted)
        count = f"{len(accepted):,} {'line' if len(accepted) == 1 else 'lines'}"
        print(f"{count} put into {self.path}: `kumi index` makes one of the two; take a line away to undo it.")
