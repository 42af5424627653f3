"""Passages and questions with gold: what each method finds that needs no model, or that a made-up one can serve.

DATA/multihop: MuSiQue, HotpotQA, 2WikiMultiHopQA. DATA/japanese: JSQuAD. DATA/chinese: DRCD. Prints tables of Markdown:
the share of the gold passages among the first 5 and 20, and of the questions all of whose gold is among the first 5. Of
a ranking the passages of its chunks count, each where it comes first; "by trace" those of every row, of an entity or a
relation the first few of its chunks.

The graph is made by rule. What asks a model gets replies by rule: that measures the search, not what a model would add.
`light` takes keywords as it does without a model; `hyde` gets a passage that says the question's content words again;
`rq` its parts. Of MuSiQue these are the sub-questions that the data give, `#1` as the first of them in brackets; of
2WikiMultiHopQA the relations that the data give of what the question names; of the others the question without words
that are common, and its parts at commas and *and*. With `depth` 2 a passage that was found gives more: its answer
takes the place of `#1`, and what it names counts as named. No model does as well as parts that came with the data.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.meter import least, measured
from benchmarks.options import bench_parser, read_options
from benchmarks.passages import SETS, questions
from kumihimo import Kumihimo
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.context import Context
from kumihimo.core.lineage import trace_sources
from kumihimo.index import RECORD_TYPES, STEPS
from kumihimo.llm.protocols import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.methods import METHODS
from kumihimo.testing.fake_models import FakeChat
from kumihimo.text.tokens import content_tokens

Settings = dict[str, Any]
Row = dict[str, Any]
SKIPPED = ("mapreduce", "drift", "meta")  # they ask a model for minutes, or need one to build their tables
WAYS: dict[str, list[Settings]] = {  # those beside the defaults
    "naive": [{}, {"words": False}],
    "rq": [{"depth": 1}, {"depth": 2}],
    "global": [{"level": 2}],
    "light": [{"mode": mode} for mode in ("hybrid", "low", "high", "mix")],
}
SCRIPTED = ("hyde", "rq")
GIVEN = {"question_decomposition", "evidence_triples"}  # parts of a question, with the answer to each
ROWS = 3  # chunks of one row that count, by trace
FLOORS = {"jsquad": 0.95, "drcd": 0.95}  # recall@5 of light


@dataclass
class Scripted(ModelRegistry):
    """A model whose replies are made of the question's row by rule, for the methods that cannot do without one."""

    rows: Mapping[str, Row] = field(default_factory=dict)  # by question
    texts: Mapping[str, str] = field(default_factory=dict)  # of passages

    def chat(self, scope: str) -> Chat | None:
        return FakeChat(self.reply, workers=1) if scope in SCRIPTED else None

    def reply(self, told: str) -> str:
        """A passage of the question's content words; or, where JSON is wanted, its rewording and its parts."""
        if "JSON schema" not in told:
            return " ".join(content_tokens(told.rpartition("Question: ")[2]))
        shown = told.rpartition("\n\n")[0]
        asked = shown.rpartition("Question: ")[2].strip()
        row = self.rows[asked]
        gold = [self.texts[id] for id in row["gold_passage_ids"]]
        said = {"rewrite": "", "decompose": parts(row, shown, gold), "disambiguate": []}
        return json.dumps(said if GIVEN & row.keys() else said | split(asked))


def parts(row: Row, shown: str, gold: list[str]) -> list[str]:
    """The parts that the data give of a question, as far as they can be known by what was shown.

    >>> steps = [{"question": "Who built it?", "answer": "Roake"}, {"question": "When was #1 born?", "answer": "1861"}]
    >>> row = {"question_decomposition": steps}
    >>> parts(row, "When was its builder born?", ["Roake built it."])
    ['Who built it?', 'When was (Who built it) born?']
    >>> parts(row, "Roake built it. When was its builder born?", ["Roake built it."])
    ['Who built it?', 'When was Roake born?']
    """
    said: list[str] = []
    known: list[str] = []
    for part in row.get("question_decomposition", ()):
        said.append(re.sub(r"#(\d+)", lambda found: known[int(found[1]) - 1], part["question"]))
        read = any(part["answer"] in text and text in shown for text in gold)
        known.append(part["answer"] if read else f"({said[-1].rstrip('?. ')})")
    named = [triple for triple in row.get("evidence_triples", ()) if triple[0].casefold() in shown.casefold()]
    return said + [f"{relation} of {subject}" for subject, relation, _ in named]


def split(question: str) -> dict[str, Any]:
    found = [part for part in re.split(r",|、|，|\band\b", question) if len(content_tokens(part)) > 1]
    return {"rewrite": " ".join(content_tokens(question)), "decompose": found if len(found) > 1 else []}


def ways() -> Iterator[tuple[str, Settings]]:
    for method in METHODS:
        if method not in SKIPPED:
            for settings in WAYS.get(method, [{}]):
                yield method, settings


def passages(reading: Snapshot, context: Context, named: Mapping[str, str], *, traced: bool) -> list[str]:
    """The passages of a context's chunks, in order of first appearance; traced: of every row. named: by document."""
    found: dict[str, None] = {}
    for item in context:
        if item.table == "chunks":
            found[named[item.record.id.partition(".")[0]]] = None
        elif traced:
            rows = [item.reference] if item.table in RECORD_TYPES else item.record.parents()
            chunks = (id for row in rows for _, id in trace_sources(STEPS, reading.table, row))
            found |= dict.fromkeys(named[id.partition(".")[0]] for id in islice(chunks, ROWS))
    return list(found)


def shares(found: list[str], gold: set[str]) -> tuple[float, float, float]:
    """
    >>> shares(["a", "x", "y", "z", "w", "b"], {"a", "b"})
    (0.5, 1.0, 0.0)
    """
    five, twenty = len(gold & set(found[:5])) / len(gold), len(gold & set(found[:20])) / len(gold)
    return five, twenty, float(five == 1)


def measure(kumi: Kumihimo, path: Path, method: str, settings: Settings) -> list[float]:
    """Recall@5, recall@20 and all gold @5 by chunks, recall@5 by trace; CPU milliseconds of a question."""
    rows: list[tuple[float, ...]] = []
    with kumi.snapshot() as reading:
        named = {document.id: document.uri.partition("#")[2] for document in reading.table("documents")}
        for row in questions(path):
            began = time.process_time()
            context = reading.retrieve(row["question"], method, **settings)
            spent = 1000 * (time.process_time() - began)
            gold = set(row["gold_passage_ids"])
            chunks, every = (shares(passages(reading, context, named, traced=traced), gold) for traced in (False, True))
            rows.append((*chunks, every[0], spent))
    return [mean(column) for column in zip(*rows, strict=True)]


def table(data: Path, name: str) -> None:
    corpus, asked = data / f"{SETS[name]}_corpus.jsonl", data / f"{SETS[name]}_questions.jsonl"
    methods = list(dict.fromkeys(method for method, _ in ways()))
    with TemporaryDirectory() as folder, Kumihimo.open(Path(folder, ".kumi")) as kumi:
        with measured() as cost:
            built = kumi.index(corpus, methods=methods)
        told = ", ".join(f"{built.rows.get(kind, 0):,} {kind}" for kind in ("chunks", "entities", "relations"))
        print(f"\n{name}: {told}; {cost.cpu:.1f} CPU s\n")
        print("| method | recall@5 | recall@20 | all @5 | by trace: recall@5 | CPU ms |\n|---|---|---|---|---|---|")
        rows = {row["question"].strip(): row for row in questions(asked)}
        texts = {row["id"]: row["text"] for row in questions(corpus)}
        kumi.models = Scripted(kumi.models.settings, kumi.models.cache, rows=rows, texts=texts)
        for method, settings in ways():
            found = measure(kumi, asked, method, settings)
            said = "".join(f", `{key}={str(value).lower()}`" for key, value in settings.items())
            said += ", scripted" if method in SCRIPTED else ""
            print(f"| `{method}`{said} | {' | '.join(f'{x:.3f}' for x in found[:4])} | {found[4]:.1f} |", flush=True)
            if method == "light" and settings.get("mode") in ("hybrid", "mix") and name in FLOORS:
                least(f"{name}, recall@5 of light", found[0], FLOORS[name])


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    given = read_options(parser, argv)
    for name in given.sets.split(","):
        table(given.data, name)


if __name__ == "__main__":
    main()
