"""requests -> one job of an OpenAI Batch API, and its results -> replies: half the price, within a day.

A job is found again by its name, which travels as metadata, so that nothing is submitted twice after a lost answer.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kumihimo.core.errors import KumiError, RequestRefused, SettingsError
from kumihimo.core.redaction import redact
from kumihimo.core.usage import Usage
from kumihimo.llm.openai import OpenAIChat, read_completion
from kumihimo.llm.protocols import ChatRequest, FailedTry, Prices, Reply, TextsReply, TextsRequest
from kumihimo.llm.response_body import MEGABYTE, error_reason, split_lines
from kumihimo.llm.retry import retrying
from kumihimo.llm.transport import STREAM_HEADERS, ModelServer

if TYPE_CHECKING:
    from openai import OpenAI  # noqa: TID251 (a type)
    from openai.types import Batch

T = TypeVar("T")

MAX_REQUESTS = 5_000  # of one job: claims on n keys take n² steps. OpenAI allows 50,000
MAX_BYTES = 190 * MEGABYTE  # of one job: OpenAI allows 200 MB
ENDPOINT = "/v1/chat/completions"
_NAME = "kumihimo"  # the key of our name in the metadata of a job
_MAX_RESULT_BYTES, _MAX_LINE_BYTES = 2048 * MEGABYTE, 16 * MEGABYTE
_NO_BATCHES = (404, 405, 501)
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

    server: ModelServer

    def submit(self, name: str, lines: Iterable[bytes]) -> Job:
        """Upload the requests and start the job of this name.

        A try after a lost answer finds the job of the first one.
        """
        content = b"\n".join(lines) + b"\n"
        file = self._call(lambda client: client.files.create(file=(f"{name}.jsonl", content), purpose="batch"))
        return self._call(lambda client: self._find(client, name) or self._create(client, file.id, name))

    def find(self, name: str) -> Job | None:
        """Return the job of this name, if the server has one."""
        return self._call(lambda client: self._find(client, name))

    def job(self, id: str) -> Job:
        """Return the state of a job."""
        import openai

        def retrieve(client: "OpenAI") -> Job:
            try:
                return _read_job(client.batches.retrieve(id))
            except openai.NotFoundError:
                return Job(id, "deleted")

        return self._call(retrieve)

    def results(self, job: Job, sizes: Mapping[bytes, int], prices: Prices) -> list[BatchResult]:
        """Return the results of a job that is over.

        sizes: bytes of the prompt of each request; others are ignored. prices: of a batch.
        """
        parsed = (parse_result(line, sizes, prices) for file in job.files for line in self._call(_lines_of(file)))
        return list({result.key: result for result in parsed if result}.values())

    def delete_files(self, job: Job) -> list[str]:
        """Delete the requests and the results of a job.

        Return the files that the server keeps.
        """
        return [file for file in (job.input, *job.files) if file and not self._delete_file(file)]

    def _delete_file(self, file: str) -> bool:
        """Delete a file; return whether it is gone."""
        import openai

        def delete(client: "OpenAI") -> bool:
            try:
                client.files.delete(file)
            except openai.APIStatusError as error:
                if error.status_code not in _NO_BATCHES:
                    raise
                return error.status_code == openai.NotFoundError.status_code
            return True

        try:
            return self._call(delete)
        except KumiError:
            return False

    def _find(self, client: "OpenAI", name: str) -> Job | None:
        jobs = (job for job in client.batches.list(limit=100) if (job.metadata or {}).get(_NAME) == name)
        return next((_read_job(job) for job in jobs), None)

    def _create(self, client: "OpenAI", file: str, name: str) -> Job:
        options: dict[str, Any] = {"completion_window": "24h", "endpoint": ENDPOINT, "metadata": {_NAME: name}}
        return _read_job(client.batches.create(input_file_id=file, **options))

    def _call(self, action: "Callable[[OpenAI], T]") -> T:
        """Return the result of an action; try it again if that helps.

        Raises SettingsError where the server has no Batch API.
        """
        import openai

        def send(_: TextsRequest) -> TextsReply:
            with self.server.explained_errors():
                try:
                    return TextsReply(action(self.server.client), Usage())
                except openai.APIStatusError as error:
                    if error.status_code in _NO_BATCHES:
                        raise SettingsError(
                            f"{self.server.display_url} offers no Batch API ({error.status_code} for "
                            f"{error.request.url.path}): run the same command without --batch"
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
    if key not in sizes:
        return None
    response = _mapping(body.get("response"))
    status, reply, error = response.get("status_code"), response.get("body"), body.get("error")
    if status != 200:
        error = error or _mapping(reply).get("error") or reply
        code = _mapping(error).get("code")
        message = redact(error_reason(error) or "no reason given")[:300].rstrip(".")
        passes = not isinstance(status, int) or status in _RETRIED or status >= 500 or isinstance(reply, str)
        passes = passes or code in ("batch_expired", "batch_cancelled")
        return BatchResult(
            key, error=f"{message} ({code or status})" if code or status else message, may_succeed=passes
        )
    try:
        return BatchResult(key, read_completion(_mapping(reply), sizes[key], prices))
    except RequestRefused as refusal:
        return BatchResult(key, error=str(refusal))
    except FailedTry as failure:
        return BatchResult(key, error=str(failure), may_succeed=True)


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _lines_of(file: str) -> "Callable[[OpenAI], list[bytes]]":
    """Return the action that downloads the lines of a file."""

    def download(client: "OpenAI") -> list[bytes]:
        import httpx2

        response = client.get(f"/files/{file}/content", cast_to=httpx2.Response, options={"headers": STREAM_HEADERS})
        with closing(response):
            lines = split_lines(response.iter_bytes(), _MAX_RESULT_BYTES, _MAX_LINE_BYTES)
            return [line.encode() for line in lines if line]

    return download


def _read_job(batch: "Batch") -> Job:
    counts = batch.request_counts
    errors = [" ".join(str(error.message).split()) for error in (batch.errors and batch.errors.data) or ()]
    files = tuple(file for file in (batch.output_file_id, batch.error_file_id) if file)
    done, total = (counts.completed + counts.failed, counts.total) if counts else (0, 0)
    error = redact("; ".join(errors[:3]))[:300]
    return Job(batch.id, batch.status, done, total, error, files, batch.input_file_id)


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
