"""An index whose every field holds HTML that would run, and the whole application over it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Event

from kumihimo import Kumihimo
from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import ChatRequest, Reply
from kumihimo.testing.fake_models import FakeChat
from tests.fixtures_index import fill, write_reports
from tests.server.running import HARBOUR

HOSTILE = """"'><img src=x onerror="window.pwned=1"><script>window.pwned=1</script>"""
HOSTILE_NAME = "<img src=x onerror=window.pwned=1>.md"
HOSTILE_FILE = f"""---
title: {json.dumps(HOSTILE)}
author: {json.dumps(HOSTILE)}
{json.dumps("<b>field</b>")}: {json.dumps(HOSTILE)}
---
The lighthouse of Thornhead went out {HOSTILE} in the storm. <script>window.pwned=1</script> Maren Oldacre lit it again.
"""
SQL = (
    ("entities", "name = ?, type = ?, forms = json_array(?, ?), types = json_array(?)", 5),
    ("relations", "names = json_array(?, ?), keywords = json_array(?)", 3),
    ("reports", "title = ?, summary = ?, reason = ?, findings = json_array(json_array(?, ?))", 5),
)


def build_site(folder: Path) -> Path:
    """The folder of an index with three honest documents and a hostile one."""
    fill(folder / "files", {**HARBOUR, HOSTILE_NAME: HOSTILE_FILE, "long.md": LONG})
    with Kumihimo.open(folder / ".kumi") as kumi:
        kumi.index(folder / "files")
        write_reports(kumi)
    return folder / ".kumi"


def poison(index: Path) -> None:
    """Put HTML into the rows that a model or a rule would write."""
    with closing(sqlite3.connect(index / "index.db")) as database, database:
        for table, columns, count in SQL:
            database.execute(f"UPDATE rows_{table} SET {columns}", [HOSTILE] * count)


LONG = "# A long log\n\n" + "\n\n".join(
    f"Day {n}: the wind blew from the west, and nothing else." for n in range(1, 900)
)


class SlowChat:
    """A model that sends half of its answer, and the rest when it may."""

    def __init__(self, name: str, text: str) -> None:
        self.text, self.may_end = text, Event()
        self.fake = FakeChat(lambda _: text, fingerprint=name)
        self.fingerprint, self.prices, self.workers, self.server = name, self.fake.prices, 4, None
        self.determined_by = self.fake.determined_by

    def __call__(self, request: ChatRequest) -> Reply:
        words = self.text.split(" ")
        for n, word in enumerate(words):
            if n == len(words) // 2:
                assert self.may_end.wait(60)
            if request.on_token:
                request.on_token(f"{word} " if n + 1 < len(words) else word)
        return Reply(self.text, usage=Usage(1, 100, 0, len(words)))
