"""reStructuredText becomes its words, with its headings as sections."""

from __future__ import annotations

from textwrap import dedent

import pytest

from kumihimo.readers.page import Page
from kumihimo.readers.rst import read_rst


def read(text: str) -> Page:
    (page,) = read_rst(dedent(text).lstrip("\n").encode(), "a.rst")
    return page


def test_headings_are_sections_with_levels_in_their_order() -> None:
    page = read("""
        =====
        Tides
        =====

        High water
        ----------
        At noon.

        潮が満ちる
        ~~~~~~~~~~
        夜に。

        Low water
        ---------
        At six.
        """)
    assert page.text == "# Tides\n\n## High water\n\nAt noon.\n\n### 潮が満ちる\n\n夜に。\n\n## Low water\n\nAt six."
    assert page.title == "Tides"
    assert [label for _, label in page.places] == ["§ Tides", "§ High water", "§ 潮が満ちる", "§ Low water"]
    assert all(page.text[at:].startswith("#") for at, _ in page.places)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("The **sea** *rises* at ``nine_o``.", "The sea rises at nine_o."),
        ("See `the log <log.html>`_ and Python_, :doc:`a guide <guide>`.", "See the log and Python, a guide."),
        (":class:`~pathlib.Path` and :func:`!open`", "Path and open"),
        (r"2\*3 and *re*\ ``s`` and snake_case and __init__", "2*3 and res and snake_case and __init__"),
        ("One line\nand the next.", "One line and the next."),
        ("名前は\nまだ無い。", "名前はまだ無い。"),
        (".. |boat| replace:: the *Maru*\n\n|boat| leaves.", "the Maru leaves."),
        ("A note [1]_.\n\n.. [1] Its text\n   goes on.", "A note [1].\n\n[1] Its text goes on."),
        (".. hidden\n   comment\n\n.. _target: https://example.org\n\nShown.", "Shown."),
        (".. image:: a.png\n   \n\n.. include:: /etc/passwd\n\n.. raw:: html\n\n   <b>x</b>\n\nShown.", "Shown."),
        (".. note:: Mind\n   the step.\n\n   It is wet.", "Mind\nthe step.\n\nIt is wet."),
        (".. versionadded:: 1.2\n   The log.", "versionadded 1.2 The log."),
        (".. code-block:: python\n   :linenos:\n\n   if tide:\n       rise()\n\nAfter.",
         "if tide:\n    rise()\n\nAfter."),
        ("The log::\n\n  wind **SW**\n    fair\n\nAfter.", "The log:\n\nwind **SW**\n  fair\n\nAfter."),
        ("- one\n  goes on\n- two\n\n  * inner\n\n1. first\n#. second",
         "- one goes on\n- two\n\n  - inner\n\n1. first\n- second"),
        ("term\n  its sense", "term\nits sense"),
        ("| one\n| two", "one\ntwo"),
        (":param x: the tide", "param x: the tide"),
        ("above\n\n----------\n\nbelow", "above\n\nbelow"),
    ],
)  # fmt: skip
def test_marks_become_words(source: str, text: str) -> None:
    assert read(source).text == text


def test_tables_become_rows() -> None:
    simple = "===  ===\nday  m\n===  ===\n1    2.4\n     low\n===  ===\n\nAfter."
    assert read(simple).text == "day | m\n1 | 2.4 low\n\nAfter."
    grid = "+-----+-----+\n| day | m   |\n+=====+=====+\n| 1   | 2.4 |\n|     | low |\n+-----+-----+\n\nAfter."
    assert read(grid).text == "day | m\n1 | 2.4 low\n\nAfter."
    wrapped = "+------+------+\n| 潮が | de   |\n| 満ちる | pth  |\n+------+------+\n"
    assert read(wrapped).text == "潮が満ちる | de pth"
    wide = "====  ====\n日    潮\n====  ====\n一日  満潮\n====  ====\n"
    assert read(wide).text == "日 | 潮\n一日 | 満潮"
    listed = ".. list-table:: Boats\n   :header-rows: 1\n\n   * - name\n     - built\n   * - Maru\n     - 1922\n"
    assert read(listed).text == "Boats\n\nname | built\nMaru | 1922"


def test_fields_at_the_beginning_are_metadata() -> None:
    page = read("Tides\n=====\n\n:Author: Sabine Orrell\n:Date: 2024-05-09\n\nText.")
    assert page.metadata == {"author": "Sabine Orrell", "date": "2024-05-09"}
    assert page.text == "# Tides\n\nAuthor: Sabine Orrell\nDate: 2024-05-09\n\nText."


def test_a_replacement_does_not_grow_without_end() -> None:
    page = read(".. |x| replace:: " + "y" * 10_000 + "\n\n" + "|x| " * 100)
    assert len(page.text) < 100 * 210
