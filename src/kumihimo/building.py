"""one write transaction -> Build: the tables and views that are wanted, brought up to date, or what that would cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING
from unicodedata import unidata_version

from kumihimo.core.context import Ruler
from kumihimo.core.flow import Progress, build, fingerprints, watch
from kumihimo.core.records import digest
from kumihimo.core.settings import Values
from kumihimo.core.signature import Signature
from kumihimo.core.table import codec
from kumihimo.core.task import Pool, Port, inline
from kumihimo.core.wiring import plan
from kumihimo.index import STEPS, paid_steps
from kumihimo.methods import METHODS
from kumihimo.planning import Past, Sample, Tally, estimated, history, sampled
from kumihimo.ports.asking import Asking
from kumihimo.ports.connect import Connections
from kumihimo.ports.ledger import SqlLedger
from kumihimo.ports.models import Embedder
from kumihimo.ports.purse import Purse
from kumihimo.ports.store import Db, SqlRows
from kumihimo.reading import KINDS, counts, failures
from kumihimo.results import Built, Plan
from kumihimo.views.upkeep import View, kept
from kumihimo.views.vectors import VectorIndex, sweep
from kumihimo.views.words import WordIndex

if TYPE_CHECKING:
    from kumihimo.index.documents import Source


@dataclass(frozen=True, slots=True)
class Build:
    """A build of one index, by whichever models answer `ask` and `embedder`.

    known: all sources of the index; names: those to read again. wanted: the methods it is for.
    """

    db: Db
    folder: Path
    settings: Values
    models: Connections
    ruler: Ruler
    known: dict[str, Source]
    names: set[str]
    wanted: Sequence[str]
    purse: Purse
    ask: Callable[[str], Asking]  # of a step
    embedder: Embedder
    pool: Pool
    progress: Progress | None = None
    check: bool = False

    def run(self, *, code: str = "", mark: str = "", searched: bool = True) -> Built:
        """Bring everything up to date. code, mark: of the steps and views, if not as they are; searched: views too."""
        from kumihimo.index.documents import refresh

        began, db, steps = perf_counter(), self.db, self.steps
        code, mark = code or table_code(), mark or code_digest("core", "views")
        before = counts(db)
        sweep(db, self.folder)
        ledger = SqlLedger(db)
        watch(steps, ledger)
        with kept(ledger, self._views() if searched else [], mark, self.progress):
            sources = [self.known[name] for name in self.known]
            found = refresh(ledger, sources, self.names, code=code, check=self.check, progress=self.progress)
            settings, ports = self.settings, self._ports
            build(steps, ledger, settings=settings, ports=ports, code=code, pool=self.pool, progress=self.progress)
        db.set_meta("methods", list(self.wanted))
        db.set_meta("models", self._models())
        db.set_meta("settings", {name: self.settings.get(name, {}) for name in STEPS})
        files = (found.read, found.same, found.gone, tuple(found.skipped))
        spent, saved, seconds = dict(self.purse.spent), dict(self.purse.saved), perf_counter() - began
        return Built(*files, before, counts(db), ledger.written, failures(db), seconds, spent, saved)

    @property
    def steps(self) -> dict[str, Signature]:
        """Those that cost nothing, and those that the wanted methods read."""
        needed = {table for name in self.wanted for table in METHODS[name].tables}
        for step in reversed(plan(STEPS)):
            needed.update(step.inputs if step.name in needed else ())
        return {name: step for name, step in STEPS.items() if name in needed or name not in paid_steps()}

    def _ports(self, step: str) -> dict[str, Port]:
        return {"ruler": self.ruler} | ({"ask": self.ask(step)} if "ask" in STEPS[step].ports else {})

    def _models(self) -> dict[str, str]:
        asking = {name: self.ask(name).mark for name, step in self.steps.items() if "ask" in step.ports}
        return {"embedder": self.embedder.mark, "tokenizer": self.ruler.mark} | asking

    def _views(self) -> list[View]:
        """What the wanted methods search."""
        asked = [METHODS[name] for name in self.wanted]
        words = dict.fromkeys(table for s in asked if "match" in s.ports for table in s.tables)
        vectors = dict.fromkeys(table for s in asked if "near" in s.ports for table in s.tables)
        return [
            *(WordIndex(self.db, table, codec(KINDS[table])) for table in words),
            *(VectorIndex(self.db, self.folder, table, codec(KINDS[table]), self.embedder) for table in vectors),
        ]

    # -- what it would cost

    def changes(self) -> list[str]:
        """What was paid for, and would be made by something else now."""
        steps, db = self.steps, self.db
        prints = fingerprints(steps, settings=self.settings, ports=self._ports, code=table_code())
        held: dict[str, str] = dict(db.all("SELECT step, fingerprint FROM steps WHERE fingerprint IS NOT NULL"))
        other = {name for name in steps if name in held and held[name] != prints[name]}
        again = ", ".join(name for name in steps if name in other & paid_steps())
        said = [f"{again} would be asked for again"] if again else []
        paid = self.models.paid_embedder is not None
        for view in (view for view in self._views() if isinstance(view, VectorIndex)):
            made_with = (db.meta(view.name) or {}).get("embedder", self.embedder.mark)
            if made_with != self.embedder.mark:
                said.append(f"{view.table} were embedded by {made_with}, and would be by {self.embedder.mark}")
            elif paid and view.table in other:
                said.append(f"{view.table} would be embedded again where they change")
        return said

    def plan(self, sample: int = 0) -> Plan:
        """What `run` would ask, found by running it with models that answer from the memo alone; all is undone.

        sample: ask about so many chunks in earnest, to say more about the rest.
        """
        past: dict[str, Past] = {}
        if sample:
            past = self._sampled(sample)
        tally = Tally(self.models, self.ruler)
        dry = replace(self, ask=tally.asking, embedder=tally.embedder(), pool=inline, purse=Purse())
        with _undone(self.db):
            dry.run()
        spent = self.models.memo().usage() if tally.asked else []
        return estimated(tally.asked, self._reads(), history(spent, tally.asked) | past, spent)

    def _sampled(self, size: int) -> dict[str, Past]:
        rows = SqlRows(self.db, "chunks")
        chunks = lambda: (id for page in rows.pages("id") for (id,) in page)  # noqa: E731
        sample = Sample(size, self.pool, chunks, lambda id: SqlRows(self.db, "documents").get(id) is not None)
        with _undone(self.db):
            replace(self, pool=sample).run(searched=False)
        return sampled(sample, self.purse)

    def _reads(self) -> dict[str, list[str]]:
        """Of each step the steps that ask, among those it is made of, however far back."""
        reads: dict[str, list[str]] = {}
        for step in plan(self.steps):
            near = [name for name in step.inputs if name in STEPS and "ask" in STEPS[name].ports]
            reads[step.name] = list(dict.fromkeys([*near, *(r for name in step.inputs for r in reads.get(name, []))]))
        return reads


@contextmanager
def _undone(db: Db) -> Iterator[None]:
    """Within, anything may be built; nothing of it stays."""
    db.run("SAVEPOINT dry")
    try:
        yield
    finally:
        db.run("ROLLBACK TO dry")
        db.run("RELEASE dry")


def free_methods(models: Connections) -> list[str]:
    """The methods whose tables and views cost nothing to build."""
    embeds = models.paid_embedder is not None
    return [
        name
        for name, method in METHODS.items()
        if not (embeds and "near" in method.ports) and not paid_steps().intersection(method.tables)
    ]


_DECIDE = ("charset-normalizer", "numpy", "nupunkt", "selectolax", "tokenizers", "wordllama")  # what is in a table, too


def table_code() -> str:
    """The digest of what makes tables."""
    return code_digest("core", "ports", "views", "index")


@cache
def code_digest(*rooms: str) -> str:
    """The digest of the code and prompts in these rooms, and of the libraries that decide what they make."""
    from importlib.metadata import version

    house = Path(__file__).parent
    files = sorted(path for room in rooms for end in ("py", "md") for path in (house / room).rglob(f"*.{end}"))
    libraries = [f"{name} {version(name)}" for name in _DECIDE] + [unidata_version]
    return digest(*libraries, *(part for path in files for part in (path.name, path.read_text(encoding="utf-8"))))
