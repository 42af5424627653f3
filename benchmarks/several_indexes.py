"""a set in several indexes -> recall of one question to all of them, beside that of one index, by rule of merging.

Each set is indexed as a whole and in parts: random halves and quarters; nine tenths and one tenth; two halves by topic,
which are the signs of the first principal component of the built-in embeddings. In `foreign`, an index of another set,
which has no gold, stands beside the whole; there, the one index has the documents of both. Prints a Markdown table for
each method: recall@5 and recall@20, the means over the questions, of one index and of each rule; then the CPU ms of a
question to one index and to two.

The rules: `raw` sorts by the scores of the method; `scaled` by these, from 0 to 1 in each index; `rank` takes turns;
`match` sorts by the match of text and question alone; `several` is what `SeveralIndexes` does.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.meter import check_at_least
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.passages import read_rows
from benchmarks.question_sets import STEMS
from benchmarks.recall import list_passages, score_ranking
from kumihimo import Context, Evidence, Kumihimo, SeveralIndexes
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.several.merged_evidence import match_texts, name_evidence
from kumihimo.llm.local_embedder import LocalEmbedder

Row = dict[str, Any]
FOREIGN = {"hotpot": "news", "jsquad": "drcd", "fiqa": "hotpot", "musique": "fiqa", "2wiki": "news", "drcd": "jsquad"}
SETS = "musique,2wiki,drcd"  # the rule was chosen on hotpot, jsquad and fiqa
METHODS = "bm25,naive,braid"
OTHER_RULES = ("raw", "scaled", "rank", "match")
SPLITS = ("halves", "quarters", "skewed", "topic", "foreign")
MOST_CHARS = 3000  # of a document, for its topic
BOUND = ("bm25", "naive", "braid")
MOST_LOST = 0.03  # recall@5 that these may lose, on the mean of the splits of a set


def split_rows(rows: Sequence[Row]) -> Iterator[tuple[str, list[list[Row]]]]:
    """Yield each split with its parts."""
    order = Random(1).sample(rows, len(rows))
    tenth = max(1, len(rows) // 10)
    yield "one", [[*rows]]
    yield "halves", [order[start::2] for start in range(2)]
    yield "quarters", [order[start::4] for start in range(4)]
    yield "skewed", [order[tenth:], order[:tenth]]
    by_topic = sort_by_topic(rows)
    yield "topic", [by_topic[: len(rows) // 2], by_topic[len(rows) // 2 :]]


def sort_by_topic(rows: Sequence[Row]) -> list[Row]:
    """Return the documents by the first principal component of their embeddings."""
    import numpy as np

    vectors = np.asarray(LocalEmbedder()([f"{row.get('title', '')}\n{row['text']}"[:MOST_CHARS] for row in rows]))
    centred = vectors - vectors.mean(axis=0)
    component = np.linalg.svd(centred.astype(np.float64), full_matrices=False)[2][0]
    places = (centred @ component).round(6)
    return [rows[i] for i in sorted(range(len(rows)), key=lambda i: (places[i], str(rows[i]["id"])))]


def build(folder: Path, parts: Mapping[str, Sequence[Row]], methods: Sequence[str]) -> Kumihimo:
    """Index documents of one or several sets, by its name."""
    (folder / "documents").mkdir(parents=True, exist_ok=True)
    for name, rows in parts.items():
        lines = (f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        (folder / "documents" / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    kumi = Kumihimo.open(folder / ".kumi")
    kumi.index(folder / "documents", methods=methods)
    return kumi


def build_all(stack: ExitStack, data: Path, home: Path, name: str, methods: Sequence[str]) -> dict[str, list[Kumihimo]]:
    """Return the open indexes of each split of a set; `both` is one with the foreign documents."""
    rows = sorted(read_rows(data / f"{STEMS[name]}_corpus.jsonl"), key=lambda row: str(row["id"]))
    splits: dict[str, list[Kumihimo]] = {}
    for split, parts in split_rows(rows):
        opened = [build(home / name / f"{split}-{n}", {name: part}, methods) for n, part in enumerate(parts)]
        splits[split] = [stack.enter_context(kumi) for kumi in opened]
    other = FOREIGN[name]
    foreign = list(read_rows(data / f"{STEMS[other]}_corpus.jsonl"))
    splits["foreign"] = [
        *splits["one"],
        stack.enter_context(build(home / name / "foreign-0", {other: foreign}, methods)),
    ]
    splits["both"] = [stack.enter_context(build(home / name / "both-0", {name: rows, other: foreign}, methods))]
    return splits


def merge_by_rules(question: str, contexts: Mapping[str, Context]) -> dict[str, Context]:
    """Return what each rule but that of the package makes of the evidence."""
    items: list[Evidence] = []
    keys: dict[str, list[tuple[float, float]]] = defaultdict(list)  # what each rule sorts by
    for index, context in contexts.items():
        scores = [item.score for item in context]
        low, high = min(scores, default=0.0), max(scores, default=0.0)
        for rank, item in enumerate(context):
            items.append(name_evidence(index, item))
            keys["raw"].append((-item.score, rank))
            keys["scaled"].append(((item.score - low) / (low - high) if high > low else -1.0, rank))
            keys["rank"].append((rank, 0))
    matches = match_texts(question, [item.record.prompt_text for item in items])
    keys["match"] = [(-match, rank) for match, (rank, _) in zip(matches, keys["rank"], strict=True)]
    orders = {rule: sorted(range(len(items)), key=own.__getitem__) for rule, own in keys.items()}
    return {rule: Context(tuple(items[i] for i in orders[rule])) for rule in OTHER_RULES if rule in orders}


def measure_split(
    parts: Sequence[Kumihimo], questions: Sequence[Row], method: str, name: str
) -> dict[str, list[float]]:
    """Return recall@5 and recall@20 of each rule."""
    scores: dict[str, list[tuple[float, float]]] = defaultdict(list)
    several = SeveralIndexes({f"i{n}": kumi for n, kumi in enumerate(parts)})
    with several.snapshot(method) as snapshot:
        passages = read_passage_ids(snapshot, name)
        for row in questions:
            contexts = {name: kumi.retrieve(row["question"], method) for name, kumi in several.indexes.items()}
            merged = snapshot.retrieve(row["question"], method)
            for rule, context in {**merge_by_rules(row["question"], contexts), "several": merged}.items():
                ranking = list_passages(snapshot, context, passages, traced=False)
                scores[rule].append(score_ranking(ranking, set(row["gold_passage_ids"]))[:2])
    return {rule: [mean(column) for column in zip(*each, strict=True)] for rule, each in scores.items()}


def measure_one(kumi: Kumihimo, questions: Sequence[Row], method: str, name: str) -> list[float]:
    """Return recall@5 and recall@20 of one index."""
    with kumi.snapshot(method) as snapshot:
        passages = read_passage_ids(snapshot, name)
        scores = [
            score_ranking(
                list_passages(snapshot, snapshot.retrieve(row["question"], method), passages, traced=False),
                set(row["gold_passage_ids"]),
            )[:2]
            for row in questions
        ]
    return [mean(column) for column in zip(*scores, strict=True)]


def read_passage_ids(snapshot: Snapshot, name: str) -> dict[str, str]:
    """Return the passage of each document of a set; the uri of others."""
    uris: dict[str, str] = dict(snapshot.table("documents").columns("id", "uri"))
    return {id: uri.partition("#")[2] if f"{name}.jsonl#" in uri else uri for id, uri in uris.items()}


def cpu_ms(kumi: Kumihimo | SeveralIndexes, questions: Sequence[Row], method: str) -> float:
    """Return the CPU milliseconds of a question."""
    with kumi.snapshot(method) as snapshot:
        start = time.process_time()
        for row in questions:
            snapshot.retrieve(row["question"], method)
        return 1000 * (time.process_time() - start) / len(questions)


def print_set(data: Path, home: Path, name: str, methods: Sequence[str]) -> None:
    questions = list(read_rows(data / f"{STEMS[name]}_questions.jsonl"))
    with ExitStack() as stack:
        splits = build_all(stack, data, home, name, methods)
        for method in methods:
            whole, both = (measure_one(splits[split][0], questions, method, name) for split in ("one", "both"))
            rules = (*OTHER_RULES, "several")
            print(f"\n{name}, {method}\n\n| split | one index | {' | '.join(rules)} |\n|{'---|' * (len(rules) + 2)}")
            lost: list[float] = []
            for split in SPLITS:
                one = both if split == "foreign" else whole
                found = measure_split(splits[split], questions, method, name)
                cells = [" ".join(f"{value:.3f}" for value in each) for each in (one, *(found[rule] for rule in rules))]
                print(f"| {split} | {' | '.join(cells)} |", flush=True)
                lost.append(one[0] - found["several"][0])
            two = SeveralIndexes(dict(zip("ab", splits["halves"], strict=True)))
            single, double = (cpu_ms(kumi, questions, method) for kumi in (splits["one"][0], two))
            print(f"\nCPU ms of a question: one index {single:.1f}, the same documents in two {double:.1f}")
            if method in ("bm25", "naive"):
                check_at_least(
                    f"{name}, recall@5 of {method} in several indexes", whole[0] - mean(lost), whole[0] - MOST_LOST
                )


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--cache", type=Path, help="a folder that keeps the indexes for later runs")
    options = read_options(parser, argv, sets="hotpot,drcd")
    with TemporaryDirectory() as folder:
        for name in options.sets.split(","):
            print_set(options.data, options.cache or Path(folder), name, options.methods.split(","))


if __name__ == "__main__":
    run_benchmark(main)
