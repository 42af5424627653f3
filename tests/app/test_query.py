"""A query holds all that a caller says of a question, and refuses what cannot be asked."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from kumihimo import AsyncKumihimo, CancelToken, Context, Kumihimo
from kumihimo.app.ask.query import Query
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.errors import Cancelled, SettingsError
from kumihimo.ext import Chunk, Evidence, ParsedQuestion, Table
from kumihimo.llm import local_embedder


@pytest.fixture
def kumi(tmp_path: Path) -> Iterator[Kumihimo]:
    (tmp_path / "pier.txt").write_text("Ada built the pier in 1980. The ferry leaves at nine.", encoding="utf-8")
    with Kumihimo.open(tmp_path / ".kumi", methods=[parsed]) as kumi:
        kumi.index(tmp_path / "pier.txt", methods=["bm25", "parsed"])
        yield kumi


def parsed(question: ParsedQuestion, chunks: Table[Chunk], *, k: int = 5) -> Context:
    """Return the chunks with a token of the question."""
    tokens = question.wording.tokens
    found = [chunk for chunk in chunks if any(token in chunk.text.lower() for token in tokens)]
    return Context(tuple(Evidence("chunks", chunk, 1.0) for chunk in found[:k]), query_type=question.kind)


def test_other_options_are_settings_of_the_method() -> None:
    query = Query.of("Who?", "bm25", filter="year > 2000", k=3, budget=100)
    assert (query.method, query.filter, query.settings) == ("bm25", "year > 2000", {"k": 3, "budget": 100})
    assert Query.of("Who?", settings={"k": 2, "budget": 1}, k=3).settings == {"k": 3, "budget": 1}


@pytest.mark.parametrize(("options", "message"), [({}, "is empty"), ({"length": "long"}, "length")])
def test_what_cannot_be_asked_is_refused_where_the_value_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Query.of("Who?" if options else " ", **options)


def test_it_does_not_change_and_can_be_sent_to_a_process() -> None:
    query = Query.of("Who?", on_token=lambda _: None, cancel=CancelToken(), explain=True)
    with pytest.raises(FrozenInstanceError):
        query.method = "bm25"  # type: ignore[misc]
    sent = pickle.loads(pickle.dumps(query.without_listeners()))
    assert (sent.question, sent.explain, sent.on_token, sent.cancel) == (query.question, True, None, None)


def test_a_method_may_take_the_parsed_question(kumi: Kumihimo) -> None:
    found = kumi.retrieve("Who built the pier?", "parsed")
    assert (found.query_type, len(found), found.method) == ("who", 1, "parsed")


def test_evidence_is_explained_on_request(kumi: Kumihimo) -> None:
    (bare,), (item,) = kumi.retrieve("pier", "bm25"), kumi.retrieve("pier", "bm25", explain=True)
    assert bare.explanation is None
    assert item.explanation
    assert item.explanation.reason.words == ("pier",)
    assert [span.location for span in item.explanation.spans] == ["pier.txt, line 1"]
    answer = kumi.ask("Who built the pier?", "bm25", explain=True)
    assert all(each.explanation for each in answer.context)


def test_a_search_takes_no_options_of_an_answer() -> None:
    assert dict(Query.of_search("ferry", length="brief", k=3).settings) == {"length": "brief", "k": 3}
    assert Query.of("ferry", length="brief").length == "brief"


def test_a_snapshot_has_the_rights_it_was_opened_with(kumi: Kumihimo) -> None:
    cancelled = CancelToken()
    cancelled.cancel("enough")
    with kumi.snapshot() as snapshot:
        for call in (snapshot.retrieve, snapshot.ask):
            with pytest.raises(SettingsError, match="rights that it was opened with"):
                call("ferry", "bm25", rights='author = "Nobody"')
            with pytest.raises(Cancelled):
                call("ferry", "bm25", cancel=cancelled)
    assert kumi.retrieve("ferry", "bm25")
    assert not kumi.retrieve("ferry", "bm25", rights='author = "Nobody"')
    assert list(kumi.stream("ferry", "bm25", cancel=None))


@pytest.mark.parametrize("options", [{"cancel": CancelToken()}, {"on_token": print}], ids=["cancel", "on_token"])
def test_an_asynchronous_index_takes_no_listeners(kumi: Kumihimo, options: dict[str, Any]) -> None:
    async def ask() -> None:
        async with AsyncKumihimo(kumi) as opened:
            await opened.ask("ferry", "bm25", **options)

    with pytest.raises(SettingsError, match="use `events`"):
        asyncio.run(ask())


def test_a_question_by_keywords_needs_no_embedder_of_the_index(kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_embedder, "find_spec", lambda _: None)
    before = kumi.ask("When does the ferry leave?", "bm25").text
    monkeypatch.setattr(Snapshot, "embedder_of", lambda *_: "local:e5-small")
    assert kumi.ask("When does the ferry leave?", "bm25").text == before != ""
