"""regular expressions of the source -> long texts for each of their repeats: no match outgrows its text."""

from __future__ import annotations

import ast
import importlib
import json
import re
import signal
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from re import _constants as op, _parser as parser
from time import thread_time
from typing import Any, NamedTuple

import pytest

import kumihimo

SOURCE = Path(kumihimo.__file__).parent
FILES = {path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in SOURCE.rglob("*.py")}
LIST = Path(__file__).with_suffix(".json")  # `checked`: digests of calls; others with the reason why they may stand
LISTED = json.loads(LIST.read_text("utf-8"))
REPEATS, CHARACTERS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT), (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)
LETTERS = "a1 \n\t.,-_'\"()[]{}<>/\\:;=+*#|&%$@!?~`^A\r\u3000あ紐・ー。「é\0"
ENDS = ("", "\0", "!\n")
ANCHORED = {"match", "fullmatch"}  # methods that begin at one place
Key = tuple[str | bytes, int]


def shows(node: Any, flags: int) -> list[str]:
    """Return short texts that begin as a parsed expression matches."""
    texts = [""]
    for kind, value in node:
        if kind in CHARACTERS:
            one = re._compiler.compile(parser.SubPattern(parser.State(), [(kind, value)]), flags & ~re.DEBUG)  # type: ignore[attr-defined]
            own = [chr(value)] if kind is op.LITERAL else []
            own += (
                [chr(c[0] if isinstance(c, tuple) else c) for k, c in value if k in (op.LITERAL, op.RANGE)]
                if kind is op.IN
                else []
            )
            parts = [c for c in dict.fromkeys([*own, *LETTERS]) if one.fullmatch(c)][:3]
        elif kind in REPEATS:
            parts = [text * max(value[0], 1) for text in shows(value[2], flags)[:2]] + [""] * (not value[0])
        elif kind is op.BRANCH:
            parts = [text for branch in value[1] for text in shows(branch, flags)[:1]]
        else:
            inner = value[3] if kind is op.SUBPATTERN else value if kind is op.ATOMIC_GROUP else []
            parts = shows(inner, flags)
        texts = [before + part for before in texts for part in parts[:5] or [""]][:6]
    return texts


def pumps(node: Any, flags: int, before: tuple[str, ...] = ("",)) -> Iterator[tuple[str, str]]:
    """Yield what stands before each repeat without a small maximum, and what it repeats."""
    for kind, value in node:
        inner = {op.SUBPATTERN: lambda v: v[3], op.ATOMIC_GROUP: lambda v: v, op.ASSERT: lambda v: v[1]}.get(kind)
        children = value[1] if kind is op.BRANCH else [inner(value)] if inner else []
        if kind in REPEATS:
            children = [value[2]]
            if value[1] >= 40:
                yield from ((text, piece) for text in before[:2] for piece in shows(value[2], flags) if piece)
        for child in children:
            yield from pumps(child, flags, before)
        before = tuple(text + part for text in before for part in shows([(kind, value)], flags)[:2])[:4]


def long_texts(expression: Key) -> Iterator[tuple[str, str, str]]:
    """Yield beginnings, what repeats, and ends."""
    tree = parser.parse(*expression)
    flags = tree.state.flags | expression[1]
    found = [*dict.fromkeys(pumps(tree, flags))]
    pieces = [piece for _, piece in found]
    found += [("", piece) for piece in pieces] + [("", before + piece) for before, piece in found if before]
    found += [(one, other) for one in pieces[:6] for other in pieces[:6]]
    found += [("", one + other) for one in pieces[:5] for other in pieces[:5]]
    found += [("", text[:cut]) for text in shows(tree, flags)[:3] for cut in (-1, None) if text[:cut]]
    yield from ((*each, end) for each in dict.fromkeys(found) for end in ENDS)


def late(*_: object) -> None:
    raise TimeoutError


def seconds(pattern: re.Pattern[Any], mode: str, text: tuple[str, str, str], size: int) -> float:
    """Return the seconds of the processor for a text of so many characters; endless after 20 seconds."""
    begin, piece, end = text
    whole: Any = begin + piece * (size // len(piece)) + end
    whole = whole.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else whole
    start = thread_time()
    signal.signal(signal.SIGPROF, late)
    try:
        signal.setitimer(signal.ITIMER_PROF, 0.3)
        [*pattern.finditer(whole)] if mode not in ANCHORED else getattr(pattern, mode)(whole)
        signal.setitimer(signal.ITIMER_PROF, 0)
    except TimeoutError:
        return 1.0
    return thread_time() - start


def growth(expression: Key, modes: Iterable[str]) -> str:
    """Return the text that takes the expression more time than its length explains, or nothing."""
    pattern: re.Pattern[Any] = re.compile(*expression)  # type: ignore[type-var]
    for mode in modes:
        for text in islice(long_texts(expression), 150):
            if (small := seconds(pattern, mode, text, 2000)) > 0.0004:
                large = small if small >= 1 else min(seconds(pattern, mode, text, 16000) for _ in range(2))
                base = min(seconds(pattern, mode, text, 4000) for _ in range(3))
                if large >= 1 or large > max(0.02, 9 * base):
                    return f"{mode} {text} {small:.4f} {large:.4f}"
    return ""


class Call(NamedTuple):
    """A call of `re` in the source."""

    file: str
    text: str
    pattern: str
    flags: str
    modes: frozenset[str]  # how the expression is matched

    @property
    def digest(self) -> str:
        return sha256(repr((*self[:4], sorted(self.modes))).encode()).hexdigest()[:12]

    def expression(self) -> Key | None:
        """Return pattern and flags; None if a function builds them."""
        module = importlib.import_module("kumihimo." + self.file[:-3].replace("/", ".").removesuffix(".__init__"))
        try:
            pattern = re.compile(*eval(f"({self.pattern}, {self.flags})", dict(vars(module))))
        except (NameError, TypeError):
            return None
        return pattern.pattern, pattern.flags


def find_modes(file: str, name: str) -> Iterator[str]:
    """Yield how the expression of a name is matched."""
    stem = Path(file).stem
    others = [text for text in FILES.values() if name in text and re.search(rf"\b{stem}(?: import|\.{name})\b", text)]
    for text in [FILES[file], *([] if name.startswith("_") else others)]:
        for use in re.finditer(rf"\b{name}\b(?! =)(?:\.(\w+)\(([^()\n]*,)?)?", text):
            yield use[1] if use[1] in ANCHORED and not use[2] else "finditer"


@cache
def calls() -> list[Call]:
    """Return the calls of `re` with an expression."""
    found = []
    for file, text in FILES.items():
        tree = ast.parse(text) if re.search(r"\bre\.\w+\(", text) and "integrations" not in file else ast.Module([], [])
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in (node for node in parents if isinstance(node, ast.Call) and node.args):
            function, parent = node.func, parents[node]
            if (
                not isinstance(function, ast.Attribute)
                or ast.unparse(function.value) != "re"
                or function.attr == "escape"
            ):
                continue
            modes = {function.attr if function.attr in ANCHORED else "finditer"}
            if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
                modes = set(find_modes(file, parent.targets[0].id)) or modes
            given = map(ast.unparse, [*node.args[1:], *(each.value for each in node.keywords)])
            flags = next((each for each in given if re.fullmatch(r"[re.A-Z |]+", each)), "0")
            found.append(Call(file, ast.unparse(node), ast.unparse(node.args[0]), flags, frozenset(modes)))
    return found


def faults(chosen: Iterable[Call]) -> list[str]:
    """Return the expressions of calls that outgrow a text, or are not known, and are not listed."""
    found = []
    for call in chosen:
        name = f"{call.file}: {call.pattern}"
        if name not in LISTED["reasons"]:
            expression = call.expression()
            fault = (
                growth(expression, sorted(call.modes)) if expression else "a function builds it: list it with a reason"
            )
            found += [f"{name}: {fault}"] if fault else []
    return found


def test_new_expressions_grow_with_their_text() -> None:
    """Calls on the list of checked ones are left to `make nightly`."""
    assert faults(call for call in calls() if call.digest not in LISTED["checked"]) == []


def test_all_expressions_grow_with_their_text() -> None:
    assert faults(calls()) == []
    assert LISTED["checked"] == sorted({call.digest for call in calls()}), "write these digests to the list"
    assert LISTED["reasons"].keys() <= {f"{call.file}: {call.pattern}" for call in calls()}


@pytest.mark.parametrize("pattern", [r"\s+$", r"(a+)+$", r"a+b", r"\w+@\w+", r"(?:\n\s*-{3,}\s*)+\Z"])
def test_bad_expressions_are_found(pattern: str) -> None:
    assert growth((pattern, 0), ["finditer"])


if __name__ == "__main__":
    LISTED["checked"] = sorted({call.digest for call in calls()})
    LIST.write_text(json.dumps(LISTED, indent=1, ensure_ascii=False) + "\n", "utf-8")
