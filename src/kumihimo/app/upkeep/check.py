"""an index -> the damage in its files, and the same index repaired."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from kumihimo.app.build.build_cost import plan_build
from kumihimo.app.build.index_paths import index_paths
from kumihimo.app.build.prepare_build import prepare_build, run_and_save
from kumihimo.app.opened.open_index import OpenIndex
from kumihimo.app.opened.results import CheckResult, Problem
from kumihimo.core.errors import ConsentRequired, IndexDamaged
from kumihimo.core.table import Codec, codec
from kumihimo.llm.cached_llm import is_cached_value
from kumihimo.rdf import store, store as rdf_store
from kumihimo.search import fulltext
from kumihimo.search.vectors import vector_store
from kumihimo.storage.database import Database
from kumihimo.storage.ledger import checksum_name, sum_rows

_REPAIR = "`kumi check --repair` makes it again"
_REBUILD = "`kumi check --repair` builds all tables again"
_MOVE = "a repair cannot mend it: move the file away, and run `kumi index PATH` for the folders that it held"
_ASK_AGAIN = "`kumi check --repair` keeps the other replies; models are asked again for the damaged ones"
_STORE_TIMEOUT = 600.0  # seconds to read a store
_COUNT_TRIPLES = "SELECT (COUNT(*) AS ?count) { ?s ?p ?o }"


def check_index(index: OpenIndex, *, repair: bool = False, consent: bool = False, wait: bool = False) -> CheckResult:
    """Search the files of an index for damage.

    repair: make again what can be made again. consent: also if that is paid again. Raises ConsentRequired without it,
    and SourceError if a source to build from is missing.
    """
    problems = _find_problems(index)
    if not problems or not repair:
        return CheckResult(problems)
    _repair(index, problems, consent=consent, wait=wait)
    left = _find_problems(index)
    repaired = tuple(problem for problem in problems if problem not in left)
    return CheckResult(tuple(replace(p, remedy=_MOVE) if p.remedy == _REBUILD else p for p in left), repaired)


def _find_problems(index: OpenIndex) -> tuple[Problem, ...]:
    cache = index.cache.database.location
    replies = [Problem(cache, "cache", message, _ASK_AGAIN) for message in index.cache.check(is_cached_value)]
    return (*_index_problems(index), *_store_problems(index), *replies)


def _index_problems(index: OpenIndex) -> list[Problem]:
    path = index.store.location
    try:
        with index.store.read_transaction() as db:
            messages = db.find_damage() or [m for name in _tables(index, db) for m in _table_damage(db, name)]
            if messages:  # the search indexes are compared with the tables
                return [Problem(path, "tables", message, _REBUILD) for message in messages]
            return [problem for name in fulltext.stored_indexes(db) for problem in _search_problems(index, db, name)]
    except IndexDamaged as error:
        return [Problem(path, "tables", str(error.__cause__), _REBUILD)]


def _tables(index: OpenIndex, db: Database) -> list[str]:
    """Return the tables with the columns of this version.

    The next build makes the others again.
    """
    types = index.catalogue.record_types
    return [name for name in types if db.has(name) and db.has_columns_of(name, codec(types[name]))]


def _table_damage(db: Database, name: str) -> list[str]:
    """Return what is wrong with the rows of a table."""
    checksum = sum(map(sum_rows, db.rows(name).pages()))
    is_sound = db.meta(checksum_name(name), checksum) == checksum
    return [] if is_sound else [f"the rows of {name} are not those that the last build wrote"]


def _search_problems(index: OpenIndex, db: Database, name: str) -> Iterator[Problem]:
    """Yield what is wrong with a search index, such as words_chunks."""
    kind, _, table = name.partition("_")
    if table not in _tables(index, db):
        return
    table_codec: Codec[Any] = codec(index.catalogue.record_types[table])
    path = index.store.location
    try:
        if kind == "words":
            damage = fulltext.KeywordIndex(db, table, table_codec).find_damage()
        else:
            records = (table_codec.decode(row) for page in db.rows(table).pages() for row in page)
            vectors = vector_store(db, index.folder, table)
            failed = {id for step, id, _ in db.failures() if step == name}
            path = vectors.location or path
            damage = vectors.find_damage({record.id for record in records if record.index_text} - failed)
    except IndexDamaged:
        damage = "it cannot be read"
    if damage:
        yield Problem(path, name, f"{name}: {damage}", _REPAIR)


def _store_problems(index: OpenIndex) -> Iterator[Problem]:
    """Yield the stores of triples that cannot be read."""
    for path in _rdf_stores(index):
        prefixes = store.rdf_prefixes()
        try:
            rdf_store.run_query(path, _COUNT_TRIPLES, prefixes, prefixes["ex"], limit=None, timeout=_STORE_TIMEOUT)
        except rdf_store.StoreRemoved:
            if path.exists():
                yield Problem(str(path), "triples", "the triples cannot be read", _REPAIR)


def _rdf_stores(index: OpenIndex) -> list[Path]:
    return sorted(rdf_store.stores_folder(index.folder).glob("[0-9]*"))


def _repair(index: OpenIndex, problems: tuple[Problem, ...], *, consent: bool, wait: bool) -> None:
    """Repair what can be made again.

    The cache comes first: what is not in it is paid again, if the user agrees. Until then nothing else is changed.
    """
    parts = {problem.part for problem in problems}
    if "cache" in parts:
        index.cache.check(is_cached_value, repair=True)
    if "tables" in parts:
        with suppress(IndexDamaged):  # then the problem is left
            _rebuild_tables(index, consent=consent, wait=wait)
    elif indexes := sorted(parts - {"cache", "triples"}):
        _rebuild_indexes(index, indexes, consent=consent, wait=wait)
    for path in _rdf_stores(index) if "triples" in parts else ():
        rdf_store.remove_store(path)


def _rebuild_tables(index: OpenIndex, *, consent: bool, wait: bool) -> None:
    """Build all tables again, if all sources are there."""
    from kumihimo.index.sources import load_sources

    with index.store.read_transaction() as db:
        for source in load_sources(db, index.base).values():
            source.files()  # raises SourceError
        # A rebuild keeps the communities, to make similar ones.
        recluster = db.has("communities") and bool(_table_damage(db, "communities"))
    budget = index.models.budget()
    index_paths(index, (), (), budget, rebuild=True, recluster=recluster, consent=consent, wait=wait)
    index.store.rewrite(wait=wait)


def _rebuild_indexes(index: OpenIndex, names: list[str], *, consent: bool, wait: bool) -> None:
    """Fill these search indexes again."""
    with index.store.write_transaction(wait=wait) as db:
        for name in names:
            db.forget_meta(name)
        build = replace(prepare_build(index, db, (), (), index.models.budget(), may_be_empty=True), source_names=set())
        calls = plan_build(build).calls[1] if build.models.paid_embedder and not consent else 0
        if calls:
            raise ConsentRequired(
                f"{', '.join(names)} would be embedded again with up to {calls:,.0f} calls. The index was not changed: "
                "`kumi check --repair --yes` does it"
            )
        run_and_save(index, build)
