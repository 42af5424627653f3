"""LlamaIndex retrieves from an index, and answers from it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.integrations.found_texts import Search
from tests.integrations.conftest import FRAME

pytest.importorskip("llama_index.core", reason="`make test-integrations` installs LlamaIndex")

from llama_index.core.schema import Document

from kumihimo.integrations.llamaindex import KumihimoQueryEngine, KumihimoRetriever

QUESTION = "Who drew the tide gates?"


def test_nodes_have_texts_scores_and_places(harbour: Kumihimo) -> None:
    retriever = KumihimoRetriever(harbour, Search("bm25", k=2))
    nodes = retriever.retrieve(QUESTION)
    assert len(nodes) == 2
    assert "Maren Oldacre" in nodes[0].text
    assert nodes[0].score > nodes[1].score
    assert nodes[0].metadata["uri"]
    metadata = retriever.retrieve("Who built the frame?")[0].metadata
    assert (metadata["author"], metadata["place"], metadata["document_place"]) == FRAME
    assert [node.id_ for node in asyncio.run(retriever.aretrieve(QUESTION))] == [node.id_ for node in nodes]


def test_documents_are_inserted_with_their_fields(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        retriever = KumihimoRetriever(kumi, Search(k=1))
        document = Document(text="Maren Oldacre drew the tide gates.", metadata={"author": "Nell Attery"})
        retriever.insert(document, Document(text="The net was mended.", id_="net"))
        (found,) = retriever.retrieve(QUESTION)
        assert (found.text, found.metadata["id"], found.metadata["author"]) == (
            document.text, document.id_, "Nell Attery",
        )  # fmt: skip
        assert kumi.remove(document.id_).rows["documents"] == 1


def test_an_answer_has_its_citations_as_nodes(harbour: Kumihimo) -> None:
    engine = KumihimoQueryEngine(harbour)
    response = engine.query(QUESTION)
    assert "Maren Oldacre drew the tide gates in 1983." in str(response)
    assert response.source_nodes[0].metadata["n"] == 1
    assert "Maren Oldacre" in response.source_nodes[0].text
    assert response.metadata["status"] == "answered"
    metadata = engine.query("Who built the frame of the tide gates?").source_nodes[0].metadata
    assert (metadata["author"], metadata["document_place"]) == (FRAME[0], FRAME[2])
    assert metadata["location"] == f"{metadata['uri']}, {metadata['place']}"
    assert str(asyncio.run(engine.aquery(QUESTION))) == str(response)
