"""an answer -> the objects of a chat completion, whole or as the chunks of a stream."""

from dataclasses import dataclass, field
from time import time
from typing import Any
from uuid import uuid4

from kumihimo.app.evidence.citation_markers import is_truncated
from kumihimo.core.context import Answer
from kumihimo.core.usage import Usage
from kumihimo.server.openai.source_list import Link, source_list, url_citations

_MAX_EVIDENCE = 100  # ids of rows in a reply


@dataclass(frozen=True, slots=True)
class ReplyHead:
    """What all chunks of a reply have in common."""

    model: str
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")
    created: int = field(default_factory=lambda: int(time()))

    def object(self, kind: str, **values: Any) -> dict[str, Any]:
        """Return an object of this reply."""
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, **values}

    def chunk(self, delta: dict[str, Any], finish_reason: str | None = None, **values: Any) -> dict[str, Any]:
        """Return a chunk of a stream."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return self.object("chat.completion.chunk", choices=[choice], **values)


def completion(head: ReplyHead, answer: Answer, link: Link) -> dict[str, Any]:
    """Return a whole reply."""
    message = {
        "role": "assistant",
        "content": answer.text + source_list(answer, link),
        "refusal": None,
        "annotations": url_citations(answer, link),
    }
    choice = {"index": 0, "message": message, "finish_reason": finish_reason(answer), "logprobs": None}
    return head.object(
        "chat.completion", choices=[choice], usage=usage_json(answer.usage), kumihimo=extension_json(answer)
    )


def finish_reason(answer: Answer) -> str:
    """Return why the text ends."""
    return "length" if is_truncated(answer) else "stop"


def usage_json(usage: Usage) -> dict[str, Any]:
    """Return the tokens of the model calls; 0 without a model."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def extension_json(answer: Answer) -> dict[str, Any]:
    """Return the method, the model, the status and the rows found."""
    evidence = [":".join(item.reference) for item in answer.context][:_MAX_EVIDENCE]
    return {"method": answer.method, "model": answer.model, "status": answer.status, "evidence": evidence}
