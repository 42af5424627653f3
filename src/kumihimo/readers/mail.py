"""an e-mail (.eml) -> a page of its text, with its attachments; a mailbox (.mbox) -> the list of its e-mails."""

import re
from collections.abc import Iterator
from contextlib import suppress
from email import policy
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from email.utils import parseaddr, parsedate_to_datetime
from mimetypes import guess_extension
from pathlib import PurePosixPath

from kumihimo.core.errors import SourceError
from kumihimo.readers.html import read_full_html
from kumihimo.readers.page import Page, format_utc, unique_file_name
from kumihimo.readers.text import decode

HEADERS = ("From", "To", "Cc")
MAX_HEADER_CHARS = 20_000  # unfolding a header takes more than linear time
MAX_COMMENTS = 50  # `(` in a header
# The parser unfolds these headers completely.
CONTENT_HEADER = re.compile(rb"^content-[a-z-]+:[^\n]*(?:\n[ \t][^\n]*)*", re.I | re.M)
LEADING_BLANK = b"\xef\xbb\xbf \t\r\n"
# A mailbox has this line before each message; a line of the text that looks like it begins with `>`.
MESSAGE_START = re.compile(rb"(?:\A|(?<=\n\n))From [^\n]*\n")
QUOTED_START = re.compile(rb"^>(>*From )", re.M)
CONTROL_CHARS = re.compile(r"[\x00-\x1f\x7f]+")


class _Letter(EmailMessage):
    """A message whose enclosed messages stay bytes; each is read like a file."""

    def get_content_maintype(self) -> str:
        kind = super().get_content_maintype()
        return "application" if kind == "message" else kind


def _hide_comments(header: re.Match[bytes]) -> bytes:
    """Return a header; rename it if its comments nest too deep."""
    return header[0] if header[0].count(b"(") <= MAX_COMMENTS else b"X-" + header[0]


def read_mail(data: bytes, name: str) -> Iterator[Page]:
    """Read the headers, text and attachments of an e-mail.

    The text is the plain version, or the HTML version if there is no plain one.
    """
    if any(len(header[0]) > MAX_HEADER_CHARS for header in CONTENT_HEADER.finditer(data)):
        raise SourceError(f"{name}: a header is longer than any mail program writes; it is not read")
    message = BytesParser(_Letter, policy=policy.default).parsebytes(
        CONTENT_HEADER.sub(_hide_comments, data).lstrip(LEADING_BLANK)
    )
    if not any(header in message for header in ("From", "Date", "Subject", "Received")):
        raise SourceError(f"{name}: not an e-mail, because it has no headers; name it .txt to read it as text")
    yield build_mail_page(message, name)


def read_mailbox(data: bytes, name: str) -> Iterator[Page]:
    """Read a mailbox: the list of its messages, and each of them.

    Raises SourceError if it does not begin with a message.
    """
    data = data.lstrip(LEADING_BLANK).replace(b"\r\n", b"\n")
    starts = list(MESSAGE_START.finditer(data))
    if data and (not starts or starts[0].start()):
        raise SourceError(f"{name}: not a mailbox, because it does not begin with a line `From `; export it as .mbox")
    ends = [*(match.start() for match in starts[1:]), len(data)]
    messages = [QUOTED_START.sub(rb"\1", data[match.end() : end]) for match, end in zip(starts, ends, strict=True)]
    files = tuple((f"{number}.eml", message) for number, message in enumerate(messages, 1))
    yield Page(text="\n".join(f"{file}: {_read_subject(message)}" for file, message in files), attached=files)


def _read_subject(data: bytes) -> str:
    parser = BytesParser(EmailMessage, policy=policy.default)
    return _read_header(parser.parsebytes(data[:MAX_HEADER_CHARS], headersonly=True), "Subject")


def build_mail_page(message: EmailMessage, name: str) -> Page:
    """Build the page of a message, with its attachments."""
    headers = {label: value for label in HEADERS if (value := _read_header(message, label))}
    with suppress(ValueError, OverflowError, RecursionError):  # the latter of a date such as `((((`
        headers["Date"] = format_utc(parsedate_to_datetime(_read_header(message, "Date")))
    metadata: dict[str, object] = {label.lower(): value for label, value in headers.items()}
    sender = headers.get("From", "")
    if author := parseaddr(sender)[0] if sender.count("(") <= MAX_COMMENTS else "":
        metadata["author"] = author
    subject, attached = _read_header(message, "Subject"), tuple(_list_attachments(message))
    if attached:
        metadata["attachments"] = [file for file, _ in attached]
    lines = [f"{label}: {value}" for label, value in headers.items()]
    text = "\n".join([*lines, f"Subject: {subject}", "", _read_body(message, name)])
    return Page(title=subject, text=text, metadata=metadata, attached=attached)


def _read_header(message: EmailMessage, name: str) -> str:
    """Return a decoded header, even if it is malformed.

    The standard parser gives up on an unusual address.
    """
    raw = next((str(value) for key, value in message.raw_items() if key.lower() == name.lower()), "")[:MAX_HEADER_CHARS]
    try:
        parts = decode_header(raw)
    except (HeaderParseError, ValueError):
        parts = [(raw, None)]
    text = "".join(_decode_header_part(part, charset) for part, charset in parts)
    return " ".join(CONTROL_CHARS.sub(" ", text).split())


def _decode_header_part(part: str | bytes, charset: str | None) -> str:
    data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
    is_plain = data.isascii() and b"\x1b" not in data
    return data.decode() if is_plain else decode(data, "a header", _normalize_charset(charset))


def _normalize_charset(charset: str | None) -> str:
    """Return a usable charset label.

    An ASCII label becomes empty: it says nothing about bytes outside ASCII.
    """
    return "" if charset is None or charset.lower() in ("us-ascii", "ascii", "unknown-8bit") else charset


def _read_body(message: EmailMessage, name: str) -> str:
    """Return the text; of alternative versions, the plain one unless empty."""
    plain, html, others = list[str](), list[str](), list[str]()
    for leaf, is_alternative in _leaf_parts(message):
        if _is_body_text(leaf):
            versions = html if leaf.get_content_subtype() == "html" else plain
            (versions if is_alternative else others).append(_decode_leaf(leaf, name))
    preferred = next(filter(None, [*plain, *html]), "")
    return "\n\n".join(filter(None, [preferred, *others]))


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
    charset = _normalize_charset(leaf.get_content_charset())
    if leaf.get_content_subtype() == "html":
        return "\n\n".join(page.text for page in read_full_html(_leaf_bytes(leaf), name, charset))
    return decode(_leaf_bytes(leaf), name, charset).strip()


def _list_attachments(message: EmailMessage) -> Iterator[tuple[str, bytes]]:
    """Yield all parts outside the text of the letter, as files."""
    used: dict[str, int] = {}
    for leaf, _ in _leaf_parts(message):
        if not _is_body_text(leaf):
            kind = leaf.get_content_type()
            default = "message.eml" if kind == "message/rfc822" else f"attachment{guess_extension(kind) or ''}"
            name = PurePosixPath(" ".join((leaf.get_filename() or default).split())).name
            yield unique_file_name(name, used), _leaf_bytes(leaf)


def _leaf_bytes(leaf: MIMEPart) -> bytes:
    if leaf.get_content_type() == "message/rfc822" and leaf.is_multipart():
        return next(inner.as_bytes() for inner in leaf.iter_parts())
    payload = leaf.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""
