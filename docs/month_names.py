"""CLDR, as the package Babel has it -> the month names of large languages: python -m docs.month_names"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from unicodedata import normalize

TABLE = Path(__file__).parents[1] / "src" / "kumihimo" / "text" / "month_names.tsv"
LANGUAGES = (
    "en es fr de pt it nl ru uk pl cs sv da nb fi ro hu tr el id sw fil jv ha hi mr bn ur pa gu ta te ar he fa th"
)
Names = dict[str, int]
BESIDE_CLDR: dict[str, Callable[[Names], Names]] = {  # the prefix "in" of Hebrew, and spellings that CLDR has no more
    "he": lambda names: {f"ב{name}": month for name, month in names.items()},
    "hi": lambda names: {name.replace("\u093c", ""): month for name, month in names.items()},
}
NOTICE = (
    "# Month names of CLDR, copyright © 1991-2025 Unicode, Inc., Unicode License v3: https://www.unicode.org/license.txt"
    "\n# Made by python -m docs.month_names. A line: the form of the names, the month, its names in small letters."
)


def read_names(language: str, width: str) -> dict[str, int]:
    """Return the names of one language, in small letters, with their months."""
    from babel import Locale

    months = Locale.parse(language).months
    names: dict[str, int] = {}
    for form in ("format", "stand-alone"):
        for month, name in months[form][width].items():
            folded = normalize("NFKC", name).casefold().rstrip(".")
            if " " not in folded and not any(map(str.isdigit, folded)):
                names[folded] = month
    return names | (BESIDE_CLDR[language](names) if language in BESIDE_CLDR else {})


def main() -> None:
    """Write the table. A name that means several months, or has one letter, is left out."""
    lines = [NOTICE]
    found: dict[str, dict[str, set[int]]] = {"wide": defaultdict(set), "abbreviated": defaultdict(set)}
    for language in LANGUAGES.split():
        for width, names in found.items():
            for name, month in read_names(language, width).items():
                names[name].add(month)
    wide, short = found["wide"], found["abbreviated"]
    for width, names in found.items():
        clear = {name: months for name, months in names.items() if len(wide[name] | short[name]) == 1 and len(name) > 1}
        print("left out:", sorted(set(names) - set(clear)))
        for month in range(1, 13):
            written = sorted(name for name, months in clear.items() if months == {month})
            if width == "abbreviated":
                written = [name for name in written if not wide[name]]
            lines.append(f"{width}\t{month}\t{' '.join(written)}")
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
