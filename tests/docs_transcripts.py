"""a page with Python that talks to a server -> the same page with what it prints. As a program: writes docs/ anew."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kumihimo import Kumihimo
from tests.docs_console import DOCS, HERE
from tests.server.running import serving

PAGES = sorted((DOCS / "server").glob("*.md"))
ADDRESS = "http://127.0.0.1:8460"  # as the pages have it
_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n.*?^```\n)?", re.S | re.M)


@contextmanager
def served_examples() -> Iterator[str]:
    """The address of a server of examples/, in a folder `harbour`."""
    with TemporaryDirectory() as root:
        folder = Path(root, "harbour")
        folder.mkdir()
        (folder / "examples").symlink_to(HERE / "examples")
        with Kumihimo.open(folder / ".kumi") as kumi:
            kumi.index(folder / "examples")
            kumi.prepare_method("reports")
        with serving(folder / ".kumi") as server:
            yield server.address


def transcribed(page: str, address: str) -> str:
    """Every block of Python, run one after the other, with its output below it."""
    shared: dict[str, Any] = {"__name__": "page"}

    def run(block: re.Match[str]) -> str:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(block[1].replace(ADDRESS, address), "page", "exec", dont_inherit=True), shared)
        lines = [line.rstrip() for line in printed.getvalue().replace(address, ADDRESS).splitlines()]
        text = "\n".join(lines).strip()
        return f"```python\n{block[1]}```\n" + (f"\n```text\n{text}\n```\n" if text else "")

    return _BLOCK.sub(run, page)


def main() -> None:
    with served_examples() as address:
        for path in PAGES:
            told = path.read_text(encoding="utf-8")
            if (now := transcribed(told, address)) != told:
                path.write_text(now, encoding="utf-8")


if __name__ == "__main__":
    main()
