"""60 facts of examples/ -> how many an index keeps in its entities, relations and reports.

The facts stand in example_facts.tsv with their needles. They were read from the documents before any extraction. A fact
counts as found if all its needles occur in the text of one entity, relation or report: `|` separates alternatives, and
case, width and the commas of numbers do not count. Indexes: those of `--index`; without it examples/, built by rule.
Prints a line an index and table: facts found and their share; `--missing` lists the facts that no table has.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from csv import DictReader
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo import Kumihimo

EXAMPLES = Path(__file__).parents[1] / "examples"
FACTS = Path(__file__).with_name("example_facts.tsv")
TABLES = ("entities", "relations", "reports")


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of a document and the needles of its paraphrases.

    needles: all have to occur; of each, one of its alternatives.
    """

    id: str
    document: str
    text: str
    needles: tuple[tuple[str, ...], ...]

    def occurs_in(self, text: str) -> bool:
        """Return whether a normalised text states the fact."""
        return all(any(_occurs(needle, text) for needle in alternatives) for alternatives in self.needles)


def normalise(text: str) -> str:
    """Return the text without differences of case, width and thousands.

    >>> normalise("Ｌｉｎｅ of  1,150,000 crowns")
    'line of 1150000 crowns'
    """
    text = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)


def _occurs(needle: str, text: str) -> bool:
    """Return whether the needle occurs, a number not as part of another."""
    start = text.find(needle)
    while start >= 0:
        end = start + len(needle)
        inside = needle[0].isdigit() and re.search(r"\d[.,]?\Z", text[:start])
        if not inside and not (needle[-1].isdigit() and re.match(r"[.,]?\d", text[end:])):
            return True
        start = text.find(needle, start + 1)
    return False


def read_facts(path: Path = FACTS) -> list[Fact]:
    """Return the facts of the file."""
    with path.open(encoding="utf-8", newline="") as lines:
        return [
            Fact(row["id"], row["document"], row["fact"], _parse_needles(row["needles"]))
            for row in DictReader(lines, delimiter="\t")
        ]


def _parse_needles(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(normalise(part) for part in needle.split("|")) for needle in text.split(" & "))


def read_texts(kumi: Kumihimo) -> dict[str, list[str]]:
    """Return the normalised texts of each table, with names or titles."""
    with kumi.snapshot() as snapshot:
        return {
            name: [normalise(f"{' – '.join(getattr(row, 'names', ()))}\n{row.prompt_text}") for row in rows]
            for name in TABLES
            if snapshot.db.has(name) and (rows := list(snapshot.table(name)))
        }


def find_facts(facts: Iterable[Fact], texts: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Return the ids of the facts that each table states."""
    facts = list(facts)
    return {
        name: {fact.id for fact in facts if any(fact.occurs_in(text) for text in texts.get(name, ()))}
        for name in TABLES
    }


def print_facts(label: str, kumi: Kumihimo, *, missing: bool) -> None:
    """Print how many facts each table of the index states."""
    facts, texts = read_facts(), read_texts(kumi)
    found = find_facts(facts, texts)
    found["any of them"] = set().union(*found.values())
    print(f"{label}: facts found of {len(facts)}")
    for name, ids in found.items():
        size = f"{len(texts.get(name, ())):,} rows, {sum(map(len, texts.get(name, ()))):,} characters"
        print(f"  {name:<12} {len(ids):3} {len(ids) / len(facts):5.0%}  {size if name in TABLES else ''}".rstrip())
    for fact in facts if missing else ():
        if fact.id not in found["any of them"]:
            print(f"  missing {fact.id}: {fact.text} ({fact.document})")


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--index", type=Path, action="append", help="the folder of an index of examples/")
    parser.add_argument("--missing", action="store_true", help="list the facts that no table states")
    options = read_options(parser, argv)
    for folder in options.index or ():
        with Kumihimo.open(folder) as kumi:
            print_facts(str(folder), kumi, missing=options.missing)
    if not options.index:
        with TemporaryDirectory() as home, Kumihimo.open(Path(home, ".kumi")) as kumi:
            kumi.index(EXAMPLES, methods=("global", "local"))
            print_facts("by rule", kumi, missing=options.missing)


if __name__ == "__main__":
    run_benchmark(main)
