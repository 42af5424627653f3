"""an index + a catalogue -> what the one has and the other has not: tables, models, plug-ins."""

import logging
from collections.abc import Iterable
from contextlib import suppress

from kumihimo.core.catalogue import Catalogue
from kumihimo.core.errors import IndexUnavailable
from kumihimo.core.settings import SettingValues
from kumihimo.llm.registry import ModelRegistry
from kumihimo.storage import IndexTransaction, Store

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


def missing_entries(db: IndexTransaction, catalogue: Catalogue) -> dict[str, str]:
    """Return methods and steps that left the catalogue, with their origin."""
    stored: dict[str, str] = db.meta("origins", {})
    return {name: origin for name, origin in stored.items() if name not in {**catalogue.steps, **catalogue.methods}}


def missing_tables(db: IndexTransaction, catalogue: Catalogue, name: str) -> list[str]:
    """Return the tables of a method that are missing or not indexed."""
    signature = catalogue.method(name)
    missing = [table for table in signature.tables if not db.has(table)]
    for port, view in (("keyword_search", "words"), ("vector_search", "vectors")):
        if port in signature.ports:
            searchable = [table for table in signature.tables if view in catalogue.record_types[table].SEARCHED_BY]
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
