"""a calendar -> a page for each event."""

from collections.abc import Iterator

from kumihimo.ext import Page, SourceError, reads


@reads(".ics", media_type="text/calendar")
def read_calendar(data: bytes, name: str) -> Iterator[Page]:
    """Yield a page for each event of an iCalendar file."""
    text = data.decode("utf-8", "replace").replace("\r\n ", "").replace("\n ", "")
    if "BEGIN:VCALENDAR" not in text:
        raise SourceError(f"{name}: no calendar; export it again as iCalendar (.ics)")
    for number, event in enumerate(text.split("BEGIN:VEVENT")[1:], 1):
        fields = dict(line.split(":", 1) for line in event.partition("END:VEVENT")[0].splitlines() if ":" in line)
        body = fields.get("DESCRIPTION", "").replace("\\n", "\n").replace("\\,", ",")
        title = fields.get("SUMMARY", "")
        yield Page(
            fragment=fields.get("UID", str(number)),
            title=title,
            text=f"{title}\n\n{body}".strip(),
            metadata={"date": fields.get("DTSTART", "")},
        )
