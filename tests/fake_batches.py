"""requests to /files and /batches -> responses: the Batch API of the fake server."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import RLock

from tests.fake_replies import Behaviour, FakeRefusal, Json, http_response

AnswerLine = Callable[[Behaviour, bytes], tuple[int, Json]]
_NO_RESULT: Json = {"response": None, "error": None}
_RUNNING = ("validating", "in_progress", "finalizing")


@dataclass
class FakeBatches:
    """The files and batches of a server."""

    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, Json] = field(default_factory=dict)
    looked_at: dict[str, int] = field(default_factory=dict)
    uploads: int = 0
    lock: RLock = field(default_factory=RLock)

    def handle(
        self, behaviour: Behaviour, command: str, path: str, raw: bytes, content_type: str, answer_line: AnswerLine
    ) -> bytes:
        """Return the response to one request. Raise FakeRefusal for an unknown path."""
        with self.lock:
            if not behaviour.batches:
                raise FakeRefusal(404, f"There is no {command} {path}")
            if path.startswith("/v1/files"):
                return self._handle_files(behaviour, command, path, raw, content_type)
            if (command, path) == ("POST", "/v1/batches"):
                created = self._create(behaviour, json.loads(raw), answer_line)
                return http_response(created | behaviour.batch_changes)
            if path == "/v1/batches":
                listed = [batch | behaviour.batch_changes for batch in self.batches.values()]
                return http_response({"object": "list", "data": listed, "has_more": True})
            id = path.removeprefix("/v1/batches/")
            if id not in self.batches:
                raise FakeRefusal(404, f"No batch {id}")
            return http_response(self._look_at(behaviour, id) | behaviour.batch_changes)

    def _handle_files(self, behaviour: Behaviour, command: str, path: str, raw: bytes, content_type: str) -> bytes:
        if command == "POST":
            return self._upload(raw, content_type)
        if command == "DELETE":
            return self._delete(behaviour, path.removeprefix("/v1/files/"))
        if match := re.fullmatch(r"/v1/files/([^/]+)/content", path):
            return http_response(self.files[match[1]], headers="Content-Type: application/octet-stream")
        return http_response({"object": "list", "data": [{"id": id} for id in self.files], "has_more": False})

    def _upload(self, raw: bytes, content_type: str) -> bytes:
        boundary = content_type.partition("boundary=")[2].encode()
        parts = [part.partition(b"\r\n\r\n") for part in raw.split(b"--" + boundary)]
        fields = {re.search(rb'name="(\w+)"', head)[1]: body.removesuffix(b"\r\n") for head, gap, body in parts if gap}  # type: ignore[index]
        if fields[b"purpose"] != b"batch":
            raise FakeRefusal(400, "The purpose has to be batch")
        id = self._add_file(fields[b"file"])
        file = {"id": id, "object": "file", "bytes": len(fields[b"file"]), "created_at": 0, "filename": "f.jsonl"}
        return http_response({**file, "purpose": "batch", "status": "processed"})

    def _add_file(self, content: bytes) -> str:
        self.uploads += 1
        self.files[id := f"file-{self.uploads}"] = content
        return id

    def _delete(self, behaviour: Behaviour, id: str) -> bytes:
        if behaviour.batch_files_stay:
            raise FakeRefusal(405, "Files stay")
        if self.files.pop(id, None) is None:
            raise FakeRefusal(404, f"No file {id}")
        return http_response({"id": id, "object": "file", "deleted": True})

    def _create(self, behaviour: Behaviour, request: Json, answer_line: AnswerLine) -> Json:
        """Return a new batch, whose requests are answered at once."""
        if request["endpoint"] != "/v1/chat/completions" or request["completion_window"] != "24h":
            raise FakeRefusal(400, "This batch has another endpoint or window")
        lines = self.files[request["input_file_id"]].splitlines()
        done = {"failed": 0, "expired": len(lines) // 2}.get(behaviour.batch_end, len(lines))
        results, errors = list[Json](), list[Json]()
        for number, line in enumerate(lines):
            result: Json = {
                "id": f"r{number}",
                "custom_id": json.loads(line)["custom_id"],
                "response": None,
                "error": None,
            }
            if number < done:
                status, body = answer_line(behaviour, line)
                result["response"] = {"status_code": status, "request_id": "", "body": body}
                (results if status == 200 else errors).append(result)
            elif behaviour.batch_end == "expired":
                errors.append({**result, "error": {"code": "batch_expired", "message": "It took too long."}})
        id = f"batch_{len(self.batches) + 1}"
        failed = {"data": [{"code": "invalid", "message": "The model takes no batches"}], "object": "list"}
        self.batches[id] = request | {
            "id": id,
            "object": "batch",
            "created_at": 0,
            "status": behaviour.batch_end,
            "errors": failed if behaviour.batch_end == "failed" else None,
            "output_file_id": self._add_file(_lines(results)) if results else None,
            "error_file_id": self._add_file(_lines(errors)) if errors else None,
            "request_counts": {"total": len(lines), "completed": len(results), "failed": len(errors)},
        }
        return self.batches[id] | {"status": _RUNNING[0], "output_file_id": None, "error_file_id": None}

    def _look_at(self, behaviour: Behaviour, id: str) -> Json:
        """Return a batch, which is not done at the first looks."""
        looks = self.looked_at[id] = self.looked_at.get(id, 0) + 1
        if looks <= behaviour.batch_polls:
            running = {"status": _RUNNING[min(looks, len(_RUNNING)) - 1], "output_file_id": None, "error_file_id": None}
            return self.batches[id] | running
        return self.batches[id]


def _lines(results: list[Json]) -> bytes:
    return b"".join(json.dumps(result).encode() + b"\n" for result in results)
