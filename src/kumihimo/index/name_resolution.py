"""chunks -> names -> merges: the names of a document, and which of them are forms of one name."""

from kumihimo.core import signature, table
from kumihimo.core.records import Chunk
from kumihimo.index.name_records import Aliases, ChunkNames, NameMerges
from kumihimo.llm.protocols import NamedEntityRecognizer
from kumihimo.text.graph_edits import parse_edits


def names(chunk: Chunk, recognizer: NamedEntityRecognizer | None) -> ChunkNames:
    """Find the names in a chunk, by rule or with a model.

    They are the mentions of a build without a chat model, and what `merges` reads. recognizer: an NER model of the
    user's choice.
    """
    from kumihimo.index.rules import ner  # imported here: only a build needs the rules

    return ner.find_names(chunk, recognizer)


@signature.declare(scope="mentions")
def merges(names: table.Group[ChunkNames], chunks: table.Table[Chunk], *, aliases: Aliases = ()) -> NameMerges | None:
    """Find the names of a document that are forms of others.

    aliases: a line `A != B` keeps two names apart.
    """
    from kumihimo.index.rules.name_merges import resolve_names

    def read_text() -> str:
        return "\n".join(chunk.text for chunk in chunks.get_many(row.id for row in names).values())

    typed_names = (name for row in names for *_, typed_names in row.sentences for name in typed_names)
    acronyms = (acronym for row in names for acronym in row.acronyms)
    triples = resolve_names(typed_names, acronyms, read_text, parse_edits(aliases).distinct)
    return NameMerges(tuple(triples)) if triples else None
