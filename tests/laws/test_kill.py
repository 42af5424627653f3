"""kill -9 at random operations -> the same tables; at most the calls in flight are paid twice."""

from __future__ import annotations

import random
import signal
from collections import Counter
from pathlib import Path
from threading import Event, Thread

from kumihimo.core.errors import IndexUnavailable
from tests.counters import wait_until
from tests.laws.factories_history import World
from tests.laws.killable_build import WORKERS, build_until_killed, documents
from tests.laws.killable_process import exit_code

KILLS = 20


def build(folder: Path, size: int, kill_at: int = 0) -> int:
    """Return the number of operations of a build of so many documents, or 0 where it was killed."""
    code = exit_code(build_until_killed, folder, size, kill_at)
    assert code in (0, -signal.SIGKILL)
    return 0 if code else int((folder / "operations").read_text())


def read_repeatedly(folder: Path, stop: Event, states: Counter[tuple[int, int]], errors: list[str]) -> None:
    """Read in a loop: count documents and lines, and check consistency."""
    world = World(folder)
    while not stop.is_set():
        try:
            with world.store.read_transaction() as db:
                counts = db.rows("documents").count(), db.rows("lines").count()
                entities = f"SELECT id FROM {db.relation('entities')}"
                inconsistent = db.all(f"SELECT id FROM {db.relation('relations')} WHERE source NOT IN ({entities})")
                inconsistent += db.all(f"SELECT id FROM {db.relation('mentions')} WHERE entity NOT IN ({entities})")
                errors += [f"half a build: {row}" for row in inconsistent]
                states[counts[0], counts[1]] += 1
        except IndexUnavailable:
            pass  # before the first build
        except Exception as error:  # noqa: BLE001  whatever it is, the reader has erred
            errors.append(repr(error))
        stop.wait(0.001)  # leave time for builds; there are still thousands of reads per state
    world.close()


def test_killed_twenty_times(tmp_path: Path) -> None:
    rng = random.Random(20)
    folder, count = tmp_path / "killed", 4
    folder.mkdir()
    operations = build(folder, count)
    stop, states, errors = Event(), Counter[tuple[int, int]](), list[str]()
    reader = Thread(target=read_repeatedly, args=(folder, stop, states, errors))
    reader.start()

    def finish() -> int:
        """Build to the end; return the number of operations once the reader has seen it."""
        operations = build(folder, count)
        wait_until(lambda: (count, 4 * count) in states or bool(errors))
        return operations

    killed = 0
    try:
        while killed < KILLS:
            count += 3
            if finished := build(folder, count, kill_at=rng.randrange(1, operations)):
                operations = finished  # kill the next ones earlier
                continue
            killed += 1
            if killed % 4 == 0:
                operations = finish()
        finish()
    finally:
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
    reads = sum(states.values())
    print(f"{KILLS} kills, {len(calls)} prompts, {again} paid again; {reads:,} reads saw {len(states)} states")
    assert again <= KILLS * WORKERS
    assert len(states) >= KILLS // 4
    assert not errors
    assert all(lines == 4 * documents_seen for documents_seen, lines in states)
    with world.store.read_transaction() as db:
        assert db.find_damage() == []
    world.close()
    undisturbed.close()
