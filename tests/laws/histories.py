"""random histories -> the laws, checked after every build.

As a program: exit 1 if one is broken.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kumihimo.llm.concurrency import thread_pool
from tests.laws.factories_history import BuildKilled, Tables, World
from tests.laws.rebuild_process import RebuildProcess
from tests.toy_steps import STATEFUL

Event = tuple[Any, ...]
NAMES = ("Ada", "Bo", "Cy", "Dee", "Eve", "Flo", "Gus", "Hal")
VERBS = ("met", "saw", "knew", "paid") * 2
LINES = (
    *(f"{a} {verb} {b}" for a, verb, b in zip(NAMES, VERBS, NAMES[3:] + NAMES[:3], strict=True)),
    "Ada met Bo near Cy",
    "nobody came",
    "Dee paid Ada",
    "Gus saw Gus",
    "Ada paid Dee again",
    "Cy owed Flo and Ada",
)


KINDS = ("put", "append", "break", "drop", "settings", "version", "kill", "shuffle")
CHANCES = (6, 4, 3, 3, 2, 1, 2, 1)


def random_history(seed: int, length: int = 9) -> list[Event]:
    rng = random.Random(seed)
    return [_event(rng) for _ in range(length)]


def _event(rng: random.Random) -> Event:
    kind = rng.choices(KINDS, CHANCES)[0]
    lines = tuple(rng.randrange(len(LINES)) for _ in range(rng.randrange(1, 5)))
    if kind in ("put", "break"):  # a document is added or changed; the model answers or fails
        return kind, rng.choice("abcde"), lines, rng.randrange(5)
    if kind == "settings":
        return kind, rng.randrange(1, 3), rng.randrange(1, 3), rng.randrange(2)
    return kind, rng.randrange(5)


class LawBroken(AssertionError):
    """A broken law."""


def check_law(holds: bool, message: str, *facts: object) -> None:
    if not holds:
        raise LawBroken(f"{message}: {facts}")


@dataclass
class IndexHistory:
    """An index through one history."""

    world: World
    documents: dict[str, str] = field(default_factory=dict)
    versions: int = 1

    def put(self, name: str, lines: Sequence[int], salt: int) -> None:
        self.documents[name] = "\n".join(LINES[i] for i in lines)

    def break_(self, name: str, lines: Sequence[int], salt: int) -> None:
        self.put(name, lines, salt)
        self.world.salt = f"salt {salt}"

    def append(self, which: int) -> None:
        if self.documents:
            name = sorted(self.documents)[which % len(self.documents)]
            self.documents[name] += f"\n{LINES[which]}"

    def drop(self, which: int) -> None:
        if self.documents:
            del self.documents[sorted(self.documents)[which % len(self.documents)]]

    def settings(self, limit: int, most: int, skip: int) -> None:
        previous, fingerprints = self.world.settings.get("lines", {"skip": 0}), self.world.fingerprints()
        sizes = {"most": most}
        self.world.settings = {
            "entities": {"limit": limit}, "shelves": sizes, "communities": sizes, "lines": {"skip": skip},
        }  # fmt: skip
        if fingerprints and previous != {"skip": skip}:
            self.world.build(self.documents)
            unchanged = fingerprints.items() & self.world.fingerprints().items()
            check_law(not unchanged, "a table's fingerprint holds all that it is made from", unchanged)

    def version(self, _: int) -> None:
        self.versions += 1
        self.world.code = str(self.versions)

    def shuffle(self, turn: int) -> None:
        self.documents = dict(sorted(self.documents.items(), key=lambda item: (ord(item[0]) * 7 + turn * 3) % 5))

    def kill(self, calls: int) -> None:
        before = self.world.tables()
        self.world.calls_left = calls
        try:
            self.world.build({**self.documents, "late": "Ada met Hal\nFlo paid Bo\nnobody saw Cy"})
        except BuildKilled:
            check_law(self.world.tables() == before, "a killed build leaves the index as it was")
        self.world.calls_left = 10**9


def run_history(history: Sequence[Event], folder: Path, twin: RebuildProcess) -> None:
    """Build after every event of the history.

    Raises Broken if a law does not hold.
    """
    life = IndexHistory(World(folder, pool=thread_pool(4)))
    life.world.build({})
    for event in history:
        life.world.salt = ""
        getattr(life, "break_" if event[0] == "break" else event[0])(*event[1:])
        _build_and_check(life.world, life.documents)
    life.world.salt = ""
    life.world.build(life.documents)
    _check_final_state(life.world, life.documents, twin, f"{life.versions + 1}")
    life.world.close()


def _build_and_check(world: World, documents: dict[str, str]) -> None:
    world.build(documents)
    if world.salt:
        return
    tables, calls = world.tables(), world.calls()
    check_law(not tables["failed"], "what failed is tried again", tables["failed"])
    world.build(documents)
    check_law(world.calls() == calls, "building again asks nothing")
    now = world.tables()
    check_law(now == tables, "building again changes nothing", _difference(tables, now))


def _check_final_state(world: World, documents: dict[str, str], twin: RebuildProcess, version: str) -> None:
    tables, calls = world.tables(), world.calls()
    paid_twice = [prompt for prompt, times in world.chat.prompt_counts.items() if times > 1]
    check_law(not paid_twice, "nothing is paid twice", paid_twice)
    turned = dict(reversed(documents.items()))
    fresh = twin.fresh(turned, world.settings)
    ours = {name: _without_stateful(name, rows) for name, rows in tables.items() if name not in STATEFUL}
    theirs = {name: _without_stateful(name, rows) for name, rows in fresh.items() if name not in STATEFUL}
    check_law(ours == theirs, "an index equals a fresh build of its documents", _difference(theirs, ours))
    world.code = version
    world.build(documents)
    check_law(world.calls() == calls, "rebuilding under a new version asks nothing")
    now = world.tables()
    check_law(now == tables, "rebuilding under a new version changes nothing", _difference(tables, now))


def _without_stateful(name: str, rows: list[list[Any]]) -> list[list[Any]]:
    return [row for row in rows if row[0] not in STATEFUL] if name == "looked" else rows


def _difference(a: Tables, b: Tables) -> object:
    """Return the rows of each side that the other lacks."""

    def lacks(name: str, x: Tables, y: Tables) -> list[list[Any]]:
        return [row for row in x[name] if row not in y[name]]

    return [(name, lacks(name, a, b), lacks(name, b, a)) for name in a if a[name] != b[name]]


def main(seeds: Sequence[int]) -> int:
    twin = RebuildProcess(dict(os.environ))
    try:
        for seed in seeds:
            with TemporaryDirectory() as folder:
                run_history(random_history(seed), Path(folder), twin)
    except Exception as error:  # noqa: BLE001  a broken engine may fail in any way
        print(f"seed {seed}: {type(error).__name__}: {error}")
        return 1
    finally:
        twin.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(range(int(sys.argv[1]), int(sys.argv[2]))))
