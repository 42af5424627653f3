"""A pipeline of Haystack retrieves from an index, and can be stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from kumihimo import Kumihimo
from tests.integrations.conftest import FRAME

haystack = pytest.importorskip("haystack", reason="`make test-integrations` installs Haystack")

from kumihimo.integrations.haystack import KumihimoRetriever, KumihimoWriter  # noqa: E402

QUESTION = "Who drew the tide gates?"


def test_a_pipeline_retrieves_and_can_be_stored(harbour: Kumihimo) -> None:
    pipeline = haystack.Pipeline()
    pipeline.add_component("retriever", KumihimoRetriever(str(harbour.folder), "bm25", top_k=2))
    restored = haystack.Pipeline.loads(pipeline.dumps(), allowed_modules=["kumihimo.integrations.haystack"])
    found = restored.run({"retriever": {"query": QUESTION}})["retriever"]["documents"]
    assert len(found) == 2
    assert "Maren Oldacre" in found[0].content
    assert found[0].score > found[1].score
    assert found[0].meta["uri"]
    (frame,) = restored.run({"retriever": {"query": "Who built the frame?", "top_k": 1}})["retriever"]["documents"]
    assert (frame.meta["author"], frame.meta["place"], frame.meta["document_place"]) == FRAME
    assert len(restored.run({"retriever": {"query": QUESTION, "top_k": 1}})["retriever"]["documents"]) == 1


def test_a_pipeline_writes_documents_with_their_fields(tmp_path: Path) -> None:
    index, pipeline = str(tmp_path / ".kumi"), haystack.Pipeline()
    pipeline.add_component("writer", KumihimoWriter(index))
    restored = haystack.Pipeline.loads(pipeline.dumps(), allowed_modules=["kumihimo.integrations.haystack"])
    gates = haystack.Document(content="Maren Oldacre drew the tide gates.", meta={"author": "Nell Attery"})
    written = restored.run({"writer": {"documents": [gates, haystack.Document(content="A net."), haystack.Document()]}})
    assert written == {"writer": {"documents_written": 2}}
    (found,) = KumihimoRetriever(index, top_k=1).run(QUESTION)["documents"]
    assert (found.content, found.meta["id"], found.meta["author"]) == (gates.content, gates.id, "Nell Attery")
