"""a seed -> documents whose every sentence, name and field gives them away, and an index of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from kumihimo import Kumihimo
from tests.fake_graph_reader import Readers

METHODS = ("bm25", "naive", "local", "light", "braid", "global", "discourse")  # those that need no model
TEAMS = ("north", "south", "east")
SHARED = ("Orrin Dale", "Ruta Haverlock", "Sabine Orrell", "Bo Lind", "Gull Pier", "Netley Harbour")
TITLES = ("", "", "Captain ", "Dr ", "Professor ")  # different forms of one name
VERBS = ("met", "paid", "drew", "mended", "wrote to", "waited for")
SETTINGS: dict[str, dict[str, Any]] = {  # small limits, so that a model merges descriptions and reports have levels
    "mentions": {"claims": True, "glean_below": 1000},
    "communities": {"max_size": 4},
    **{step: {"description_tokens": 24} for step in ("entities", "relations", "claims")},
}
_SYLLABLES = [first + vowel for first in "bdfgklmnprtvz" for vowel in "aeiou"]
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Page:
    """A document. secrets: the words that no other document has, in small letters."""

    name: str
    title: str
    person: str
    fields: Fields
    sentences: tuple[str, ...]
    secrets: tuple[str, ...]

    @property
    def content(self) -> str:
        """Return the file."""
        front = "\n".join(f"{key}: {json.dumps(value)}" for key, value in {"title": self.title, **self.fields}.items())
        return f"---\n{front}\n---\n# {self.title}\n\n{' '.join(self.sentences)}\n"


class Words:
    """Words that nobody has used before; none is a part of another."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.used: set[str] = set()

    def new(self) -> str:
        word = "".join(self.rng.choices(_SYLLABLES, k=4)) + "x"
        if word in self.used:
            return self.new()
        self.used.add(word)
        return word


def write_pages(seed: int, count: int = 14) -> list[Page]:
    """Return documents of several teams, who share some people and places."""
    words, rng = Words(seed), Random(seed)
    return [_write_page(words, rng, number) for number in range(count)]


def _write_page(words: Words, rng: Random, number: int) -> Page:
    marks = [words.new() for _ in range(9)]
    person = f"Dr {marks[0].title()} {marks[1].title()}"
    sentences = []
    for i in range(rng.randrange(3, 6)):
        one, other = rng.sample(SHARED, 2)
        first = person if i % 2 else f"{'' if one in SHARED[4:] else rng.choice(TITLES)}{one}"
        sentences.append(f"{first} {rng.choice(VERBS)} {other} at the {marks[2 + i % 3]} dock because of {one}.")
    fields: dict[str, Any] = {"team": TEAMS[number % 3], "level": number, "tags": [marks[5], "ropes"]}
    if number % 4 == 0:
        fields |= {"codename": marks[6], marks[7]: "yes"}
    return Page(f"{marks[8]}.md", f"The {marks[5].title()} ledger", person, fields, tuple(sentences), tuple(marks))


RIGHTS: dict[str, Callable[[Fields], bool]] = {  # expression -> whether the fields of a document match
    'team = "north"': lambda f: f["team"] == "north",
    'team in ("south", "east")': lambda f: f["team"] != "north",
    "level >= 10": lambda f: f["level"] >= 10,
    "level < 11 and not codename": lambda f: f["level"] < 11 and "codename" not in f,
    "codename": lambda f: "codename" in f,
    "level != 3": lambda f: f["level"] != 3,
    "level = 5": lambda f: f["level"] == 5,
    "nobody_has_this = 1": lambda _: False,
}
FILTERS: dict[str, Callable[[Fields], bool]] = {
    "": lambda _: True,
    "tags": lambda f: "tags" in f,
    'team = "south"': lambda f: f["team"] == "south",
    "level < 9": lambda f: f["level"] < 9,
}


@dataclass
class Archive:
    """Indexes of these pages: of all of them, and of some."""

    folder: Path
    pages: list[Page]
    by_model: bool

    def __post_init__(self) -> None:
        self.kumi = self.build("all", self.pages)
        self.fresh: dict[tuple[str, ...], Kumihimo] = {}

    def build(self, name: str, pages: Iterable[Page]) -> Kumihimo:
        """Return an index that has no model to ask."""
        home = self.folder / name / "pages"
        home.mkdir(parents=True)
        for page in pages:
            (home / page.name).write_text(page.content, encoding="utf-8")
            os.utime(home / page.name, (0, 0))
        kumi = Kumihimo(self.folder / name / ".kumi", SETTINGS)
        models = kumi.models
        if self.by_model:
            kumi.models = Readers(models.settings, models.cache)
        kumi.index(home, methods=[*METHODS, *(["meta"] if self.by_model else [])])
        kumi.models = models
        return kumi

    def index_of(self, pages: Iterable[Page]) -> Kumihimo:
        """Return an index of these pages alone, built once."""
        chosen = tuple(page.name for page in pages)
        if chosen not in self.fresh:
            self.fresh[chosen] = self.build(f"of-{len(self.fresh)}", [p for p in self.pages if p.name in chosen])
        return self.fresh[chosen]

    def close(self) -> None:
        for kumi in (self.kumi, *self.fresh.values()):
            kumi.close()


def ask_about(rng: Random, pages: list[Page], hidden: list[Page]) -> str:
    """Return a question; most of them probe for what is hidden."""
    page, shared, other = rng.choice(hidden or pages), *rng.sample(SHARED, 2)
    mark = rng.choice(page.secrets)
    misspelt = f"{mark[:3]}{rng.choice('qjw')}{mark[4:]}"
    templates = (
        f"Who met {page.person}?",
        f"Who waited at the {mark} dock?",
        f"Who waited at the {misspelt} dock?",
        f"What did {shared} mend at the dock?",
        f"Why did {shared} write to {other}?",
        f"Who is {shared}?",
        f"Compare {shared} and {other}",
        f"Which documents mention {mark}?",
        f"Which documents mention {shared}?",
        f"Summarize {page.title}",
        f"List the people in {page.title}",
        "List all documents",
        "What are the main themes?",
        f"What is said about {shared}?",
        f"What is said about the {mark} dock?",
        f"{mark} {shared} dock",
        f"What happened in the document of {mark}?",
    )
    return rng.choice(templates)
