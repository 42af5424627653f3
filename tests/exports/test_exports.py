"""the graph -> files: complete, deterministic, and never over files of others."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, strategies as st
from pyoxigraph import RdfFormat, parse

from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse import sparql
from kumihimo.app.browse.community_tree import cut_excerpt, display_name, load_tree
from kumihimo.app.opened.catalogue import row_counts
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import IndexUnavailable, KumiError, SettingsError
from kumihimo.core.records import Chunk, Entity, Relation
from kumihimo.exports import DEFAULT_PATHS, FORMATS, obsidian
from tests import factories_graph_text, factories_graphs

XML = "{http://graphml.graphdrawing.org/xmlns}"
FREE = [name for name in FORMATS if name != "parquet"]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshot]:
    folder = factories_graphs.index(tmp_path_factory.mktemp("graph") / ".kumi", 60)
    with Kumihimo.open(folder) as kumi, kumi.snapshot() as snapshot:
        yield snapshot


def read(folder: Path, tables: factories_graphs.Tables) -> Iterator[Snapshot]:
    with Kumihimo.open(factories_graphs.write(folder, tables)) as kumi, kumi.snapshot() as snapshot:
        yield snapshot


def files(path: Path) -> dict[str, bytes]:
    if path.is_file():
        return {path.name: path.read_bytes()}
    return {f.relative_to(path).as_posix(): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()}


# -- every format


def test_each_format_has_a_place() -> None:
    assert FORMATS.keys() == DEFAULT_PATHS.keys()
    assert len(set(DEFAULT_PATHS.values())) == len(DEFAULT_PATHS)


@pytest.mark.parametrize("name", FREE)
def test_the_same_is_written_each_time_and_over_itself(name: str, snapshot: Snapshot, tmp_path: Path) -> None:
    counted = FORMATS[name](snapshot, tmp_path / "a")
    assert counted["entities"] == 60
    assert FORMATS[name](snapshot, tmp_path / "b") == counted
    first = files(tmp_path / "a")
    assert list(first.values()) == list(files(tmp_path / "b").values())
    FORMATS[name](snapshot, tmp_path / "a")
    assert files(tmp_path / "a") == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"], "nothing half-written is left"


@pytest.mark.parametrize("name", FREE)
def test_what_is_not_ours_stays(name: str, snapshot: Snapshot, tmp_path: Path) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("mine")
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    for path in (file, folder):
        with pytest.raises(SettingsError, match=r"already exists, and `kumi` did not write it|is a folder"):
            FORMATS[name](snapshot, path)
    assert files(tmp_path) == {"file": b"mine", "folder/mine.txt": b"mine"}


@pytest.mark.parametrize("name", [name for name in FREE if name != "rdf"])
def test_nothing_is_written_without_a_graph(name: str, tmp_path: Path) -> None:
    none = pytest.raises(IndexUnavailable, match="no table entities yet")
    with (
        Kumihimo.open(factories_graphs.write(tmp_path / ".kumi", {"documents": []})) as kumi,
        kumi.snapshot() as snapshot,
        none,
    ):
        FORMATS[name](snapshot, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", FREE)
def test_entities_alone_are_written(name: str, tmp_path: Path) -> None:
    tables = {"entities": factories_graphs.made(20, 20)["entities"]}
    for snapshot in read(tmp_path / ".kumi", tables):
        assert FORMATS[name](snapshot, tmp_path / "out")["entities"] == 20


# -- rdf


@pytest.mark.parametrize("suffix", ["ttl", "nt", "nq"])
def test_rdf_is_read_back_as_it_was_told(suffix: str, snapshot: Snapshot, tmp_path: Path) -> None:
    prefixes = sparql.index_prefixes({})
    expected = [quad.triple for quad in sparql.index_triples(snapshot, prefixes)]
    counted = FORMATS["rdf"](snapshot, tmp_path / f"graph.{suffix}")
    assert counted["triples"] == len(expected)
    assert {
        name: n for name, n in row_counts(snapshot.db, snapshot.catalogue).items() if name != "members"
    }.items() <= counted.items()
    form = RdfFormat.from_extension(suffix)
    read = [quad.triple for quad in parse(path=str(tmp_path / f"graph.{suffix}"), format=form)]
    assert read == expected
    lines = (tmp_path / f"graph.{suffix}").read_text(encoding="utf-8").split("\n")
    assert lines[0] == "# written by kumihimo"
    prefix_lines = [line for line in lines if line.startswith("@prefix")]
    assert len(prefix_lines) == (len(prefixes) if suffix == "ttl" else 0)
    assert prefix_lines == sorted(prefix_lines)


def test_an_ending_that_is_none_of_rdf_is_refused(snapshot: Snapshot, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"no ending of an RDF file '.tt'; did you mean '.ttl'"):
        FORMATS["rdf"](snapshot, tmp_path / "graph.tt")
    assert list(tmp_path.iterdir()) == []


# -- graphml


def parse_graphml(path: Path) -> tuple[dict[str, dict[str, str]], list[tuple[str, str, dict[str, str]]]]:
    """Return nodes by id and edges, with their data by name.

    A GraphML reader sees the same.
    """
    root = ElementTree.parse(path).getroot()
    keys = {key.attrib["id"]: key.attrib["attr.name"] for key in root.iter(f"{XML}key")}

    def data(element: ElementTree.Element) -> dict[str, str]:
        return {keys[d.attrib["key"]]: d.text or "" for d in element.iter(f"{XML}data")}

    nodes = {node.attrib["id"]: data(node) for node in root.iter(f"{XML}node")}
    edges = [(e.attrib["source"], e.attrib["target"], data(e)) for e in root.iter(f"{XML}edge")]
    return nodes, edges


def test_graphml_holds_the_graph_with_its_communities(snapshot: Snapshot, tmp_path: Path) -> None:
    FORMATS["graphml"](snapshot, tmp_path / "g.graphml")
    nodes, edges = parse_graphml(tmp_path / "g.graphml")
    communities = load_tree(snapshot)
    assert nodes.keys() == {entity.id for entity in snapshot.table("entities")}
    assert len(edges) == len(snapshot.table("relations"))
    assert all(source in nodes and target in nodes for source, target, _ in edges)
    for entity in snapshot.table("entities"):
        node_data = nodes[entity.id]
        assert (node_data["name"], node_data["mentions"]) == (entity.name, str(entity.mentions))
        assert [node_data[f"community_{level}"] for level in range(3)] == communities.entity_path(entity.id)
    relation = next(iter(snapshot.table("relations")))
    _, _, node_data = next(edge for edge in edges if edge[:2] == (relation.source, relation.target))
    assert (float(node_data["weight"]), node_data["description"]) == (relation.weight, relation.text)


@pytest.mark.parametrize(
    "bad", ["a\0b\x1b[2Jc", "</node>&amp;]]>", "\"quoted\" 'so'", "\ud800half", "\ufffe\U0010ffff"]
)
def test_any_name_is_valid_xml(bad: str, tmp_path: Path) -> None:
    entity = Entity(id=hash_parts("a"), name=bad, type=bad, forms=(bad,), types=(), mentions=1, tokens=1, text=bad)
    encodable = entity.name.encode("utf-8", "replace").decode()
    tables = {"entities": [replace(entity, name=encodable, type=encodable, text=encodable, forms=())]}
    for snapshot in read(tmp_path / ".kumi", tables):
        FORMATS["graphml"](snapshot, tmp_path / "g")
    nodes, _ = parse_graphml(tmp_path / "g")
    assert nodes[entity.id]["name"] == re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", encodable)


def test_an_edge_without_its_ends_is_left_out(tmp_path: Path) -> None:
    tables = factories_graphs.made(20, 40)
    remaining = tables["entities"][5:]
    remaining_ids = {entity.id for entity in remaining}
    for snapshot in read(tmp_path / ".kumi", {**tables, "entities": remaining}):
        count = FORMATS["graphml"](snapshot, tmp_path / "g")
    _, edges = parse_graphml(tmp_path / "g")
    assert all(source in remaining_ids and target in remaining_ids for source, target, _ in edges)
    assert 0 < count["relations"] == len(edges) < 40


# -- csv


def test_csv_holds_every_row(snapshot: Snapshot, tmp_path: Path) -> None:
    FORMATS["csv"](snapshot, tmp_path / "out")
    for name in ("entities", "relations", "claims", "communities", "members", "reports"):
        with (tmp_path / "out" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        records = list(snapshot.table(name))
        assert [row["id"] for row in rows] == [record.id for record in records]
        assert set(rows[0]) - {"community"} == set(snapshot.table(name).codec.columns)
    report = records[0]
    assert rows[0]["text"] == report.text, "a text of several lines is one cell"
    assert json.loads(rows[0]["findings"]) == [list(finding) for finding in report.findings]


def test_no_cell_is_a_formula(snapshot: Snapshot, tmp_path: Path) -> None:
    FORMATS["csv"](snapshot, tmp_path / "out")
    cells = [
        cell
        for path in (tmp_path / "out").glob("*.csv")
        for row in csv.reader(path.read_text(encoding="utf-8").splitlines(keepends=True))
        for cell in row
    ]
    assert '\'=SUM(A1:A9) "x"' in cells
    assert [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))] == []


# -- obsidian


IMAGES = (
    "![a](https://evil.example/a.png)",
    "![[https://evil.example/a.png]]",
    "![a][b]\n\n[b]: https://evil.example/a.png",
    "[![a](https://evil.example/a.png)](https://evil.example)",
    '<img src="https://evil.example/a.png">',
)


def test_a_note_loads_nothing(tmp_path: Path) -> None:
    """The text of an image and its address stay."""
    ada = factories_graph_text.entity(f"Ada {IMAGES[0]}", "person", text="\n".join(IMAGES))
    for snapshot in read(tmp_path / ".kumi", {"documents": [], "entities": [ada]}):
        FORMATS["obsidian"](snapshot, tmp_path / "vault")
    (note,) = (tmp_path / "vault").rglob("*.md")
    _, _, text = note.read_text("utf-8").partition("\n---\n")
    assert "![" not in text
    assert "<img" not in text
    assert text.count("https://evil.example/a.png") == 6


@example("[x](javascript:alert(1)) and [y]: javascript:alert(2)")
@given(st.text("![]()`~\\<a \n"))
def test_no_text_of_a_document_is_active(text: str) -> None:
    escaped = obsidian._escape_markdown(text)
    active = re.compile(r"(?<!\\)(?:\\\\)*(?:\[|`|~~~)|<")
    assert not active.search(escaped)
    assert re.sub(r"\\(.)", r"\1", escaped, flags=re.S).replace("&lt;", "<") == text


def notes(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text(encoding="utf-8") for p in sorted(folder.rglob("*.md"))}


def test_every_link_of_a_note_leads_to_a_note(snapshot: Snapshot, tmp_path: Path) -> None:
    counted = FORMATS["obsidian"](snapshot, tmp_path / "vault")
    note_texts = notes(tmp_path / "vault")
    assert len(note_texts) == sum(counted.values()) == 60 + len(snapshot.table("reports"))
    links = [link for text in note_texts.values() for link in re.findall(r"(?<!\\)\[\[([^|\]]+)\|[^\]]*\]\]", text)]
    assert len(links) > 500
    assert [link for link in links if f"{link}.md" not in note_texts] == []


def test_a_note_tells_of_its_entity(snapshot: Snapshot, tmp_path: Path) -> None:
    FORMATS["obsidian"](snapshot, tmp_path / "vault")
    entity = next(e for e in snapshot.table("entities") if e.name == "Orrell")
    note = next(text for text in notes(tmp_path / "vault").values() if f'id: "{entity.id}"' in text)
    front, _, body = note.removeprefix("---\n").partition("\n---\n")
    properties = {name: json.loads(value) for name, _, value in (line.partition(": ") for line in front.splitlines())}
    assert properties == {
        "type": "person",
        "aliases": ["Orrell", "ORRELL"],
        "mentions": entity.mentions,
        "id": entity.id,
    }
    assert "# Orrell\n" in body
    assert "## Relations\n" in body
    assert re.search(r"> In the spring of \d+ Orrell mended the long net.*\n>\n> — notes/day-\d+\.md, line \d+\n", body)


def test_a_report_links_its_parts_its_members_and_what_it_refers_to(snapshot: Snapshot, tmp_path: Path) -> None:
    FORMATS["obsidian"](snapshot, tmp_path / "vault")
    note_texts = notes(tmp_path / "vault")
    tops = {path: text for path, text in note_texts.items() if path.startswith("reports/level 0/")}
    assert any("\n## Parts\n\n- [[reports/level 1/" in text for text in tops.values())
    assert any("\n## Part of\n\n- [[reports/level 0/" in text for text in note_texts.values())
    leaves = [text for path, text in note_texts.items() if path.startswith("reports/level 2/")]
    assert leaves
    assert all("\n## Members\n\n- [[entities/" in text for text in leaves)
    assert not any("[Data:" in text for text in note_texts.values())
    assert any("without a model" in text for text in note_texts.values())


@given(st.lists(st.text(max_size=120), unique=True, max_size=8))
def test_names_of_notes_are_safe_and_apart(titles: list[str]) -> None:
    titles_by_row = {("entities", hash_parts(title)): (title, "entities") for title in titles}
    paths = [path for path, _ in obsidian._note_paths(titles_by_row).values()]
    assert len({path.casefold() for path in paths}) == len(titles)
    for path in paths:
        name = path.removeprefix("entities/")
        assert name == name.strip(" .")
        assert not re.search(r'[\x00-\x1f\\/:*?"<>|#^\[\]]', name)
        assert 0 < len(name.encode("utf-8", "replace")) < 240
        assert name.upper().partition(".")[0] not in ("CON", "NUL", "AUX", "PRN", "COM1", "LPT9")


def test_names_that_differ_in_case_only_are_two_notes(snapshot: Snapshot, tmp_path: Path) -> None:
    FORMATS["obsidian"](snapshot, tmp_path / "vault")
    alike = [path for path in notes(tmp_path / "vault") if path.lower().startswith("entities/orrell")]
    assert len({path.casefold() for path in alike}) == 2


def test_notes_of_ones_own_stay_and_ours_go_with_their_rows(snapshot: Snapshot, tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    FORMATS["obsidian"](snapshot, vault)
    (vault / ".obsidian").mkdir()
    (vault / ".obsidian" / "app.json").write_text("{}")
    (vault / "entities" / "My thoughts.md").write_text("mine")
    for smaller in read(tmp_path / ".kumi", {"entities": factories_graphs.made(60, 240)["entities"][:7]}):
        FORMATS["obsidian"](smaller, vault)
    note_texts = notes(vault)
    assert len(note_texts) == 7 + 1
    assert note_texts["entities/My thoughts.md"] == "mine"
    assert (vault / ".obsidian" / "app.json").exists()
    assert not (vault / "reports").exists()


def test_a_note_of_ones_own_is_not_overwritten(snapshot: Snapshot, tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    for smaller in read(tmp_path / ".kumi", {"entities": factories_graphs.made(60, 240)["entities"][:1]}):
        FORMATS["obsidian"](smaller, vault)
    mine = vault / "entities" / "_con.md"
    mine.write_text("mine")
    with pytest.raises(SettingsError, match=r"_con\.md already exists"):
        FORMATS["obsidian"](snapshot, vault)
    assert mine.read_text() == "mine"
    assert len(notes(vault)) == 2


def test_a_note_that_you_edited_is_replaced_only_by_force(tmp_path: Path) -> None:
    bo = factories_graph_text.entity("Bo", "person")
    for snapshot in read(tmp_path / ".kumi", {"documents": [], "entities": [bo]}):
        FORMATS["obsidian"](snapshot, tmp_path / "vault")
        note = tmp_path / "vault" / "entities" / "Bo.md"
        ours = note.read_bytes()
        note.write_bytes(ours + b"mine")
        with pytest.raises(SettingsError, match=r"Bo\.md has changed since `kumi` wrote it: move it away to keep it"):
            FORMATS["obsidian"](snapshot, tmp_path / "vault")
        assert note.read_bytes() == ours + b"mine"
        FORMATS["obsidian"](snapshot, tmp_path / "vault", force=True)
        assert note.read_bytes() == ours


@pytest.mark.parametrize("name", ["`$= dv.view('x')` Ada", "<%* tp.file.create_new() %>", "<% tp %> `= 1`"])
def test_no_name_is_a_command_of_a_plugin(name: str, tmp_path: Path) -> None:
    """Dataview runs code between backticks; Templater runs commands in `<% %>` anywhere in the file."""
    entities = [factories_graph_text.entity(each, "person") for each in (name, "Bo")]
    tables: factories_graphs.Tables = {
        "documents": [],
        "entities": entities,
        "relations": [factories_graph_text.relation(name, "Bo")],
    }
    for snapshot in read(tmp_path / ".kumi", tables):
        FORMATS["obsidian"](snapshot, tmp_path / "vault")
    vault = notes(tmp_path / "vault")
    assert len(vault) == 2
    assert not any(character in "".join(vault) for character in "`<")
    assert not any("<" in text for text in vault.values())
    assert "[[" in vault["entities/Bo.md"]
    assert not any(re.search(r"(?<!\\)`", text.partition("\n---\n")[2]) for text in vault.values())
    front = next(text for path, text in vault.items() if path != "entities/Bo.md").splitlines()
    assert json.loads(next(line for line in front if line.startswith("aliases: "))[9:]) == [name]


# -- parquet


def test_parquet_without_its_library_names_the_extra(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(KumiError, match=r"pip install 'kumihimo\[parquet\]'"):
        FORMATS["parquet"](snapshot, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_parquet_with_a_broken_library_names_the_cause(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", ModuleType("pyarrow"))
    with pytest.raises(KumiError, match=r"extra `parquet` .*force-reinstall pyarrow"):
        FORMATS["parquet"](snapshot, tmp_path / "out")


def test_parquet_holds_every_row(snapshot: Snapshot, tmp_path: Path) -> None:
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    FORMATS["parquet"](snapshot, tmp_path / "out")
    for name in ("entities", "relations", "claims", "communities", "members", "reports"):
        rows = parquet.read_table(tmp_path / "out" / f"{name}.parquet").to_pylist()
        assert [row["id"] for row in rows] == [record.id for record in snapshot.table(name)]
    assert json.loads(rows[0]["findings"]) == [
        list(finding) for finding in next(iter(snapshot.table("reports"))).findings
    ]


def test_parquet_is_given_columns_of_their_types(snapshot: Snapshot, tmp_path: Path) -> None:
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    assert FORMATS["parquet"](snapshot, tmp_path / "out")["entities"] == 60
    types = {}
    for name in ("entities", "relations", "reports", "members"):
        schema = parquet.read_schema(tmp_path / "out" / f"{name}.parquet")
        types[name] = {field.name: str(field.type) for field in schema}
    assert types["entities"]["forms"].startswith("list<")
    assert types["entities"]["mentions"] == "int64"
    assert types["relations"]["strength"] == "double"
    assert types["members"]["community"] == "string"
    forms = parquet.read_table(tmp_path / "out" / "entities.parquet").column("forms").to_pylist()
    assert forms == [list(entity.forms) for entity in snapshot.table("entities")]


# -- shared functions


@given(st.text(max_size=80), st.text(max_size=8), st.integers(5, 40))
def test_an_excerpt_is_a_part_of_its_document(text: str, name: str, width: int) -> None:
    chunk = Chunk(id="d.00000", title="", start=100, end=100 + len(text), tokens=1, text=text)
    span = cut_excerpt(chunk, [name], "uri", width)
    assert text[span.start - 100 : span.end - 100] == span.text
    assert len(span.text) <= width


def test_a_tree_tells_where_each_entity_is(snapshot: Snapshot) -> None:
    communities = load_tree(snapshot)
    entities = {entity.id for entity in snapshot.table("entities")}
    for level in range(communities.depth + 1):
        placed = [entity for id in communities.at_level(level) for entity in communities.entities(id)]
        assert sorted(placed) == sorted(entities), "each once on every level"
    assert sum(communities.size[id] for id in communities.roots()) == len(entities)
    assert all(len(communities.entity_path(entity)) == communities.depth for entity in entities)


def test_relations_are_named(snapshot: Snapshot) -> None:
    relation: Relation = next(iter(snapshot.table("relations")))
    assert display_name(snapshot, ("relations", relation.id)) == " – ".join(relation.names)
    assert display_name(snapshot, ("entities", "nobody")) == "nobody"
