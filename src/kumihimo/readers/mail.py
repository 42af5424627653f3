"""an e-mail (.eml) -> a page of its text, with its attachments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC
from email import policy
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from email.utils import parseaddr, parsedate_to_datetime
from mimetypes import guess_extension
from pathlib import PurePosixPath

from kumihimo.core.errors import SourceError
from kumihimo.readers.decode import decode
from kumihimo.readers.html import read_full_html
from kumihimo.readers.page import Page, format_utc, unique_name

HEADERS = {"From": "from", "To": "to", "Cc": "cc"}
MAX_HEADER_CHARS = 20_000  # unfolding a header takes more than linear time
# The parser unfolds these headers completely.
CONTENT_HEADER = re.compile(rb"^content-[a-z-]+:[^\n]*(?:\n[ \t][^\n]*)*", re.I | re.M)
LEADING_BLANK = b"\xef\xbb\xbf \t\r\n"
CONTROL_CHARS = re.compile(r"[\x00-\x1f\x7f]+")


def read_mail(data: bytes, name: str) -> Iterator[Page]:
    """Read the headers, text and attachments of an e-mail.

    The text is the plain version, or the HTML version if there is no plain one.
    """
    if any(len(header[0]) > MAX_HEADER_CHARS for header in CONTENT_HEADER.finditer(data)):
        raise SourceError(f"{name}: a header is longer than any mail program writes; it is not read")
    message = BytesParser(EmailMessage, policy=policy.default).parsebytes(data.lstrip(LEADING_BLANK))
    if not any(header in message for header in ("From", "Date", "Subject", "Received")):
        raise SourceError(f"{name}: not an e-mail, because it has no headers; name it .txt to read it as text")
    headers = {key: value for label, key in HEADERS.items() if (value := _read_header(message, label))}
    if date := _read_date(message):
        headers["date"] = date
    if author := parseaddr(headers.get("from", ""))[0]:
        headers["author"] = author
    subject, attached = _read_header(message, "Subject"), tuple(_list_attachments(message))
    header_lines = [f"{label}: {headers[key]}" for label, key in (*HEADERS.items(), ("Date", "date")) if key in headers]
    files = {"attachments": [file for file, _ in attached]} if attached else {}
    yield Page(
        title=subject,
        text="\n".join([*header_lines, f"Subject: {subject}", "", _read_body(message, name)]),
        metadata={**headers, **files},
        attached=attached,
    )


def _read_header(message: EmailMessage, name: str) -> str:
    """Return a decoded header, even if it is malformed.

    The standard parser gives up on an unusual address.
    """
    raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), "")
    try:
        parts = decode_header(str(raw)[:MAX_HEADER_CHARS])
    except (HeaderParseError, ValueError):
        parts = [(str(raw)[:MAX_HEADER_CHARS], None)]
    text = "".join(_decode_header_part(part, charset) for part, charset in parts)
    return " ".join(CONTROL_CHARS.sub(" ", text).split())


def _decode_header_part(part: str | bytes, charset: str | None) -> str:
    data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
    return (
        decode(data, "a header", _normalize_charset(charset))
        if not data.isascii() or b"\x1b" in data
        else data.decode()
    )


def _normalize_charset(charset: str | None) -> str:
    """Return a usable charset label.

    An ASCII label becomes empty: it says nothing about bytes outside ASCII.
    """
    return "" if charset is None or charset.lower() in ("us-ascii", "ascii", "unknown-8bit") else charset


def _read_date(message: EmailMessage) -> str:
    try:
        moment = parsedate_to_datetime(_read_header(message, "Date"))
    except (ValueError, OverflowError):
        return ""
    return format_utc(moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC))


def _read_body(message: EmailMessage, name: str) -> str:
    """Return the text; of alternative versions, the plain one unless empty."""
    texts = [
        (leaf, is_alternative, _decode_leaf(leaf, name))
        for leaf, is_alternative in _leaf_parts(message)
        if _is_body_text(leaf)
    ]
    versions = [
        (leaf.get_content_subtype() == "html", text) for leaf, is_alternative, text in texts if is_alternative and text
    ]
    preferred = min(versions, key=lambda candidate: candidate[0])[1] if versions else ""
    return "\n\n".join(filter(None, [preferred, *(text for _, is_alternative, text in texts if not is_alternative)]))


def _leaf_parts(part: MIMEPart, is_alternative: bool = False) -> Iterator[tuple[MIMEPart, bool]]:
    """Yield the leaf parts of a message, however nested.

    is_alternative: whether the part is one of several versions of the same text.
    """
    if part.get_content_maintype() != "multipart":
        yield part, is_alternative
        return
    for inner in part.iter_parts():
        if isinstance(inner, MIMEPart):
            yield from _leaf_parts(inner, is_alternative or part.get_content_subtype() == "alternative")


def _is_body_text(leaf: MIMEPart) -> bool:
    """Return whether a part belongs to the text of the letter."""
    is_file = leaf.get_filename() or leaf.get_content_disposition() == "attachment"
    return not is_file and leaf.get_content_type() in ("text/plain", "text/html")


def _decode_leaf(leaf: MIMEPart, name: str) -> str:
    payload = leaf.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    if leaf.get_content_subtype() == "html":
        return "\n\n".join(
            page.text for page in read_full_html(data, name, _normalize_charset(leaf.get_content_charset()))
        )
    return decode(data, name, _normalize_charset(leaf.get_content_charset())).strip()


def _list_attachments(message: EmailMessage) -> Iterator[tuple[str, bytes]]:
    """Yield all parts outside the text of the letter, as files."""
    used: dict[str, int] = {}
    for leaf, _ in _leaf_parts(message):
        if not _is_body_text(leaf):
            name = PurePosixPath(" ".join((leaf.get_filename() or _default_name(leaf)).split()))
            number = unique_name(str(name), used)[len(str(name)) :]
            yield f"{name.stem}{number}{name.suffix}", _leaf_bytes(leaf)


def _default_name(leaf: MIMEPart) -> str:
    kind = leaf.get_content_type()
    return "message.eml" if kind == "message/rfc822" else f"attachment{guess_extension(kind) or ''}"


def _leaf_bytes(leaf: MIMEPart) -> bytes:
    if leaf.get_content_type() == "message/rfc822" and leaf.is_multipart():
        return next(inner.as_bytes() for inner in leaf.iter_parts())
    payload = leaf.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""
