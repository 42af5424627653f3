"""records -> tables: rows in memory, and a small graph to select from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kumihimo.core.records import (
    Assertion,
    Claim,
    Community,
    Entity,
    Mention,
    Record,
    Relation,
    RelationMention,
    Report,
)
from kumihimo.core.table import R, Table, codec
from kumihimo.index.report_context import ReportTables
from kumihimo.text.name_keys import entity_id, relation_id
from tests.factories_tables import Held

Lookups = list[tuple[str, tuple[str, ...], tuple[object, ...]]]  # table, columns, values


def table(name: str, kind: type[R], records: Iterable[R], lookups: Lookups | None = None) -> Table[R]:
    """Return a table of these records. lookups: a list that collects each lookup, as in a row step."""
    row_codec = codec(kind)
    rows = [row_codec.encode(record.id, record) for record in sorted(records, key=lambda r: r.id)]

    def record_lookup(table: str, columns: tuple[str, ...], values: tuple[object, ...], exists: bool) -> None:
        if lookups is not None:
            lookups.append((table, columns, values))

    return Table(name, row_codec, Held(row_codec.columns, rows), record_lookup)


class WordTokenizer:
    """A tokenizer with one token per word."""

    fingerprint = "words"

    def __call__(self, text: str) -> Sequence[int]:
        return range(len(text.split()))


def entity(name: str, tokens: int = 10, text: str | None = None, mentions: int = 1, kind: str = "") -> Entity:
    description = f"{name} is here." if text is None else text
    return Entity(name, kind, (name,), (kind,) if kind else (), mentions, tokens, id=entity_id(name), text=description)


def relation(one: str, other: str, tokens: int = 10, weight: int = 1, text: str | None = None) -> Relation:
    (source, first), (target, second) = sorted([(entity_id(one), one), (entity_id(other), other)])
    description = f"{one} knows {other}." if text is None else text
    return Relation(
        source, target, (first, second), (), weight, None, tokens, id=relation_id(source, target), text=description
    )


def claim(subject: str, text: str, tokens: int = 10, object_name: str = "", kind: str = "deed") -> Claim:
    names = (subject, object_name) if object_name else (subject,)
    object_id = entity_id(object_name) if object_name else ""
    id = entity_id(f"{subject}{object_name}{kind}{text}")
    return Claim(entity_id(subject), object_id, names, kind, ("TRUE",), "", "", (), tokens, id=id, text=text)


def leaf(id: str, *names: str, level: int = 0, parent: str = "") -> Community:
    return Community(level, parent, (), tuple(entity_id(name) for name in names), id=id)


def split(id: str, *children: str, level: int = 0, parent: str = "") -> Community:
    return Community(level, parent, children, (), id=id)


def report(id: str, tokens: int, elements: int, title: str = "", text: str = "") -> Report:
    title = title or f"On {id}"
    content = text or f"# {title}\n\nAll of {id}."
    return Report(title, "", 5.0, "", (), (), 0, 0, elements, tokens, id=id, text=content)


def graph(*records: Record, lookups: Lookups | None = None) -> ReportTables:
    def rows_of(name: str, kind: type[R]) -> Table[R]:
        return table(name, kind, [record for record in records if isinstance(record, kind)], lookups)

    return ReportTables(
        rows_of("communities", Community),
        rows_of("entities", Entity),
        rows_of("relations", Relation),
        rows_of("claims", Claim),
        rows_of("reports", Report),
        rows_of("mentions", Mention),
        rows_of("ties", RelationMention),
        rows_of("assertions", Assertion),
    )


def mentions(names_by_sentence: Mapping[str, Sequence[str]]) -> Table[Mention]:
    """Return the mentions of sentence -> names, with one chunk per sentence."""
    sentence_mentions: list[Mention] = []
    for chunk, (sentence, names) in enumerate(names_by_sentence.items()):
        for n, name in enumerate(names):
            sentence_mentions.append(Mention(entity_id(name), name, "", id=f"doc.{chunk:05}.{n:05}", text=sentence))
    return table("mentions", Mention, sentence_mentions)
