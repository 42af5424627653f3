"""what happens in a made-up town -> an index of it by a made-up model, and all that its tables hold.

Run as a program it does so for each line of JSON, in a process of its own with another hash seed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from signal import SIGKILL
from tempfile import TemporaryDirectory
from typing import Any

from kumihimo import Kumihimo
from kumihimo.app.results import Built
from kumihimo.index import STEPS
from kumihimo.testing.fake_models import FakeChat
from tests import fake_graph_reader
from tests.fixtures_index import Held, tables

MERGED = {"entities": "mentions", "relations": "ties", "claims": "assertions"}  # of what each is merged
Documents = Mapping[str, str]  # name -> text
NAMES = tuple(
    "Ada Bea Cal Dov Eli Fay Gus Hal Ivo Jan Kit Liv Mo Ned Ola Pim Quin Rae Sol Tom Una Vic Wim Yan".split()  # noqa: SIM905
)
VERBS = ("met", "saw", "paid", "wrote to", "worked with")
SETTINGS: dict[str, dict[str, Any]] = {  # so small that all that a large index does is done for a small one
    "mentions": {"claims": True},
    "communities": {"max_size": 3},
    "reports": {"window": 260},
    **{step: {"description_tokens": 24} for step in ("entities", "relations", "claims")},
}


def line(day: int) -> str:
    """A sentence on two or three people: as a rule of one house or of one street, seldom of others."""
    rng = Random(day)
    size = rng.choice((2, 2, 2, 2, 6, 6, 6, 6, 12, 12, 12, 24))
    first = rng.randrange(0, len(NAMES), size)
    one, other, *third = rng.sample(NAMES[first : first + size], min(size, 3))
    return f"{one} {rng.choice(VERBS)} {other}{f' beside {third[0]}' if third and day % 4 == 0 else ''} on day {day}."


def told(days: Iterable[int]) -> str:
    """What happened on these days."""
    return " ".join(map(line, days))


DAYS = 120
TOWN: Documents = {f"{letter}.txt": told(range(n, DAYS, 8)) for n, letter in enumerate("abcdefgh")}


HERE = Path(__file__).parents[2]


class Killed(BaseException):
    """The build ends here, as if by a signal."""


@dataclass
class Town:
    """An index of documents, which come, change and go; and the model that it is made by."""

    folder: Path
    settings: dict[str, dict[str, Any]] = field(default_factory=lambda: SETTINGS)
    instead: Callable[[str], str | None] = lambda _: None  # is told each conversation first, and may answer or raise

    def __post_init__(self) -> None:
        self.kumi = Kumihimo(self.folder / ".kumi", self.settings)
        self.models = fake_graph_reader.Readers(self.kumi.models.settings, self.kumi.models.cache)
        self.kumi.models = self.models
        chat = self.models.chat("reports")
        assert isinstance(chat, FakeChat)
        self.chat = chat
        self.chat.answer = self._answer
        self.home = self.folder / "town"
        self.home.mkdir(parents=True, exist_ok=True)
        self.begun = Counter[str]()

    def _answer(self, conversation: str) -> str:
        self.begun[conversation] += 1
        return self.instead(conversation) or fake_graph_reader.answer(conversation)

    def build(self, documents: Documents, **options: Any) -> Built:
        """Have the folder hold these documents, and bring the index up to date."""
        self.write(documents)
        return self.kumi.index(self.home, methods=["local", "discourse"], **options)

    def write(self, documents: Documents) -> None:
        """Have the folder hold these documents."""
        for path in self.home.iterdir():
            if path.name not in documents:
                path.unlink()
        for name, text in documents.items():
            path = self.home / name
            if not path.exists() or path.read_text("utf-8") != text:
                path.write_text(text, "utf-8")
                os.utime(path, (0, len(text)))

    def held(self) -> Held:
        """Every row of every table, and what failed."""
        return tables(self.kumi)

    @property
    def asked(self) -> dict[str, int]:
        """How often each conversation was answered."""
        return dict(self.chat.prompt_counts)


def lacking(ours: Held, theirs: Held) -> dict[str, list[Any]]:
    """Of each table the rows that one lacks and the other has, where there are any."""
    both = {table: (ours.get(table, []), theirs.get(table, [])) for table in {**ours, **theirs}}
    return {
        table: [[row for row in one if row not in other] for one, other in ((a, b), (b, a))]
        for table, (a, b) in both.items()
        if a != b
    }


def accounted(kumi: Kumihimo) -> None:
    """What is missing is listed, and nothing else is missing."""
    lost: dict[str, set[str]] = {step: set() for step in STEPS}
    failed = kumi.status().failed
    for step, item, _ in failed:
        lost[step].add(item)
    with kumi.snapshot() as reading:
        chunks = {chunk.id for chunk in reading.table("chunks")}
        for step in MERGED.values():
            assert lost[step] <= chunks
            assert {row.id.rpartition(".")[0] for row in reading.table(step)} | lost[step] == chunks
        for step, source in MERGED.items():
            said: dict[str, set[str]] = {}
            for row in reading.table(source):
                said.setdefault(getattr(row, row.GROUP), set()).add(row.text.strip())
            rows = {row.id: row for row in reading.table(step)}
            assert rows.keys() == said.keys() >= lost[step]
            for id in lost[step]:  # what could not be merged stands as it is
                assert rows[id].text == "\n".join(sorted(said[id] - {""}))
        parts = {community.id: community.children for community in reading.table("communities")}
        assert parts.keys() - {report.id for report in reading.table("reports")} == lost["reports"]
    waiting = [id for step, id, why in failed if step == "reports" and why.startswith("waits for ")]
    assert all(lost["reports"].intersection(parts[id]) for id in waiting)


class Twin:
    """The other process: gives the tables of a fresh index of some documents."""

    def __init__(self) -> None:
        seeded = {**os.environ, "PYTHONHASHSEED": "4242"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.laws.factories_town"],
            cwd=HERE, env=seeded, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def fresh(self, documents: Documents) -> Held:
        """Of an index that never held anything else, and was told of them in another order."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(dict(reversed(list(documents.items())))) + "\n")
        self.process.stdin.flush()
        held: Held = json.loads(self.process.stdout.readline())
        return held

    def close(self) -> None:
        self.process.communicate()


def main() -> None:
    """Answer what is asked; or, told a folder and a number, build there, and be killed at the call of that number."""
    if len(sys.argv) > 1:
        _killed(Path(sys.argv[1]), int(sys.argv[2]))
    for given in sys.stdin:
        with TemporaryDirectory() as folder:
            town = Town(Path(folder))
            town.build(dict(json.loads(given)))
            print(json.dumps(town.held()), flush=True)
            town.kumi.close()


def _killed(folder: Path, calls: int) -> None:
    def die(conversation: str) -> None:
        with (folder / "calls.log").open("a", encoding="utf-8") as log:
            log.write(f"{conversation!r}\n")
        if sum(town.begun.values()) >= calls:
            os.kill(os.getpid(), SIGKILL)

    town = Town(folder, instead=die)
    town.build(TOWN)
    sys.exit()


if __name__ == "__main__":
    main()
