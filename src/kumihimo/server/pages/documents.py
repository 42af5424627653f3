"""addresses under /documents -> the documents of an index, and each as text with a passage marked."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.document_list import DocumentList, DocumentText, ListedDocument
from kumihimo.app.browse.source_files import file_uri
from kumihimo.core.wiring import ROOT
from kumihimo.server.api import documents as documents_api
from kumihimo.server.api.build_values import queue_index
from kumihimo.server.api.documents import describe_files, excluded_paths, upload_folder
from kumihimo.server.api.reading import found, read_index
from kumihimo.server.pages.errors import PageRoute
from kumihimo.server.pages.job_list import list_jobs
from kumihimo.server.pages.passages import WINDOW, choose_window, split_paragraphs
from kumihimo.server.pages.reading import read_or
from kumihimo.server.pages.rendering import EditorVisit, ReaderVisit, Visit, render
from kumihimo.server.sessions import check_csrf, read_form
from kumihimo.server.uploads import receive_form

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_PAGE_SIZE = 50
_MAX_PLACES = 400  # links to pages of one document


@router.get("/documents")
async def show_documents(visit: ReaderVisit, q: str = "", filter: str = "", after: str = "") -> HTMLResponse:
    """Send a page of the list of documents."""

    def read(snapshot: Snapshot) -> dict[str, Any]:
        documents, listed = DocumentList(snapshot), DocumentList(snapshot.narrowed(filter))
        page = listed.page(q, after=after, limit=_PAGE_SIZE)
        uploads = file_uri(visit.access.served.kumi, snapshot, upload_folder(visit.access).resolve() / "_")[:-1]
        return {"page": page, "uploads": uploads, **describe_files(visit.access, snapshot, documents)}

    empty: dict[str, Any] = {
        "page": None,
        "uploads": "",
        "counts": {"documents": 0, "partial": 0, "failed": 0},
        "failed": [],
    }
    values = await read_or(visit, empty, read)
    suffixes = sorted({*visit.access.served.kumi.catalogue.readers} - {""})
    jobs = list_jobs(visit, running=True)
    return render(visit, "documents.html", **values, q=q, filter=filter, after=after, suffixes=suffixes, jobs=jobs)


@router.post("/documents")
async def upload_documents(visit: EditorVisit) -> Response:
    """Store the files of a form, and queue a build."""
    request, access = visit.request, visit.access
    folder, kumi, limit = upload_folder(access), access.served.kumi, request.app.state.settings.max_upload
    async with receive_form(request, folder, max_file=limit, readers=kumi.catalogue.readers) as form:
        check_csrf(request, form.fields.get("csrf", ""))
        names = form.store(folder)
    queue_index(request, access, [str(access.served.uploads), *await excluded_paths(access, folder, names)])
    return RedirectResponse(visit.address("/documents", "builds"), 303)


@router.get("/documents/{id}/delete")
async def confirm_delete(visit: EditorVisit, id: str) -> HTMLResponse:
    """Send the question whether to delete a document."""
    document = found(await read_index(visit.request, visit.access, lambda s: DocumentList(s).find(id)), "document", id)
    return render(visit, "delete.html", document=document)


@router.post("/documents/{id}/delete")
async def delete_document(visit: EditorVisit, id: str) -> Response:
    """Queue the removal of a document."""
    await read_form(visit.request)
    await documents_api.delete_document(visit.request, visit.access, id)
    return RedirectResponse(visit.address("/documents", "builds"), 303)


@router.post("/builds")
async def start_build(visit: EditorVisit) -> Response:
    """Queue a build, which tries failed files again."""
    await read_form(visit.request)
    queue_index(visit.request, visit.access)
    return RedirectResponse(visit.address("/documents", "builds"), 303)


@router.post("/builds/{id}/cancel")
async def cancel_build(visit: EditorVisit, id: str) -> Response:
    """Stop a build."""
    await read_form(visit.request)
    visit.access.served.builds.cancel(id)
    return RedirectResponse(visit.address("/documents", "builds"), 303)


@router.get("/documents/{id}")
async def show_document(visit: ReaderVisit, id: str, start: int = 0, end: int = 0, at: int = 0) -> HTMLResponse:
    """Send a part of the text of a document.

    start, end: a passage to mark, in characters. at: where the part begins if there is no passage.
    """

    def read(snapshot: Snapshot) -> tuple[ListedDocument, DocumentText, list[tuple[int, str]]]:
        documents = DocumentList(snapshot)
        document = found(documents.find(id), "document", id)
        part = found(documents.read_text(id, *choose_window(start, end, at)), "document", id)
        return document, part, _named_places(visit, snapshot.table(ROOT)[id].places)

    document, part, places = await read_index(visit.request, visit.access, read)
    return render(
        visit,
        "document.html",
        document=document,
        part=part,
        paragraphs=list(split_paragraphs(part, start, end)),
        passage=(start, end),
        places=places,
        window=WINDOW,
    )


def _named_places(visit: Visit, places: tuple[tuple[int, str], ...]) -> list[tuple[int, str]]:
    return [(start, visit.translate(name)) for start, name in places[:_MAX_PLACES] if name]
