"""one write transaction -> Build: the tables and views that are wanted, brought up to date, or what that would cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING
from unicodedata import unidata_version

from kumihimo.app.cost import Past, Sample, Tally, estimated, history, sampled, without_failures
from kumihimo.app.results import Built, Plan
from kumihimo.app.snapshot import KINDS, counts, failures, lacking
from kumihimo.core.context import Ruler
from kumihimo.core.digests import digest
from kumihimo.core.engine import build, fingerprints, watch
from kumihimo.core.errors import SettingsError
from kumihimo.core.settings import Values
from kumihimo.core.signature import Signature
from kumihimo.core.table import codec
from kumihimo.core.task import Pool, Port, Progress, inline
from kumihimo.core.wiring import ROOT, plan
from kumihimo.index import STEPS, made_of, needed, scope, values
from kumihimo.llm.budget import Purse
from kumihimo.llm.cached_llm import EMBEDDING, Asking
from kumihimo.llm.protocols import Embedder
from kumihimo.llm.registry import RULES, SET, Connections
from kumihimo.methods import METHODS
from kumihimo.rdf import store
from kumihimo.search.fulltext import WordIndex
from kumihimo.search.maintenance import View, kept
from kumihimo.search.vectors import VectorIndex, sweep
from kumihimo.storage.sqlite.ledger import SqlLedger
from kumihimo.storage.sqlite.store import Db, SqlRows

if TYPE_CHECKING:
    from kumihimo.index.documents import Source


_GRAPH = ("braid", "global", "local")  # the methods that a graph is mostly made for


@dataclass(frozen=True, slots=True)
class Build:
    """A build of one index, by whichever models answer `ask` and `embedder`.

    known: all sources of the index; names: those to read again. wanted: the methods it is for. asked: the steps that
    ask a model; others that could do without. afresh: table steps that are to forget what they had made.
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
    asked: frozenset[str]
    ask: Callable[[str], Asking]  # of a step's scope
    embedder: Embedder
    pool: Pool
    progress: Progress | None = None
    check: bool = False
    afresh: frozenset[str] = frozenset()

    def run(self, *, code: str = "", mark: str = "", searched: bool = True) -> Built:
        """Bring everything up to date. code, mark: of the steps and views, if not as they are; searched: views too."""
        from kumihimo.index.documents import refresh

        began, db, steps = perf_counter(), self.db, self.steps
        code, mark = code or table_code(), mark or code_digest("core", "text", "search")
        before = counts(db)
        sweep(db, self.folder)
        store.sweep(self.folder, number := db.meta(store.BUILD, 0))
        ledger = SqlLedger(db)
        watch(steps, ledger)
        with kept(ledger, self._views() if searched else [], mark, self.progress):
            sources = self.known.values()
            found = refresh(ledger, sources, self.names, code=code, check=self.check, progress=self.progress)
            build(
                steps,
                ledger,
                settings=self._values(),
                ports=self._ports,
                code=code,
                pool=self.pool,
                progress=self.progress,
                afresh=self.afresh,
            )
        if ledger.written or counts(db) != before:
            db.set_meta(store.BUILD, number + 1)
        db.set_meta("methods", list(self.wanted))
        db.set_meta("models", self._models())
        db.set_meta("settings", {scope(name): self.settings.get(scope(name), {}) for name in STEPS})
        files, partly = (found.read, found.same, found.gone, tuple(found.skipped)), tuple(found.partly)
        spent, saved, seconds = dict(self.purse.spent), dict(self.purse.saved), perf_counter() - began
        return Built(*files, before, counts(db), ledger.written, failures(db), seconds, spent, saved, (), partly)

    @property
    def steps(self) -> dict[str, Signature]:
        """Those whose tables the wanted methods read, or that make what those are made of."""
        wanted = needed(table for name in self.wanted for table in METHODS[name].tables)
        return {name: step for name, step in STEPS.items() if name in wanted}

    def _values(self) -> dict[str, dict[str, object]]:
        return {name: values(name, self.settings) for name in self.steps}

    def _ports(self, step: str) -> dict[str, Port]:
        return {"ruler": self.ruler} | ({"ask": self._asking(step)} if step in self.asked else {})

    def _asking(self, step: str) -> Asking:
        """Raises SettingsError where no model is set, naming all that need one."""
        try:
            return self.ask(scope(step))
        except SettingsError as error:
            needy = " and ".join(lacking(self.models, self.steps))
            raise SettingsError(f"writing {needy} needs a chat model: {SET}") from error

    def _models(self) -> dict[str, str]:
        could = [name for name, step in self.steps.items() if "ask" in step.ports]
        asking = {name: self.ask(scope(name)).mark if name in self.asked else RULES for name in could}
        embedder = {"embedder": self.embedder.mark} if self._vectors() else {}
        return embedder | {"tokenizer": self.ruler.mark} | asking

    def _views(self) -> list[View]:
        """What the wanted methods search."""
        asked = [METHODS[name] for name in self.wanted]
        words = dict.fromkeys(table for s in asked if "match" in s.ports for table in s.tables if KINDS[table].FOUND)
        return [*(WordIndex(self.db, table, codec(KINDS[table])) for table in words), *self._vectors()]

    def _vectors(self) -> list[VectorIndex]:
        asked = [METHODS[name] for name in self.wanted]
        tables = dict.fromkeys(table for s in asked if "near" in s.ports for table in s.tables if KINDS[table].FOUND)
        return [VectorIndex(self.db, self.folder, table, codec(KINDS[table]), self.embedder) for table in tables]

    @property
    def ruled(self) -> tuple[str, ...]:
        """The methods to name for the chat model to make the graph; none where it does, or somebody has named some."""
        could = [name for name, step in self.steps.items() if "ask" in step.optional and name not in self.asked]
        asks = any(self.models.chat(scope(name)) for name in could)
        return _GRAPH if asks and list(self.wanted) == free_methods(self.models) else ()

    # -- what it would cost

    def changes(self) -> list[str]:
        """What was paid for, and would be made by something else now."""
        steps, db = self.steps, self.db
        prints = fingerprints(steps, settings=self._values(), ports=self._ports, code=table_code())
        held: dict[str, str] = dict(db.all("SELECT step, fingerprint FROM steps WHERE fingerprint IS NOT NULL"))
        other = {name for name in steps if name in held and held[name] != prints[name]}
        paid = made_of(self.asked) & made_of([name for name, mark in db.meta("models", {}).items() if mark != RULES])
        again = ", ".join(name for name in steps if name in other & paid)
        said = [f"{again} would be asked for again"] if again else []
        if self.models.paid_embedder:
            viewed = [view.table for view in self._vectors() if view.table in other]
            said += [f"{table} would be embedded again where they change" for table in viewed]
        return said + self.other_embedder()

    def other_embedder(self) -> list[str]:
        """What another model has embedded: all of it would be embedded anew."""
        made_with = {view.table: (self.db.meta(view.name) or {}).get("embedder") for view in self._vectors()}
        now = self.embedder.mark
        others = {table: mark for table, mark in made_with.items() if mark not in (None, now)}
        return [f"{table} were embedded by {mark}, and would be by {now}" for table, mark in others.items()]

    def would_pay_again(self) -> bool:
        """Whether anything that was asked before would be asked again, and not be remembered."""
        tally = Tally(self.models, self.ruler, before(self.db))
        failing = sum(step.startswith("vectors_") for step, _, _ in failures(self.db))
        searched = self.models.paid_embedder is not None
        replace(self._silent(tally), names=set(), pool=without_failures).undone(searched=searched)
        texts = tally.asked[EMBEDDING].texts if EMBEDDING in tally.asked else 0
        return texts > failing or any(asked.calls for step, asked in tally.asked.items() if step != EMBEDDING)

    def plan(self, sample: int = 0) -> Plan:
        """What `run` would ask, found by running it with models that answer from the memo alone; all is undone.

        sample: ask about so many chunks in earnest, to say more about the rest.
        """
        past = self._sampled(sample) if sample else {}
        tally = Tally(self.models, self.ruler, before(self.db))
        self._silent(tally).undone()
        spent = self.models.memo().usage() if tally.asked else []
        return estimated(tally.asked, self._reads(), history(spent, tally.asked) | past, spent)

    def _silent(self, tally: Tally) -> Build:
        return replace(self, ask=tally.asking, embedder=tally.embedder(), pool=inline, purse=Purse(), progress=None)

    def _sampled(self, size: int) -> dict[str, Past]:
        documents = SqlRows(self.db, ROOT)
        sample = Sample(size, self.pool, lambda id: documents.get(id) is not None)
        replace(self, pool=sample).undone(searched=False)
        return sampled(sample, self.purse)

    def undone(self, *, code: str = "", mark: str = "", searched: bool = True) -> None:
        """Run it, and take back all that it did."""
        self.db.run("SAVEPOINT dry")
        try:
            self.run(code=code, mark=mark, searched=searched)
        finally:
            self.db.run("ROLLBACK TO dry")
            self.db.run("RELEASE dry")
            sweep(self.db, self.folder)

    def _reads(self) -> dict[str, list[str]]:
        """Of each step the steps that ask, among those it is made of, however far back."""
        reads: dict[str, list[str]] = {}
        for step in plan(self.steps):
            near = [scope(name) for name in step.inputs if name in self.asked]
            far = [r for name in step.inputs for r in reads.get(scope(name), [])]
            reads[scope(step.name)] = list(dict.fromkeys([*near, *far]))
        asks = [scope(name) for name in self.steps if name in self.asked]
        viewed = [view.table for view in self._vectors()]
        reads[EMBEDDING] = [name for name in asks if any(name in (table, *reads[table]) for table in viewed)]
        return reads


def free_methods(models: Connections) -> list[str]:
    """The methods whose tables and views cost nothing to build."""
    embeds = models.paid_embedder is not None
    asked = asking(models)
    return [
        name
        for name, method in METHODS.items()
        if not (embeds and "near" in method.ports) and asked.isdisjoint(needed(method.tables))
    ]


def left_out(models: Connections, wanted: Sequence[str]) -> tuple[str, ...]:
    """The methods that are not among those that cost nothing, and could be built for."""
    if list(wanted) != free_methods(models):
        return ()
    return tuple(name for name, m in METHODS.items() if name not in wanted and not lacking(models, m.tables))


def before(db: Db) -> dict[str, str]:
    """Of each scope whose table a model has made, the mark of that model."""
    return {scope(name): mark for name, mark in db.meta("models", {}).items() if name in STEPS and mark != RULES}


def asking(models: Connections, before: Mapping[str, str] | None = None, *, named: bool = False) -> frozenset[str]:
    """The steps that ask a model: of those that can do without, the ones that have one where methods are named, and
    those that were made by one before. The others make their tables by rule.

    before: by what each was made. named: somebody has said for which methods this build is.
    """
    before = before or {}

    def asks(name: str) -> bool:
        if "ask" not in STEPS[name].optional:
            return True
        if models.by_rule(scope(name)):
            return False
        return before.get(name, RULES) != RULES or (named and models.chat(scope(name)) is not None)

    return frozenset(name for name, step in STEPS.items() if "ask" in step.ports and asks(name))


_DECIDE = (  # what is in a table, too
    "charset-normalizer",
    "json-repair",
    "numpy",
    "nupunkt",
    "pydantic",
    "pypdf",
    "pypdfium2",
    "python-calamine",
    "python-docx",
    "python-pptx",
    "pyyaml",
    "selectolax",
    "tokenizers",
    "trafilatura",
    "wordllama",
)


def table_code() -> str:
    """The digest of what makes tables."""
    return code_digest("core", "text", "readers", "storage", "llm", "search", "index")


@cache
def code_digest(*rooms: str) -> str:
    """The digest of the code, prompts and lists in these rooms, and of the libraries that decide what they make."""
    house = Path(__file__).parents[1]
    files = sorted(path for room in rooms for end in ("py", "md", "tsv") for path in (house / room).rglob(f"*.{end}"))
    libraries = [f"{name} {_version(name)}" for name in _DECIDE] + [unidata_version]
    return digest(*libraries, *(part for path in files for part in (path.name, path.read_text(encoding="utf-8"))))


def _version(library: str) -> str:
    """None where it is not installed: what only it can read is read once it is."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(library)
    except PackageNotFoundError:
        return "none"
