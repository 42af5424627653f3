"""Factories: a fake LLM that extracts and checks claims by a script."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.cached_llm import StructuredLLM, create_llm
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from tests.fenced_texts import fenced_text

STAGES = {"You decide whether this": "select", "You decide whether everybody": "read", "You write down": "decompose"}
CHECKS = {"You check statements": "support", "You compare statements": "compare"}
ReplyFunction = Callable[[str, str], Any]  # stage, its sentence or claims -> reply; a str is sent unchanged


def scripted_claim_llm(
    folder: Path, reply_to: ReplyFunction, caps: Caps | None = None
) -> tuple[StructuredLLM, FakeChat]:
    """Return an LLM with these replies, and the fake chat behind it."""

    def answer_prompt(prompt: str) -> str:
        stage = next(name for phrase, name in {**STAGES, **CHECKS}.items() if phrase in prompt)
        about = prompt.split("\n\nReply with one JSON object and nothing else.")[0]
        reply = reply_to(stage, fenced_text(about, "sentence") or about.partition("whatever it says.")[2].strip())
        return reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)

    chat = FakeChat(answer_prompt, workers=2, join_messages=True)
    return create_llm(chat, ResponseCache(folder / "cache.db"), Budget(caps), "claimer"), chat


def stage_reply(verdict: str = "all", sentence: str = "") -> dict[str, str]:
    """Return a reply of the selection or disambiguation stage."""
    return {"reasoning": "so", "verdict": verdict, "sentence": sentence}


def default_reply(stage: str, about: str) -> Any:
    """Reply that every sentence is one claim, and that every claim is supported."""
    if stage in ("support", "compare"):
        count = len(re.findall(r"^\d+\. ", fenced_text(about, "claims"), re.M))
        return [{"claim": n, "supported": "yes", "sources": [1]} for n in range(1, count + 1)]
    return {"select": stage_reply(), "read": stage_reply("clear"), "decompose": {"answer": [about]}}[stage]


def script_replies(**replies: Mapping[str, Any]) -> ReplyFunction:
    """Reply by stage and start of the sentence; otherwise use the default reply."""

    def reply_to(stage: str, about: str) -> Any:
        matches = [reply for start, reply in replies.get(stage, {}).items() if about.startswith(start)]
        return matches[0] if matches else default_reply(stage, about)

    return reply_to
