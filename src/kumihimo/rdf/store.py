"""triples + SPARQL query -> solutions: a store beside the index, built on first use.

A store is written under a temporary name, then renamed, so readers never see a partial one. Its name contains the build
number, and it never changes. One process builds it while others wait; the next builder removes what a killed process
left.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated, Any

from kumihimo.core.errors import KumiError, SettingsError
from kumihimo.core.settings import Bounds, TextForm
from kumihimo.storage.sqlite.connection import exclusive_lock
from kumihimo.workers import Worker, WorkerStopped

if TYPE_CHECKING:
    from pyoxigraph import Quad

BUILD_KEY = "build"  # of the number of builds that changed the index
_LOCK_TIMEOUT = 3600  # seconds to wait for another process
_HANDLER = "kumihimo.rdf.sparql_worker:answer_sparql"
_QUERY_MEMORY = 4 << 30  # bytes of a query, on systems that can limit them


class StoreRemoved(KumiError):
    """Error: a newer build removed the store during a query."""


def stores_folder(folder: Path) -> Path:
    """Return the folder of the stores of an index."""
    return folder / "rdf"


def remove_old_stores(folder: Path, build: int) -> None:
    """Remove the stores of other builds; their readers start again."""
    for path in stores_folder(folder).glob("[0-9]*"):
        if _build_number(path) != build:
            remove_store(path)


def erase_old_stores(folder: Path, build: int) -> None:
    """Remove the stores of other builds, unfinished ones too."""
    if stores_folder(folder).exists():
        with exclusive_lock(stores_folder(folder) / "lock.db", timeout=_LOCK_TIMEOUT):
            for path in stores_folder(folder).iterdir():
                if path.is_dir() and _build_number(path) != build:
                    rmtree(path)


def ensure_store(folder: Path, name: str, make_triples: Callable[[], "Iterator[Quad]"]) -> Path:
    """Return the store of that name, and build it if necessary.

    make_triples: called for the triples of a new store.
    """
    path = stores_folder(folder) / name
    if path.exists():
        return path
    path.parent.mkdir(exist_ok=True)
    with exclusive_lock(path.parent / "lock.db", timeout=_LOCK_TIMEOUT):
        if not path.exists():
            build = _build_number(path)
            for other in path.parent.iterdir():
                if other.is_dir() and _build_number(other) <= build:  # a later build's store may have readers
                    remove_store(other)
            partial_path = path.with_name(f".{name}")  # `remove_old_stores` ignores this name
            write_store(partial_path, make_triples())
            partial_path.rename(path)
    return path


def _build_number(path: Path) -> int:
    """Return the build number of a store; -1 for an unfinished store."""
    number = path.name.partition("-")[0]
    return int(number) if number.isdecimal() else -1


def remove_store(path: Path) -> None:
    """Remove an unreadable store; the next query rebuilds it."""
    rmtree(path, ignore_errors=True)


def write_store(path: Path, triples: "Iterator[Quad]") -> None:
    """Write a store with these triples."""
    from pyoxigraph import Store

    store = Store(path)
    store.bulk_extend(triples)
    store.flush()


Head = dict[str, Any]


def run_query(
    path: Path, query: str, prefixes: dict[str, str], base: str, *, limit: int | None, timeout: float
) -> tuple[Head, list[list[Any]], str]:
    """Run a query and return its head, rows and cut.

    head: the kind of the answer and its columns. Rows hold terms in SPARQL's JSON format. cut: the limit that ended the
    query, `rows` or `time`; empty if complete. Raises SettingsError if the query is invalid or has no answer in time,
    StoreRemoved if the store is gone.
    """
    request = {"store": str(path), "query": query, "prefixes": prefixes, "base": base, "limit": limit}
    lines, stopped, detail = list[Any](), "", ""
    with Worker(_HANDLER, memory=_QUERY_MEMORY) as worker:
        try:
            for line in worker.ask(request, seconds=timeout):
                lines.append(line)  # also before a stop
        except WorkerStopped as stop:
            stopped, detail = stop.reason, str(stop)
    head = {name: value for line in lines if isinstance(line, dict) for name, value in line.items()}
    rows = [line for line in lines if isinstance(line, list)]
    if "wrong" in head:
        raise SettingsError(head["wrong"])
    if "failed" in head:
        raise StoreRemoved(f"the triples in {path} cannot be read ({head['failed']}): ask again")
    if "more" in head or "yes" in head:
        return head, rows, "rows" if head.get("more") else ""
    if stopped != "clock":
        memory = "the query took more memory than it may have: ask for less at once"
        error = f"the query cannot be answered ({detail}): write it in another way"
        raise SettingsError(error if stopped == "error" else memory)
    if "kind" not in head:
        raise SettingsError(f"nothing was found within {timeout:g} s: ask for less, or give it more with `--timeout`")
    return head, rows, "time"


def _starts_iris(base: str) -> bool:
    """Return whether IRIs may begin with a text."""
    from pyoxigraph import NamedNode

    with suppress(ValueError):
        return ":" in base and NamedNode(f"{base}x").value.endswith(("/x", "#x", ":x"))
    return False


_BASE = TextForm("the start of IRIs, such as http://example.org/, and end with / or #", _starts_iris)


def rdf_prefixes(*, base: Annotated[str, Bounds(1, 1000), _BASE] = "http://example.org/") -> dict[str, str]:
    """Return the RDF prefixes; `base` is that of row IRIs."""
    from kumihimo.rdf.triples import prefix_map

    return prefix_map(base)
