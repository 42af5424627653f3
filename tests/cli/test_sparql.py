"""`kumi sparql` -> tables, JSON, CSV, Turtle; limits and errors on standard error."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path

import pytest
from pyoxigraph import RdfFormat, parse

from tests import cli_runner, factories_graphs
from tests.cli.test_cli import Run, error_of, json_of, kumi
from tests.rdf.fake_timer import stop_after_lines

__all__ = ["kumi"]  # a fixture
LEVELS = "SELECT ?level (COUNT(?r) AS ?n) { ?r a kumi:Report ; kumi:level ?level } GROUP BY ?level ORDER BY ?level"
SUM = 'SELECT ?e ?n { ?e a kumi:Entity ; rdfs:label ?n . FILTER(STRSTARTS(?n, "=SUM")) }'


@pytest.fixture
def graph(kumi: Run) -> Run:
    factories_graphs.index(Path(".kumi"), 60)
    return kumi


def test_rows_are_a_table(graph: Run) -> None:
    code, out, err = graph("sparql", LEVELS)
    assert (code, err) == (0, "")
    head, *rows = [line.split() for line in out.splitlines()]
    assert head == ["?level", "?n"]
    assert [level for level, _ in rows] == ["0", "1", "2"]
    out = graph("sparql", "SELECT ?e ?k ?x { ?e a ?k ; rdfs:label 'Orrell' FILTER(?k = kumi:Entity) }")[1]
    assert out.splitlines()[1].split()[0].startswith("entities:")
    assert out.splitlines()[1].split()[1:] == ["kumi:Entity"]
    assert graph("sparql", "SELECT * { ?s ex:nothing ?o }")[1] == "No results.\n"


def test_a_query_is_read_from_a_file_or_standard_input(graph: Run) -> None:
    Path("levels.rq").write_text(f"\ufeff{LEVELS}", encoding="utf-8")
    result = graph("sparql", LEVELS)
    assert graph("sparql", "@levels.rq") == result
    assert cli_runner.kumi(Path(), "sparql", "-", typed=LEVELS).stdout == result[1]
    assert "none.rq cannot be read" in error_of(graph("sparql", "@none.rq"))


def test_json_is_that_of_sparql(graph: Run) -> None:
    for form in (("--json",), ("--format", "json")):
        result = json_of(graph("sparql", SUM, *form))
        assert result["head"] == {"vars": ["e", "n"]}
        (row,) = result["results"]["bindings"]
        assert row["e"]["type"] == "uri"
        assert row["n"] == {"type": "literal", "value": '=SUM(A1:A9) "x"'}
    assert json_of(graph("sparql", "ASK {}", "--json")) == {"head": {}, "boolean": True}


def test_csv_is_safe_in_a_spreadsheet(graph: Run) -> None:
    code, out, _ = graph("sparql", SUM, "--format", "csv")
    head, row = csv.reader(StringIO(out))
    assert (code, head, row[1]) == (0, ["e", "n"], '\'=SUM(A1:A9) "x"')
    assert graph("sparql", "SELECT (-1 AS ?n) ?none {}", "--format", "csv")[1] == "n,none\n-1,\n"
    assert graph("sparql", "ASK { ?s a ex:Chunk }", "--format", "csv")[1] == "answer\nno\n"


def test_triples_are_turtle(graph: Run) -> None:
    code, out, _ = graph("sparql", "CONSTRUCT { ?e rdfs:label ?n ; a [] ; ex:n 1.5, 'a'@en } { ?e rdfs:label ?n }")
    assert code == 0
    assert out.startswith("@prefix chunks: <http://example.org/chunks/> .\n")
    assert "entities:" in out
    assert len(list(parse(out, RdfFormat.TURTLE))) > 60
    head = graph("sparql", "DESCRIBE ?e { ?e a kumi:Entity }", "--format", "csv", "--limit", "1")[1].splitlines()[0]
    assert head == "subject,predicate,object"
    assert "--format table, json or csv" in error_of(graph("sparql", LEVELS, "--format", "turtle"))


def test_questions_are_answered_by_yes_or_no(graph: Run) -> None:
    assert [graph("sparql", f"ASK {{ ?s a kumi:{kind} }}")[1] for kind in ("Report", "Boat")] == ["yes\n", "no\n"]


def test_what_is_cut_is_told(graph: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = "SELECT ?s { ?s ?p ?o }"
    code, out, err = graph("sparql", everything, "--limit", "3")
    assert (code, len(out.splitlines())) == (0, 4)
    assert "there are more than 3 rows: `--limit` shows more" in err
    code, out, err = graph("sparql", everything)
    assert (code, len(out.splitlines())) == (0, 1001)
    assert "more than 1,000 rows" in err
    code, out, err = graph("sparql", everything, "--limit", "0")
    assert len(out.splitlines()) > 1001
    assert err == ""
    endless = "SELECT ?s { { ?s a kumi:Report } UNION { ?s ?p ?o . ?a ?b ?c . ?d ?e ?f FILTER(?o + ?c + ?f = 7.5) } }"
    timeouts = stop_after_lines(monkeypatch, 2)  # the head and a row
    code, out, err = graph("sparql", endless, "--timeout", "1", "--format", "csv")
    assert (code, timeouts) == (1, [1])
    assert len(out.splitlines()) > 1
    assert "stopped after 1 s with partial results" in err


def test_what_is_wrong_is_told(graph: Run) -> None:
    assert "line 1, column 1" in error_of(graph("sparql", "SELEC * {}"))
    assert "nothing is changed" in error_of(graph("sparql", "DELETE WHERE { ?s ?p ?o }"))
    assert "no format 'xml'" in error_of(graph("sparql", LEVELS, "--format", "xml"))
    assert "rdf.base has to be the start of IRIs" in error_of(graph("sparql", LEVELS, "--set", "rdf.base=kb"))


def test_a_terminal_is_not_steered(graph: Run) -> None:
    out = graph("sparql", "SELECT ('a\\u001B[31mb\\u009Bc' AS ?t) {}")[1]
    assert "\x1b" not in out
    assert "\x9b" not in out
