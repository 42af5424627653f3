"""the entity graph -> a folder of linked Markdown notes, for Obsidian."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse import community_tree
from kumihimo.core.records import Entity, Reference, Relation, Report
from kumihimo.text import file_names, safe_write

_MAX_EXCERPTS = 10  # quoted in a note
_EXCERPT_CHARS = 300  # characters of each
_ACTIVE_MARKDOWN = re.compile(r"\[|`|~~~|\\")
_NOT_IN_LINKS = re.compile(r"[|\[\]<>`\x00-\x1f]+")


@dataclass(frozen=True, slots=True)
class _Vault:
    snapshot: Snapshot
    tree: community_tree.CommunityTree
    uris: Mapping[str, str]
    notes: Mapping[Reference, tuple[str, str]]  # row -> path and title of its note

    def link(self, reference: Reference) -> str:
        """Return a link to the note on a row, or its name."""
        if reference not in self.notes:
            return _escape_markdown(community_tree.display_name(self.snapshot, reference))
        path, title = self.notes[reference]
        label = " ".join(_NOT_IN_LINKS.sub(" ", title).split())
        return f"[[{path}|{label or path}]]"


def write_obsidian(snapshot: Snapshot, path: Path, *, force: bool = False) -> dict[str, int]:
    """Write a note for each entity and each report.

    Entity notes link their neighbours and quote their sources. Reports are sorted into a folder for each level.
    """
    snapshot.table("entities")
    communities = community_tree.load_tree(snapshot)
    names = {("entities", id): (name, "entities") for id, name in snapshot.table("entities").columns("id", "name")}
    reports = community_tree.table_or_empty(snapshot, "reports").columns("id", "title", "level")
    titles = {("reports", id): (title, f"reports/level {level}") for id, title, level in reports}
    notes = _note_paths(names | titles)
    vault = _Vault(snapshot, communities, community_tree.document_uris(snapshot), notes)

    def fill(target: Path) -> None:
        for subfolder in sorted({path.rpartition("/")[0] for path, _ in notes.values()}):
            (target / subfolder).mkdir(parents=True, exist_ok=True)
        for entity in snapshot.table("entities"):
            _write_note(target, notes["entities", entity.id][0], _entity_note(vault, entity))
        for report in community_tree.table_or_empty(snapshot, "reports"):
            _write_note(target, notes["reports", report.id][0], _report_note(vault, report))

    safe_write.write_folder(path, fill, force=force)
    return {"entities": len(names), "reports": len(titles)}


def _write_note(target: Path, path: str, lines: Iterable[str]) -> None:
    text = "\n".join(lines)
    (target / f"{path}.md").write_text(f"{text}\n", encoding="utf-8", newline="\n")


# -- file names


def _note_paths(titles: Mapping[Reference, tuple[str, str]]) -> dict[Reference, tuple[str, str]]:
    """Return the path and title of each note.

    Paths that some system takes for equal get a part of the id.
    """
    paths = {ref: f"{subfolder}/{file_names.file_name(title)}" for ref, (title, subfolder) in titles.items()}
    counts = Counter(_fold_path(path) for path in paths.values())
    return {
        ref: (path if counts[_fold_path(path)] == 1 else f"{path} {ref[1][:8]}", titles[ref][0])
        for ref, path in paths.items()
    }


def _fold_path(path: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())


# -- notes


def _entity_note(vault: _Vault, entity: Entity) -> Iterator[str]:
    communities = dict.fromkeys(vault.tree.entity_path(entity.id))
    yield from _front_matter(type=entity.type, aliases=list(entity.forms), mentions=entity.mentions, id=entity.id)
    yield f"# {_escape_markdown(entity.name)}\n"
    yield _escape_markdown(entity.text)
    if in_reports := [("reports", id) for id in communities if ("reports", id) in vault.notes]:
        yield "\n**In:** " + " › ".join(map(vault.link, in_reports))
    table = community_tree.table_or_empty(vault.snapshot, "relations")
    if relations := [*table.where(source=entity.id), *table.where(target=entity.id)]:
        yield "\n## Relations\n"
        yield from (_relation_line(vault, entity, r) for r in sorted(relations, key=lambda r: (-r.weight, r.id)))
    if spans := community_tree.entity_excerpts(vault.snapshot, vault.uris, entity, _MAX_EXCERPTS, _EXCERPT_CHARS):
        yield "\n## Sources\n"
        for span in spans:
            source = ", ".join(filter(None, (span.uri, span.place)))
            yield f"> {_escape_markdown(' '.join(span.text.split()))}\n>\n> — {_escape_markdown(source)}\n"


def _relation_line(vault: _Vault, entity: Entity, relation: Relation) -> str:
    other = relation.target if relation.source == entity.id else relation.source
    text = " ".join(_escape_markdown(relation.text).split())
    return f"- {vault.link(('entities', other))}{': ' * bool(text)}{text}"


def _report_note(vault: _Vault, report: Report) -> Iterator[str]:
    yield from _front_matter(type="report", level=report.level, rating=report.rating, id=report.id)
    yield f"# {_escape_markdown(report.title)}\n"
    if community_tree.maker_of(report) == "rows":
        yield "*Made by rule of descriptions of its entities and relations, without a model.*\n"
    yield _with_links(vault, report.summary, report, 0)
    if report.reason:
        yield f"\n**Rating {report.rating:g}:** {_escape_markdown(report.reason)}"
    for n, (summary, explanation) in enumerate(report.findings, 1):
        yield f"\n## {_escape_markdown(summary)}\n\n{_with_links(vault, explanation, report, n)}"
    yield from _community_links(vault, report)


def _community_links(vault: _Vault, report: Report) -> Iterator[str]:
    """Yield links to the parents, parts and members of a community."""
    if report.id not in vault.tree.level:
        return
    parts = {
        "Part of": [("reports", id) for id in vault.tree.ancestors(report.id)[:-1]],
        "Parts": [("reports", id) for id in vault.tree.sorted_children(report.id)],
        "Members": [("entities", id) for id in vault.tree.members[report.id]],
    }
    for heading, references in parts.items():
        if linked := [reference for reference in references if reference in vault.notes]:
            yield f"\n## {heading}\n"
            yield from (f"- {vault.link(reference)}" for reference in linked)


def _with_links(vault: _Vault, text: str, report: Report, part: int) -> str:
    """Return a part of a report, then links to its source rows."""
    links = ", ".join(map(vault.link, community_tree.part_sources(report, part)))
    return f"{_escape_markdown(text)}{f' ({links})' if links else ''}"


def _front_matter(**properties: object) -> Iterator[str]:
    """Yield the properties of a note, in YAML.

    The values are JSON, which is valid YAML, without `<`, which begins a command of the plugin Templater.
    """
    yield "---"
    for name, value in properties.items():
        if value != "":
            yield f"{name}: {json.dumps(value, ensure_ascii=False)}".replace("<", "\\u003c")
    yield "---"


def _escape_markdown(text: str) -> str:
    r"""Escape links, images, tags and code in the text.

    Documents and models may contain anything. An image would be loaded when the note is opened.

    >>> _escape_markdown("![a](https://example.org/a.png) [[b]] ~~~dataviewjs")
    '!\\[a](https://example.org/a.png) \\[\\[b]] \\~\\~\\~dataviewjs'
    """
    return _ACTIVE_MARKDOWN.sub(lambda m: "\\" + "\\".join(m[0]), text.replace("<", "&lt;").replace("\0", ""))
