"""Fixtures: an index of a few notes, built once for all read-only evaluation tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kumihimo import Kumihimo
from tests.evaluate.factories_harbour import build


@pytest.fixture(scope="session")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kumihimo]:
    with build(tmp_path_factory.mktemp("harbour")) as kumi:
        yield kumi
