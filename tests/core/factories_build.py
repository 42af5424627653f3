"""documents -> tables: builds of small steps, without views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from kumihimo.core.digests import hash_parts
from kumihimo.core.engine import build_tables, watch_tables
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Document, Record
from kumihimo.core.settings import SettingValues
from kumihimo.core.signature import collect_signatures
from kumihimo.core.table import Group, Row, Table
from kumihimo.core.task import Pool, Port, Progress, inline
from kumihimo.storage.sqlite.ledger import SqlLedger
from kumihimo.storage.sqlite.store import SqlRows, Store
from tests.laws.factories_history import load

Step = Callable[..., Any]


@dataclass
class Small:
    """An index folder.

    Documents are given as uri -> text; `id` returns the id of a uri.
    """

    folder: Path
    ports: Mapping[str, Port] = field(default_factory=dict)
    pool: Pool = inline
    progress: Progress | None = None

    def build(
        self, steps: list[Step], documents: Mapping[str, str], settings: SettingValues | None = None, code: str = "1"
    ) -> None:
        store = Store(self.folder)
        with store.write_transaction() as db:
            ledger = SqlLedger(db)
            wired = collect_signatures(*steps)
            watch_tables(wired, ledger)
            load(ledger, documents)
            build_tables(
                wired,
                ledger,
                settings=settings or {},
                ports=lambda _: self.ports,
                code=code,
                pool=self.pool,
                progress=self.progress,
            )

    def rows(self, table: str) -> list[Row]:
        store = Store(self.folder)
        try:
            with store.read_transaction() as db:
                return [row for page in SqlRows(db, table).pages() for row in page]
        finally:
            store.close()

    def texts(self, table: str) -> list[str]:
        return [row[1] for row in self.rows(table)]

    def query(self, sql: str) -> list[Row]:
        store = Store(self.folder)
        try:
            with store.read_transaction() as db:
                return db.all(sql)
        finally:
            store.close()

    def failures(self) -> list[Row]:
        return self.query("SELECT step, maker, error FROM failed ORDER BY step, maker")


def id(uri: str) -> str:
    return hash_parts(uri)


# -- steps of every shape


@dataclass(frozen=True, slots=True)
class Word(Record):
    GROUP: ClassVar[str] = "name"
    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("number",)
    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Longer(Record):
    """A word with a different second column."""

    GROUP: ClassVar[str] = "name"
    name: str
    length: int


@dataclass(frozen=True, slots=True)
class Entry(Record):
    count: int


@dataclass(frozen=True, slots=True)
class Title(Record):
    pass


@dataclass(frozen=True, slots=True)
class Letter(Record):
    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("capital", "share")
    capital: bool = False
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Total(Record):
    pass


@dataclass(frozen=True, slots=True)
class Part(Record):
    """A part of a document.

    Its uri is the uri of its parent and one letter more.
    """

    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("parent",)
    WAVE: ClassVar[str] = "depth"
    parent: str
    depth: int


@dataclass(frozen=True, slots=True)
class Report(Record):
    pass


@dataclass
class Model:
    """A model made from a function; it counts its prompts."""

    answer: Callable[[str], str]
    fingerprint: str = "model"
    prompt_counts: Counter[str] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.prompt_counts = Counter()

    def __call__(self, prompt: str) -> str:
        self.prompt_counts[prompt] += 1
        return self.answer(prompt)


def words(document: Document) -> Iterable[Word]:
    """Yield each word."""
    for i, word in enumerate(document.text.split()):
        yield Word(text=word, name=hash_parts(word), number=i)


def titles(document: Document) -> Title | None:
    """Return the first line, if any."""
    return Title(text=document.text.splitlines()[0]) if document.text else None


def entries(members: Group[Word]) -> Entry:
    """Return an entry for all uses of a word."""
    return Entry(text=members[0].text, count=len(members))


def letters(entry: Entry) -> Iterable[Letter]:
    """Return the letters of an entry."""
    return [Letter(text=letter) for letter in entry.text]


def totals(entries: Table[Entry]) -> Iterable[Total]:
    """Return the number of words of each length."""
    lengths = Counter(len(entry.text) for entry in entries)
    return [Total(id=f"of{length}", text=str(n)) for length, n in lengths.items()]


def parts(documents: Table[Document]) -> Iterable[Part]:
    """Return each document as a part, below its parent's uri."""
    return [Part(id=f"p{d.uri}", text=d.text, parent=f"p{d.uri[:-1]}", depth=len(d.uri)) for d in documents]


def reports(part: Part, parts: Table[Part], reports: Table[Report], llm: Model) -> Report:
    """Return a report on a part and the reports on its children."""
    below = [reports[child.id].text for child in parts.where(parent=part.id) if reports.get(child.id)]
    return Report(text=llm(" ".join([part.text, *below])))


def failing(*prompts: str) -> Model:
    """Return a model that uppercases prompts, and fails at these."""

    def answer(prompt: str) -> str:
        if prompt in prompts:
            raise ItemFailed(f"no answer to {prompt}")
        return prompt.upper()

    return Model(answer)
