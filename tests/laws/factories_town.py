"""events in a made-up town -> an index by a made-up model, and its rows.

As a program it does so for each line of JSON, in another process with another hash seed.
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
from kumihimo.app.opened.results import Built
from kumihimo.index import STEPS
from kumihimo.testing.fake_models import FakeChat
from kumihimo.text.repetition import drop_contained
from tests import fake_graph_reader
from tests.fixtures_index import Held, tables

MERGED_FROM = {"entities": "mentions", "relations": "ties", "claims": "assertions"}  # table -> table of its mentions
Documents = Mapping[str, str]  # name -> text
NAMES = tuple(
    "Ada Bea Cal Dov Eli Fay Gus Hal Ivo Jan Kit Liv Mo Ned Ola Pim Quin Rae Sol Tom Una Vic Wim Yan".split()  # noqa: SIM905
)
SURNAMES = {"Ada": "Ada Orrell", "Tom": "Tom Roake"}  # some days name them in full
VERBS = ("met", "saw", "paid", "wrote to", "worked with")
Settings = dict[str, dict[str, Any]]
SETTINGS: Settings = {  # small limits, so that a small index takes the same paths as a large one
    "mentions": {"claims": True, "glean_below": 1000},
    "communities": {"max_size": 4},
    "reports": {"window": 260, "refresh": 0},
    **{step: {"description_tokens": 24} for step in ("entities", "relations", "claims")},
}


def line(day: int) -> str:
    """Return a sentence on two or three people.

    Most are of one house or one street.
    """
    rng = Random(day)
    size = rng.choice((2, 2, 2, 2, 6, 6, 6, 6, 12, 12, 12, 24))
    first = rng.randrange(0, len(NAMES), size)
    one, other, *third = rng.sample(NAMES[first : first + size], min(size, 3))
    one = SURNAMES.get(one, one) if day % 2 else one
    return f"{one} {rng.choice(VERBS)} {other}{f' beside {third[0]}' if third and day % 4 == 0 else ''} on day {day}."


def sentences_of(days: Iterable[int]) -> str:
    """Return the sentences of these days."""
    return " ".join(map(line, days))


DAYS = 120
TOWN: Documents = {f"{letter}.txt": sentences_of(range(n, DAYS, 8)) for n, letter in enumerate("abcdefgh")}


REPOSITORY = Path(__file__).parents[2]


class BuildKilled(BaseException):
    """The end of a build, as if by a signal."""


@dataclass
class Town:
    """An index of changing documents, and its model."""

    folder: Path
    settings: Settings = field(default_factory=lambda: SETTINGS)
    intercept: Callable[[str], str | None] = lambda _: None  # gets each conversation first; may reply or raise

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
        self.call_counts = Counter[str]()

    def _answer(self, conversation: str) -> str:
        self.call_counts[conversation] += 1
        return self.intercept(conversation) or fake_graph_reader.answer(conversation)

    def build(self, documents: Documents, **options: Any) -> Built:
        """Write these documents and update the index."""
        self.write(documents)
        return self.kumi.index(self.home, methods=["local", "discourse"], **options)

    def write(self, documents: Documents) -> None:
        """Write these documents and delete all others."""
        for path in self.home.iterdir():
            if path.name not in documents:
                path.unlink()
        for name, text in documents.items():
            path = self.home / name
            if not path.exists() or path.read_text("utf-8") != text:
                path.write_text(text, "utf-8")
                os.utime(path, (0, len(text)))

    def all_rows(self) -> Held:
        """Return every row of every table, and the failures."""
        return tables(self.kumi)

    @property
    def reply_counts(self) -> dict[str, int]:
        """Return the number of replies for each conversation."""
        return dict(self.chat.prompt_counts)


def differences(ours: Held, theirs: Held) -> dict[str, list[Any]]:
    """Return by table the rows that only one side has."""
    both = {table: (ours.get(table, []), theirs.get(table, [])) for table in {**ours, **theirs}}
    return {
        table: [[row for row in one if row not in other] for one, other in ((a, b), (b, a))]
        for table, (a, b) in both.items()
        if a != b
    }


def check_accounted(kumi: Kumihimo) -> None:
    """Check that exactly the missing items are listed."""
    missing: dict[str, set[str]] = {step: set() for step in STEPS}
    failed = kumi.status().failed
    for step, item, _ in failed:
        missing[step].add(item)
    with kumi.snapshot() as snapshot:
        chunks = {chunk.id for chunk in snapshot.table("chunks")}
        for step in MERGED_FROM.values():
            assert missing[step] <= chunks
            assert {row.id.rpartition(".")[0] for row in snapshot.table(step)} | missing[step] == chunks
        for step, source in MERGED_FROM.items():
            texts: dict[str, set[str]] = {}
            for row in snapshot.table(source):
                texts.setdefault(getattr(row, row.GROUP), set()).add(row.text.strip())
            rows = {row.id: row for row in snapshot.table(step)}
            assert rows.keys() == texts.keys() >= missing[step]
            for id in missing[step]:  # rows that could not be merged are unchanged
                assert rows[id].text == "\n".join(drop_contained(sorted(texts[id] - {""})))
        parts = {community.id: community.children for community in snapshot.table("communities")}
        assert parts.keys() - {report.id for report in snapshot.table("reports")} == missing["reports"]
    waiting = [id for step, id, message in failed if step == "reports" and message.startswith("waits for ")]
    assert all(missing["reports"].intersection(parts[id]) for id in waiting)


class FreshProcess:
    """A second process for fresh indexes."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONHASHSEED": "4242"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.laws.factories_town"],
            cwd=REPOSITORY, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def fresh(self, documents: Documents, settings: Settings = SETTINGS) -> Held:
        """Return the tables of a new index, with documents in reverse order."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps([dict(reversed(list(documents.items()))), settings]) + "\n")
        self.process.stdin.flush()
        rows: Held = json.loads(self.process.stdout.readline())
        return rows

    def close(self) -> None:
        self.process.communicate()


def build_until_killed(folder: Path, calls: int) -> None:
    """Build and kill this process at that call; log each call before it."""

    def die(conversation: str) -> None:
        with (folder / "calls.log").open("a", encoding="utf-8") as log:
            log.write(f"{conversation!r}\n")
        if sum(town.call_counts.values()) >= calls:
            os.kill(os.getpid(), SIGKILL)

    town = Town(folder, intercept=die)
    town.build(TOWN)


def main() -> None:
    """Build for each line of input."""
    for request in sys.stdin:
        with TemporaryDirectory() as folder:
            documents, settings = json.loads(request)
            town = Town(Path(folder), settings)
            town.build(documents)
            print(json.dumps(town.all_rows()), flush=True)
            town.kumi.close()


if __name__ == "__main__":
    main()
