"""An index of four notes, for retrievers of other frameworks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kumihimo import Kumihimo
from tests.fixtures_index import fill

FIELDS = "---\nauthor: Sabine Orrell\nplace: Orsay\nyear: 1983\ntags: [bronze, gates]\n---\n"
NOTES = {
    "gates.md": "# The tide gates\n\nMaren Oldacre drew the tide gates in 1983.",
    "frame.md": FIELDS + "# The frame\n\nJoss Kerrow built the frame of the tide gates from bronze.",
    "ferry.md": "# The ferry\n\nThe ferry waits at the tide gates until nine.",
    "net.md": "# The net\n\nThe net was mended near the gates.",
}
FRAME = ("Sabine Orrell", "line 7", "Orsay")  # fields of its document, and its place


@pytest.fixture(scope="session")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kumihimo]:
    folder = tmp_path_factory.mktemp("harbour")
    fill(folder / "files", NOTES)
    with Kumihimo.open(folder / ".kumi") as kumi:
        kumi.index(folder / "files")
        yield kumi
