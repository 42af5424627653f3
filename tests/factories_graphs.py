"""a size -> an index with a graph, its communities and reports, written straight into its tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from kumihimo.app.opened.catalogue import BUILT_IN
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Chunk, Claim, Community, Document, Entity, Member, Mention, Record, Relation, Report
from kumihimo.core.table import codec
from kumihimo.storage.ledger import SqlLedger
from kumihimo.storage.sqlite.store import SqliteStore

Tables = dict[str, list[Any]]
T = TypeVar("T")
TYPES = ("person", "place", "organization", "event", "work", "concept", "", "boat")
_FIRST = ("Bra", "Cor", "Del", "Fen", "Gal", "Hal", "Ker", "Lor", "Mar", "Nor", "Or", "Pen", "Ros", "Sel", "Tam", "Wre")
_MIDDLE = ("an", "bel", "da", "el", "ga", "in", "ka", "lo", "mi", "no", "ra", "sto", "ti", "va")
_LAST = ("ck", "dine", "ford", "ham", "ley", "mouth", "n", "ric", "son", "ton", "wick", "y")


def write(folder: Path, tables: Mapping[str, Iterable[Record]]) -> Path:
    """An index folder whose tables hold these records, each with its id."""
    keys = {step.name: (step.source, step.key) for step in BUILT_IN.order}
    with SqliteStore(folder).write_transaction() as db:
        ledger = SqlLedger(db)
        for name, records in {**dict.fromkeys(("ties", "assertions"), ()), **tables}.items():
            made = codec(BUILT_IN.record_types[name])
            ledger.ensure_table(name, made, *keys.get(name, ("", "")))
            ledger.change(name, [], [made.encode(record.id, record) for record in records])
            ledger.settle(name)
    return folder


def index(folder: Path, size: int = 60, ties: int = 0, **without: bool) -> Path:
    """An index of so many entities and relations; `reports=False` leaves that table out."""
    tables = made(size, ties or 4 * size)
    return write(folder, {name: rows for name, rows in tables.items() if without.get(name, True)})


def made(size: int, ties: int) -> Tables:
    """The tables of a graph of so many entities and relations, in three levels of communities; the same each time."""
    random = Random(size)
    names = _names(random, size)
    ids = [hash_parts(name) for name in names]
    leaves = _leaves(random, ids)
    communities = _communities(leaves)
    pairs = _pairs(random, ids, leaves, ties)
    documents, chunks, mentions = _texts(random, dict(zip(ids, names, strict=True)), TYPES)
    counts = Counter(mention.entity for mention in mentions)
    name = dict(zip(ids, names, strict=True))
    entities = [
        Entity(
            id=id,
            name=name[id],
            type=TYPES[i % len(TYPES)],
            forms=(name[id], name[id].upper()) if i % 5 == 0 else (name[id],),
            types=(TYPES[i % len(TYPES)],),
            mentions=counts[id],
            tokens=30,
            text=f"{name[id]} is known in the harbour for the nets that were mended there in {1800 + i % 200}. " * 2,
        )
        for i, id in enumerate(ids)
    ]
    relations = [
        Relation(
            id=hash_parts(a, b),
            source=a,
            target=b,
            names=(name[a], name[b]),
            keywords=("trade", "kinship") if i % 3 else (),
            weight=weight,
            strength=None if i % 2 else 7.0,
            tokens=12,
            text=f"{name[a]} lent oat seed to {name[b]}.",
        )
        for i, ((a, b), weight) in enumerate(sorted(pairs.items()))
    ]
    claims = [
        Claim(
            id=hash_parts(r.source, r.target, "loan"),
            subject=r.source,
            object=r.target,
            names=r.names,
            type="loan",
            statuses=("TRUE",),
            start="1861-04-01",
            end="",
            quotes=(r.text,),
            tokens=12,
            text=f"{r.names[0]} lent money to {r.names[1]}.",
        )
        for r in relations[:: max(1, ties // 50)]
    ]
    members = [Member(id=f"{c.id}.{i:05}", entity=entity) for c in communities for i, entity in enumerate(c.members)]
    reports = _reports(communities, name, relations, claims)
    found: tuple[list[Any], ...] = (
        documents,
        chunks,
        mentions,
        entities,
        relations,
        claims,
        communities,
        members,
        reports,
    )
    kinds = ("documents", "chunks", "mentions", "entities", "relations", "claims", "communities", "members", "reports")
    return {kind: sorted(rows, key=lambda row: row.id) for kind, rows in zip(kinds, found, strict=True)}


def batched(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[at : at + size] for at in range(0, len(items), size)]


def _names(random: Random, size: int) -> list[str]:
    """Made up, each once; a few that are hard to show or to store."""
    hard = ["Orrell", "ORRELL", "koho <b>栞</b>", '=SUM(A1:A9) "x"', "con", "a/b: c?", "組紐の栞", "</script>"]
    found = dict.fromkeys(hard)
    while len(found) < size:
        parts = (random.choice(_FIRST), random.choice(_MIDDLE), random.choice(_MIDDLE), random.choice(_LAST))
        word = "".join(parts[: 1 + random.randint(0, 2)]) + parts[3]
        found[word if random.random() < 0.4 else f"{word} {random.choice(_FIRST)}{random.choice(_LAST)}"] = None
    return list(found)[:size]


def _leaves(random: Random, ids: list[str]) -> list[tuple[str, ...]]:
    """Groups of 1 to 10, the first the most used."""
    left, found = list(ids), []
    while left:
        size = random.choice((1, 3, 5, 7, 8, 9, 10))
        found.append(tuple(sorted(left[:size])))
        del left[:size]
    return found


def _communities(leaves: list[tuple[str, ...]]) -> list[Community]:
    """Some leaves stand alone on level 0, the rest by sixes below level 1, these by eights below level 0."""
    found: list[Community] = []
    alone, deep = leaves[::9], [leaf for i, leaf in enumerate(leaves) if i % 9]
    found += [Community(id=hash_parts("alone", *leaf), level=0, parent="", children=(), members=leaf) for leaf in alone]
    for top, group in enumerate(batched(batched(deep, 6), 8)):
        above = hash_parts("top", str(top))
        middle = [hash_parts("middle", str(top), str(i)) for i in range(len(group))]
        found.append(Community(id=above, level=0, parent="", children=tuple(sorted(middle)), members=()))
        for id, held in zip(middle, group, strict=True):
            below = {hash_parts("leaf", *leaf): leaf for leaf in held}
            found.append(Community(id=id, level=1, parent=above, children=tuple(sorted(below)), members=()))
            found += [Community(id=b, level=2, parent=id, children=(), members=leaf) for b, leaf in below.items()]
    return found


def _pairs(random: Random, ids: list[str], leaves: list[tuple[str, ...]], ties: int) -> Counter[tuple[str, str]]:
    """Ties mostly within a leaf, and to the few that everybody knows."""
    found: Counter[tuple[str, str]] = Counter()
    ties = min(ties, len(ids) * (len(ids) - 1) // 4)
    rank = {id: i for i, id in enumerate(ids)}
    while len(found) < ties:
        a = random.choice(ids)
        near = random.choice(leaves)
        near = near if random.random() < 0.1 else leaves[min(rank[a] // 6, len(leaves) - 1)]
        b = ids[int(random.random() ** 3 * len(ids))] if random.random() < 0.3 else random.choice(near)
        if a != b:
            found[min(a, b), max(a, b)] += 1
    return found


def _texts(
    random: Random, name: Mapping[str, str], types: tuple[str, ...]
) -> tuple[list[Document], list[Chunk], list[Mention]]:
    """Texts that name each entity once at least, by chunks of five sentences."""
    ids = list(name)
    rank = {id: i for i, id in enumerate(ids)}
    told = ids + [ids[int(random.random() ** 2 * len(ids))] for _ in ids]
    said = [(id, f"In the spring of {1800 + i % 97} {name[id]} mended the long net.") for i, id in enumerate(told)]
    documents, chunks, mentions = [], [], []
    for number, page in enumerate(batched(batched(said, 5), 4)):
        uri = f"notes/day-{number:04}.md"
        parts = [" ".join(text for _, text in held) for held in page]
        text, at = "\n\n".join(parts), 0
        document = hash_parts(uri)
        title, kind = f"Day {number}", "text/markdown"
        documents.append(Document(id=document, uri=uri, file=uri, title=title, media_type=kind, text=text))
        for i, (part, held) in enumerate(zip(parts, page, strict=True)):
            chunk = f"{document}.{i:05}"
            chunks.append(Chunk(id=chunk, text=part, title=title, start=at, end=at + len(part), tokens=60))
            at += len(part) + 2
            for j, entity in enumerate(dict.fromkeys(id for id, _ in held)):
                of = types[rank[entity] % len(types)]
                id = f"{chunk}.{j:05}"
                mentions.append(Mention(id=id, entity=entity, name=name[entity], type=of, text=part[:80]))
    return documents, chunks, mentions


def _reports(
    communities: list[Community], name: Mapping[str, str], relations: list[Relation], claims: list[Claim]
) -> list[Report]:
    """Return a report for each community; its parts name their source rows."""
    of, under = defaultdict[str, list[Relation]](list), _under(communities)
    for relation in relations:
        of[relation.source].append(relation)
    found = []
    for n, community in enumerate(communities):
        who = under[community.id][:3]
        rows: list[tuple[str, str]] = [("entities", id) for id in who]
        rows += [("relations", of[who[0]][0].id)] if of[who[0]] else []
        rows += [("reports", community.children[0])] if community.children else [("claims", claims[0].id)]
        names = ", ".join(name[id] for id in who)
        findings = tuple(
            (
                f"Who mended the {what}",
                f"The {what} was mended by {names} in the spring, before the boats went out.\n\n"
                f"- It was paid for with seed.\n- Nobody else was asked.",
            )
            for what in ("long net", "breakwater", "lamp", "gate", "ferry")[: 2 + n % 4]
        )
        title = f"{names} and the nets"
        summary = f"**{name[who[0]]}** mends nets for all."
        text = "\n\n".join([f"# {title}", summary, *(f"## {head}\n\n{body}" for head, body in findings)])
        found.append(
            Report(
                id=community.id, text=text, title=title, summary=summary, rating=float(n % 11),
                reason="It feeds the town.", findings=findings,
                sources=((rows[0],), *(tuple(rows) for _ in findings)), dropped=1, level=community.level,
                elements=200, tokens=120,
                written_with="" if n % 4 < 2 else "a model",
            )
        )  # fmt: skip
    return found


def _under(communities: list[Community]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for community in sorted(communities, key=lambda c: -c.level):
        found[community.id] = list(community.members) or [id for child in community.children for id in found[child]]
    return found
