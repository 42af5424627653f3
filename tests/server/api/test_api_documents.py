"""Files that clients upload, add and delete: stored whole, under limits, and read by a build."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.app.upkeep.keys import create_key
from kumihimo.core.digests import hash_parts
from kumihimo.readers.remote.origins import text_file_name
from kumihimo.server.settings import MEGABYTE
from kumihimo.server.uploads import remove_incoming
from tests.fixtures_index import fill
from tests.server.api.town import Api, serve

BOUNDARY = "b0undary"
KIND = f"multipart/form-data; boundary={BOUNDARY}"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """With a root beside the town, and without any build so far."""
    folder = tmp_path_factory.mktemp("harbour")
    fill(folder, {"root/tides.md": "The tide turns at six.", "town/a.md": "Ada Holm mended the net."})
    fill(folder, {"kumi.toml": "[reading]\ntext = 1\n"})  # million characters
    with Kumihimo.open(folder / ".kumi") as kumi:
        kumi.index(folder / "town", methods=["bm25"])
    with serve(folder, roots=(folder / "root",), max_upload=MEGABYTE) as api:
        yield api


def form(*parts: tuple[str, bytes]) -> bytes:
    lines = [f"--{BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + data for head, data in parts]
    return b"\r\n".join([*lines, f"--{BOUNDARY}--\r\n".encode()])


def send(api: Api, body: bytes, status: int, kind: str = KIND) -> Any:
    response = api.client.post("/api/v1/documents", content=body, headers={"content-type": kind})
    assert response.status_code == status, response.text
    return response.json()


def stored(api: Api) -> list[str]:
    uploads = api.served.uploads
    return sorted(path.relative_to(uploads).as_posix() for path in uploads.rglob("*") if path.is_file())


def uris(api: Api, **parameters: str) -> list[str]:
    return [document["uri"] for document in api.get("/documents", **parameters)["documents"]]


def test_an_upload_that_cannot_be_read_is_deleted_too(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.built(api.upload("torn.pdf", b"%PDF-1.4 nothing"))
    (file,) = (file for file in api.get("/documents")["failed"] if file["uri"] == "uploads/torn.pdf")
    assert file["is_upload"]
    monkeypatch.setattr("kumihimo.server.api.documents._MAX_FAILED", 0)  # as if it were beyond the listed ones
    reply = api.delete(f"/documents/{file['id']}")
    assert reply["document"] == file
    api.built(reply)
    assert "torn.pdf" not in stored(api)
    monkeypatch.undo()
    assert file["uri"] not in {each["uri"] for each in api.get("/documents")["failed"]}


def test_uploads_are_stored_read_replaced_and_deleted(api: Api) -> None:
    body = form(
        ('name="file"; filename="../boats.md"', b"The Kestrel sails."),
        ('name="note"', b"hello"),
        ('name="file"; filename="nets.csv"', b"name,size\nherring,3\ncod,5\n"),
        ('name="file"; filename=""', b""),
    )
    reply = send(api, body, 202)
    assert reply["files"] == [{"name": "boats.md", "bytes": 18}, {"name": "nets.csv", "bytes": 26}]
    built = api.built(reply)
    assert (built["state"], built["result"]["read"]) == ("done", 2)
    (boats,) = api.get("/documents", q="boats")["documents"]
    assert boats["uri"] == "uploads/boats.md"
    assert stored(api) == ["boats.md", "nets.csv"]

    built = api.built(api.upload("boats.md", b"The Gull sails."))
    assert (built["result"]["read"], built["result"]["changed"]) == (1, 1)
    assert api.get(f"/documents/{boats['id']}/text")["text"] == "The Gull sails."

    reply = api.delete(f"/documents/{boats['id']}")
    assert reply["document"]["uri"] == "uploads/boats.md"
    assert stored(api) == ["nets.csv"]
    assert api.built(reply)["result"]["removed"] == 1
    assert uris(api, q="boats") == []
    api.built(api.upload("boats.md", b"The Tern sails."))
    assert uris(api, q="boats") == ["uploads/boats.md"]
    assert api.get("/builds")["builds"][0]["state"] == "done"


def test_a_row_is_removed_and_its_file_stays(api: Api) -> None:
    rows = b'{"id": "a", "text": "Ada sings."}\n{"id": "b", "text": "Bo sings."}\n'
    api.built(api.upload("songs.jsonl", rows))
    listed = api.get("/documents", q="songs.jsonl")["documents"]
    assert [document["uri"] for document in listed] == ["uploads/songs.jsonl#a", "uploads/songs.jsonl#b"]
    api.built(api.delete(f"/documents/{listed[0]['id']}"))
    assert (uris(api, q="songs.jsonl"), "songs.jsonl" in stored(api)) == (["uploads/songs.jsonl#b"], True)
    api.built(api.upload("songs.jsonl", rows))
    assert len(uris(api, q="songs.jsonl")) == 2  # uploaded again, it is whole
    api.built(api.delete(f"/documents/{listed[1]['id']}", whole_file=True))
    assert (uris(api, q="songs.jsonl"), "songs.jsonl" in stored(api)) == ([], False)


def test_a_path_inside_a_root_is_added_and_its_documents_removed(api: Api) -> None:
    base = api.served.kumi.base
    reply = api.post("/documents/paths", {"path": "tides.md"}, 202)
    assert (reply["path"], api.built(reply)["state"]) == (str(base / "root" / "tides.md"), "done")
    (tides,) = api.get("/documents", q="tides")["documents"]
    api.built(api.delete(f"/documents/{tides['id']}"))
    assert uris(api, q="tides") == []
    assert (base / "root" / "tides.md").exists()
    for path in ("../town/a.md", "/etc/passwd", str(base / "town")):
        assert "outside the folders" in api.problem("/documents/paths", 403, {"path": path})
        assert "outside the folders" in api.problem("/builds", 403, {"paths": [path]})
    assert "does not exist" in api.problem("/documents/paths", 400, {"path": "nothing.md"})
    assert "is no path" in api.problem("/documents/paths", 400, {"path": "a\0b"})


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (form(('name="f"; filename="a.exe"', b"x")), 400, "a.exe: no reader for '.exe'"),
        (form(('name="f"; filename=".kumiignore"', b"*")), 400, "no reader for"),
        (form(('name="f"; filename=".."', b"x")), 400, "no reader for"),
        (form(('name="f"', b"x")), 400, "the form has no file"),
        (form(('name="f"; filename="a.md"', b"x"))[:-20], 400, "the form has broken off"),
        (b"no form", 400, "the form cannot be read"),
        (form(('name="f"; filename="big.md"', b"x" * (MEGABYTE + 1))), 413, "the body has more than 1,048,576 bytes"),
        (form(('name="f"', b"x" * 20_000)), 413, "a field of the form has more than 10,000 bytes"),
        (form(*[(f'name="{i}"', b"x") for i in range(30)]), 413, "more than 20 fields"),
        (form(*[(f'name="f"; filename="{i}.md"', b"x") for i in range(101)]), 413, "more than 100 files"),
        (form(*[('name="f"; filename="a.exe"', b"x")] * 101), 413, "more than 100 files"),
        (form(*[('name="f"; filename=""', b"")] * 200), 413, "more than 100 files"),
        (form(*[('name="f"', b"x")] * 200), 413, "more than 100 files"),
    ],
)
def test_a_wrong_form_leaves_nothing(api: Api, body: bytes, status: int, message: str) -> None:
    before = stored(api)
    assert message in send(api, body, status)["detail"]
    assert stored(api) == before
    assert [*api.served.uploads.glob(".incoming-*")] == []


def test_of_some_files_those_without_a_reader_are_named_and_the_others_taken(api: Api) -> None:
    before, program = stored(api), b"\x7fELF" + b"\0" * 30_000
    body = form(
        ('name="f"; filename="a.exe"', program),
        ('name="f"; filename="crane.md"', b"The crane lifts."),
        ('name="f"; filename="b/crane.md"', b"Another crane."),
        ('name="f"; filename="minutes"', b"<!DOCTYPE html><title>Minutes</title><p>The lock opens."),
        ('name="note"', b"hello"),
    )
    reply = send(api, body, 202)
    assert [file["name"] for file in reply["files"]] == ["crane.md", "minutes"]
    exe, twice = reply["refused"]
    assert exe.startswith("a.exe: no reader for '.exe'")
    assert twice == "two files are called crane.md: rename one"
    api.built(reply)
    assert stored(api) == sorted([*before, "crane.md", "minutes"])
    (minutes,) = api.get("/documents", q="minutes")["documents"]  # whose content says what it is
    assert (minutes["title"], minutes["media_type"]) == ("Minutes", "text/html")
    response = api.client.post("/api/v1/documents", files={"f": ("b.exe", b"x")}, headers={"accept-language": "ja"})
    assert (response.status_code, "b.exe" in response.json()["detail"]) == (400, True)
    assert stored(api) == sorted([*before, "crane.md", "minutes"])


def test_all_uploads_together_have_a_limit(tmp_path: Path) -> None:
    fill(tmp_path, {"uploads/old/a.md": "x" * 50_000})
    with serve(tmp_path, upload_space=60_000) as api:
        send(api, form(*[(f'name="f"; filename="{i}.md"', b"") for i in range(3)]), 507)  # a file takes a block
        send(api, form(('name="f"; filename="a.md"', b"x" * 9_000)), 202)
        problem = send(api, form(('name="f"; filename="b.md"', b"x" * 9_000)), 507)
        assert "start `kumi serve` with a larger --upload-space" in problem["detail"]
        assert stored(api) == ["a.md", "old/a.md"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full disk")
def test_a_full_disk_is_said_and_leaves_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    before, open_file = stored(api), Path.open

    def open_on_a_full_disk(path: Path, mode: str = "r", *options: Any, **more: Any) -> Any:
        return open_file(Path("/dev/full"), "wb") if mode == "xb" else open_file(path, mode, *options, **more)

    monkeypatch.setattr(Path, "open", open_on_a_full_disk)
    for size in (9, 100_000):  # which does not fit as it is closed, or as it is written
        problem = send(api, form(('name="f"; filename="a.md"', b"x" * size)), 507)
        assert problem["detail"] == (
            "the files cannot be stored (no space left on device): tell the administrator of this server"
        )
    monkeypatch.undo()
    assert stored(api) == before
    assert [*api.served.uploads.glob(".incoming-*")] == []


def test_what_a_killed_server_has_left_of_uploads_is_removed(tmp_path: Path) -> None:
    kept = fill(tmp_path, {"a.md": "A", "k1/b.md": "B", ".incoming-1/0.md": "x", "k1/.incoming-2/0.md": "x"})
    remove_incoming(kept)
    assert sorted(path.name for path in kept.glob("**/*")) == ["a.md", "b.md", "k1"]


def test_texts_are_stored_read_replaced_and_deleted_by_id(api: Api) -> None:
    name, skiff = text_file_name("Notes/1"), "# Skiff\n\nThe skiff rests."
    note = {
        "id": "Notes/1",
        "title": "Of sails",
        "text": "The Petrel sails.",
        "metadata": {"author": "Bo Lind", "year": 2024},
    }
    reply = api.post("/documents", {"documents": [note, {"text": skiff}]}, 202)
    assert reply.keys() == {"files", "refused", "build"}
    assert [file["name"] for file in reply["files"]] == [name, f"{hash_parts(skiff)}.json"]
    assert api.built(reply)["result"]["new"] == 2
    (listed,) = api.get("/documents", filter='id = "Notes/1" and author = "Bo Lind" and year = 2024')["documents"]
    assert (listed["uri"], listed["title"]) == (f"uploads/{name}", "Of sails")
    assert api.get(f"/documents/{listed['id']}/text")["text"] == note["text"]
    reply = api.post("/documents", {"documents": [{"id": "petrel", "text": "The Petrel rests."}]}, 202)
    assert api.built(reply)["result"]["new"] == 1
    reply = api.post("/documents", {"documents": [{"id": "petrel", "text": "The Petrel is sold."}]}, 202)
    assert api.built(reply)["result"]["changed"] == 1
    reply = api.delete("/documents/petrel")
    assert (reply["document"]["uri"], "petrel.json" in stored(api)) == ("uploads/petrel.json", False)
    assert api.built(reply)["result"]["removed"] == 1
    assert api.client.delete("/api/v1/documents/petrel").status_code == 404
    api.built(api.delete(f"/documents/{listed['id']}"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "documents: Field required"),
        ({"documents": []}, "documents: List should have at least 1 item"),
        ({"documents": [{"text": "x"}] * 101}, "documents: List should have at most 100 items"),
        ({"documents": [{"id": "a"}]}, "documents.0.text: Field required"),
        ({"documents": [{"text": "a", "file": "b"}]}, "documents.0.file: Unexpected keyword argument"),
        ({"documents": [{"text": "a", "metadata": [1]}]}, "documents.0.metadata: Input should be an object"),
        ({"documents": [{"id": "x", "text": "a"}, {"id": "x", "text": "b"}]}, "two texts have the id 'x'"),
    ],
)
def test_wrong_texts_leave_nothing(api: Api, body: dict[str, Any], message: str) -> None:
    before = stored(api)
    assert message in api.problem("/documents", 400, body)
    assert (stored(api), [*api.served.uploads.glob(".incoming-*")]) == (before, [])


def test_another_kind_of_body_is_no_form(api: Api) -> None:
    for kind in ("application/octet-stream", "multipart/form-data", "text/plain"):
        assert "multipart/form-data" in send(api, b"{}", 400, kind)["detail"]
    assert "cannot be read" in send(api, b"x", 400, f"multipart/form-data; boundary={'b' * 300}")["detail"]


def bomb() -> bytes:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("word/document.xml", b"<a>" + b" " * 9 * MEGABYTE)
    return packed.getvalue()


def test_a_bomb_is_stopped_by_the_limits_of_the_readers(api: Api) -> None:
    reply = api.upload("bomb.docx", bomb())
    built = api.built(reply)
    assert built["state"] == "done"
    failed = {file["uri"]: file["error"] for file in api.get("/documents")["failed"]}
    assert "bomb.docx" in failed["uploads/bomb.docx"]
    assert "more than" in failed["uploads/bomb.docx"]


def test_only_editors_change_anything(api: Api) -> None:
    (document, *_) = api.get("/documents")["documents"]
    with api.acting("reader"):
        assert "kumi key new --role editor" in send(api, form(('name="f"; filename="a.md"', b"x")), 403)["detail"]
        assert "editor" in api.problem("/documents/paths", 403, {"path": "tides.md"})
        assert "editor" in api.problem("/builds", 403, {})
        assert "editor" in api.problem("/builds", 403)
        assert api.client.delete(f"/api/v1/documents/{document['id']}").status_code == 403


def test_uploads_of_one_who_sees_only_some_documents_are_apart(api: Api) -> None:
    """So that no name of a hidden file is taken, and none is replaced."""
    api.built(api.upload("plan.md", b"The secret plan."))
    api.built(api.post("/documents", {"documents": [{"id": "plan", "text": "A secret text."}]}, 202))
    id, _ = create_key([api.served.kumi.folder], "editor")
    with api.acting("editor", rights='access = "open"', key=id):
        assert api.client.delete("/api/v1/documents/plan").status_code == 404
        plan = {"id": "plan", "text": "A plan of one's own.", "metadata": {"access": "open"}}
        api.built(api.post("/documents", {"documents": [plan]}, 202))
        api.built(api.delete("/documents/plan"))
        reply = api.upload("plan.md", b"---\naccess: open\n---\nAn open plan.")
        assert reply["build"].keys() == {"id", "kind", "state", "created", "started", "ended", "progress", "error"}
        assert api.built(reply)["state"] == "done"
        assert uris(api) == [f"uploads/{id}/plan.md"]
        (own,) = api.get("/documents")["documents"]
        api.built(api.delete(f"/documents/{own['id']}"))
    assert (api.served.uploads / "plan.md").read_text() == "The secret plan."
    assert "A secret text." in (api.served.uploads / "plan.json").read_text()


def test_a_file_with_hidden_parts_is_not_removed_whole(api: Api) -> None:
    rows = [{"id": "a", "text": "Ada sings.", "access": "open"}, {"id": "b", "text": "Bo sings.", "access": "secret"}]
    id, _ = create_key([api.served.kumi.folder], "editor")
    letter = b"From: ada@example.org\nSubject: Nets\n\nThe nets are mended.\n"
    with api.acting("editor", rights='access = "open" or from', key=id):
        api.built(api.upload("rows.jsonl", "\n".join(map(json.dumps, rows))))
        api.built(api.upload("letter.eml", letter))
        row, own = (f"/documents/{hash_parts(f'uploads/{id}/{name}')}" for name in ("rows.jsonl#a", "letter.eml"))
        refused = api.client.delete(f"/api/v1{row}", params={"whole_file": True})
        assert (refused.status_code, "no filter" in refused.text) == (403, True)
        api.built(api.delete(row))
    api.built(api.upload("letter.eml", letter))
    with api.acting("editor", rights='access = "open" or from', key=id):
        of_others = f"/api/v1/documents/{hash_parts('uploads/letter.eml')}"
        assert api.client.delete(of_others).status_code == 403  # as if it had hidden parts
        api.built(api.delete(own))
        assert uris(api) == ["uploads/letter.eml"]
    assert uris(api, q="rows.jsonl") == [f"uploads/{id}/rows.jsonl#b"]
    assert {"letter.eml", f"{id}/rows.jsonl"} <= {*stored(api)}
    assert f"{id}/letter.eml" not in stored(api)


def test_an_upload_brings_nothing_back(api: Api) -> None:
    api.built(api.upload("verses.jsonl", '{"id": "a", "text": "Ada."}\n{"id": "b", "text": "Bo."}\n'))
    api.built(api.delete(f"/documents/{hash_parts('uploads/verses.jsonl#a')}"))
    api.built(api.upload("else.md", "Something else."))
    assert uris(api, q="verses") == ["uploads/verses.jsonl#b"]
    api.built(api.delete(f"/documents/{hash_parts('uploads/else.md')}"))
    assert uris(api, q="verses") == ["uploads/verses.jsonl#b"]


def test_an_index_begins_with_its_first_upload(tmp_path: Path) -> None:
    with serve(tmp_path) as api:
        empty = api.get("/documents")
        assert (empty["documents"], empty["counts"]["documents"], empty["waiting"]) == ([], 0, [])
        assert "there is no index" in api.problem("/ask", 503, {"question": "Who?"})
        reply = api.upload("first.md", "Ada Holm mended the net.")
        assert api.built(reply)["state"] == "done"
        assert uris(api) == ["uploads/first.md"]
        assert api.post("/ask", {"question": "Who mended the net?"})["status"] == "answered"
