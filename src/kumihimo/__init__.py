"""nothing -> the public names."""

from kumihimo.app.facade import Kumihimo
from kumihimo.app.results import Built, CommunityLevel, Estimate, Plan, RdfTerm, Solutions, Status, UsageEntry
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.context import Answer, Context, Evidence
from kumihimo.core.errors import KumiError
from kumihimo.core.records import Chunk, Document, Record
from kumihimo.core.spans import Citation, Span
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Caps

__all__ = [
    "Answer",
    "Built",
    "Caps",
    "Chunk",
    "Citation",
    "CommunityLevel",
    "Context",
    "Document",
    "Estimate",
    "Evidence",
    "KumiError",
    "Kumihimo",
    "Plan",
    "RdfTerm",
    "Record",
    "Snapshot",
    "Solutions",
    "Span",
    "Status",
    "Usage",
    "UsageEntry",
]
