"""requests -> one job of an OpenAI Batch API, and its results -> replies: half the price, within a day.

A job is found again by its name, which travels as metadata, so that nothing is submitted twice after a lost answer.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import quote

from kumihimo.core import digests, usage
from kumihimo.core.errors import ItemFailed, KumiError, RequestRefused, SettingsError
from kumihimo.core.redaction import redact
from kumihimo.llm import response_body, transport
from kumihimo.llm.http_client import StatusError
from kumihimo.llm.openai import OpenAIChat, read_completion
from kumihimo.llm.protocols import ChatRequest, FailedTry, Prices, Reply, TextsReply, TextsRequest
from kumihimo.llm.retry import retrying

T = TypeVar("T")

MAX_REQUESTS = 5_000  # of one job: claims on n keys take n² steps. OpenAI allows 50,000
MAX_BYTES = 190 * response_body.MEGABYTE  # of one job: OpenAI allows 200 MB
ENDPOINT = "/v1/chat/completions"
_NAME = "kumihimo"  # the key of our name in the metadata of a job
_MAX_RESULT_BYTES, _MAX_LINE_BYTES = 2048 * response_body.MEGABYTE, 16 * response_body.MEGABYTE
_MAX_RESULT_SECONDS = 3600  # of the download of a file
_MAX_ID, _MAX_JOBS = 1000, 10_000  # characters of a text of a job, and jobs of an account that are searched
_NO_BATCHES = (404, 405, 501)
_MAX_LABEL = 60  # characters of the code of an error
_RETRIED = (0, 408, 409, 429)  # statuses of a request that may succeed in the next batch, as those from 500 on


@dataclass(frozen=True, slots=True)
class Job:
    """A job on a server.

    state: as OpenAI names it, or `deleted`. done, total: requests. error: why it failed as a whole. files: of its
    results and of its errors. input: the file of its requests.
    """

    id: str
    state: str
    done: int = 0
    total: int = 0
    error: str = ""
    files: tuple[str, ...] = ()
    input: str = ""

    @property
    def is_over(self) -> bool:
        """Return whether no more results will come."""
        return self.state in ("completed", "failed", "expired", "cancelled", "deleted")


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of one request: a reply, or why there is none.

    may_succeed: in the next batch.
    """

    key: bytes
    reply: Reply | None = None
    error: str = ""
    may_succeed: bool = False


@dataclass(frozen=True, slots=True)
class BatchServer:
    """A model server with a Batch API."""

    server: transport.ModelServer

    def submit(self, name: str, lines: Iterable[bytes]) -> Job:
        """Upload the requests and start the job of this name.

        A try after a lost answer finds the job of the first one.
        """
        content = b"\n".join(lines) + b"\n"
        form = {"data": {"purpose": "batch"}, "files": {"file": (f"{name}.jsonl", content)}}
        file = self._call(lambda: _text(self._read("POST", "/files", **form), "id"))
        return self._call(lambda: self._find(name, file) or self._create(file, name))

    def find(self, name: str) -> Job | None:
        """Return the job of this name, if the server has one."""
        return self._call(lambda: self._find(name))

    def job(self, id: str) -> Job:
        """Return the state of a job."""

        def retrieve() -> Job:
            try:
                job = _read_job(self._read("GET", f"/batches/{quote(id, safe='')}"))
            except StatusError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                return Job(id, "deleted")
            if job.id != id:
                raise response_body.garbled_error()
            return job

        return self._call(retrieve)

    def results(self, job: Job, sizes: Mapping[bytes, int], prices: Prices) -> list[BatchResult]:
        """Return the results of a job that is over.

        sizes: bytes of the prompt of each request; others are ignored. prices: of a batch. A reply counts more than an
        error of the same request.
        """
        lines = (line for file in job.files for line in self._call(partial(self._read_lines, file)))
        found = [result for line in lines if (result := parse_result(line, sizes, prices))]
        return list({result.key: result for result in sorted(found, key=lambda each: bool(each.reply))}.values())

    def delete_files(self, job: Job) -> list[str]:
        """Delete the requests and the results of a job.

        Return the files that the server keeps.
        """
        return [file for file in (job.input, *job.files) if file and not self._delete_file(file)]

    def _delete_file(self, file: str) -> bool:
        """Delete a file; return whether it is gone."""

        def delete() -> bool:
            try:
                self.server.send("DELETE", f"/files/{quote(file, safe='')}").close()
            except StatusError as error:
                if error.status not in _NO_BATCHES:
                    raise
                return error.status == HTTPStatus.NOT_FOUND
            return True

        try:
            return self._call(delete)
        except KumiError:
            return False

    def _find(self, name: str, file: str = "") -> Job | None:
        """Return the job of this name, or of this file of requests.

        A server may list the same jobs again and again, or ever more.
        """
        seen, query = set[str](), dict[str, object](limit=100)
        while len(seen) < _MAX_JOBS:
            body = self._read("GET", "/batches", params=query)
            listed = body.get("data")
            jobs = [job for job in listed if isinstance(job, Mapping)] if isinstance(listed, list) else []
            for job in jobs:
                if _mapping(job.get("metadata")).get(_NAME) == name or (file and job.get("input_file_id") == file):
                    return _read_job(job)
            ids = {_text(job, "id") for job in jobs}
            if not body.get("has_more") or ids <= seen:
                return None
            seen, query["after"] = seen | ids, _text(jobs[-1], "id")
        raise ItemFailed(
            f"{self.server.display_url} lists more than {_MAX_JOBS:,} batches, and not the one that waits: delete old "
            "ones there, or give it up: `kumi cache drop-batches`"
        )

    def _create(self, file: str, name: str) -> Job:
        body = {"input_file_id": file, "completion_window": "24h", "endpoint": ENDPOINT, "metadata": {_NAME: name}}
        return _read_job(self._read("POST", "/batches", body=body))

    def _read(self, method: str, route: str, **request: Any) -> Mapping[str, Any]:
        """Return the JSON of the response to a request."""
        with closing(self.server.send(method, route, **request)) as response:
            body: Mapping[str, Any] = response_body.read_json_body(response.iter_bytes(), self.server.timeout)
        return body

    def _read_lines(self, file: str) -> list[bytes]:
        """Return the lines of a file on the server."""
        deadline, found = monotonic() + _MAX_RESULT_SECONDS, list[bytes]()
        with closing(self.server.send("GET", f"/files/{quote(file, safe='')}/content")) as response:
            for line in response_body.split_lines(response.iter_bytes(), _MAX_RESULT_BYTES, _MAX_LINE_BYTES):
                found += [line.encode()] if line else []
                if monotonic() > deadline:
                    raise response_body.LateReply(
                        f"the results of a batch did not come within {_MAX_RESULT_SECONDS:,} s"
                    )
        return found

    def _call(self, action: Callable[[], T]) -> T:
        """Return the result of an action; try it again if that helps.

        Raises SettingsError where the server has no Batch API.
        """

        def send(_: TextsRequest) -> TextsReply:
            with self.server.explained_errors():
                try:
                    return TextsReply(action(), usage.Usage())
                except StatusError as error:
                    if error.status in _NO_BATCHES:
                        raise SettingsError(
                            f"{self.server.display_url} offers no Batch API ({error.status} for "
                            f"{error.response.request.url.path}): run the same command without --batch"
                        ) from None
                    raise

        value: T = retrying(send, self.server)(TextsRequest(())).values
        return value


def request_line(key: bytes, chat: OpenAIChat, request: ChatRequest) -> bytes:
    """Return the line of one request in the file of a job."""
    refused = chat.server.refused_parameters
    body = {name: value for name, value in chat.request_body(request).items() if name not in refused}
    line = {"custom_id": key.hex(), "method": "POST", "url": ENDPOINT, "body": body}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def parse_result(line: bytes, sizes: Mapping[bytes, int], prices: Prices) -> BatchResult | None:
    """Return the result in a line; None for other lines.

    line: of the file of results or of errors.

    >>> line = b'{"custom_id": "0a", "error": {"code": "batch_expired", "message": "too late"}}'
    >>> parse_result(line, {b"\\n": 9}, Prices())
    BatchResult(key=b'\\n', reply=None, error='too late (batch_expired)', may_succeed=True)
    """
    try:
        body = json.loads(line)
        key = bytes.fromhex(body["custom_id"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if key not in sizes or not (body.get("response") or body.get("error")):
        return None
    response = _mapping(body.get("response"))
    status, reply, error = response.get("status_code"), response.get("body"), body.get("error")
    if status != 200:
        error = error or _mapping(reply).get("error") or reply
        code = response_body.error_reason(_mapping(error).get("code"))
        label = redact(code or str(status or ""))[:_MAX_LABEL]
        message = redact(response_body.error_reason(error) or "no reason given")[:300].rstrip(".")
        passes = not isinstance(status, int) or status in _RETRIED or status >= 500 or isinstance(reply, str)
        passes = passes or code in ("batch_expired", "batch_cancelled")
        return BatchResult(key, error=f"{message} ({label})" if label else message, may_succeed=passes)
    try:
        return BatchResult(key, read_completion(_mapping(reply), sizes[key], prices))
    except RequestRefused as refusal:
        return BatchResult(key, error=str(refusal))
    except FailedTry as failure:
        return BatchResult(key, error=str(failure), may_succeed=True)


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _read_job(body: Mapping[str, Any]) -> Job:
    """Return a job. Raise FailedTry where the body is none."""
    errors = body.get("errors")
    errors = _mapping(errors).get("data", errors)
    reasons = filter(None, map(response_body.error_reason, errors if isinstance(errors, list) else [errors]))
    done = sum(response_body.get_count(body, "request_counts", name, guess=0) for name in ("completed", "failed"))
    files = tuple(file for name in ("output_file_id", "error_file_id") if (file := _text(body, name, "")))
    return Job(
        _text(body, "id"),
        _text(body, "status"),
        done,
        response_body.get_count(body, "request_counts", "total", guess=done),
        redact("; ".join([*reasons][:3]) or "no reason given")[:300],
        files,
        _text(body, "input_file_id", ""),
    )


def _text(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a text of a job. Raise FailedTry where it has none.

    default: of a text that may be missing.
    """
    value = body.get(name)
    value = default if value is None else value
    if not isinstance(value, str) or not (value or default == "") or len(value) > _MAX_ID:
        raise response_body.garbled_error()
    return digests.replace_surrogates(value)


def split_job(lines: Iterable[tuple[bytes, bytes]]) -> Iterator[dict[bytes, bytes]]:
    """Yield (key, line) pairs in parts that fit into one job each."""
    part, size = dict[bytes, bytes](), 0
    for key, line in lines:
        if part and (len(part) == MAX_REQUESTS or size + len(line) >= MAX_BYTES):
            yield part
            part, size = {}, 0
        part[key] = line
        size += len(line) + 1
    if part:
        yield part


def require_batch_chat(scope: str, chat: object) -> OpenAIChat:
    """Return the chat model. Raise SettingsError if it has no Batch API."""
    if not isinstance(chat, OpenAIChat):
        raise SettingsError(f"the model of {scope} is not on a server, so it has no Batch API: run it without --batch")
    if chat.api_version:
        raise SettingsError("--batch does not know the addresses of Azure deployments: run it without --batch")
    return chat
