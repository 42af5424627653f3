"""A message of Outlook becomes what an e-mail of the same content becomes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers.outlook import decompress_rtf, read_msg
from kumihimo.readers.page import Page
from tests import factories_office
from tests.factories_ole import Values, compound, message, message_streams

SENT: Values = {
    0x0037: "Ferry",
    0x0C1A: "Ayu",
    0x5D01: "ayu@example.org",
    0x0039: datetime(2026, 5, 1, 0, 30, tzinfo=UTC),
}
REN: tuple[str, Values] = ("recip", {0x3001: "Ren", 0x39FE: "ren@example.org", 0x0C15: 1})


def read(data: bytes) -> Page:
    (page,) = read_msg(data, "a.msg")
    return page


def test_headers_and_text() -> None:
    page = read(message({**SENT, 0x1000: "The ferry leaves at nine.\r\n\r\nAyu\r\n"}, REN))
    assert page.text == (
        "From: Ayu <ayu@example.org>\nTo: Ren <ren@example.org>\nDate: 2026-05-01T00:30:00Z\nSubject: Ferry\n\n"
        "The ferry leaves at nine.\n\nAyu"
    )
    assert page.title == "Ferry"
    assert page.metadata == {
        "author": "Ayu", "from": "Ayu <ayu@example.org>", "to": "Ren <ren@example.org>", "date": "2026-05-01T00:30:00Z"
    }  # fmt: skip


def test_the_headers_that_were_sent_are_preferred() -> None:
    sent = "From: =?utf-8?b?55Sw5LitIOiKmea2mw==?= <fumi@example.org>\r\nTo: b@example.org\r\n"
    sent += "Date: Fri, 1 May 2026 09:30 +0900\r\n"
    page = read(message({**SENT, 0x007D: sent, 0x1000: "x"}, REN))
    assert page.text.startswith("From: 田中 芙涛 <fumi@example.org>\nTo: b@example.org\nDate: 2026-05-01T00:30:00Z\n")


def test_html_is_read_if_there_is_no_plain_text() -> None:
    html = "<p>満潮は<b>九時</b>。".encode("cp932")
    assert read(message({**SENT, 0x3FDE: 932, 0x1013: html})).text.endswith("\n\n満潮は九時。")
    assert read(message({**SENT, 0x1013: "<p>High"})).text.endswith("\n\nHigh")
    assert read(message({**SENT, 0x1013: html, 0x1000: "plain"})).text.endswith("\n\nplain")


@pytest.mark.parametrize(("number", "codec"), [(932, "cp932"), (1251, "cp1251"), (65001, "utf-8"), (1252, "cp1252")])
def test_texts_in_a_code_page(number: int, codec: str) -> None:
    text = {"cp932": "組紐の会議は九時です", "cp1251": "Привет из гавани", "utf-8": "潮", "cp1252": "Café"}[codec]
    page = read(message({0x3FFD: number, 0x0037: text, 0x1000: text}, code_page=codec))
    assert page.title == text
    assert page.text.endswith(f"\n\n{text}")


def test_attachments_are_documents_and_messages_are_opened(tmp_path: Path) -> None:
    csv: tuple[str, Values] = (
        "attach",
        {0x3707: "boats.csv", 0x3704: "BOATS~1.CSV", 0x3701: b"boat,built\nMaru,1922\n"},
    )
    inner = "__attach_version1.0_#00000001/__substg1.0_3701000D/"
    streams = message_streams({**SENT, 0x1000: "Outer."}, [csv, ("attach", {0x3001: "Inner", 0x3705: 5})])
    streams |= message_streams({0x0037: "満潮", 0x1000: "Inner."}, [csv], inner)
    documents = factories_office.every(tmp_path, "a.msg", compound(streams))
    assert {document.uri: document.text for document in documents} == {
        "a.msg": documents[0].text,
        "a.msg#boats.csv": "boat: Maru; built: 1922",
        "a.msg#message.eml": "Subject: 満潮\n\nInner.",
        "a.msg#message.eml/boats.csv": "boat: Maru; built: 1922",
    }
    assert documents[0].metadata["attachments"] == ["boats.csv", "message.eml"]


def test_rich_text_is_read_if_there_is_no_other() -> None:
    plain = bytes(8) + b"MELA" + bytes(4) + rb"{\rtf1 The tide.}"
    assert read(message({**SENT, 0x1009: plain})).text.endswith("\n\nThe tide.")
    # The example of the specification, MS-OXRTFCP 3.1.1.
    packed = "2d0000002b0000004c5a4675f1c5c7a703000a00"
    packed += "7263706731323542320af32068656c090020627705b06c647d0a800fa0"
    assert decompress_rtf(bytes.fromhex(packed)) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"


def test_odd_values_do_no_harm() -> None:
    odd = {0x0037: "Ferry\r\nBcc: all@example.org", 0x0C1A: 'A "b" <c', 0x0C1F: "/O=EX/CN=X", 0x1000: "x\ud800"}
    page = read(message(odd, ("attach", {0x3701: b"x"}), ("recip", {}), ("attach", {0x3707: "../a.eml", 0x3701: b""})))
    assert page.title == "Ferry Bcc: all@example.org"
    assert page.text.startswith('From: A "b" <c\nSubject: Ferry')
    assert page.metadata["attachments"] == ["attachment", "a.eml"]


def test_other_files_are_refused_with_a_remedy() -> None:
    with pytest.raises(SourceError, match=r"^a\.msg: not a message of Outlook; save it again"):
        read(compound({"WordDocument": b"x"}))
    for data in (b"From: a@b.c\n\nx", b"\xd0\xcf\x11\xe0" + bytes(99), b""):
        with pytest.raises(SourceError, match=r"^a\.msg: damaged, or not what its name says"):
            read(data)
    with pytest.raises(SourceError, match=r"^a\.msg: locked with a password"):
        read(compound({"EncryptedPackage": b"x"}))
