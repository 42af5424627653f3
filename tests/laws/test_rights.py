"""rights + questions -> nothing of a hidden document in any response, and the counts of the visible ones.

KUMI_LAW_SETS: the number of random sets of rights and questions, by default 200.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse import browse, community_tree
from kumihimo.app.browse.document_list import DocumentList
from kumihimo.app.evidence.explanations import explain_context
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import IndexUnavailable, KumiError, SettingsError
from kumihimo.core.records import Community, Entity, Report
from kumihimo.core.table import MADE_FROM
from kumihimo.methods import METHODS as ALL_METHODS
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from tests import fake_graph_reader
from tests.fake_graph_reader import Readers
from tests.laws.factories_rights import FILTERS, METHODS, RIGHTS, Archive, Page, ask_about, write_pages

SETS = int(os.environ.get("KUMI_LAW_SETS", "200"))
GROUPED = ("communities", "reports")  # the clusters are those of the whole index


@pytest.fixture(scope="module", params=["rules", "model"])
def archive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    by_model = request.param == "model"
    archive = Archive(tmp_path_factory.mktemp(request.param), write_pages(seed=1 + by_model), by_model)
    yield archive
    archive.close()


def split(archive: Archive, rights: str, filter: str = "") -> tuple[list[Page], list[Page]]:
    """Return the visible pages and the hidden ones."""
    shown = [RIGHTS[rights](page.fields) and FILTERS[filter](page.fields) for page in archive.pages]
    pairs = list(zip(archive.pages, shown, strict=True))
    return [page for page, visible in pairs if visible], [page for page, visible in pairs if not visible]


def check_secrets(response: object, hidden: list[Page], question: str = "") -> None:
    """Check that a response has no word of a hidden page that the question lacks."""
    text, asked = repr(response).casefold(), question.casefold()
    found = {secret for page in hidden for secret in page.secrets if secret in text and secret not in asked}
    assert not found, (question, found, [text[max(0, text.find(f) - 80) : text.find(f) + 40] for f in found])


def everything(snapshot: Snapshot) -> dict[str, list[Any]]:
    """Return all rows of all tables, by every way to read them."""
    rows: dict[str, list[Any]] = {}
    for name in snapshot.record_types:
        if snapshot.db.has(name):
            table = snapshot.table(name)
            rows[name] = list(table)
            ids = [row.id for row in rows[name]]
            assert len(table) == len(ids) == len(set(ids))
            assert [tuple(table.columns("id", "text"))] == [tuple((row.id, row.text) for row in rows[name])]
            assert list(table.get_many(ids).values()) == rows[name] == [table[id] for id in ids]
    return rows


def references(record: Any) -> set[str]:
    """Return all values of a row that look like ids of rows."""
    return set(re.findall(r"[0-9a-f]{20}[0-9a-f.]*", repr(record)))


@pytest.mark.parametrize("rights", RIGHTS)
def test_tables_hold_what_the_visible_documents_make(archive: Archive, rights: str) -> None:
    visible, hidden = split(archive, rights)
    with archive.kumi.snapshot() as whole, archive.kumi.snapshot(rights=rights) as seen:
        rows, stored = everything(seen), everything(whole)
        check_secrets(rows, hidden)
        hidden_ids = {hash_parts(f"pages/{page.name}") for page in hidden}
        assert not {id.partition(".")[0] for id in references(rows)} & hidden_ids
        check_graph(rows)
        check_lookups(seen, rows, stored)
        counts = seen.row_counts()
        assert counts == {name: len(of_table) for name, of_table in rows.items()}
        check_state(archive, seen, rights, hidden, counts)
        ids = {name: {row.id for row in of_table} for name, of_table in rows.items()}
        for name, of_table in stored.items():
            for row in of_table:
                if row.id not in ids[name]:
                    with pytest.raises(KumiError) as refused:
                        list(seen.trace((name, row.id)))
                    check_secrets(refused.value, hidden)
    if visible:
        compare_with_fresh(archive, archive.index_of(visible), rows)


def check_graph(rows: dict[str, list[Any]]) -> None:
    """Check that the rows of the graph name visible rows only."""
    entities = {row.id for row in rows["entities"]}
    communities: dict[str, Community] = {row.id: row for row in rows["communities"]}
    assert sorted(member for row in communities.values() for member in row.members) == sorted(entities)
    assert sorted(row.entity for row in rows["members"]) == sorted(entities)
    assert {row.parent for row in communities.values()} <= {*communities, ""}
    assert all(row.id in communities[child].parent for row in communities.values() for child in row.children)
    assert all({row.source, row.target} <= entities for row in rows["relations"])
    existing = {(table, row.id) for table, of_table in rows.items() for row in of_table}
    for report in rows["reports"]:
        assert set(report.citations()) <= existing


def lookup_values(row: Any, columns: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the values by which a lookup finds the row."""
    return tuple(row.id.rpartition(".")[0] if name == MADE_FROM else getattr(row, name) for name in columns)


def check_lookups(seen: Snapshot, rows: dict[str, list[Any]], stored: dict[str, list[Any]]) -> None:
    """Check that each lookup finds the rows that are there, by values of all rows."""
    for name, of_table in rows.items():
        table = seen.table(name)
        for columns in table.codec.lookup_keys:
            matching: dict[tuple[Any, ...], list[Any]] = {}
            for row in (*of_table, *stored[name]):
                matching.setdefault(lookup_values(row, columns), [])
            for row in of_table:
                matching[lookup_values(row, columns)].append(row)
            for value, expected in matching.items():
                key = dict(zip(columns, value, strict=True))
                assert table.where(**key) == expected
                assert table.ids(**key) == [row.id for row in expected]
            if len(columns) == 1 and all(isinstance(value, str) for (value,) in matching):
                grouped = table.ids_grouped(columns[0], [value for (value,) in matching])
                assert grouped == {value: [row.id for row in expected] for (value,), expected in matching.items()}


def check_state(archive: Archive, seen: Snapshot, rights: str, hidden: list[Page], counts: dict[str, int]) -> None:
    """Check the status, the tree of communities, names, excerpts and errors."""
    status = archive.kumi.status(rights=rights, levels=True)
    assert status.rows == counts
    assert (status.sources, status.removed, status.failed, status.bytes, status.spent) == ({}, (), (), 0, ())
    tree, uris = community_tree.load_tree(seen), community_tree.document_uris(seen)
    entities: list[Entity] = list(seen.table("entities"))
    excerpts = [community_tree.entity_excerpts(seen, uris, entity, 9, 60) for entity in entities]
    names = [community_tree.reference_names(seen, report) for report in seen.table("reports")]
    paths = [tree.entity_path(entity.id) for entity in entities]
    check_secrets((status, tree, uris, excerpts, names, paths), hidden)
    assert sum(tree.size[root] for root in tree.roots()) == len(entities)
    for method in METHODS:
        check_secrets(archive.kumi.estimate_query_cost(method, rights=rights), hidden)
    with pytest.raises(SettingsError) as unknown:
        seen.retrieve("Who met Bo Lind?", "bm25", filter="tems = 1")
    check_secrets(unknown.value, hidden)
    for page in hidden:
        with pytest.raises(SettingsError, match="nothing in the index has the id"):
            seen.find(f"pages/{page.name}")
        with pytest.raises(KumiError, match="table documents has no row"):
            seen.tracer.document(f"pages/{page.name}")


def without_texts(record: Any) -> Any:
    """Return a row without what a model may have written."""
    return replace(record, **{f.name: type(getattr(record, f.name))() for f in fields(record) if f.name in WRITTEN})


WRITTEN = ("text", "tokens", "quotes")


def compare_with_fresh(archive: Archive, fresh: Kumihimo, rows: dict[str, list[Any]]) -> None:
    """Check the rows against an index of the visible documents."""
    with fresh.snapshot() as alone:
        expected = everything(alone)
        for name in expected.keys() - GROUPED:
            ours, theirs = rows[name], expected[name]
            if name == "members":
                ours, theirs = sorted(row.entity for row in ours), sorted(row.entity for row in theirs)
            elif archive.by_model and name in ("entities", "relations", "claims", "summaries"):
                ours, theirs = list(map(without_texts, ours)), list(map(without_texts, theirs))
            assert ours == theirs, name


LISTS = (
    "List all documents",
    "Which documents mention Bo Lind?",
    "How many pages mention Orrin Dale?",
    "Compare Orrin Dale and Ruta Haverlock",
)


@pytest.mark.parametrize("rights", list(RIGHTS)[:3])
def test_lists_are_those_of_an_index_of_the_visible_documents(archive: Archive, rights: str) -> None:
    visible, _ = split(archive, rights)
    with archive.kumi.snapshot(rights=rights) as seen, archive.index_of(visible).snapshot() as alone:
        for question in LISTS:
            ours, theirs = seen.ask(question), alone.ask(question)
            assert (ours.status, ours.parts) == (theirs.status, theirs.parts)


def turn_pages(snapshot: Snapshot, **options: Any) -> list[Entity]:
    """Return all entities of a listing, three at a time."""
    entities: list[Entity] = []
    after = ""
    while page := browse.list_entities(snapshot, after=after, limit=3, **options):
        entities += page.items
        if not (after := page.next):
            return entities
    return entities


def browse_graph(snapshot: Snapshot) -> list[Any]:
    """Return what a person sees who browses the graph and the documents."""
    seen: list[Any] = [[e.id for e in turn_pages(snapshot, text=text)] for text in ("", "a", "Bo Lind", "dale", "x")]
    for name in ("Bo Lind", "Bo", "Orrin Dale", "Gull"):
        if entity := browse.find_entity(snapshot, name):
            near = browse.find_neighbours(snapshot, entity, 4)
            seen += [entity.name, entity.mentions, [e.id for e in near.entities], [r.weight for r in near.relations]]
            seen += [[span.text for span in browse.list_passages(snapshot, entity, limit=9).items]]
            seen += [len(browse.list_claims(snapshot, entity.id, 9)), near.more]
    documents = DocumentList(snapshot)
    seen += [documents.page(limit=99), documents.counts(), documents.failed_files()]
    return seen


@pytest.mark.parametrize("rights", list(RIGHTS)[:4])
def test_the_graph_is_browsed_as_an_index_of_the_visible_documents(archive: Archive, rights: str) -> None:
    visible, hidden = split(archive, rights)
    with archive.kumi.snapshot(rights=rights) as seen, archive.index_of(visible).snapshot() as alone:
        ours = browse_graph(seen)
        check_secrets(ours, hidden)
        assert ours == browse_graph(alone)
        with archive.kumi.snapshot() as whole:
            all_ids = {entity.id for entity in whole.table("entities")}
        for gone in all_ids - {entity.id for entity in seen.table("entities")}:
            assert browse.list_entities(seen, after=gone, limit=3).items == ()
        for page in hidden:
            assert DocumentList(seen).page(after=hash_parts(f"pages/{page.name}"), limit=3).items == ()
            assert DocumentList(seen).find(hash_parts(f"pages/{page.name}")) is None


@pytest.mark.parametrize("part", range(4))
def test_no_response_tells_of_hidden_documents(archive: Archive, part: int) -> None:
    for number in range(part, SETS // 2, 4):  # half of the sets for each archive
        rng = Random(number)
        rights, filter = rng.choice(list(RIGHTS)), rng.choice(["", "", *FILTERS])
        visible, hidden = split(archive, rights, filter)
        question, method = ask_about(rng, archive.pages, hidden), METHODS[number // 4 % len(METHODS)]
        uris = {f"pages/{page.name}" for page in visible}
        with archive.kumi.snapshot(rights=rights) as seen:
            try:
                context = seen.retrieve(question, method, filter=filter)
            except SettingsError as error:  # no visible document has the field
                check_secrets(error, hidden, question)
                continue
            answers = [seen.ask(question, name, filter=filter) for name in (method, "braid")]
            narrowed = seen.narrowed(filter)
            spans = [list(islice(narrowed.trace(item), 50)) for item in (*context, *answers[1].context)]
            assert {span.uri for of_item in spans for span in of_item} <= uris
            assert {citation.span.uri for answer in answers for citation in answer.citations} <= uris
            explained = explain_context(narrowed.tracer, question, context)
            explanations = [item.explanation for item in explained]
            assert all(explanations)
            values = [explained.to_dict(), *(answer.to_dict() for answer in answers)]
            check_secrets((context, answers, spans, explanations, values), hidden, question)


def cite_five(conversation: str) -> str:
    """Return a made-up reply; a statement cites the first five sources."""
    return re.sub(r"^(It is said of .*)\.$", r"\1 [1][2][3][4][5].", fake_graph_reader.answer(conversation))


@pytest.mark.parametrize("rights", list(RIGHTS)[:4])
def test_no_prompt_tells_of_hidden_documents(archive: Archive, rights: str, tmp_path: Path) -> None:
    kumi, without_model, cache = archive.kumi, archive.kumi.models, ResponseCache(tmp_path / "cache.db")
    readers = Readers(without_model.settings, lambda: cache)
    reader = readers.chat("answer")
    assert isinstance(reader, FakeChat)
    reader.answer = lambda told: re.sub(
        r"^(It is said of .*)\.$", r"\1 [1][2][3][4][5].", fake_graph_reader.answer(told)
    )
    kumi.models = readers
    try:
        visible, hidden = split(archive, rights)
        cited = 0
        for number, method in enumerate(method for method in ALL_METHODS if method != "meta" or archive.by_model):
            question = ask_about(Random(number), archive.pages, hidden)
            known = set(reader.prompt_counts)
            answer = kumi.ask(question, method, rights=rights)
            check_secrets((answer, set(reader.prompt_counts) - known), hidden, question)
            assert {c.span.uri for c in answer.citations} <= {f"pages/{page.name}" for page in visible}
            cited += len(answer.citations)
        assert min(cited, len(reader.prompt_counts)) > 10
    finally:
        kumi.models = without_model
        cache.close()


def test_a_hidden_word_is_a_word_that_nobody_has(archive: Archive) -> None:
    """Keyword search, spelling and lists treat it alike."""
    for number, rights in enumerate(RIGHTS):
        _, hidden = split(archive, rights)
        for page in hidden[:3]:
            rng = Random(number)
            secret, invented = rng.choice(page.secrets), "bogupimezax"
            with archive.kumi.snapshot(rights=rights) as seen:
                for template in ("Who met Orrin Dale at the {} dock?", "Which documents mention {}?", "{}"):
                    asked, control = template.format(secret), template.format(invented)
                    found, expected = seen.retrieve(asked, "bm25"), seen.retrieve(control, "bm25")
                    assert repr(found).replace(secret, invented) == repr(expected)
                    assert str(found.to_dict()).replace(secret, invented) == str(expected.to_dict())
                for table in ("entities", "reports"):
                    found, expected = (
                        seen.keyword_search()(seen.table(table), f"Orrin Dale {word}", k=9)
                        for word in (secret, invented)
                    )
                    assert found == expected
                answer, other = (seen.ask(f"Which documents mention {word}?") for word in (secret, invented))
                assert answer.text.replace(secret, invented) == other.text
                assert answer.status == other.status


def test_reports_that_rest_on_hidden_documents_are_hidden(archive: Archive) -> None:
    with archive.kumi.snapshot() as whole, archive.kumi.snapshot(rights="level != 3") as seen:
        stored: dict[str, Report] = {report.id: report for report in whole.table("reports")}
        reports: list[Report] = list(seen.table("reports"))
        visible = seen.visible_documents()
        assert bool(reports) == archive.by_model == (len(reports) < len(stored))
        assert reports == [report for report in stored.values() if {row[0] for row in report.evidence} <= visible]


def test_a_snapshot_without_rights_is_as_before(archive: Archive) -> None:
    with archive.kumi.snapshot(rights="  ") as blank, archive.kumi.snapshot(rights="uri") as whole:
        assert everything(blank) == everything(whole)
        assert whole.row_counts() == blank.row_counts()
        for method in METHODS:
            question = "Why did Ruta Haverlock write to Bo Lind?"
            assert whole.retrieve(question, method) == blank.retrieve(question, method)


def test_rights_with_an_error_are_refused(archive: Archive) -> None:
    for call in (archive.kumi.retrieve, archive.kumi.ask):
        with pytest.raises(SettingsError, match="the filter ends too early"):
            call("Who met Bo Lind?", rights="team = ")
    with pytest.raises((SettingsError, IndexUnavailable)):
        archive.kumi.trace("nothing", rights="team = ")
    answer = archive.kumi.ask("Who met Bo Lind?", rights="nobody_has_this")
    assert (len(answer.context), answer.citations, answer.status) == (0, (), "nothing")
    tokens = "".join(archive.kumi.stream("Who met Bo Lind?", rights='team = "north"'))
    assert tokens == archive.kumi.ask("Who met Bo Lind?", rights='team = "north"').text
