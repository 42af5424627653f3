"""records -> tables: rows in memory, and a small graph to select from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kumihimo.core.records import Claim, Community, Entity, Mention, Record, Relation, Report
from kumihimo.core.table import R, Table, codec
from kumihimo.index.report_context import ReportTables
from kumihimo.text.name_keys import entity_id, relation_id
from tests.factories_tables import Held

Looks = list[tuple[str, tuple[str, ...], tuple[object, ...]]]  # table, columns, values


def table(name: str, kind: type[R], records: Iterable[R], looks: Looks | None = None) -> Table[R]:
    """A table of these records. looks: where each look-up is written down, as in a row step."""
    made = codec(kind)
    held = [made.encode(record.id, record) for record in sorted(records, key=lambda r: r.id)]

    def note(table: str, columns: tuple[str, ...], values: tuple[object, ...], found: bool) -> None:
        if looks is not None:
            looks.append((table, columns, values))

    return Table(name, made, Held(made.columns, held), note)


class Words:
    """A ruler for which a word is a token."""

    fingerprint = "words"

    def __call__(self, text: str) -> Sequence[int]:
        return range(len(text.split()))


def entity(name: str, tokens: int = 10, text: str | None = None, mentions: int = 1, kind: str = "") -> Entity:
    said = f"{name} is here." if text is None else text
    return Entity(name, kind, (name,), (kind,) if kind else (), mentions, tokens, id=entity_id(name), text=said)


def relation(one: str, other: str, tokens: int = 10, weight: int = 1, text: str | None = None) -> Relation:
    (source, first), (target, second) = sorted([(entity_id(one), one), (entity_id(other), other)])
    said = f"{one} knows {other}." if text is None else text
    return Relation(
        source, target, (first, second), (), weight, None, tokens, id=relation_id(source, target), text=said
    )


def claim(subject: str, text: str, tokens: int = 10, of: str = "", kind: str = "deed") -> Claim:
    names = (subject, of) if of else (subject,)
    other = entity_id(of) if of else ""
    id = entity_id(f"{subject}{of}{kind}{text}")
    return Claim(entity_id(subject), other, names, kind, ("TRUE",), "", "", (), tokens, id=id, text=text)


def leaf(id: str, *names: str, level: int = 0, parent: str = "") -> Community:
    return Community(level, parent, (), tuple(entity_id(name) for name in names), id=id)


def split(id: str, *children: str, level: int = 0, parent: str = "") -> Community:
    return Community(level, parent, children, (), id=id)


def report(id: str, tokens: int, elements: int, title: str = "", text: str = "") -> Report:
    title = title or f"On {id}"
    said = text or f"# {title}\n\nAll of {id}."
    return Report(title, "", 5.0, "", (), (), 0, 0, elements, tokens, False, id=id, text=said)


def graph(*records: Record, looks: Looks | None = None) -> ReportTables:
    def of(name: str, kind: type[R]) -> Table[R]:
        return table(name, kind, [record for record in records if isinstance(record, kind)], looks)

    return ReportTables(
        of("communities", Community), of("entities", Entity), of("relations", Relation), of("claims", Claim),
        of("reports", Report),
    )  # fmt: skip


def mentions(said: Mapping[str, Sequence[str]]) -> Table[Mention]:
    """Of sentence -> the names in it: mentions, each sentence in a chunk of its own, in one document."""
    made: list[Mention] = []
    for chunk, (sentence, names) in enumerate(said.items()):
        for n, name in enumerate(names):
            made.append(Mention(entity_id(name), name, "", id=f"doc.{chunk:05}.{n:05}", text=sentence))
    return table("mentions", Mention, made)
