"""regular expressions of the source -> long texts for each of their repeats: no match outgrows its text."""

from __future__ import annotations

import ast
import importlib
import json
import re
import signal
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from re import _constants as op, _parser as parser
from time import thread_time
from typing import Any

import kumihimo

SOURCE = Path(kumihimo.__file__).parent
NAMES = re.compile(r"^(from (?!__)\S+ import )(?:\([^)]*\)|.*)", re.M)  # to import is not to use
FILES = {p.relative_to(SOURCE).as_posix(): NAMES.sub(r"\1*", p.read_text("utf-8")) for p in SOURCE.rglob("*.py")}
LISTED = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))  # `checked`: digests; they do not grow
ONCE = r"(?:\.(match|fullmatch)\b(?!\([^()\n]*,))?"  # from one place; a match with a position goes on through a text
CHARACTERS, REPEATS = (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN), (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
INSIDE = {op.ATOMIC_GROUP: 0, op.SUBPATTERN: 4, op.ASSERT: 2, **dict.fromkeys(REPEATS, 3)}  # where the inner part is
LETTERS = "a1 \n\t.,-_'\"()[]{}<>/\\:;=+*#|&%$@!?~`^A\r\u3000あ紐・ー。「é\0"


def parts_of(kind: Any, value: Any) -> list[Any]:
    """Return the expressions inside a part of an expression."""
    return value[1] if kind is op.BRANCH else [(value, *value)[INSIDE[kind]]] if kind in INSIDE else []


def beginnings(node: Any, flags: int) -> list[str]:
    """Return short texts that begin as a parsed expression matches."""
    texts = [""]
    for kind, value in node:
        found = [text for part in parts_of(kind, value) for text in beginnings(part, flags)[:2]]
        if kind in CHARACTERS:
            one = re._compiler.compile(parser.SubPattern(parser.State(), [(kind, value)]), flags & ~re.DEBUG)  # type: ignore[attr-defined]
            own = [chr(int(number)) for number in re.findall(r"\d+", str(value)) if int(number) < 1 << 16]
            found = [each for each in dict.fromkeys([*own, *LETTERS]) if one.fullmatch(each)][:3]
        elif kind in REPEATS:
            found = [text * max(value[0], 1) for text in found] + [""] * (not value[0])
        texts = [text + each for text in texts for each in (kind is not op.ASSERT and found[:5]) or [""]][:6]
    return texts


def repeats(node: Any, flags: int, before: tuple[str, ...] = ("",)) -> Iterator[tuple[str, str]]:
    """Yield what stands before each repeat without a small maximum, and what it repeats."""
    for kind, value in node:
        if kind in REPEATS and value[1] >= 40:
            yield from ((text, piece) for text in before[:2] for piece in beginnings(value[2], flags) if piece)
        for part in parts_of(kind, value):
            yield from repeats(part, flags, before)
        before = tuple(text + each for text in before for each in beginnings([(kind, value)], flags)[:2])[:4]


def long_texts(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield beginnings, what repeats, and ends."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    found = [*dict.fromkeys(repeats(tree, pattern.flags))]
    pieces = [piece for _, piece in found]
    found += [("", piece) for piece in pieces] + [("", before + piece) for before, piece in found]
    found += [pair for one in pieces[:6] for other in pieces[:6] for pair in ((one, other), ("", one + other))]
    found += [("", text[:cut]) for text in beginnings(tree, pattern.flags)[:3] for cut in (-1, None) if text[:cut]]
    yield from ((*each, end) for each in dict.fromkeys(found) for end in ("", "\0", "!\n"))


def seconds(pattern: re.Pattern[Any], mode: str, text: tuple[str, str, str], size: int) -> float:
    """Return the seconds of the processor for a text of so many characters; 1 if they are over the limit."""
    whole: Any = text[0] + text[1] * (size // len(text[1])) + text[2]
    whole = whole.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else whole
    try:
        start, _ = thread_time(), signal.setitimer(signal.ITIMER_PROF, 0.15)
        getattr(pattern, mode)(whole) if "match" in mode else list(pattern.finditer(whole))
        signal.setitimer(signal.ITIMER_PROF, 0)
    except KeyboardInterrupt:
        return 1.0
    return thread_time() - start


def growth(pattern: re.Pattern[Any], mode: str) -> str:
    """Return the text that takes the expression more time than its length explains, or nothing."""
    signal.signal(signal.SIGPROF, signal.default_int_handler)
    for text in [*long_texts(pattern)][:150]:
        if (small := seconds(pattern, mode, text, 1000)) > 0.0002:
            middle = min(seconds(pattern, mode, text, 3000) for _ in range(3 if small < 1 else 1))
            large = min(seconds(pattern, mode, text, 9000) for _ in range(2 if small < 1 else 1))
            if small == 1 or large > max(0.01, 6 * middle):  # in step: three times as much
                return f"{mode} {text} {small:.4f} {middle:.4f} {large:.4f}"
    return ""


def fault(call: tuple[str, ...]) -> str:
    """Return how the expression of a call outgrows a text, or nothing."""
    name, flags, mode = call
    if name in LISTED["reasons"]:
        return ""
    file, _, text = name.partition(".py: ")
    module = importlib.import_module("kumihimo." + file.replace("/", ".").removesuffix(".__init__"))
    try:
        found = growth(eval(f"re.compile({text}, {flags})", {"re": re, **vars(module)}), mode)
    except (NameError, TypeError):
        found = "a function builds it: list it with a reason"
    return found and f"{name}: {found}"


@cache
def calls() -> dict[str, tuple[str, ...]]:
    """Return file and expression, flags, and mode of the calls of `re`, by digests."""
    found = []
    for file, text in FILES.items():
        nodes = [*ast.walk(ast.parse(text))] if re.search(r"\bre\.", text) else []
        names = {node.value: ast.unparse(node.targets[0]) for node in nodes if isinstance(node, ast.Assign)}
        for node in (node for node in nodes if isinstance(node, ast.Call) and node.args):
            name, modes = names.get(node, ""), re.findall(r"^re\.(?!escape)(\w+)$", ast.unparse(node.func))
            if modes and name.isidentifier():
                outside = () if name[0] == "_" else (f"{Path(file).stem} import", f"{Path(file).stem}.{name}")
                users = (other for key, other in FILES.items() if key == file or any(each in other for each in outside))
                modes = [each for user in users for each in re.findall(rf"\b{name}\b(?! =|: ){ONCE}", user)] or modes
            flags = " | ".join(re.findall(r"\bre\.[A-Z]+\b", ast.unparse(node) if modes else "")) or "0"
            found += [(f"{file}: {ast.unparse(node.args[0])}", flags, mode) for mode in modes]
    return {sha256(repr(call).encode()).hexdigest()[:12]: call for call in found}


def test_new_expressions_grow_with_their_text() -> None:
    assert [*filter(None, (fault(call) for digest, call in calls().items() if digest not in LISTED["checked"]))] == []


def test_all_expressions_grow_with_their_text() -> None:
    assert [*filter(None, map(fault, calls().values()))] == []
    checked = sorted(digest for digest, call in calls().items() if call[0] not in LISTED["reasons"])
    assert LISTED["checked"] == checked, "write these digests to the list"
    assert LISTED["reasons"].keys() <= {call[0] for call in calls().values()}


def test_bad_expressions_are_found() -> None:
    assert all(growth(re.compile(each), "finditer") for each in (r"a+b", r"(a+)+$", r"(?:\n\s*-{3,}\s*)+\Z"))
