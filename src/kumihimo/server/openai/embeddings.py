"""the body of an embedding request -> the vectors of its texts."""

from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter

from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import Vectors
from kumihimo.server.openai.errors import BadParameter
from kumihimo.server.openai.request_body import parse_body

MAX_TEXTS = 2048
MAX_CHARS = 100_000  # of a text


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
    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    kumihimo: EmbeddingOptions = field(default_factory=EmbeddingOptions)

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else [text for text in self.input if isinstance(text, str)]


ADAPTER = TypeAdapter(EmbeddingRequest)


def parse_embedding_request(body: bytes) -> EmbeddingRequest:
    """Return the request. Raise BadParameter if it cannot be answered."""
    request = parse_body(ADAPTER, body)
    if not request.input:
        raise BadParameter("input is empty: send a text, or a list of texts", "input")
    if isinstance(request.input, list) and len(request.texts) < len(request.input):
        raise BadParameter(
            "input holds tokens: send texts; in LangChain, OpenAIEmbeddings(check_embedding_ctx_length=False) does",
            "input",
        )
    if len(request.texts) > MAX_TEXTS:
        raise BadParameter(f"input has {len(request.texts):,} texts, and {MAX_TEXTS:,} is the limit", "input")
    if longest := max((len(text) for text in request.texts if len(text) > MAX_CHARS), default=0):
        raise BadParameter(f"a text has {longest:,} characters, and {MAX_CHARS:,} is the limit: split it", "input")
    return request


def embedding_reply(request: EmbeddingRequest, vectors: Vectors, usage: Usage) -> dict[str, Any]:
    """Return the reply. Raise BadParameter if the vectors have another length."""
    dimensions = vectors.shape[1]
    if request.dimensions not in (None, dimensions):
        raise BadParameter(f"vectors have {dimensions} dimensions here: leave dimensions out", "dimensions")
    return {
        "object": "list",
        "model": request.model,
        "data": [
            {"object": "embedding", "index": i, "embedding": _encode(vector, request.encoding_format)}
            for i, vector in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": usage.prompt_tokens, "total_tokens": usage.tokens},
    }


def _encode(vector: Any, encoding: str | None) -> str | list[float]:
    """Return a vector as numbers, or in base64: little-endian, 32 bits."""
    return b64encode(vector.astype("<f4").tobytes()).decode() if encoding == "base64" else vector.tolist()
