"""passages, questions with gold passages -> recall of each method, without a model or with scripted replies.

Data: DATA/multihop (MuSiQue, HotpotQA, 2WikiMultiHopQA), DATA/japanese (JSQuAD), DATA/chinese (DRCD). Prints a Markdown
table for each set: the share of the gold passages among the first 5, with its 95 % interval (bootstrap over questions),
and 20; the share of questions with all gold among the first 5; the same recall@5 by trace; CPU ms of a question. A
ranking counts the passages of its chunks, each at its first place. "By trace" counts every row: an entity or a relation
counts with its first few chunks.

The graph is built by rule. Calls to a model get scripted replies: this measures the search, not the gain from a model.
`light` takes its keywords as it does without a model; `hyde` gets a passage of the question's content words; `rq` gets
the parts of the question. For MuSiQue the data hold these parts, with the first part in brackets in place of `#1`; for
2WikiMultiHopQA they hold the relations of the entities in the question; for the others the question is cut at commas
and *and*, without common words. With `depth` 2, a retrieved passage helps: its answer replaces `#1`, and its entities
count as those of the question. No model splits as well as the data do.
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

from benchmarks.meter import check_at_least, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.passages import SETS, read_rows
from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.context import Context
from kumihimo.core.lineage import trace_sources
from kumihimo.evaluate.statistics import bootstrap_interval
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.methods import METHODS
from kumihimo.testing.fake_models import FakeChat
from kumihimo.text.tokens import content_tokens

Settings = dict[str, Any]
Row = dict[str, Any]
SKIPPED = ("mapreduce", "drift", "meta", "wide")  # need a model for minutes, or to build their tables
VARIANTS: dict[str, list[Settings]] = {  # methods measured with several settings
    "naive": [{}, {"words": False}],
    "rq": [{"depth": 1}, {"depth": 2}],
    "global": [{"level": 2}],
    "light": [{"mode": mode} for mode in ("hybrid", "low", "high", "mix")],
}
SCRIPTED = ("hyde", "rq")
PART_FIELDS = {"question_decomposition", "evidence_triples"}  # fields with the parts of a question and their answers
CHUNKS_PER_ROW = 3  # by trace
FLOORS = {"jsquad": 0.95, "drcd": 0.95}  # recall@5 of light


@dataclass
class ScriptedRegistry(ModelRegistry):
    """A registry for methods that need a model: replies derive from the data of the question."""

    rows: Mapping[str, Row] = field(default_factory=dict)  # by question
    texts: Mapping[str, str] = field(default_factory=dict)  # by passage id

    def chat(self, scope: str) -> Chat | None:
        return FakeChat(self.reply, workers=1) if scope in SCRIPTED else None

    def reply(self, prompt: str) -> str:
        """Return the question's content words, or its parts as JSON."""
        if "JSON schema" not in prompt:
            return " ".join(content_tokens(_asked_question(prompt)))
        visible = prompt.rpartition("\n\n")[0]
        question = _asked_question(visible)
        row = self.rows[question]
        gold = [self.texts[id] for id in row["gold_passage_ids"]]
        parts = resolve_parts(row, visible, gold) if PART_FIELDS & row.keys() else split_question(question)
        return json.dumps({"known": "", "queries": parts})


def _asked_question(prompt: str) -> str:
    """Return the question that a prompt shows between its tags."""
    return prompt.rpartition("<question>\n")[2].partition("\n</question>")[0].strip()


def resolve_parts(row: Row, visible: str, gold: list[str]) -> list[str]:
    """Return a question's parts from the data, with visible answers filled in.

    >>> steps = [{"question": "Who built it?", "answer": "Roake"}, {"question": "When was #1 born?", "answer": "1861"}]
    >>> row = {"question_decomposition": steps}
    >>> resolve_parts(row, "When was its builder born?", ["Roake built it."])
    ['Who built it?', 'When was (Who built it) born?']
    >>> resolve_parts(row, "Roake built it. When was its builder born?", ["Roake built it."])
    ['Who built it?', 'When was Roake born?']
    """
    parts: list[str] = []
    answers: list[str] = []
    for part in row.get("question_decomposition", ()):
        parts.append(re.sub(r"#(\d+)", lambda match: answers[int(match[1]) - 1], part["question"]))
        is_visible = any(part["answer"] in text and text in visible for text in gold)
        answers.append(part["answer"] if is_visible else f"({parts[-1].rstrip('?. ')})")
    triples = [triple for triple in row.get("evidence_triples", ()) if triple[0].casefold() in visible.casefold()]
    return parts + [f"{relation} of {subject}" for subject, relation, _ in triples]


def split_question(question: str) -> list[str]:
    parts = [part for part in re.split(r",|、|，|\band\b", question) if len(content_tokens(part)) > 1]
    return [" ".join(content_tokens(question)), *(parts if len(parts) > 1 else [])]


def method_settings() -> Iterator[tuple[str, Settings]]:
    for method in METHODS:
        if method not in SKIPPED:
            for settings in VARIANTS.get(method, [{}]):
                yield method, settings


def list_passages(snapshot: Snapshot, context: Context, passage_ids: Mapping[str, str], *, traced: bool) -> list[str]:
    """Return the passages of a context by first appearance.

    traced: count every row, not chunks only. passage_ids: passage ids by document.
    """
    passages: dict[str, None] = {}
    for item in context:
        if item.table == "chunks":
            passages[passage_ids[item.record.id.partition(".")[0]]] = None
        elif traced:
            rows = [item.reference] if item.table in snapshot.record_types else item.record.parents()
            chunks = (id for row in rows for _, id in trace_sources(snapshot.catalogue.wired, snapshot.table, row))
            passages |= dict.fromkeys(passage_ids[id.partition(".")[0]] for id in islice(chunks, CHUNKS_PER_ROW))
    return list(passages)


def score_ranking(ranking: list[str], gold: set[str]) -> tuple[float, float, float]:
    """Return recall@5, recall@20 and all gold @5 (1.0 or 0.0).

    >>> score_ranking(["a", "x", "y", "z", "w", "b"], {"a", "b"})
    (0.5, 1.0, 0.0)
    """
    five, twenty = len(gold & set(ranking[:5])) / len(gold), len(gold & set(ranking[:20])) / len(gold)
    return five, twenty, float(five == 1)


def measure(kumi: Kumihimo, path: Path, method: str, settings: Settings) -> tuple[list[float], tuple[float, float]]:
    """Return the mean figures of one method, and the interval of the first.

    They are recall@5, recall@20 and all gold @5 by chunks, recall@5 by trace, CPU milliseconds of a question.
    """
    rows: list[tuple[float, ...]] = []
    with kumi.snapshot() as snapshot:
        passage_ids = {document.id: document.uri.partition("#")[2] for document in snapshot.table("documents")}
        for row in filter(lambda row: row["gold_passage_ids"], read_rows(path)):
            start = time.process_time()
            context = snapshot.retrieve(row["question"], method, **settings)
            cpu_ms = 1000 * (time.process_time() - start)
            gold = set(row["gold_passage_ids"])
            chunks, traced_scores = (
                score_ranking(list_passages(snapshot, context, passage_ids, traced=traced), gold)
                for traced in (False, True)
            )
            rows.append((*chunks, traced_scores[0], cpu_ms))
    first = [row[0] for row in rows]
    interval = bootstrap_interval(first, [str(n) for n, _ in enumerate(first)])
    return [mean(column) for column in zip(*rows, strict=True)], interval


def print_table(data: Path, name: str) -> None:
    stem = SETS.get(name, name)
    corpus, questions = data / f"{stem}_corpus.jsonl", data / f"{stem}_questions.jsonl"
    methods = list(dict.fromkeys(method for method, _ in method_settings()))
    with TemporaryDirectory() as folder, Kumihimo.open(Path(folder, ".kumi")) as kumi:
        with measured() as cost:
            built = kumi.index(corpus, methods=methods)
        counts = ", ".join(
            f"{built.rows.get(kind, 0):,} {kind}" for kind in ("documents", "chunks", "entities", "relations")
        )
        print(f"\n{name}: {counts}; {cost.cpu:.1f} CPU s\n")
        print("| method | recall@5 | recall@20 | all @5 | by trace: recall@5 | CPU ms |\n|---|---|---|---|---|---|")
        rows = {row["question"].strip(): row for row in read_rows(questions)}
        texts = {row["id"]: row["text"] for row in read_rows(corpus)}
        kumi.models = ScriptedRegistry(kumi.models.settings, kumi.models.cache, rows=rows, texts=texts)
        for method, settings in method_settings():
            figures, (low, high) = measure(kumi, questions, method, settings)
            label = "".join(f", `{key}={str(value).lower()}`" for key, value in settings.items())
            label += ", scripted" if method in SCRIPTED else ""
            cells = [f"{figures[0]:.3f} ({low:.2f}–{high:.2f})", *(f"{figure:.3f}" for figure in figures[1:4])]
            print(f"| `{method}`{label} | {' | '.join(cells)} | {figures[4]:.1f} |", flush=True)
            if method == "light" and settings.get("mode") in ("hybrid", "mix") and name in FLOORS:
                check_at_least(f"{name}, recall@5 of light", figures[0], FLOORS[name])


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument(
        "--sets", default=",".join(SETS), help="names of sets, or the beginning of a set's files: multihop/musique_1000"
    )
    options = read_options(parser, argv)
    for name in options.sets.split(","):
        print_table(options.data, name)


if __name__ == "__main__":
    run_benchmark(main)
