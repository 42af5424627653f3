"""the graph -> nested circles, and a self-contained page that shows them."""

from __future__ import annotations

import json
import re
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from kumihimo import Kumihimo, page
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.community_tree import CommunityTree, load_tree, maker_of
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import IndexUnavailable, SettingsError
from kumihimo.page import Circle, GraphLayout, enclosing_circle, layout_graph, pack_circles
from tests import factories_graphs
from tests.counters import count_lines

BROWSER = which("chromium") or which("google-chrome")
RADII = st.lists(st.floats(0.5, 40), max_size=40)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshot]:
    folder = factories_graphs.index(tmp_path_factory.mktemp("graph") / ".kumi", 60)
    with Kumihimo.open(folder) as kumi, kumi.snapshot() as snapshot:
        yield snapshot


@pytest.fixture(scope="module")
def data(snapshot: Snapshot) -> dict[str, Any]:
    return page.page_data(snapshot)


class Parts(HTMLParser):
    """The elements of a page, and the texts of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input"):
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts[-1] += data


# -- circles


def smallest_gap(circles: list[Circle]) -> float:
    """Return the smallest gap between two circles."""
    return min((abs(a.centre - b.centre) - a.radius - b.radius for a, b in combinations(circles, 2)), default=0.0)


def is_inside(inner: Circle, outer: Circle) -> bool:
    return abs(inner.centre - outer.centre) + inner.radius <= outer.radius + 1e-6


@given(RADII)
def test_circles_touch_and_do_not_overlap(radii: list[float]) -> None:
    radii = sorted(radii, reverse=True)
    circles = [Circle(centre, radius) for centre, radius in zip(pack_circles(radii), radii, strict=True)]
    assert smallest_gap(circles) > -1e-5
    middle, radius = enclosing_circle([c.centre for c in circles], radii)
    assert all(is_inside(circle, Circle(middle, radius)) for circle in circles)
    if len(circles) > 1:
        assert all(
            min(abs(a.centre - b.centre) - a.radius - b.radius for b in circles if b is not a) < 1e-5 for a in circles
        )


@pytest.mark.parametrize("count", [3, 10, 100, 1000])
def test_equal_circles_are_packed_closely(count: int) -> None:
    radii = [1.0] * count
    _, radius = enclosing_circle(pack_circles(radii), radii)
    assert count / radius**2 > 0.5, "of the circle around them"


def test_the_largest_is_in_the_middle() -> None:
    centres = pack_circles([9.0, *[2.0] * 30])
    assert abs(centres[0]) == min(map(abs, centres))


def trees(counts: list[list[int]]) -> tuple[CommunityTree, dict[str, int]]:
    """Generate communities with these member counts, in nested lists, and degrees."""
    members = {
        f"{a}-{b}": tuple(f"e{a}-{b}-{i}" for i in range(n)) for a, ns in enumerate(counts) for b, n in enumerate(ns)
    }
    tops = {str(a): tuple(f"{a}-{b}" for b in range(len(ns))) for a, ns in enumerate(counts)}
    level = {**dict.fromkeys(tops, 0), **dict.fromkeys(members, 1)}
    parent = {**dict.fromkeys(tops, ""), **{id: id.partition("-")[0] for id in members}}
    children = {**tops, **dict.fromkeys(members, ())}
    degree = {id: i * i % 37 for i, id in enumerate(id for ids in members.values() for id in ids)}
    return CommunityTree(level, parent, children, {**dict.fromkeys(tops, ()), **members}), degree


def check(layout: GraphLayout, communities: CommunityTree, degree: dict[str, int]) -> None:
    assert layout.entities.keys() == degree.keys()
    assert layout.communities.keys() == communities.level.keys()
    outer = Circle(0j, layout.radius)
    for id, circle in layout.communities.items():
        children = [layout.communities[child] for child in communities.children[id]]
        members = [layout.entities[member] for member in communities.members[id] if member in degree]
        assert all(is_inside(inner, circle) for inner in children + members)
        assert smallest_gap(children + members) > -1e-5
        assert is_inside(circle, outer)
    roots = [layout.communities[id] for id in communities.roots()]
    assert smallest_gap(roots + [layout.entities[id] for id in degree if id not in communities.leaf_by_entity]) > -1e-5


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=6), max_size=6))
def test_parts_are_inside_and_siblings_apart(counts: list[list[int]]) -> None:
    communities, degree = trees(counts)
    degree["of no community"] = 5
    drawing = layout_graph(communities, degree)
    check(drawing, communities, degree)
    assert layout_graph(communities, dict(reversed(degree.items()))) == drawing


def test_the_most_connected_of_a_leaf_is_its_middle() -> None:
    communities, _ = trees([[9]])
    degree = {id: 100 if id == "e0-0-4" else 1 for id in communities.leaf_by_entity}
    drawing = layout_graph(communities, degree)
    middle = drawing.communities["0-0"].centre
    assert min(degree, key=lambda id: abs(drawing.entities[id].centre - middle)) == "e0-0-4"


def tree_and_degrees(size: int) -> tuple[CommunityTree, dict[str, int]]:
    """Return the communities of a made-up graph, and the degrees of its entities."""
    tables = factories_graphs.made(size, size)
    by_id = {c.id: c for c in tables["communities"]}
    communities = CommunityTree(
        {id: c.level for id, c in by_id.items()},
        {id: c.parent for id, c in by_id.items()},
        {id: c.children for id, c in by_id.items()},
        {id: c.members for id, c in by_id.items()},
    )
    return communities, {entity.id: i % 40 for i, entity in enumerate(tables["entities"])}


def test_ten_thousand_are_placed() -> None:
    communities, degree = tree_and_degrees(10_000)
    check(layout_graph(communities, degree), communities, degree)


def test_the_work_of_a_layout_grows_with_the_graph() -> None:
    few, many = (count_lines(partial(layout_graph, *tree_and_degrees(size))) for size in (1000, 4000))
    assert many < 5 * few


# -- page contents


def test_what_is_embedded_comes_back(data: dict[str, Any]) -> None:
    parts = Parts("".join(page.render_page(data)))
    assert parts.open == [], "each element is closed"
    script = parts.scripts[0]
    assert json.loads(script) == json.loads(json.dumps(data))
    assert "<" not in script
    assert any(row[0] == "</script>" for row in data["nodes"])


def test_the_title_is_escaped(data: dict[str, Any]) -> None:
    text = "".join(page.render_page({**data, "title": "<script>alert('x')</script>"}))
    assert "<title>&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;: graph and reports</title>" in text


def test_the_page_asks_for_nothing_elsewhere(data: dict[str, Any]) -> None:
    text = "".join(page.render_page(data))
    parts = Parts(text)
    for tag, attributes in parts.found:
        assert tag not in ("iframe", "img", "object", "embed", "form")
        assert not {"src", "action"} & attributes.keys()
        assert (attributes.get("href") or "data:,") == "data:,"
        assert not any(name.startswith("on") for name in attributes)
    code = text.replace(parts.scripts[0], "")
    assert set(re.findall(r"https?://[^\s\"'<)]+", code)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|import|innerHTML|outerHTML|eval|document\.write)\b", code)
    policy = next(a["content"] or "" for tag, a in parts.found if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    hashes = [f"'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'" for code in parts.scripts[2:]]
    assert len(hashes) == 3
    assert f"; script-src {' '.join(hashes)}; " in policy, "no other script may run"


def test_what_can_be_used_has_a_name(data: dict[str, Any]) -> None:
    parts = Parts("".join(page.render_page(data)))
    labelled = {attributes.get("for") for tag, attributes in parts.found if tag == "label"}
    ids = [attributes["id"] for _, attributes in parts.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in parts.found:
        if tag in ("button", "section"):
            assert attributes.get("aria-label")
        if tag == "input":
            assert attributes["id"] in labelled
        if tag == "canvas":
            assert attributes["tabindex"] == "0"
            assert attributes["aria-describedby"] in ids
    assert dict(parts.found)["html"]["lang"] == "en"


def test_numbers_point_to_what_they_mean(snapshot: Snapshot, data: dict[str, Any]) -> None:
    nodes, edges, communities = data["nodes"], data["edges"], data["communities"]
    ids = [row[-1] for row in nodes]
    assert sorted(ids) == [entity.id for entity in snapshot.table("entities")]
    degree = [sum(n in edge[:2] for edge in edges) for n in range(len(nodes))]
    assert degree == sorted(degree, reverse=True), "the most connected come first"
    names = {(relation.names, relation.text) for relation in snapshot.table("relations")}
    assert {(tuple(n[0] for n in (nodes[a], nodes[b])), text) for a, b, _, text, _ in edges} == names
    hierarchy = load_tree(snapshot)
    for level, parent, *_, size, members, id in communities:
        assert (level, size) == (hierarchy.level[id], hierarchy.size[id])
        assert (communities[parent][-1] if parent >= 0 else "") == hierarchy.parent[id]
        assert [ids[n] for n in members] == sorted(hierarchy.members[id], key=ids.index)


def test_places_are_quoted(snapshot: Snapshot, data: dict[str, Any]) -> None:
    documents = {document.uri: document.text for document in snapshot.table("documents")}
    for row in data["nodes"]:
        assert 1 <= len(row[8]) <= page.EXCERPTS_PER_ENTITY
        for uri, place, text in row[8]:
            assert text in " ".join(documents[data["uris"][uri]].split())
            assert place.startswith("line ")
        assert any(row[0] in text for _, _, text in row[8])


def test_reports_link_to_what_they_refer_to(snapshot: Snapshot, data: dict[str, Any]) -> None:
    rows = {"e": data["nodes"], "r": data["edges"], "c": data["communities"], "k": data["claims"]}
    linked = ""
    for community, row in zip(data["communities"], data["reports"], strict=True):
        report = snapshot.table("reports")[community[-1]]
        title, rating, _, summary, findings, maker, left_out, changes = row
        assert (title, rating, left_out, changes) == (report.title, report.rating, 0, 0)
        assert maker == maker_of(report)
        assert len(findings) == len(report.findings)
        parts = [part for prose in [summary, *(prose for finding in findings for prose in finding)] for part in prose]
        targets = [target for part in parts if isinstance(part, list) for target in part]
        assert all(int(target[1:]) < len(rows[target[0]]) for target in targets)
        for n, (_, explanation) in enumerate(findings, 1):
            assert len(explanation[1]) == len(report.sources[n])
        linked += "".join(target[0] for target in targets)
    assert set(linked) == set("erck")


def test_a_page_of_many_is_not_large(tmp_path: Path) -> None:
    tables = factories_graphs.made(2000, 8000)
    long = "The harbour office wrote that the net was mended again. " * 100
    longer = {
        "entities": [replace(entity, text=long) for entity in tables["entities"]],
        "relations": [replace(relation, text=long) for relation in tables["relations"]],
        "reports": [replace(report, findings=((long, long),) * 10) for report in tables["reports"]],
    }
    with (
        Kumihimo.open(factories_graphs.write(tmp_path / ".kumi", {**tables, **longer})) as kumi,
        kumi.snapshot() as snapshot,
    ):
        written = page.write_graph_page(snapshot, tmp_path / "page.html")
    assert written == {"entities": 2000, "relations": 8000, "reports": len(tables["reports"])}
    assert 1e6 < (tmp_path / "page.html").stat().st_size < sum(page.CHAR_BUDGET.values()) + 2e6


def test_each_share_gets_smaller_as_there_is_more() -> None:
    assert page._chars_per_text("entities", 100) == page.MAX_CHARS_BY_TABLE["entities"]
    assert page._chars_per_text("entities", 10_000) == 250
    assert page._chars_per_text("entities", 10**9) == 60


@given(st.text(max_size=60), st.integers(5, 30))
def test_a_text_is_cut_to_its_share(text: str, longest: int) -> None:
    assert len(page.shorten(text, longest)) <= longest + 1


@pytest.mark.skipif(not BROWSER, reason="no browser is installed")
def test_a_browser_shows_it(snapshot: Snapshot, tmp_path: Path) -> None:
    page.write_graph_page(snapshot, tmp_path / "page.html")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    node = next(n for n, row in enumerate(page.page_data(snapshot)["nodes"]) if row[0] == "</script>")
    command = [str(BROWSER), *options, "--dump-dom", f"{(tmp_path / 'page.html').as_uri()}#e{node}"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    main_html = process.stdout.partition('id="main"')[2].partition("</main>")[0]
    assert "<h2>&lt;/script&gt;</h2>" in main_html
    assert "In the documents" in main_html
    assert "Related to" in main_html


# -- writing


def test_the_page_is_the_same_each_time(snapshot: Snapshot, tmp_path: Path) -> None:
    page.write_graph_page(snapshot, tmp_path / "a.html")
    page.write_graph_page(snapshot, tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    page.write_graph_page(snapshot, tmp_path / "a.html")
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(SettingsError, match=r"mine\.html already exists"):
        page.write_graph_page(snapshot, tmp_path / "mine.html")


def test_a_graph_without_the_rest_is_shown(tmp_path: Path) -> None:
    tables = {"entities": factories_graphs.made(20, 20)["entities"]}
    with Kumihimo.open(factories_graphs.write(tmp_path / ".kumi", tables)) as kumi, kumi.snapshot() as snapshot:
        data = page.page_data(snapshot)
    assert (len(data["nodes"]), data["edges"], data["communities"], data["reports"]) == (20, [], [], [])


def test_without_a_graph_there_is_no_page(tmp_path: Path) -> None:
    none = pytest.raises(IndexUnavailable, match="no table entities yet")
    with (
        Kumihimo.open(factories_graphs.write(tmp_path / ".kumi", {"documents": []})) as kumi,
        kumi.snapshot() as snapshot,
        none,
    ):
        page.write_graph_page(snapshot, tmp_path / "page.html")


def test_a_member_that_is_no_entity_is_left_out(tmp_path: Path) -> None:
    tables = factories_graphs.made(40, 80)
    gone = {hash_parts("nobody"), *(entity.id for entity in tables["entities"][:3])}
    remaining = [entity for entity in tables["entities"] if entity.id not in gone]
    folder = factories_graphs.write(tmp_path / ".kumi", {**tables, "entities": remaining})
    with Kumihimo.open(folder) as kumi, kumi.snapshot() as snapshot:
        data = page.page_data(snapshot)
    assert len(data["nodes"]) == 37
    assert all(n < 37 for row in data["communities"] for n in row[6])
