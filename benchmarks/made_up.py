"""a seed -> made-up documents and questions: a corpus of any size that has the statistics of real text.

Words and names are ranks of a law by Zipf and Mandelbrot without an end, so new ones keep coming as the corpus grows,
as Heaps' law says. Each document depends on the seed and on its number alone, so any part of a corpus can be written
again, and memory does not grow. Frequent words are those of the tokenizer, all others are syllables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from random import Random

from kumihimo.text.common_words import load_common_words

MEDIAN_WORDS, SPREAD = 120, 0.95  # of the lognormal length of a document
MOST_WORDS = 20_000
CHUNK_WORDS, OVERLAP_WORDS = 385, 65  # about 600 and 100 tokens: what the default settings make of this text
PER_FOLDER = 1000  # documents
JAPANESE = 50  # one document in so many
TITLED = 0.6  # share of the documents that a name is the subject of

STARTS = "b br d dr f g gr h k kl l m n p pr r s sk st t tr v w z".split()  # noqa: SIM905
MIDDLES = "a e i o u ai ea ou".split()  # noqa: SIM905
ENDS = ["", "", "n", "r", "l", "s", "nd", "rt", "m", "ck"]
VERBS = """
found left kept moved built wrote showed joined opened raised asked helped called changed closed followed needed passed
planned reached served sold taught used visited watched carried described founded painted studied""".split()  # noqa: SIM905
ENDINGS = ["Harbour", "Valley", "Bridge", "Hill", "Park", "Island"]
BODIES = ["Institute", "Company", "University", "Society", "Museum", "Council", "Bank", "Press"]
MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905
# Clauses. n: a name, w: a word, v: a verb, y: a year, d: a day.
NAMED = """n v the w of w
n v n in y
the w of n v a w w
n was a w of the w
on d n v the w w
n and n v the w
in n the w w v w
the w v n for its w""".splitlines()
PLAIN = """the w v a w for the w
it was w and more w than the w
they v the w with a w w
there were w and w in the w
the w of the w was not w
some w v w and w
this v the w to a w w
he said that the w was w""".splitlines()
JOINTS = [", and ", ", but ", "; ", " because ", " when ", ", so "]
KANJI = "山川田村島木林森石海空町水火土金花草竹松白黒青赤東西南北中上下大小高長新古本"

NAMED_SHARE = 0.34  # of the clauses
TOPIC_WORDS, TOPIC_NAMES, OWN_NAMES = 0.4, 0.45, 0.2  # shares; the rest is common to all topics


@dataclass(frozen=True, slots=True)
class Name:
    """A made-up name: in full, and as later sentences say it."""

    full: str
    short: str


@dataclass(frozen=True, slots=True)
class MadeUp:
    """A document."""

    number: int
    subject: str  # also its title, unless empty
    topic: int
    text: str
    words: int

    @property
    def chunks(self) -> int:
        """Return about how many chunks it makes."""
        return 1 + max(0, -(-(self.words - CHUNK_WORDS) // (CHUNK_WORDS - OVERLAP_WORDS)))


@dataclass(frozen=True, slots=True)
class Question:
    """A question; `document` is the number of the one that answers it, -1 if many do."""

    kind: str
    text: str
    document: int = -1


def rank(rng: Random, head: float, exponent: float) -> int:
    """Return a rank from 0, by the law of Zipf and Mandelbrot.

    head: ranks that are about equally frequent. exponent: above 1; Heaps' law then has the exponent 1 / exponent.
    """
    return int(head * ((1.0 - rng.random()) ** (-1.0 / (exponent - 1.0)) - 1.0))


@cache
def common_words() -> list[str]:
    """Return the words that come before syllables, in a mixed order."""
    words = sorted(word for word in load_common_words() if word.isascii() and len(word) > 2)
    Random(0).shuffle(words)
    return words


def word(number: int) -> str:
    """Return the word of this rank.

    >>> word(10**6) == word(10**6) != word(10**6 + 1)
    True
    """
    common = common_words()
    return common[number] if number < len(common) else syllables(number)


@lru_cache(200_000)
def syllables(number: int) -> str:
    """Return a pronounceable word; different numbers have different syllables."""
    base = len(STARTS) * len(MIDDLES)
    parts: list[str] = []
    while number or len(parts) < 2:
        number, place = divmod(number, base)
        parts.append(STARTS[place % len(STARTS)] + MIDDLES[place // len(STARTS)])
    return "".join(parts) + ENDS[number % len(ENDS)]


@lru_cache(200_000)
def name(number: int) -> Name:
    """Return the name of an entity: a person, a place or an organisation.

    Persons share given names and surnames, so some have the same name.
    """
    rng = Random(number)
    kind, own = rng.random(), syllables(rank(rng, 3000, 1.5)).capitalize()
    if kind < 0.5:
        given = syllables(rank(rng, 100, 2.5) % 600 + 40).capitalize()
        return Name(f"{given} {own}", own)
    if kind < 0.8:
        place = f"{own} {rng.choice(ENDINGS)}" if rng.random() < 0.3 else own
        return Name(place, place)
    body = rng.choice(BODIES)
    if rng.random() < 0.4:
        field = word(rank(rng, 500, 3)).capitalize()
        return Name(f"{own} {field} {body} ({own[0]}{field[0]}{body[0]})", f"{own[0]}{field[0]}{body[0]}")
    return Name(f"{own} {body}", f"{own} {body}")


class Writer:
    """The writer of one document: its random numbers, topics and cast."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = rng = Random(f"{seed}/{number}")
        self.number = number
        self.topics = [rank(rng, 40, 1.9) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
        self.length = min(MOST_WORDS, int(rng.lognormvariate(0, SPREAD) * MEDIAN_WORDS) + 12)
        self.cast = [self._name_number(i) for i in range(3 + self.length // 25)]
        self.named: set[int] = set()
        self.years = 1700 + rng.randrange(320)

    def _name_number(self, place: int) -> int:
        rng, share = self.rng, self.rng.random()
        if share < OWN_NAMES:
            return 10**12 + self.number * 1000 + place
        if share < OWN_NAMES + TOPIC_NAMES:
            return 10**9 + rng.choice(self.topics) * 10**5 + rank(rng, 6, 2.0) % 10**5
        return rank(rng, 20, 1.8)

    def name(self) -> str:
        """Return a name of the cast: in full when it first comes, often short later."""
        rng = self.rng
        number = self.cast[min(rank(rng, 4, 2.2), rng.randrange(len(self.cast)))]
        made = name(number)
        if number in self.named and rng.random() < 0.8:
            return made.short
        self.named.add(number)
        return made.full

    def word(self) -> str:
        rng = self.rng
        if rng.random() < TOPIC_WORDS:
            topic = self.topics[0] if rng.random() < 0.7 else rng.choice(self.topics)
            return topic_word(topic, rank(rng, 12, 2.2))
        return word(rank(rng, 120, 1.85))

    def clause(self) -> str:
        rng = self.rng
        forms = NAMED if rng.random() < NAMED_SHARE else PLAIN
        parts = []
        for part in rng.choice(forms).split():
            if part == "w":
                parts.append(self.word())
            elif part == "v":
                parts.append(VERBS[min(rank(rng, 8, 2.5), len(VERBS) - 1)])
            elif part == "n":
                parts.append(self.name())
            elif part == "y":
                parts.append(str(self.years + rng.randrange(40)))
            elif part == "d":
                parts.append(f"{rng.randrange(1, 29)} {rng.choice(MONTHS)} {self.years + rng.randrange(40)}")
            else:
                parts.append(part)
        return " ".join(parts)

    def sentence(self) -> str:
        rng = self.rng
        text = self.clause()
        while rng.random() < 0.45:
            text += rng.choice(JOINTS) + self.clause()
        return f"{text[0].upper()}{text[1:]}."

    def japanese_sentence(self) -> str:
        rng = self.rng
        a, b, c = (kanji_word(self.topics[0] * 50 + rank(rng, 20, 2)) for _ in range(3))
        return f"{a}の{b}は{self.years + rng.randrange(40)}年に{c}を{rng.choice('作見売買')}った。"

    def write(self) -> MadeUp:
        japanese = self.number % JAPANESE == JAPANESE - 1
        subject = name(self.cast[0]).full.partition(" (")[0] if self.rng.random() < TITLED and not japanese else ""
        sentences = [f"{subject} was a {self.word()} of the {self.word()}."] if subject else []
        words, paragraphs = sum(map(_count_words, sentences)), []
        while words < self.length:
            sentence = self.japanese_sentence() if japanese else self.sentence()
            sentences.append(sentence)
            words += len(sentence) // 2 if japanese else _count_words(sentence)
            if len(sentences) > 4 and self.rng.random() < 0.3:
                paragraphs.append(("" if japanese else " ").join(sentences))
                sentences = []
        paragraphs.append(("" if japanese else " ").join(sentences))
        text = "\n\n".join(filter(None, paragraphs))
        heading = f"# {subject}\n\n" if subject else ""
        return MadeUp(self.number, subject, self.topics[0], f"{heading}{text}\n", words)


def _count_words(text: str) -> int:
    return text.count(" ") + 1


def topic_word(topic: int, place: int) -> str:
    """Return a word of a topic; topics share some of their words."""
    return word((topic * 7919 + place * 104_729 + 13) % 30_000)


def kanji_word(number: int) -> str:
    first, second = divmod(number % len(KANJI) ** 2, len(KANJI))
    return KANJI[first] + KANJI[second]


def write_document(seed: int, number: int) -> MadeUp:
    """Return the document of this number."""
    return Writer(seed, number).write()


def documents(seed: int, chunks: int, start: int = 0) -> Iterator[MadeUp]:
    """Yield documents that make about so many chunks."""
    made = 0
    for number in count(start):
        if made >= chunks:
            return
        document = write_document(seed, number)
        made += document.chunks
        yield document


def document_path(folder: Path, number: int) -> Path:
    return folder / f"{number // PER_FOLDER:05}" / f"note-{number:08}.md"


def write_folder(folder: Path, made: Iterator[MadeUp]) -> tuple[int, int]:
    """Write documents as files; return how many, and their bytes."""
    written = size = 0
    for document in made:
        path = document_path(folder, document.number)
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
        data = document.text.encode()
        path.write_bytes(data)
        written, size = written + 1, size + len(data)
    return written, size


def questions(seed: int, document_count: int, number: int) -> list[Question]:
    """Return questions on a corpus: of ten, six on a passage, three on a name, one on a topic."""
    rng, found = Random(f"questions {seed}"), list[Question]()
    while len(found) < number:
        document = write_document(seed, rng.randrange(document_count))
        kind = ("passage",) * 6 + ("name",) * 3 + ("topic",)
        question = _QUESTIONS[kind[len(found) % 10]](rng, document)
        found += [question] if question else []
    return found


def _ask_passage(rng: Random, document: MadeUp) -> Question | None:
    """Ask about a sentence that names something."""
    sentences = [s for s in document.text.replace("\n", " ").split(". ") if _NAMED.search(s)]
    if not sentences:
        return None
    sentence = rng.choice(sentences)
    words = [part for part in re.findall(r"\b[a-z]{4,}", sentence) if part not in _EMPTY][:5]
    text = f"What is known of {_NAMED.findall(sentence)[0]} and the {' '.join(words)}?"
    return Question("passage", text, document.number)


def _ask_name(_: Random, document: MadeUp) -> Question | None:
    return Question("name", f"What did {document.subject} do?") if document.subject else None


def _ask_topic(_: Random, document: MadeUp) -> Question:
    words = [topic_word(document.topic, place) for place in range(4)]
    return Question("topic", f"What do the documents say about {words[0]} {words[1]}, {words[2]} and {words[3]}?")


_NAMED = re.compile(r"(?<=[a-z] )[A-Z][a-z]+(?: [A-Z][a-z]+)*")  # within a sentence
_EMPTY = {"that", "this", "they", "there", "were", "with", "some", "said", "more", "than", "because", "when", *VERBS}
_QUESTIONS = {"passage": _ask_passage, "name": _ask_name, "topic": _ask_topic}
