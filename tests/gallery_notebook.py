"""the notebook of the gallery -> the same with what its cells print. As a program: writes it anew."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from shutil import which
from typing import Any

from tests.docs_console import HERE

PICTURE = HERE / "docs" / "screens" / "gallery-notebook.png"
NOTEBOOK = HERE / "gallery" / "evaluation" / "evaluation.ipynb"


def executed(path: Path = NOTEBOOK) -> Any:
    """Return the notebook after all its cells have run, in its folder."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
    return notebook


_LONG_NUMBER = re.compile(r"\b\d+\.\d{12,}(?:e-?\d+)?\b")  # its last digits depend on the processor


def outputs(notebook: Any) -> list[str]:
    """Return what each cell of code printed or showed, as text."""
    texts = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            text = re.sub(r"seconds=[\d.e-]+", "seconds=_", text)
            texts.append(_LONG_NUMBER.sub(lambda number: f"{float(number[0]):.12g}", text))
    return texts


def draw(notebook: Any) -> None:
    """Write the picture of the notebook, as a browser shows it."""
    from playwright.sync_api import sync_playwright

    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            head, _, text = cell.source.partition("\n")
            parts.append(f"<h2>{escape(head.strip('# '))}</h2><p>{escape(text)}</p>" if head[0] == "#" else "")
            continue
        parts.append(f"<pre class=code>{escape(cell.source)}</pre>")
        for output in cell.outputs:
            data = output.get("data", {})
            text = escape(output.get("text") or data.get("text/plain", ""))
            parts.append(data.get("text/html") or f"<pre>{text}</pre>")
    style = "body{font:14px sans-serif;width:800px;margin:16px}.code{background:#f4f5f7;padding:8px;border-radius:4px}"
    table = "td,th{padding:2px 10px;text-align:right}table{border-collapse:collapse}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 840, "height": 600})
        page.set_content(f"<style>{style}{table}</style>{''.join(parts)}")
        page.screenshot(path=PICTURE, clip={"x": 0, "y": 0, "width": 840, "height": 1500}, full_page=True)
        browser.close()


def main() -> None:
    import nbformat

    nbformat.write(notebook := executed(), NOTEBOOK)  # type: ignore[no-untyped-call]
    draw(notebook)


if __name__ == "__main__":
    main()
