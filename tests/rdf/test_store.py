"""The store of a build -> made once, whole, by whoever comes first; queries -> stopped, bounded, and never let out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from kumihimo.core.errors import SettingsError
from kumihimo.rdf import store
from kumihimo.rdf.sparql_worker import _InvalidQuery, check_query
from kumihimo.rdf.terms import prefix_map

BASE = "http://example.org/"
KNOWN: dict[str, Any] = {"prefixes": prefix_map(BASE), "base_iri": BASE}


def made(count: int = 10) -> Iterator[Quad]:
    name = NamedNode(f"{BASE}p")
    for i in range(count):
        yield Quad(NamedNode(f"{BASE}s{i}"), name, Literal(i))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store.ensure_store(tmp_path_factory.mktemp("index"), "1-a", lambda: made(300))


def solve(path: Path, query: str, most: int | None = None, seconds: float = 20) -> tuple[Any, list[Any], str]:
    return store.run_query(path, query, prefix_map(BASE), BASE, limit=most, timeout=seconds)


# -- the store


def test_a_store_is_made_once_and_the_older_goes(tmp_path: Path) -> None:
    first = store.ensure_store(tmp_path, "1-a", made)
    assert store.ensure_store(tmp_path, "1-a", lambda: pytest.fail("made again")) == first
    store.ensure_store(tmp_path, "2-a", made)
    assert sorted(p.name for p in store.stores_folder(tmp_path).iterdir()) == ["2-a", "lock.db"]
    store.remove_old_stores(tmp_path, 2)
    assert store.ensure_store(tmp_path, "2-a", lambda: pytest.fail("made again")).exists()
    store.remove_old_stores(tmp_path, 3)
    assert [p.name for p in store.stores_folder(tmp_path).iterdir()] == ["lock.db"]
    store.remove_old_stores(tmp_path / "not there", 3)


def test_what_fails_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    def broken() -> Iterator[Quad]:
        yield from made()
        raise KeyError("row")

    with pytest.raises(KeyError):
        store.ensure_store(tmp_path, "1-a", broken)
    assert not (store.stores_folder(tmp_path) / "1-a").exists()
    assert solve(store.ensure_store(tmp_path, "1-a", made), "SELECT * { ?s ?p ?o }")[1]


SLOWLY = """
import sys, time
from pathlib import Path
from kumihimo.rdf import store as rdf
from tests.rdf.test_store import made
def slow():
    for i, triple in enumerate(made(2000)):
        if i == 1000:
            print("half", flush=True)
            time.sleep(float(sys.argv[2]))
        yield triple
print(rdf.ensure_store(Path(sys.argv[1]), "1-a", slow).name, flush=True)
"""


def slowly(folder: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SLOWLY, str(folder), str(seconds)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def test_two_processes_make_one_store(tmp_path: Path) -> None:
    with slowly(tmp_path, 0.5) as first:
        assert first.stdout
        assert first.stdout.readline() == "half\n"
        assert store.ensure_store(tmp_path, "1-a", lambda: pytest.fail("made twice")).name == "1-a"
    assert len(solve(store.stores_folder(tmp_path) / "1-a", "SELECT * { ?s ?p ?o }")[1]) == 2000


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
def test_what_a_killed_process_leaves_is_taken_away(tmp_path: Path) -> None:
    with slowly(tmp_path, 60) as killed:
        assert killed.stdout
        assert killed.stdout.readline() == "half\n"
        killed.send_signal(signal.SIGKILL)
    assert not (store.stores_folder(tmp_path) / "1-a").exists()
    assert len(solve(store.ensure_store(tmp_path, "1-a", made), "SELECT * { ?s ?p ?o }")[1]) == 10
    assert sorted(p.name for p in store.stores_folder(tmp_path).iterdir()) == ["1-a", "lock.db"]


def test_readers_do_not_disturb_each_other(path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: len(solve(path, "SELECT * { ?s ?p ?o }")[1]), range(8)))
    assert found == [300] * 8


def test_a_store_that_is_gone_or_broken_is_told(tmp_path: Path) -> None:
    with pytest.raises(store.StoreRemoved):
        solve(tmp_path / "none", "SELECT * { ?s ?p ?o }")
    path = store.ensure_store(tmp_path, "1-a", made)
    for file in path.glob("MANIFEST*"):
        file.write_bytes(b"")
    with pytest.raises(store.StoreRemoved, match="cannot be read"):
        solve(path, "SELECT * { ?s ?p ?o }")


# -- limits


def test_rows_come_until_the_limit(path: Path) -> None:
    head, rows, cut = solve(path, "SELECT ?s ?x { ?s ex:p ?o } ORDER BY ?o", most=2)
    assert head["columns"] == ["s", "x"]
    assert rows == [[{"type": "uri", "value": f"{BASE}s{n}"}, None] for n in (0, 1)]
    assert cut == "rows"
    for most in (300, None):
        _, rows, cut = solve(path, "SELECT ?s { ?s ?p ?o }", most=most)
        assert (len(rows), cut) == (300, "")
    assert solve(path, "SELECT ?s { ?s ?p ?o }", most=299)[2] == "rows"


def test_a_query_is_stopped_in_time_and_keeps_what_it_has(path: Path) -> None:
    everything = "{ ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . FILTER(?c + ?f + ?i + ?l > 1195) }"
    began = time.perf_counter()
    with pytest.raises(SettingsError, match="nothing was found within 1 s"):
        solve(path, f"ASK {{ {{ SELECT (COUNT(*) AS ?n) {everything} }} FILTER(?n = 1) }}", seconds=1)
    first = "{ ?s ex:p 7 } UNION"
    _, rows, cut = solve(path, f"SELECT * {{ {first} {everything} }}", seconds=1)
    assert len(rows) >= 1
    assert cut == "time"
    assert time.perf_counter() - began < 10


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold it to that")
def test_a_query_that_wants_all_memory_gets_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Path(store.__file__).with_name("sparql_worker.py").read_text(encoding="utf-8")
    small = path.parent / "sparql_worker.py"
    small.write_text(text.replace("MEMORY = 4 << 30", "MEMORY = 300 << 20"), encoding="utf-8")
    monkeypatch.setattr(store, "__file__", str(path.parent / "store.py"))
    with pytest.raises(SettingsError, match="more memory than it may have"):
        solve(path, "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } ORDER BY ?i ?f ?c", seconds=60)


def test_triples_and_answers_are_told(path: Path) -> None:
    head, rows, _ = solve(path, "CONSTRUCT { ?s a [] } { ?s ex:p 3 }")
    assert head["kind"] == "graph"
    assert [[term["type"] for term in row] for row in rows] == [["uri", "uri", "bnode"]]
    assert [solve(path, f"ASK {{ ?s ex:p {n} }}")[0]["yes"] for n in (3, 999)] == [True, False]
    number = {"type": "literal", "value": "3", "datatype": "http://www.w3.org/2001/XMLSchema#integer"}
    asked = "SELECT (3 AS ?n) ('a'@en AS ?t) ('b' AS ?u) (BNODE() AS ?b) {}"
    row = solve(path, asked)[1][0]
    assert row[:3] == [
        number,
        {"type": "literal", "value": "a", "xml:lang": "en"},
        {"type": "literal", "value": "b"},
    ]
    assert row[3]["type"] == "bnode"


# -- what is not answered


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELEC * {}", "line 1, column 1, at 'SELEC * {}': expected SELECT, CONSTRUCT, DESCRIBE or ASK"),
        ("", "line 1, column 1, where it ends: expected SELECT, CONSTRUCT, DESCRIBE or ASK"),
        ("SELECT *\n{ ?s ?p ?o .\n  FILTRE(?o > 3) }", "line 3, column 3, at 'FILTRE(?o > 3) }'"),
        ("SELECT * { ?s ?p", 'line 1, column 17, where it ends: expected "'),
        ("SELECT * { ?s foo:bar ?o }", "this prefix is not declared"),
        ("INSERT DATA { <a> <b> <c> }", "only queries are answered"),
        ("# a remark\nPREFIX a: <http://a/> delete where { ?s ?p ?o }", "only queries are answered"),
        ("LOAD <http://a/>", "only queries are answered"),
        ("SELECT (?x AS ?y) (1 AS ?y) {}", "cannot be read"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(query: str, said: str, path: Path) -> None:
    with pytest.raises(SettingsError) as told:
        solve(path, query)
    assert said in str(told.value)
    assert "\n" not in str(told.value)


class _Heard(BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        self.send_error(404)

    def do_POST(self) -> None:
        self.do_GET()


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Heard)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


SERVICES = [
    "SELECT * { SERVICE <%s> { ?s ?p ?o } }",
    "SELECT * { service silent <%s> { ?s ?p ?o } }",
    "ASK { ?a ?b ?c . SERVICE <%s> { ?s ?p ?o } }",
    "PREFIX : <%s> ASK { ?a ?b ?c SERVICE:x { ?s ?p ?o } }",
    "PREFIX service: <%s> ASK { ?a ?b ?c SERVICE service:x { ?s ?p ?o } }",
    "PREFIX x000000: <%s> ASK { ?a ?b ?c . SERVICE x000000:x { ?s ?p ?o } }",
    "SELECT * { BIND(<%s> AS ?u) FILTER(1<2)SERVICE#>\n?u{ ?s ?p ?o } }",
    "SELECT * { { SELECT * { SERVICE\n\n# service\n<%s> { ?s ?p ?o } } } }",
    "CONSTRUCT { ?s ?p ?o } { OPTIONAL { SERVICE<%s>{ ?s ?p ?o } } }",
    "SELECT * { ?s ?p 'service' FILTER EXISTS { SERVICE <%s> { ?s ?p ?o } } }",
    "DESCRIBE ?s { MINUS { SerVice <%s> { ?s ?p ?o } } }",
    "SELECT * { \\u0053ERVICE <%s> { ?s ?p ?o } }",
]


@pytest.mark.parametrize("query", SERVICES)
def test_no_other_server_is_asked(query: str, other: str, path: Path) -> None:
    with pytest.raises(SettingsError, match=r"SERVICE would ask another server|cannot be read"):
        solve(path, query % other)
    assert _Heard.asked == 0


def test_the_word_service_may_stand_wherever_it_asks_nobody(path: Path) -> None:
    asked = """PREFIX service: <http://a/service#>  # service
    SELECT ?service ("SERVICE <x>" AS ?text) (service:SERVICE AS ?iri) { BIND(<http://a/service> AS ?service) }"""
    row = solve(path, asked)[1][0]
    assert [term["value"] for term in row] == ["http://a/service", "SERVICE <x>", "http://a/service#SERVICE"]


def test_graphs_of_other_places_are_not_fetched(path: Path, other: str) -> None:
    assert solve(path, f"SELECT * FROM <{other}> {{ ?s ?p ?o }}")[1] == []
    assert solve(path, f"SELECT * {{ GRAPH <{other}> {{ ?s ?p ?o }} }}")[1] == []
    assert _Heard.asked == 0


@pytest.mark.parametrize("query", ["SELECT * { ?s ?p ?o }", "ASK { }", "DESCRIBE <a>", "CONSTRUCT WHERE { ?s ?p ?o }"])
def test_queries_pass(query: str) -> None:
    check_query(query, **KNOWN)
    with pytest.raises(_InvalidQuery):
        check_query(f"{query} }}", **KNOWN)
