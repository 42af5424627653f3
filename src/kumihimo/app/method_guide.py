"""method -> its measured recall, and what its settings do."""

import json
import re
from collections.abc import Mapping
from functools import cache
from inspect import getdoc
from pathlib import Path

from kumihimo.core.signature import Signature

_HELP_FILE = Path(__file__).with_name("setting_help.json")

# Recall@5 of the methods without a model, on 100, 100, 164, 300 and 300 questions, from benchmarks/recall.py. The
# figures of braid are from benchmarks/weights.py, with weights learned on the other sets.
RECALL_SETS = ("MuSiQue", "HotpotQA", "2WikiMultiHopQA", "JSQuAD", "DRCD")
RECALL: Mapping[str, tuple[float, ...]] = {
    "braid": (0.709, 0.965, 0.939, 0.960, 0.983),
    "bm25": (0.531, 0.795, 0.698, 0.967, 0.973),
    "naive": (0.545, 0.810, 0.721, 0.960, 0.973),
    "local": (0.557, 0.815, 0.733, 0.973, 0.980),
    "light": (0.578, 0.810, 0.720, 0.970, 0.983),
}


def setting_help(name: str, method: Signature) -> Mapping[str, str]:
    """Return what each setting of a method does, as docs/settings.md has it.

    A method of a plug-in says so in its docstring, in sentences such as `depth: how many steps.`
    """
    if name in (own := _read_help()):
        return own[name]
    text = " ".join((getdoc(method.function) or "").split())
    parts = re.split(r"(?:^|(?<=[.:;] ))(" + "|".join(map(re.escape, method.settings)) + "): ", text)
    return {setting: part.strip() for setting, part in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def _read_help() -> Mapping[str, Mapping[str, str]]:
    texts: dict[str, dict[str, str]] = json.loads(_HELP_FILE.read_text(encoding="utf-8"))
    return texts
