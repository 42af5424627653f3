"""pages in Japanese and Chinese -> which sections of the English page have changed since: python -m docs.translations

A translated page ends with a comment that lists the sections of the English page, each with a digest of its text. Bring
the page up to date, then run the command with its path: it writes the comment again.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from kumihimo.core.digests import hash_parts

ROOT = Path(__file__).parents[1]
TRANSLATED = sorted([*ROOT.glob("README.??.md"), *(ROOT / "docs").glob("ja/*.md"), *(ROOT / "docs").glob("zh/*.md")])
_COMMENT = re.compile(r"\n<!-- Sections of the English page:\n(.*?)-->\n", re.S)


def english_page(path: Path) -> Path:
    """Return the page that a page translates."""
    return ROOT / "README.md" if path.parent == ROOT else ROOT / "docs" / path.name


def section_digests(text: str) -> list[str]:
    r"""Return a digest and the heading of each section of a page.

    >>> page = "# Salt\n\nIt is white.\n\n## Use\n\n```sh\n# no heading\n```\n"
    >>> [line.partition(" ")[2] for line in section_digests(page)]
    ['Salt', 'Use']
    """
    sections: dict[str, list[str]] = {}
    heading, in_code = "", False
    for line in text.splitlines():
        in_code ^= line.startswith("```")
        if re.match("#+ ", line) and not in_code:
            heading = line.lstrip("# ")
        sections.setdefault(heading, []).extend(line.split())
    return [f"{hash_parts(*words)[:8]} {heading}" for heading, words in sections.items()]


def changed_sections(path: Path) -> list[str]:
    """Return the sections of the English page that differ from those translated."""
    comment = _COMMENT.search(path.read_text(encoding="utf-8"))
    translated = comment[1].splitlines() if comment else []
    present = section_digests(english_page(path).read_text(encoding="utf-8"))
    return [line for line in present if line not in translated] + [line for line in translated if line not in present]


def write_digests(path: Path) -> None:
    """Note in a page which text of the English one it translates."""
    text = _COMMENT.sub("", path.read_text(encoding="utf-8")).rstrip("\n")
    lines = "\n".join(section_digests(english_page(path).read_text(encoding="utf-8")))
    path.write_text(f"{text}\n\n<!-- Sections of the English page:\n{lines}\n-->\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    for name in arguments:
        write_digests(Path(name).resolve())
    for path in TRANSLATED:
        for line in changed_sections(path):
            print(f"{path.relative_to(ROOT)}: {line}")


if __name__ == "__main__":
    main(sys.argv[1:])
