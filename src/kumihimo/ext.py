"""nothing -> the names that an extension may import: a method, a step with its table, a reader.

```python
from kumihimo.ext import Chunk, Context, Evidence, Table


def longest(question: str, chunks: Table[Chunk], *, k: int = 5) -> Context:
    \"\"\"Return the longest chunks, whatever the question.\"\"\"
    best = sorted(chunks, key=lambda c: (-len(c.text), c.id))[:k]
    return Context(tuple(Evidence("chunks", c, float(len(c.text))) for c in best))
```
"""

from kumihimo.core.context import Context, Evidence, KeyPoint, Tokenizer
from kumihimo.core.errors import ItemFailed, KumiError, MalformedReply, SettingsError, SourceError
from kumihimo.core.network import Address, AddressForm, KeyVariable
from kumihimo.core.records import (
    Assertion,
    Chunk,
    Claim,
    Community,
    DiscourseRelation,
    Document,
    Entity,
    Member,
    Mention,
    Metadata,
    Passage,
    Question,
    Record,
    Reference,
    Relation,
    RelationMention,
    Report,
    SlotFiller,
    Summary,
    Tag,
)
from kumihimo.core.settings import Bounds, TextForm
from kumihimo.core.signature import IndexSizes, MethodSettings, QueryCost, declare
from kumihimo.core.table import Group, Table
from kumihimo.core.usage import Usage
from kumihimo.core.wiring import reads
from kumihimo.llm.prompts import Source, number_sources, render_prompt
from kumihimo.llm.protocols import LLM, Embedder, NamedEntityRecognizer, NameRange, Reranker, RerankerName
from kumihimo.readers.page import Page
from kumihimo.search.protocols import KeywordSearch, RowTokens, VectorSearch
from kumihimo.text.question import ParsedQuestion

__all__ = [
    "LLM",
    "Address",
    "AddressForm",
    "Assertion",
    "Bounds",
    "Chunk",
    "Claim",
    "Community",
    "Context",
    "DiscourseRelation",
    "Document",
    "Embedder",
    "Entity",
    "Evidence",
    "Group",
    "IndexSizes",
    "ItemFailed",
    "KeyPoint",
    "KeyVariable",
    "KeywordSearch",
    "KumiError",
    "MalformedReply",
    "Member",
    "Mention",
    "Metadata",
    "MethodSettings",
    "NameRange",
    "NamedEntityRecognizer",
    "Page",
    "ParsedQuestion",
    "Passage",
    "QueryCost",
    "Question",
    "Record",
    "Reference",
    "Relation",
    "RelationMention",
    "Report",
    "Reranker",
    "RerankerName",
    "RowTokens",
    "SettingsError",
    "SlotFiller",
    "Source",
    "SourceError",
    "Summary",
    "Table",
    "Tag",
    "TextForm",
    "Tokenizer",
    "Usage",
    "VectorSearch",
    "declare",
    "number_sources",
    "reads",
    "render_prompt",
]
