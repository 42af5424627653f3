"""steps, methods and readers -> one value, extended by functions of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.app.opened.catalogue import BUILT_IN, extend_catalogue
from kumihimo.core import wiring
from kumihimo.core.context import Context
from kumihimo.core.errors import SettingsError, StepError
from kumihimo.core.records import Chunk
from kumihimo.core.signature import collect_signatures
from kumihimo.core.table import Table
from kumihimo.core.wiring import Catalogue, reads
from kumihimo.search.protocols import KeywordSearch
from tests.toy_steps import Word


def nearest(question: str, words: Table[Word]) -> Context:
    """Return nothing."""
    return Context()


def words(chunk: Chunk) -> Word:
    """Return one word."""
    return Word(name=chunk.text)


def naive(question: str, chunks: Table[Chunk]) -> Context:
    """Return nothing."""
    return Context()


def mistaken(question: str, chunks: Table[Word]) -> Context:
    """Return nothing."""
    return Context()


def connected(question: str, chunks: Table[Chunk], database: Any) -> Context:
    """Return nothing."""
    return Context()


def searching(chunk: Chunk, keyword_search: KeywordSearch) -> Word:
    """Return one word."""
    return Word(name=chunk.text)


def step_called(name: str) -> Any:
    """Return a step with this name."""

    def step(chunk: Chunk) -> Word:
        return Word(name=chunk.text)

    step.__name__ = name
    return step


@reads(".toy", media_type="text/x-toy")
def read_toys(data: bytes, name: str) -> Iterator[Any]:
    """Yield nothing."""
    yield from ()


@reads(".md", media_type="text/x-toy")
def read_notes(data: bytes, name: str) -> Iterator[Any]:
    """Yield nothing."""
    yield from ()


@reads("toy", media_type="text/x-toy")
def read_without_a_dot(data: bytes, name: str) -> Iterator[Any]:
    """Yield nothing."""
    yield from ()


def test_a_catalogue_with_functions_of_others() -> None:
    catalogue = extend_catalogue(
        BUILT_IN, methods=[nearest], steps=[words], readers=[read_toys], origin="the plug-in x"
    )
    assert catalogue.record_types["words"] is Word
    assert catalogue.method("nearest").summary == "Return nothing."
    assert catalogue.readers[".toy"].media_type == "text/x-toy"
    assert catalogue.origins == dict.fromkeys(["words", "nearest", ".toy"], "the plug-in x")
    assert catalogue.upstream_steps(["words"]) == {"chunks", "words"}
    assert "words" not in BUILT_IN.steps


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"methods": [naive]}, "naive: there is already a step or a method of this name: rename the function"),
        ({"steps": [words], "methods": [words]}, "a method"),
        ({"steps": [step_called("todo")]}, "todo: the index has a table of this name for itself: rename the step"),
        ({"steps": [step_called("words_chunks")]}, "words_chunks: the index has a table of this name for itself"),
        ({"steps": [step_called("Chunks")]}, "Chunks: there is already a step or a method of this name"),
        ({"methods": [nearest]}, "nearest: no table 'words'"),
        ({"methods": [mistaken]}, "mistaken: table chunks holds Chunk, not Word"),
        ({"methods": [connected]}, "connected: no table or port 'database'"),
        ({"steps": [searching]}, "searching: no table or port 'keyword_search'"),
        ({"readers": [read_notes]}, ".md: there is already a reader for this suffix"),
        ({"readers": [naive]}, 'naive: a reader needs its suffixes: @reads(".srt", media_type="text/plain")'),
        ({"readers": [read_without_a_dot]}, "read_without_a_dot: a reader needs its suffixes"),
    ],
)
def test_a_function_that_does_not_fit(entries: dict[str, Any], message: str) -> None:
    with pytest.raises(StepError) as error:
        extend_catalogue(BUILT_IN, **entries)
    assert message in str(error.value)


def test_an_unknown_method() -> None:
    with pytest.raises(SettingsError, match="did you mean 'naive'"):
        BUILT_IN.method("naiv")


def test_a_build_orders_the_steps_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, order_steps = list[int](), wiring.order_steps

    def counted(steps: Any) -> Any:
        calls.append(1)
        return order_steps(steps)

    monkeypatch.setattr("kumihimo.core.wiring.order_steps", counted)
    (tmp_path / "pier.txt").write_text("Ada built the pier.", encoding="utf-8")
    with Kumihimo.open(tmp_path / ".kumi", methods=[nearest], steps=[words]) as kumi:
        kumi.index(tmp_path / "pier.txt", methods=["braid", "nearest"])
        kumi.ask("Who built the pier?")
    assert len(calls) == 1


def test_scopes() -> None:
    catalogue = Catalogue(collect_signatures(words))
    assert catalogue.scope("words") == "words"
    assert BUILT_IN.scope("ties") == "mentions"
    assert BUILT_IN.settings_for_step("ties", {"mentions": {"gleanings": 2, "other": 3}})["gleanings"] == 2
