"""Gold -> its places in an index; missing gold is an error, not a miss."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.gold import (
    IndexLayout,
    Places,
    found_share,
    is_found,
    is_whole,
    parse_span_name,
    read_index_layout,
    resolve_gold,
)
from kumihimo.evaluate.records import EvalQuestion, Gold, SourceSpan
from tests.evaluate.factories_harbour import LONG, PIER

LOG = "notes/more/log.md"


@pytest.fixture
def snapshot(harbour: Kumihimo) -> Iterator[Snapshot]:
    with harbour.snapshot() as snapshot:
        yield snapshot


@pytest.fixture
def layout(snapshot: Snapshot) -> IndexLayout:
    return read_index_layout(snapshot)


def resolve(snapshot: Snapshot, layout: IndexLayout, *gold: Gold) -> list[tuple[str, Places]]:
    return [*resolve_gold(snapshot, layout, [EvalQuestion("q", "?", gold=gold)])["q"].items()]


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
    ((name, places),) = resolve(snapshot, layout, Gold(id))
    assert (name, is_whole(places)) == (uri, True)


def test_a_chunk_and_a_range_of_a_document(snapshot: Snapshot, layout: IndexLayout) -> None:
    (id, place) = next((id, place) for id, place in layout.chunks.items() if place.uri == LOG)
    for name in (id, f"chunks:{id}", f"{LOG}[{place.start},{place.end})"):
        assert parse_span_name(layout, name) == place
    ((name, places),) = resolve(snapshot, layout, Gold(f"chunks:{id}"))
    assert (places, is_whole(places), name) == ((place,), False, f"{LOG}[{place.start},{place.end})")
    ((_, (part,)),) = resolve(snapshot, layout, Gold(LOG, place.start + 1))
    assert (part.start, part.end) == (place.start + 1, len(LONG))
    assert parse_span_name(layout, f"{LOG}[0,{'9' * 5000})") is None
    assert (parse_span_name(layout, "pier.md"), parse_span_name(layout, "nobody")) == (None, None)


def test_a_text_is_found_anywhere(snapshot: Snapshot, layout: IndexLayout) -> None:
    quote = "wrote it\n down"
    ((_, anywhere),) = resolve(snapshot, layout, Gold(text=quote))
    assert [LONG[place.start : place.end] for place in anywhere] == ["wrote it down"] * 4
    ((_, (in_document,)),) = resolve(snapshot, layout, Gold("notes/pier.md", text="built in1911"))
    assert PIER[in_document.start : in_document.end] == "built in 1911"


def test_equal_gold_counts_once(snapshot: Snapshot, layout: IndexLayout) -> None:
    passages = resolve(snapshot, layout, Gold(LOG, 0, 4), Gold(LOG, 2, 9), Gold("r-1"), Gold("rows.jsonl#r-1"))
    assert [name for name, _ in passages] == [f"{LOG}[0,4)", f"{LOG}[2,9)", "rows.jsonl#r-1"]
    assert resolve_gold(snapshot, layout, [EvalQuestion("q", "?")]) == {}


def test_one_of_several_places_is_enough(snapshot: Snapshot, layout: IndexLayout) -> None:
    either, part = Gold("r-1", alternatives=(Gold("r-2"),)), Gold("r-1", alternatives=(Gold(text="built in 1911"),))
    (name, one), (_, mixed) = resolve(snapshot, layout, either, part)
    assert (name, is_whole(one), is_whole(mixed)) == ("rows.jsonl#r-1 or rows.jsonl#r-2", True, False)
    ((_, second),) = resolve(snapshot, layout, Gold("r-2"))
    assert (is_found(one, second), is_found(mixed, second)) == (True, False)
    assert len(resolve(snapshot, layout, either, Gold("r-2", alternatives=(Gold("r-1"),)))) == 1
    with pytest.raises(SettingsError, match="'zzz' is no document"):
        resolve(snapshot, layout, Gold("r-1", alternatives=(Gold("zzz"),)))


def test_half_of_a_range_is_enough() -> None:
    part = (SourceSpan("a", 10, 30),)
    assert not is_found(part, [SourceSpan("a", 0, 19), SourceSpan("a", 5, 19), SourceSpan("b", 10, 30)])
    assert is_found(part, [SourceSpan("a", 0, 19), SourceSpan("a", 29, 40)])
    assert is_found(part, [SourceSpan("a", 18, 28)])


def test_the_share_is_of_chunks_or_of_documents() -> None:
    whole = parse_span_name(IndexLayout({}, {"a": ["a"]}, {}, {}, {}), "a")
    assert whole is not None
    chunks = [SourceSpan("b", 0, 9), SourceSpan("b", 9, 20), SourceSpan("a", 0, 9), SourceSpan("a", 9, 20)]
    document = {"a.md": (whole,)}
    spans = {f"{start}": (SourceSpan("a", start, start + 4),) for start in (0, 4, 10)}
    assert [found_share(chunks, document, k) for k in (1, 2)] == [0, 1], "two chunks of one document are one"
    assert [found_share(chunks, {**document, "10": spans["10"]}, k) for k in (2, 3, 4)] == [0, 0.5, 1]
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
