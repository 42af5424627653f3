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
    is_first = usable[:1] == [access.served.name]
    index = "" if is_first else f"indexes/{quote(access.served.name, safe='')}/"
    base = f"{request.base_url}{index}documents/"
    return lambda span: f"{base}{hash_parts(span.uri)}?start={span.start}&end={span.end}#passage"
