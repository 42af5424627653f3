"""the name of a model -> the index and the method that answer, and back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from fastapi import Request

from kumihimo.server.access import Access, Caller, find_access
from kumihimo.server.asked_indexes import AskedIndexes, find_asked
from kumihimo.server.openai.errors import ModelNotFound
from kumihimo.server.problems import NotFound
from kumihimo.server.workspace import Workspace

FIRST_INDEX = "kumi"  # the name of the first index that the caller may use


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """An index, or several, and a method of them; an empty method is the default."""

    asked: AskedIndexes
    method: str

    @property
    def access(self) -> Access:
        """Return the access to the index that leads."""
        return self.asked.first


def choose_model(request: Request, name: str) -> ChosenModel:
    """Return the index and the method of a model, `kumi/bm25` or `NAME/bm25`.

    `NAME+NAME` asks several indexes together. Raises ModelNotFound if they do not exist.
    """
    index, _, method = name.partition("/")
    known = index_names(request)
    names = [index] if index in known else index.split("+")
    try:
        first, *others = ("" if each == FIRST_INDEX and each not in known else each for each in names)
        asked = find_asked(request, find_access(request, first), others)
    except NotFound:
        raise ModelNotFound(f"no model {name!r}: GET /v1/models lists the names") from None
    if method and method not in asked.first.served.kumi.catalogue.methods:
        raise ModelNotFound(f"no model {name!r}: GET /v1/models lists the names")
    return ChosenModel(asked, method)


def index_names(request: Request) -> list[str]:
    """Return the indexes that the caller may use, the first one first."""
    workspace, caller = cast(Workspace, request.app.state.workspace), cast(Caller, request.state.caller)
    return [name for name in workspace.indexes if name in caller.grants]


def model_names(methods: Mapping[str, list[str]]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the index and the method of each model.

    methods: those that work, of each index; without one the index is left out.

    >>> [name for name, *_ in model_names({"notes": ["bm25"], "reports": []})]
    ['kumi', 'kumi/bm25', 'notes', 'notes/bm25']
    """
    first = "" if FIRST_INDEX in methods else next(iter(methods), "")
    for prefix, index in [*([(FIRST_INDEX, first)] if first else []), *((name, name) for name in methods)]:
        if methods[index]:
            yield prefix, index, ""
            yield from ((f"{prefix}/{method}", index, method) for method in methods[index])
