"""nothing -> the public names."""

from kumihimo.app.facade import Kumihimo
from kumihimo.app.results import Built, Plan, Solutions, Status
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
    "Context",
    "Document",
    "Evidence",
    "KumiError",
    "Kumihimo",
    "Plan",
    "Record",
    "Solutions",
    "Span",
    "Status",
    "Usage",
]
