"""addresses under /documents -> the documents of an index, and each as text with a passage marked."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from kumihimo.app.document_list import DocumentList
from kumihimo.core.errors import IndexUnavailable
from kumihimo.server.pages.errors import PageRoute
from kumihimo.server.pages.passages import WINDOW, choose_window, split_paragraphs
from kumihimo.server.pages.rendering import ReaderVisit, Visit, render
from kumihimo.server.problems import NotFound

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_PAGE_SIZE = 50
_MAX_PLACES = 400  # links to pages of one document


@router.get("/documents")
def show_documents(visit: ReaderVisit, q: str = "", filter: str = "", after: str = "") -> HTMLResponse:
    """Send a page of the list of documents."""
    kumi = visit.access.served.kumi
    values: dict[str, Any] = {"page": None, "counts": {"documents": 0, "partial": 0, "failed": 0}, "failed": []}
    try:
        with kumi.snapshot(rights=visit.access.rights) as snapshot:
            documents = DocumentList(snapshot)
            values = {"counts": documents.counts(), "failed": documents.failed_files()}
            listed = DocumentList(snapshot.narrowed(filter))
            values["page"] = listed.page(q, after=after, limit=_PAGE_SIZE)
    except IndexUnavailable:
        pass  # nothing has been added yet
    suffixes = sorted(suffix for suffix in kumi.catalogue.readers)
    return render(visit, "documents.html", **values, q=q, filter=filter, after=after, suffixes=suffixes, jobs=[])


@router.get("/documents/{id}")
def show_document(visit: ReaderVisit, id: str, start: int = 0, end: int = 0, at: int = 0) -> HTMLResponse:
    """Send a part of the text of a document.

    start, end: a passage to mark, in characters. at: where the part begins if there is no passage.
    """
    with visit.access.served.kumi.snapshot(rights=visit.access.rights) as snapshot:
        documents = DocumentList(snapshot)
        document, part = documents.find(id), documents.read_text(id, *choose_window(start, end, at))
        places = snapshot.table("documents")[id].places if document else ()
    if document is None or part is None:
        raise NotFound("this document is not in the index: search for it among the documents")
    return render(
        visit,
        "document.html",
        document=document,
        part=part,
        paragraphs=list(split_paragraphs(part, start, end)),
        passage=(start, end),
        places=_numbered_places(visit, places),
        window=WINDOW,
    )


def _numbered_places(visit: Visit, places: tuple[tuple[int, str], ...]) -> list[tuple[int, str]]:
    return [(start, visit.translate(name)) for start, name in places[:_MAX_PLACES] if name]
