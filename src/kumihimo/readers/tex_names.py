"""a LaTeX name -> what becomes of it and of its arguments."""

HEADINGS = {"part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4}
HEADINGS |= {"paragraph": 5, "subparagraph": 6}
LISTS = ("itemize", "enumerate", "description", "thebibliography")

ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307",
    "c": "\u0327",
    "v": "\u030c", "H": "\u030b", "u": "\u0306", "k": "\u0328", "r": "\u030a", "b": "\u0331", "d": "\u0323",
}  # fmt: skip

CHARACTERS = {
    "&": "&", "%": "%", "$": "$", "#": "#", "_": "_", "{": "{", "}": "}", "ldots": "…", "dots": "…",
    "textellipsis": "…",
    "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "o": "ø", "O": "Ø", "l": "ł", "L": "Ł", "aa": "å", "AA": "Å",
    "i": "ı", "j": "ȷ", "S": "§", "P": "¶", "dag": "†", "ddag": "‡", "copyright": "©", "pounds": "£", "euro": "€",
    "textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^", "textbar": "|", "textless": "<",
    "textgreater": ">", "textendash": "–", "textemdash": "—", "textquoteleft": "‘", "textquoteright": "’",
    "textquotedblleft": "“", "textquotedblright": "”", "textbullet": "•", "textdegree": "°", "degree": "°",
    "TeX": "TeX", "LaTeX": "LaTeX", "LaTeXe": "LaTeX2e", "BibTeX": "BibTeX", "pm": "±", "times": "×", "-": "", "/": "",
}  # fmt: skip

SPACES = {
    " ": " ", "\n": " ", ",": " ", ";": " ", ":": " ", "!": "", "@": "", "quad": " ", "qquad": " ", "space": " ",
    "enspace": " ", "thinspace": " ", "xspace": "", "hfill": " ", "newline": " ", "linebreak": " ", "tab": " ",
}  # fmt: skip

# Whether a block has an argument, which is its text.
BLOCKS = {"par": False, "caption": True, "subcaption": True, "maketitle": False, "newpage": False, "clearpage": False}
BLOCKS |= {"bigskip": False, "medskip": False, "smallskip": False, "cleardoublepage": False, "pagebreak": False}

REFERENCES = (  # noqa: SIM905
    "ref eqref pageref autoref cref Cref nameref vref cite citep citet citeauthor citeyear citealp citealt parencite "
    "textcite autocite footcite fullcite bibitem"
).split()

_DROPPED = (  # noqa: SIM905
    "label vspace hspace input include includeonly bibliographystyle bibliography addbibresource includegraphics "
    "usepackage RequirePackage documentclass documentstyle pagestyle thispagestyle hypersetup graphicspath color "
    "pagenumbering nocite index glossary phantom hphantom vphantom theoremstyle geometry lstset selectlanguage title "
    "author date thanks usetikzlibrary pagecolor cline cmidrule hyphenation setstretch rule vskip hskip addvspace "
    "enlargethispage fontfamily fontseries fontshape linespread bibinfo subfile import"
).split()
_DROPPED_WITH_VALUE = (  # noqa: SIM905
    "newcommand renewcommand providecommand DeclareMathOperator setlength addtolength setcounter addtocounter "
    "newtheorem newcolumntype fontsize DeclareRobustCommand def let newlength newcounter rule settowidth captionsetup "
    "setlist titleformat titlespacing"
).split()
_SHOWN_WITH_VALUE = (  # noqa: SIM905
    "href hypertarget hyperlink textcolor colorbox multicolumn rotatebox scalebox raisebox parbox resizebox"
).split()

# What becomes of the arguments of a command; one that is not here keeps all of them.
ROLES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_DROPPED, ("drop",)),
    **dict.fromkeys(_DROPPED_WITH_VALUE, ("drop", "drop")),
    **dict.fromkeys(["newenvironment", "renewenvironment", "definecolor", "addcontentsline"], ("drop", "drop", "drop")),
    **dict.fromkeys(_SHOWN_WITH_VALUE, ("drop", "keep")),
    "multicolumn": ("drop", "drop", "keep"),
    "multirow": ("drop", "drop", "keep"),
    "resizebox": ("drop", "drop", "keep"),
    "footnote": ("around: ( _ )",),
    "footnotetext": ("around: ( _ )",),
    "marginpar": ("around: ( _ )",),
    "ruby": ("keep", "around:（ _ ）"),
    "url": ("keep",),
    **dict.fromkeys(REFERENCES, ("around:[ _ ]",)),
    **{name: (f"heading:{'#' * level} ",) for name, level in HEADINGS.items()},
}

_PLAIN_ENVIRONMENTS = (  # noqa: SIM905
    "figure table center flushleft flushright itemize enumerate description subfigure titlepage"
).split()

ENVIRONMENT_ARGUMENTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ["tabular", "array", "longtable", "minipage", "multicols", "thebibliography", "wrapfigure", "CJK", "spacing"],
        ("drop",),
    ),
    **dict.fromkeys(["tabularx", "tabulary", "wraptable", "adjustwidth"], ("drop", "drop")),
    **dict.fromkeys(_PLAIN_ENVIRONMENTS, ()),
    **dict.fromkeys(["tikzpicture", "scope", "pgfpicture"], ()),
}

MATH = {"equation", "align", "gather", "multline", "eqnarray", "displaymath", "math", "alignat", "flalign", "dmath"}
MATH |= {"subequations"}
RAW = {"verbatim", "Verbatim", "lstlisting", "minted", "alltt", "filecontents", "tikzpicture", "pgfpicture"}
