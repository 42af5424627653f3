"""names and documents to read -> calls and rows of later steps: rates for steps without earlier calls.

Each rate is a range that holds the figures of five builds: 14 news articles read by careful readers in the role of a
mid-size model (35 chunks: 374 entities, 87 reports), the examples and a made-up town by `tests/fake_graph_reader.py`,
and podcasts by `benchmarks/instant.py`. `python -m benchmarks.plans` prints the figures of the last three again. A
sample and past calls replace them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Range = tuple[float, float]  # minimum, maximum

_DESCRIPTION_TOKENS = 60  # of one mention: 20 to 60 in the five builds
_AGAIN = 3  # merges of a name that has many descriptions already, relative to those of a first build
FEW_PER_CHUNK = 10  # names of a chunk, where no rules look for names


class Rate(NamedTuple):
    """The calls of a step whose input other model steps make.

    unit: the rows that they are counted by. prompt, reply: tokens of a call. spread: of the calls, relative to a sample
    or past calls in proportion to the calls before this step; None: they are no measure.
    """

    unit: str
    calls: Range
    prompt: Range
    reply: Range
    spread: Range | None = (0.3, 3.0)


class RowRate(NamedTuple):
    """The new or changed rows of a table, and the tokens of one."""

    unit: str
    rows: Range
    tokens: Range


# Comments: the figures of the news, the examples, the town (8 and 16 chunks) and the podcasts, where they exist.
LATER_STEPS: Mapping[str, Rate] = {
    # 0, .14 and .2 of the occurrences of names with many descriptions; a longer text makes more of them, so that past
    # calls are no measure
    "entities": Rate("repeated names", (0, 0.3), (150, 1800), (10, 500), None),
    "relations": Rate("repeated names", (0, 0.2), (150, 1800), (10, 500), None),
    "claims": Rate("claims", (0, 0.2), (150, 1800), (10, 500), None),
    # .23, .23, .18, .14, .25 to .36 of the entities where each community has one; small communities have one by rule
    "reports": Rate("communities", (0, 0.4), (600, 4500), (150, 1400), (0.2, 1.5)),
    # 1.4 and 2 of a document; twelve questions of one document under each of its values at most
    "summaries": Rate("documents", (0, 12), (300, 3000), (30, 900)),
}
FIRST_REPLIES: Mapping[str, Range] = {  # tokens of a reply
    "mentions": (150, 2500),  # 395, 961, 1,540 and 2,280: up to 21 records
    "metadata": (30, 1300),  # 440 and 616; a part without anything: 33
    "frames": (15, 1000),  # 21 to 33 for one passage, up to 25 of them in one chunk
    "links": (40, 700),  # 86 to 183 for 8 pairs, up to 25 of them in one chunk
}
TABLES: Mapping[str, RowRate] = {
    # 1.3 to 1.6 entities for a name that the rules find once or more; the model leaves out many, and finds concepts
    "entities": RowRate("names", (0.3, 3), (20, 220)),
    "relations": RowRate("names", (0.2, 12), (15, 180)),
    "reports": RowRate("communities", (0.02, 0.5), (80, 1600)),
    "claims": RowRate("claims", (0, 10), (20, 200)),
    "questions": RowRate("documents", (1, 30), (10, 90)),  # 8 and 9 of a document
    "summaries": RowRate("documents", (0, 20), (60, 700)),  # 9.7 of a document
    "metadata": RowRate("documents", (1, 20), (2, 60)),
}
# The steps of plug-ins: the calls and rows for each call before them.
PLUGIN_STEP = Rate("calls", (0, 2), (100, 3000), (16, 600), (0.5, 1.25))
PLUGIN_TABLE = RowRate("calls", (0, 2), (10, 400))
SECONDS_OF_CALL: Range = (0.5, 3.0)  # until the reply begins
TOKENS_PER_SECOND: Range = (15, 150)  # of a reply


@dataclass(frozen=True, slots=True)
class ReadingSizes:
    """Sizes of the work that a dry run leaves, for the rates of later steps.

    items: the keys that each step would ask about. rows: of the tables that stay. names: different names in
    the chunks to read, found by rule. repeated: occurrences there of names with too many descriptions for one text.
    """

    items: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    names: int = 0
    repeated: int = 0
    claims: bool = False

    def unit(self, name: str) -> Range:
        """Return how many rows the calls will add or change."""
        entities = (TABLES["entities"].rows[0] * self.names, TABLES["entities"].rows[1] * self.names)
        if name == "communities":
            old = self.rows.get("reports", 0)  # those near the new names may be written again
            return (0 if old else entities[0], entities[1] + min(old / LATER_STEPS["reports"].calls[1], entities[1]))
        counts: dict[str, float] = {
            "names": self.names,
            "repeated names": self.repeated * (_AGAIN if self.rows.get("entities") else 1),
            "claims": self.items.get("mentions", 0) if self.claims else 0,
            "documents": self.items.get("metadata", 0),
            "chunks": max(self.items.get("frames", 0), self.items.get("links", 0)),
        }
        return (counts[name], counts[name])


def count_names(chunk_names: Iterable[tuple[str, Iterable[str]]], asked: set[str], limit: int) -> tuple[int, int]:
    """Return the number of names, and of occurrences of frequent ones.

    Only those in the asked chunks count. chunk_names: the id and the names of each chunk. limit: tokens of a
    description that is not merged.

    >>> count_names([("1", ["Ada", "Bo", "Ada"]), ("2", ["Ada"])], {"2"}, limit=100)
    (1, 1)
    """
    here, everywhere = Counter[str](), Counter[str]()
    for chunk, names in chunk_names:
        everywhere.update(names := list(names))
        if chunk in asked:
            here.update(names)
    repeated = sum(count for name, count in here.items() if everywhere[name] * _DESCRIPTION_TOKENS > limit)
    return len(here), repeated
