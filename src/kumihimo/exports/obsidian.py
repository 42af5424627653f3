"""the entity graph -> a folder of linked Markdown notes, as Obsidian shows them."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kumihimo.app.community_tree import Tree, called, excerpts, held, said, tree, uris
from kumihimo.app.safe_write import folder
from kumihimo.app.snapshot import Reading
from kumihimo.core.records import Entity, Reference, Relation, Report

_SOURCES = 10  # places quoted in a note
_QUOTED = 300  # characters of each
_LONGEST = 80  # letters of a file's name
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f-\x9f\\/:*?"<>|#^\[\]%\u200b-\u200f\u2028-\u202e\ufeff]+')
_NOT_IN_LINKS = re.compile(r"[|\[\]<>\x00-\x1f]+")
_TAKEN = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)")  # by Windows


@dataclass(frozen=True, slots=True)
class _Vault:
    reading: Reading
    tree: Tree
    uris: Mapping[str, str]
    notes: Mapping[Reference, tuple[str, str]]  # (path, title) of the note on a row

    def link(self, reference: Reference) -> str:
        """To the note on a row; its name alone where there is none."""
        if reference not in self.notes:
            return _plain(called(self.reading, reference))
        path, title = self.notes[reference]
        shown = " ".join(_NOT_IN_LINKS.sub(" ", title).split())
        return f"[[{path}|{shown or path}]]"


def write(reading: Reading, path: Path) -> dict[str, int]:
    """A note for each entity, with links to its neighbours and its sources quoted; one for each report, by level."""
    reading.table("entities")
    communities = tree(reading)
    named = {("entities", id): name for id, name in reading.table("entities").columns("id", "name")}
    reports = held(reading, "reports").columns("id", "title", "level")
    titled = {("reports", id): (title, f"reports/level {level}") for id, title, level in reports}
    notes = _notes({**{ref: (name, "entities") for ref, name in named.items()}, **titled})
    vault = _Vault(reading, communities, uris(reading), notes)

    def fill(made: Path) -> None:
        for below in sorted({path.rpartition("/")[0] for path, _ in notes.values()}):
            (made / below).mkdir(parents=True, exist_ok=True)
        for entity in reading.table("entities"):
            _put(made, notes["entities", entity.id][0], _entity(vault, entity))
        for report in held(reading, "reports"):
            _put(made, notes["reports", report.id][0], _report(vault, report))

    folder(path, fill)
    return {"entities": len(named), "reports": len(titled)}


def _put(made: Path, path: str, lines: Iterable[str]) -> None:
    text = "\n".join(lines)
    (made / f"{path}.md").write_text(f"{text}\n", encoding="utf-8", newline="\n")


# -- names of files


def _notes(wanted: Mapping[Reference, tuple[str, str]]) -> dict[Reference, tuple[str, str]]:
    """A path for each row: its name, and where two are alike to any system, a part of the id as well."""
    paths = {ref: f"{below}/{file_name(title)}" for ref, (title, below) in wanted.items()}
    alike = Counter(_folded(path) for path in paths.values())
    return {
        ref: (path if alike[_folded(path)] == 1 else f"{path} {ref[1][:8]}", wanted[ref][0])
        for ref, path in paths.items()
    }


def _folded(path: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())


def file_name(title: str) -> str:
    """A name that every system takes, as like the title as can be.

    >>> [file_name(title) for title in ("a/b: c?", "CON", "…", "Orrell, Sabine. ", "組紐", "")]
    ['a b c', 'CON_', '…', 'Orrell, Sabine', '組紐', 'nameless']
    """
    name = " ".join(_NOT_IN_NAMES.sub(" ", unicodedata.normalize("NFC", title)).split())[:_LONGEST]
    while len(name.encode()) > 200:
        name = name[:-1]
    name = name.strip(" .")
    return f"{name}_" if _TAKEN.match(name) else name or "nameless"


# -- notes


def _entity(vault: _Vault, entity: Entity) -> Iterator[str]:
    level = vault.tree.path(entity.id)
    yield from _front(type=entity.type, aliases=list(entity.forms), mentions=entity.mentions, id=entity.id)
    yield f"# {_plain(entity.name)}\n"
    yield _plain(entity.text)
    in_reports = [("reports", id) for id in dict.fromkeys(level) if ("reports", id) in vault.notes]
    if in_reports:
        yield "\n**In:** " + " › ".join(map(vault.link, in_reports))
    if near := sorted(_near(vault, entity), key=lambda r: (-r.weight, r.id)):
        yield "\n## Relations\n"
        yield from (_relation(vault, entity, relation) for relation in near)
    if found := excerpts(vault.reading, vault.uris, entity, _SOURCES, _QUOTED):
        yield "\n## Sources\n"
        for span in found:
            where = ", ".join(filter(None, (span.uri, span.place)))
            yield f"> {_plain(' '.join(span.text.split()))}\n>\n> — {_plain(where)}\n"


def _near(vault: _Vault, entity: Entity) -> list[Relation]:
    relations = held(vault.reading, "relations")
    return [*relations.where(source=entity.id), *relations.where(target=entity.id)]


def _relation(vault: _Vault, entity: Entity, relation: Relation) -> str:
    other = relation.target if relation.source == entity.id else relation.source
    said = " ".join(_plain(relation.text).split())
    return f"- {vault.link(('entities', other))}{': ' * bool(said)}{said}"


def _report(vault: _Vault, report: Report) -> Iterator[str]:
    yield from _front(
        type="report", level=report.level, rating=report.rating, extractive=report.extractive, id=report.id
    )
    yield f"# {_plain(report.title)}\n"
    if report.extractive:
        yield "*Put together from sentences of the documents, without a model.*\n"
    yield _linked(vault, report.summary, report)
    if report.reason:
        yield f"\n**Rating {report.rating:g}:** {_linked(vault, report.reason, report)}"
    for summary, explanation in report.findings:
        yield f"\n## {_linked(vault, summary, report)}\n\n{_linked(vault, explanation, report)}"
    yield from _around(vault, report)


def _around(vault: _Vault, report: Report) -> Iterator[str]:
    """Its place in the tree, and what is in it."""
    if report.id not in vault.tree.level:
        return
    parts = {
        "Part of": [("reports", id) for id in vault.tree.above(report.id)[:-1]],
        "Parts": [("reports", id) for id in vault.tree.below(report.id)],
        "Members": [("entities", id) for id in vault.tree.members[report.id]],
    }
    for heading, references in parts.items():
        if there := [reference for reference in references if reference in vault.notes]:
            yield f"\n## {heading}\n"
            yield from (f"- {vault.link(reference)}" for reference in there)


def _linked(vault: _Vault, text: str, report: Report) -> str:
    parts = said(text, report)
    return "".join(_plain(p) if isinstance(p, str) else f"({', '.join(map(vault.link, p))})" for p in parts)


def _front(**properties: object) -> Iterator[str]:
    """The properties of a note, in YAML, of which JSON is a part."""
    yield "---"
    yield from (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in properties.items() if value != "")
    yield "---"


def _plain(text: str) -> str:
    """The text without what would be a link, a tag or a program in a note: documents and models may hold anything."""
    return re.sub(r"\[\[|`", lambda m: "\\" + "\\".join(m[0]), text.replace("<", "&lt;").replace("\0", ""))
