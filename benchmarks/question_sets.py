"""name of a set -> its index and its questions with gold.

Eleven sets of six kinds are measured. Weights also learn from three more, whose gold is known by construction: facts
and the essay that holds them (DATA/mine); labels of a scene and the scene (DATA/kgrc); claims about a novel and the
passage that a model gave for each (DATA/replies/christmas_carol).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from benchmarks.instant import InstantRegistry
from benchmarks.meter import measured
from benchmarks.passages import read_rows
from benchmarks.scenes import read_scenes
from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.evaluate.importers import parse_question_row
from kumihimo.evaluate.records import EvalQuestion, Gold
from kumihimo.text.sentences import split_sentences
from kumihimo.text.tokens import subject_terms

KINDS = {
    "musique": "multi-hop",
    "hotpot": "multi-hop",
    "2wiki": "multi-hop",
    "jsquad": "single passages in Japanese and Chinese",
    "drcd": "single passages in Japanese and Chinese",
    "podcasts": "words of a sentence",
    "fiqa": "forum",
    "news": "news",
    "finance": "long documents",
    "pubmed": "long documents",
    "chatlogs": "long documents",
}
STEMS = {  # of the files with the documents and the questions
    "musique": "multihop/musique_train100",
    "hotpot": "multihop/hotpot_train100",
    "2wiki": "multihop/2wiki_dev164",
    "jsquad": "japanese/jsquad_valid",
    "drcd": "chinese/drcd_dev",
} | {name: f"ordinary/{name}" for name in ("fiqa", "news", "finance", "pubmed", "chatlogs")}
LEARNED_ONLY = ("essays", "scenes", "novel")
NOVEL = "replies/christmas_carol"
QUESTION_COUNT = 150  # of a set whose questions are made here
WORDS = 5  # of a question from the podcasts
MARKS = '.,;:!?"()“”'
SENTENCE_LENGTH = 60  # characters, at least
QUOTE_LENGTH = 40  # characters, at least: a shorter quote stands anywhere
LABELS = 3  # of a scene, at least


def open_set(
    stack: ExitStack,
    data: Path,
    name: str,
    cache: Path | None = None,
    records_by_text: Mapping[str, list[str]] | None = None,
    methods: Sequence[str] = ("bm25", "naive", "braid"),
) -> tuple[Snapshot, list[EvalQuestion]]:
    """Index a set for some methods; return it with its questions.

    The index stays open with the stack. cache: the folder of indexes for later runs. records_by_text: extraction
    records, as of a model; None: by rule.
    """
    folder = cache / name if cache else Path(stack.enter_context(TemporaryDirectory()))
    folder.mkdir(parents=True, exist_ok=True)
    kumi = stack.enter_context(Kumihimo.open(folder / ".kumi"))
    if records_by_text is not None:
        kumi.models = InstantRegistry(kumi.models.settings, kumi.models.cache, records_by_text=records_by_text)
    with measured() as cost:
        kumi.index(_documents_path(data, name, folder), methods=methods)
    print(f"{name}: indexed in {cost.cpu:.1f} CPU s", flush=True)
    snapshot = stack.enter_context(kumi.snapshot())
    questions = draw_questions(snapshot) if name == "podcasts" else read_questions(data, name)
    return snapshot, [replace(question, id=f"{name} {question.id}") for question in questions]


def _documents_path(data: Path, name: str, folder: Path) -> Path:
    """Return the file with the documents; write it if the data has another form."""
    if name in STEMS:
        return data / f"{STEMS[name]}_corpus.jsonl"
    if name == "podcasts":
        return data / "podcasts/kevin_scott_podcasts.jsonl"
    if name == "novel":
        return data / NOVEL / "mock_data.txt"
    rows = (
        ((row["id"], row["content"].strip("`")) for row in read_rows(data / "mine/essays.jsonl"))
        if name == "essays"
        else ((scene.id, scene.text["en"]) for scene in read_scenes(data / "kgrc/scenes.jsonl"))
    )
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps({"id": str(id), "text": text}) + "\n" for id, text in rows), encoding="utf-8")
    return path


def read_questions(data: Path, name: str) -> Iterator[EvalQuestion]:
    """Yield the questions of a set; gold without text is left out."""
    if name not in STEMS:
        yield from {"essays": _essay_questions, "scenes": _scene_questions, "novel": _novel_questions}[name](data)
        return
    blank = {str(row["id"]) for row in read_rows(_documents_path(data, name, data)) if not row["text"].strip()}
    path = data / f"{STEMS[name]}_questions.jsonl"
    for row in read_rows(path):
        question = parse_question_row(row, str(path))
        yield replace(question, gold=tuple(gold for gold in question.gold if gold.id not in blank))


def draw_questions(snapshot: Snapshot) -> Iterator[EvalQuestion]:
    """Yield questions of random words from sentences of random chunks."""
    rng = Random(1)
    chunks = sorted(snapshot.table("chunks"), key=lambda chunk: chunk.id)
    for chunk in rng.sample(chunks, min(QUESTION_COUNT, len(chunks))):
        spans = split_sentences(chunk.text)
        sentences = [text for start, end in spans if len(text := chunk.text[start:end]) > SENTENCE_LENGTH]
        words = [word.strip(MARKS) for word in rng.choice(sentences or [chunk.text]).split() if subject_terms(word)]
        positions = sorted(rng.sample(range(len(words)), min(WORDS, len(words))))
        yield EvalQuestion(chunk.id, " ".join(words[i] for i in positions), gold=(Gold(chunk.id),))


# -- sets to learn from


def _essay_questions(data: Path) -> list[EvalQuestion]:
    """Return facts; the gold is the essay that each was taken from."""
    facts = [(str(row["id"]), fact) for row in read_rows(data / "mine/facts.jsonl") for fact in row["facts"]]
    return _sample([EvalQuestion(f"{n}", fact, gold=(Gold(id),)) for n, (id, fact) in enumerate(facts)])


def _scene_questions(data: Path) -> list[EvalQuestion]:
    """Return the labels of scenes; the gold is the scene."""
    scenes = read_scenes(data / "kgrc/scenes.jsonl")
    labels = {scene.id: [label for slot in scene.gold.values() for label in slot] for scene in scenes}
    return _sample([EvalQuestion(id, " ".join(x), gold=(Gold(id),)) for id, x in labels.items() if len(x) >= LABELS])


def _novel_questions(data: Path) -> list[EvalQuestion]:
    """Return claims that a model made; the gold is the quote it gave, if the novel has it."""
    novel = "".join((data / NOVEL / "mock_data.txt").read_text(encoding="utf-8").split())
    rows = (row | {"source_text": row["source_text"] or ""} for row in read_rows(data / NOVEL / "covariates.jsonl"))
    return _sample(
        [
            EvalQuestion(row["id"], row["description"], gold=(Gold(text=row["source_text"]),))
            for row in rows
            if len(row["source_text"]) >= QUOTE_LENGTH and "".join(row["source_text"].split()) in novel
        ]
    )


def _sample(questions: list[EvalQuestion]) -> list[EvalQuestion]:
    return Random(1).sample(questions, min(QUESTION_COUNT, len(questions)))
