"""builds of the entity graph that are stopped, capped, or meet a model that fails -> in the end the same index."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import pytest

from kumihimo import Kumihimo
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.llm.budget import Caps
from tests.fixtures_index import Held, apart, tables
from tests.laws.factories_town import HERE, TOWN, Killed, Town, accounted, lacking

FIRST = dict(list(TOWN.items())[:2])
WORKERS = 8


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Held:
    """The index as nothing disturbs it."""
    town = Town(tmp_path_factory.mktemp("whole"))
    town.build(TOWN)
    held = town.held()
    town.kumi.close()
    return held


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    """Two of the documents are indexed; the others come in the test."""
    town = Town(tmp_path)
    town.build(FIRST)
    yield town
    town.kumi.close()


def finished(town: Town, whole: Held) -> None:
    """The next build, undisturbed, ends in the same index; found afresh, its communities are the same too."""
    town.instead = lambda _: None
    assert not town.build(TOWN).failed
    assert not lacking(apart(town.held()), apart(whole))
    town.build(TOWN, regroup=True)
    assert not lacking(town.held(), whole)


# -- stopped


def test_stopped_at_any_call(town: Town, whole: Held) -> None:
    before, rng = town.held(), Random(3)
    for _ in range(8):
        left = count(rng.randrange(30), -1)

        def stop(_: str, left: Iterator[int] = left) -> None:
            if next(left) <= 0:
                raise Killed

        town.instead = stop
        with pytest.raises(Killed):
            town.build(TOWN)
        assert not lacking(town.held(), before)
    finished(town, whole)
    assert set(town.asked.values()) == {1}  # what was answered is remembered, though the build is not


def test_killed_at_any_call(tmp_path: Path, whole: Held) -> None:
    calls = (9, 60, 70)
    for n in calls:
        command = [sys.executable, "-m", "tests.laws.factories_town", str(tmp_path), str(n)]
        assert subprocess.run(command, cwd=HERE, timeout=60, check=False).returncode == -9
    town = Town(tmp_path)
    finished(town, whole)
    town.kumi.close()
    begun = Counter((tmp_path / "calls.log").read_text(encoding="utf-8").splitlines())
    begun.update(map(repr, town.begun.elements()))
    assert sum(times - 1 for times in begun.values()) <= len(calls) * WORKERS  # what was in flight, at most


def test_a_reader_sees_whole_builds(town: Town, whole: Held) -> None:
    before, seen = town.held(), list[Held]()

    def look(conversation: str) -> None:
        if "You write a report" in conversation and len(seen) < 3:
            with Kumihimo(town.folder / ".kumi", town.settings) as other:
                seen.append(tables(other))

    town.instead = look
    town.build(TOWN)
    assert seen
    assert not any(lacking(held, before) for held in seen)
    assert not lacking(apart(town.held()), apart(whole))


def test_capped_in_the_middle_it_goes_on(town: Town, whole: Held) -> None:
    for cap in (3, 20, 50):
        spent = sum(town.begun.values())
        built = town.build(TOWN, caps=Caps(calls=cap))
        assert sum(town.begun.values()) - spent <= cap
        reasons = {re.split(":| for ", why)[0] for _, _, why in built.failed}
        assert reasons <= {"capped", "waits"}
        accounted(town.kumi)
    finished(town, whole)
    assert set(town.begun.values()) == {1}


# -- a model that fails


def every() -> Callable[[str], str | None]:
    """Garbage for every 7th call, an error for every 5th, silence for every 50th, which is an error in the end."""
    turn = count(1)

    def answer(conversation: str) -> str | None:
        n = next(turn)
        if n % 5 == 0:
            raise ItemFailed("it did not answer" if n % 50 == 0 else "(503)")
        any_text_will_do = "You bring several descriptions" in conversation
        return f"<html>{n}</html>" if n % 7 == 0 and not any_text_will_do else None

    return answer


def for_good(salt: str) -> Callable[[str], str | None]:
    """An error whenever some texts, some names or some reports are asked for."""

    def answer(conversation: str) -> str | None:
        first = conversation.partition("entity<|>NAME<|>TYPE")[2].rpartition("Text:\n")[2].partition("\n\n")[0]
        if int(hash_parts(salt, first or conversation), 16) % 4 == 0:
            raise ItemFailed("(503)")
        return None

    return answer


FAULTS: dict[str, Callable[[], Callable[[str], str | None]]] = {
    "now and then": every,
    "some for good": partial(for_good, "3"),
    "others for good": partial(for_good, "7"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_missing_is_listed_and_the_next_run_completes_it(town: Town, whole: Held, fault: str) -> None:
    town.instead = FAULTS[fault]()
    built = town.build(TOWN)
    assert {step for step, _, _ in built.failed} >= {"mentions", "ties", "assertions", "entities", "reports"}
    assert town.kumi.status().failed == built.failed
    accounted(town.kumi)
    answered = set(town.asked)
    town.begun.clear()
    finished(town, whole)
    assert not answered & town.begun.keys()
    assert set(town.begun.values()) == {1}


def test_it_gets_further_with_every_run(town: Town, whole: Held) -> None:
    town.instead = every()
    for _ in range(4):
        town.build(TOWN)
        accounted(town.kumi)
    assert max(town.asked.values()) == 1
    finished(town, whole)
