"""Gold -> its places in an index; missing gold is an error, not a miss."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.gold import (
    DocumentSpan,
    GoldPassage,
    IndexLayout,
    found_share,
    parse_span_name,
    read_index_layout,
    resolve_gold,
)
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


def test_equal_gold_counts_once(snapshot: Snapshot, layout: IndexLayout) -> None:
    passages = resolve(snapshot, layout, Gold(LOG, 0, 4), Gold(LOG, 2, 9), Gold("r-1"), Gold("rows.jsonl#r-1"))
    assert [passage.name for passage in passages] == [f"{LOG}[0,4)", f"{LOG}[2,9)", "rows.jsonl#r-1"]
    assert resolve_gold(snapshot, layout, [EvalQuestion("q", "?")]) == {}


def test_one_of_several_places_is_enough(snapshot: Snapshot, layout: IndexLayout) -> None:
    either, part = Gold("r-1", alternatives=(Gold("r-2"),)), Gold("r-1", alternatives=(Gold(text="built in 1911"),))
    one, mixed = resolve(snapshot, layout, either, part)
    assert (one.name, one.is_document, mixed.is_document) == ("rows.jsonl#r-1 or rows.jsonl#r-2", True, False)
    (second,) = resolve(snapshot, layout, Gold("r-2"))
    assert (one.is_found(second.places), mixed.is_found(second.places)) == (True, False)
    assert len(resolve(snapshot, layout, either, Gold("r-2", alternatives=(Gold("r-1"),)))) == 1
    with pytest.raises(SettingsError, match="'zzz' is no document"):
        resolve(snapshot, layout, Gold("r-1", alternatives=(Gold("zzz"),)))


def test_half_of_a_range_is_enough() -> None:
    passage = GoldPassage("a.md[10,30)", (DocumentSpan("a", 10, 30),))
    assert not passage.is_found([DocumentSpan("a", 0, 19), DocumentSpan("a", 5, 19), DocumentSpan("b", 10, 30)])
    assert passage.is_found([DocumentSpan("a", 0, 19), DocumentSpan("a", 29, 40)])
    assert passage.is_found([DocumentSpan("a", 18, 28)])


def test_the_share_is_of_chunks_or_of_documents() -> None:
    whole = parse_span_name(IndexLayout({}, {"a": ["a"]}, {}, {}, {}), "a")
    assert whole is not None
    chunks = [DocumentSpan("b", 0, 9), DocumentSpan("b", 9, 20), DocumentSpan("a", 0, 9), DocumentSpan("a", 9, 20)]
    document = GoldPassage("a.md", (whole,))
    spans = [GoldPassage(f"{start}", (DocumentSpan("a", start, start + 4),)) for start in (0, 4, 10)]
    assert [found_share(chunks, [document], k) for k in (1, 2)] == [0, 1], "two chunks of one document are one"
    assert [found_share(chunks, [document, spans[2]], k) for k in (2, 3, 4)] == [0, 0.5, 1]
    assert [found_share(chunks, spans, k) for k in (2, 3)] == [0, pytest.approx(2 / 3)], "one chunk holds two"
    assert found_share([], spans) == 0


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
