"""a subject -> the chunks that mention it; a name or description -> the documents that it means."""

import re
from collections import Counter
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from functools import reduce
from math import log
from typing import Any, Self
from unicodedata import normalize

from kumihimo.core.context import Evidence
from kumihimo.core.spans import Span
from kumihimo.core.table import Table
from kumihimo.generation.quoting.ranking import IndexReader
from kumihimo.generation.quoting.selection import FILE_NAME, QUOTES, names_document, without_document_words
from kumihimo.text.dates import find_dates, list_dates
from kumihimo.text.sentences import collapse_spaces, split_blocks, split_sentences
from kumihimo.text.tokens import subject_terms

_MIN_MATCH = 0.6  # of the words of a description, by rarity, in the names of a document
_OPENING_CHARS, _OPENING_WEIGHT = 300, 0.7
_SHORT = 4  # letters; a shorter word counts only whole
_LEAD = 0.05  # of the score; a document with a smaller lead may not be the one that is meant


@dataclass(frozen=True)
class Passages:
    """The chunks of an index, or a sample of them, as ids and texts. total: the number of chunks in the index."""

    reader: IndexReader
    table: Table[Any]
    ids: list[str]
    texts: list[str]
    total: int

    def document(self, number: int) -> str:
        """Return the document of a chunk."""
        return self.ids[number].partition(".")[0]

    def span(self, number: int) -> Span:
        """Return a chunk as it stands in its document."""
        return read_span(self.reader, self.table, self.ids[number])

    def mentioning(self, subject: str) -> list[int]:
        """Return the chunks with a subject as written, else its words.

        One in quotation marks must stand as it is written.
        """
        folded = [normalize("NFKC", text).casefold() for text in self.texts]
        words = normalize("NFKC", subject).casefold().removeprefix("the ").strip()
        phrase = words.strip(QUOTES)
        first, *rest = map(re.escape, phrase.split(" "))
        before, after = (f"(?<![a-z0-9]{first})", "(?![a-z0-9])") if phrase.isascii() else ("", "")
        form = re.compile(r"\s+".join([first + before, *rest]) + after)  # its letters are found first: that is fast
        patterns = subject_patterns(subject)
        is_phrase, has_parts = words != phrase, len(patterns) > 1 or not words.isascii()
        exact = [i for i, text in enumerate(folded) if form.search(text)] if is_phrase or has_parts else []
        if exact or is_phrase:
            return exact
        return [i for i, text in enumerate(folded) if patterns and all(p.search(text) for p in patterns)]


def subject_patterns(subject: str) -> list[re.Pattern[str]]:
    """Return a pattern for each word of a subject.

    >>> [bool(pattern.search("the seeds are said to keep")) for pattern in subject_patterns("seed AI")]
    [True, False]
    """
    patterns = []
    for term in subject_terms(subject):
        root, end = re.escape(term), ""
        if term.isascii():
            if len(term) < _SHORT:
                end = r"(?:e|s|es)?\b"
            elif term.endswith("y"):
                root, end = root[:-1], "(?:y|ie)"
            root = rf"{root}(?<=\b{root})"  # its letters are found first: that is fast
        patterns.append(re.compile(root + end))
    return patterns


def read_span(reader: IndexReader, chunks: Table[Any], id: str) -> Span:
    """Return a chunk as it stands in its document."""
    return next(iter(reader.spans(Evidence("chunks", chunks[id], 0.0))))


def read_passages(reader: IndexReader, most: int | None = None) -> Passages | None:
    """Return the chunks of the index; None if it has none.

    most: of a larger index, read a sample of at most so many, evenly drawn.
    """
    table = reader.find_table("chunks")
    if not table:
        return None
    total = len(table)
    if most is None or total <= most:
        rows = list(table.columns("id", "text"))
    else:
        chunks = table.get_many([id for (id,) in table.columns("id")][:: -(-total // most)])
        rows = [(id, chunk.text) for id, chunk in chunks.items()]
    return Passages(reader, table, [id for id, _ in rows], [text for _, text in rows], total)


def best_sentence(text: str, terms: Set[str]) -> tuple[int, int]:
    """Return where the sentence or row with most terms stands.

    It is a heading only where nothing else is.
    """
    blocks = split_blocks(text)
    spans = [
        span
        for block in [block for block in blocks if block.kind != "heading"] or blocks
        for span in (
            [(block.start, block.end)] if block.kind == "row" else split_sentences(text, block.start, block.end)
        )
    ]
    return max(spans, key=lambda span: len(terms & set(subject_terms(text[slice(*span)]))), default=(0, 0))


def is_one_document(rows: Collection[Any]) -> bool:
    """Return whether rows are one document, or parts of one file."""
    return len({row.uri.partition("#")[0] for row in rows}) == 1


def rank_documents(name: str, reader: IndexReader) -> list[str]:
    """Return the documents that fit a name, best first.

    A path, a file name or a whole title fits alone. Otherwise the words of the title and the file decide, among the
    documents of the day that the name has; never for the name of a file. What is called a document may have words of
    its beginning.
    """
    tables = [reader.find_table(table) for table in ("documents", "descriptions", "chunks")]
    documents, descriptions, chunks = tables
    if documents is None or descriptions is None or chunks is None:
        return []
    paths = reader.once("paths", lambda: _Paths.of(documents))
    if exact := paths.named_exactly(_fold(name), _fold(without_document_words(name))):
        return exact
    rows = list(descriptions.columns("id", "text", "dates"))
    days = [date for date in list_dates(name) if date[:1].isdigit() and "-" in date]
    dated = [row for row in rows if any(day in row[2] for day in days)]  # a part of JSON
    words = {id: frozenset(subject_terms(text)) for id, text, _ in dated or rows}
    wanted = reduce(lambda text, part: text.replace(name[slice(*part)], " "), find_dates(name) if dated else (), name)
    counts = Counter(term for own in words.values() for term in own)
    telling = subject_terms(without_document_words(wanted))  # a word such as `report` counts only where names have it
    terms = [term for term in dict.fromkeys(subject_terms(wanted)) if term in telling or counts[term]]
    first = [f"{id}.00000" for id in words] if names_document(name) else []
    openings = {c.document: frozenset(subject_terms(c.text[:_OPENING_CHARS])) for c in chunks.get_many(first).values()}
    rarity = {term: log(1 + len(words) / (0.5 + counts[term])) for term in terms}

    def score(id: str) -> float:
        opening = openings.get(id, frozenset())
        found = (rarity[t] * (1.0 if t in words[id] else _OPENING_WEIGHT * (t in opening)) for t in terms)
        return round(sum(found) / (sum(rarity.values()) or 1.0), 4)

    scores = {id: score(id) for id in words}
    best = max(scores.values(), default=0.0)
    certain = dated and names_document(name)  # the day is enough
    if not certain and (best < _MIN_MATCH or FILE_NAME.search(name)):
        return []
    near = sorted((id for id in scores if scores[id] > best - _LEAD), key=lambda id: (-scores[id], id))
    fit = {id: words[id].intersection(subject_terms(name)) for id in near}
    return [id for id, own in fit.items() if not any(own < other for other in fit.values())]


@dataclass(frozen=True, slots=True)
class _Paths:
    """The addresses and titles of documents, folded: id, address, parts of the path and title each."""

    rows: Sequence[tuple[str, str, Sequence[str], str]]

    @property
    def weight(self) -> int:
        """Return the number of rows in memory."""
        return len(self.rows)

    @classmethod
    def of(cls, documents: Table[Any]) -> Self:
        """Return those of a table."""
        rows = ((id, _fold(uri), _fold(title)) for id, uri, title in documents.columns("id", "uri", "title"))
        return cls([(id, uri, uri.partition("#")[0].split("/"), title) for id, uri, title in rows])

    def named_exactly(self, *names: str) -> list[str]:
        """Return the documents whose path or title a name gives exactly."""
        found: dict[str, int] = {}
        for id, uri, path, title in self.rows:
            file = path[-1]
            stem = file.partition(".")[0]
            for name in names:
                length = len(name) * (name in (title, stem, uri))
                if file in name:  # as every longer end of the path that is there
                    ends = ["/".join(path[-n:]) for n in range(len(path), 0, -1)]
                    length = max(length, next((len(end) for end in ends if "." in end and _contains(name, end)), 0))
                found[id] = max(found.get(id, 0), length)
        best = max(found.values(), default=0)
        return sorted(id for id in found if found[id] == best) if best else []


def _contains(name: str, path: str) -> bool:
    """Return whether a path stands in a name, and no longer one."""
    return path in name and re.search(rf"(?<![\w./-]){re.escape(path)}(?![A-Za-z0-9-])", name) is not None


def _fold(name: str) -> str:
    return collapse_spaces(normalize("NFKC", name).casefold()).removeprefix("the ").removeprefix("./")
