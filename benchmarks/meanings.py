"""passages, questions in the same or another language -> recall@5 with the built-in embedder and with `local:e5-small`.

Data: DATA/japanese (JSQuAD), DATA/chinese (DRCD), DATA/multihop (MuSiQue), DATA/kgrc (scenes in Japanese and English).
From `kgrc` a fixed draw of 300 scenes: the text in one language is the question, the scene in the other the gold, among
all scenes of that language. A line for each set and embedder: cost of the index. A line for each method: recall@5 with
its 95 % interval (bootstrap over questions), number of questions, median CPU ms of a question. Needs the extra
`multilingual`, and about five minutes of CPU; DRCD and MuSiQue, with `--sets drcd,musique`, take ten each. With
`--cache FILE` a second run reads the vectors from there.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.meter import check_at_least, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.passages import SETS, read_rows
from kumihimo import Kumihimo
from kumihimo.evaluate.statistics import bootstrap_interval

DRAWN = 300  # scenes of each direction
MODELS = {"built-in": "", "e5-small": "local:e5-small"}
ARMS: dict[str, tuple[str, dict[str, object]]] = {
    "meaning": ("naive", {"words": False}),
    "naive": ("naive", {}),
    "braid": ("braid", {}),
}
FLOORS = {"jsquad": 0.93, "en-ja": 0.8, "ja-en": 0.8}  # of meaning alone, with e5-small
Rows = list[dict[str, Any]]


def read_set(data: Path, name: str) -> tuple[Rows, Rows]:
    """Return the passages and the questions of a set."""
    if name in SETS:
        passages, questions = (list(read_rows(data / f"{SETS[name]}_{kind}.jsonl")) for kind in ("corpus", "questions"))
        return passages, questions
    asked, target = name.split("-")
    scenes = [row for row in read_rows(data / "kgrc/scenes.jsonl") if row["text_en"] and row["text_ja"]]
    texts = {row["id"]: {code: " ".join(row[f"text_{code}"]) for code in (asked, target)} for row in scenes}
    copies = Counter(text[code] for text in texts.values() for code in text)
    unique = [id for id, text in texts.items() if all(copies[text[code]] == 1 for code in text)]
    drawn = Random(0).sample(unique, min(DRAWN, len(unique)))
    return (
        [{"id": id, "text": text[target]} for id, text in texts.items()],
        [{"question": texts[id][asked], "gold_passage_ids": [id]} for id in drawn],
    )


def score(kumi: Kumihimo, questions: Rows, method: str, settings: dict[str, Any]) -> tuple[list[float], float]:
    """Return recall@5 of each question, and the median of their CPU milliseconds."""
    shares, seconds = [], []
    with kumi.snapshot() as snapshot:
        for row in questions:
            start = time.process_time()
            context = snapshot.retrieve(row["question"], method, **settings)
            seconds.append(time.process_time() - start)
            ids = [span.uri.partition("#")[2] for item in context for span in snapshot.trace(item.reference)]
            gold = set(row["gold_passage_ids"])
            shares.append(len(gold & set(list(dict.fromkeys(ids))[:5])) / len(gold))
    return shares, 1000 * median(seconds)


def measure(data: Path, name: str, model: str, cache: Path | None) -> dict[str, float]:
    """Index a set with one model; print and return the recall of each method."""
    passages, questions = read_set(data, name)
    recalls: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        corpus = Path(folder, f"{name}.jsonl")
        corpus.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in passages), encoding="utf-8")
        settings: dict[str, Any] = {"embedding": {"model": MODELS[model]}}
        with Kumihimo.open(Path(folder, ".kumi"), settings=settings, cache=cache) as kumi:
            with measured() as cost:
                kumi.index(corpus, methods=["naive", "braid"])
            print(f"{name}, {model}: {len(passages):,} passages {cost}", flush=True)
            for arm, (method, arm_settings) in ARMS.items():
                shares, cpu_ms = score(kumi, questions, method, arm_settings)
                low, high = bootstrap_interval(shares, [str(i) for i in range(len(shares))])
                recalls[arm] = mean(shares)
                interval = f"{recalls[arm]:.3f} [{low:.3f}, {high:.3f}]"
                print(f"  {arm:8} recall@5 {interval} n={len(shares)} {cpu_ms:6.1f} CPU ms", flush=True)
    return recalls


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--sets", default="en-ja,ja-en,jsquad", help="names, separated by commas")
    parser.add_argument("--models", default=",".join(MODELS), help="names, separated by commas")
    parser.add_argument("--cache", type=Path, help="a file that keeps vectors between runs")
    options = read_options(parser, argv, models="built-in")
    for name in options.sets.split(","):
        for model in options.models.split(","):
            recalls = measure(options.data, name, model, options.cache)
            if model == "e5-small" and name in FLOORS:
                check_at_least(f"{name}, recall@5 by meaning alone", recalls["meaning"], FLOORS[name])


if __name__ == "__main__":
    run_benchmark(main)
