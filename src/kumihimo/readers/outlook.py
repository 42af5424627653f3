"""a message of Outlook (.msg) -> an e-mail, and the page of it."""

import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import policy
from email.message import EmailMessage
from email.parser import HeaderParser
from email.utils import format_datetime
from mimetypes import guess_type

from kumihimo.core.errors import SourceError
from kumihimo.readers import mail, rtf
from kumihimo.readers.ole import OleFile, code_page_name, open_ole
from kumihimo.readers.page import Page
from kumihimo.readers.text import decode

# The numbers of properties.
SUBJECT, BODY, HTML, RTF, TRANSPORT_HEADERS = 0x0037, 0x1000, 0x1013, 0x1009, 0x007D
SENDER_NAME, SENDER_ADDRESS, SENDER_SMTP = 0x0C1A, 0x0C1F, 0x5D01
SENT, DELIVERED, CODE_PAGE, INTERNET_CODE_PAGE = 0x0039, 0x0E06, 0x3FFD, 0x3FDE
NAME, ADDRESS, SMTP, RECIPIENT_TYPE = 0x3001, 0x3003, 0x39FE, 0x0C15
LONG_FILE_NAME, FILE_NAME, DATA = 0x3707, 0x3704, 0x3701
DISPLAYED = {"To": 0x0E04, "Cc": 0x0E03}
RECIPIENT_TYPES = {1: "To", 2: "Cc"}
UTF16, BYTES, BINARY, STORAGE = "001F", "001E", "0102", "000D"
PROPERTY_HEADER_BYTES = {"": 32, "__recip": 8, "__attach": 8, "__substg": 24}  # by the beginning of a storage's name
PROPERTIES = "__properties_version1.0"
EPOCH = datetime(1601, 1, 1, tzinfo=UTC)
MAX_DEPTH = 5  # messages in messages
MAX_RTF_BYTES = 64 << 20
LZ_WINDOW = 4096
POLICY = policy.default.clone(utf8=True)
# What a compressed text may refer to from its beginning.
LZ_DICTIONARY = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans SerifS"
    rb"ymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    + b"\r\n"
    + rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)


def read_msg(data: bytes, name: str) -> Iterator[Page]:
    """Read a message as if it were an e-mail."""
    file = open_ole(data, name)
    if (PROPERTIES,) not in file.streams:
        raise SourceError(f"{name}: not a message of Outlook; save it again as .msg or .eml")
    yield mail.build_mail_page(_to_message(file, ()), name)


class _Storage:
    """The properties of a message, a recipient or an attachment."""

    def __init__(self, file: OleFile, path: tuple[str, ...], code_page: str = "") -> None:
        self.file, self.path = file, path
        kind = path[-1].partition("_version")[0].partition("1.0")[0] if path else ""
        table = file.read_stream(*path, PROPERTIES)[PROPERTY_HEADER_BYTES.get(kind, 8) :]
        self.numbers = {
            number: value for _, number, _, value in struct.iter_unpack("<HHIQ", table[: len(table) // 16 * 16])
        }
        self.code_page = code_page_name(self.integer(CODE_PAGE)) or code_page

    def integer(self, number: int) -> int:
        return int(self.numbers.get(number, 0)) & 0xFFFFFFFF

    def date(self, number: int) -> str:
        try:
            return format_datetime(EPOCH + timedelta(microseconds=self.numbers[number] // 10))
        except (KeyError, OverflowError):
            return ""

    def stream(self, number: int, kind: str) -> bytes:
        return self.file.read_stream(*self.path, f"__substg1.0_{number:04X}{kind}")

    def text(self, number: int) -> str:
        """Return a text in UTF-16 or in a code page."""
        if wide := self.stream(number, UTF16):
            return wide.decode("utf-16-le", "replace").replace("\0", "")
        narrow = self.stream(number, BYTES).replace(b"\0", b"")
        return decode(narrow, self.file.name, self.code_page) if narrow else ""


def _to_message(file: OleFile, path: tuple[str, ...], depth: int = 0) -> EmailMessage:
    """Return an e-mail of the same headers, texts and attachments."""
    storage, message = _Storage(file, path), EmailMessage(policy=POLICY)
    for label, value in _headers(storage).items():
        if text := " ".join(mail.CONTROL_CHARS.sub(" ", value).split()):
            message.set_raw(label, text[: mail.MAX_HEADER_CHARS])
    html = _html(storage)
    message.set_content(_without_surrogates(storage.text(BODY) or ("" if html else _rtf_text(storage))))
    if html:
        message.add_alternative(_without_surrogates(html), "html")
    for child in file.children(*path):
        if child[-1].startswith("__attach"):
            _attach(message, _Storage(file, child, storage.code_page), depth)
    return message


def _headers(storage: _Storage) -> dict[str, str]:
    """Return the headers as they were sent, or else from the properties."""
    sent = HeaderParser().parsestr(storage.text(TRANSPORT_HEADERS))
    address = storage.text(SENDER_SMTP) or storage.text(SENDER_ADDRESS)
    headers = {"From": _format_address(storage.text(SENDER_NAME), address)}
    headers |= _recipients(storage)
    headers["Date"] = storage.date(SENT) or storage.date(DELIVERED)
    headers |= {label: str(sent[label]) for label in (*mail.HEADERS, "Date") if sent[label]}
    return headers | {"Subject": storage.text(SUBJECT)}


def _recipients(storage: _Storage) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for child in storage.file.children(*storage.path):
        if child[-1].startswith("__recip"):
            recipient = _Storage(storage.file, child, storage.code_page)
            label = RECIPIENT_TYPES.get(recipient.integer(RECIPIENT_TYPE), "")
            address = recipient.text(SMTP) or recipient.text(ADDRESS)
            found.setdefault(label, []).append(_format_address(recipient.text(NAME), address))
    return {label: ", ".join(found.get(label, [])) or storage.text(number) for label, number in DISPLAYED.items()}


def _format_address(name: str, address: str) -> str:
    """Return a name with its address, if that is one of e-mail."""
    return f"{name} <{address}>" if "@" in address and address != name else name or address


def _html(storage: _Storage) -> str:
    if not (data := storage.stream(HTML, BINARY)):
        return storage.text(HTML)
    return decode(data, storage.file.name, code_page_name(storage.integer(INTERNET_CODE_PAGE)) or storage.code_page)


def _attach(message: EmailMessage, storage: _Storage, depth: int) -> None:
    name = storage.text(LONG_FILE_NAME) or storage.text(FILE_NAME) or storage.text(NAME) or "attachment"
    inner = (*storage.path, f"__substg1.0_{DATA:04X}{STORAGE}")
    if (*inner, PROPERTIES) in storage.file.streams:
        if depth < MAX_DEPTH:
            message.add_attachment(_to_message(storage.file, inner, depth + 1))
        return
    main, _, sub = (guess_type(name)[0] or "application/octet-stream").partition("/")
    if main in ("message", "multipart"):
        main, sub = "application", "octet-stream"
    file_name = _without_surrogates(" ".join(mail.CONTROL_CHARS.sub(" ", name).split()))
    message.add_attachment(storage.stream(DATA, BINARY), main, sub, filename=file_name)


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _rtf_text(storage: _Storage) -> str:
    """Return the text of a message that is only in rich text."""
    source = decompress_rtf(storage.stream(RTF, BINARY))
    return "\n\n".join(page.text for page in rtf.read_rtf(source, storage.file.name)) if source else ""


def decompress_rtf(data: bytes) -> bytes:
    """Return the rich text of a message, which is compressed (MS-OXRTFCP)."""
    if data[8:12] == b"MELA":  # it is not
        return data[16:]
    result, position = bytearray(LZ_DICTIONARY), 0
    source = data[16:] if data[8:12] == b"LZFu" else b""
    while position < len(source) and len(result) < MAX_RTF_BYTES:
        flags, position = source[position], position + 1
        for bit in range(8):
            size = 2 if flags >> bit & 1 else 1
            piece, position = source[position : position + size], position + size
            if size == 1:
                result += piece
            elif not _copy_earlier(result, piece):
                return bytes(result[len(LZ_DICTIONARY) :])
    return bytes(result[len(LZ_DICTIONARY) :])


def _copy_earlier(result: bytearray, reference: bytes) -> bool:
    """Append an earlier part of the result. Return whether there is one."""
    if len(reference) < 2:
        return False
    offset, length = reference[0] << 4 | reference[1] >> 4, (reference[1] & 15) + 2
    start = len(result) - (len(result) - offset) % LZ_WINDOW
    if start < 0 or start == len(result):
        return False
    for step in range(length):  # it may reach into itself
        result.append(result[start + step])
    return True
