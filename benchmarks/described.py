"""questions that name a document by its metadata -> recall@5 of plain search, `braid` and search with document matches.

Data: DATA/podcasts with the episode and the guest as fields, examples/, and described_questions.tsv: a document, a
question, words of the gold chunks, which are those of the document with these words. A third of the podcasts' questions
is made by template: an episode or a guest, and a word that few of its chunks have. A hash of the question puts half of
them aside as unseen. Prints the share of the gold chunks among the first 5, then, for sets without metadata of their
own, how many documents a question names, with the scores of the gold and of the other best 40.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import TypeVar

from benchmarks.meter import check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.passages import read_rows
from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.context import Context, Evidence
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Chunk
from kumihimo.core.table import Row, Table
from kumihimo.index.chunk_background import Description
from kumihimo.methods.braid.document_match import match_documents
from kumihimo.methods.shared.ranking import hybrid_search
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.question import ParsedQuestion

HOME = Path(__file__).parents[1]
QUESTIONS = Path(__file__).with_name("described_questions.tsv")
TOPICS = "advice pandemic music father mother startup biology games books climate robots physics school brain".split()  # noqa: SIM905
TEMPLATES = ("What is said about {topic} in episode {episode}?", "What does the interview with {guest} say on {topic}?")
TEMPLATE_COUNT = 40
MIN_SCORE = 0.5  # of a document whose chunks are searched apart
MAX_GOLD = 3  # chunks
NOISE = r"(?i)\b(?:ep(?:isode)?[-_ ]?\d+|behind|the|tech|kevin|scott|podcast|with|transcript|final|qc|v?\d+)\b"
PLAIN_SETS = ("ordinary/fiqa", "ordinary/news", "japanese/jsquad_valid", "chinese/drcd_dev")
TITLED_SETS = ("multihop/musique_train100", "multihop/hotpot_train100", "multihop/2wiki_dev164")
METHODS = ("bm25", "naive", "braid", "described")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DescribedQuestion:
    """A question with its gold chunks."""

    text: str
    gold: frozenset[str]
    origin: str  # hand or template

    @property
    def unseen(self) -> bool:
        """Return whether the question is kept for the measurement."""
        return int(hash_parts(self.text)[:2], 16) % 2 == 1


@dataclass(frozen=True, slots=True)
class InDocuments:
    """The view of a table of chunks that shows the chunks of some documents."""

    documents: Collection[str]

    def is_whole(self, id: str) -> bool:
        return id.partition(".")[0] in self.documents

    def partial_rows(self) -> Sequence[Row]:
        return ()

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:  # noqa: ARG002 - a view of one search
        return compute()


def described(
    question: str,
    chunks: Table[Chunk],
    descriptions: Table[Description],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    *,
    weight: float = 1.0,
) -> Context:
    """Return chunks by both searches, with a bonus for documents that the question names.

    The best chunks of these documents are candidates too.
    """
    [hits] = hybrid_search([question], chunks, keyword_search, vector_search, pool=100, meaning=0.5)
    candidates = {item.record.id.partition(".")[0] for item in hits}
    matches = match_documents(ParsedQuestion(question), descriptions, keyword_search, sorted(candidates))
    named = {id for id, match in matches.items() if match.score >= MIN_SCORE}
    if named:
        inside = Table(chunks.name, chunks.codec, chunks.rows, view=InDocuments(named))
        found = {item.record.id: item.score for item in hits}
        extra = [item.record for item in keyword_search(inside, question, k=20) if item.record.id not in found]
        hits += Context(tuple(Evidence("chunks", record, 0.0) for record in extra))
    scored = [
        (item.score + weight * getattr(matches.get(item.record.id.partition(".")[0]), "score", 0.0), item)
        for item in hits
    ]
    best = sorted(scored, key=lambda pair: (-pair[0], pair[1].record.id))
    return Context(tuple(Evidence("chunks", item.record, score) for score, item in best[:20]))


def write_podcasts(source: Path, target: Path) -> dict[str, str]:
    """Write the podcasts with the episode and the guest as fields; return the guests by episode."""
    guests: dict[str, str] = {}
    with target.open("w", encoding="utf-8") as lines:
        for row in read_rows(source):
            name, _, part = row["id"].partition("-part")
            number = re.search(r"(?i)(?:ep|episode|talk)[-_ ]?0?(\d+)", name)
            if not number:
                raise ValueError(f"{source}: {name!r} has no number of an episode")
            words = re.sub(r"[_-]|(?<=[a-z])(?=[A-Z])", " ", name)
            guest = " ".join(re.sub(NOISE, " ", words).replace("(1)", "").split())
            guests[number[1]] = guest
            fields = {"episode": int(number[1]), "guest": guest}
            row = {
                "id": f"part {part.removesuffix('.txt')} of {number[1]}",
                "title": "Behind the Tech",
                **fields,
                "text": row["text"],
            }
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
    return guests


def read_questions(snapshot: Snapshot) -> list[DescribedQuestion]:
    """Return the questions by hand for the documents of an index, with their gold chunks."""
    chunks_of, questions, missing = chunks_by_name(snapshot), [], 0
    for line in QUESTIONS.read_text(encoding="utf-8").splitlines():
        name, question, words = line.split("\t")
        if gold := find_gold(chunks_of.get(name, []), words):
            questions.append(DescribedQuestion(question, gold, "hand"))
        missing += name in chunks_of and not gold
    check_at_most("questions by hand without gold chunks", missing, 0)
    return questions


def chunks_by_name(snapshot: Snapshot) -> dict[str, list[Chunk]]:
    """Return the chunks by uri; those of a podcast by episode."""
    names = {
        document.id: str(document.metadata.get("episode", document.uri)) for document in snapshot.table("documents")
    }
    chunks_of = defaultdict(list)
    for chunk in snapshot.table("chunks"):
        chunks_of[names[chunk.document]].append(chunk)
    return chunks_of


def find_gold(chunks: Sequence[Chunk], words: str) -> frozenset[str]:
    """Return the chunks with these words, at whatever breaks of lines."""
    pattern = re.compile(r"\s+".join(map(re.escape, words.split())), re.I)
    return frozenset(chunk.id for chunk in chunks if pattern.search(chunk.text))


def make_questions(snapshot: Snapshot, guests: dict[str, str]) -> list[DescribedQuestion]:
    """Return the questions by template, in the order of their hashes."""
    made = []
    for episode, chunks in chunks_by_name(snapshot).items():
        for number, topic in enumerate(TOPICS):
            gold = find_gold(chunks, topic)
            template = TEMPLATES[(number + len(episode)) % 2 if guests[episode] else 0]
            text = template.format(topic=topic, episode=episode, guest=guests[episode])
            made += [DescribedQuestion(text, gold, "template")] if 0 < len(gold) <= MAX_GOLD else []
    return sorted(made, key=lambda question: hash_parts(question.text))[:TEMPLATE_COUNT]


def recall_at_5(snapshot: Snapshot, question: DescribedQuestion, method: str) -> float:
    """Return the share of the gold chunks among the first five chunks."""
    ids = [item.record.id for item in snapshot.retrieve(question.text, method) if item.table == "chunks"][:5]
    return len(question.gold & set(ids)) / len(question.gold)


def recall_rows(label: str, snapshot: Snapshot, questions: Sequence[DescribedQuestion]) -> Iterator[str]:
    """Yield recall@5 of each method, for questions of each origin, tuned on and unseen."""
    for origin in ("hand", "template"):
        for unseen in (False, True):
            part = [each for each in questions if each.origin == origin and each.unseen == unseen]
            if part:
                recalls = [mean(recall_at_5(snapshot, each, method) for each in part) for method in METHODS]
                cells = " | ".join(f"{recall:.3f}" for recall in recalls)
                yield f"| {label}, by {origin}, {'unseen' if unseen else 'seen'} | {len(part)} | {cells} |"


def print_scores(data: Path, name: str, count: int) -> None:
    """Print how often a question names a document, the scores of gold and others, and the CPU time of a match."""
    corpus, file = data / f"{name}_corpus.jsonl", data / f"{name}_questions.jsonl"
    with TemporaryDirectory() as folder, Kumihimo.open(Path(folder, ".kumi"), methods=[described]) as kumi:
        kumi.index(corpus, methods=["described"])
        gold_scores, other_scores, named, milliseconds = [], [], [], []
        with kumi.snapshot() as snapshot:
            rows = {document.uri.partition("#")[2]: document.id for document in snapshot.table("documents")}
            for row in islice(read_rows(file), count):
                start = time.process_time()
                descriptions = snapshot.table("descriptions")
                matches = match_documents(ParsedQuestion(row["question"]), descriptions, snapshot.keyword_search())
                milliseconds.append(1000 * (time.process_time() - start))
                gold_ids = row.get("gold_passage_ids") or [id for ids in row["gold_sets"] for id in ids]
                gold = {rows[id] for id in gold_ids}
                hits = {item.record.id.partition(".")[0] for item in snapshot.retrieve(row["question"], "naive", k=40)}
                scores = {id: matches[id].score if id in matches else 0.0 for id in gold | hits}
                gold_scores += [scores[id] for id in gold]
                other_scores += [scores[id] for id in hits - gold]
                named.append(any(match.score >= 0.5 for match in matches.values()))
    figures = f"{mean(named):.3f} | {mean(gold_scores):.3f} | {mean(other_scores):.3f} | {median(milliseconds):.1f}"
    print(f"| {name.rpartition('/')[2]} | {len(named)} | {figures} |", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--count", type=int, default=150, help="questions of each set without metadata")
    parser.add_argument("--sets", action="store_true", help="measure the sets without metadata too")
    options = read_options(parser, argv, count=2, sets=True)
    rows = [f"| questions | number | {' | '.join(METHODS)} |", f"|---|---|{'---|' * len(METHODS)}"]
    with TemporaryDirectory() as folder:
        podcasts = Path(folder, "podcasts.jsonl")
        guests = write_podcasts(options.data / "podcasts" / "kevin_scott_podcasts.jsonl", podcasts)
        for label, source in (("podcasts", podcasts), ("examples", HOME / "examples")):
            with Kumihimo.open(Path(folder, label), methods=[described]) as kumi:
                kumi.index(source, methods=METHODS)
                with kumi.snapshot() as snapshot:
                    made = make_questions(snapshot, guests) if label == "podcasts" else []
                    rows += recall_rows(label, snapshot, [*read_questions(snapshot), *made])
    print("\n".join(rows), flush=True)
    if options.sets:
        print("\n| set | questions | named | score of gold | of other best 40 | CPU ms |\n|---|---|---|---|---|---|")
        sets = [name for name in (*PLAIN_SETS, *TITLED_SETS) if (options.data / f"{name}_corpus.jsonl").exists()]
        for name in sets:
            print_scores(options.data, name, options.count)


if __name__ == "__main__":
    run_benchmark(main)
