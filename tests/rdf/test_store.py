"""store of a build -> built once and complete; queries -> stopped, limited and kept local."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

from kumihimo.core.errors import SettingsError
from kumihimo.rdf import store
from kumihimo.rdf.sparql_worker import _InvalidQuery, check_query
from kumihimo.rdf.triples import prefix_map
from kumihimo.storage.sqlite.connection import exclusive_lock
from tests.counters import wait_until
from tests.rdf.fake_timer import stop_after_lines

BASE = "http://example.org/"
NAMESPACES: dict[str, Any] = {"prefixes": prefix_map(BASE), "base_iri": BASE}


def sample_quads(count: int = 10) -> Iterator[Quad]:
    name = NamedNode(f"{BASE}p")
    for i in range(count):
        yield Quad(NamedNode(f"{BASE}s{i}"), name, Literal(i))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store.ensure_store(tmp_path_factory.mktemp("index"), "1-a", lambda: sample_quads(300))


def run_query(path: Path, query: str, limit: int | None = None, timeout: float = 60) -> tuple[Any, list[Any], str]:
    return store.run_query(path, query, prefix_map(BASE), BASE, limit=limit, timeout=timeout)


# -- the store


def test_store_is_built_once_and_old_ones_are_removed(tmp_path: Path) -> None:
    first = store.ensure_store(tmp_path, "1-a", sample_quads)
    assert store.ensure_store(tmp_path, "1-a", lambda: pytest.fail("made again")) == first
    store.ensure_store(tmp_path, "2-a", sample_quads)
    assert sorted(p.name for p in store.stores_folder(tmp_path).iterdir()) == ["2-a", "lock.db"]
    store.remove_old_stores(tmp_path, 2)
    assert store.ensure_store(tmp_path, "2-a", lambda: pytest.fail("made again")).exists()
    store.remove_old_stores(tmp_path, 3)
    assert [p.name for p in store.stores_folder(tmp_path).iterdir()] == ["lock.db"]
    store.remove_old_stores(tmp_path / "not there", 3)


def test_failed_build_leaves_no_store(tmp_path: Path) -> None:
    def broken() -> Iterator[Quad]:
        yield from sample_quads()
        raise KeyError("row")

    with pytest.raises(KeyError):
        store.ensure_store(tmp_path, "1-a", broken)
    assert not (store.stores_folder(tmp_path) / "1-a").exists()
    assert run_query(store.ensure_store(tmp_path, "1-a", sample_quads), "SELECT * { ?s ?p ?o }")[1]


SLOW_PROGRAM = """
import sys
from pathlib import Path
from kumihimo.rdf import store
from tests.rdf.test_store import sample_quads
def slow():
    for i, triple in enumerate(sample_quads(2000)):
        if i == 1000:
            print("half", flush=True)
            input()
        yield triple
print(store.ensure_store(Path(sys.argv[1]), "1-a", slow).name, flush=True)
"""


def start_half(folder: Path) -> subprocess.Popen[str]:
    """Start to build a store; the process stops half-way until it is given a line."""
    command = [sys.executable, "-c", SLOW_PROGRAM, str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def test_two_processes_build_one_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Event()

    def lock(path: Path, *, timeout: float) -> AbstractContextManager[None]:
        waiting.set()
        return exclusive_lock(path, timeout=timeout)

    monkeypatch.setattr(store, "exclusive_lock", lock)
    with start_half(tmp_path) as first, ThreadPoolExecutor(1) as pool:
        assert first.stdin
        assert first.stdout
        assert first.stdout.readline() == "half\n"
        second = pool.submit(store.ensure_store, tmp_path, "1-a", lambda: pytest.fail("made twice"))
        wait_until(lambda: waiting.is_set() or second.done())
        assert not second.done()
        first.stdin.write("\n")
        first.stdin.flush()
        assert second.result(60).name == "1-a"
    assert len(run_query(store.stores_folder(tmp_path) / "1-a", "SELECT * { ?s ?p ?o }")[1]) == 2000


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    with start_half(tmp_path) as process:
        assert process.stdout
        assert process.stdout.readline() == "half\n"
        process.send_signal(signal.SIGKILL)
    assert not (store.stores_folder(tmp_path) / "1-a").exists()
    assert len(run_query(store.ensure_store(tmp_path, "1-a", sample_quads), "SELECT * { ?s ?p ?o }")[1]) == 10
    assert sorted(p.name for p in store.stores_folder(tmp_path).iterdir()) == ["1-a", "lock.db"]


def test_readers_do_not_disturb_each_other(path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda _: len(run_query(path, "SELECT * { ?s ?p ?o }")[1]), range(8)))
    assert counts == [300] * 8


def test_removed_or_broken_store_is_reported(tmp_path: Path) -> None:
    with pytest.raises(store.StoreRemoved):
        run_query(tmp_path / "none", "SELECT * { ?s ?p ?o }")
    path = store.ensure_store(tmp_path, "1-a", sample_quads)
    for file in path.glob("MANIFEST*"):
        file.write_bytes(b"")
    with pytest.raises(store.StoreRemoved, match="cannot be read"):
        run_query(path, "SELECT * { ?s ?p ?o }")


# -- limits


def test_limit_cuts_the_rows(path: Path) -> None:
    head, rows, cut = run_query(path, "SELECT ?s ?x { ?s ex:p ?o } ORDER BY ?o", limit=2)
    assert head["columns"] == ["s", "x"]
    assert rows == [[{"type": "uri", "value": f"{BASE}s{n}"}, None] for n in (0, 1)]
    assert cut == "rows"
    for limit in (300, None):
        _, rows, cut = run_query(path, "SELECT ?s { ?s ?p ?o }", limit=limit)
        assert (len(rows), cut) == (300, "")
    assert run_query(path, "SELECT ?s { ?s ?p ?o }", limit=299)[2] == "rows"


def test_timeout_keeps_the_rows_found_so_far(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = "{ ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . FILTER(?c + ?f + ?i + ?l > 1195) }"
    first = "{ ?s ex:p 7 } UNION"
    timeouts = stop_after_lines(monkeypatch, 2)  # the head and a row
    _, rows, cut = run_query(path, f"SELECT * {{ {first} {everything} }}", timeout=1)
    assert len(rows) >= 1
    assert (cut, timeouts) == ("time", [1])


def test_a_query_without_end_is_stopped(path: Path) -> None:
    everything = "{ ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . FILTER(?c + ?f + ?i + ?l > 1195) }"
    with pytest.raises(SettingsError, match=r"nothing was found within 0\.01 s"):
        run_query(path, f"ASK {{ {{ SELECT (COUNT(*) AS ?n) {everything} }} FILTER(?n = 1) }}", timeout=0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold it to that")
def test_memory_is_limited(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_QUERY_MEMORY", 300 << 20)
    with pytest.raises(SettingsError, match="more memory than it may have"):
        run_query(path, "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } ORDER BY ?i ?f ?c", timeout=60)


def test_an_error_of_the_worker_is_not_said_to_be_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_HANDLER", "tests.workers.handlers:misbehave")
    with pytest.raises(SettingsError, match=r"the query cannot be answered \(AttributeError: "):
        run_query(path, "ASK {}")


def test_construct_ask_and_terms(path: Path) -> None:
    head, rows, _ = run_query(path, "CONSTRUCT { ?s a [] } { ?s ex:p 3 }")
    assert head["kind"] == "graph"
    assert [[term["type"] for term in row] for row in rows] == [["uri", "uri", "bnode"]]
    assert [run_query(path, f"ASK {{ ?s ex:p {n} }}")[0]["yes"] for n in (3, 999)] == [True, False]
    number = {"type": "literal", "value": "3", "datatype": "http://www.w3.org/2001/XMLSchema#integer"}
    query_text = "SELECT (3 AS ?n) ('a'@en AS ?t) ('b' AS ?u) (BNODE() AS ?b) {}"
    row = run_query(path, query_text)[1][0]
    assert row[:3] == [
        number,
        {"type": "literal", "value": "a", "xml:lang": "en"},
        {"type": "literal", "value": "b"},
    ]
    assert row[3]["type"] == "bnode"


# -- rejected queries


@pytest.mark.parametrize(
    ("query", "message"),
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
def test_errors_are_one_line(query: str, message: str, path: Path) -> None:
    with pytest.raises(SettingsError) as error:
        run_query(path, query)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


class _RecordingServer(BaseHTTPRequestHandler):
    requests = 0

    def do_GET(self) -> None:
        type(self).requests += 1
        self.send_error(404)

    def do_POST(self) -> None:
        self.do_GET()


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _RecordingServer)
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
def test_no_other_server_is_called(query: str, server_url: str, path: Path) -> None:
    with pytest.raises(SettingsError, match=r"SERVICE would ask another server|cannot be read"):
        run_query(path, query % server_url)
    assert _RecordingServer.requests == 0


def test_word_service_is_allowed_in_names_and_texts(path: Path) -> None:
    query_text = """PREFIX service: <http://a/service#>  # service
    SELECT ?service ("SERVICE <x>" AS ?text) (service:SERVICE AS ?iri) { BIND(<http://a/service> AS ?service) }"""
    row = run_query(path, query_text)[1][0]
    assert [term["value"] for term in row] == ["http://a/service", "SERVICE <x>", "http://a/service#SERVICE"]


def test_remote_graphs_are_not_fetched(path: Path, server_url: str) -> None:
    assert run_query(path, f"SELECT * FROM <{server_url}> {{ ?s ?p ?o }}")[1] == []
    assert run_query(path, f"SELECT * {{ GRAPH <{server_url}> {{ ?s ?p ?o }} }}")[1] == []
    assert _RecordingServer.requests == 0


@pytest.mark.parametrize("query", ["SELECT * { ?s ?p ?o }", "ASK { }", "DESCRIBE <a>", "CONSTRUCT WHERE { ?s ?p ?o }"])
def test_valid_queries_pass(query: str) -> None:
    check_query(query, **NAMESPACES)
    with pytest.raises(_InvalidQuery):
        check_query(f"{query} }}", **NAMESPACES)
