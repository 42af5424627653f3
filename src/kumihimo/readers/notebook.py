"""a Jupyter notebook (.ipynb) -> a page of its texts, code and printed results."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from kumihimo.core.errors import SourceError
from kumihimo.readers import markdown, tables
from kumihimo.readers.page import Page, join_with_places

MAX_OUTPUT_CHARS = 2_000  # of one result; the rest is seldom read
ESCAPE_CODE = re.compile(r"\x1b\[[0-9;]*m")


def read_notebook(data: bytes, name: str) -> Iterator[Page]:
    """Read the cells of a notebook.

    They are text, code, and what the code has printed. Raises SourceError if the file is no notebook.
    """
    value = tables.parse_json(data, name)
    if value is None:
        return
    cells = list(_list_cells(value)) if isinstance(value, dict) else []
    if not isinstance(value, dict) or not (cells or "nbformat" in value):
        raise SourceError(f"{name}: not a notebook, because it has no cells; save it again in Jupyter")
    language = _find_language(value)
    texts = ((_cell_text(cell, language), f"cell {number}") for number, cell in enumerate(cells, 1))
    text, places = join_with_places((text, ((0, place),)) for text, place in texts if text.strip())
    metadata = {"language": language} if language else {}
    yield Page(title=markdown.first_title(text), text=text, metadata=metadata, places=places)


def _list_cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the cells.

    Before version 4 they stood in worksheets.
    """
    groups = [notebook, *_dicts(notebook.get("worksheets"))]
    return (cell for group in groups for cell in _dicts(group.get("cells")))


def _find_language(notebook: dict[str, Any]) -> str:
    metadata = notebook.get("metadata")
    for part, key in (("language_info", "name"), ("kernelspec", "language")):
        value = metadata.get(part) if isinstance(metadata, dict) else None
        if isinstance(value, dict) and isinstance(value.get(key), str):
            return str(value[key]).lower()
    return ""


def _cell_text(cell: dict[str, Any], language: str) -> str:
    kind, source = cell.get("cell_type"), _join(cell.get("source", cell.get("input")))
    if kind == "heading":
        return f"{'#' * min(max(int(cell.get('level') or 1), 1), 6)} {source}"
    if kind != "code":
        return markdown.drop_markup(source) if kind == "markdown" else source
    parts = [f"```{language}\n{source}\n```"] if source.strip() else []
    outputs = (_output_text(output).strip("\n") for output in _dicts(cell.get("outputs")))
    return "\n\n".join([*parts, *(f"```\n{text}\n```" for text in outputs if text)])


def _output_text(output: dict[str, Any]) -> str:
    """Return what a cell has printed, or its plain result."""
    kind, data = output.get("output_type"), output.get("data", output)
    if kind in ("error", "pyerr"):
        text = f"{output.get('ename', '')}: {output.get('evalue', '')}"
    elif kind == "stream":
        text = _join(output.get("text"))
    else:
        text = _join(data.get("text/plain", data.get("text"))) if isinstance(data, dict) else ""
    text = ESCAPE_CODE.sub("", text)
    return text if len(text) <= MAX_OUTPUT_CHARS else f"{text[:MAX_OUTPUT_CHARS]} …"


def _join(lines: object) -> str:
    """Return a text that may be stored as a list of lines."""
    return "".join(map(str, lines)) if isinstance(lines, list) else lines if isinstance(lines, str) else ""


def _dicts(values: object) -> Iterable[dict[str, Any]]:
    return (value for value in values if isinstance(value, dict)) if isinstance(values, list) else ()
