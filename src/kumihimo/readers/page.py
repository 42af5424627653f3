"""a row of a file -> its page, the unit of every reader."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from kumihimo.core.errors import SourceError

Row = Mapping[str, object]
Places = tuple[tuple[int, str], ...]  # the offset and name of each place
HEADING = re.compile("^## (.+)$", re.M)
GENERATED_TITLE = re.compile(
    r"^(untitled|(powerpoint|word|excel) (presentation|document|workbook)|microsoft \w+ - .*|presentation\d*)$"
    r"|\.(docx?|pptx?|xlsx?|pdf|tex|dvi|indd|qxd|odt|rtf|txt|html?|e?ps)$",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Page:
    """A text of a file.

    fragment: the part of its uri after `#`; empty if the page is the whole file.
    title, modified: empty if the text does not give them.
    places, body: as in `Document`.
    attached: files within the file, by name; each is read by its own reader.
    """

    fragment: str = ""
    title: str = ""
    text: str = ""
    metadata: Row = field(default_factory=dict)
    modified: str = ""
    places: Places = ()
    body: int = 0
    attached: tuple[tuple[str, bytes], ...] = ()


def rows_to_pages(rows: Iterable[tuple[int, Row]]) -> Iterator[Page]:
    """Yield a page for each numbered row.

    Its fragment is the row's `id`, or the number.

    >>> rows = [(1, {"id": 7, "text": "a"}), (2, {"text": "b"}), (3, {"id": "7"})]
    >>> [page.fragment for page in rows_to_pages(rows)]
    ['7', '2', '7~2']
    """
    used: dict[str, int] = {}
    for number, row in rows:
        row_id = row.get("id")
        yield row_to_page(row, unique_name(str(number if row_id in (None, "") else row_id), used))


def row_to_page(row: Row, fragment: str = "") -> Page:
    r"""Build a page from a row.

    `text` becomes its text, all else its metadata. Without `text`, each string value becomes a paragraph, `key: value`.

    >>> cook = row_to_page({"name": "Ayu", "roles": ["cook", "host"], "age": 31})
    >>> cook.text, cook.metadata
    ('name: Ayu\n\nroles: cook; host', {'age': 31})
    """
    rest = {key: value for key, value in row.items() if key != "title" and not (key == "id" and fragment)}
    text_keys = {"text"} if "text" in row else {key for key, value in rest.items() if _join_strings(value)}
    lines = [f"{key}: {_join_strings(value)}" for key, value in rest.items() if key in text_keys]
    return Page(
        fragment=fragment,
        title=_join_strings(row.get("title")),
        text=_join_strings(row["text"], "\n") if "text" in row else "\n\n".join(lines),
        metadata={key: value for key, value in rest.items() if key not in text_keys},
        modified=_parse_modified(row.get("modified") or row.get("date")),
    )


def unique_name(name: str, used: dict[str, int]) -> str:
    """Return `name`, or `name~2` if it is used already.

    The third becomes `name~3`, so that no namesake is lost. `used` counts the names, and is updated.
    """
    while (count := used.get(name, 0) + 1) > 1:
        used[name] = count
        name = f"{name}~{count}"
    used[name] = 1
    return name


def format_utc(moment: datetime) -> str:
    """Format a time as ISO 8601, UTC, to the second.

    >>> format_utc(datetime(2026, 11, 21, 2, 31, tzinfo=UTC))
    '2026-11-21T02:31:00Z'
    """
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def join_with_places(parts: Iterable[tuple[str, Places]]) -> tuple[str, Places]:
    r"""Join texts, and shift their places.

    >>> join_with_places([("One.", ((0, "slide 1"),)), ("Two.", ((0, "slide 2"),))])
    ('One.\n\nTwo.', ((0, 'slide 1'), (6, 'slide 2')))
    """
    texts, places, length = list[str](), list[tuple[int, str]](), 0
    for text, text_places in parts:
        length += 2 * bool(texts)
        places += [(length + offset, label) for offset, label in text_places]
        texts.append(text)
        length += len(text)
    return "\n\n".join(texts), tuple(places)


def human_title(title: str) -> str:
    """Return a document's title, or empty if a program generated it.

    >>> [human_title(title) for title in ("On Node.js", "Microsoft Word - a.docx", "PowerPoint Presentation")]
    ['On Node.js', '', '']
    """
    return "" if GENERATED_TITLE.search(title.strip()) else title.strip()


def first_heading(text: str) -> str:
    """Return the first `## ` heading of a text, or empty."""
    match = HEADING.search(text)
    return match[1] if match else ""


def refuse_empty(text: str, name: str) -> None:
    """Raise SourceError if a document contains no text."""
    if not text.strip():
        raise SourceError(f"{name}: contains no text, perhaps pictures of text; run text recognition (OCR) first")


def _join_strings(value: object, between: str = "; ") -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return between.join(value)
    return value if isinstance(value, str) else ""


def _parse_modified(value: object) -> str:
    """Convert a date to the form of `Document.modified`.

    A value that is not ISO 8601 stays in the metadata only.
    """
    if not isinstance(value, str):
        return ""
    try:
        return date.fromisoformat(value).isoformat()
    except ValueError:
        return _parse_datetime(value)


def _parse_datetime(value: str) -> str:
    try:
        moment = datetime.fromisoformat(value)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # 0001-01-01T00:00+09:00 is before the first year in UTC
        return ""
    return format_utc(moment)
