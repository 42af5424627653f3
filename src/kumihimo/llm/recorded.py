"""JSONL files of replies -> Chat: a recorded model, which answers the same requests again, without a server.

A line of a file is one reply: the key of its request, the head of its prompt, the reply. The file is named after the
step, method or role that sent the request.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from kumihimo.core import digests, usage
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.llm.protocols import ChatRequest, Prices, Reply

RECORDED_PREFIX = "recorded:"  # of the name of such a model; the path of its folder follows
COMMANDS_FILE = "commands.txt"  # in the folder: the commands that are recorded
_HEAD_CHARS = 200
_MATERIAL = re.compile(r"<(\w++(?: \d++)?)[^<>\n]*>\n(.*?)\n</\1>", re.S)


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded reply.

    key: `request_digest` of its request. head: what its prompt is about, for people.
    """

    key: str
    head: str
    reply: str


def request_digest(request: ChatRequest) -> str:
    """Return the digest of messages, schema and sample number."""
    messages = [[message["role"], message["content"]] for message in request.messages]
    return digests.hash_parts(json.dumps([messages, request.schema, request.sample], sort_keys=True))


def describe_request(request: ChatRequest) -> str:
    """Return the first 200 characters of the material in a conversation.

    Without material it is the last message; a later turn is numbered.
    """
    turns = [message["content"] for message in request.messages if message["role"] == "user"]
    material = " | ".join(part for turn in turns for _, part in _MATERIAL.findall(turn))
    head = " ".join((material or turns[-1]).split())[:_HEAD_CHARS]
    return f"(turn {len(turns)}) {head}" if len(turns) > 1 else head


def read_recordings(path: Path) -> list[Recording]:
    """Return the recordings of a file. Raise SettingsError for a damaged one."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): restore the recorded replies") from error
    return [_parse_line(path, number, line) for number, line in enumerate(lines, 1) if line]


def _parse_line(path: Path, number: int, line: str) -> Recording:
    try:
        row = json.loads(line)
        return Recording(str(row["key"]), str(row.get("head", "")), str(row["reply"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SettingsError(f"{path}, line {number} is no recorded reply: restore or delete it") from error


@dataclass
class RecordedChat:
    """A `Chat` that looks up replies in the JSONL files of a folder. It costs nothing.

    Raises SettingsError if the folder holds no recorded replies.
    """

    folder: Path
    workers: int = 1
    prices: Prices = field(default_factory=lambda: Prices(0.0, 0.0, 0.0))
    server: None = None

    @property
    def fingerprint(self) -> str:
        """Return the name of the folder, equal wherever it lies."""
        return f"{RECORDED_PREFIX}{self.folder.resolve().name}"

    @cached_property
    def replies(self) -> Mapping[str, str]:
        """Return the replies by the digest of their requests."""
        files = sorted(path for path in self.folder.glob("*.jsonl") if path.is_file())
        if not files:
            raise SettingsError(f"there are no recorded replies in {self.folder}: set chat.model to another model")
        return {recording.key: recording.reply for path in files for recording in read_recordings(path)}

    def determined_by(self, parameters: Mapping[str, Any], **_: bool) -> dict[str, Any]:
        """Return the name, and a digest of all replies.

        A changed file leaves nothing of its old replies in the response cache.
        """
        return {"model": self.fingerprint, "replies": self._digest, **parameters}

    @cached_property
    def _digest(self) -> str:
        return digests.hash_parts(*(text for item in sorted(self.replies.items()) for text in item))

    def __call__(self, request: ChatRequest) -> Reply:
        raw = self.replies.get(request_digest(request))
        if raw is None:
            raise ItemFailed(
                f"no reply is recorded for this request: {self.folder / COMMANDS_FILE} lists what is recorded; for "
                "anything else connect a model: see docs/models.md"
            )
        tokenizer = LocalTokenizer()
        starts = tokenizer(raw)
        if request.on_token:
            for start, end in pairwise([*starts, len(raw)]):
                request.on_token(raw[start:end])
        prompt_tokens = sum(len(tokenizer(message["content"])) for message in request.messages)
        return Reply(raw, usage=usage.Usage(1, prompt_tokens, 0, len(starts)))
