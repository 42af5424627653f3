"""an id or a uri + the name of its index -> one that names the index, and back: for questions to several indexes.

Equal files in two indexes have equal ids. A name within the id keeps them apart wherever ids are keys: in a Context, in
prompts and in citations. Ids of tables have no slash, so that no other id looks like such a one.
"""

from urllib.parse import quote, unquote

_ID_MARK, _URI_MARK = "/", ": "


def id_in_index(index: str, id: str) -> str:
    """Return the id with the index; without a name, as it is.

    >>> id_in_index("reports 2.1", "0f8c.00003")
    'reports%202%2E1/0f8c.00003'
    """
    return f"{_escape(index)}{_ID_MARK}{id}" if index else id


def split_id(id: str) -> tuple[str, str]:
    """Return the name of the index, or empty, and the id there.

    >>> split_id("reports%202%2E1/0f8c.00003"), split_id("0f8c.00003")
    (('reports 2.1', '0f8c.00003'), ('', '0f8c.00003'))
    """
    name, mark, rest = id.partition(_ID_MARK)
    return (unquote(name), rest) if mark else ("", id)


def uri_in_index(index: str, uri: str) -> str:
    """Return the uri of a document of this index.

    >>> uri_in_index("reports", "harbour/gale.md")
    'reports: harbour/gale.md'
    """
    return f"{_escape(index)}{_URI_MARK}{uri}"


def split_uri(uri: str) -> tuple[str, str]:
    """Return the name of the index and the uri there."""
    name, _, rest = uri.partition(_URI_MARK)
    return unquote(name), rest


def _escape(name: str) -> str:
    """Return a name without the marks, and without the dots of ids."""
    return quote(name, safe="").replace(".", "%2E")
