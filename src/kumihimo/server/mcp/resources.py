"""addresses such as kumi://INDEX/documents/ID -> documents and reports as text, listed by pages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal
from urllib.parse import quote, unquote

import mcp_types as types

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.document_list import DocumentList
from kumihimo.server.mcp.results import BadArgument
from kumihimo.text.sentences import shorten_title

Kind = Literal["documents", "reports"]
PAGE_SIZE = 100
MAX_TEXT = 100_000  # characters of one answer
_MAX_TITLE = 200
_SCHEME = "kumi://"
_ADDRESS = re.compile(rf"{_SCHEME}([^/]+)/(documents|reports)/([^/?#]*)(?:\?start=(\d{{1,12}}))?")


@dataclass(frozen=True, slots=True)
class KumiUri:
    """The address of a document or a report. start: the first character to read."""

    index: str
    kind: Kind
    id: str
    start: int = 0

    def __str__(self) -> str:
        start = f"?start={self.start}" if self.start else ""
        return f"kumi://{quote(self.index, safe='')}/{self.kind}/{self.id}{start}"

    @classmethod
    def parse(cls, address: str) -> "KumiUri":
        """Return the parts of an address. Raise BadArgument for another form.

        >>> KumiUri.parse("kumi://my%20notes/documents/4f37?start=100")
        KumiUri(index='my notes', kind='documents', id='4f37', start=100)
        """
        match = _ADDRESS.fullmatch(address)
        if not match:
            raise BadArgument(
                f"{address!r} is no address of this server: kumi://INDEX/documents/ID or kumi://INDEX/reports/ID"
            )
        return cls(
            unquote(match[1]), "documents" if match[2] == "documents" else "reports", match[3], int(match[4] or 0)
        )


TEMPLATES = [
    types.ResourceTemplate(
        name="document",
        title="Document",
        uri_template="kumi://{index}/documents/{id}{?start}",
        description="The text of a document, from a character on.",
        mime_type="text/plain",
    ),
    types.ResourceTemplate(
        name="report",
        title="Report",
        uri_template="kumi://{index}/reports/{id}{?start}",
        description="A report on a part of the collection, in Markdown.",
        mime_type="text/markdown",
    ),
]


def first_cursor(index: str) -> str:
    """Return the cursor of the beginning of an index."""
    return str(KumiUri(index, "documents", "")).removeprefix(_SCHEME)


def parse_cursor(cursor: str) -> KumiUri:
    """Return the last resource of a page. Raise BadArgument for another cursor."""
    try:
        return KumiUri.parse(_SCHEME + cursor)
    except BadArgument:
        raise BadArgument(f"{cursor!r} is no cursor of this server: begin again without one") from None


def list_page(snapshot: Snapshot, after: KumiUri) -> tuple[list[types.Resource], str]:
    """Return a page of resources, and the next cursor.

    after: the last resource of the page before. Documents come first, then reports. The cursor is empty at the end.
    """
    found = list(islice(_resources(snapshot, after), PAGE_SIZE + 1))
    if len(found) <= PAGE_SIZE:
        return found, ""
    return found[:PAGE_SIZE], str(found[PAGE_SIZE - 1].uri).removeprefix(_SCHEME)


def _resources(snapshot: Snapshot, after: KumiUri) -> Iterator[types.Resource]:
    if after.kind == "documents":
        documents, id = DocumentList(snapshot), after.id
        while True:
            page = documents.page(after=id, limit=PAGE_SIZE)
            for document in page.items:
                title = shorten_title(document.title, _MAX_TITLE) or None
                address = str(KumiUri(after.index, "documents", document.id))
                yield types.Resource(uri=address, name=document.uri, title=title, mime_type="text/plain")
            if not (id := page.next):
                break
    if snapshot.db.has("reports"):
        seen = after.id if after.kind == "reports" else ""
        for id, title in snapshot.table("reports").columns("id", "title"):
            if id > seen:
                address, title = str(KumiUri(after.index, "reports", id)), shorten_title(title, _MAX_TITLE)
                yield types.Resource(uri=address, name=id, title=title, mime_type="text/markdown")


def read_resource(snapshot: Snapshot, address: KumiUri) -> types.TextResourceContents:
    """Return the text of a resource.

    If there is more, the text ends with the address of the rest. Raises BadArgument if it does not exist.
    """
    text, size, media_type = _read_text(snapshot, address)
    end = address.start + len(text)
    if end < size:
        text += f"\n\n[… {size - end:,} more characters: read {KumiUri(address.index, address.kind, address.id, end)}]"
    return types.TextResourceContents(uri=str(address), text=text, mime_type=media_type)


def _read_text(snapshot: Snapshot, address: KumiUri) -> tuple[str, int, str]:
    """Return a part of a text, its whole length, and its type."""
    end = address.start + MAX_TEXT
    if address.kind == "documents":
        if part := DocumentList(snapshot).read_text(address.id, address.start, end):
            return part.text, part.characters, "text/plain"
    elif snapshot.db.has("reports") and (report := snapshot.table("reports").get(address.id)):
        return report.text[address.start : end], len(report.text), "text/markdown"
    raise BadArgument(f"there is no {address}: list the resources for their addresses")
