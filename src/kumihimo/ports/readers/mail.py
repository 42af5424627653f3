"""an e-mail (.eml) -> a page of its text, and a page for each attachment that can be read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import parsedate_to_datetime

from kumihimo.core.errors import SourceError
from kumihimo.ports.readers.decode import decode
from kumihimo.ports.readers.html import chapter
from kumihimo.ports.readers.page import Page, iso, unique

HEADERS = {"From": "author", "To": "to", "Cc": "cc"}


def mail(data: bytes, name: str) -> Iterator[Page]:
    """Who wrote to whom, when, and what: the plain text, or what the HTML shows where there is none."""
    message = BytesParser(EmailMessage, policy=policy.default).parsebytes(data)
    if not any(header in message for header in ("From", "Date", "Subject", "Received")):
        raise SourceError(f"{name}: no e-mail, since it has no headers; name it .txt to read it as text")
    subject = _header(message, "Subject")
    headers = {ours: said for theirs, ours in HEADERS.items() if (said := _header(message, theirs))}
    told = [f"{theirs}: {headers[ours]}" for theirs, ours in HEADERS.items() if ours in headers]
    date = _date(message)
    told += [f"Date: {date}"] if date else []
    attached = tuple(_attached(message))
    names = {"attachments": [file for file, _ in attached]} if attached else {}
    yield Page(
        title=subject,
        text="\n".join([*told, f"Subject: {subject}", "", _body(message, name)]),
        metadata={**headers, **({"date": date} if date else {}), **names},
        attached=attached,
    )


def _header(message: EmailMessage, name: str) -> str:
    return " ".join(str(message.get(name, "")).split())


def _date(message: EmailMessage) -> str:
    try:
        moment = parsedate_to_datetime(_header(message, "Date"))
    except (ValueError, OverflowError):
        return ""
    return iso(moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC))


def _body(message: EmailMessage, name: str) -> str:
    body = message.get_body(("plain", "html"))
    if body is None:
        return ""
    data = body.get_payload(decode=True)
    text = data if isinstance(data, bytes) else b""
    if body.get_content_subtype() == "html":
        return "\n\n".join(page.text for page in chapter(text, name))
    return decode(text, name, body.get_content_charset() or "").strip()


def _attached(message: EmailMessage) -> Iterator[tuple[str, bytes]]:
    taken: dict[str, int] = {}
    for place, attachment in enumerate(message.iter_attachments(), 1):
        inner = attachment.get_content_type() == "message/rfc822"
        data = attachment.get_content().as_bytes() if inner else attachment.get_payload(decode=True)
        file = attachment.get_filename() or (f"message {place}.eml" if inner else "")
        if file and isinstance(data, bytes):
            yield unique(" ".join(file.split()), taken), data
