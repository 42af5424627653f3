"""generated histories -> the laws hold after every build."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies as st

from tests.laws.histories import LINES, Event, run_history
from tests.laws.rebuild_process import RebuildProcess

FEW = st.integers(0, 4)
EVENTS = st.one_of(
    st.tuples(
        st.sampled_from(("put", "break")), st.sampled_from("abcde"), st.lists(st.integers(0, len(LINES) - 1)), FEW
    ),
    st.tuples(st.just("settings"), st.integers(1, 2), st.integers(1, 2), st.integers(0, 1)),
    st.tuples(st.sampled_from(("append", "drop", "version", "shuffle", "kill")), FEW),
)


@pytest.fixture(scope="module")
def twin() -> Iterator[RebuildProcess]:
    twin = RebuildProcess(dict(os.environ))
    yield twin
    twin.close()


@settings(max_examples=int(os.environ.get("HISTORIES", "40")))
@given(history=st.lists(EVENTS, min_size=1, max_size=10))
def test_every_history_keeps_the_laws(twin: RebuildProcess, history: list[Event]) -> None:
    with TemporaryDirectory() as folder:
        run_history(history, Path(folder), twin)
