"""OpenAI's client -> models, answers whole and streamed, with citations, and errors that it understands."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionChunk

from kumihimo import Kumihimo
from kumihimo.app.upkeep.keys import create_key
from kumihimo.core.answer import TRUNCATION_NOTE
from kumihimo.core.errors import ItemFailed
from kumihimo.llm.protocols import ChatRequest, Reply
from kumihimo.server.settings import ServerSettings
from kumihimo.testing.fake_models import FakeChat
from tests.server.running import Answering, answered_by, leaving_client, serving, serving_one

QUESTION = "Who drew the tide gates?"


def user(question: str) -> Any:
    return [{"role": "user", "content": question}]


def ask(client: OpenAI, question: str = QUESTION, model: str = "kumi", **options: Any) -> Any:
    return client.chat.completions.create(model=model, messages=user(question), **options)


def streamed(client: OpenAI, **options: Any) -> list[ChatCompletionChunk]:
    return list(ask(client, stream=True, **options))


def content(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


# -- models


def test_each_model_is_an_index_with_a_method_that_works_there(client: OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert {"kumi", "kumi/braid", "kumi/bm25", "kumi/global", "harbour", "harbour/bm25"} <= set(names)
    assert {"kumi/hyde", "harbour/rq"}.isdisjoint(names)  # they need a chat model
    assert len(set(names)) == len(names)


def test_a_model_is_found_by_its_name(client: OpenAI) -> None:
    assert client.models.retrieve("kumi/bm25").owned_by == "kumihimo"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("kumi/bm52")
    assert caught.value.code == "model_not_found"


# -- whole answers


def test_an_answer_has_its_sources_below_and_as_annotations(client: OpenAI, kumi: Kumihimo) -> None:
    choice = ask(client).choices[0]
    text, sources = choice.message.content.split("\n\n---\n\n")
    assert text.startswith("Maren Oldacre drew the tide gates in 1983.")
    assert sources.startswith("- [1] [The tide gates · files/gates.md, line 7](http://127.0.0.1:")
    first = choice.message.annotations[0].url_citation
    assert text[first.start_index : first.end_index] == "[1]"
    assert f"]({first.url})" in sources.splitlines()[0]
    assert (first.metadata["author"], first.metadata["date"]) == ("Sabine Orrell", "2024-05-02")
    address = urlsplit(first.url)
    start, end = (int(parse_qs(address.query)[name][0]) for name in ("start", "end"))
    with kumi.snapshot() as snapshot:
        document = snapshot.table("documents")[address.path.removeprefix("/documents/")]
    assert document.text[start:end].startswith("Maren Oldacre drew the tide gates in 1983.")
    assert choice.finish_reason == "stop"


def test_an_answer_without_a_model_costs_no_tokens(client: OpenAI) -> None:
    reply = ask(client, model="harbour/bm25")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.total_tokens) == (0, 0, 0)
    assert reply.model == "harbour/bm25"
    assert reply.kumihimo["method"] == "bm25"
    assert reply.kumihimo["evidence"][0].startswith("chunks:")


def test_content_may_be_parts_of_text(client: OpenAI) -> None:
    parts: Any = [{"type": "text", "text": "Who drew"}, {"type": "text", "text": "the tide gates?"}]
    reply = client.chat.completions.create(model="kumi", messages=[{"role": "user", "content": parts}])
    assert "Maren Oldacre" in (reply.choices[0].message.content or "")


def test_what_openai_has_and_answers_do_not_need_is_ignored(client: OpenAI) -> None:
    system: Any = {"role": "system", "content": "Answer like a pirate."}
    user: Any = {"role": "user", "content": QUESTION}
    options: Any = {"temperature": 0.3, "seed": 7, "tool_choice": "auto", "extra_body": {"unheard_of": 1}}
    reply = client.chat.completions.create(model="kumi", messages=[system, user], **options)
    assert reply.choices[0].message.content == ask(client).choices[0].message.content


def test_documents_may_be_filtered(client: OpenAI) -> None:
    filtered = ask(client, extra_body={"kumihimo": {"filter": 'author = "Nell Attery"', "settings": {"k": 3}}})
    assert {a.url_citation.title.partition(" · ")[0] for a in filtered.choices[0].message.annotations} <= {
        "The seed library"
    }
    assert "1983" not in filtered.choices[0].message.content


# -- a model writes


def test_a_model_writes_and_its_tokens_are_counted(client: OpenAI, kumi: Kumihimo) -> None:

    chat = FakeChat(lambda prompt: "Maren Oldacre drew them [1].")
    with answered_by(kumi, chat):
        reply = ask(client, "Who drew the gates of the tide?")
    assert (reply.choices[0].message.content or "").startswith("Maren Oldacre drew them [1].\n\n---\n\n- [1] [")
    assert reply.usage.completion_tokens == 5
    assert reply.usage.prompt_tokens > 20
    assert reply.kumihimo["model"] == "fake"


def test_a_client_may_ask_for_a_shorter_answer_and_for_no_longer_one(client: OpenAI, kumi: Kumihimo) -> None:
    limits: list[object] = []

    class Cuts(FakeChat):
        """A model whose replies reach their limit."""

        def __call__(self, request: ChatRequest) -> Reply:
            limits.append(request.parameters["max_tokens"])
            return Reply("Maren [1]", finish_reason="length")

    with answered_by(kumi, Cuts(str, fingerprint="cuts")):
        wanted: list[dict[str, Any]] = [{"max_tokens": 20}, {"max_completion_tokens": 30}, {"max_tokens": 10**9}, {}]
        choices = [ask(client, "Who drew?", **limit).choices[0] for limit in wanted]
        chunks = streamed(client, question="Who drew?")
    assert limits == [20, 30, 4096]  # the last two are the same request
    assert [choice.finish_reason for choice in choices] == ["length"] * 4
    assert choices[0].message.content.startswith(f"Maren [1]\n\n{TRUNCATION_NOTE}\n\n---\n\n- [1] [")
    assert (content(chunks), chunks[-1].choices[0].finish_reason) == (choices[0].message.content, "length")


def test_the_history_is_what_was_asked_and_answered(client: OpenAI, kumi: Kumihimo) -> None:
    prompts: list[str] = []

    def reply(prompt: str) -> str:
        prompts.append(prompt)
        return "In which year did Maren Oldacre draw the tide gates?" if len(prompts) == 1 else "In 1983 [1]."

    first = ask(client).choices[0].message.content
    messages: Any = [
        {"role": "assistant", "content": "How can I help?"},
        {"role": "user", "content": "A question without an answer"},
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": first},
        {"role": "user", "content": "And in which year?"},
    ]
    with answered_by(kumi, FakeChat(reply, join_messages=True)):
        answer = client.chat.completions.create(model="kumi", messages=messages).choices[0].message.content
    assert (answer or "").startswith("In 1983 [1].")
    assert f"Asked: {QUESTION}\nAnswered: {first.partition('---')[0].rstrip()}" in prompts[0]
    assert "files/gates.md" not in prompts[0]  # no list of sources
    assert "How can I help?" not in prompts[0]
    assert "without an answer" not in prompts[0]


def test_without_a_model_names_of_the_history_are_understood(client: OpenAI) -> None:
    messages: Any = [
        {"role": "user", "content": "Who is Maren Oldacre?"},
        {"role": "assistant", "content": "She drew the tide gates. [1]"},
        {"role": "user", "content": "What did she borrow?"},
    ]
    reply = client.chat.completions.create(model="kumi", messages=messages)
    assert (reply.choices[0].message.content or "").startswith("(about Maren Oldacre)")


# -- streams


def test_a_stream_says_the_same_as_a_whole_answer(client: OpenAI) -> None:
    whole, chunks = ask(client).choices[0], streamed(client)
    assert content(chunks) == whole.message.content
    last: Any = chunks[-1].choices[0]
    assert last.delta.annotations == [annotation.to_dict() for annotation in whole.message.annotations]
    assert last.finish_reason == "stop"
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
    (only,) = (chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content)
    assert "[1]\n\n---\n\n" in only  # words of documents have their numbers at once


@pytest.mark.parametrize(
    ("question", "remark"),
    [
        ("Which bananas grow on Jupiter?", "No passage that answers this was found."),
        ("木星で育つバナナは何ですか。", "これに答える記述は見つかりませんでした。"),
    ],
)
def test_an_answer_that_is_none_says_so_in_the_language_of_the_question(
    client: OpenAI, question: str, remark: str
) -> None:
    reply = ask(client, question)
    assert reply.choices[0].message.content.partition("\n\n")[0] == remark
    assert reply.kumihimo["status"] == "nothing"
    assert content(streamed(client, question=question)).startswith(remark)


def test_a_stream_ends_with_the_usage_if_that_is_wanted(client: OpenAI, kumi: Kumihimo) -> None:
    with answered_by(kumi, FakeChat(lambda _: "She did [1]. Nobody else [1].")):
        chunks = streamed(client, stream_options={"include_usage": True}, question="Who drew them all?")
    assert content(chunks).startswith("She did [1]. Nobody else [1].\n\n---\n\n- [1] [")
    assert len([chunk for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]) > 4
    assert chunks[-1].choices == []
    assert chunks[-1].usage
    assert chunks[-1].usage.completion_tokens == 6
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)


def test_an_error_after_the_first_text_is_the_last_event(client: OpenAI, kumi: Kumihimo) -> None:
    class Breaks:
        """A model that stops in the middle."""

        fingerprint, prices, server, workers = "breaks", FakeChat(str).prices, None, 1
        determined_by = FakeChat.determined_by

        def __call__(self, request: ChatRequest) -> Reply:
            assert request.on_token
            request.on_token("Maren ")
            raise ItemFailed("the model has gone away")

    seen: list[str] = []

    def read() -> None:
        seen.extend(chunk.choices[0].delta.content or "" for chunk in ask(client, "Who drew what?", stream=True))

    model: Any = Breaks()
    with answered_by(kumi, model), pytest.raises(openai.APIError, match="has gone away"):
        read()
    assert seen == ["", "Maren"]


def test_the_last_line_of_a_stream_is_done(address: str) -> None:
    body = {"model": "kumi", "stream": True, "messages": user(QUESTION)}
    with httpx2.stream("POST", f"{address}/v1/chat/completions", json=body) as response:
        lines = [line for line in response.iter_lines() if line]
    assert response.headers["content-type"].startswith("text/event-stream")
    assert lines[-1] == "data: [DONE]"
    assert all(json.loads(line.removeprefix("data: "))["object"] == "chat.completion.chunk" for line in lines[:-1])


# -- responses


def test_a_response_says_the_same_as_a_chat_completion(client: OpenAI) -> None:
    whole: Any = client.responses.create(model="kumi", input=QUESTION)
    chat = ask(client)
    assert (whole.status, whole.output_text) == ("completed", chat.choices[0].message.content)
    assert whole.kumihimo == chat.kumihimo
    assert whole.usage.total_tokens == 0
    found = [annotation.to_dict() for annotation in whole.output[0].content[0].annotations]
    assert found == [
        {"type": "url_citation", **each.url_citation.to_dict()} for each in chat.choices[0].message.annotations
    ]
    events = [*client.responses.create(model="kumi", input=[{"role": "user", "content": QUESTION}], stream=True)]
    assert [event.sequence_number for event in events] == [*range(len(events))]
    names = [event.type.removeprefix("response.") for event in events]
    assert names[:5] == ["created", "in_progress", "output_item.added", "content_part.added", "output_text.delta"]
    assert names[5:-4] == ["output_text.annotation.added"] * len(found)
    assert names[-4:] == ["output_text.done", "content_part.done", "output_item.done", "completed"]
    last: Any = events[-1]
    assert last.response.output[0].content == whole.output[0].content
    first: Any = events[0]
    assert first.response.id == last.response.id


def test_a_response_has_the_turns_before_its_question_and_the_text_of_a_model(client: OpenAI, kumi: Kumihimo) -> None:
    turns: Any = [
        {"role": "developer", "content": "Answer like a pirate."},
        {"type": "reasoning", "summary": []},
        {"role": "user", "content": [{"type": "input_text", "text": "Who is Maren Oldacre?"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "An engineer."}]},
        {"role": "user", "content": "What did she draw?"},
    ]
    prompts: list[str] = []

    def reply(request: str) -> str:
        prompts.append(request)
        return "What did Maren Oldacre draw?" if "An engineer." in request else "She drew [1]. Nobody else [1]."

    with answered_by(kumi, FakeChat(reply)), client.responses.stream(model="kumi", input=turns) as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        response = stream.get_final_response()
    assert "".join(pieces) == response.output_text
    assert len(pieces) > 4
    assert response.output_text.startswith("She drew [1]. Nobody else [1].\n\n---\n\n- [1] [")
    assert response.usage
    assert response.usage.output_tokens > 5
    assert "An engineer." in prompts[0]


def test_a_response_that_is_too_long_or_fails_says_so(client: OpenAI, kumi: Kumihimo) -> None:
    class Ends(FakeChat):
        def __call__(self, request: ChatRequest) -> Reply:
            if "fails" in str(request.messages):
                assert request.on_token
                request.on_token("Maren ")
                raise ItemFailed("the model has gone away")
            return Reply("Maren [1]", finish_reason="length")

    with answered_by(kumi, Ends(str)):
        short: Any = client.responses.create(model="kumi", input="Who drew so much?", max_output_tokens=5)
        assert (short.status, short.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        *_, last = client.responses.create(model="kumi", input="Who fails?", stream=True)
        assert (last.type, last.response.status) == ("response.failed", "failed")  # type: ignore[union-attr]
        assert "has gone away" in last.response.error.message  # type: ignore[union-attr]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("options", "param", "message"),
    [
        ({"text": {"format": {"type": "json_object"}}}, "response_format", "leave response_format or text.format out"),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "no response is kept here"),
        ({"background": True}, "background", "no response is kept here"),
        ({"tool_choice": "required"}, "tool_choice", "calls no tools"),
        ({"input": []}, "messages", "no message of the user"),
        ({"input": [{"content": "Hello"}] * 2001}, "input", "input: List should have at most 2000 items"),
        ({"input": [{"role": 5}]}, "input.0.role", "input.0.role: Input should be a valid string"),
        ({"input": {}}, "input", "input: Input should be a valid array"),
        ({"model": "nowhere"}, "model", "no model 'nowhere'"),
    ],
)
def test_what_a_response_cannot_be_is_refused(
    client: OpenAI, options: dict[str, Any], param: str, message: str, stream: bool
) -> None:
    with pytest.raises(openai.APIStatusError, match=message) as caught:
        client.responses.create(**{"model": "kumi", "input": QUESTION, "stream": stream, **options})
    assert caught.value.param == param


# -- keys


def test_a_key_sees_its_indexes_and_documents_alone(harbour_folder: Path, tmp_path: Path) -> None:
    folders = [copytree(harbour_folder, tmp_path / name / ".kumi") for name in ("harbour", "town")]
    _, token = create_key(folders[1:], "reader", rights='author = "Nell Attery"', daily_tokens=1)
    with serving(*folders, settings=ServerSettings(require_keys=True)) as server:
        base = f"{server.address}/v1"
        with OpenAI(base_url=base, api_key=token, max_retries=0) as client:
            assert {model.id.partition("/")[0] for model in client.models.list()} == {"kumi", "town"}
            reply = ask(client, "What do they say about the ferry?").to_json()
            assert "skipper" not in reply
            assert "Joss" not in reply
            assert "seed" in ask(client, "Who keeps the seed library?").choices[0].message.content
            with pytest.raises(openai.NotFoundError, match="no model 'harbour'"):
                ask(client, model="harbour")
            model = answered_by(server.workspace.indexes["town"].kumi, FakeChat(lambda _: "She does [1]."))
            with model, pytest.raises(openai.RateLimitError, match="Wait until the budget is renewed") as spent:
                ask(client, "Who keeps it?")
        nobody = OpenAI(base_url=base, api_key="none", max_retries=0)
        with nobody, pytest.raises(openai.AuthenticationError, match="Authorization: Bearer KEY") as refused:
            nobody.models.list()
    assert (spent.value.code, spent.value.response.headers["x-should-retry"]) == ("insufficient_quota", "false")
    assert refused.value.type == "authentication_error"
    assert refused.value.response.headers["www-authenticate"].startswith("Bearer")


def test_a_question_asks_one_index_and_its_sources_lead_there(harbour_folder: Path, tmp_path: Path) -> None:
    folders = [copytree(harbour_folder, tmp_path / name / ".kumi") for name in ("harbour", "town")]
    with serving(*folders) as server, OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0) as client:
        for model, page in (("harbour", "documents/"), ("town", "indexes/town/documents/")):
            assert f"]({server.address}/{page}" in ask(client, model=model).choices[0].message.content
        with pytest.raises(openai.NotFoundError, match=r"no model 'harbour\+town'"):
            ask(client, model="harbour+town")


# -- clients that leave


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_gives_up_its_place(harbour_folder: Path, stream: bool) -> None:
    answering = Answering(f"waits {stream}")
    with (
        serving_one(harbour_folder, answering) as address,
        OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client,
    ):
        with leaving_client(address, {"model": "kumi", "stream": stream, "messages": user("Who waits?")}):
            assert answering.began.wait(30)
        assert "at once" in ask(client, "Who answers?").choices[0].message.content
        answering.may_end.set()


# -- errors


@pytest.mark.parametrize(
    ("options", "kind", "param", "message"),
    [
        ({"model": "nowhere"}, openai.NotFoundError, "model", "no model 'nowhere': GET /v1/models lists the names"),
        ({"model": "kumi/bm52"}, openai.NotFoundError, "model", "no model 'kumi/bm52'"),
        ({"model": "kumi/hyde"}, openai.BadRequestError, None, "hyde needs a chat model: set `model ="),
        ({"n": 2}, openai.BadRequestError, "n", "n is 1 here"),
        ({"tool_choice": "required"}, openai.BadRequestError, "tool_choice", "this model calls no tools"),
        (
            {"response_format": {"type": "json_object"}},
            openai.BadRequestError,
            "response_format",
            "text with citations",
        ),
        ({"question": " "}, openai.BadRequestError, None, "the question is empty"),
        ({"question": "x" * 10_001}, openai.BadRequestError, None, "10,000 is the limit"),
        ({"temperature": 1, "max_tokens": "many"}, openai.BadRequestError, "max_tokens", "valid integer"),
        (
            {"extra_body": {"kumihimo": {"filter": "author ="}}},
            openai.BadRequestError,
            None,
            "the filter ends too early",
        ),
        (
            {"extra_body": {"kumihimo": {"settings": {"rights": ""}}}},
            openai.BadRequestError,
            "kumihimo.settings",
            "no method has a setting 'rights'",
        ),
        (
            {"extra_body": {"kumihimo": {"settings": {"k": 1001}}}},
            openai.BadRequestError,
            None,
            "braid.k is from 1 to 1,000 in a question over the network, not 1001",
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_name_the_parameter_and_the_remedy(
    client: OpenAI,
    options: dict[str, Any],
    kind: type[openai.APIStatusError],
    param: str | None,
    message: str,
    stream: bool,
) -> None:
    with pytest.raises(kind) as caught:
        ask(client, stream=stream, **options)
    assert caught.value.param == param
    assert message in caught.value.message
    assert caught.value.type == "invalid_request_error"
    assert caught.value.response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([{"role": "assistant", "content": "Hello"}], "there is no message of the user"),
        ([], "there is no message of the user"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "of the type image_url"),
        ([{"role": "user", "content": [{"type": "text", "text": None}]}], "of the type text: only text"),
        ([{"role": "user", "content": 5}], "messages.0.content: Input should be a valid array"),
        ([{"content": "Who?"}], "messages.0.role: Field required"),
    ],
)
def test_messages_that_hold_no_question_are_refused(client: OpenAI, messages: Any, message: str) -> None:
    with pytest.raises(openai.BadRequestError, match=message):
        client.chat.completions.create(model="kumi", messages=messages)


@pytest.mark.parametrize(
    ("extension", "message"),
    [
        (
            {"filter": "author in (1" + ", 1" * 1000 + ")"},
            "kumihimo.filter: String should have at most 2000 characters",
        ),
        ({"settings": {f"k{i}": i for i in range(60)}}, "kumihimo.settings: Dictionary should have at most 50 items"),
    ],
)
def test_options_without_end_are_refused(client: OpenAI, extension: dict[str, Any], message: str) -> None:
    messages: Any = [{"role": "user", "content": "Who?"}]
    with pytest.raises(openai.BadRequestError, match=message):
        client.chat.completions.create(model="kumi", messages=messages, extra_body={"kumihimo": extension})


def test_a_body_that_is_no_json_is_refused(address: str) -> None:
    headers = {"content-type": "application/json"}
    response = httpx2.post(f"{address}/v1/chat/completions", content=b"{", headers=headers)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("the body: Invalid JSON")
