"""a request -> the progress and the result of a build, as JSON values: the handler of a child process."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened.open_index import IndexAddress
from kumihimo.app.opened.results import Built
from kumihimo.app.upkeep.keys import IndexKeys
from kumihimo.core.errors import ConsentRequired, KumiError
from kumihimo.core.task import ProgressEvent
from kumihimo.llm.budget import Caps

HANDLER = f"{__name__}:answer_build"
_PAUSE = 0.1  # seconds between two events
_MAX_LISTED = 1000  # files and failures of a result


def answer_build(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the progress of a build, then its result or its error.

    request: the `index` as IndexAddress, the `kind`, `index` or `remove`, the `options`, and the `key` that pays.
    """
    try:
        with Kumihimo(IndexAddress(**request["index"]).open()) as kumi, closing(IndexKeys.of(kumi.opened)) as keys:
            paid_by = keys.budget_of(request["key"]) if request["key"] else None
            options: dict[str, Any] = {**request["options"], "paid_by": paid_by, "wait": True}
            if request["kind"] == "index":
                build = partial(kumi.index, *options.pop("paths"), caps=Caps(**options.pop("caps")), **options)
            else:
                build = partial(kumi.remove, **options)
            yield from _build(build)
    except ConsentRequired as error:
        yield {"error": type(error).__name__, "message": f"{error}. Or start this build again with consent"}
    except KumiError as error:
        yield {"error": type(error).__name__, "message": str(error)}


def _build(build: Callable[..., Built]) -> Iterator[dict[str, Any]]:
    """Yield the progress of a build, then its result."""
    latest: deque[ProgressEvent] = deque(maxlen=1)
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(build, progress=latest.append)
        while not future.done() or latest:
            wait([future], _PAUSE)
            if latest:
                yield {"progress": asdict(latest.popleft())}
        yield {"result": describe_built(future.result())}


def describe_built(built: Built) -> dict[str, Any]:
    """Return the result of a build as JSON values.

    Long lists are cut; `listed` has their full lengths.
    """
    lists = {name: getattr(built, name) for name in ("failed", "skipped", "partial", "empty", "unmatched")}
    short = replace(built, **{name: values[:_MAX_LISTED] for name, values in lists.items()})
    return {**asdict(short), "listed": {name: len(values) for name, values in lists.items()}}
