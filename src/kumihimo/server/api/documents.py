"""documents of an index -> HTTP: list, upload, add, delete, the text of one, the passages of a row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, TypeAdapter
from starlette.concurrency import run_in_threadpool

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.document_list import DocumentList, FailedFile, ListedDocument
from kumihimo.app.browse.json_values import Json, plain
from kumihimo.app.browse.source_files import file_uri, find_file, is_excluded, surround
from kumihimo.app.build.texts import dump_texts, text_file_name
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SettingsError, SourceError
from kumihimo.core.wiring import ROOT
from kumihimo.server.access import WHOLE_FILE, Access, Allowed, read_route
from kumihimo.server.api import parameters
from kumihimo.server.api.builds import build_json, visible_jobs
from kumihimo.server.builds import BuildJob
from kumihimo.server.problems import NotFound, accepted_language, require_row
from kumihimo.server.responses import json_response
from kumihimo.server.uploads import INCOMING, MAX_FILES, Form, ReadJson, allowed_path, receive_form, require_space
from kumihimo.text.translation import translate

router = APIRouter(tags=["documents"])
_MAX_TEXT = 100_000  # characters of one response
_MAX_FAILED = 200
_MAX_AROUND = 5000  # characters beside a passage
_EMPTY = "no text was found in this file: if it is a scan, run a text recognition over it first"


@dataclass(frozen=True)
class AddedPath:
    """A file or folder on the server, to be indexed."""

    __pydantic_config__: ClassVar[Any] = parameters.STRICT
    path: parameters.PathText


@dataclass(frozen=True)
class PostedText:
    """A text, with the fields of its document. id: empty for a digest of the text."""

    __pydantic_config__: ClassVar[Any] = parameters.STRICT
    text: Annotated[str, parameters.Mended]
    id: Annotated[str, Field(max_length=parameters.MAX_ID), parameters.Mended] = ""
    title: Annotated[str, Field(max_length=parameters.MAX_ID), parameters.Mended] = ""
    metadata: Annotated[dict[parameters.Name, Any], Field(max_length=MAX_FILES)] = field(default_factory=dict)


@dataclass(frozen=True)
class PostedTexts:
    """Texts to be indexed."""

    __pydantic_config__: ClassVar[Any] = parameters.STRICT
    documents: Annotated[list[PostedText], Field(min_length=1, max_length=MAX_FILES)]


_POSTED = TypeAdapter(PostedTexts)
_FORM = {"type": "object", "properties": {"file": {"type": "array", "items": {"type": "string", "format": "binary"}}}}
_UPLOAD_BODY = parameters.body_schema(_POSTED)
_UPLOAD_BODY["requestBody"]["content"]["multipart/form-data"] = {"schema": _FORM}


def _read_texts(body: bytes) -> dict[str, bytes]:
    """Return the file of each text in a body of JSON."""
    texts = parameters.parse_body(_POSTED, body).documents
    columns = {"ids": [each.id for each in texts], "titles": [each.title for each in texts]}
    return dump_texts([each.text for each in texts], **columns, metadata=[each.metadata for each in texts])


@router.get("/documents")
async def list_documents(
    access: Allowed,
    q: parameters.SearchText = "",
    filter: parameters.FilterQuery = "",
    after: parameters.Cursor = "",
    limit: parameters.Limit = 50,
) -> Response:
    """List documents by uri, with their state.

    The first page also has `counts`, the files that `failed`, with the remedy, and those that are `waiting`.
    """

    if not access.served.kumi.store.exists():
        return await json_response(lambda: empty_list(access))

    def read(snapshot: Snapshot) -> Json:
        listing = DocumentList(snapshot.narrowed(filter))
        page = listing.page(q, after=after, limit=limit)
        body = {"documents": plain(page.items), "next": page.next}
        return body if after else {**body, **describe_files(access, snapshot, listing)}

    return await access.respond(read)


def empty_list(access: Access) -> Json:
    """Return the list of an index before its first build."""
    waiting = _upload_names(access)
    counts = {"documents": 0, "partial": 0, "failed": 0, "waiting": len(waiting)}
    return {"documents": [], "next": "", "counts": counts, "failed": [], "waiting": waiting[:_MAX_FAILED]}


def describe_files(access: Access, snapshot: Snapshot, listing: DocumentList) -> Json:
    """Return the counts, and the files that are no documents yet."""
    unread = _unread_uploads(access, snapshot)
    failed, waiting = _list_failed(access, listing, unread)
    counts = {**listing.counts(), "failed": len(failed), "waiting": len(waiting)}
    return {"counts": counts, "failed": plain(failed[:_MAX_FAILED]), "waiting": waiting[:_MAX_FAILED]}


def _list_failed(
    access: Access, listing: DocumentList, unread: list[tuple[str, str]]
) -> tuple[list[FailedFile], list[str]]:
    """Return the files that could not be read.

    Beside them are the uploads that wait for a build. unread: uri and name of each upload without a document.
    """
    uploads = {uri for uri, _ in unread}
    failed = [replace(file, is_upload=file.uri in uploads) for file in listing.failed_files()]
    known = {file.uri for file in failed}
    new = [(uri, name) for uri, name in unread if uri not in known]
    if any(not job.has_ended for job in visible_jobs(access)):
        return failed, [name for _, name in new]
    empty = (uri or name for uri, name in new)
    return [*failed, *(FailedFile(hash_parts(uri), uri, _EMPTY, is_upload=True) for uri in empty)], []


def _unread_uploads(access: Access, snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return uri and name of the sender's uploads without a document."""
    folder, documents = upload_folder(access).resolve(), snapshot.stored_table("documents")
    uris = [(file_uri(access.served.kumi.opened, snapshot, folder / name), name) for name in _upload_names(access)]
    return [(uri, name) for uri, name in uris if not uri or not documents.ids(file=uri)]


def _upload_names(access: Access) -> list[str]:
    """Return the names of the files that the sender has uploaded."""
    folder = upload_folder(access)
    paths = folder.iterdir() if folder.is_dir() else ()
    return sorted(path.name for path in paths if path.is_file() and not path.name.startswith("."))


def upload_folder(access: Access) -> Path:
    """Return the folder for the uploads of the sender.

    One who sees only some documents has a folder apart: no name of a hidden file is taken or replaced.
    """
    return access.served.uploads / access.grant.key if access.rights else access.served.uploads


@router.post("/documents", status_code=202, openapi_extra=_UPLOAD_BODY)
async def upload_documents(request: Request, access: Allowed) -> Response:
    """Store the files of a form, or texts, and queue a build.

    A file replaces an earlier upload of the same name, and a text one of the same id. `refused` has the reason for each
    file that was not taken. The form is multipart/form-data; the names of its fields do not matter.
    """
    form, job = await store_upload(request, access, read_json=_read_texts)
    if job is None:
        raise SourceError("\n".join(form.refused))
    files = [{"name": file.name, "bytes": file.bytes} for file in form.files]
    language = accepted_language(request.headers)
    refused = [translate(reason, language) for reason in form.refused]
    return await json_response(lambda: {"files": files, "refused": refused, "build": build_json(access, job)}, 202)


async def store_upload(
    request: Request, access: Access, check: Callable[[Form], None] = lambda _: None, read_json: ReadJson | None = None
) -> tuple[Form, BuildJob | None]:
    """Store the files of a form, and queue a build of them.

    Without a file that is taken, there is no build. check: raises an error for a form that is not accepted. read_json:
    as for `receive_form`. Raises NotStored if the uploads take too much space.
    """
    folder, readers = upload_folder(access), access.served.kumi.catalogue.readers
    check_space = partial(require_space, access.served.uploads, request.app.state.settings.upload_space)
    await run_in_threadpool(check_space)
    async with receive_form(request, folder, readers, read_json) as form:
        check(form)
        await run_in_threadpool(check_space)
        names = await run_in_threadpool(form.store, folder)
    return form, await queue_uploads(access, [folder.resolve() / name for name in names]) if names else None


async def queue_uploads(access: Access, new: Sequence[Path] = ()) -> BuildJob:
    """Queue a build of the uploads.

    new: files that are there again if they were removed before. Nothing else that was removed comes back, so the build
    names a folder without files: if it named that of the uploads, all that is missing there would be read again.
    """
    kumi, uploads = access.served.kumi, access.served.uploads.resolve()
    marker = uploads / INCOMING
    marker.mkdir(parents=True, exist_ok=True)

    def find_paths(snapshot: Snapshot) -> list[Path]:
        if not file_uri(kumi.opened, snapshot, marker):
            return [uploads]
        return [marker, *(path for path in new if is_excluded(kumi.opened, snapshot, path))]

    paths = await access.read(find_paths) if kumi.store.exists() else [uploads]
    return access.served.builds.index([*map(str, paths)], key=access.grant.key)


@router.post("/documents/paths", status_code=202)
async def add_path(request: Request, access: Allowed, body: parameters.Body[AddedPath]) -> Response:
    """Queue a build that adds a file or folder of the server.

    It has to be inside the folders that `kumi serve --root` names.
    """
    path = allowed_path(body.path, request.app.state.settings.roots)
    job = access.served.builds.index([str(path)], key=access.grant.key)
    return await json_response(lambda: {"path": str(path), "build": build_json(access, job)}, 202)


@read_route(router, "/documents/{id}")
def get_document(snapshot: Snapshot, id: parameters.RowId) -> Json:
    """Return a document without its text."""
    listing = DocumentList(snapshot)
    document = require_row(listing.find(id), "document", id)
    chunks = snapshot.table("chunks").child_values([id], "id")[id] if snapshot.db.has("chunks") else []
    text = require_row(listing.read_text(id, 0, 0), "document", id)
    return {**plain(document), "characters": text.characters, "chunks": len(chunks)}


@read_route(router, "/documents/{id}/text")
def get_text(
    snapshot: Snapshot,
    id: parameters.RowId,
    start: Annotated[int, Query(ge=0)] = 0,
    end: Annotated[int | None, Query(ge=0)] = None,
) -> Json:
    """Return a part of the text of a document, with its pages.

    It is plain text, as the reader has extracted it. At most 100,000 characters come at once.
    """
    last = start + _MAX_TEXT if end is None else min(end, start + _MAX_TEXT)
    text = require_row(DocumentList(snapshot).read_text(id, start, last), "document", id)
    return {**plain(text), "places": [{"start": start, "name": name} for start, name in text.places]}


@router.delete("/documents/{id}", status_code=202)
async def delete_document(access: Allowed, id: parameters.RowId, whole_file: bool = False) -> Response:
    """Queue the removal of a document; an uploaded file is deleted.

    So is one that could not be read. A text is also found by the id that it was sent with. whole_file: of a file with
    several documents, remove all. Files that were not uploaded stay where they are; they are not read again until their
    path is added.
    """
    document, uri, upload = await access.read(lambda s: find_removal(access, s, id, whole_file=whole_file))
    if upload:
        upload.unlink(missing_ok=True)
        job = await queue_uploads(access)
    else:
        job = access.served.builds.remove(uri, key=access.grant.key)
    return await json_response(lambda: {"document": plain(document), "build": build_json(access, job)}, 202)


def find_removal(
    access: Access, snapshot: Snapshot, id: str, *, whole_file: bool = False
) -> tuple[ListedDocument | FailedFile, str, Path | None]:
    """Return what to remove: a document, its uri, and its uploaded file.

    id: of the document, or that with which the sender has sent a text.
    The uri is that of the file if it goes as a whole; then an uploaded file is to be deleted. Raises NotFound,
    SettingsError for a failed file that was not uploaded, and Forbidden for a file with documents that the sender does
    not see. A file of another sender is refused if it may have such, so that this tells of none.
    """
    path_of_text = upload_folder(access).resolve() / text_file_name(id)
    uri_of_text = file_uri(access.served.kumi.opened, snapshot, path_of_text)
    document = DocumentList(snapshot).find(id) or DocumentList(snapshot).find(hash_parts(uri_of_text))
    if document is None:
        failed, uploaded = _find_failed(access, snapshot, id)
        return failed, failed.uri, uploaded
    if not whole_file and document.uri != document.file:
        return document, document.uri, None
    path = find_file(access.served.kumi.opened, snapshot, document.file)
    folders = path.resolve().parents if path else ()
    file_type = access.served.kumi.catalogue.readers.get(PurePosixPath(document.file).suffix.lower())
    may_have_parts = whole_file or not file_type or file_type.has_attachments
    visible, stored = (table.ids(file=document.file) for table in (snapshot.table(ROOT), snapshot.stored_table(ROOT)))
    if len(visible) < len(stored) or (may_have_parts and upload_folder(access).resolve() not in folders):
        access.grant.require(WHOLE_FILE)
    return document, document.file, path if access.served.uploads.resolve() in folders else None


def _find_failed(access: Access, snapshot: Snapshot, id: str) -> tuple[FailedFile, Path]:
    """Return an uploaded file without a document, and its path.

    Raises NotFound, and SettingsError if it was not uploaded.
    """
    unread = _unread_uploads(access, snapshot)
    failed, _ = _list_failed(access, DocumentList(snapshot), unread)
    file = require_row(next((each for each in failed if each.id == id), None), "document", id)
    if not file.is_upload:
        raise SettingsError(f"{file.uri} was not uploaded: delete the file where it is, then start a build")
    names = {uri or name: name for uri, name in unread}
    return file, upload_folder(access) / names[file.uri]


@read_route(router, "/trace/{table}/{id:path}")
def trace(
    snapshot: Snapshot,
    table: parameters.Table,
    id: parameters.RowId,
    around: Annotated[int, Query(ge=0, le=_MAX_AROUND, description="Characters before and after.")] = 600,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Json:
    """Return the passages that a row comes from.

    Each has its `page`: the text around it, no more than its page, slide or sheet, with `start` and `end` of the
    passage in this text. `more` says whether there are further passages.
    """
    if table not in snapshot.record_types or not snapshot.db.has(table):
        raise NotFound(f"no table {table!r} here: a piece of evidence has `table` and `id`")
    row = require_row(snapshot.table(table).get(id), "row", id)
    spans = list(islice(snapshot.trace((table, id)), limit + 1))
    pages = [{**span.to_dict(), "page": surround(snapshot, span, around)} for span in spans[:limit]]
    return {"table": table, "id": id, "text": row.text, "spans": pages, "more": len(spans) > limit}
