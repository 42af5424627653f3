"""filter -> every method finds the best visible rows, with unchanged scores."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.ask.visible_tables import VisibleTables
from kumihimo.core.context import Context
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SettingsError
from kumihimo.core.table import Table
from kumihimo.llm.budget import Budget
from kumihimo.llm.rerank import CandidateReranker
from kumihimo.methods import METHODS
from kumihimo.search.metadata_filter import parse_filter
from tests.docs_console import HERE
from tests.factories_paid_steps import notes, opened, paid as paid
from tests.fake_server import FakeServer
from tests.fixtures_index import BUILT, FREE, RANKING, connected, fill

WORDS = "ferry gate lamp oats harbour storm rope mason".split()  # noqa: SIM905
ROWS = [
    {
        "id": f"r{i:02d}",
        "title": f"Note {i}",
        "text": f"The {WORDS[i % 8]} and the {WORDS[i % 5]} and, {i % 3} times, the {WORDS[i % 3]}.",
        "author": ["Hild Garrow", "Bo Lind", "縒野すみ"][i % 3],
        "year": 2000 + i,
    }
    for i in range(40)
]
PAGE = "<html><head><title>Oats</title></head><body><p>Oats grow by the harbour.</p></body></html>"
FILTERS = {
    'author = "hild garrow"': {f"notes/rows.jsonl#r{i:02d}" for i in range(0, 40, 3)},
    "year >= 2030 and 著者 or author ＝ 「縒野すみ」 and year > 2020": {
        f"notes/rows.jsonl#r{i:02d}" for i in range(21, 40) if i % 3 == 2
    },
    "not author": {"notes/page.html", "notes/gate.md"},
    'media_type = "text/html" or file contains "gate"': {"notes/page.html", "notes/gate.md"},
    "title = 'Oats' or uri": {
        *(f"notes/rows.jsonl#r{i:02d}" for i in range(40)),
        "notes/page.html",
        "notes/gate.md",
        "notes/jp.jsonl#jp",
    },
    "year = 1999": set(),
}


@pytest.fixture(scope="module")
def kumi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kumihimo]:
    home = tmp_path_factory.mktemp("home")
    files = {
        "rows.jsonl": "\n".join(map(json.dumps, ROWS)),
        "page.html": PAGE,
        "gate.md": "# Gate\n\nThe gate leaks. Nobody mends the gate by the harbour.\n",
        "jp.jsonl": json.dumps({"id": "jp", "text": "組紐の工房は港にある。", "著者": "縒野すみ"}),
    }
    with Kumihimo.open(home / ".kumi") as kumi:
        connected(kumi).index(fill(home / "notes", files), methods=BUILT)
        yield kumi


@pytest.fixture
def reading(kumi: Kumihimo) -> Iterator[Snapshot]:
    with kumi.snapshot() as reading:
        yield reading


class FilterAfterSearch:
    """Search that ranks all rows and filters afterwards."""

    def __init__(self, search: Any, uris: set[str]) -> None:
        self.search, self.documents = search, {hash_parts(uri) for uri in uris}

    def __call__(self, table: Table[Any], text: str | Sequence[str], *, k: int) -> Context:
        ranked = self.search(table, text, k=10_000)
        return Context(tuple(e for e in ranked if e.record.id.partition(".")[0] in self.documents)).top(k)

    def search_many(self, table: Table[Any], texts: Sequence[str], *, k: int) -> list[Context]:
        return [self(table, text, k=k) for text in texts]


@pytest.mark.parametrize("where", FILTERS)
@pytest.mark.parametrize("name", sorted({*FREE} & {*RANKING}))
def test_every_method_finds_the_best_visible_rows(reading: Snapshot, name: str, where: str) -> None:
    method_signature, uris = METHODS[name], FILTERS[where]
    ports = {
        "keyword_search": FilterAfterSearch(reading.keyword_search(), uris),
        "vector_search": FilterAfterSearch(reading.vector_search(Budget()), uris),
        "tokenizer": reading.tokenizer,
        "rerank": CandidateReranker({}),
    }
    tables = {table: reading.table(table) for table in method_signature.tables}
    for question in ("When does the ferry leave the harbour?", "the mason's rope", "港の組紐"):
        for k in (1, 3, 50):
            context = reading.retrieve(question, name, filter=where, k=k)
            assert context == method_signature.function(
                question, **tables, **{p: ports[p] for p in method_signature.ports}, k=k
            )
            assert {span.uri for e in context for span in reading.trace(e.reference)} <= uris


@pytest.mark.parametrize("where", FILTERS)
def test_filtered_ranking_is_the_full_one_without_hidden_rows(reading: Snapshot, where: str) -> None:
    everything = reading.retrieve("the ferry and the harbour", "bm25", k=1000)
    expected = [e for e in everything if {span.uri for span in reading.trace(e.reference)} <= FILTERS[where]]
    assert list(reading.retrieve("the ferry and the harbour", "bm25", filter=where, k=5)) == expected[:5]


@pytest.mark.parametrize("name", BUILT)
def test_answer_quotes_visible_documents_only(kumi: Kumihimo, name: str) -> None:
    where = 'author = "Bo Lind" and year < 2020'
    answer = kumi.ask("What of the ferry and the gate?", name, filter=where)
    assert answer.citations or name == "global"  # no row names anybody, so there are no reports on them
    assert {int(c.span.uri[-2:]) % 3 for c in answer.citations} <= {1}
    assert all(int(c.span.uri[-2:]) < 20 for c in answer.citations)
    assert "".join(kumi.stream("What of the ferry and the gate?", name, filter=where)) == answer.text
    if name in RANKING:
        assert kumi.retrieve("ferry", name, filter=where, k=2) == kumi.retrieve("ferry", name, filter=where, k=5).top(2)
    assert len(kumi.retrieve("ferry", name, filter="year = 1999")) == 0


@pytest.mark.parametrize("where", ["", " ", "\n"])
def test_blank_filter_changes_nothing(reading: Snapshot, where: str) -> None:
    for name in BUILT:
        assert reading.retrieve("ferry", name, filter=where) == reading.retrieve("ferry", name)


def test_invalid_filter_is_rejected_before_any_call(reading: Snapshot) -> None:
    for name in BUILT:
        with pytest.raises(
            SettingsError, match=r"^the filter is not understood from 'Bo' \(character 10\) on: write it"
        ):
            reading.retrieve("ferry", name, filter="author = Bo")
        with pytest.raises(SettingsError, match=r"^a filter is a text, such as `year >= 2020`, not dict$"):
            reading.retrieve("ferry", name, filter={"author": "Bo"})
        with pytest.raises(SettingsError) as error:
            reading.ask("ferry", name, filter="auhtor = 'Bo'")
        fields = "author, date, date_source, file, kind, language, media_type, modified, title, uri, year, 著者"
        assert str(error.value) == f"the filter: no field 'auhtor'; did you mean 'author'? Known: {fields}"


def test_filters_in_the_documentation_are_valid() -> None:
    _, _, table = (HERE / "docs" / "filters.md").read_text(encoding="utf-8").partition("| expression |")
    expressions = re.findall(r"^\| (?:``` (.+?) ```|`(.+?)`) \|", table, re.M)
    assert len(expressions) > 5
    for expression in expressions:
        parse_filter("".join(expression))


def test_row_by_a_model_is_visible_if_all_its_documents_are(paid: None, tmp_path: Path, server: FakeServer) -> None:
    with opened(tmp_path, server) as kumi:
        kumi.index(notes(tmp_path / "notes", 14), methods=["told"])
        with kumi.snapshot() as reading:

            def source_numbers(table: str, where: str) -> list[list[str]]:
                """Return the numbers of the source notes of each hit."""
                texts = " ".join(row.text for name in ("themes", "gists") for row in reading.table(name))
                context = [e for e in reading.retrieve(texts, "told", filter=where, k=99) if e.table == table]
                return sorted(sorted(span.uri[6:9] for span in reading.trace(e.reference)) for e in context)

            pairs = [[f"{i:03d}", f"{i + 7:03d}"] for i in range(7)]
            assert source_numbers("themes", "uri") == pairs
            ten = 'uri contains "/00"'
            assert source_numbers("themes", ten) == pairs[:3]
            assert source_numbers("gists", ten) == [[f"{i:03d}"] for i in range(10)]
            assert source_numbers("themes", 'uri contains "/000" or uri contains "/008"') == []


def test_a_filter_is_compiled_once_per_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = fill(
        tmp_path / "notes", {"a.md": "---\nyear: 1999\n---\nOats here.", "b.md": "---\nyear: 2001\n---\nOats there."}
    )
    with Kumihimo(tmp_path / ".kumi") as kumi:
        kumi.index(source)
        compiled: list[str] = []
        compile_filter = VisibleTables.visible_documents

        def count(snapshot: VisibleTables) -> frozenset[str]:
            compiled.append(snapshot.filter)
            return compile_filter(snapshot)

        monkeypatch.setattr(VisibleTables, "visible_documents", count)

        def texts(filter: str) -> list[str]:
            return sorted(item.text for item in kumi.retrieve("oats", "naive", filter=filter))

        filters = ("year > 2000", "year > 2000", "year < 2000")
        assert [texts(filter) for filter in filters] == [["Oats there."], ["Oats there."], ["Oats here."]]
        assert compiled == ["year > 2000", "year < 2000"]
        fill(source, {"a.md": "---\nyear: 2002\n---\nOats here."})
        kumi.index()
        assert texts("year > 2000") == ["Oats here.", "Oats there."]
        assert len(compiled) == 3
