"""texts of the repository or of the data sets -> folders of files to measure on, the same on every machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

from benchmarks.passages import read_rows

ROOT = Path(__file__).parents[1]
FILE_SIZE = 4_600  # characters of an article
WORDS = 4  # of a question that is drawn


def read_text(data: Path) -> str:
    """Return the podcasts; without them the pages of this repository."""
    podcasts = data / "podcasts/kevin_scott_podcasts.jsonl"
    if podcasts.exists():
        return "\n\n".join(row["text"] for row in read_rows(podcasts))
    pages = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])
    return "\n\n".join(page.read_text(encoding="utf-8") for page in pages)


def split_text(text: str, size: int) -> Iterator[str]:
    """Yield pieces of at least so many characters, each up to the end of a paragraph."""
    start = 0
    while start < len(text):
        end = text.find("\n\n", start + size)
        end = len(text) if end < 0 else end
        if piece := text[start:end].strip():
            yield f"{piece}\n"
        start = end


def write_files(folder: Path, texts: Iterator[str], most: int) -> Path:
    """Write a file for each of the first texts; return the folder."""
    folder.mkdir(parents=True)
    for (number, text), _ in zip(enumerate(texts), range(most), strict=False):
        (folder / f"part-{number:05}.txt").write_text(text, encoding="utf-8")
    return folder


def write_articles(folder: Path, data: Path, most: int) -> Path:
    """Write the text as files of the size of an article."""
    return write_files(folder, split_text(read_text(data), FILE_SIZE), most)


def write_notes(folder: Path, data: Path, count: int) -> Path:
    """Write the text as so many files of one size."""
    text = read_text(data)
    size = max(1, len(text) // count)
    return write_files(folder, (text[start : start + size] for start in range(0, len(text), size)), count)


def write_japanese(folder: Path, data: Path) -> Path | None:
    """Write the passages of JSQuAD into one file; return None without the set."""
    source = data / "japanese/jsquad_valid_corpus.jsonl"
    if not source.exists():
        return None
    folder.mkdir(parents=True)
    (folder / "passages.jsonl").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    return folder


def draw_questions(folder: Path, count: int) -> list[str]:
    """Return different questions, each of words of one line of a Markdown page."""
    rng = Random(1)
    lines = [line for path in sorted(folder.rglob("*.md")) for line in path.read_text(encoding="utf-8").splitlines()]
    words = [found for line in lines if len(found := re.findall(r"[^\W\d_]{4,}", line)) >= WORDS]
    return [f"What is said of {' '.join(rng.sample(rng.choice(words), WORDS))}?" for _ in range(count)]


def text_bytes(folder: Path) -> int:
    """Return the bytes of the texts in a folder; of JSON Lines those of the field `text`."""
    return sum(
        sum(len(json.loads(line)["text"].encode()) for line in path.read_text(encoding="utf-8").splitlines())
        if path.suffix == ".jsonl"
        else path.stat().st_size
        for path in folder.iterdir()
    )
