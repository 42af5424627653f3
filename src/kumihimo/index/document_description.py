"""the names and dates of a document -> a searchable row."""

from dataclasses import dataclass
from typing import ClassVar

from kumihimo.core.records import Record
from kumihimo.text.dates import date_forms


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


def document_date(description: Description | None) -> str:
    """Return the most precise date of a document that has a year."""
    dates = [date for date in description.dates if date[:1].isdigit()] if description else []
    return max(dates, key=len, default="")
