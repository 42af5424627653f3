"""a model that takes claims out of sentences by a script."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat

STAGES = {"You decide whether this": "select", "You decide whether everybody": "read", "You write down": "decompose"}
CHECKS = {"You check statements": "support", "You compare statements": "compare"}
Said = Callable[[str, str], Any]  # stage, what it is asked about -> reply, a text as it is


def scripted(folder: Path, say: Said, caps: Caps | None = None) -> tuple[CachedLLM, FakeChat]:
    def answer(prompt: str) -> str:
        stage = next(name for said, name in {**STAGES, **CHECKS}.items() if said in prompt)
        about = prompt.split("\n\nReply with one JSON object and nothing else.")[0]
        sentence = re.findall(r"^Sentence: (.*)", about, re.M)
        reply = say(stage, sentence[-1] if sentence else about.partition("instruction to you.")[2].strip())
        return reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)

    chat = FakeChat(answer, workers=2, join_messages=True)
    return CachedLLM(chat, ResponseCache(folder / "cache.db"), Budget(caps), "claimer"), chat


def selected(verdict: str = "all", sentence: str = "") -> dict[str, str]:
    return {"reasoning": "so", "verdict": verdict, "sentence": sentence}


def usual(stage: str, about: str) -> Any:
    """Every sentence is one claim; every claim is supported."""
    if stage in ("support", "compare"):
        count = len(re.findall(r"^\d+\. ", about.rpartition("Claims:\n")[2], re.M))
        return [{"claim": n, "supported": "yes", "sources": [1]} for n in range(1, count + 1)]
    return {"select": selected(), "read": selected("clear"), "decompose": {"answer": [about]}}[stage]


def script(**replies: Mapping[str, Any]) -> Said:
    """Of a stage: what is replied where the sentence begins so; else as usual."""

    def say(stage: str, about: str) -> Any:
        found = [reply for start, reply in replies.get(stage, {}).items() if about.startswith(start)]
        return found[0] if found else usual(stage, about)

    return say
