"""commands -> what they ask of the recorded model: the replies that are used, and the requests without one."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from tests.cli_runner import Ran, kumi

from kumihimo.app.opened.catalogue import BUILT_IN, DEFAULT_METHOD
from kumihimo.core.errors import ItemFailed
from kumihimo.core.usage import Usage
from kumihimo.index import mentions
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.protocols import ChatRequest, Prices, Reply
from kumihimo.llm.recorded import COMMANDS_FILE, RecordedChat, describe_request, request_digest
from kumihimo.llm.registry import ModelRegistry

HERE = Path(__file__).parents[1]
FOLDER = HERE / "examples-recorded"
REPLIES = FOLDER / "replies"
_CHOICES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_REPAIR = Path(mentions.__file__).with_name("mentions_repair.md").read_text(encoding="utf-8")
_MEND_START = _REPAIR.partition("# user\n")[2].partition("\n")[0]
_AGAIN = " Reply again, in full."  # ends the message about a malformed reply


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to the recorded model.

    step: the step, method or role that asks. index: the folder of its index. refusal: what its parser says of the
    recorded reply, if that is malformed.
    """

    step: str
    request: ChatRequest
    index: str
    refusal: str = ""

    @property
    def key(self) -> str:
        return request_digest(self.request)

    @property
    def head(self) -> str:
        return describe_request(self.request)


@dataclass
class Requests:
    """The requests of a run by key: those with a reply, and those without a readable one.

    task: takes the place of the step, for commands that ask in its name. index: the folder of the present one. missed:
    missing ones that the present command asked for. usage: of each reply.
    """

    used: dict[str, Asked] = field(default_factory=dict)
    missing: dict[str, Asked] = field(default_factory=dict)
    task: str = ""
    index: str = ""
    missed: set[str] = field(default_factory=set)
    usage: dict[str, Usage] = field(default_factory=dict)

    def build_usage(self) -> dict[str, Usage]:
        """Return the usage of each step that builds the main index."""
        steps = {BUILT_IN.scope(name): Usage() for name in BUILT_IN.steps}
        for key, asked in self.used.items():
            if asked.step in steps and not asked.index:
                steps[asked.step] += self.usage[key]
        return {step: usage for step, usage in steps.items() if usage.calls}

    def add(self, step: str, request: ChatRequest, *, is_recorded: bool) -> None:
        """Add a request. One that asks for a reply again says why that was refused."""
        last = request.messages[-1]["content"]
        if refusal := last.removesuffix(_AGAIN) if request.attempt else last if _MEND_START in last else "":
            first = Asked(step, replace(request, messages=request.messages[:-2]), self.index, refusal)
            self.used.pop(first.key, None)
            self.missing[first.key] = first
            self.missed.add(first.key)
            return
        asked = Asked(step, request, self.index)
        if is_recorded:
            self.used.setdefault(asked.key, asked)
        else:
            self.missing.setdefault(asked.key, asked)
            self.missed.add(asked.key)


@dataclass(frozen=True)
class ObservedChat:
    """A recorded model of one scope that notes each request.

    It takes so many requests at once that one miss stops none of the others.
    """

    chat: RecordedChat
    scope: str
    requests: Requests
    workers: int = 64
    server: None = None

    @property
    def fingerprint(self) -> str:
        return self.chat.fingerprint

    @property
    def prices(self) -> Prices:
        return self.chat.prices

    def determined_by(self, parameters: Mapping[str, Any], **options: bool) -> Mapping[str, Any]:
        return self.chat.determined_by(parameters, **options)

    def __call__(self, request: ChatRequest) -> Reply:
        step = self.requests.task or self.scope
        try:
            reply = self.chat(request)
        except ItemFailed:
            self.requests.add(step, request, is_recorded=False)
            raise
        self.requests.add(step, request, is_recorded=True)
        self.requests.usage[request_digest(request)] = reply.usage
        return reply


@contextmanager
def observed(requests: Requests) -> Iterator[None]:
    """Note the requests to recorded models in this block."""
    connect = ModelRegistry.chat

    def chat(registry: ModelRegistry, scope: str) -> Chat | None:
        model = connect(registry, scope)
        return ObservedChat(model, scope, requests) if isinstance(model, RecordedChat) else model

    with patch.object(ModelRegistry, "chat", chat):
        yield


@dataclass(frozen=True, slots=True)
class Outcome:
    """A command, and how it ended; None: it waits for an earlier one."""

    words: tuple[str, ...]
    ran: Ran | None
    missing: frozenset[str] = frozenset()

    @property
    def failed(self) -> bool:
        """Return whether it failed for another reason than a missing reply."""
        return self.ran is not None and self.ran.returncode != 0 and not self.missing


@dataclass(frozen=True, slots=True)
class Run:
    """The outcomes of all commands, and their requests."""

    outcomes: Sequence[Outcome]
    requests: Requests

    @property
    def is_complete(self) -> bool:
        return not self.requests.missing and all(outcome.ran for outcome in self.outcomes)

    def is_settled(self, step: str) -> bool:
        """Return whether all requests of the step are known.

        Those of a step of a build depend on the steps before it alone.
        """
        names = [name for name in BUILT_IN.steps if BUILT_IN.scope(name) == step]
        return self.is_complete or (bool(names) and not self._waits(names))

    def _waits(self, names: Sequence[str]) -> bool:
        missing = {each.step for each in self.requests.missing.values()}
        return bool(missing & _upstream_scopes(names))


def _upstream_scopes(tables: Sequence[str]) -> set[str]:
    """Return the scopes of the steps behind tables."""
    return {BUILT_IN.scope(name) for name in BUILT_IN.upstream_steps(tables)}


def read_commands(folder: Path = REPLIES) -> list[tuple[str, ...]]:
    """Return the words of each command, with each of its choices."""
    lines = (folder / COMMANDS_FILE).read_text(encoding="utf-8").splitlines()
    return [words for line in lines if line.strip() and not line.startswith("#") for words in expand_choices(line)]


def expand_choices(line: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of a line, once for each combination of its choices.

    >>> [" ".join(words) for words in expand_choices("ask -m {bm25,naive} 'Who?'")]
    ['ask -m bm25 Who?', 'ask -m naive Who?']
    """
    parts = _CHOICES.split(line)
    for values in product(*(part.split(",") for part in parts[1::2])):
        pieces = [part for pair in zip(parts[::2], (*values, ""), strict=True) for part in pair]
        yield tuple(shlex.split("".join(pieces)))


def run_commands(
    commands: Sequence[Sequence[str]] = (), replies: Path = REPLIES, added: Mapping[str, str] | None = None
) -> Run:
    """Run the commands in a folder of their own, with the recorded model.

    A command waits while replies are missing that its index or the evaluation before it needs. added: more replies.
    """
    requests, outcomes = Requests(), list[Outcome]()
    with TemporaryDirectory() as home, observed(requests), patch.dict(os.environ):
        for name in [name for name in os.environ if name.startswith("KUMI_")]:
            del os.environ[name]
        _prepare_folder(Path(home), replies, added or {})
        for words in commands or read_commands(replies):
            outcomes.append(_run_command(tuple(words), Path(home), requests, outcomes))
    _drop_unsettled(requests)
    return Run(outcomes, requests)


def _prepare_folder(home: Path, replies: Path, added: Mapping[str, str]) -> None:
    """Fill a folder with the examples, the settings and the replies."""
    (home / "examples").symlink_to(HERE / "examples")
    shutil.copyfile(FOLDER / "kumi.toml", home / "kumi.toml")
    shutil.copytree(replies, home / replies.name)
    # of two replies with one key the last counts
    write_jsonl(home / replies.name / "zz_added.jsonl", [{"key": key, "reply": text} for key, text in added.items()])


def _run_command(words: tuple[str, ...], home: Path, requests: Requests, earlier: Sequence[Outcome]) -> Outcome:
    if _must_wait(words, requests, earlier):
        return Outcome(words, None)
    requests.task = "tune" if words[0] == "tune" else ""
    requests.index = words[words.index("--index") + 1] if "--index" in words else ""
    requests.missed = set()
    typed = ""
    if "<" in words:
        words, file = words[: words.index("<")], words[-1]
        typed = (home / REPLIES.name / file).read_text(encoding="utf-8")
    json_option = ["--json"] if words[0] == "ask" and not typed else []
    ran = kumi(home, *words, *json_option, typed=typed)
    return Outcome(words, ran, frozenset(requests.missed))


def _must_wait(words: Sequence[str], requests: Requests, earlier: Sequence[Outcome]) -> bool:
    """Return whether a command needs what an earlier one could not do."""
    if words[0] in ("index", "tune"):
        return False
    if words[0] == "ask":
        name = words[words.index("--method") + 1] if "--method" in words else DEFAULT_METHOD
        method = BUILT_IN.methods[name]
        behind = _upstream_scopes([*method.tables, *method.optional_tables])
        return any(each.step in behind for each in requests.missing.values())
    group = [outcome for outcome in earlier if outcome.words[0] in ("index", words[0])]
    return any(outcome.ran is None or outcome.missing for outcome in group)


def _drop_unsettled(requests: Requests) -> None:
    """Drop the missing requests of steps that follow steps with missing ones.

    Their prompts will change.
    """
    missing = {(each.index, each.step) for each in requests.missing.values()}
    for key, each in list(requests.missing.items()):
        names = [name for name in BUILT_IN.steps if BUILT_IN.scope(name) == each.step]
        if any((each.index, scope) in missing for scope in _upstream_scopes(names) - {each.step}):
            del requests.missing[key]


def write_jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
