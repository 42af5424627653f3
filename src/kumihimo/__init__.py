"""nothing -> the public names, each imported at its first use."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kumihimo.app.ask.query import Query
    from kumihimo.app.ask.snapshot import Snapshot
    from kumihimo.app.build.import_store import Imported, import_store
    from kumihimo.app.facade import Kumihimo
    from kumihimo.app.opened.results import (
        BatchState,
        Built,
        CheckResult,
        CommunityLevel,
        Estimate,
        LocalWork,
        Plan,
        Problem,
        RdfTerm,
        Solutions,
        Status,
        Total,
        UsageEntry,
    )
    from kumihimo.app.processes.async_facade import AsyncKumihimo
    from kumihimo.app.upkeep.copy_index import CopiedIndex, copy_index
    from kumihimo.core.answer import Answer, Part
    from kumihimo.core.cancel import CancelToken
    from kumihimo.core.context import Context, Evidence
    from kumihimo.core.errors import Cancelled, KumiError
    from kumihimo.core.records import Chunk, Document, Record
    from kumihimo.core.spans import Citation, Span
    from kumihimo.core.task import ProgressEvent
    from kumihimo.core.usage import Usage
    from kumihimo.llm.budget import Budget, Caps
    from kumihimo.storage.place import IndexPlace

__all__ = [
    "Answer",
    "AsyncKumihimo",
    "BatchState",
    "Budget",
    "Built",
    "CancelToken",
    "Cancelled",
    "Caps",
    "CheckResult",
    "Chunk",
    "Citation",
    "CommunityLevel",
    "Context",
    "CopiedIndex",
    "Document",
    "Estimate",
    "Evidence",
    "Imported",
    "IndexPlace",
    "KumiError",
    "Kumihimo",
    "LocalWork",
    "Part",
    "Plan",
    "Problem",
    "ProgressEvent",
    "Query",
    "RdfTerm",
    "Record",
    "Snapshot",
    "Solutions",
    "Span",
    "Status",
    "Total",
    "Usage",
    "UsageEntry",
    "copy_index",
    "import_store",
]
_MODULES = {  # module -> its public names
    "app.ask.query": "Query",
    "app.ask.snapshot": "Snapshot",
    "app.build.import_store": "Imported import_store",
    "app.facade": "Kumihimo",
    "app.opened.results": (
        "BatchState Built CheckResult CommunityLevel Estimate LocalWork Plan Problem RdfTerm Solutions Status Total "
        "UsageEntry"
    ),
    "app.processes.async_facade": "AsyncKumihimo",
    "app.upkeep.copy_index": "CopiedIndex copy_index",
    "core.answer": "Answer Part",
    "core.context": "Context Evidence",
    "core.cancel": "CancelToken",
    "core.errors": "Cancelled KumiError",
    "core.records": "Chunk Document Record",
    "core.spans": "Citation Span",
    "core.task": "ProgressEvent",
    "core.usage": "Usage",
    "llm.budget": "Budget Caps",
    "storage.place": "IndexPlace",
}


def __getattr__(name: str) -> object:
    """Return a public name; import its module first."""
    module = next((module for module, names in _MODULES.items() if name in names.split()), "")
    if not module:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return __all__
