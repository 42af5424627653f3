"""A letter becomes its headers, its text and its attachments."""

from __future__ import annotations

import re
from email.message import EmailMessage
from pathlib import Path
from typing import cast

import pytest

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SourceError
from kumihimo.readers import READERS
from kumihimo.readers.documents import MAX_ATTACHMENT_DEPTH, read_documents
from kumihimo.readers.mail import read_mail, read_mailbox
from kumihimo.readers.page import Page
from tests import factories_office
from tests.factories_office import letter, lines


def read(data: bytes | str) -> Page:
    (page,) = read_mail(data if isinstance(data, bytes) else data.replace("\n", "\r\n").encode(), "a.eml")
    return page


def raw(*headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join(("From: ayu@example.org", *headers, "", "")).encode() + body


def test_a_plain_letter() -> None:
    page = read(letter("The ferry leaves at nine.\n\nAyu\n"))
    assert page.text == (
        "From: Ayu <ayu@example.org>\nTo: Ren <ren@example.org>\nDate: 2026-05-01T00:30:00Z\nSubject: Ferry\n\n"
        "The ferry leaves at nine.\n\nAyu"
    )
    assert page.title == "Ferry"
    assert page.metadata == {
        "author": "Ayu", "from": "Ayu <ayu@example.org>", "to": "Ren <ren@example.org>", "date": "2026-05-01T00:30:00Z"
    }  # fmt: skip


def test_the_plain_body_is_preferred_to_html() -> None:
    message = EmailMessage()
    message["Subject"] = "x"
    message.set_content("plain")
    message.add_alternative("<p>not plain</p>", "html")
    assert read(message.as_bytes()).text.endswith("\n\nplain")
    html = raw(
        "Content-Type: text/html", body=b"<h2>Tides</h2><ul><li><a href=x>high</a><li>low</ul><script>x</script>"
    )
    assert read(html).text.endswith("\n\n## Tides\n\n- high\n- low")


@pytest.mark.parametrize("blank", ["", "\n", " \u00a0\n\n"])
def test_an_empty_plain_version_is_ignored(blank: str) -> None:
    message = EmailMessage()
    message["Subject"] = "x"
    message.set_content(blank)
    message.add_alternative("<p>All that is said.</p>", "html")
    assert read(message.as_bytes()).text.endswith("\n\nAll that is said.")


RUSSIAN = "Привет, это письмо о лодках и приливах."


@pytest.mark.parametrize("charset", ["koi8-r", "windows-1251", "KOI8-R", "utf-8"])
@pytest.mark.parametrize("kind", ["html", "plain"])
def test_letters_in_their_charset(charset: str, kind: str) -> None:
    body = f"<p>{RUSSIAN}</p>" if kind == "html" else RUSSIAN
    text = read(raw(f"Content-Type: text/{kind}; charset={charset}", body=body.encode(charset))).text
    assert text.endswith(f"\n\n{RUSSIAN}")


def parts(*contents: bytes, kind: str = "multipart/mixed", boundary: str = "B") -> bytes:
    """Return a multipart body of these parts, each with its headers."""
    mark = boundary.encode()
    inside = b"".join(b"--" + mark + b"\r\n" + part + b"\r\n" for part in contents)
    return f"Content-Type: {kind}; boundary={boundary}\r\n\r\n".encode() + inside + b"--" + mark + b"--\r\n"


PLAIN = b"Content-Type: text/plain\r\n\r\nThe ferry leaves at nine."


@pytest.mark.parametrize(
    ("headers", "uri"),
    [
        (b"Content-Type: text/plain\r\nContent-Disposition: attachment", "a.eml#attachment.txt"),
        (b"Content-Type: text/csv", "a.eml#attachment.csv"),
        (b"Content-Type: text/csv\r\nContent-Disposition: attachment", "a.eml#attachment.csv"),
        (b"Content-Type: text/html\r\nContent-Disposition: attachment", "a.eml#attachment.html"),
    ],
)
def test_what_is_attached_without_a_name_is_not_lost(tmp_path: Path, headers: bytes, uri: str) -> None:
    data = b"From: a@b\r\nSubject: x\r\n" + parts(PLAIN, headers + b"\r\n\r\nboat,built\r\nMaru,1922\r\n")
    documents = factories_office.every(tmp_path, "a.eml", data)
    assert documents[0].text.endswith("The ferry leaves at nine.")
    assert [d.uri for d in documents[1:]] == [uri]
    assert "1922" in documents[1].text
    assert documents[0].metadata["attachments"] == [uri.partition("#")[2]]


def test_a_file_of_an_unknown_type_is_reported_as_not_read(tmp_path: Path) -> None:
    (document,) = factories_office.every(tmp_path, "a.eml", letter(report_wps=b"\xd0\xcf\x11\xe0"))
    assert document.metadata["not_read"] == ["a.eml#report.wps: unsupported file type"]


@pytest.mark.parametrize(
    ("sender", "author"),
    [
        ("Ayu Tanaka <ayu@example.org>", "Ayu Tanaka"),
        ('"Tanaka, Ayu" <ayu@example.org>', "Tanaka, Ayu"),
        ("=?utf-8?q?Jos=C3=A9?= Garrow <j@example.org>", "José Garrow"),
        ("=?utf-8?b?55Sw5LitIOiKmea2mw==?= <ayu@example.org>", "田中 芙涛"),
        ("ayu@example.org", None),
    ],
)
def test_the_author_is_the_name(sender: str, author: str | None) -> None:
    page = read(f"From: {sender}\nSubject: x\n\ny")
    assert page.metadata.get("author") == author
    assert str(page.metadata["from"]).endswith("@example.org" + ">" * (author is not None))


def test_a_signed_letter_in_a_list(tmp_path: Path) -> None:
    html = b"Content-Type: text/html\r\n\r\n<p>It leaves at nine, they say.</p>"
    versions = parts(PLAIN, html, kind="multipart/alternative", boundary="V")
    seal = b"Content-Type: application/pgp-signature; name=seal.asc\r\n\r\n-----BEGIN PGP SIGNATURE-----"
    inner = parts(versions, seal, kind="multipart/signed", boundary="S")
    tail = b"Content-Type: text/plain\r\n\r\nTo leave the list, write to Ren."
    data = b"From: a@b\r\nSubject: x\r\n" + parts(parts(inner, tail, boundary="L"), kind="multipart/signed")
    (document,) = factories_office.every(tmp_path, "a.eml", data)
    assert document.text.endswith("\n\nThe ferry leaves at nine.\n\nTo leave the list, write to Ren.")
    assert document.metadata["not_read"] == ["a.eml#seal.asc: unsupported file type"]


def test_japanese_mail() -> None:
    subject = "=?ISO-2022-JP?B?" + factories_office.base64("組紐の会議".encode("iso2022_jp")) + "?="
    kind = "Content-Type: text/plain; charset=ISO-2022-JP"
    page = read(raw(f"Subject: {subject}", kind, body="朝の九時です。".encode("iso2022_jp")))
    assert page.title == "組紐の会議"
    assert page.text.endswith("\n\n朝の九時です。")


@pytest.mark.parametrize("label", ["utf-8", "nonsense", ""])
def test_a_wrong_label_is_not_believed(label: str) -> None:
    body = "組紐の会議は朝の九時に始まります。遅れないでください。"
    for encoding in ("utf-8", "cp932", "euc_jp"):
        text = read(raw(f'Content-Type: text/plain; charset="{label}"', body=body.encode(encoding))).text
        assert text.endswith(body), encoding


def test_quoted_printable_and_base64() -> None:
    quoted = raw("Content-Type: text/plain; charset=utf-8", "Content-Transfer-Encoding: quoted-printable")
    assert read(quoted + b"Caf=C3=A9 =\r\nau lait").text.endswith("\n\nCafé au lait")
    coded = raw("Content-Type: text/plain; charset=utf-8", "Content-Transfer-Encoding: base64")
    assert read(coded + b"Q2Fmw6k=").text.endswith("\n\nCafé")


@pytest.mark.parametrize("date", ["yesterday", "Fri, 99 May 2026 09:30:00 +0900", ""])
def test_a_date_that_is_none(date: str) -> None:
    page = read(raw(f"Date: {date}", "Subject: x"))
    assert "date" not in page.metadata
    assert "Date:" not in page.text


def test_a_letter_without_a_body_or_a_subject() -> None:
    assert read(raw("Subject: x")).text == "From: ayu@example.org\nSubject: x\n\n"
    assert read(raw(body=b"Hello.")).title == ""


def test_without_headers_it_is_no_letter() -> None:
    for data in (b"", b"plain text\n\nmore", b"\x89PNG\r\n\x1a\n\0\0\0\r", b"Colour: red\n\nx"):
        with pytest.raises(SourceError, match=r"^a\.eml: not an e-mail, because it has no headers; name it \.txt"):
            read(data)


def test_attachments_are_documents_of_their_own(tmp_path: Path) -> None:
    data = letter(
        boats_csv=b"boat,built\nMaru,1922\n",
        tide_pdf=factories_office.pdf(lines("The sea rises.")),
        photo_heic=b"\x89PNG",
    )
    documents = factories_office.every(tmp_path, "mail.eml", data)
    assert [d.uri for d in documents] == ["mail.eml", "mail.eml#boats.csv", "mail.eml#tide.pdf"]
    assert [d.title for d in documents] == ["Ferry", "boats", "tide"]
    assert [d.text for d in documents[1:]] == ["boat: Maru; built: 1922", "The sea rises."]
    assert documents[0].metadata["attachments"] == ["boats.csv", "tide.pdf", "photo.heic"]
    assert documents[0].metadata["not_read"] == ["mail.eml#photo.heic: unsupported file type"]
    assert {d.file for d in documents} == {"mail.eml"}
    assert [d.id for d in documents] == [hash_parts(d.uri) for d in documents]
    assert documents[1].media_type == "text/csv"
    assert documents[2].places == ((0, "p. 1"),)


def test_attachments_of_one_name_keep_their_suffix_and_content(tmp_path: Path) -> None:
    message = EmailMessage()
    message["Subject"] = "x"
    message.set_content("y")
    for name, content in (("in/a.txt", b"one"), ("out/a.txt", b"two"), ("a.txt", b"three")):
        message.add_attachment(content, "text", "plain", filename=name)
    documents = factories_office.every(tmp_path, "m.eml", message.as_bytes())
    contents = {"m.eml#a.txt": "one", "m.eml#a~2.txt": "two", "m.eml#a~3.txt": "three"}
    assert {document.uri: document.text for document in documents[1:]} == contents


def test_rows_of_an_attachment(tmp_path: Path) -> None:
    message = EmailMessage()
    message["Subject"] = "x"
    message.set_content("y")
    message.add_attachment(b'{"id": "r 1", "text": "a"}', "application", "json", filename="r#1.jsonl")
    documents = factories_office.every(tmp_path, "mail.eml", message.as_bytes())
    assert [d.uri for d in documents] == ["mail.eml", "mail.eml#r%231.jsonl/r 1"]


def test_an_unreadable_attachment_is_reported_and_the_letter_is_read(tmp_path: Path) -> None:
    (document,) = factories_office.every(tmp_path, "mail.eml", letter(broken_pdf=b"%PDF-1.4 and no more", ok_txt=b""))
    assert document.text.endswith("The ferry leaves at nine.")
    (message,) = cast(list[str], document.metadata["not_read"])
    assert message.startswith("mail.eml#broken.pdf: not a complete PDF")


def enclosed(depth: int) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = f"depth {depth}"
    message.set_content(f"letter {depth}")
    if depth:
        message.add_attachment(enclosed(depth - 1))
    return message


def test_letters_in_letters_are_opened_so_deep(tmp_path: Path) -> None:
    documents = factories_office.every(tmp_path, "a.eml", enclosed(9).as_bytes())
    assert [d.title for d in documents] == [f"depth {9 - n}" for n in range(MAX_ATTACHMENT_DEPTH + 1)]
    assert documents[2].uri == "a.eml#message.eml/message.eml"
    deepest = "a.eml#" + "/".join(["message.eml"] * (MAX_ATTACHMENT_DEPTH + 1))
    assert documents[-1].metadata["not_read"] == [f"{deepest}: more than 5 levels deep; save it as a file of its own"]


def test_a_letter_in_a_letter_200_times(tmp_path: Path) -> None:
    data = b"Subject: depth 0\n\nletter 0"
    for depth in range(1, 200):
        text = f"\n--{depth}\n\nletter {depth}\n--{depth}\nContent-Type: message/rfc822\n\n".encode()
        head = f"Subject: depth {depth}\nContent-Type: multipart/mixed; boundary={depth}\n".encode()
        data = head + text + data + f"\n--{depth}--\n".encode()
    documents = factories_office.every(tmp_path, "a.eml", data)
    assert [d.title for d in documents] == [f"depth {199 - n}" for n in range(MAX_ATTACHMENT_DEPTH + 1)]
    assert documents[3].text.endswith("letter 196")


@pytest.mark.parametrize(
    ("label", "size"),
    [*((label, 30_000) for label in ("From", "To", "Date", "Received")), ("Content-Type", 19_000), ("Content-Id", 51)],
)
def test_comments_in_comments(label: str, size: int) -> None:
    page = read(f"{label}: {'(' * size}\nSubject: Ferry\n\nIt leaves at nine.")
    assert page.title == "Ferry"
    assert page.text.endswith("It leaves at nine.")


# -- mailboxes


def mailbox(*letters: bytes, end: bytes = b"\n") -> bytes:
    """Return the letters as a mail program keeps them."""
    parts = []
    for each in letters:
        body = re.sub(rb"^(>*From )", rb">\1", each.replace(b"\r\n", b"\n"), flags=re.M)
        parts.append(b"From ayu@example.org Fri May  1 00:30:00 2026\n" + body + b"\n\n")
    return b"".join(parts).replace(b"\n", end)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_each_message_of_a_mailbox_is_a_document(tmp_path: Path, end: bytes) -> None:
    message = EmailMessage()
    message["From"], message["Subject"] = "Ren <ren@example.org>", "Re: Ferry"
    message.set_content("It was late.\n\nFrom here on it sails at ten.\n")
    message.add_attachment(b"text,id\nThe tide is high.,a\n", "text", "csv", filename="tides.csv")
    path = tmp_path / "letters.mbox"
    path.write_bytes(mailbox(letter("The ferry leaves at nine."), message.as_bytes(), end=end))
    documents = {document.uri: document for document in read_documents(path, "letters.mbox", READERS)}
    assert list(documents) == [
        "letters.mbox",
        "letters.mbox#1.eml",
        "letters.mbox#2.eml",
        "letters.mbox#2.eml/tides.csv/a",
    ]
    assert documents["letters.mbox"].text == "1.eml: Ferry\n2.eml: Re: Ferry"
    assert documents["letters.mbox#2.eml"].text.endswith("It was late.\n\nFrom here on it sails at ten.")
    assert documents["letters.mbox#2.eml"].metadata["author"] == "Ren"


def test_a_broken_message_does_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "letters.mbox"
    path.write_bytes(mailbox(b"no headers at all", letter("The ferry leaves at nine.")))
    first, *others = read_documents(path, "letters.mbox", READERS)
    assert "1.eml: not an e-mail" in str(first.metadata["not_read"])
    assert [document.title for document in others] == ["Ferry"]


def test_other_texts_are_no_mailbox() -> None:
    with pytest.raises(SourceError, match="does not begin with a line `From `"):
        list(read_mailbox(b"Dear Ayu,\n\nFrom here on\n", "a.mbox"))
