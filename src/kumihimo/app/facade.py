"""a folder -> Kumihimo: index, remove, ask, retrieve, trace, status. Every interface uses only this."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kumihimo.app import config, settings_registry
from kumihimo.app.results import Built, Plan, Solutions, Status
from kumihimo.app.snapshot import Reading, counts, failures, method, partly
from kumihimo.core.context import Answer, Context
from kumihimo.core.errors import NeedsConsent, SourceError, Unusable
from kumihimo.core.records import Reference
from kumihimo.core.settings import Values, resolve
from kumihimo.core.spans import Span
from kumihimo.core.task import Progress, inline
from kumihimo.llm.budget import Caps, Purse
from kumihimo.llm.concurrency import heard, threads
from kumihimo.llm.local_embedder import LocalRuler
from kumihimo.llm.protocols import Hear
from kumihimo.llm.registry import Connections
from kumihimo.search.vectors import Mapped, matrices
from kumihimo.storage.sqlite.response_cache import Memo, Spent
from kumihimo.storage.sqlite.store import Db, Store

if TYPE_CHECKING:
    from kumihimo.app.build import Build
    from kumihimo.index.documents import Source

Consent = Callable[[Plan, Sequence[str]], bool]  # a plan, and what would be paid for again -> whether to go on


class Kumihimo:
    """One index.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     note = Path(folder, "note.txt")
    ...     _ = note.write_text("The ferry leaves at nine. The harbour office opens at eight.")
    ...     with Kumihimo.open(Path(folder, ".kumi")) as kumi:
    ...         built = kumi.index(note)
    ...         print(kumi.ask("When does the ferry leave?").text)
    “The ferry leaves at nine.” [1]
    """

    def __init__(self, folder: str | Path, *settings: Values, memo: str | Path | None = None) -> None:
        self.folder = Path(folder)
        values = resolve(settings_registry.KNOWN, *map(config.with_fields, settings))
        self.settings = settings_registry.own(values)
        self.models = Connections(settings_registry.of_models(values), lambda: self.remembered)
        self.store = Store(self.folder)
        self.ruler = LocalRuler()
        self._memo_path = Path(memo) if memo else self.folder / "memo.db"
        self._files: Mapped = {}

    @classmethod
    def open(
        cls, folder: str | Path = ".kumi", *, settings: Values | None = None, memo: str | Path | None = None
    ) -> Kumihimo:
        """The index in that folder, made when first indexed into.

        settings: over those of kumi.toml and aliases.txt beside it, and of the environment. memo: the file of what
        models have said, if not memo.db in the folder.
        """
        beside = Path(folder).resolve().parent / "kumi.toml"
        environment = config.from_environment(settings_registry.KNOWN, os.environ)
        memo = memo or os.environ.get("KUMI_MEMO") or None
        merged = config.aliases(beside.with_name("aliases.txt"))
        return cls(folder, config.from_file(beside), merged, environment, settings or {}, memo=memo)

    def __enter__(self) -> Kumihimo:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.store.close()
        if memo := self.__dict__.pop("remembered", None):
            memo.close()

    # -- building

    def index(
        self,
        *paths: str | Path,
        methods: Sequence[str] = (),
        wait: bool = False,
        check: bool = False,
        regroup: bool = False,
        caps: Caps | None = None,
        consent: bool | Consent = False,
        progress: Progress | None = None,
    ) -> Built:
        """Add or refresh these files and folders; with none, refresh all that the index remembers.

        methods: those to build for, remembered (first: all that cost nothing). wait: for another build to end, else
        Busy is raised. check: read files again even where size and time are the same. regroup: find the communities
        anew, whatever they were. caps: what may be spent.
        consent: to pay again for what was paid before, where a model, a prompt or a setting has changed; asked with the
        plan if it is a function. Without it NeedsConsent is raised, and nothing changes.
        """
        from kumihimo.app.build import left_out

        places, purse = self._places(paths, methods), self.models.purse(caps)
        with self.store.building(wait=wait) as db:
            build = self._build(db, places, methods, purse, progress, check=check)
            build = replace(build, afresh=frozenset({"communities"} if regroup else ()))
            self._agree(build, consent)
            built = self._kept(build)
        return built if methods else replace(built, left=left_out(self.models, build.wanted), ruled=build.ruled)

    def plan(
        self, *paths: str | Path, methods: Sequence[str] = (), sample: int = 0, progress: Progress | None = None
    ) -> Plan:
        """What `index` with the same paths and methods would ask of models, and cost. Nothing is built.

        sample: ask about so many chunks in earnest, to say more about the rest; what is paid for is remembered.
        """
        places, plan, new = self._places(paths, methods), Plan(()), not self.folder.exists()
        with suppress(_Undone), self.store.building() as db:
            build = self._build(db, places, methods, self.models.purse(), progress)
            plan = replace(build.plan(sample), ruled=build.ruled)
            raise _Undone
        if new and not self.memo()["replies"]:
            from shutil import rmtree

            self.close()
            rmtree(self.folder)
        return plan

    def foretell(self, method: str = "", question: str = "", *, where: str = "", **settings: Any) -> Plan:
        """What `ask` would ask of models, and cost, from the least to the most; nobody is asked. A question of some
        kind is taken where there is none."""
        from kumihimo.app.estimate_query_cost import rehearsed

        with self.reading() as reading:
            return rehearsed(reading, question, method, where=where, **settings)

    def remove(
        self, target: str | Path, *, forget: bool = False, wait: bool = False, progress: Progress | None = None
    ) -> Built:
        """Take out a source (by name or path), or documents (by uri or path), until they are indexed by name again.

        forget: also erase from the memo what only they needed.
        """
        from kumihimo.index.documents import take_out

        with self.store.reading():
            pass  # where there is no index, nothing is made
        with self.store.building(wait=wait) as db:
            build = self._build(db, (), (), self.models.purse(), progress)
            build = replace(build, names=take_out(db, build.known, str(target)))
            self._agree(build, False)
            built = self._kept(build)
        if forget:
            self.prune(wait=wait)
        return built

    def _places(self, paths: Sequence[str | Path], methods: Sequence[str]) -> list[Path]:
        """The paths, whole. Raises SourceError, SettingsError, before anything is made."""
        from kumihimo.index.documents import named

        for name in methods:
            method(name)
        if not paths and not self.store.path.exists():
            raise SourceError("nothing to index yet: say which folder, `kumi index PATH`")
        return [named(path) for path in paths]

    def _build(
        self,
        db: Db,
        places: Sequence[Path],
        methods: Sequence[str],
        purse: Purse,
        progress: Progress | None = None,
        *,
        check: bool = False,
    ) -> Build:
        """The build of these paths, or of all that is known, for these methods, or those that are remembered."""
        from kumihimo.app.build import Build, asking, before, free_methods
        from kumihimo.index.documents import place

        known = self._sources(db)
        names = place(known, places) or set(known)
        if not known:
            raise SourceError("nothing to index yet: say which folder, `kumi index PATH`")
        made_by = before(db)
        wanted = list(methods) or db.meta("methods") or free_methods(self.models)
        return Build(
            db,
            self.folder,
            self.settings,
            self.models,
            self.ruler,
            known,
            names,
            wanted,
            purse,
            asked=asking(self.models, db.meta("models", {}), named=bool(methods)),
            ask=lambda step: self.models.asking(step, purse, made_by.get(step, "")),
            embedder=self.models.embedder(purse),
            pool=threads(self.models.workers),
            progress=progress,
            check=check,
        )

    def _agree(self, build: Build, consent: bool | Consent) -> None:
        """Raises NeedsConsent where the build would pay again for what was paid before, and nobody has agreed."""
        changes = build.changes()
        if not changes or consent is True:
            return
        replaced = build.other_embedder() and not self.models.paid_embedder  # nobody need have meant that
        if not replaced and not build.would_pay_again():
            return
        plan = build.plan()
        if consent and consent(plan, changes):
            return
        low, high = (f"{calls:,.0f}" for calls in plan.calls)
        raise NeedsConsent(
            f"{'; '.join(changes)}: {low if low == high else f'{low} to {high}'} calls. Nothing was changed: "
            "`kumi plan` says what it costs, `kumi index --yes` does it, the settings as they were avoid it"
        )

    def _kept(self, build: Build) -> Built:
        """Run it, and remember what it was made from."""
        built = build.run()
        sources = {s.name: [self._relative(s.path), list(s.rules)] for s in build.known.values()}
        build.db.set_meta("sources", sources)
        return built

    def _sources(self, db: Db) -> dict[str, Source]:
        from kumihimo.index.documents import Source

        base = self.folder.resolve().parent
        held = db.meta("sources", {})
        return {name: Source(name, base / path, tuple(rules)) for name, (path, rules) in held.items()}

    def _relative(self, path: Path) -> str:
        """The path as it is remembered: relative where it lies beside the index, so that both can be moved."""
        with suppress(ValueError):
            return path.relative_to(self.folder.resolve().parent).as_posix()
        return str(path)

    # -- reading

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """One read transaction: all that is asked within sees the same finished build."""
        for _ in range(5):
            with self.store.reading() as db:
                try:
                    vectors = matrices(db, self.folder, self._files)
                except FileNotFoundError:  # a build has just replaced them: begin again, and see what it made
                    continue
                yield Reading(db, self.settings, self.models, self.ruler, vectors)
                return
        raise Unusable(f"the vectors of {self.folder} are missing: `kumi index` makes them again")

    def retrieve(self, question: str, method: str = "", *, where: str = "", **settings: Any) -> Context:
        """What the method finds, best first; settings are the method's own, such as k=5.

        where: in which documents, by their metadata, such as `author = "Sabine Orrell" and date >= 2024`.
        """
        with self.reading() as reading:
            return reading.retrieve(question, method, where=where, **settings)

    def ask(
        self,
        question: str,
        method: str = "",
        *,
        where: str = "",
        after: Sequence[Answer] = (),
        caps: Caps | None = None,
        hear: Hear | None = None,
        **settings: Any,
    ) -> Answer:
        """The answer, and where each part of it stands.

        where: in which documents, as for `retrieve`. after: earlier answers, to which the question may point back if
        there is a chat model. caps: what may be spent. hear: is told the text as it comes.
        """
        with self.reading() as reading:
            return reading.ask(question, method, where=where, after=after, caps=caps, hear=hear, **settings)

    def stream(self, question: str, method: str = "", **options: Any) -> Generator[str, None, Answer]:
        """The answer's text in pieces, as they come; the generator's value is the answer itself. Options: of `ask`."""
        with self.reading() as reading:
            return (yield from heard(lambda hear: reading.ask(question, method, hear=hear, **options)))

    def suggest(self, answer: Answer, *, caps: Caps | None = None) -> Answer:
        """The answer with up to five questions to ask next, in `suggested`, by one call. caps: for both together."""
        with self.reading() as reading:
            return reading.suggester(caps)(answer)

    def trace(self, reference: str | Reference) -> list[Span]:
        """Where a row stands in the documents: by id, or by (table, id)."""
        with self.reading() as reading:
            found = reading.find(reference).reference if isinstance(reference, str) else reference
            return list(reading.trace(found))

    def sparql(self, query: str, *, limit: int | None = 1000, timeout: float = 30.0) -> Solutions:
        """What a SPARQL query finds in the index as RDF: so many rows at most, within so many seconds."""
        from kumihimo.app.sparql import asked

        return asked(self.reading, self.folder, query, limit=limit, timeout=timeout)

    def status(self, *, levels: bool = False) -> Status:
        """What the index holds, what failed, how large it is. levels: and what each level of its communities does."""
        from kumihimo.app.community_stats import levels_of, modularity_of

        with self.store.reading() as db:
            known = self._sources(db)
            size = sum(_size(path) for path in self.folder.rglob("*"))
            return Status(
                folder=str(self.folder),
                sources={source.name: str(source.path) for source in known.values()},
                removed=tuple(rule for source in known.values() for rule in source.rules if not rule.startswith("!")),
                rows=counts(db),
                methods=tuple(db.meta("methods", [])),
                models=db.meta("models", {}),
                settings=settings_registry.changed(db.meta("settings", {})),
                failed=failures(db),
                partly=partly(db),
                bytes=size,
                memo=self.memo(),
                spent=tuple(self.spent()),
                modularity=modularity_of(db),
                levels=levels_of(db) if levels else (),
            )

    # -- the memo

    @cached_property
    def remembered(self) -> Memo:
        """What models have said, to this index or to all that share the memo."""
        return Memo(self._memo_path)

    def memo(self) -> dict[str, int]:
        """How many replies are remembered, their bytes, and how often they could answer."""
        if not self._memo_path.exists():
            return {"replies": 0, "bytes": 0, "hits": 0, "misses": 0}
        replies, size = self.remembered.size()
        return {"replies": replies, "bytes": size, **self.remembered.totals()}

    def spent(self) -> list[Spent]:
        """What was spent of all time, and what the memo has saved."""
        return self.remembered.usage() if self._memo_path.exists() else []

    def prune(self, *, wait: bool = False) -> int:
        """Erase the replies that building this index anew would not use; gives how many.

        It is built anew to find out, by models that answer from the memo alone, and what that made is thrown away.
        Answers and what methods asked for them are erased, too: they may hold what documents said. Raises NeedsConsent
        where a model or a setting is another than that of the index.
        """
        from kumihimo.app.cost import Tally

        if self._memo_path != self.folder / "memo.db":
            raise Unusable(f"{self._memo_path} may be shared with other indexes: nothing of it is erased")
        if not self._memo_path.exists():
            return 0
        used: set[bytes] = set()
        tally = Tally(self.models, self.ruler)
        with suppress(_Undone), self.store.building(wait=wait) as db:
            build = self._build(db, (), (), Purse())
            if changes := build.changes():
                raise NeedsConsent(
                    f"{'; '.join(changes)}: what is needed cannot be told before `kumi index` has done that"
                )
            self.remembered.used = used
            try:
                silent = replace(build, names=set(), ask=tally.asking, embedder=tally.embedder(), pool=inline)
                silent.undone(code="prune", mark="prune")
            finally:
                self.remembered.used = None
            raise _Undone
        return self.remembered.prune(used)


class _Undone(Exception):
    """Leaves a build without keeping it."""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:  # a build has just removed it
        return 0
