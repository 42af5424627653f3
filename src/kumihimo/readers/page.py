"""a row of a file -> the page it holds: what every reader yields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from kumihimo.core.errors import SourceError

Row = Mapping[str, object]
Places = tuple[tuple[int, str], ...]  # where each begins, and what it is called
HEADING = re.compile("^## (.+)$", re.M)
GENERATED_TITLE = re.compile(
    r"^(untitled|(powerpoint|word|excel) (presentation|document|workbook)|microsoft \w+ - .*|presentation\d*)$"
    r"|\.(docx?|pptx?|xlsx?|pdf|tex|dvi|indd|qxd|odt|rtf|txt|html?|e?ps)$",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Page:
    """One text of a file.

    fragment: what follows `#` in its uri; empty where the page is the whole file.
    title, modified: empty where the text itself does not say.
    places, body: as in `Document`.
    attached: files within the file, by name, each to be read by its own reader.
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
    """A page for each numbered row, named by its `id`, else by its number.

    >>> [page.fragment for page in pages([(1, {"id": 7, "text": "a"}), (2, {"text": "b"}), (3, {"id": "7"})])]
    ['7', '2', '7~2']
    """
    taken: dict[str, int] = {}
    for number, row in rows:
        own = row.get("id")
        yield row_to_page(row, unique_name(str(number if own in (None, "") else own), taken))


def row_to_page(row: Row, fragment: str = "") -> Page:
    """What `text` says, with all else as metadata; a row without `text` says its other words, `key: value` a paragraph.

    >>> found = page({"name": "Ayu", "roles": ["cook", "host"], "age": 31})
    >>> found.text, found.metadata
    ('name: Ayu\\n\\nroles: cook; host', {'age': 31})
    """
    rest = {key: value for key, value in row.items() if key != "title" and not (key == "id" and fragment)}
    said = {"text"} if "text" in row else {key for key, value in rest.items() if _join_strings(value)}
    lines = [f"{key}: {_join_strings(value)}" for key, value in rest.items() if key in said]
    return Page(
        fragment=fragment,
        title=_join_strings(row.get("title")),
        text=_join_strings(row["text"], "\n") if "text" in row else "\n\n".join(lines),
        metadata={key: value for key, value in rest.items() if key not in said},
        modified=_parse_modified(row.get("modified") or row.get("date")),
    )


def unique_name(name: str, taken: dict[str, int]) -> str:
    """`name`, or `name~2` when it comes again, `name~3` the third time: nothing is lost to its namesake."""
    while (count := taken.get(name, 0) + 1) > 1:
        taken[name] = count
        name = f"{name}~{count}"
    taken[name] = 1
    return name


def format_utc(moment: datetime) -> str:
    """ISO 8601, UTC, to the second.

    >>> iso(datetime(2026, 11, 21, 2, 31, tzinfo=UTC))
    '2026-11-21T02:31:00Z'
    """
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def join_with_places(parts: Iterable[tuple[str, Places]]) -> tuple[str, Places]:
    """Texts with their places, as one.

    >>> joined([("One.", ((0, "slide 1"),)), ("Two.", ((0, "slide 2"),))])
    ('One.\\n\\nTwo.', ((0, 'slide 1'), (6, 'slide 2')))
    """
    texts, places, length = list[str](), list[tuple[int, str]](), 0
    for text, own in parts:
        length += 2 * bool(texts)
        places += [(length + at, said) for at, said in own]
        texts.append(text)
        length += len(text)
    return "\n\n".join(texts), tuple(places)


def human_title(title: str) -> str:
    """The title of a document's properties, if a person has written it.

    >>> [meant(title) for title in ("On Node.js", "Microsoft Word - a.docx", "PowerPoint Presentation")]
    ['On Node.js', '', '']
    """
    return "" if GENERATED_TITLE.search(title.strip()) else title.strip()


def first_heading(text: str) -> str:
    """What a text without a title may be called; empty where it has no heading."""
    found = HEADING.search(text)
    return found[1] if found else ""


def refuse_empty(text: str, name: str) -> None:
    """Raises SourceError where a file that is made to be read holds no word."""
    if not text.strip():
        raise SourceError(f"{name}: no text in it, perhaps pictures of text; recognise the text in them first (OCR)")


def _join_strings(value: object, between: str = "; ") -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return between.join(value)
    return value if isinstance(value, str) else ""


def _parse_modified(value: object) -> str:
    """As `Document.modified` wants it; what is not written the ISO way stays in the metadata only."""
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
