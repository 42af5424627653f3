"""chunk -> the measures in it; question -> the measures that share its words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kumihimo.ext import Chunk, Context, KeywordSearch, Record, Table, declare


@dataclass(frozen=True, slots=True)
class Measure(Record):
    """A number with its unit; `text` is its sentence."""

    number: str
    unit: str


def measures(chunk: Chunk, *, units: tuple[str, ...] = ("metres", "tonnes", "hours")) -> Iterator[Measure]:
    """Yield each number with a unit in a chunk."""
    pattern = rf"(\d[\d,.]*|\w+) ({'|'.join(units)})\b"
    for sentence in re.split(r"(?<=[.!?])\s+", chunk.text):
        for number, unit in re.findall(pattern, sentence):
            yield Measure(number=number, unit=unit, text=sentence)


@declare(best_for="how long, how heavy, how far")
def measured(question: str, measures: Table[Measure], keyword_search: KeywordSearch, *, k: int = 5) -> Context:
    """Return the sentences with a measure that share words with the question."""
    return keyword_search(measures, question, k=k)
