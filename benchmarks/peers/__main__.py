"""documents -> Kumihimo beside graphrag, LightRAG, nano-graphrag and fast-graphrag: cost, questions, recall, one page.

Each library is installed into an environment of its own by pip, and works with one model that answers at once. The
figures are kept in WORK/figures.json, so `--only` measures some libraries again, and `--page` alone writes the page.
Data: a folder of texts (default: the podcasts, joined and cut), and DATA/multihop (MuSiQue) for the recall.
"""

from __future__ import annotations

import json
import random
from argparse import Namespace
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from benchmarks.options import bench_parser, read_options
from benchmarks.passages import read_rows
from benchmarks.peers.libraries import LIBRARIES, Environments, Library
from benchmarks.peers.measuring import Figures, Measuring, describe_machine
from benchmarks.peers.page import write_page
from benchmarks.peers.retrieval import STEM, draw_sample
from benchmarks.peers.server import run_peer_server

MORE = 5  # documents that are added
SIZE = 4600  # characters of a document that is made here
RECORDED = "replies/openie_gpt35_musique_train100.jsonl"
QUESTIONS = 8


def read_documents(folder: Path | None, data: Path, count: int) -> list[tuple[str, str]]:
    """Return names and texts of a folder, or of the podcasts, joined and cut at paragraphs."""
    if folder:
        return [(path.name, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.txt"))[:count]]
    text = "\n\n".join(row["text"] for row in read_rows(data / "podcasts/kevin_scott_podcasts.jsonl"))
    documents: list[tuple[str, str]] = []
    start = 0
    while len(documents) < count and start < len(text):
        end = text.find("\n\n", start + SIZE)
        end = len(text) if end < 0 else end
        documents.append((f"part-{len(documents):04}.txt", text[start:end].strip()))
        start = end
    return documents


def make_questions(documents: Sequence[tuple[str, str]], count: int) -> list[str]:
    """Return questions about the words of random documents."""
    rng = random.Random(1)
    questions = []
    for _, text in rng.sample(list(documents), min(count, len(documents))):
        words = sorted({word.strip(".,?!") for word in text.split() if len(word) > 6 and word.isascii()})
        questions.append(f"What is said about {' and '.join(rng.sample(words, min(3, len(words))))}?")
    return questions


def measure_library(measuring: Measuring, library: Library, options: Namespace) -> Figures:
    """Return all figures of a library, or why it could not be installed."""
    try:
        measuring.environments.prepare(library)
        figures: Figures = {"about": measuring.environments.describe(library)}
    except RuntimeError as error:
        return {"error": str(error)}
    if "cost" in options.parts.split(","):
        documents = read_documents(options.folder, options.data, options.documents + MORE)
        questions = make_questions(documents, options.questions)
        first, more = documents[: options.documents], documents[options.documents :]
        figures["cost"] = measuring.measure(library, first, more, questions)
        figures["corpus"] = {"documents": len(first), "megabytes": sum(len(text.encode()) for _, text in first) / 1e6}
    if "recall" in options.parts.split(",") and library.reading and (options.data / f"{STEM}_corpus.jsonl").exists():
        sample = draw_sample(options.data, options.recall_questions, options.passages)
        figures["recall"] = measuring.retrieve(library, sample)
        figures["sample"] = {"distractors": sample.distractors, "passages": len(sample.documents)}
        figures["sample"]["ids"] = [row["id"] for row in sample.questions]
    return figures


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--only", default="", help="names of libraries, separated by commas; '-' for none")
    parser.add_argument("--parts", default="cost,recall", help="what to measure (default: both)")
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="a folder of .txt files")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="for the cost of a question")
    parser.add_argument("--recall-questions", type=int, default=50)
    parser.add_argument("--passages", type=int, default=400, help="with the gold passages among them")
    parser.add_argument("--page", type=Path, help="the page to write")
    parser.add_argument("--work", type=Path, default=Path("build/peers"), help="the folder of environments and stores")
    options = read_options(parser, argv, documents=4, questions=2, recall_questions=2, passages=20)
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    kept = options.work / "figures.json"
    figures: Figures = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    chosen = options.only.split(",") if options.only else [library.driver for library in LIBRARIES]
    with run_peer_server(options.data / RECORDED) as server:
        measuring = Measuring(options.work, Environments(options.work / "environments"), server)
        for library in (each for each in LIBRARIES if each.driver in chosen):
            print(f"{library.name}: {', '.join(library.requirements)}, {library.licence}", flush=True)
            measured = measure_library(measuring, library, options)
            measured |= {"machine": describe_machine(), "date": f"{date.today():%Y-%m-%d}"}
            figures[library.driver] = figures.get(library.driver, {}) | measured
            kept.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    if options.page:
        write_page(options.page, figures)


if __name__ == "__main__":
    main()
