"""built-in entries + plug-ins -> the Catalogue of an index."""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from kumihimo.core.errors import IndexUnavailable, SettingsError, StepError
from kumihimo.core.settings import SettingValues
from kumihimo.core.signature import Signature, collect_signatures
from kumihimo.core.wiring import Catalogue, Port, collect_file_types
from kumihimo.index import STEPS
from kumihimo.llm.registry import ModelRegistry
from kumihimo.methods import METHODS
from kumihimo.readers import READERS
from kumihimo.storage import Store
from kumihimo.storage.database import Database
from kumihimo.storage.ledger import RESERVED_NAMES
from kumihimo.text.question import ParsedQuestion

BUILT_IN = Catalogue(STEPS, METHODS, READERS)
# methods read the tables of steps
PLUGIN_GROUPS = ("kumihimo.steps", "kumihimo.methods", "kumihimo.readers", "kumihimo.recognizers")
_INDEX_TABLES = ("words_", "vectors_", "rows_", "sqlite_")  # the beginnings of names that the store uses
Function = Callable[..., Any]


DEFAULT_METHOD = "braid"
WIDE_METHOD = "wide"  # for a question on many documents, where a chat model is set
WIDE_CALLS, WIDE_CALL_BYTES = 5, 15_000  # at most, with that of the answer; and of the prompt of each
WIDE_QUESTION = ParsedQuestion("What are the main themes?")  # such a one
AUTO = "auto"  # another name for no method: the choice by the question
GRAPH_METHOD = "global"  # whose tables hold the entities, relations, communities and reports
_SEARCHING_METHODS = ("braid", "naive")  # that call no model, the better one first
FALLBACK_METHOD = "naive"  # for an index not built for the default method
INSTALL_AGAIN = "which is not installed: install it again, or pass its functions to Kumihimo.open"


def extend_catalogue(
    catalogue: Catalogue,
    *,
    methods: Iterable[Function] = (),
    steps: Iterable[Function] = (),
    readers: Iterable[Function] = (),
    recognizers: Iterable[Port] = (),
    origin: str = "another program",
    is_last: bool = True,
) -> Catalogue:
    """Return the catalogue with these functions, and with the last NER model.

    origin: who offers them, for messages once they are missing. is_last: False if tables that they read may come later.
    Raises StepError where a function is no step, method or reader, where its name is taken, or where it reads what does
    not exist.
    """
    new_steps, new_methods = collect_signatures(*steps), collect_signatures(*methods)
    for name in new_steps:
        if name.casefold() in RESERVED_NAMES or name.casefold().startswith(_INDEX_TABLES):
            raise StepError(f"{name}: the index has a table of this name for itself: rename the step")
    new_readers = collect_file_types(*readers)
    origins = dict.fromkeys([*new_steps, *new_methods, *new_readers], origin)
    for recognizer in recognizers:
        if not callable(recognizer) or not getattr(recognizer, "fingerprint", ""):
            raise StepError(f"{recognizer!r} is no NER model: it needs a `fingerprint` and `__call__(texts)`")
        catalogue = replace(catalogue, recognizer=recognizer)
    extended = catalogue.extend(new_steps, new_methods, new_readers, origins)
    if is_last:
        extended.check()
    return extended


@cache
def installed_catalogue() -> Catalogue:
    """Return the built-in entries with those of all installed plug-ins.

    A plug-in is a distribution with entry points `kumihimo.methods`, `kumihimo.steps`, `kumihimo.readers` or
    `kumihimo.recognizers`. Raises SettingsError where one cannot be loaded.
    """
    catalogue = BUILT_IN
    installed = entry_points()
    for group in PLUGIN_GROUPS:
        for entry in sorted(installed.select(group=group), key=lambda entry: (entry.name, entry.value)):
            catalogue = _add_plugin(catalogue, entry)
    try:
        catalogue.check()
    except StepError as error:
        origins = ", ".join(sorted(set(catalogue.origins.values())))
        raise SettingsError(f"a plug-in does not fit: {error}; upgrade or uninstall it: {origins}") from error
    return catalogue


def _add_plugin(catalogue: Catalogue, entry: EntryPoint) -> Catalogue:
    """Return the catalogue with the function of an entry point."""
    distribution = entry.dist.name if entry.dist else "unknown"
    kind = entry.group.removeprefix("kumihimo.")
    try:
        functions: dict[str, Any] = {kind: [entry.load()]}
        return extend_catalogue(catalogue, origin=f"the plug-in {distribution}", is_last=False, **functions)
    except Exception as error:
        raise SettingsError(
            f"the plug-in {distribution} does not fit ({entry.group}: {entry.name} = {entry.value}): "
            f"{type(error).__name__}: {error}; upgrade it, or remove it with `pip uninstall {distribution}`"
        ) from error


log = logging.getLogger("kumihimo")


def steps_without_llm(catalogue: Catalogue, models: ModelRegistry, tables: Iterable[str]) -> list[str]:
    """Return the steps of these tables that lack a required LLM."""
    upstream = catalogue.upstream_steps(tables)
    return [
        name
        for name, step in catalogue.steps.items()
        if name in upstream
        and "llm" in step.ports
        and "llm" not in step.optional_ports
        and models.chat(step.scope) is None
    ]


def uses_llm(models: ModelRegistry, signature: Signature) -> bool:
    """Return whether a method may call a chat model."""
    optional = "llm" in signature.optional_ports and models.chat(signature.name) is None
    return "llm" in signature.ports and not optional


def missing_entries(db: Database, catalogue: Catalogue) -> dict[str, str]:
    """Return methods and steps that left the catalogue, with their origin."""
    stored: dict[str, str] = db.meta("origins", {})
    return {name: origin for name, origin in stored.items() if name not in {**catalogue.steps, **catalogue.methods}}


def default_method(db: Database, catalogue: Catalogue) -> str:
    """Return the method for a search without one.

    This is the default, or a method that the index was built for.
    """
    built = [name for name in db.meta("methods", []) if name in catalogue.methods] or [DEFAULT_METHOD]
    return next((name for name in (DEFAULT_METHOD, FALLBACK_METHOD) if name in built), str(built[0]))


def searching_method(db: Database, catalogue: Catalogue, models: ModelRegistry, method: str) -> str:
    """Return the method for further searches of an answer.

    It calls no chat model: the method of the question, the default one or another; empty if the index has none.
    """
    names = dict.fromkeys((method, default_method(db, catalogue), *_SEARCHING_METHODS))
    free = (name for name in names if name in catalogue.methods and not uses_llm(models, catalogue.method(name)))
    return next((name for name in free if not missing_tables(db, catalogue, name)), "")


def method_with(catalogue: Catalogue, table: str) -> str:
    """Return the method to build for a table."""
    names = [name for name in (DEFAULT_METHOD, GRAPH_METHOD) if name in catalogue.methods]
    methods = ((name, catalogue.methods[name].tables) for name in (*names, *catalogue.methods))
    return next((name for name, tables in methods if table in catalogue.upstream_steps(tables)), DEFAULT_METHOD)


def missing_tables(db: Database, catalogue: Catalogue, name: str, *, optional: bool = False) -> list[str]:
    """Return the tables of a method that are missing or not indexed.

    optional: of those that it can do without.
    """
    signature = catalogue.method(name)
    tables = signature.optional_tables if optional else signature.tables
    missing = [table for table in tables if not db.has(table)]
    for port, view in (("keyword_search", "words"), ("vector_search", "vectors")):
        if port in signature.ports:
            searchable = [table for table in tables if view in catalogue.record_types[table].SEARCHED_BY]
            missing += [table for table in searchable if db.meta(f"{view}_{table}") is None]
    return list(dict.fromkeys(missing))


def without_missing_scopes(store: Store, catalogue: Catalogue, layers: Iterable[SettingValues]) -> list[SettingValues]:
    """Return the settings without those of missing plug-ins, with a warning."""
    missing: dict[str, str] = {}
    with suppress(IndexUnavailable), store.read_transaction() as db:
        missing = missing_entries(db, catalogue)
    for scope in sorted({scope for layer in layers for scope in layer} & missing.keys()):
        log.warning("[%s] has no effect: it belongs to %s, which is not installed", scope, missing[scope])
    return [{scope: values for scope, values in layer.items() if scope not in missing} for layer in layers]


def row_counts(db: Database, catalogue: Catalogue) -> dict[str, int]:
    """Return the number of rows of each table."""
    return {table: db.rows(table).count() for table in catalogue.record_types if db.has(table)}
