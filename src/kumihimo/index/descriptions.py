"""a document -> its description: the names and dates in its title, file name and metadata."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from kumihimo.core.records import NOT_READ, Document, Record
from kumihimo.text.dates import date_forms, list_dates

_MAX_NAME_CHARS = 100  # a longer value is a text, not a name
_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,4}$")
_CASE_CHANGE = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[^\W\d_])(?=\d)")  # in AnnualReport2023
_URL = re.compile(r"^\w+://(?:www\.)?([^/?#]+).*$", re.S)
_ONLY_DATE = re.compile(r"[\d\s:.,/+TZ-]*")
_ADDRESS = re.compile(r"<[^<>]*>")


@dataclass(frozen=True, slots=True)
class Description(Record):
    """The names and dates that describe a document; text: the names, a line each.

    The id is that of the document. dates: ISO 8601, possibly shortened.
    """

    SEARCHED_BY: ClassVar[tuple[str, ...]] = ("words",)

    dates: tuple[str, ...]

    @property
    def index_text(self) -> str:
        terms = dict.fromkeys(term for date in self.dates for term in date_terms(date))
        return " ".join([self.text, *terms])


def date_terms(date: str, *, is_question: bool = False) -> list[str]:
    """Return the words of a date in the keyword index.

    A date of a question shares one with a date of a document if either is a part of the other.

    >>> set(date_terms("2023-09-28")) & set(date_terms("--09", is_question=True))
    {'part09'}
    >>> set(date_terms("2023")) & set(date_terms("2023-09", is_question=True))
    {'whole2023'}
    """
    own, of_parts = ("part", "whole") if is_question else ("whole", "part")
    return [word.replace("-", "") for word in (*(f"{of_parts}{form}" for form in date_forms(date)), f"{own}{date}")]


def descriptions(document: Document) -> Description | None:
    """Describe a document by its title, file, folders and metadata.

    The id of a row gives a date only with its month: any number may look like a year.
    """
    path, _, row = document.uri.partition("#")
    values = [name for field, value in document.metadata.items() for name in _value_names(field, value)]
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
