"""an index, or a part of it -> its overview: documents by kind, language, date and size, and topics."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

from kumihimo.core.table import Table
from kumihimo.generation.quoting import outlines, ranking
from kumihimo.generation.quoting.drafts import MAX_LONG_CHARS, Draft, name_value, say, say_count
from kumihimo.generation.quoting.topics import Topic, find_topics
from kumihimo.text.dates import compare_dates, find_dates, list_dates
from kumihimo.text.tokens import subject_terms

_MAX_LISTED = 10  # of the largest and the newest documents
_MAX_FOLDERS = 8  # that an answer names
_MIN_TOPICS = 3  # of fewer, titles say more
_MIN_COVERED = 0.5  # of the documents have a topic; else others are named too
_DAY = len("2024-05-18")
_FOLDER_WORDS = re.compile(
    r"^(?:the\s+)?(?:(?:folder|directory)\b)?|\b(?:folder|directory)$|フォルダー?$|文件夹$|資料夾$"
)
_TIME_WORDS = re.compile(r"(?:in|of|from|the|year|during|since)\b|[年の中份]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OverviewDocument:
    """A document of an overview. date: of its content, or empty."""

    id: str
    uri: str
    title: str
    date: str
    characters: int


@dataclass(frozen=True, slots=True)
class Overview:
    """What a collection is made of.

    ids: of its documents, in the order of their addresses. kinds, languages, folders, years: with the number of
    documents. passages, read: how many there are, and how many the topics were counted in.
    """

    ids: Sequence[str]
    kinds: Mapping[str, int]
    languages: Mapping[str, int]
    folders: Mapping[str, int]
    years: Mapping[str, int]
    first: str
    last: str
    newest: Sequence[OverviewDocument]
    largest: Sequence[OverviewDocument]
    topics: Sequence[Topic]
    passages: int
    read: int


@dataclass
class _Counts:
    """The counts of an overview."""

    kind: Counter[str] = field(default_factory=Counter)
    language: Counter[str] = field(default_factory=Counter)
    folder: Counter[str] = field(default_factory=Counter)
    year: Counter[str] = field(default_factory=Counter)

    def add(self, uri: str, fields: Mapping[str, object]) -> None:
        """Count a document."""
        for name, counter in (("kind", self.kind), ("language", self.language)):
            value = fields.get(name) or []
            counter.update([value] if isinstance(value, str) else value if isinstance(value, list) else [])
        self.folder.update(uri.split("/")[1:-1][:1])
        self.year.update(filter(None, [str(fields.get("date", ""))[:4]]))


def read_overview(reader: ranking.IndexReader, part: str = "") -> Overview | None:
    """Return the overview of all visible documents, or of a part.

    part: as for `find_part`. None if there is no such part.
    """
    here = find_part(part, reader) if part else None
    if here is not None and not here:
        return None
    return reader.once(("overview", here), lambda: _make_overview(reader, here))


def _make_overview(reader: ranking.IndexReader, here: frozenset[str] | None) -> Overview:
    """Return the overview of these documents; None: of all."""
    table, chunks = reader.find_table("documents"), reader.find_table("chunks")
    sizes: Counter[str] = Counter()
    for id, start, end in chunks.columns("id", "start", "end") if chunks is not None else ():
        sizes[id.partition(".")[0]] += end - start
    counts, documents = _Counts(), list[OverviewDocument]()
    rows = table.columns("id", "uri", "title", "fields") if table is not None else ()
    for id, uri, title, raw in sorted(rows, key=lambda row: row[1]):
        if here is None or id in here:
            fields = json.loads(raw)
            counts.add(uri, fields)
            documents.append(OverviewDocument(id, uri, title or uri, fields.get("date", "")[:_DAY], sizes[id]))
    topics, passages, read = find_topics(reader, here)
    dates = sorted(each.date for each in documents if each.date)
    return Overview(
        [each.id for each in documents],
        dict(counts.kind.most_common()),
        dict(counts.language.most_common()),
        dict(counts.folder.most_common()),
        dict(sorted(counts.year.items(), reverse=True)),
        first=dates[0] if dates else "",
        last=dates[-1] if dates else "",
        newest=nlargest(_MAX_LISTED, (each for each in documents if each.date), key=lambda each: (each.date, each.uri)),
        largest=nlargest(_MAX_LISTED, documents, key=lambda each: (each.characters, each.uri)),
        topics=topics,
        passages=passages,
        read=read,
    )


def find_part(name: str, reader: ranking.IndexReader) -> frozenset[str]:
    """Return the documents of the folder or time with a name.

    Empty if there is none.
    """
    table, bare = reader.find_table("documents"), _FOLDER_WORDS.sub("", name.casefold()).strip(" 「」“”\"'/")
    if table is None or not bare:
        return frozenset()
    terms, folders = subject_terms(bare), reader.once("folders", lambda: _list_folders(table))
    names = {name for folder in folders for name in folder.split("/") if terms and subject_terms(name) == terms}
    parts = {bare, *map(str.casefold, names)}  # another form of the name, such as the plural
    inside = {folder for folder in folders for part in parts if f"/{part}/" in f"/{folder.casefold()}/"}
    if inside:
        return frozenset(id for id, uri in table.columns("id", "uri") if uri.rpartition("/")[0] in inside)
    dates, spans = list_dates(name), list(find_dates(name))
    if len(dates) != 1 or len(spans) != 1 or _TIME_WORDS.sub("", name[: spans[0][0]] + name[spans[0][1] :]).strip():
        return frozenset()
    days = ((id, json.loads(raw).get("date", "")) for id, raw in table.columns("id", "fields"))
    return frozenset(id for id, day in days if day and compare_dates(day[:_DAY], dates[0]) == 1)


def _list_folders(documents: Table[Any]) -> list[str]:
    """Return the folders of the documents, each once."""
    return sorted({uri.rpartition("/")[0] for (uri,) in documents.columns("uri")})


def write_overview(overview: Overview, reader: ranking.IndexReader, language: str) -> Draft:
    """Return the overview as an answer: counts, topics, and titles.

    Titles are given where topics tell little.
    """
    draft = Draft(MAX_LONG_CHARS)
    draft.add(describe_documents(overview, language), "sentence")
    shown = overview.topics if len(overview.topics) >= _MIN_TOPICS else ()
    if shown:
        draft.add(say("topics", language))
        _add_topics(draft, shown, language)
        if overview.read < overview.passages:
            draft.add(say("sampled", language, n=f"{overview.read:,}", total=f"{overview.passages:,}"))
    covered = {id for topic in shown for id in topic.documents}
    if len(covered) < _MIN_COVERED * len(overview.ids):
        rest = [id for id in overview.ids if id not in covered]
        draft.add(say("other documents" if shown else "its documents", language))
        count, table = min(len(rest), _MAX_LISTED), reader.find_table("documents")
        titles = table.get_many([rest[n * len(rest) // count] for n in range(count)]).values() if table else ()
        cited = outlines.cite_titles(draft, titles)
        if cited < len(rest):
            draft.add(say("more", language, n=f"{len(rest) - cited:,}"))
    return draft


def _add_topics(draft: Draft, topics: Sequence[Topic], language: str) -> None:
    """Add the topics that fit, with their sentences."""
    n = 1
    for topic in topics:
        title = f"{n}. {topic.name} — {say_count('document', len(topic.documents), language)}"
        if draft.size + len(title) + len(topic.quote.text) + 12 < draft.limit:
            draft.add(title, "list")
            n += draft.quote(topic.quote, "   ")


def describe_documents(overview: Overview, language: str) -> str:
    """Return how many documents there are, of what and from when."""
    total, dates = say_count("document", len(overview.ids), language), dict.fromkeys([overview.first, overview.last])
    kinds = _list_counts("kind", overview.kinds, language) if len(overview.kinds) > 1 else ""
    languages = _list_counts("language", overview.languages, language)
    folders = [f"{name} {count:,}" for name, count in overview.folders.items()]
    more = [*folders[:_MAX_FOLDERS], *["…"] * (len(folders) > _MAX_FOLDERS)]
    places = say("folders", language, names=", ".join(more)) if len(folders) > 1 else ""
    return " · ".join(filter(None, [total, kinds, languages, " – ".join(dates), places]))


def _list_counts(name: str, counts: Mapping[str, int], language: str) -> str:
    return ", ".join(f"{name_value(name, value, language)} {count:,}" for value, count in counts.items())
