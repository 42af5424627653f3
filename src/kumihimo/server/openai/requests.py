"""the body of a request -> its question, history, texts and options, or an error that names the wrong one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, WithJsonSchema

from kumihimo.app.ask.query import Length
from kumihimo.core.answer import Answer
from kumihimo.server.api.parameters import FilterText, Mended, Settings, body_schema, parse_body
from kumihimo.server.openai.replies import without_source_list
from kumihimo.server.problems import BadParameter

_MAX_MESSAGES = 2_000
MAX_TEXTS = 2048
_TEXTS = {"type": "array", "items": {"type": "string"}, "maxItems": MAX_TEXTS}
MAX_CHARS = 100_000  # of a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A turn of the conversation."""

    role: str
    content: Annotated[str, Mended] | list[Any] | None = None


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

    def __post_init__(self) -> None:
        if self.n not in (None, 1):
            raise BadParameter("n is 1 here: send the request again for another answer", "n")
        if self.tool_choice not in (None, "none", "auto"):
            raise BadParameter("this model calls no tools: leave tool_choice out, or set it to auto", "tool_choice")
        if self.response_format and self.response_format.get("type") != "text":
            raise BadParameter(
                "answers are text with citations: leave response_format or text.format out", "response_format"
            )

    @property
    def with_usage(self) -> bool:
        """Return whether the stream ends with the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputItem(Message):
    """A turn of the conversation, or an item without text."""

    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """The form of the text."""

    format: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseRequest:
    """A request to `/v1/responses`; other parameters are ignored."""

    input: Annotated[str, Mended] | Annotated[list[InputItem], Field(max_length=_MAX_MESSAGES)]
    model: str
    stream: bool | None = None
    max_output_tokens: int | None = None
    tool_choice: str | dict[str, Any] | None = None
    text: TextOptions = field(default_factory=TextOptions)
    previous_response_id: str | None = None
    conversation: str | dict[str, Any] | None = None
    background: bool | None = None
    kumihimo: Extension = field(default_factory=Extension)

    def to_chat(self) -> ChatRequest:
        """Return the same as a request for a chat completion.

        Raise BadParameter if it cannot be answered.
        """
        for name in ("previous_response_id", "conversation", "background"):
            if getattr(self, name):
                raise BadParameter(f"no response is kept here: leave {name} out, and send the turns in input", name)
        return ChatRequest(
            messages=[Message(role="user", content=self.input)] if isinstance(self.input, str) else [*self.input],
            model=self.model,
            stream=self.stream,
            max_tokens=self.max_output_tokens,
            tool_choice=self.tool_choice,
            response_format=self.text.format,
            kumihimo=self.kumihimo,
        )


_RESPONSE = TypeAdapter(ResponseRequest)
RESPONSE_BODY = body_schema(_RESPONSE)
_CHAT = TypeAdapter(ChatRequest)
CHAT_BODY = body_schema(_CHAT)
_TEXT_PARTS = ("text", "input_text", "output_text")


def parse_chat(body: bytes) -> ChatRequest:
    """Return a request to `/v1/chat/completions`.

    Raise BadParameter if it cannot be answered.
    """
    return parse_body(_CHAT, body)


def parse_response(body: bytes) -> ChatRequest:
    """Return a request to `/v1/responses`.

    Raise BadParameter if it cannot be answered.
    """
    return parse_body(_RESPONSE, body).to_chat()


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
            history.append(Answer.of_text(asked, text))
            asked = ""
    return _text(messages[last], strict=True), history


def _text(message: Message, *, strict: bool) -> str:
    """Return the text of a message.

    strict: raise BadParameter for other content.
    """
    if not isinstance(message.content, list):
        return message.content or ""
    texts: list[str] = []
    for part in message.content:
        kind = part.get("type") if isinstance(part, dict) else "none"
        text = part.get("text") if kind in _TEXT_PARTS else None
        if isinstance(text, str):
            texts.append(text)
        elif strict and kind:
            raise BadParameter(f"the question has a part of the type {kind}: only text is understood", "messages")
    return "\n".join(texts)


def _check_count(texts: Any) -> Any:
    """Raise BadParameter for too many texts.

    Pydantic would look at each of them.
    """
    if isinstance(texts, list) and len(texts) > MAX_TEXTS:
        raise BadParameter(f"input has {len(texts):,} texts, and {MAX_TEXTS:,} is the limit", "input")
    return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingOptions:
    """The options that OpenAI's API does not have.

    input_type: `passage`, or `query` for questions, which some models embed in another way.
    """

    input_type: Literal["passage", "query"] = "passage"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequest:
    """A request to `/v1/embeddings`; other parameters are ignored."""

    model: str
    input: str | Annotated[list[Any], BeforeValidator(_check_count), WithJsonSchema(_TEXTS)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    kumihimo: EmbeddingOptions = field(default_factory=EmbeddingOptions)

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else [text for text in self.input if isinstance(text, str)]

    @classmethod
    def parse(cls, body: bytes) -> "EmbeddingRequest":
        """Return the request. Raise BadParameter if it cannot be answered."""
        request = parse_body(_EMBEDDINGS, body)
        if not request.input:
            raise BadParameter("input is empty: send a text, or a list of texts", "input")
        if isinstance(request.input, list) and len(request.texts) < len(request.input):
            raise BadParameter(
                "input holds tokens: send texts; in LangChain, OpenAIEmbeddings(check_embedding_ctx_length=False) does",
                "input",
            )
        if longest := max((len(text) for text in request.texts if len(text) > MAX_CHARS), default=0):
            raise BadParameter(f"a text has {longest:,} characters, and {MAX_CHARS:,} is the limit: split it", "input")
        return request


_EMBEDDINGS = TypeAdapter(EmbeddingRequest)
EMBEDDINGS_BODY = body_schema(_EMBEDDINGS)
