"""a subject -> the chunks that mention it; a name or description -> the documents that it means."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import reduce
from math import log, sqrt
from typing import Any
from unicodedata import normalize

from kumihimo.core.context import Evidence
from kumihimo.core.spans import Span
from kumihimo.core.table import Table
from kumihimo.generation.quoting.ranking import IndexReader
from kumihimo.generation.quoting.requests import names_document, read_request, without_document_words
from kumihimo.text.dates import find_dates, list_dates
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.sentences import collapse_spaces, split_blocks, split_sentences
from kumihimo.text.tokens import subject_terms

_MIN_MATCH = 0.6  # of the words of a description, by rarity, in the names of a document
_MIN_NEAR = 0.25  # of them in a title that is offered
_OPENING_CHARS, _OPENING_WEIGHT = 300, 0.7
_SHORT = 4  # letters; a shorter word counts only whole
_LEAD = 0.05  # of the score; a document with a smaller lead may not be the one that is meant
MIN_SHARE = 0.35  # of the words of a subject, by rarity, that a place about it has
NEAR = 300  # characters between a subject and what comes with it
_FILE_NAME = re.compile(r"[\w)-]\.[A-Za-z]\w{1,4}$")  # of no document, if no path fits
_MAX_PARTS = 30  # documents with one title that are read as one


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
        return next(iter(self.reader.spans(Evidence("chunks", self.table[self.ids[number]], 0.0))))

    def mentioning(self, subject: str) -> list[int]:
        """Return the chunks with a subject as written, else its words."""
        folded = [normalize("NFKC", text).casefold() for text in self.texts]
        phrase = normalize("NFKC", subject).casefold().removeprefix("the ").strip()
        patterns = subject_patterns(subject)
        exact = [i for i, text in enumerate(folded) if phrase in text] if len(patterns) > 1 else []
        return exact or [i for i, text in enumerate(folded) if patterns and all(p.search(text) for p in patterns)]


def subject_patterns(subject: str) -> list[re.Pattern[str]]:
    """Return a pattern for each word of a subject.

    >>> [bool(pattern.search("the seeds are said to keep")) for pattern in subject_patterns("seed AI")]
    [True, False]
    """
    patterns = []
    for term in subject_terms(subject):
        begin = r"\b" if term.isascii() else ""
        root = re.sub("y$", "(?:y|ie)", re.escape(term)) if begin and len(term) >= _SHORT else re.escape(term)
        patterns.append(re.compile(begin + root + (r"(?:e|s|es)?\b" if begin and len(term) < _SHORT else "")))
    return patterns


@dataclass(frozen=True, slots=True)
class Subject:
    """The words of a subject with their weights by rarity; sum 1, or none for the whole."""

    weights: Mapping[re.Pattern[str], float]

    def share(self, folded: str) -> float:
        """Return how much of the subject is in a text without capitals."""
        return (
            sum(weight for pattern, weight in self.weights.items() if pattern.search(folded)) if self.weights else 1.0
        )

    def near(self, folded: str) -> tuple[float, int, str]:
        """Return the best share of a place, their number and their text."""
        if not self.weights:
            return 1.0, 1, folded
        places = sorted({match.start() for pattern in self.weights for match in pattern.finditer(folded)})
        around = [folded[max(place - NEAR, 0) : place + NEAR] for place in places]
        shares = [round(self.share(part), 4) for part in around]
        best = max(shares, default=0.0)
        parts = [part for part, share in zip(around, shares, strict=True) if share == best]
        return best, len(parts), "\n".join(parts)


def weigh_subject(subject: str, folded: Sequence[str]) -> Subject:
    """Return a subject with the weights of its words in texts."""
    counts = {p: sum(p.search(text) is not None for text in folded) for p in subject_patterns(subject)}
    weights = {pattern: sqrt(log(1 + len(folded) / (0.5 + count))) for pattern, count in counts.items() if count}
    return Subject({pattern: weight / sum(weights.values()) for pattern, weight in weights.items()})


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
    """Return where the sentence or row with most terms stands."""
    spans = [
        span
        for block in split_blocks(text)
        for span in (
            [(block.start, block.end)] if block.kind == "row" else split_sentences(text, block.start, block.end)
        )
    ]
    return max(spans, key=lambda span: len(terms & set(subject_terms(text[slice(*span)]))), default=(0, 0))


def find_documents(name: str, reader: IndexReader) -> list[str]:
    """Return the ids of the document that a name certainly means.

    They are one document, or the rows of a file with one title. Nothing is returned if several fit.
    """
    documents = reader.find_table("documents")
    rows = documents.get_many(rank_documents(name, reader)[0]) if documents is not None else {}
    if len({row.uri.partition("#")[0] for row in rows.values()}) != 1:
        return []
    return sorted(rows, key=lambda id: (len(rows[id].uri), rows[id].uri))[:_MAX_PARTS]


def asks_for_one_document(asked: ParsedQuestion, reader: IndexReader) -> bool:
    """Return whether a question requests the outline of a certain document."""
    request = read_request(asked)
    return request is not None and request.kind == "outline" and bool(find_documents(request.subject, reader))


def rank_documents(name: str, reader: IndexReader) -> tuple[list[str], list[str]]:
    """Return the documents that fit a name, and near ones.

    A path, a file name or a whole title fits alone. Otherwise the words of the title, the file and the opening decide,
    among the documents of the day that the name has; never for the name of a file. The first list is empty if none
    fits.
    """
    documents, descriptions = reader.find_table("documents"), reader.find_table("descriptions")
    chunks, bare = reader.find_table("chunks"), without_document_words(name)
    if documents is None or descriptions is None or chunks is None:
        return [], []
    if exact := _named_exactly((_fold(name), _fold(bare)), documents):
        return exact, exact
    rows = list(descriptions.columns("id", "text", "dates"))
    days = [date for date in list_dates(name) if date[:1].isdigit() and "-" in date]
    dated = [row for row in rows if any(day in row[2] for day in days)]  # a part of JSON
    if dated:
        bare = reduce(lambda text, part: text.replace(name[slice(*part)], " "), find_dates(name), bare)
    terms = dict.fromkeys(subject_terms(bare) or subject_terms(name))
    words_of_names = {id: frozenset(subject_terms(text)) for id, text, _ in dated or rows}
    openings = chunks.get_many(f"{id}.00000" for id in words_of_names)
    opened = {c.document: frozenset(subject_terms(c.text[:_OPENING_CHARS])) for c in openings.values()}
    counts = {term: sum(term in words for words in words_of_names.values()) for term in terms}
    rarity = {term: log(1 + len(words_of_names) / (0.5 + count)) for term, count in counts.items()}
    total = sum(rarity.values()) or 1.0

    def score(id: str) -> float:
        own, opening = words_of_names[id], opened.get(id, frozenset())
        shares = {term: 1.0 if term in own else _OPENING_WEIGHT * (term in opening) for term in terms}
        return sum(rarity[term] * share for term, share in shares.items()) / total

    scores = {id: round(score(id), 4) for id in words_of_names}
    best = max(scores.values(), default=0.0)
    certain = dated and names_document(name)  # the day is enough
    near = sorted((id for id in scores if certain or scores[id] >= _MIN_NEAR), key=lambda id: (-scores[id], id))
    fit = {id: words_of_names[id].intersection(subject_terms(name)) for id in near if scores[id] > best - _LEAD}
    most = [id for id, own in fit.items() if not any(own < other for other in fit.values())]
    is_certain = certain or (best >= _MIN_MATCH and not _FILE_NAME.search(name))
    return (most if is_certain else []), near


def _named_exactly(names: Iterable[str], documents: Table[Any]) -> list[str]:
    """Return the documents whose path or title a name gives exactly."""
    found: dict[str, int] = {}
    for id, uri, title in documents.columns("id", "uri", "title"):
        path = _fold(uri).partition("#")[0].split("/")
        for name in names:
            ends = ["/".join(path[-n:]) for n in range(len(path), 0, -1)]
            length = next((len(end) for end in ends if "." in end and _contains(name, end)), 0)
            whole = name in (_fold(title), path[-1].partition(".")[0]) or _fold(uri) == name
            found[id] = max(found.get(id, 0), length, len(name) * whole)
    best = max(found.values(), default=0)
    return sorted(id for id in found if found[id] == best) if best else []


def _contains(name: str, path: str) -> bool:
    """Return whether a path stands in a name, and no longer one."""
    return path in name and re.search(rf"(?<![\w./-]){re.escape(path)}(?![A-Za-z0-9-])", name) is not None


def _fold(name: str) -> str:
    return collapse_spaces(normalize("NFKC", name).casefold()).removeprefix("the ").removeprefix("./")
