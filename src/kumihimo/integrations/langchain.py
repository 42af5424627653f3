"""an index -> a retriever and a tool of LangChain: `pip install 'kumihimo[langchain]'`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun, CallbackManagerForToolRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool
from pydantic import BaseModel, ConfigDict, Field

from kumihimo.app.facade import Kumihimo
from kumihimo.integrations.found_texts import Search, add_texts, describe_row, find_evidence, row_name


class KumihimoRetriever(BaseRetriever):
    """A retriever over an index.

    kumi: an open index. The other fields are those of `Search`. `invoke(question, k=3)` overrides `k`. The metadata of
    a document has the score of the method, the place of its first source and the fields of that.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    kumi: Kumihimo
    method: str = ""
    k: int | None = None
    filter: str = ""
    rights: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 (LangChain passes it)
        k: int | None = None,
    ) -> list[Document]:
        search = Search(self.method, self.k if k is None else k, self.filter, self.rights, self.settings)
        return [
            Document(id=row_name(item), page_content=item.text, metadata={**describe_row(item), "score": item.score})
            for item in find_evidence(self.kumi, query, search)
        ]

    def add_documents(self, documents: Sequence[Document], ids: Sequence[str] | None = None) -> list[str]:
        """Index documents, in place of those with the same ids.

        Return the ids. ids: in place of those of the documents; without any, a digest of the text is the id.
        """
        named = zip(ids or [each.id for each in documents], documents, strict=True)
        return add_texts(self.kumi, ((id, each.page_content, each.metadata) for id, each in named))

    def add_texts(
        self, texts: Iterable[str], metadatas: Sequence[dict[str, Any]] | None = None, ids: Sequence[str] | None = None
    ) -> list[str]:
        """Index texts; return their ids."""
        pairs = zip(texts, metadatas, strict=True) if metadatas else ((text, {}) for text in texts)
        return self.add_documents([Document(text, metadata=fields) for text, fields in pairs], ids)


class ToolArguments(BaseModel):
    """The arguments of the tool."""

    question: str = Field(description="A whole question, in the language of the person.")


class KumihimoTool(BaseTool):
    """A tool that answers questions from an index, with citations.

    kumi: an open index. method, filter, rights: as for `Search`. Its artifact is `Answer.to_dict()`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    name: str = "ask_documents"
    description: str = (
        "Answers a question from the documents of the user. Every statement has a number in brackets; the list of "
        "sources below the answer says where it stands."
    )
    args_schema: type[BaseModel] = ToolArguments
    response_format: str = "content_and_artifact"
    kumi: Kumihimo
    method: str = ""
    filter: str = ""
    rights: str = ""

    def _run(
        self,
        question: str,
        run_manager: CallbackManagerForToolRun | None = None,  # noqa: ARG002 (LangChain passes it)
    ) -> tuple[str, dict[str, Any]]:
        answer = self.kumi.ask(question, self.method, filter=self.filter, rights=self.rights)
        return str(answer), answer.to_dict()
