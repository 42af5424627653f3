"""an index -> a retriever and a writer of Haystack: `pip install 'kumihimo[haystack]'`."""

from __future__ import annotations

from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict

from kumihimo.app.facade import Kumihimo
from kumihimo.integrations.found_texts import Search, add_texts, describe_row, find_evidence, row_name


@component
class KumihimoRetriever:
    """A component that retrieves from an index.

    index: its folder, so that a pipeline can be stored. top_k: documents at most; None: as many as the method finds.
    The other parameters are those of `Search`.
    """

    def __init__(
        self,
        index: str = ".kumi",
        method: str = "",
        top_k: int | None = None,
        filter: str = "",
        rights: str = "",
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.index, self.method, self.top_k = index, method, top_k
        self.filter, self.rights, self.settings = filter, rights, settings or {}
        self._kumi: Kumihimo | None = None

    def warm_up(self) -> None:
        """Open the index."""
        self._kumi = self._kumi or Kumihimo.open(self.index)

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator,unused-ignore]
    def run(self, query: str, top_k: int | None = None) -> dict[str, list[Document]]:
        """Return the documents for a question.

        top_k: in place of that of the component.
        """
        self.warm_up()
        assert self._kumi
        k = self.top_k if top_k is None else top_k
        search = Search(self.method, k, self.filter, self.rights, self.settings)
        return {
            "documents": [
                Document(id=row_name(item), content=item.text, meta=describe_row(item), score=item.score)
                for item in find_evidence(self._kumi, query, search)
            ]
        }

    def to_dict(self) -> dict[str, Any]:
        """Return what a stored pipeline holds."""
        names = ("index", "method", "top_k", "filter", "rights", "settings")
        stored: dict[str, Any] = default_to_dict(self, **{name: getattr(self, name) for name in names})
        return stored

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> KumihimoRetriever:
        """Return the component of a stored pipeline."""
        restored: KumihimoRetriever = default_from_dict(cls, data)
        return restored


@component
class KumihimoWriter:
    """Indexes the texts of documents.

    A document replaces one with the same id. index: its folder, so that a pipeline can be stored.
    """

    def __init__(self, index: str = ".kumi") -> None:
        self.index = index

    @component.output_types(documents_written=int)  # type: ignore[untyped-decorator,unused-ignore]
    def run(self, documents: list[Document]) -> dict[str, int]:
        """Index documents; return how many."""
        with Kumihimo.open(self.index) as kumi:
            texts = ((each.id, each.content, each.meta) for each in documents if each.content)
            return {"documents_written": len(add_texts(kumi, texts))}
