"""stopped, capped or failing graph builds -> the same index in the end."""

from __future__ import annotations

import re
import signal
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
from tests.fenced_texts import fenced_text
from tests.fixtures_index import Held, apart, tables
from tests.laws.factories_town import TOWN, BuildKilled, Town, build_until_killed, check_accounted, differences
from tests.laws.killable_process import exit_code

FIRST = dict(list(TOWN.items())[:2])
WORKERS = 8


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Held:
    """Return the rows of an undisturbed index."""
    town = Town(tmp_path_factory.mktemp("whole"))
    town.build(TOWN)
    rows = town.all_rows()
    town.kumi.close()
    return rows


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    """Return an index of two documents; the tests add the others."""
    town = Town(tmp_path)
    town.build(FIRST)
    yield town
    town.kumi.close()


def check_finished(town: Town, complete: Held) -> None:
    """Check that the next build ends in the same index.

    After reclustering, its communities are equal too.
    """
    town.intercept = lambda _: None
    assert not town.build(TOWN).failed
    assert not differences(apart(town.all_rows()), apart(complete))
    town.build(TOWN, recluster=True)
    assert not differences(town.all_rows(), complete)


# -- stopped builds


def test_stopped_at_any_call(town: Town, complete: Held) -> None:
    before, rng = town.all_rows(), Random(3)
    for _ in range(8):
        remaining = count(rng.randrange(30), -1)

        def stop(_: str, remaining: Iterator[int] = remaining) -> None:
            if next(remaining) <= 0:
                raise BuildKilled

        town.intercept = stop
        with pytest.raises(BuildKilled):
            town.build(TOWN)
        assert not differences(town.all_rows(), before)
    check_finished(town, complete)
    assert set(town.reply_counts.values()) == {1}  # replies are cached although the build was lost


def test_killed_at_any_call(tmp_path: Path, complete: Held) -> None:
    calls = (9, 60, 70)
    for n in calls:
        assert exit_code(build_until_killed, tmp_path, n) == -signal.SIGKILL
    town = Town(tmp_path)
    check_finished(town, complete)
    town.kumi.close()
    calls_begun = Counter((tmp_path / "calls.log").read_text(encoding="utf-8").splitlines())
    calls_begun.update(map(repr, town.call_counts.elements()))
    assert sum(times - 1 for times in calls_begun.values()) <= len(calls) * WORKERS  # at most the calls in flight


def test_a_reader_sees_whole_builds(town: Town, complete: Held) -> None:
    before, states = town.all_rows(), list[Held]()

    def look(conversation: str) -> None:
        if "You write a report" in conversation and len(states) < 3:
            with Kumihimo(town.folder / ".kumi", town.settings) as other:
                states.append(tables(other))

    town.intercept = look
    town.build(TOWN)
    assert states
    assert not any(differences(state, before) for state in states)
    assert not differences(apart(town.all_rows()), apart(complete))


def test_capped_in_the_middle_it_goes_on(town: Town, complete: Held) -> None:
    for cap in (3, 20, 50):
        spent = sum(town.call_counts.values())
        built = town.build(TOWN, caps=Caps(calls=cap))
        assert sum(town.call_counts.values()) - spent <= cap
        reasons = {re.split(":| for ", why)[0] for _, _, why in built.failed}
        assert reasons <= {"capped", "waits"}
        check_accounted(town.kumi)
    check_finished(town, complete)
    assert set(town.call_counts.values()) == {1}


# -- failing models


def fail_sometimes() -> Callable[[str], str | None]:
    """Return a model with garbage every 7th call, an error every 5th.

    Every 50th call gives silence, which ends in an error.
    """
    turn = count(1)

    def answer(conversation: str) -> str | None:
        n = next(turn)
        if n % 5 == 0:
            raise ItemFailed("it did not answer" if n % 50 == 0 else "(503)")
        any_text_will_do = "You bring several descriptions" in conversation
        return f"<html>{n}</html>" if n % 7 == 0 and not any_text_will_do else None

    return answer


def fail_always(salt: str) -> Callable[[str], str | None]:
    """Return a model that always fails for some texts, names or reports."""

    def answer(conversation: str) -> str | None:
        first = fenced_text(conversation, "text")
        if int(hash_parts(salt, first or conversation), 16) % 4 == 0:
            raise ItemFailed("(503)")
        return None

    return answer


FAULTS: dict[str, Callable[[], Callable[[str], str | None]]] = {
    "now and then": fail_sometimes,
    "some for good": partial(fail_always, "3"),
    "others for good": partial(fail_always, "7"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_missing_is_listed_and_the_next_run_completes_it(town: Town, complete: Held, fault: str) -> None:
    town.intercept = FAULTS[fault]()
    built = town.build(TOWN)
    assert {step for step, _, _ in built.failed} >= {"mentions", "ties", "assertions", "entities", "reports"}
    assert town.kumi.status().failed == built.failed
    check_accounted(town.kumi)
    answered = set(town.reply_counts)
    town.call_counts.clear()
    check_finished(town, complete)
    assert not answered & town.call_counts.keys()
    assert set(town.call_counts.values()) == {1}


def test_it_gets_further_with_every_run(town: Town, complete: Held) -> None:
    town.intercept = fail_sometimes()
    for _ in range(4):
        town.build(TOWN)
        check_accounted(town.kumi)
    assert max(town.reply_counts.values()) == 1
    check_finished(town, complete)
