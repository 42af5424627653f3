"""tables + an embedding model -> vectors: by table, with prefixes; the time it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kumihimo.app.build import cost
from kumihimo.app.facade import Kumihimo
from kumihimo.core.errors import ConsentRequired, KumiError, SettingsError
from kumihimo.llm import local_embedder
from kumihimo.llm.budget import Budget
from kumihimo.llm.protocols import Vectors
from kumihimo.testing import FakeEmbedder
from tests.fake_server import FakeServer

NOTES = {
    "harbour.txt": "Mary Pennant mended the breakwater of Kerrow. Kerrow lies on Saltmarsh Bay.",
    "ferry.txt": "The ferry of Saltmarsh Bay leaves at nine. Tom Roake steers the ferry.",
    "school.txt": "Tom Roake taught at the school of Kerrow before Mary Pennant came.",
}
LOCAL = {"model": "local:fake"}


@dataclass
class LocalFake:
    """A local model that records its texts, by whether they were questions."""

    texts: dict[bool, list[str]] = field(default_factory=lambda: {False: [], True: []})

    def create(self, is_query: bool) -> _Fake:
        return _Fake(is_query, self.texts[is_query])


@dataclass
class _Fake:
    is_query: bool
    texts: list[str]
    fingerprint: str = "local:fake"
    batch: int = 2
    workers: int = 1

    def __call__(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        return FakeEmbedder(dimensions=8)(texts)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> LocalFake:
    """A local model by the name `local:fake`."""
    model = LocalFake()
    monkeypatch.setitem(local_embedder.LOCAL_MODELS, "local:fake", model.create)
    return model


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of three notes."""
    for name, text in NOTES.items():
        (tmp_path / "notes").mkdir(exist_ok=True)
        (tmp_path / "notes" / name).write_text(text, "utf-8")
    return tmp_path / "notes"


def opened(folder: Path, embedding: Mapping[str, Any] | None = None) -> Kumihimo:
    return Kumihimo.open(folder / ".kumi", settings={"embedding": dict(embedding or {})})


def embedders(kumi: Kumihimo) -> dict[str, str]:
    with kumi.snapshot() as snapshot:
        tables = ("chunks", "entities", "relations")
        return {table: snapshot.db.meta(f"vectors_{table}")["embedder"] for table in tables}


# -- models inside this process


def test_a_local_model_embeds_chunks_and_the_built_in_one_the_rest(
    tmp_path: Path, source: Path, fake: LocalFake
) -> None:
    with opened(tmp_path, LOCAL) as kumi:
        kumi.index(source, methods=["naive", "local"])
        assert embedders(kumi) == {"chunks": "local:fake", "entities": "wordllama-256", "relations": "wordllama-256"}
        assert kumi.status().models["embedder"] == "local:fake, wordllama-256"
        assert sorted(text.partition("\n")[2] for text in fake.texts[False]) == sorted(NOTES.values())
        assert fake.texts[True] == []
        question = "Who mended the breakwater?"
        with kumi.snapshot() as snapshot:
            assert snapshot.retrieve(question, "naive", words=False).evidence[0].text == NOTES["harbour.txt"]
            assert fake.texts[True] == [question]
            assert snapshot.retrieve(question, "local")
        assert len(fake.texts[False]) == len(NOTES)


def test_a_setting_says_which_tables_a_model_embeds(tmp_path: Path, source: Path, fake: LocalFake) -> None:
    with opened(tmp_path, LOCAL | {"tables": ["entities", "relations"]}) as kumi:
        kumi.index(source, methods=["naive", "local"])
        assert embedders(kumi) == {"chunks": "wordllama-256", "entities": "local:fake", "relations": "local:fake"}
        assert not any(text.endswith(NOTES["ferry.txt"]) for text in fake.texts[False])
    error = r"embedding\.tables: no searchable table 'chunk'; did you mean 'chunks'\?"
    with opened(tmp_path, LOCAL | {"tables": ["chunk"]}) as kumi, pytest.raises(SettingsError, match=error):
        kumi.index()


def test_an_index_is_asked_by_the_model_that_made_it(tmp_path: Path, source: Path, fake: LocalFake) -> None:
    with opened(tmp_path, LOCAL) as kumi:
        kumi.index(source, methods=["naive"])
    with opened(tmp_path) as kumi:  # without the setting
        with kumi.snapshot() as snapshot:
            snapshot.retrieve("Who steers the ferry?", "naive")
        assert fake.texts[True] == ["Who steers the ferry?"]
        with pytest.raises(ConsentRequired, match="chunks were embedded by local:fake, and would be by wordllama-256"):
            kumi.index()


def test_a_local_model_replaces_the_built_in_one_and_embeds_nothing_twice(
    tmp_path: Path, source: Path, fake: LocalFake
) -> None:
    with opened(tmp_path) as kumi:
        kumi.index(source, methods=["naive"])
    with opened(tmp_path, LOCAL) as kumi:
        kumi.index()
        assert len(fake.texts[False]) == 3
        (source / "new.txt").write_text("A note that is new.", "utf-8")
        kumi.index()
        assert fake.texts[False][3:] == ["new\nA note that is new."]
        kumi.index(rebuild=True)
        assert len(fake.texts[False]) == 4, "the cache holds the vectors"


def test_a_plan_tells_the_time_without_embedding_everything(
    tmp_path: Path, source: Path, fake: LocalFake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(60):
        (source / f"{i:02}.txt").write_text(f"Note {i:02} tells of the sea and the sky.", "utf-8")
    ticks = iter((10.0, 10.5))
    monkeypatch.setattr(cost, "thread_time", lambda: next(ticks))
    with opened(tmp_path, LOCAL) as kumi:
        work = kumi.plan(source, methods=["naive"]).local_work
        assert work is not None
        assert (work.model, work.texts) == ("local:fake", 63)
        assert work.cpu_seconds == pytest.approx(0.5 * 63 / 5, rel=0.3)  # five texts were timed
        assert len(fake.texts[False]) == 6
        kumi.index(source, methods=["naive"])
        assert kumi.plan().local_work is None


def test_an_unknown_local_model_is_an_error(tmp_path: Path, source: Path) -> None:
    with (
        opened(tmp_path, {"model": "local:e5"}) as kumi,
        pytest.raises(SettingsError, match=r"no local embedding model 'local:e5'.*local:e5-small"),
    ):
        kumi.index(source, methods=["naive"])


# -- servers


def test_servers_get_the_prefixes_of_their_model(tmp_path: Path, server: FakeServer) -> None:
    settings = {"model": "e", "base_url": server.url, "query_prefix": "query: ", "passage_prefix": "passage: "}
    with opened(tmp_path, settings) as kumi:
        stored = kumi.models.embedder(Budget()).fingerprint
        assert stored == "e passage_prefix='passage: '"
        passage = kumi.models.embedder(Budget())(["the sea"])
        query = kumi.models.query_embedder(Budget(), "chunks", stored)(["the sea"])
    with opened(tmp_path, settings | {"query_prefix": "", "passage_prefix": ""}) as kumi:
        plain = kumi.models.embedder(Budget())
        assert plain.fingerprint == "e"
        assert np.array_equal(passage, plain(["passage: the sea"]))
        assert np.array_equal(query, plain(["query: the sea"]))
        assert not np.array_equal(passage, plain(["the sea"]))


def test_another_passage_prefix_makes_vectors_outdated_and_another_query_prefix_does_not(
    tmp_path: Path, source: Path, server: FakeServer
) -> None:
    settings = {"model": "e", "base_url": server.url, "passage_prefix": "passage: "}
    with opened(tmp_path, settings) as kumi:
        kumi.index(source, methods=["naive"])
    server.reset()
    with opened(tmp_path, settings | {"query_prefix": "query: "}) as kumi:
        kumi.index()
        assert server.counts()["requests"] == 0
        with kumi.snapshot() as snapshot:
            assert snapshot.retrieve("Who steers the ferry?", "naive")
    with opened(tmp_path, settings | {"passage_prefix": "search_document: "}) as kumi:
        with (
            kumi.snapshot() as snapshot,
            pytest.raises(KumiError, match="were embedded by e passage_prefix='passage: '"),
        ):
            snapshot.retrieve("Who steers the ferry?", "naive")
        with pytest.raises(ConsentRequired, match="would be by e passage_prefix='search_document: '"):
            kumi.index()


def test_a_server_embeds_every_table_unless_some_are_set(tmp_path: Path, source: Path, server: FakeServer) -> None:
    settings = {"model": "e", "base_url": server.url}
    with opened(tmp_path, settings) as kumi:
        kumi.index(source, methods=["naive", "local"])
        assert set(embedders(kumi).values()) == {"e"}
    with opened(tmp_path, settings | {"tables": ["chunks"]}) as kumi:
        kumi.index(consent=True)
        assert embedders(kumi) == {"chunks": "e", "entities": "wordllama-256", "relations": "wordllama-256"}
        with kumi.snapshot() as snapshot:
            assert snapshot.retrieve("Who steers the ferry?", "local")
