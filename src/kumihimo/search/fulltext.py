"""table -> full-text index: BM25 over words; pairs of characters in scripts without spaces.

The words are our own tokens, and change in the same transaction as the rows. A forward index keeps the tokens of each
row as numbers: a method can then compare a question with many rows without reading their texts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import log
from typing import Any, ClassVar, Protocol

from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import IndexDamaged, IndexUnavailable
from kumihimo.core.executors import BuildExecutor, SharedWork, WorkerContext, inline, run_jobs
from kumihimo.core.table import Codec, Row, Table, codec
from kumihimo.core.task import Progress, ProgressEvent
from kumihimo.llm.local_embedder import find_subwords
from kumihimo.search import partial_rows, postings
from kumihimo.search.protocols import RowTokens, WordRow, visible_slots
from kumihimo.storage.database import Database, SqlRows
from kumihimo.storage.ledger import DerivedView, SqlLedger
from kumihimo.text import lazy_numpy as np
from kumihimo.text.tokens import pack_tokens, search_tokens, tokenize, word_tokens

_FILL_ROWS = 100  # of a job that splits texts into words


@dataclass(frozen=True, slots=True)
class KeywordIndex:
    """The full-text index of one table, updated while the table is built."""

    db: Database
    table: str
    codec: Codec[Any]
    words: postings.Postings = field(init=False)
    kind: ClassVar[str] = "words"

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", postings.Postings(self.db, self.table))

    @property
    def name(self) -> str:
        """Return the name of the index and of its `meta` row."""
        return self.words.name

    def ensure(self, fingerprint: str) -> bool:
        """Create the index if missing or outdated; return whether to fill it."""
        if self.db.meta(self.name) == fingerprint:
            return False
        self.clear()
        self.db.set_meta(self.name, fingerprint)
        return True

    def clear(self) -> None:
        self.words.create()

    def replace(self, old: list[Row], new: list[Row]) -> None:
        """Remove the old rows' tokens and add those of the new rows."""
        before, after = self.codec.index_texts(old), self.codec.index_texts(new)
        unchanged = {id for id in before if after.get(id) == before[id]}
        self.words.remove({id: _list_tokens(text) for id, text in before.items() if id not in unchanged})
        self.words.add(split_words(self.codec, {id: text for id, text in after.items() if id not in unchanged}))

    def fill(self, pages: Iterator[list[Row]], executor: BuildExecutor) -> Iterator[int]:
        """Add all rows; yield how many after each job."""
        parts = (page[i : i + _FILL_ROWS] for page in pages for i in range(0, len(page), _FILL_ROWS))
        for row_count, words in run_jobs(executor, SharedWork(self._fill_page, WordsSpec(self.table)), parts):
            self.words.add(words)
            yield row_count

    def _fill_page(self, page: list[Row]) -> tuple[int, list[WordRow]]:
        return len(page), split_words(self.codec, self.codec.index_texts(page))

    def finish(self) -> None:
        self.words.finish()

    def find_damage(self) -> str:
        """Return what is wrong with the index; empty: nothing."""
        pages = SqlRows(self.db, self.table).pages()
        return self.words.find_damage(split_words(self.codec, self.codec.index_texts(page)) for page in pages)


@dataclass(frozen=True, slots=True)
class WordsSpec:
    """The splitting of a table's rows into words, in another process."""

    table: str

    @property
    def name(self) -> str:
        return f"words of {self.table}"

    def open(self, context: WorkerContext) -> Callable[[list[Row]], tuple[int, list[WordRow]]]:
        table_codec = codec(context.catalogue.record_types[self.table])
        return lambda page: (len(page), split_words(table_codec, table_codec.index_texts(page)))

    def describe(self, job: list[Row]) -> str:
        return f"{job[0][0]} to {job[-1][0]}"


def split_words(table_codec: Codec[Any], texts: Mapping[str, str]) -> list[WordRow]:
    """Return the rows of the index for these texts."""
    tokens = {id: _list_tokens(text) for id, text in texts.items()}
    if not table_codec.record.FORWARD_INDEX:
        return [WordRow(id, listed, None, None) for id, listed in tokens.items()]
    subwords = find_subwords(list(texts.values()))
    return list(map(WordRow, tokens, tokens.values(), map(pack_tokens, tokens.values()), subwords))


def _list_tokens(text: str) -> list[str]:
    """Return the tokens of a text.

    Without any, an empty one, so that each row has a length.
    """
    return tokenize(text) or [""]


@dataclass(frozen=True, slots=True)
class Bm25Search:
    """`KeywordSearch` over one snapshot: BM25, ties by id."""

    db: Database

    def __call__(self, table: Table[Any], text: str | Sequence[str], *, k: int) -> Context:
        words = self._postings(table)
        terms = search_tokens(text) if isinstance(text, str) else list(text)
        if not terms or k < 1:
            return Context()
        ranked = words.rank(terms, k, visible_slots(self.db, words.slot_table, table.view))
        partial = partial_rows.score_by_words(words, table, table.view, terms) if table.view else []
        top_pairs = sorted((-score, id) for score, id in (*ranked, *partial))[:k]
        rows = table.get_many(id for _, id in top_pairs)
        return Context(tuple(Evidence(table.name, rows[id], -score) for score, id in top_pairs))

    def tokens(self, table: Table[Any], ids: Sequence[str]) -> dict[str, RowTokens]:
        relation = self.db.relation(self._postings(table).slot_table)
        places = np.array([1, 1 << 8, 1 << 16], dtype=np.uint32)  # of the three bytes of a number
        rows = self.db.all_in(f"SELECT id, words, subwords FROM {relation} WHERE id", ids)
        if any(words is None or len(words) % 3 or len(subwords) % 2 for _, words, subwords in rows):
            raise IndexDamaged(f"the tokens of {table.name} are damaged: `kumi check --repair` makes them again")
        found = {
            id: RowTokens(np.frombuffer(words, np.uint8).reshape(-1, 3) @ places, np.frombuffer(subwords, np.uint16))
            for id, words, subwords in rows
        }
        return {id: found[id] for id in ids if id in found}

    def _postings(self, table: Table[Any]) -> postings.Postings:
        words = postings.Postings(self.db, table.name)
        if not self.db.has(words.blocks) and any(map(self.db.has, words.earlier)):
            raise IndexUnavailable(f"an earlier version indexed the words of {table.name}: run `kumi index`")
        if not self.db.has(words.blocks):
            raise IndexUnavailable(f"{table.name} is not indexed by words: `kumi index --methods bm25` does that")
        return words


class SearchIndex(DerivedView, Protocol):
    """A search index over one table."""

    @property
    def kind(self) -> str: ...  # for progress messages
    @property
    def table(self) -> str: ...
    @property
    def name(self) -> str: ...  # of its index table
    def ensure(self, fingerprint: str) -> bool: ...
    def fill(self, pages: Iterator[list[Row]], executor: BuildExecutor) -> Iterator[int]: ...
    def finish(self) -> None: ...


@contextmanager
def maintain_indexes(
    ledger: SqlLedger,
    views: Sequence[SearchIndex],
    fingerprint: str,
    progress: Progress | None = None,
    executor: BuildExecutor = inline,
) -> Iterator[None]:
    """Update the indexes with each table write inside the context.

    A new index, or one with another fingerprint, is filled on exit.
    """
    _drop_unused(ledger.db, views)
    to_fill = [view for view in views if view.ensure(fingerprint)]
    for view in views:
        if view not in to_fill:
            ledger.views[view.table].append(view)
    yield
    for view in to_fill:
        fill_index(view, ledger.db, progress, executor)
    for view in views:
        view.finish()


def _drop_unused(db: Database, views: Sequence[SearchIndex]) -> None:
    """Drop the indexes that no method uses."""
    names = {view.name for view in views}
    for name in stored_indexes(db):
        if name not in names:
            for suffix in ("", "_blocks", "_postings", "_ids", "_near"):
                db.drop_table(f"{name}{suffix}")
            db.forget_meta(name)
            db.run("DELETE FROM failed WHERE step = ?", name)


def stored_indexes(db: Database) -> list[str]:
    """Return the names of the search indexes, such as words_chunks."""
    return db.meta_names("words_", "vectors_")


def fill_index(index: SearchIndex, db: Database, progress: Progress | None, executor: BuildExecutor = inline) -> None:
    """Fill a new index with all rows of its table."""
    rows = SqlRows(db, index.table)
    row_count, total = 0, rows.count()
    for page_size in index.fill(rows.pages(), executor):
        row_count += page_size
        if progress:
            progress(ProgressEvent(f"{index.kind} of {index.table}", row_count, total))


_STEMS = "stems_by_letter"  # what is computed once per build


@dataclass(frozen=True)
class IndexedWords:
    """`WordIndex` of the visible rows of one table."""

    db: Database
    table: Table[Any]
    store: postings.Postings

    def has(self, text: str) -> bool:
        slots = visible_slots(self.db, self.store.slot_table, self.table.view)
        return self.store.has_phrase(word_tokens(text), slots)

    def passages(self, text: str, k: int) -> Sequence[str]:
        hits = Bm25Search(self.db)(self.table, text, k=k)
        return [item.record.index_text for item in hits]

    def rarity(self, tokens: Sequence[str]) -> Sequence[float]:
        view, total = self.table.view, self.store.totals()[0]
        slots = visible_slots(self.db, self.store.slot_table, view)
        counts = self.store.count_each(tokens, slots)
        if view and slots:
            partial, shown = partial_rows.count_by_words(self.table, view, tokens)
            total, counts = len(slots.visible) + partial, counts + shown
        return [log(1 + (total - counts[token] + 0.5) / (counts[token] + 0.5)) for token in tokens]

    def stems(self, letter: str) -> Mapping[str, int]:
        by_letter: dict[str, Mapping[str, int]] = (
            self.table.view.once(_STEMS, dict)
            if self.table.view
            else self.db.once_per_build((_STEMS, self.table.name), dict)
        )
        if letter not in by_letter:
            slots = visible_slots(self.db, self.store.slot_table, self.table.view)
            by_letter[letter] = self.store.count_words(letter, slots)
        return by_letter[letter]
