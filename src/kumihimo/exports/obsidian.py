"""the entity graph -> a folder of linked Markdown notes, as Obsidian shows them."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kumihimo.app.community_tree import (
    CommunityTree,
    display_name,
    document_uris,
    entity_excerpts,
    load_tree,
    split_references,
    table_or_empty,
)
from kumihimo.app.safe_write import write_folder
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.records import Entity, Reference, Relation, Report

_MAX_EXCERPTS = 10  # places quoted in a note
_EXCERPT_CHARS = 300  # characters of each
_MAX_NAME_CHARS = 80  # letters of a file's name
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f-\x9f\\/:*?"<>|#^\[\]%\u200b-\u200f\u2028-\u202e\ufeff]+')
_NOT_IN_LINKS = re.compile(r"[|\[\]<>\x00-\x1f]+")
_RESERVED_NAMES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)")  # by Windows


@dataclass(frozen=True, slots=True)
class _Vault:
    snapshot: Snapshot
    tree: CommunityTree
    uris: Mapping[str, str]
    notes: Mapping[Reference, tuple[str, str]]  # (path, title) of the note on a row

    def link(self, reference: Reference) -> str:
        """To the note on a row; its name alone where there is none."""
        if reference not in self.notes:
            return _escape_markdown(display_name(self.snapshot, reference))
        path, title = self.notes[reference]
        shown = " ".join(_NOT_IN_LINKS.sub(" ", title).split())
        return f"[[{path}|{shown or path}]]"


def write_obsidian(snapshot: Snapshot, path: Path) -> dict[str, int]:
    """A note for each entity, with links to its neighbours and its sources quoted; one for each report, by level."""
    snapshot.table("entities")
    communities = load_tree(snapshot)
    named = {("entities", id): name for id, name in snapshot.table("entities").columns("id", "name")}
    reports = table_or_empty(snapshot, "reports").columns("id", "title", "level")
    titled = {("reports", id): (title, f"reports/level {level}") for id, title, level in reports}
    notes = _note_paths({**{ref: (name, "entities") for ref, name in named.items()}, **titled})
    vault = _Vault(snapshot, communities, document_uris(snapshot), notes)

    def fill(made: Path) -> None:
        for below in sorted({path.rpartition("/")[0] for path, _ in notes.values()}):
            (made / below).mkdir(parents=True, exist_ok=True)
        for entity in snapshot.table("entities"):
            _write_note(made, notes["entities", entity.id][0], _entity_note(vault, entity))
        for report in table_or_empty(snapshot, "reports"):
            _write_note(made, notes["reports", report.id][0], _report_note(vault, report))

    write_folder(path, fill)
    return {"entities": len(named), "reports": len(titled)}


def _write_note(made: Path, path: str, lines: Iterable[str]) -> None:
    text = "\n".join(lines)
    (made / f"{path}.md").write_text(f"{text}\n", encoding="utf-8", newline="\n")


# -- names of files


def _note_paths(wanted: Mapping[Reference, tuple[str, str]]) -> dict[Reference, tuple[str, str]]:
    """A path for each row: its name, and where two are alike to any system, a part of the id as well."""
    paths = {ref: f"{below}/{file_name(title)}" for ref, (title, below) in wanted.items()}
    alike = Counter(_fold_path(path) for path in paths.values())
    return {
        ref: (path if alike[_fold_path(path)] == 1 else f"{path} {ref[1][:8]}", wanted[ref][0])
        for ref, path in paths.items()
    }


def _fold_path(path: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())


def file_name(title: str) -> str:
    """A name that every system takes, as like the title as can be.

    >>> [file_name(title) for title in ("a/b: c?", "CON", "…", "Orrell, Sabine. ", "組紐", "")]
    ['a b c', 'CON_', '…', 'Orrell, Sabine', '組紐', 'nameless']
    """
    name = " ".join(_NOT_IN_NAMES.sub(" ", unicodedata.normalize("NFC", title)).split())[:_MAX_NAME_CHARS]
    while len(name.encode()) > 200:
        name = name[:-1]
    name = name.strip(" .")
    return f"{name}_" if _RESERVED_NAMES.match(name) else name or "nameless"


# -- notes


def _entity_note(vault: _Vault, entity: Entity) -> Iterator[str]:
    level = vault.tree.entity_path(entity.id)
    yield from _front_matter(type=entity.type, aliases=list(entity.forms), mentions=entity.mentions, id=entity.id)
    yield f"# {_escape_markdown(entity.name)}\n"
    yield _escape_markdown(entity.text)
    in_reports = [("reports", id) for id in dict.fromkeys(level) if ("reports", id) in vault.notes]
    if in_reports:
        yield "\n**In:** " + " › ".join(map(vault.link, in_reports))
    if near := sorted(_relations_of(vault, entity), key=lambda r: (-r.weight, r.id)):
        yield "\n## Relations\n"
        yield from (_relation_line(vault, entity, relation) for relation in near)
    if found := entity_excerpts(vault.snapshot, vault.uris, entity, _MAX_EXCERPTS, _EXCERPT_CHARS):
        yield "\n## Sources\n"
        for span in found:
            where = ", ".join(filter(None, (span.uri, span.place)))
            yield f"> {_escape_markdown(' '.join(span.text.split()))}\n>\n> — {_escape_markdown(where)}\n"


def _relations_of(vault: _Vault, entity: Entity) -> list[Relation]:
    relations = table_or_empty(vault.snapshot, "relations")
    return [*relations.where(source=entity.id), *relations.where(target=entity.id)]


def _relation_line(vault: _Vault, entity: Entity, relation: Relation) -> str:
    other = relation.target if relation.source == entity.id else relation.source
    said = " ".join(_escape_markdown(relation.text).split())
    return f"- {vault.link(('entities', other))}{': ' * bool(said)}{said}"


def _report_note(vault: _Vault, report: Report) -> Iterator[str]:
    yield from _front_matter(
        type="report", level=report.level, rating=report.rating, extractive=report.extractive, id=report.id
    )
    yield f"# {_escape_markdown(report.title)}\n"
    if report.extractive:
        yield "*Put together from sentences of the documents, without a model.*\n"
    yield _with_links(vault, report.summary, report)
    if report.reason:
        yield f"\n**Rating {report.rating:g}:** {_with_links(vault, report.reason, report)}"
    for summary, explanation in report.findings:
        yield f"\n## {_with_links(vault, summary, report)}\n\n{_with_links(vault, explanation, report)}"
    yield from _community_links(vault, report)


def _community_links(vault: _Vault, report: Report) -> Iterator[str]:
    """Its place in the tree, and what is in it."""
    if report.id not in vault.tree.level:
        return
    parts = {
        "Part of": [("reports", id) for id in vault.tree.ancestors(report.id)[:-1]],
        "Parts": [("reports", id) for id in vault.tree.sorted_children(report.id)],
        "Members": [("entities", id) for id in vault.tree.members[report.id]],
    }
    for heading, references in parts.items():
        if there := [reference for reference in references if reference in vault.notes]:
            yield f"\n## {heading}\n"
            yield from (f"- {vault.link(reference)}" for reference in there)


def _with_links(vault: _Vault, text: str, report: Report) -> str:
    parts = split_references(text, report)
    return "".join(_escape_markdown(p) if isinstance(p, str) else f"({', '.join(map(vault.link, p))})" for p in parts)


def _front_matter(**properties: object) -> Iterator[str]:
    """The properties of a note, in YAML, of which JSON is a part."""
    yield "---"
    yield from (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in properties.items() if value != "")
    yield "---"


def _escape_markdown(text: str) -> str:
    """The text without what would be a link, a tag or a program in a note: documents and models may hold anything."""
    return re.sub(r"\[\[|`", lambda m: "\\" + "\\".join(m[0]), text.replace("<", "&lt;").replace("\0", ""))
