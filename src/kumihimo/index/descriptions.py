"""a document -> its description: the names and dates in its title, file name and metadata."""

import re
from collections.abc import Iterator, Mapping

from kumihimo.core.records import NOT_READ, Document
from kumihimo.index.chunk_background import Description
from kumihimo.text.dates import list_dates

_MAX_NAME_CHARS = 100  # a longer value is a text, not a name
_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,4}$")
_CASE_CHANGE = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[^\W\d_])(?=\d)")  # in AnnualReport2023
_URL = re.compile(r"^\w+://(?:www\.)?([^/?#]+).*$", re.S)
_ONLY_DATE = re.compile(r"[\d\s:.,/+TZ-]*")
_ADDRESS = re.compile(r"<[^<>]*>")
_STATED = ("front matter", "metadata", "letter")  # where the metadata have the date of the document


def descriptions(document: Document) -> Description | None:
    """Describe a document by its title, file, folders and metadata.

    The id of a row gives a date only with its month: any number may look like a year. The date in the metadata counts
    if it is that of the document: some programs write the date of a template.
    """
    path, _, row = document.uri.partition("#")
    is_stated = document.fields.get("date_source") in _STATED
    fields = {field: value for field, value in document.metadata.items() if field != "date" or is_stated}
    values = [name for field, value in fields.items() for name in _value_names(field, value)]
    parts = [_CASE_CHANGE.sub(" ", _SUFFIX.sub("", part)) for part in (*path.split("/"), *row.split("/"))]
    names = dict.fromkeys(" ".join(name.replace("_", " ").split()) for name in (document.title, *parts, *values))
    dates = [date for text in (document.title, path.replace("/", "_"), *values) for date in list_dates(text)]
    dates += [date for date in list_dates(row) if "-" in date]
    described = [name for name in names if name and not _ONLY_DATE.fullmatch(name)]
    return Description(tuple(dict.fromkeys(dates)), text="\n".join(described)) if described or dates else None


def _value_names(field: str, value: object) -> Iterator[str]:
    """Yield the names in a metadata value; a number follows its field."""
    if field == NOT_READ:
        return
    if isinstance(value, Mapping):
        for inner, inner_value in value.items():
            yield from _value_names(str(inner), inner_value)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _value_names(field, item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        name = _ADDRESS.sub("", _URL.sub(r"\1", str(value)))
        if len(name) <= _MAX_NAME_CHARS:
            yield name if any(map(str.isalpha, name)) or list_dates(name) else f"{field} {name}"
