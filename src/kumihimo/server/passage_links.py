"""a passage -> the address of its page on this server."""

from collections.abc import Callable
from urllib.parse import quote

from fastapi import Request

from kumihimo.core.digests import hash_parts
from kumihimo.core.spans import Span
from kumihimo.server.access import Access, usable_names


def passage_link(request: Request, access: Access) -> Callable[[Span], str]:
    """Return a function: a passage -> the address that marks it."""
    usable = usable_names(request.app.state.workspace, request.state.caller)

    def link(span: Span) -> str:
        index = span.index or access.served.name
        part = "" if usable[:1] == [index] else f"indexes/{quote(index, safe='')}/"
        address = f"{request.base_url}{part}documents/{hash_parts(span.uri)}"
        return f"{address}?start={span.start}&end={span.end}#passage"

    return link
