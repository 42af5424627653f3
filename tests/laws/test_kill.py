"""kill -9 at random moments -> the same tables; at most the calls in flight are paid twice."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from threading import Event, Thread

from kumihimo.core.errors import IndexUnavailable
from tests.laws.factories_history import World
from tests.laws.killable_build import WORKERS, documents

REPOSITORY = Path(__file__).parents[2]
KILLS = 20


def start(folder: Path, count: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.laws.killable_build", str(folder), str(count)]
    return subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.DEVNULL)


def finish(folder: Path, count: int) -> None:
    assert start(folder, count).wait(60) == 0


def read_repeatedly(folder: Path, stop: Event, states: list[tuple[int, int]], errors: list[str]) -> None:
    """Read in a loop: count documents and lines, and check consistency."""
    world = World(folder)
    while not stop.is_set():
        try:
            with world.store.read_transaction() as db:
                states.append(db.all("SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM lines)")[0])
                inconsistent = db.all("SELECT id FROM relations WHERE source NOT IN (SELECT id FROM entities)")
                inconsistent += db.all("SELECT id FROM mentions WHERE entity NOT IN (SELECT id FROM entities)")
                errors += [f"half a build: {row}" for row in inconsistent]
        except IndexUnavailable:
            pass  # before the first build
        except Exception as error:  # noqa: BLE001  whatever it is, the reader has erred
            errors.append(repr(error))
        stop.wait(0.001)  # leave time for builds; there are still thousands of reads per state
    world.close()


def test_killed_twenty_times(tmp_path: Path) -> None:
    rng = random.Random(20)
    folder, count, slowest = tmp_path / "killed", 4, 1.0
    folder.mkdir()
    finish(folder, count)
    stop, states_seen, errors = Event(), list[tuple[int, int]](), list[str]()
    reader = Thread(target=read_repeatedly, args=(folder, stop, states_seen, errors))
    reader.start()
    killed = 0
    while killed < KILLS:
        count += 3
        start_time = time.perf_counter()
        build = start(folder, count)
        try:
            build.wait(rng.uniform(0.2, slowest))
            slowest = time.perf_counter() - start_time  # it finished: kill the next ones earlier
        except subprocess.TimeoutExpired:
            build.kill()
            build.wait()
            killed += 1
            if killed % 4 == 0:
                finish(folder, count)
    finish(folder, count)
    stop.set()
    reader.join()

    undisturbed = World(tmp_path / "undisturbed")
    undisturbed.build({})
    undisturbed.build(documents(count))
    world = World(folder)
    ours, theirs = world.tables(), undisturbed.tables()
    for remembers in ("communities", "digests", "looked"):
        del ours[remembers], theirs[remembers]
    assert ours == theirs
    calls = Counter((folder / "calls.log").read_text(encoding="utf-8").splitlines())
    again = sum(times - 1 for times in calls.values())
    states = set(states_seen)
    print(
        f"{KILLS} kills, {len(calls)} prompts, {again} paid again; {len(states_seen):,} reads saw {len(states)} states"
    )
    assert again <= KILLS * WORKERS
    assert len(states) > 2
    assert not errors
    assert all(lines == 4 * documents_seen for documents_seen, lines in states)
    with world.store.read_transaction() as db:
        assert db.all("PRAGMA integrity_check") == [("ok",)]
    world.close()
    undisturbed.close()
