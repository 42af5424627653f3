"""long made-up inputs -> CPU seconds, and how they grow with the length.

Texts repeat a piece on which a careless regular expression backtracks, 400,000 characters in all; the growth is from
100,000, where 4 is linear. Also the circles of 10,000 entities. Needs no data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tests import factories_graphs

from benchmarks.meter import check_at_most, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo.app.browse.community_tree import CommunityTree
from kumihimo.core.records import Chunk
from kumihimo.index.extraction_parser import parse_extraction
from kumihimo.index.rules import ner
from kumihimo.page import layout_graph
from kumihimo.readers.html import read_html
from kumihimo.text.sentences import split_blocks, split_sentences
from kumihimo.text.tokens import content_tokens

PIECES = (
    *("word ", "Ab of the ", '"Aa ', "(Aa ", "1,111", "A.", "Aa Aa (AA) ", "a, "),
    *("語", "。", "「", "東京の", "ア・", " ", "- a\n", "1. Q\n", "(entity<|>\n", "<ruby><rt>", "<p>a"),
)


def split(text: str) -> None:
    list(split_blocks(text))
    list(split_sentences(text))


def find_names(text: str) -> None:
    ner.find_names(Chunk(id="d.00000", title="", start=0, end=len(text), tokens=1, text=text))


WORKS: dict[str, Callable[[str], object]] = {
    "sentences": split,
    "tokens": content_tokens,
    "names": find_names,
    "an extraction reply": parse_extraction,
    "a web page": lambda text: list(read_html(text.encode(), "a.html")),
}


def cpu_seconds(work: Callable[[], object]) -> float:
    with measured() as cost:
        work()
    return cost.cpu


def layout(size: int) -> Callable[[], object]:
    """Return the layout of a made-up graph, ready to run."""
    tables = factories_graphs.made(size, size)
    communities = tables["communities"]
    tree = CommunityTree(
        {c.id: c.level for c in communities},
        {c.id: c.parent for c in communities},
        {c.id: c.children for c in communities},
        {c.id: c.members for c in communities},
    )
    return partial(layout_graph, tree, {entity.id: i % 40 for i, entity in enumerate(tables["entities"])})


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--characters", type=int, default=400_000, help="characters of a text (default: 400,000)")
    parser.add_argument("--entities", type=int, default=10_000, help="entities of the graph (default: 10,000)")
    options = read_options(parser, argv, characters=400, entities=100)
    for name, work in WORKS.items():
        slowest = growth = 0.0
        for piece in PIECES:
            text = (piece * options.characters)[: options.characters]
            work(text[: options.characters // 4])  # loads what is loaded at first use
            few, many = (cpu_seconds(partial(work, t)) for t in (text[: len(text) // 4], text))
            slowest, growth = max(slowest, many), max(growth, many / max(few, 0.1))
        check_at_most(name, slowest, 10, " CPU s")
        check_at_most(f"{name}, growth", growth, 8)
    check_at_most("layout", cpu_seconds(layout(options.entities)), 2, " CPU s")


if __name__ == "__main__":
    run_benchmark(main)
