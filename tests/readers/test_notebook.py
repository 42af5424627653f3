"""A notebook becomes its texts, its code and what that has printed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kumihimo.core.errors import SourceError
from kumihimo.readers.notebook import MAX_OUTPUT_CHARS, read_notebook
from kumihimo.readers.page import Page


def read(value: Any) -> Page:
    (page,) = read_notebook(json.dumps(value).encode(), "a.ipynb")
    return page


def notebook(*cells: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"nbformat": 4, "metadata": metadata, "cells": list(cells)}


def code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "outputs": list(outputs)}


def test_cells_are_places() -> None:
    text = {"cell_type": "markdown", "source": ["# Tide\n", "High ![map](data:image/png;base64,AAAA) water."]}
    page = read(notebook(text, code(""), code("print(1)"), kernelspec={"language": "Python"}))
    assert page.text == "# Tide\nHigh map water.\n\n```python\nprint(1)\n```"
    assert page.places == ((0, "cell 1"), (24, "cell 3"))
    assert (page.title, page.metadata) == ("Tide", {"language": "python"})


def test_results_are_what_a_person_reads() -> None:
    page = read(
        notebook(
            code(
                "x",
                {"output_type": "stream", "text": ["1\n", "2\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "3", "text/html": "<b>3</b>"}},
                {"output_type": "display_data", "data": {"image/png": "AAAA"}},
                {"output_type": "error", "ename": "ValueError", "evalue": "\x1b[31mno\x1b[0m", "traceback": ["…"]},
                {"output_type": "stream", "text": "y" * 9_999},
            )
        )
    )
    blocks = page.text.split("\n\n")
    assert blocks[:4] == ["```\nx\n```", "```\n1\n2\n```", "```\n3\n```", "```\nValueError: no\n```"]
    assert blocks[4] == f"```\n{'y' * MAX_OUTPUT_CHARS} …\n```"


def test_notebooks_before_version_4() -> None:
    cells = [{"cell_type": "heading", "level": 2, "source": "Boats"}, {"cell_type": "code", "input": ["go()"]}]
    assert read({"nbformat": 3, "worksheets": [{"cells": cells}]}).text == "## Boats\n\n```\ngo()\n```"


@pytest.mark.parametrize("value", [[], 1, {"text": "no notebook"}, "x", {"cells": "x"}])
def test_other_json_is_refused(value: Any) -> None:
    with pytest.raises(SourceError, match=r"^a\.ipynb: not a notebook"):
        read(value)


ODD = [{}, {"source": 5}, {"cell_type": "code", "outputs": [1, {"data": 3}]}, {"cell_type": "heading", "level": None}]


@pytest.mark.parametrize("cell", ODD)
def test_odd_cells_are_no_failure(cell: dict[str, Any]) -> None:
    assert read(notebook(cell, code("x"))).text.endswith("x\n```")


def test_broken_json_is_refused_with_a_remedy() -> None:
    with pytest.raises(SourceError, match=r"^a\.ipynb"):
        list(read_notebook(b'{"cells": [', "a.ipynb"))


def test_marks_without_an_end_take_little_time() -> None:
    text = {"cell_type": "markdown", "source": "![](data:" * 100_000}
    assert len(read(notebook(text)).text) == 900_000
