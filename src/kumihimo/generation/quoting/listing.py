"""tables of the index -> lists: entities of a type, documents, mentions of a subject."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kumihimo.core.spans import Span
from kumihimo.generation.quoting.drafts import MAX_LONG_CHARS, Draft, cut_span, say, say_count
from kumihimo.generation.quoting.passages import Passages, find_documents, read_passages
from kumihimo.generation.quoting.ranking import IndexReader
from kumihimo.text.sentences import split_blocks, split_sentences
from kumihimo.text.tokens import subject_terms

_MAX_ITEMS, _MAX_DOCUMENTS = 20, 10
_SENTENCE_CHARS = 160
_MAX_SUBJECT = 3  # words that count as a mention wherever they stand in a chunk


def write_list(kind: str, document: str, reader: IndexReader, language: str) -> Draft | None:
    """Return the entities of a type, the documents, or None.

    document: a name of the only document to read; empty: all.
    """
    if kind == "documents":
        return _list_documents(reader, language)
    entities, mentions, passages = reader.find_table("entities"), reader.find_table("mentions"), read_passages(reader)
    if entities is None or mentions is None or passages is None:
        return None
    counts: Mapping[str, int] = dict(entities.columns("id", "mentions"))
    documents_named = find_documents(document, reader) if document else []
    if document and not documents_named:
        return None
    if documents_named:
        own = [id for id in passages.ids if id.partition(".")[0] in set(documents_named)]
        counts = Counter(entity for group in mentions.child_values(own, "entity").values() for entity in group)
    rows = {id: name for id, name, type_ in entities.columns("id", "name", "type") if type_ == kind and id in counts}
    rows = {id: name for id, name in rows.items() if not _is_part(name, rows.values())}
    order = sorted(rows, key=lambda id: (-counts[id], rows[id]))
    first = {id: _first_mention(id, mentions, passages, documents_named) for id in order[:_MAX_ITEMS]}
    draft = Draft(MAX_LONG_CHARS)
    draft.add(say(f"list {kind}", language))
    for id in order[:_MAX_ITEMS]:
        if span := first[id]:
            draft.cite(f"- {rows[id]} ({counts[id]:,})", span)
    return _end_list(draft, len(order), language, by_rule=True)


def _is_part(name: str, names: Iterable[str]) -> bool:
    """Return whether a word is a part of another name."""
    return " " not in name and any(
        other != name and (name in other.split() or (not name.isascii() and other.startswith(name))) for other in names
    )


def _end_list(draft: Draft, total: int, language: str, *, by_rule: bool = False) -> Draft | None:
    """Return a list with the number left out, or None."""
    count = len(draft.citations)
    if total > count:
        draft.add(say("more", language, n=f"{total - count:,}"))
    if by_rule:
        draft.add(say("by rule", language))
    return draft if count else None


def _first_mention(entity: str, mentions: Any, passages: Passages, documents: list[str]) -> Span | None:
    """Return the first mention of an entity, in these documents if possible."""
    ids = mentions.ids_grouped("entity", [entity])[entity]
    candidates = [id for id in ids if not documents or id.partition(".")[0] in documents]
    for id in candidates[:_MAX_ITEMS]:
        chunk = passages.span_of(id.rpartition(".")[0])
        name = mentions[id].name
        start = chunk.text.find(name)
        if start >= 0:
            return cut_span(chunk, start, start + len(name))
    return None


def _list_documents(reader: IndexReader, language: str) -> Draft | None:
    documents = reader.find_table("documents")
    rows = sorted(documents.columns("uri", "title", "id")) if documents is not None else []
    draft = Draft(MAX_LONG_CHARS)
    draft.add(say("list documents", language, n=f"{len(rows):,}"))
    for uri, title, _ in rows[:_MAX_ITEMS]:
        text, _, body = reader.document(uri)
        start, end = next(((b.start, b.end) for b in split_blocks(text, body)), (body, body))
        draft.cite(f"- {title or uri}", Span("", uri, start, end, text[start:end]))
    return _end_list(draft, len(rows), language)


def write_documents(subject: str, reader: IndexReader, language: str) -> Draft | None:
    """Return the documents that mention a subject, or None."""
    passages, documents = read_passages(reader), reader.find_table("documents")
    if passages is None or documents is None or not subject_terms(subject):
        return None
    matches = passages.mentioning(subject)
    exact = any(subject.casefold() in passages.texts[number].casefold() for number in matches)
    if len(subject_terms(subject)) > _MAX_SUBJECT and subject.isascii() and not exact:
        return None  # words of a description that stand apart are no mention
    titles = Counter(title for (title,) in documents.columns("title"))
    counts = Counter(map(passages.document, matches))
    first: dict[str, int] = {}
    for number in matches:
        first.setdefault(passages.document(number), number)
    draft = Draft(MAX_LONG_CHARS)
    numbers = {"n": f"{len(counts):,}", "total": f"{len(documents):,}"}
    draft.add(say("mentioned", language, subject=subject, **numbers), "sentence")
    for document in sorted(counts, key=lambda id: (-counts[id], id))[:_MAX_DOCUMENTS]:
        span = passages.span(first[document])
        _, title, _ = reader.document(span.uri)
        name = title if titles[title] == 1 else span.uri
        line = f"- {name} ({say_count('passage', counts[document], language)}): "
        draft.quote(sentence_with(span, subject), line)
    return _end_list(draft, len(counts), language)


def sentence_with(chunk: Span, subject: str) -> Span:
    """Return the sentence with most words of a subject, shortened."""
    terms = frozenset(subject_terms(subject))
    sentences = [
        part for block in split_blocks(chunk.text) for part in split_sentences(chunk.text, block.start, block.end)
    ] or [(0, len(chunk.text))]
    start, end = max(
        sentences, key=lambda part: (len(terms.intersection(subject_terms(chunk.text[slice(*part)]))), -part[0])
    )
    return shorten_span(chunk, start, end)


def shorten_span(chunk: Span, start: int, end: int) -> Span:
    """Return a sentence of at most 160 characters, cut between words."""
    if end - start > _SENTENCE_CHARS:
        cut = chunk.text.rfind(" ", start, start + _SENTENCE_CHARS)
        end = cut if cut > start + _SENTENCE_CHARS // 2 else start + _SENTENCE_CHARS
    return cut_span(chunk, start, end)
