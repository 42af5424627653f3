"""requests and lines of results -> jobs within the limits, replies as if they were asked for one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kumihimo.core.errors import ItemFailed, KumiError, SettingsError
from kumihimo.llm import batch
from kumihimo.llm.batch import BatchServer, Job, parse_result, request_line, split_job
from kumihimo.llm.openai import OpenAIChat
from kumihimo.llm.protocols import ChatRequest, Prices
from kumihimo.testing.fake_models import FakeChat
from tests.fake_replies import http_response
from tests.fake_server import FakeServer
from tests.raw_server import run_raw_server

KEY = b"\x01" * 16
PRICES = Prices(prompt=1.0, completion=4.0)


def result_line(**changes: Any) -> bytes:
    choice = {"message": {"role": "assistant", "content": "Nine."}, "finish_reason": "stop"}
    body = {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    return json.dumps({"custom_id": KEY.hex(), "response": {"status_code": 200, "body": body}} | changes).encode()


def test_a_result_is_the_reply_of_a_direct_request() -> None:
    result = parse_result(result_line(), {KEY: 30}, PRICES)
    assert result
    assert result.reply
    assert (result.reply.raw, result.reply.finish_reason) == ("Nine.", "stop")
    assert (result.reply.usage.calls, result.reply.usage.prompt_tokens, result.reply.usage.cost) == (1, 7, 15 / 1e6)


def refused(status: int, message: str, code: str = "") -> dict[str, Any]:
    return {"response": {"status_code": status, "body": {"error": {"message": message, "code": code or None}}}}


@pytest.mark.parametrize(
    ("changes", "error", "may_succeed"),
    [
        (refused(400, "Too long.", "context_length_exceeded"), "Too long (context_length_exceeded)", False),
        (refused(429, "Slow down"), "Slow down (429)", True),
        (refused(503, ""), "no reason given (503)", True),
        ({"response": None, "error": {"code": "batch_expired", "message": "Late."}}, "Late (batch_expired)", True),
        ({"response": None, "error": {"code": "\ud800x\n" * 99, "message": "No."}}, f"No ({'�x ' * 20})", True),
        ({"response": {"status_code": 200, "body": {"ok": True}}}, "does not have the form", True),
        ({"response": {"status_code": 200, "body": "Bad gateway"}}, "does not have the form", True),
        ({"response": {"status_code": 200}}, "does not have the form", True),
        ({"response": {"status_code": 502, "body": "<h1>Bad gateway</h1>"}}, "<h1>Bad gateway</h1> (502)", True),
        ({"response": {"status_code": 403, "body": "Not now"}}, "Not now (403)", True),
        ({"response": {"status_code": 400, "body": {"error": "Too long."}}}, "Too long (400)", False),
        ({"response": {"status_code": "400", "body": None}}, "no reason given (400)", True),
        ({"response": None, "error": "Too late."}, "Too late", True),
        ({"response": "none", "error": ["late"]}, "['late']", True),
    ],
)
def test_why_there_is_no_reply(changes: dict[str, Any], error: str, may_succeed: bool) -> None:
    result = parse_result(result_line(**changes), {KEY: 30}, PRICES)
    assert result
    assert (result.reply, result.may_succeed) == (None, may_succeed)
    assert error in result.error


def test_a_filtered_reply_is_refused() -> None:
    choice = {"message": {"role": "assistant", "content": None, "refusal": "No."}}
    result = parse_result(result_line(response={"status_code": 200, "body": {"choices": [choice]}}), {KEY: 30}, PRICES)
    assert result
    assert (result.reply, result.may_succeed) == (None, False)
    assert "filter does not allow it" in result.error


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"custom_id": 3}', b'{"custom_id": "xyz"}', b"[" * 100_000])
def test_other_lines_are_ignored(line: bytes) -> None:
    assert parse_result(line, {KEY: 30}, PRICES) is None
    assert parse_result(result_line(), {}, PRICES) is None  # nobody waits for this one
    assert parse_result(result_line(response=None), {KEY: 30}, PRICES) is None  # it says nothing


def test_a_job_keeps_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [len(part) for part in split_job((b"%d" % n, b"x") for n in range(11_000))] == [5000, 5000, 1000]
    lines = [(bytes([n]), b"x" * 10) for n in range(7)]
    monkeypatch.setattr(batch, "MAX_REQUESTS", 3)
    assert [len(part) for part in split_job(lines)] == [3, 3, 1]
    monkeypatch.setattr(batch, "MAX_BYTES", 25)
    assert [len(part) for part in split_job(lines)] == [2, 2, 2, 1]
    assert list(split_job([])) == []
    assert [len(part) for part in split_job([(b"1", b"x" * 99)])] == [1]


def test_a_line_is_the_request_that_would_be_sent() -> None:
    chat = OpenAIChat(model="m", temperature=0.0, max_tokens=9)
    chat.server.refused_parameters.add("temperature")
    line = json.loads(request_line(KEY, chat, ChatRequest([{"role": "user", "content": "When? \ud800"}])))
    assert line["body"] == {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "When? \ud800"}]}
    assert (bytes.fromhex(line["custom_id"]), line["method"], line["url"]) == (KEY, "POST", "/v1/chat/completions")


def test_a_discount_is_a_share() -> None:
    prices = OpenAIChat(model="m", prompt_price=2.0, completion_price=8.0, batch_discount=0.25).batch_prices
    assert prices == Prices(1.5, None, 6.0)


def test_a_model_in_this_process_takes_no_batches() -> None:
    with pytest.raises(SettingsError, match="is not on a server"):
        batch.require_batch_chat("mentions", FakeChat(str))


def test_a_job_is_submitted_found_and_read(server: FakeServer) -> None:
    server.configure(batch_polls=1)
    chat = OpenAIChat(model="m", base_url=server.url)
    line = request_line(KEY, chat, ChatRequest([{"role": "user", "content": "When does it leave?"}]))
    jobs = BatchServer(chat.server)
    submitted = jobs.submit("one", [line])
    assert jobs.submit("one", [line]).id == submitted.id  # a second try finds it
    assert jobs.find("other") is None
    assert jobs.job("batch_9") == Job("batch_9", "deleted")
    assert not jobs.job(submitted.id).is_over
    done = jobs.job(submitted.id)
    assert (done.state, done.done, done.total, done.is_over) == ("completed", 1, 1, True)
    (result,) = jobs.results(done, {KEY: 19}, PRICES)
    assert result.reply
    assert "When does it leave?" in result.reply.raw
    assert server.counts()["chats"] == 1


# -- servers that lie

JSON_TYPE = "Content-Type: application/json\r\nConnection: close"
JOB: dict[str, Any] = {
    "id": "batch_1",
    "status": "completed",
    "errors": None,
    "output_file_id": "file-2",
    "error_file_id": None,
    "input_file_id": "file-1",
    "request_counts": {"total": 1, "completed": 1, "failed": 0},
    "metadata": {"kumihimo": "one"},
}
NO_JOBS: list[Any] = [
    *({**JOB, "id": id} for id in (None, "", 7, ["batch_1"], "batch_2", "x" * 2000)),
    *({**JOB, "status": status} for status in (None, "", 7, ["completed"], True)),
    *({**JOB, name: 7} for name in ("input_file_id", "output_file_id", "error_file_id")),
    *(b"<html>", b"", b"null", b"[]", b"5", b"[" * 100_000, b'{"id": "batch_1", "sta', b'{"id": "\xff"}'),
]
ODD_ERRORS: list[Any] = ["late", 7, [], {}, {"data": "late"}, {"data": [None]}, {"data": [{"message": 5}]}]
ODD_JOBS: list[dict[str, Any]] = [
    *({"request_counts": counts} for counts in (None, 7, "x", {}, {"total": "1"}, {"completed": 10**30})),
    *({"errors": errors} for errors in ODD_ERRORS),
    *({"metadata": metadata} for metadata in (None, 7, "x")),
    *({"output_file_id": file} for file in ("../../x", "a b?c=d#e", "\ud800")),
]


def served_by(url: str) -> BatchServer:
    return BatchServer(OpenAIChat(model="m", base_url=url, retries=0).server)


def answer(body: object) -> bytes:
    return http_response(body, headers=JSON_TYPE)


@pytest.mark.parametrize("body", NO_JOBS, ids=lambda body: repr(body)[:40])
def test_an_answer_that_is_no_job_is_an_error(body: object) -> None:
    with run_raw_server(answer(body)) as raw, pytest.raises(ItemFailed, match="does not have the form"):
        served_by(raw.url).job("batch_1")


@pytest.mark.parametrize("body", [*NO_JOBS[:4], *NO_JOBS[6:]], ids=lambda body: repr(body)[:40])
def test_an_answer_to_the_creation_that_is_no_job_is_an_error(body: object) -> None:
    with run_raw_server(answer(body)) as raw, pytest.raises(ItemFailed, match="does not have the form"):
        served_by(raw.url).submit("other", [b"{}"])


@pytest.mark.parametrize("changes", ODD_JOBS, ids=repr)
def test_a_job_with_odd_details_is_read(changes: dict[str, Any]) -> None:
    with run_raw_server(answer({**JOB, **changes})) as raw:
        jobs = served_by(raw.url)
        job = jobs.job("batch_1")
        assert (job.state, job.is_over) == ("completed", True)
        assert f"{job.error}{job.done:,}{job.total:,}".isprintable()
        assert jobs.results(job, {KEY: 1}, PRICES) == []
        assert jobs.delete_files(job) == []
    routes = {request.split()[1] for request in raw.requests}
    assert all(route.startswith((b"/v1/batches/batch_1", b"/v1/files/")) and b"../" not in route for route in routes)


def test_a_list_of_jobs_that_repeats_itself_ends() -> None:
    page = {"data": [{"id": "a", "metadata": 7}, 7, None, {"id": "b"}], "has_more": True}
    for body in (page, {"data": None, "has_more": True}, {"data": "abc", "has_more": True}):
        with run_raw_server(answer(body)) as raw:
            assert served_by(raw.url).find("one") is None
        assert len(raw.requests) <= 2


def test_a_list_of_ever_more_jobs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "_MAX_JOBS", 20)
    pages = iter(range(1000))
    monkeypatch.setattr(
        BatchServer, "_read", lambda *_, **__: {"data": [{"id": f"{next(pages)}"}] * 5, "has_more": True}
    )
    with pytest.raises(ItemFailed, match=r"lists more than 20 batches, .*: `kumi cache drop-batches`"):
        served_by("http://localhost:1/v1").find("one")


ERROR = result_line(response=None, error={"code": "late", "message": "Late."})


@pytest.mark.parametrize(
    "lines",
    [[result_line(), ERROR], [ERROR, result_line()], [result_line()] * 3, [b"[", b"{}", b"\xff", result_line()]],
)
def test_a_reply_that_came_is_kept_whatever_else_is_in_its_file(lines: list[bytes]) -> None:
    with run_raw_server(answer(b"\n".join(lines))) as raw:
        (result,) = served_by(raw.url).results(Job("b", "completed", files=("file-2",)), {KEY: 30}, PRICES)
    assert result.reply
    assert result.reply.raw == "Nine."


def test_results_that_do_not_end_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "_MAX_RESULT_SECONDS", -1)
    with run_raw_server(answer(result_line())) as raw, pytest.raises(KumiError, match="did not come within"):
        served_by(raw.url).results(Job("b", "completed", files=("file-2",)), {KEY: 30}, PRICES)
