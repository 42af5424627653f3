"""builds that are cancelled -> the index as it was, every paid reply in the cache, and a next build that goes on."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from threading import Lock

import pytest

from kumihimo import Kumihimo
from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import Cancelled
from kumihimo.core.task import ProgressEvent
from kumihimo.testing.fake_models import FakeChat
from tests import fake_graph_reader
from tests.counters import wait_until
from tests.fixtures_index import Held, fill, tables

NAMES = ("Ada Vane", "Bea Orrell", "Cal Roe", "Dov Marsh", "Eva Lund", "Finn Holm")
NOTES = {
    f"{n}.txt": f"{one} met {two} at the pier of Fenwick. {two} mended gate {n}."
    for n, (one, two) in enumerate(pairwise(NAMES))
}
METHODS = ["light", "global", "naive"]


class Model:
    """A model of few words that cancels a token at one of its requests."""

    def __init__(self) -> None:
        self.cancel_at, self.requests, self.token = 0, 0, CancelToken()
        self._lock = Lock()
        self.chat = FakeChat(self._reply, join_messages=True, workers=2)

    def _reply(self, prompt: str) -> str:
        with self._lock:
            self.requests += 1
            is_due = self.requests == self.cancel_at
        if is_due:
            self.token.cancel("the client has left")
        return fake_graph_reader.answer(prompt)


def open_index(folder: Path, model: Model) -> Kumihimo:
    kumi = Kumihimo(folder / ".kumi")
    kumi.models = fake_graph_reader.Readers(kumi.models.settings, lambda: kumi.cache)
    kumi.models.reader = model.chat
    return kumi


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> tuple[Held, int]:
    """Return the rows of an undisturbed index, and the number of its requests."""
    folder, model = tmp_path_factory.mktemp("whole"), Model()
    with open_index(folder, model) as kumi:
        kumi.index(fill(folder / "notes", NOTES), methods=METHODS)
        return made(kumi), model.requests


def made(kumi: Kumihimo) -> Held:
    """Return all rows but the documents, which hold the times of their files."""
    return {name: rows for name, rows in tables(kumi).items() if name != "documents"}


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_a_build_that_is_cancelled_at_a_request_goes_on_with_the_next_one(
    share: float, complete: tuple[Held, int], tmp_path: Path
) -> None:
    expected, requests = complete
    model = Model()
    model.cancel_at = max(1, round(share * requests))
    with open_index(tmp_path, model) as kumi:
        notes = fill(tmp_path / "notes", NOTES)
        with pytest.raises(Cancelled, match="the client has left"):
            kumi.index(notes, methods=METHODS, cancel=model.token)
        assert model.requests < model.cancel_at + 2 * model.chat.workers, "only what was under way went on"
        wait_until(lambda: kumi.cache.size()[0] == model.requests)
        assert not kumi.index(notes, methods=METHODS, cancel=CancelToken()).failed
        assert made(kumi) == expected
    assert set(model.chat.prompt_counts.values()) == {1}


@pytest.mark.parametrize("step", ["documents", "chunks", "communities", "meaning of chunks"])
def test_a_build_that_is_cancelled_at_a_step_leaves_the_index_as_it_was(step: str, tmp_path: Path) -> None:
    token, steps = CancelToken(), list[str]()

    def cancel_at_step(event: ProgressEvent) -> None:
        steps.append(event.step)
        if event.step == step:
            token.cancel()

    with Kumihimo(tmp_path / ".kumi") as kumi:
        kumi.index(fill(tmp_path / "notes", {"0.txt": NOTES["0.txt"]}), methods=["bm25"])
        before = tables(kumi)
        fill(tmp_path / "notes", NOTES)
        with pytest.raises(Cancelled):
            kumi.index(methods=["naive", "global"], cancel=token, progress=cancel_at_step)
        assert steps[-1] == step, "nothing more was done"
        assert (tables(kumi), kumi.status().methods) == (before, ("bm25",))
        kumi.index(methods=["naive", "global"])
        assert kumi.status().rows["documents"] == len(NOTES)


def test_a_removal_that_is_cancelled_removes_nothing(tmp_path: Path) -> None:
    token = CancelToken()
    with Kumihimo(tmp_path / ".kumi") as kumi:
        kumi.index(fill(tmp_path / "notes", NOTES), methods=["naive"])
        before = tables(kumi)
        with pytest.raises(Cancelled):
            kumi.remove("notes/0.txt", cancel=token, progress=lambda _: token.cancel())
        assert tables(kumi) == before
