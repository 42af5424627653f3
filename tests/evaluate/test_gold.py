"""gold -> where it stands in an index; what does not stand there is no miss but an error."""

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
def reading(harbour: Kumihimo) -> Iterator[Snapshot]:
    with harbour.snapshot() as reading:
        yield reading


@pytest.fixture
def there(reading: Snapshot) -> IndexLayout:
    return read_index_layout(reading)


def resolved(reading: Snapshot, there: IndexLayout, *gold: Gold) -> tuple[GoldPassage, ...]:
    return resolve_gold(reading, there, [EvalQuestion("q", "?", gold=gold)])["q"]


@pytest.mark.parametrize(
    ("id", "uri"),
    [
        ("notes/pier.md", "notes/pier.md"),
        ("rows.jsonl#r-2", "rows.jsonl#r-2"),
        ("r-2", "rows.jsonl#r-2"),
        ("log.md", LOG),
    ],
)
def test_a_document_by_its_names(reading: Snapshot, there: IndexLayout, id: str, uri: str) -> None:
    (found,) = resolved(reading, there, Gold(id))
    assert (found.name, found.is_document) == (uri, True)


def test_a_chunk_and_a_stretch_of_a_document(reading: Snapshot, there: IndexLayout) -> None:
    (id, place) = next((id, place) for id, place in there.chunks.items() if there.uris[place.document] == LOG)
    for name in (id, f"chunks:{id}", f"{LOG}[{place.start},{place.end})"):
        assert parse_span_name(there, name) == place
    (found,) = resolved(reading, there, Gold(f"chunks:{id}"))
    assert (found.places, found.is_document, found.name) == ((place,), False, f"{LOG}[{place.start},{place.end})")
    (found,) = resolved(reading, there, Gold(LOG, place.start + 1))
    assert found.places[0][1:] == (place.start + 1, len(LONG))
    assert (parse_span_name(there, "pier.md"), parse_span_name(there, "nobody")) == (None, None)


def test_a_text_wherever_it_stands(reading: Snapshot, there: IndexLayout) -> None:
    said = "wrote it\n down"
    (anywhere,) = resolved(reading, there, Gold(text=said))
    assert [LONG[start:end] for _, start, end in anywhere.places] == ["wrote it down"] * 4
    (within,) = resolved(reading, there, Gold("notes/pier.md", text="built in1911"))
    assert PIER[slice(*within.places[0][1:])] == "built in 1911"


def test_what_stands_in_the_same_chunks_is_one(reading: Snapshot, there: IndexLayout) -> None:
    few = resolved(reading, there, Gold(LOG, 0, 4), Gold(LOG, 2, 9), Gold("r-1"), Gold("rows.jsonl#r-1"))
    assert [(one.name, len(one.places)) for one in few] == [(f"{LOG}[0,4)", 2), ("rows.jsonl#r-1", 1)]
    assert resolve_gold(reading, there, [EvalQuestion("q", "?")]) == {}


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        (Gold("pier.md"), r"'pier\.md' may be any of 2 documents: write the whole uri, such as notes/"),
        (Gold("rows.jsonl"), "may be any of 2 documents"),
        (Gold("notes/peir.md"), r"no document or chunk of the index; did you mean 'notes/pier\.md'"),
        (Gold("zzz"), "is it in the index"),
        (Gold("log.md", 9999, 10000), r"\[9999, 10000\) of 'log\.md', which has \d+ characters"),
        (Gold("log.md", 9, 9), "which has"),
        (Gold(text="no such words"), "'no such words' does not stand in any document"),
        (Gold("r-1", text="Locks"), "does not stand in 'r-1'"),
        (Gold(), "names neither a document nor a text"),
    ],
)
def test_gold_that_is_not_there_is_an_error(reading: Snapshot, there: IndexLayout, gold: Gold, said: str) -> None:
    with pytest.raises(SettingsError, match=rf"question 'q': .*{said}.*\(1 more questions"):
        resolve_gold(reading, there, [EvalQuestion("q", "?", gold=(gold,)), EvalQuestion("p", "?", gold=(gold,))])
