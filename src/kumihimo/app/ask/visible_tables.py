"""a read transaction + expressions over metadata -> the tables of an index, as far as they are visible."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NoReturn, Self

from kumihimo.app.ask import data_frames
from kumihimo.app.opened.catalogue import method_with, steps_without_llm
from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.digests import hash_parts, replace_surrogates
from kumihimo.core.errors import IndexUnavailable, ItemFailed, SettingsError, describe_unknown
from kumihimo.core.records import NOT_READ, Record
from kumihimo.core.settings import SettingValues
from kumihimo.core.signature import MethodSettings, Signature
from kumihimo.core.table import NO_ROWS, Rows, Table, codec
from kumihimo.core.task import Task
from kumihimo.core.views import ViewMemory, Views
from kumihimo.core.wiring import ROOT, Catalogue, Port, Step
from kumihimo.llm.local_embedder import is_local_model
from kumihimo.llm.registry import RULES, SET_MODEL_HINT, ModelRegistry
from kumihimo.methods.shared.ranking import link_entities
from kumihimo.search.fulltext import IndexedWords
from kumihimo.search.postings import Postings
from kumihimo.search.protocols import VECTOR_INDEX
from kumihimo.storage.database import Database
from kumihimo.text.word_variants import WordIndex

_MAX_NAMES = 3  # things of a question that are described


@dataclass(frozen=True)
class VisibleTables:
    """The tables of a finished build.

    rights, filter: expressions over metadata; only documents that match both exist for the tables. A field that no
    document has is unset for `rights`, and an error in `filter`.
    """

    db: Database
    catalogue: Catalogue
    settings: SettingValues
    tokenizer: Tokenizer
    rights: str = field(default="", kw_only=True)
    filter: str = field(default="", kw_only=True)
    tables: dict[tuple[str, str, str], Table[Any]] = field(default_factory=dict, kw_only=True)  # those that were read

    def table(self, name: str) -> Table[Any]:
        """Return the visible rows of a table of the index.

        Raises IndexUnavailable if it has not been built.
        """
        key = self.rights, self.filter, name
        if key not in self.tables:
            stored = self.stored_table(name)
            self.tables[key] = self._visible_rows(stored) if self.rights or self.filter else stored
        return self.tables[key]

    def to_arrow(self, name: str) -> Any:
        """Return the visible rows of a table for Arrow."""
        return data_frames.to_arrow(self.table(name))

    def to_pandas(self, name: str) -> Any:
        """Return the visible rows of a table for pandas."""
        return data_frames.to_pandas(self.table(name))

    def indexed_words(self) -> WordIndex | None:
        """Return the words of the chunks, if they have a full-text index."""
        if not self.db.has("words_chunks_postings"):
            return None
        return IndexedWords(self.db, self.table("chunks"), Postings(self.db, "chunks"))

    def embedder_of(self, table: str) -> str:
        """Return the fingerprint of the model that embedded a table, or empty."""
        return str((self.db.meta(f"vectors_{table}") or {}).get("embedder", ""))

    def uses_local_embedders(self) -> bool:
        """Return whether models inside this process made the vectors."""
        return all(is_local_model(self.db.meta(name)["embedder"]) for name in self.db.meta_names(VECTOR_INDEX))

    def lacking_error(
        self, models: ModelRegistry, name: str, signature: Signature, missing: Sequence[str]
    ) -> IndexUnavailable:
        """Return the error of a method that lacks tables or views.

        The message names the command that builds them.
        """
        methods = self.methods_with(name)
        steps = [self.catalogue.steps[name] for name in self.catalogue.upstream_steps(missing)]
        if blocked := steps_without_llm(self.catalogue, models, missing):
            return IndexUnavailable(
                f"{name} needs a chat model, which writes {' and '.join(blocked)}: {SET_MODEL_HINT}; "
                f"then `kumi index --methods {methods}` builds them"
            )
        llm_available = any("llm" in step.ports and models.chat(step.scope) for step in steps)
        paid = llm_available or ("vector_search" in signature.ports and models.paid_embedder)
        cost = f", and `kumi plan --methods {methods}` says what it costs" if paid else ""
        return IndexUnavailable(f"the index was not built for {name}: `kumi index --methods {methods}` does that{cost}")

    def check_level(self, method: Signature, settings: MethodSettings) -> None:
        """Raise IndexUnavailable if a method reads deeper reports than were written."""
        if not method.declaration.level:
            return
        level = method.declaration.level(settings)
        depth = self.db.meta("settings", {}).get("reports", {}).get("depth", level)
        by_rule = self.db.meta("models", {}).get("reports", RULES) == RULES
        if by_rule or level <= depth or not self.stored_table("communities").ids(level=depth + 1):
            return
        raise IndexUnavailable(
            f"the model has written reports down to level {depth}: `kumi index --set reports.depth={level}` writes "
            f"those down to level {level}, and `kumi plan --set reports.depth={level}` says what it costs"
        )

    def stored_table(self, name: str) -> Table[Any]:
        """Return a table with all its rows, visible or not.

        Raises IndexUnavailable if it has not been built.
        """
        types = self.catalogue.record_types
        if name not in types:
            raise SettingsError(describe_unknown("table", name, types))
        if not self.db.has(name):
            methods = self.methods_with(method_with(self.catalogue, name))
            raise IndexUnavailable(
                f"the index has no table {name} yet: `kumi index --methods {methods}` builds it, "
                f"and `kumi plan --methods {methods}` says what that costs"
            )
        if not self.db.has_columns_of(name, codec(types[name])):
            raise IndexUnavailable(f"an earlier version built the table {name}: run `kumi index`")
        return Table(name, codec(types[name]), self.db.rows(name))

    def methods_with(self, *others: str) -> str:
        """Return the methods of the index and others, for a command."""
        built = [name for name in self.db.meta("methods", []) if name in self.catalogue.methods]
        return ",".join(dict.fromkeys([*built, *others]))

    def narrowed(self, filter: str) -> Self:
        """Return the tables of the documents that match, too; blank: all."""
        if not isinstance(filter, str):
            raise SettingsError(f"a filter is a text, such as `year >= 2020`, not {type(filter).__name__}")
        if not (filter := filter.strip()):
            return self
        return replace(self, filter=f"({self.filter}) and ({filter})" if self.filter else filter)

    @property
    def record_types(self) -> Mapping[str, type[Record]]:
        """Return the record class of each table."""
        return self.catalogue.record_types

    def matching_documents(self, filter: str) -> frozenset[str]:
        """Return the ids of the documents that match the filter.

        Raises SettingsError.
        """
        return self.narrowed(filter).visible_documents()

    def visible_documents(self) -> frozenset[str]:
        """Return the ids of the visible documents.

        Raises SettingsError for a wrong expression.
        """
        # imported here, since few questions have a filter
        from kumihimo.search.metadata_filter import matching_documents

        expression, lenient = (self.filter, False) if self.filter else (self.rights, True)
        outer = replace(self, filter="") if self.filter else replace(self, rights="")
        return matching_documents(expression, *outer._filtered_tables(), lenient=lenient)

    def count_fields(self) -> dict[str, int]:
        """Return how many visible documents have each field of filters."""
        from kumihimo.search.metadata_filter import count_fields

        return count_fields(*self._filtered_tables()) if self.db.has(ROOT) else {}

    def find(self, id: str) -> Evidence:
        """Return the row with this id, or the document with this uri.

        The id may name its table: `chunks:0f8c….00003`.
        """
        table, colon, rest = replace_surrogates(id).partition(":")
        tables = [table] if colon and table in self.record_types else list(self.record_types)
        row_id = rest if colon and table in self.record_types else replace_surrogates(id)
        for name in tables:
            if self.db.has(name) and (record := self.table(name).get(row_id)):
                return Evidence(name, record, 1.0)
        if document := self.table(ROOT).get(hash_parts(replace_surrogates(id))):
            return Evidence(ROOT, document, 1.0)
        raise SettingsError(f"nothing in the index has the id {id!r}: `kumi retrieve QUESTION` shows ids")

    def describe_names(self, question: str) -> Context:
        """Return the descriptions of named things, if a model wrote them."""
        makers = self.db.meta("models", {})
        if not self.db.has("entities") or {makers.get(name, RULES) for name in ("mentions", "entities")} == {RULES}:
            return Context()
        entities = [entity for entity in link_entities(question, self.table("entities"))[0] if entity.text]
        return Context(tuple(Evidence("entities", entity, 1.0) for entity in entities)).top(_MAX_NAMES)

    def row_counts(self) -> dict[str, int]:
        """Return the number of visible rows of each table."""
        return {name: len(self.table(name)) for name in self.record_types if self.db.has(name)}

    def _filtered_tables(self) -> tuple[Table[Any], Table[Any] | None, str]:
        """Return documents, a model's metadata, and the field without a filter."""
        metadata_model = self.db.meta("models", {}).get("metadata", RULES)
        # a table made by rule only repeats the metadata of the documents
        metadata = self.table("metadata") if metadata_model != RULES else None
        # with rights: it tells of parts, which are documents of their own
        return self.table(ROOT), metadata, NOT_READ if self.rights else ""

    def _visible_rows(self, table: Table[Any]) -> Table[Any]:
        memory = self.db.once_per_build(
            ("view", self.rights, self.filter), lambda: ViewMemory(self.visible_documents())
        )

        def stored_rows(name: str) -> Rows:
            return self.stored_table(name).rows if self.db.has(name) else NO_ROWS

        def task_of(step: Step, rows: Callable[[str], Rows]) -> Task:
            ports: dict[str, Port] = {"tokenizer": self.tokenizer, "llm": _NoModel()}
            if recognizer := self.catalogue.recognizer:
                ports["recognizer"] = recognizer
            if "llm" in step.signature.optional_ports:
                del ports["llm"]
            built = self.catalogue.settings_for_step(step.name, self.db.meta("settings", {}))
            settings = {name: step.signature.settings[name].parse(step.scope, value) for name, value in built.items()}
            return Task(step, settings, ports, rows, {}, from_scratch=True)

        rows = Views(self.catalogue.wired, stored_rows, task_of, memory, self.db.check_cancelled).rows(table.name)
        return Table(table.name, table.codec, rows, view=rows)


@dataclass(frozen=True, slots=True)
class _NoModel:
    """The model of a step that needs one: it answers nothing, so the step falls back on its rules."""

    fingerprint: ClassVar[str] = ""
    workers: ClassVar[int] = 1

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise ItemFailed("")
