"""addresses under /overview and /documents -> what the documents are, and each as text with a passage marked."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse import browse, community_tree, document_list, json_values, source_files
from kumihimo.core.wiring import ROOT
from kumihimo.server import problems, sessions
from kumihimo.server.api import builds, documents as documents_api
from kumihimo.server.pages import errors, rendering, status
from kumihimo.server.pages.context import AllowedPage, IndexPage, read_or
from kumihimo.server.uploads import MAX_FILES

router = APIRouter(route_class=errors.PageRoute, include_in_schema=False)
_PAGE_SIZE = 50
_MAX_PLACES = 400  # links to pages of one document
WINDOW = 20_000  # characters of a document on one page
_LEAD = WINDOW // 4  # before a passage
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n+|\n(?=[#|-] ?)")


@router.get("/overview")
async def show_overview(page: AllowedPage, part: str = "") -> HTMLResponse:
    """Send the overview of all documents, or of a folder or year."""

    def read(snapshot: Snapshot) -> dict[str, Any]:
        overview = problems.require_row(browse.browse_overview(snapshot, part.strip()), "folder or year", part)
        return {
            "overview": json_values.overview_json(snapshot, overview),
            "reports": len(community_tree.table_or_empty(snapshot, "reports")),
        }

    values = await read_or(page, {"overview": None, "reports": 0}, read)
    return await rendering.render(page, "overview.html", **values, part=part.strip(), name_value=browse.name_value)


@router.get("/documents")
async def show_documents(page: AllowedPage, q: str = "", filter: str = "", after: str = "") -> HTMLResponse:
    """Send a page of the list of documents."""
    return await _render_list(page, q, filter, after)


async def _render_list(
    page: IndexPage, q: str = "", filter: str = "", after: str = "", refused: Sequence[str] = ()
) -> HTMLResponse:
    """Return a page of the list of documents.

    refused: the reasons for the files of a form that were not taken.
    """

    def read(snapshot: Snapshot) -> dict[str, Any]:
        documents, listed = document_list.DocumentList(snapshot), document_list.DocumentList(snapshot.narrowed(filter))
        rows = listed.page(q, after=after, limit=_PAGE_SIZE)
        folder = documents_api.upload_folder(page.access).resolve()
        uploads = source_files.file_uri(page.access.served.kumi.opened, snapshot, folder / "_")[:-1]
        matching = len(listed.table) if filter else None
        return {
            "rows": rows,
            "uploads": uploads,
            "matching": matching,
            **documents_api.describe_files(page.access, snapshot, documents),
        }

    empty = {"rows": None, "uploads": "", "matching": None, **documents_api.empty_list(page.access)}
    values = await read_or(page, empty, read)
    suffixes = sorted({*page.access.served.kumi.catalogue.readers} - {""})
    jobs = await run_in_threadpool(partial(status.list_jobs, page, running=True))
    return await rendering.render(
        page,
        "documents.html",
        **values,
        q=q,
        filter=filter,
        after=after,
        suffixes=suffixes,
        jobs=jobs,
        refused=refused,
        form_limits=(MAX_FILES, page.request.app.state.settings.max_upload),
    )


@router.post("/documents")
async def store_documents(page: AllowedPage) -> Response:
    """Store the files of a form, and queue a build."""
    request = page.request
    form, _ = await documents_api.store_upload(
        request, page.access, lambda form: sessions.check_csrf(request, form.fields.get("csrf", ""))
    )
    if form.refused:
        return await _render_list(page, refused=form.refused)
    return RedirectResponse(page.address("/documents", "builds"), 303)


@router.get("/documents/{id}/delete")
async def confirm_delete(page: AllowedPage, id: str) -> HTMLResponse:
    """Send the question whether to delete a document."""
    removal = await page.access.read(lambda s: documents_api.find_removal(page.access, s, id))
    return await rendering.render(page, "delete.html", document=removal[0])


@router.post("/documents/{id}/delete")
async def remove_document(page: AllowedPage, id: str) -> Response:
    """Queue the removal of a document."""
    await documents_api.delete_document(page.access, id)
    return RedirectResponse(page.address("/documents", "builds"), 303)


@router.post("/builds")
async def queue_build(page: AllowedPage) -> Response:
    """Queue a build, which tries failed files again."""
    page.access.served.builds.index(key=page.access.grant.key)
    return RedirectResponse(page.address("/documents", "builds"), 303)


@router.post("/builds/{id}/cancel")
async def stop_build(page: AllowedPage, id: str) -> Response:
    """Stop a build."""
    page.access.served.builds.cancel(builds.find_job(page.access, id).id)
    return RedirectResponse(page.address("/documents", "builds"), 303)


@router.get("/documents/{id}")
async def show_document(page: AllowedPage, id: str, start: int = 0, end: int = 0, at: int = 0) -> HTMLResponse:
    """Send a part of the text of a document.

    start, end: a passage to mark, in characters. at: where the part begins if there is no passage.
    """

    def read(snapshot: Snapshot) -> dict[str, Any]:
        documents = document_list.DocumentList(snapshot)
        document = problems.require_row(documents.find(id), "document", id)
        part = problems.require_row(documents.read_text(id, *choose_window(start, end, at)), "document", id)
        places = snapshot.table(ROOT)[id].places[:_MAX_PLACES]
        named = [(offset, page.translate(name)) for offset, name in places if name]
        paragraphs = list(split_paragraphs(part, start, end))
        return {"document": document, "part": part, "places": named, "paragraphs": paragraphs}

    values = await page.access.read(read)
    return await rendering.render(page, "document.html", **values, passage=(start, end), window=WINDOW)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of a document.

    pieces: its text, and whether each piece is of the passage. place: a page or sheet that begins here, or that around
    the first paragraph. line: its number in the file; 0: unknown. first: whether the passage begins here.
    """

    pieces: tuple[tuple[str, bool], ...]
    place: str = ""
    line: int = 0
    first: bool = False


def choose_window(start: int, end: int, at: int) -> tuple[int, int]:
    """Return the part of a document to read.

    start, end: of a passage; without one, the part begins at `at`.

    >>> choose_window(30_000, 30_200, 0), choose_window(0, 0, 20_000)
    ((25000, 45000), (20000, 40000))
    """
    begin = max(0, start - _LEAD) if end > start else max(0, at)
    return begin, max(begin + WINDOW, min(end, begin + 3 * WINDOW))


def split_paragraphs(part: document_list.DocumentText, start: int, end: int) -> Iterator[Paragraph]:
    """Yield the paragraphs of a part of a document.

    start, end: the passage to mark, in characters of the document.
    """
    line, begun, starts = part.line, end <= start, [position for position, _ in part.places]
    for first, last in _paragraph_spans(part):
        text = part.text[first - part.start : last - part.start]
        pieces = tuple(_mark(text.rstrip("\n"), start - first, end - first))
        is_first = not begun and any(marked for _, marked in pieces)
        begun = begun or is_first
        if text.strip():
            place = bisect_right(starts, first) - 1
            is_new = place >= 0 and (starts[place] == first or first == part.start)
            yield Paragraph(pieces, part.places[place][1] if is_new else "", line, is_first)
        line += text.count("\n") if line else 0


def _paragraph_spans(part: document_list.DocumentText) -> Iterator[tuple[int, int]]:
    """Yield start and end of each paragraph.

    A new page begins one too.
    """
    ends = {part.start + match.end() for match in _PARAGRAPH_END.finditer(part.text)}
    cuts = sorted({part.start, part.end, *ends, *(start for start, _ in part.places if start > part.start)})
    yield from pairwise(cuts)


def _mark(text: str, start: int, end: int) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a text, one of them marked."""
    start, end = max(start, 0), min(end, len(text))
    if end <= start:
        yield text, False
        return
    for piece, marked in ((text[:start], False), (text[start:end], True), (text[end:], False)):
        if piece:
            yield piece, marked
