"""a history of documents -> an index of toy tables, and its contents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

from kumihimo.core.digests import hash_parts
from kumihimo.core.engine import build_tables, diff_rows, watch_tables
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Document
from kumihimo.core.settings import SettingValues
from kumihimo.core.signature import Signature
from kumihimo.core.table import Row, Table, codec
from kumihimo.core.task import Pool
from kumihimo.core.wiring import ROOT, Port, order_steps
from kumihimo.llm.cached_llm import create_llm
from kumihimo.search.fulltext import Bm25Search, KeywordIndex, maintain_indexes
from kumihimo.search.vectors import CosineSearch, VectorIndex, load_matrices, remove_unused_files
from kumihimo.storage.database import Database, SqlRows
from kumihimo.storage.ledger import SqlLedger
from kumihimo.testing.fake_models import FakeChat, FakeEmbedder
from tests.stores import open_cache, open_store
from tests.toy_steps import TOY_STEPS

Documents = Mapping[str, str]  # uri -> text
Tables = dict[str, list[list[Any]]]
SEARCHED = ("lines", "entities")
QUESTIONS = ("Ada and Bo", "Cy Dee Eve", "Flo")


class BuildKilled(BaseException):
    """The end of a build, as if by a signal."""


@dataclass
class World:
    """An index folder, its model, and the way to build it."""

    folder: Path
    steps: Mapping[str, Signature] = field(default_factory=lambda: TOY_STEPS)
    settings: SettingValues = field(default_factory=dict)
    code: str = "1"
    salt: str = ""  # selects the prompts that fail; empty: none
    pool: Pool = map
    calls_left: int = 10**9  # calls before the build is killed

    def __post_init__(self) -> None:
        self.store, self.cache = open_store(self.folder), open_cache(self.folder)
        self.chat = FakeChat(self._reply)

    def _reply(self, prompt: str) -> str:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise BuildKilled
        if self.salt and int(hash_parts(self.salt, prompt), 16) % 4 == 0:
            raise ItemFailed(f"the model has no answer to {prompt!r}")
        kind, _, text = prompt.partition(": ")
        sleep(0.001 * (kind == "names"))  # long enough for an equal request to arrive
        if kind == "names":
            return " ".join(word for word in text.split() if word[0].isupper())
        return f"{kind} of {hash_parts(text)[:6]}"

    def build(self, documents: Documents) -> None:
        with self.store.write_transaction() as db:
            remove_unused_files(db, self.folder)
            ledger = SqlLedger(db)
            steps = order_steps(self.steps)
            watch_tables(steps, ledger)
            views = [*self._views(db, KeywordIndex), *self._views(db, VectorIndex)]
            ports: dict[str, Port] = {"llm": create_llm(self.chat, self.cache)}
            with maintain_indexes(ledger, views, self.code):
                load(ledger, documents)
                build_tables(
                    steps,
                    ledger,
                    settings=self.settings,
                    ports=lambda _: ports,
                    code=lambda _: self.code,
                    pool=self.pool,
                )

    def _views(self, db: Database, view: type[Any]) -> list[Any]:
        options = {"folder": self.folder, "embedder": FakeEmbedder()} if view is VectorIndex else {}
        record_types = {table: self.steps[table].output_type for table in SEARCHED if table in self.steps}
        return [
            view(db=db, table=table, codec=codec(record), **options) for table, record in record_types.items() if record
        ]

    def tables(self) -> Tables:
        """Return the contents of the index and its search results."""
        with self.store.read_transaction() as db:
            contents: Tables = {
                name: [list(row) for page in SqlRows(db, name).pages() for row in page] for name in self.steps
            }
            contents["failed"] = [list(row) for row in db.all("SELECT * FROM failed ORDER BY step, maker")]
            contents["looked"] = [
                [*row[:2], row[2].hex()] for row in db.all("SELECT * FROM looked ORDER BY step, maker")
            ]
            contents |= self._search_results(db)
        return contents

    def fingerprints(self) -> dict[str, str]:
        with self.store.read_transaction() as db:
            return dict(db.all("SELECT step, fingerprint FROM steps WHERE fingerprint IS NOT NULL"))

    def _search_results(self, db: Database) -> Tables:
        vector_search = CosineSearch(db, lambda *_: FakeEmbedder(), load_matrices(db, self.folder, {}))
        keyword_search = Bm25Search(db)
        results: Tables = {}
        for name in SEARCHED:
            record = self.steps[name].output_type if name in self.steps else None
            if record:
                table = Table(name, codec(record), SqlRows(db, name))
                for kind, search in (("vector_search", vector_search), ("keyword_search", keyword_search)):
                    results[f"{kind} {name}"] = [
                        [e.record.id, e.score] for question in QUESTIONS for e in search(table, question, k=4)
                    ]
        return results

    def calls(self) -> int:
        return sum(self.chat.prompt_counts.values())

    def close(self) -> None:
        self.store.close()
        self.cache.close()


def load(ledger: SqlLedger, documents: Documents) -> None:
    """Replace the documents of the index."""
    ledger.ensure_table(ROOT, codec(Document))
    encode = codec(Document).encode
    rows = [
        encode(hash_parts(uri), Document(uri=uri, file=uri, title=uri, media_type="text/plain", text=text))
        for uri, text in documents.items()
    ]
    old: list[Row] = []
    new: list[Row] = []
    diff_rows({row[0]: row for page in ledger.rows(ROOT).pages() for row in page}, rows, old, new)
    ledger.change(ROOT, old, new)
    ledger.settle(ROOT)
