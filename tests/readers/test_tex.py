r"""A LaTeX file becomes its words, with its headings as sections."""

from __future__ import annotations

import pytest

from kumihimo.readers.page import Page
from kumihimo.readers.tex import read_tex

ARTICLE = r"""\documentclass[11pt]{article} % a comment
\usepackage[utf8]{inputenc}
\title{The Tide \emph{Book}}
\author{Sabine Orrell\thanks{Works Office} \and Ayu}
\newcommand{\sea}[1]{the #1 sea}
\begin{document}
\maketitle
\begin{abstract}
We measure the tide.
\end{abstract}
\section{High water}\label{sec:high}
At noon.
\subsection*{潮}
夜に。
\end{document}
after
"""


def read(text: str) -> Page:
    (page,) = read_tex(text.encode(), "a.tex")
    return page


def test_headings_are_sections_and_the_preamble_is_metadata() -> None:
    page = read(ARTICLE)
    assert page.text == "# The Tide Book\n\nWe measure the tide.\n\n## High water\n\nAt noon.\n\n### 潮\n\n夜に。"
    assert (page.title, page.metadata) == ("The Tide Book", {"author": "Sabine Orrell, Ayu"})
    assert [label for _, label in page.places] == ["§ The Tide Book", "§ High water", "§ 潮"]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"The \textbf{sea} {\it rises} by 50\,\% % hidden", "The sea rises by 50 %"),
        ("by half\n  % hidden\n  of it, 100\\% sure", "by half of it, 100% sure"),
        (r"noon---see \cite[p.~3]{orrell}, Section~\ref{sec:low}", "noon—see [orrell], Section [sec:low]"),
        (r"Jos\'e, Fran\c{c}ois, G\"{o}del, na\"\i ve", "José, François, Gödel, naïve"),
        (r"\LaTeX{} and stra\ss e", "LaTeX and straße"),
        (r"It is $h = a_1^2 + \frac{b}{2}$ m.", r"It is $h = a_1^2 + \frac{b}{2}$ m."),
        (r"costs \$5 or \(x\)", "costs $5 or $x$"),
        ("a\n\\begin{equation}\n\\label{e}\nE = mc^2\n\\end{equation}\nb", "a\n\nE = mc^2\n\nb"),
        (r"a \[ x_1 = 2 \] b", "a\n\nx_1 = 2\n\nb"),
        (r"High\footnote{By \emph{hand}.}, as said", "High (By hand.), as said"),
        (r"\href{https://e.org}{the log}, \url{https://x.org/a_b}, \verb|a{b|", "the log, https://x.org/a_b, a{b"),
        (r"``Quoted'' [in brackets] \& \textcolor{red}{red}", "“Quoted” [in brackets] & red"),
        (r"\ruby{撚}{よ}り直す", "撚（よ）り直す"),
        ("潮が\n満ちる", "潮が満ちる"),
        (r"One.\par Two.\\ Three.", "One.\n\nTwo.\nThree."),
        (
            "\\begin{itemize}\n\\item one\n goes on\n\\item[two] second\n"
            "\\begin{enumerate}\\item inner\\end{enumerate}\n\\end{itemize}",
            "- one goes on\n- two: second\n  - inner",
        ),
        (
            "\\begin{table}[ht]\\caption{Tides}\n\\begin{tabular}{l|r}\\hline day & m \\\\\n"
            "\\cline{1-2} 1 & 2.4 \\\\[2pt]\n\\end{tabular}\\end{table}",
            "Tides\n\nday | m\n1 | 2.4",
        ),
        ("\\begin{verbatim}\nif x: % kept\n    {1}\n\\end{verbatim}\nafter", "if x: % kept\n    {1}\n\nafter"),
        ("\\begin{comment}\nhidden\n\\end{comment}shown", "shown"),
        ("\\begin{theorem}[Orrell]\nWater is wet.\n\\end{theorem}", "(Orrell) Water is wet."),
        (r"\def\x#1#2{hidden}\setlength\parskip{1pt}\let\a\b\hypertarget{id}{shown}", "shown"),
        (r"\newcommand{\sea}[1]{the #1 sea}\input{/etc/passwd}The \sea{north}.", "The north."),
    ],
)  # fmt: skip
def test_commands_become_words(source: str, text: str) -> None:
    assert read(source).text == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("\\section{Open\n\nThe text.", "## Open\n\nThe text."),
        ("\\label{open\n\nThe text.", "The text."),
        ("costs $5 and no more", "costs $5 and no more"),
        ("a } b ] c", "a b ] c"),
        ("\\begin{verbatim}\nno end", "no end"),
        ("\\end{itemize}text", "text"),
    ],
)
def test_what_is_not_closed_loses_no_text(source: str, text: str) -> None:
    assert read(source).text == text
