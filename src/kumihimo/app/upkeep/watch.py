"""the sources of an index + changes on disk -> a build after each change, one at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from kumihimo.app.build.index_paths import index_paths
from kumihimo.app.build.prepare_build import RollBack, absolute_paths, prepare_build
from kumihimo.app.opened import open_index, results
from kumihimo.core.errors import ConsentRequired, IndexUnavailable, KumiError, SettingsError, SourceError
from kumihimo.core.task import Progress
from kumihimo.index.sources import load_sources
from kumihimo.llm.budget import Budget, Caps
from kumihimo.readers.folder import is_left_out

Changes = Callable[
    [Sequence[Path], Path], Iterable[object]
]  # folders and files, the index folder -> one for each change
QUIET_MS = 1_000  # a program that writes several files is done by then
LONGEST_MS = 30_000  # that changes without a pause wait for a build


def watch_sources(
    index: open_index.OpenIndex,
    paths: Sequence[str | Path] = (),
    methods: Sequence[str] = (),
    caps: Caps | None = None,
    *,
    progress: Progress | None = None,
    changes: Changes | None = None,
) -> Iterator[results.Built | KumiError]:
    """Build the index at first and after each change.

    Yields the result of each build, or its error, after which it goes on. Changes during a build cause one build more.
    paths, methods: as for `Kumihimo.index`. caps: limits on what all builds spend together. changes: where changes come
    from; by default `watchfiles`. Addresses are fetched at first only. Raises SettingsError if a build may cost
    something and there is no limit.
    """
    absolute = absolute_paths(index, paths, methods)
    caps = caps or Caps()
    if caps == Caps() and _may_cost(index, absolute, methods):
        raise SettingsError("builds may call a paid model: set a limit for all of them together, such as --max-cost 5")
    budget, fetch = index.models.budget(caps), True
    result = _build(index, paths, methods, budget, progress)
    yield result
    for _ in (changes or watch_files)(_watched_paths(index, absolute), index.folder.resolve()):
        if isinstance(result, results.Built):  # the paths are sources now
            paths, methods, fetch = (), (), False
        result = _build(index, paths, methods, budget, progress, fetch=fetch)
        yield result


def watch_files(paths: Sequence[Path], index: Path) -> Iterator[object]:
    """Yield once for all changes of a moment.

    Those in the index folder, and of files that are not read, do not count. Raises SettingsError without `watchfiles`.
    """
    try:
        from watchfiles import DefaultFilter, watch
    except ModuleNotFoundError as error:
        raise SettingsError("watching needs watchfiles: `pip install 'kumihimo[watch]'`") from error

    in_default = DefaultFilter()  # leaves out .git, caches and the files of editors

    def counts(change: object, path: str) -> bool:
        return in_default(change, path) and is_watched(Path(path), paths, index)  # type: ignore[arg-type]

    yield from watch(*paths, watch_filter=counts, debounce=LONGEST_MS, step=QUIET_MS, ignore_permission_denied=True)


def is_watched(path: Path, paths: Sequence[Path], index: Path) -> bool:
    """Return whether a change of a path may change the index."""
    if path == index or index in path.parents:
        return False
    root = next((root for root in paths if root == path or root in path.parents), path)
    try:
        return not is_left_out(root, path)
    except (OSError, SourceError):  # the build names what is wrong with an ignore file
        return True


def _may_cost(index: open_index.OpenIndex, paths: Sequence[Path], methods: Sequence[str]) -> bool:
    """Return whether builds of these paths may call a paid model."""
    may_cost = False
    with suppress(RollBack), index.store.write_transaction(wait=True) as db:
        may_cost = prepare_build(index, db, paths, methods, may_be_empty=True).may_cost
        raise RollBack
    return may_cost


def _watched_paths(index: open_index.OpenIndex, named: Sequence[Path]) -> list[Path]:
    """Return the folders and files of all sources that exist.

    named: the paths that become sources, which they are not yet if the first build has failed.
    """
    sources: dict[Path, None] = dict.fromkeys(named)
    with suppress(IndexUnavailable), index.store.read_transaction() as db:
        sources |= {source.path: None for source in load_sources(db, index.base).values()}
    return [path for path in sources if path.exists() and index.folder.resolve() not in path.parents]


def _build(
    index: open_index.OpenIndex,
    paths: Sequence[str | Path],
    methods: Sequence[str],
    budget: Budget,
    progress: Progress | None,
    *,
    fetch: bool = True,
) -> results.Built | KumiError:
    """Build once, and return the result or the error.

    fetch: also ask for what is not on this machine.
    """
    own_budget = index.models.budget(parent=budget)
    try:
        return index_paths(index, paths, methods, own_budget, wait=True, progress=progress, fetch=fetch)
    except ConsentRequired:
        raise  # it would be so at each change
    except KumiError as error:
        return error
