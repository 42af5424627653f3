"""Rows of cells -> a table of LaTeX."""

import re
from collections.abc import Iterable, Iterator, Sequence

_SPECIAL = re.compile(r"[\\~^&%$#_{}–]")
_COMMANDS = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"}


def latex_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table environment."""
    yield "\\begin{table}\n\\centering\n\\caption{" + escape_latex(caption) + "}\n"
    yield "\\begin{tabular}{l" + "r" * (len(head) - 1) + "}\n\\hline\n"
    yield _latex_row(head) + "\\hline\n"
    yield from map(_latex_row, rows)
    yield "\\hline\n\\end{tabular}\n\\end{table}\n"


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(map(escape_latex, cells)) + " \\\\\n"


def escape_latex(text: str) -> str:
    r"""Escape the special characters of LaTeX.

    >>> print(escape_latex("L_v & 5 %, a~b^c \\ 1–2"))
    L\_v \& 5 \%, a\textasciitilde{}b\textasciicircum{}c \textbackslash{} 1--2
    """
    return _SPECIAL.sub(lambda found: _COMMANDS.get(found[0], f"\\{found[0]}"), text)
