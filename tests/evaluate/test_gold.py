"""Gold -> its places in an index; missing gold is an error, not a miss."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kumihimo import Kumihimo
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.gold import GoldPassage, IndexLayout, parse_span_name, read_index_layout, resolve_gold
from kumihimo.evaluate.records import EvalQuestion, Gold
from tests.evaluate.factories_harbour import LONG, PIER

LOG = "notes/more/log.md"


@pytest.fixture
def snapshot(harbour: Kumihimo) -> Iterator[Snapshot]:
    with harbour.snapshot() as snapshot:
        yield snapshot


@pytest.fixture
def layout(snapshot: Snapshot) -> IndexLayout:
    return read_index_layout(snapshot)


def resolve(snapshot: Snapshot, layout: IndexLayout, *gold: Gold) -> tuple[GoldPassage, ...]:
    return resolve_gold(snapshot, layout, [EvalQuestion("q", "?", gold=gold)])["q"]


@pytest.mark.parametrize(
    ("id", "uri"),
    [
        ("notes/pier.md", "notes/pier.md"),
        ("rows.jsonl#r-2", "rows.jsonl#r-2"),
        ("r-2", "rows.jsonl#r-2"),
        ("log.md", LOG),
    ],
)
def test_a_document_by_its_names(snapshot: Snapshot, layout: IndexLayout, id: str, uri: str) -> None:
    (passage,) = resolve(snapshot, layout, Gold(id))
    assert (passage.name, passage.is_document) == (uri, True)


def test_a_chunk_and_a_range_of_a_document(snapshot: Snapshot, layout: IndexLayout) -> None:
    (id, place) = next((id, place) for id, place in layout.chunks.items() if layout.uris[place.document] == LOG)
    for name in (id, f"chunks:{id}", f"{LOG}[{place.start},{place.end})"):
        assert parse_span_name(layout, name) == place
    (passage,) = resolve(snapshot, layout, Gold(f"chunks:{id}"))
    assert (passage.places, passage.is_document, passage.name) == ((place,), False, f"{LOG}[{place.start},{place.end})")
    (passage,) = resolve(snapshot, layout, Gold(LOG, place.start + 1))
    assert passage.places[0][1:] == (place.start + 1, len(LONG))
    assert (parse_span_name(layout, "pier.md"), parse_span_name(layout, "nobody")) == (None, None)


def test_a_text_is_found_anywhere(snapshot: Snapshot, layout: IndexLayout) -> None:
    quote = "wrote it\n down"
    (anywhere,) = resolve(snapshot, layout, Gold(text=quote))
    assert [LONG[start:end] for _, start, end in anywhere.places] == ["wrote it down"] * 4
    (in_document,) = resolve(snapshot, layout, Gold("notes/pier.md", text="built in1911"))
    assert PIER[slice(*in_document.places[0][1:])] == "built in 1911"


def test_gold_in_the_same_chunks_is_merged(snapshot: Snapshot, layout: IndexLayout) -> None:
    passages = resolve(snapshot, layout, Gold(LOG, 0, 4), Gold(LOG, 2, 9), Gold("r-1"), Gold("rows.jsonl#r-1"))
    assert [(passage.name, len(passage.places)) for passage in passages] == [(f"{LOG}[0,4)", 2), ("rows.jsonl#r-1", 1)]
    assert resolve_gold(snapshot, layout, [EvalQuestion("q", "?")]) == {}


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        (Gold("pier.md"), r"'pier\.md' may be any of 2 documents: write the whole uri, such as notes/"),
        (Gold("rows.jsonl"), "may be any of 2 documents"),
        (Gold("notes/peir.md"), r"no document or chunk of the index; did you mean 'notes/pier\.md'"),
        (Gold("zzz"), "is it in the index"),
        (Gold("log.md", 9999, 10000), r"\[9999, 10000\) of 'log\.md', which has \d+ characters"),
        (Gold("log.md", 9, 9), "which has"),
        (Gold(text="no such words"), "'no such words' is not in any document"),
        (Gold("r-1", text="Locks"), "is not in 'r-1'"),
        (Gold(), "names neither a document nor a text"),
    ],
)
def test_missing_gold_is_an_error(snapshot: Snapshot, layout: IndexLayout, gold: Gold, message: str) -> None:
    with pytest.raises(SettingsError, match=rf"question 'q': .*{message}.*\(1 more questions"):
        resolve_gold(snapshot, layout, [EvalQuestion("q", "?", gold=(gold,)), EvalQuestion("p", "?", gold=(gold,))])
