"""a page with curl -> the same page with what a server answers. As a program: writes the pages of docs/server anew."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from tests.docs_console import DOCS
from tests.docs_transcripts import ADDRESS, served_examples

PAGES = [path for path in sorted((DOCS / "server").glob("*.md")) if "```bash\n" in path.read_text(encoding="utf-8")]
_BLOCK = re.compile(r"^```bash\n(.*?)^```\n(?:\n```(?:json|text)\n.*?^```\n)?", re.S | re.M)
_WIDTH = 110
_MAX_TEXT = 160  # characters of a text in a response; longer ones are cut
BUILD = "3f5a09c27be1"  # the id of the newest build, as the pages have it
_BUILD_ID = re.compile(r'"build":\{"id":"([0-9a-f]{12})"')
_LONG_FRACTION = re.compile(r"(\.\d{3})\d{5,}")  # the last digits depend on the number of threads
_VARYING = {  # from run to run
    r"/tmp/[^/\"]+/": "/home/you/",
    r'"[\d-]{10}T[\d:]{8}(?:Z|\+00:00)"': '"2026-11-26T08:00:00+00:00"',
    r'"seconds": [\d.e-]+': '"seconds": 0.1',
    r'"share": [\d.e-]+': '"share": 0.5',
    r'"bytes": \d+': '"bytes": 64',
}


def answered(page: str, address: str, folder: Path) -> str:
    """Every block of curl, run one after the other in a folder, with the answers below it."""
    build = BUILD

    def run(block: re.Match[str]) -> str:
        nonlocal build
        script = block[1].replace(ADDRESS, address).replace(BUILD, build)
        ran = subprocess.run(["bash", "-euc", script], cwd=folder, capture_output=True, text=True, check=True)
        build = found[1] if (found := _BUILD_ID.search(ran.stdout)) else build
        shown = _laid_out(ran.stdout.replace(address, ADDRESS).replace(build, BUILD))
        return f"```bash\n{block[1]}```\n" + (f"\n```{shown}\n```\n" if ran.stdout.strip() else "")

    return _BLOCK.sub(run, page)


def _laid_out(output: str) -> str:
    """The kind of an output, and its lines, short enough for a page."""
    try:
        text = f"json\n{_describe(json.loads(output), 0)}"
    except ValueError:
        lines = (_LONG_FRACTION.sub(r"\1", line.rstrip()) for line in output.strip().splitlines())
        text = "\n".join(["text", *(line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…" for line in lines)])
    for pattern, replacement in _VARYING.items():
        text = re.sub(pattern, replacement, text)
    return text


def _describe(value: object, indent: int) -> str:
    """A JSON value: on one line if it fits, else an item on each line."""
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        value = f"{value[:_MAX_TEXT]}…"
    if isinstance(value, float):
        value = float(f"{value:.3g}")
    line = json.dumps(value, ensure_ascii=False)
    if (len(line) + indent <= _WIDTH and len(line) < 2 * _WIDTH) or not isinstance(value, dict | list):
        return line
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        items = [f"{inner}{json.dumps(name)}: {_describe(item, indent + 2)}" for name, item in value.items()]
        brackets = "{}"
    else:
        items, brackets = [f"{inner}{_describe(item, indent + 2)}" for item in value], "[]"
    body = ",\n".join(items)
    return f"{brackets[0]}\n{body}\n{' ' * indent}{brackets[1]}"


def main() -> None:
    for path in PAGES:
        told = path.read_text(encoding="utf-8")
        with served_examples() as address:
            now = answered(told, address, DOCS.parent)
        if now != told:
            path.write_text(now, encoding="utf-8")


if __name__ == "__main__":
    main()
