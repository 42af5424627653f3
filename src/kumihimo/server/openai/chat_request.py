"""the body of a chat request -> the question, the history and the options."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from kumihimo.app.ask.snapshot import Length
from kumihimo.core.context import Answer, Context
from kumihimo.core.usage import Usage
from kumihimo.server.api.parameters import FilterText, Settings
from kumihimo.server.openai.errors import BadParameter
from kumihimo.server.openai.request_body import parse_body
from kumihimo.server.openai.source_list import without_source_list

_MAX_MESSAGES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A turn of the conversation."""

    role: str
    content: str | list[dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """The options of a stream."""

    include_usage: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The options that OpenAI's API does not have.

    filter: an expression over document metadata. length: `brief`, `normal` or `full`. settings: of the method.
    """

    filter: FilterText = ""
    length: Length | None = None
    settings: Settings = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A request to `/v1/chat/completions`; other parameters are ignored."""

    messages: Annotated[list[Message], Field(max_length=_MAX_MESSAGES)]
    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    kumihimo: Extension = field(default_factory=Extension)

    @property
    def with_usage(self) -> bool:
        """Return whether the stream ends with the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


ADAPTER = TypeAdapter(ChatRequest)


def parse_chat_request(body: bytes) -> ChatRequest:
    """Return the request. Raise BadParameter if it cannot be answered."""
    request = parse_body(ADAPTER, body)
    if request.n not in (None, 1):
        raise BadParameter("n is 1 here: send the request again for another answer", "n")
    if request.tool_choice not in (None, "none", "auto"):
        raise BadParameter("this model calls no tools: leave tool_choice out, or set it to auto", "tool_choice")
    if request.response_format and request.response_format.get("type") != "text":
        raise BadParameter("answers are text with citations: leave response_format out", "response_format")
    return request


def split_conversation(messages: Sequence[Message]) -> tuple[str, list[Answer]]:
    """Return the last question, and the answers before it.

    A question without an answer is no part of the history. Messages of other roles are left out.
    """
    last = max((i for i, message in enumerate(messages) if message.role == "user"), default=None)
    if last is None:
        raise BadParameter("there is no message of the user: the last one is the question", "messages")
    history: list[Answer] = []
    asked = ""
    for message in messages[:last]:
        if message.role == "user":
            asked = _text(message, strict=False)
        elif message.role == "assistant" and asked:
            text = without_source_list(_text(message, strict=False))
            history.append(Answer(asked, "", text, (), Context(), Usage()))
            asked = ""
    return _text(messages[last], strict=True), history


def _text(message: Message, *, strict: bool) -> str:
    """Return the text of a message.

    strict: raise BadParameter for other content.
    """
    if not isinstance(message.content, list):
        return message.content or ""
    other = next((part.get("type") for part in message.content if part.get("type") != "text"), None)
    if strict and other:
        raise BadParameter(f"the question has a part of the type {other}: only text is understood", "messages")
    return "\n".join(str(part.get("text", "")) for part in message.content if part.get("type") == "text")
