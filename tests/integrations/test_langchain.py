"""The retriever and the tool pass the tests that LangChain has for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from tests.integrations.conftest import FRAME

REASON = "`make test-integrations` installs LangChain and its tests"
pytest.importorskip("langchain_core", reason=REASON)
standard = pytest.importorskip("langchain_tests.integration_tests", reason=REASON)

from langchain_core.documents import Document  # noqa: E402

from kumihimo.integrations.langchain import KumihimoRetriever, KumihimoTool  # noqa: E402 (it needs langchain-core)

QUESTION = "Who drew the tide gates?"


@pytest.fixture(autouse=True)
def shared(request: pytest.FixtureRequest, harbour: Kumihimo) -> None:
    if request.cls:
        request.cls.kumi = harbour


class TestRetriever(standard.RetrieversIntegrationTests):  # type: ignore[misc,name-defined]
    kumi: Kumihimo

    @property
    def retriever_constructor(self) -> type[KumihimoRetriever]:
        return KumihimoRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"kumi": self.kumi, "method": "bm25"}

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


class TestTool(standard.ToolsIntegrationTests):  # type: ignore[misc,name-defined]
    kumi: Kumihimo

    @property
    def tool_constructor(self) -> type[KumihimoTool]:
        return KumihimoTool

    @property
    def tool_constructor_params(self) -> dict[str, Any]:
        return {"kumi": self.kumi}

    @property
    def tool_invoke_params_example(self) -> dict[str, str]:
        return {"question": QUESTION}


def test_a_document_says_where_it_stands(harbour: Kumihimo) -> None:
    (document,) = KumihimoRetriever(kumi=harbour, k=1).invoke(QUESTION)
    assert "Maren Oldacre" in document.page_content
    assert document.metadata["uri"]
    assert document.metadata["score"] > 0
    (document,) = KumihimoRetriever(kumi=harbour, k=1).invoke("Who built the frame?")
    assert tuple(document.metadata[name] for name in ("author", "place", "document_place")) == FRAME


def test_documents_are_added_with_their_fields(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        retriever = KumihimoRetriever(kumi=kumi, k=1)
        gates = Document("Maren Oldacre drew the tide gates.", id="gates", metadata={"author": "Nell Attery"})
        assert retriever.add_documents([gates, Document("The net was mended.")])[0] == "gates"
        ids = retriever.add_texts(["Joss Kerrow drew the tide gates."], [{"author": "Bo Lind"}], ["gates"])
        assert (ids, retriever.add_texts([])) == (["gates"], [])
        (document,) = retriever.invoke(QUESTION)
        assert document.page_content == "Joss Kerrow drew the tide gates."
        assert (document.metadata["id"], document.metadata["author"]) == ("gates", "Bo Lind")
        assert kumi.remove("gates").rows["documents"] == 1


def test_the_tool_answers_with_its_sources(harbour: Kumihimo) -> None:
    call = {"name": "ask_documents", "args": {"question": QUESTION}, "id": "1", "type": "tool_call"}
    message = KumihimoTool(kumi=harbour).invoke(call)
    assert "Maren Oldacre drew the tide gates in 1983." in message.content
    assert "\n[1] files/gates.md, line 3" in message.content
    assert message.artifact["status"] == "answered"
    call["args"] = {"question": "Who built the frame of the tide gates?"}
    message = KumihimoTool(kumi=harbour).invoke(call)
    assert message.artifact["citations"][0]["metadata"]["author"] == FRAME[0]
