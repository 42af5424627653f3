"""nothing -> a chunk knowledge graph small enough to work out by hand: its rows, and what is to be found in them.

One document of two chunks, eight passages. Its links are of senses three levels below the class of all senses, of two
levels, of both directions, and there are passages that two links of different senses tie.
"""

from __future__ import annotations

from typing import Any

from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Chunk, DiscourseRelation, Document, Passage, Record, SlotFiller
from kumihimo.core.table import Table
from tests.factories_tables import table

DOCUMENT = hash_parts("notes/tern.txt")
TEXTS = (
    ("The ferry Tern waited at Oban on Monday.", "The tide had turned.", "Nobody could land the mail."),
    (
        "Ada mended the winch meanwhile.",
        "The Tern left on Tuesday.",
        "Had the winch failed, it would have stayed.",
        "Since the boiler leaked,",
        "the Tern was slow.",
    ),
)
CHUNKS = tuple(f"{DOCUMENT}.{n:05}" for n in range(len(TEXTS)))
P = tuple(f"{chunk}.{n:05}" for chunk, texts in zip(CHUNKS, TEXTS, strict=True) for n in range(len(texts)))

LINKS = tuple(
    DiscourseRelation(
        P[first], P[second], confidence, id=f"{P[min(first, second)].rpartition('.')[0]}.{n:05}", text=sense
    )
    for n, (first, second, sense, confidence) in enumerate(
        (
            (0, 1, "reason", 0.9),  # it waited because the tide had turned
            (0, 1, "specification", 0.3),
            (1, 2, "result", 0.8),
            (2, 3, "synchronous", 0.6),  # goes on in the next chunk
            (3, 4, "precedence", None),
            (4, 5, "unreal past", 0.7),
            (7, 6, "reason", 0.9),  # the second passage of the two is Arg1
        )
    )
)
TIED = {  # Listing 1: the passages that a sense, or a kind of one, ties to a passage
    (0, "reason"): (1,),
    (0, "cause"): (1,),
    (0, "contigency"): (1,),
    (0, "expansion"): (1,),
    (0, "result"): (),
    (1, "reason"): (0,),
    (1, "cause"): (0, 2),
    (1, "contigency"): (0, 2),
    (1, "temporal"): (),
    (3, "temporal"): (2, 4),
    (3, "asynchronous"): (4,),
    (4, "condition"): (5,),
    (4, "contigency"): (5,),
    (6, "reason"): (7,),
    (7, "reason"): (6,),
    (7, "comparison"): (),
}

SAID = (  # slot, name, passages that say so
    ("who", "tern", (0, 4, 7)),
    ("who", "ada", (3,)),
    ("when", "monday", (0,)),
    ("when", "tuesday", (4,)),
    ("where", "oban", (0,)),
    ("what", "winch", (3, 5)),
    ("predicate", "leave", (4,)),
)
SHARING = (  # Listing 2: what is asked, and the passages that say it, with how much of it they say
    ((("who", "tern"), ("when", "tuesday")), ((4, 2), (0, 1), (7, 1))),
    ((("what", "winch"), ("who", "ada")), ((3, 2), (5, 1))),
    ((("who", "tern"), ("where", "mull")), ((0, 1), (4, 1), (7, 1))),
    ((("where", "mull"),), ()),
)


def _documents() -> list[Document]:
    text = " ".join(" ".join(texts) for texts in TEXTS)
    return [Document("notes/tern.txt", "notes/tern.txt", "The Tern", "text/plain", id=DOCUMENT, text=text)]


def _chunks() -> list[Chunk]:
    begin, found = 0, []
    for id, texts in zip(CHUNKS, TEXTS, strict=True):
        text = " ".join(texts)
        found.append(Chunk("The Tern", begin, begin + len(text), len(text.split()), id=id, text=text))
        begin += len(text) + 1
    return found


def _passages() -> list[Passage]:
    begin, found = 0, []
    for id, text in zip(P, (text for texts in TEXTS for text in texts), strict=True):
        found.append(Passage(begin, begin + len(text), len(text.split()), id=id, text=text))
        begin += len(text) + 1
    return found


def _frames() -> list[SlotFiller]:
    said = sorted((n, slot, name) for slot, name, places in SAID for n in places)
    return [
        SlotFiller(slot, name, int(P[n][-5:]), id=f"{P[n][:-6]}.{i:05}", text=name.capitalize())
        for i, (n, slot, name) in enumerate(said)
    ]


ROWS: dict[str, tuple[Record, ...]] = {
    "documents": tuple(_documents()),
    "chunks": tuple(_chunks()),
    "passages": tuple(_passages()),
    "frames": tuple(_frames()),
    "links": LINKS,
}


def tables() -> dict[str, Table[Any]]:
    """The rows as tables, by name."""
    made = {name: table(type(rows[0]), rows) for name, rows in ROWS.items()}
    return {name: Table(name, one.codec, one.rows) for name, one in made.items()}
