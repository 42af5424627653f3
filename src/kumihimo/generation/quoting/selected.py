"""what a question says of documents + their table -> how many they are, which, and the outline of a single one."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from unicodedata import normalize

from kumihimo.core.spans import Span
from kumihimo.generation.quoting.drafts import MAX_LONG_CHARS, Draft, name_value, say, say_count, shorten_span
from kumihimo.generation.quoting.outlines import write_outline
from kumihimo.generation.quoting.overview import find_part
from kumihimo.generation.quoting.passages import Passages, best_sentence, read_passages
from kumihimo.generation.quoting.ranking import IndexReader
from kumihimo.generation.quoting.selection import QUOTES, SIGNS
from kumihimo.text import sentences, tokens
from kumihimo.text.dates import compare_dates

_MAX_ITEMS = 20
_MIN_DATED = 0.8  # of the documents: else another one may be the newest
_MAX_SUBJECT = 3  # words that count as a mention wherever they stand in a chunk
_SUBTITLE = re.compile(r"(?:(?<!\s)\s+)?[:：(（]|\s[-–—]\s")
_TESTS: Mapping[str, Callable[[str, str], bool]] = {  # of a condition and a value of a document; others are equal
    "title": lambda asked, title: _plain(asked) == _plain(title),
    "author": lambda asked, author: f" {_plain(asked)} " in f" {_plain(author)} ",
}


@dataclass(frozen=True, slots=True)
class _Listed:
    """A document of a list. values: for conditions, by name."""

    id: str
    uri: str
    file: str
    title: str
    day: str
    values: Mapping[str, Sequence[str]]

    def has(self, name: str, value: str) -> bool:
        """Return whether the document fulfils a condition."""
        return any(_TESTS.get(name, str.__eq__)(value, own) for own in self.values.get(name, ()))


@dataclass(frozen=True, slots=True)
class _Documents:
    """All documents, as lists show them."""

    rows: Sequence[_Listed]

    @property
    def weight(self) -> int:
        """Return the number of rows in memory."""
        return len(self.rows)


def write_selected(selection: Mapping[str, str], reader: IndexReader, language: str) -> Draft | None:
    """Return the documents that a question asks for, or None.

    None: there are none, or it is not certain which ones they are.
    """
    mention, asks = selection.get("mention", ""), selection.get("asks")
    passages = read_passages(reader) if mention else None
    documents = reader.once("listed", lambda: _Documents(list(_read_documents(reader)))).rows
    mentions = _find_mentions(mention, passages) if passages else {}
    found = {"mention": mentions.keys(), "folder": find_part(selection.get("folder", ""), reader)}
    conditions, among = _fitting(selection, documents, found)
    times = {name: selection[name] for name in ("date", "order") if name in selection}
    chosen = _choose_by_date(among, **times)
    if not chosen or (asks == "contents" and len(chosen) > 1):
        return None
    values = {**conditions, **times}
    if order := values.pop("order", ""):
        values[order] = chosen[0].day
    named = [say(name, language, value=name_value(name, value, language)) for name, value in values.items()]
    files = f"{len({each.file for each in documents}):,}"
    numbers = {"n": f"{len(chosen):,}", "total": f"{len(documents):,}", "files": files}
    draft = Draft(MAX_LONG_CHARS)
    labels = (", " if language == "en" else "、").join(named)
    draft.add(say("selected" if named else "all documents", language, labels=labels, **numbers), "sentence")
    if times and (undated := sum(not each.day for each in among)):
        draft.add(say("undated", language, n=f"{undated:,}"))
    one = [chosen[0].id] if times and len(chosen) == 1 and asks != "count" else []
    if one and (outline := write_outline("", reader, language, one)):  # a table has none
        return replace(outline, parts=draft.parts + outline.parts)
    titles = Counter(each.title for each in documents)
    for each in sorted(chosen, key=lambda each: (-len(mentions.get(each.id, ())), each.day, each.uri))[:_MAX_ITEMS]:
        name = each.title if titles[each.title] == 1 else each.uri
        if passages:
            line = f"- {name} ({say_count('passage', len(mentions[each.id]), language)}): "
            passage = passages.span(mentions[each.id][0])
            sentence = best_sentence(passage.text, frozenset(tokens.subject_terms(mention)))
            draft.quote(shorten_span(passage, *sentence), line)
        else:
            known = ", ".join(filter(None, [*each.values.get("author", ()), each.day]))
            draft.cite(f"- {name} ({known})" if known else f"- {name}", _first_block(each.uri, reader))
    if len(chosen) > len(draft.citations):
        draft.add(say("more", language, n=f"{len(chosen) - len(draft.citations):,}"))
    return draft


def _find_mentions(subject: str, passages: Passages) -> Mapping[str, Sequence[int]]:
    """Return the numbers of the passages that mention a subject, by document."""
    if not tokens.subject_terms(subject):
        return {}
    numbers, phrase = passages.mentioning(subject), subject.strip(QUOTES).casefold()
    exact = any(phrase in passages.texts[number].casefold() for number in numbers)
    # words of a description that stand apart are no mention
    is_sure = exact or len(tokens.subject_terms(subject)) <= _MAX_SUBJECT or not subject.isascii()
    mentions = defaultdict[str, list[int]](list)
    for number in numbers if is_sure else ():
        mentions[passages.document(number)].append(number)
    return dict(mentions)


def _read_documents(reader: IndexReader) -> Iterator[_Listed]:
    """Yield all documents with what conditions are about."""
    table, known = reader.find_table("documents"), dict[str, Mapping[str, Sequence[str]]]()
    for id, uri, file, title, raw in table.columns("id", "uri", "file", "title", "fields") if table is not None else ():
        if raw not in known:  # most documents have the fields of others
            fields = json.loads(raw)
            known[raw] = {name: [value] if isinstance(value, str) else value for name, value in fields.items()}
        values = known[raw]
        if "author" in values:
            titles = [title, _SUBTITLE.split(title)[0], uri.rpartition("/")[2].partition(".")[0]]
            values = {**values, "title": titles}
        [day] = values.get("date", [""])
        yield _Listed(id, uri, file, title, day[: len("2024-05-18")], values)


def _fitting(
    selection: Mapping[str, str], documents: Sequence[_Listed], found: Mapping[str, Collection[str]]
) -> tuple[Mapping[str, str], Sequence[_Listed]]:
    """Return the certain conditions and the documents that fulfil them.

    Conditions of time are left out. A word such as `texts` alone need not mean the documents. found: the documents of
    the conditions that their fields do not tell.
    """
    conditions = {name: value for name, value in selection.items() if name not in ("asks", "date", "order")}
    if conditions.pop("noun", "document") != "document" and not conditions:
        return {}, []
    own = [(name, value) for name, value in conditions.items() if name not in found]
    here = [found[name] for name in conditions if name in found]
    fit = (each for each in documents if all(each.id in ids for ids in here))
    return conditions, [each for each in fit if all(starmap(each.has, own))]


def _choose_by_date(documents: Sequence[_Listed], date: str = "", order: str = "") -> Sequence[_Listed]:
    """Return the documents of a date; of them, the newest or oldest.

    There is no newest one if too few have a date, and nothing of a period that may or may not have a document.
    """
    sign, _, limit = date.rpartition(" ")
    if sign.endswith("?") and any(each.day.startswith(limit) for each in documents):
        return []
    chosen = [each for each in documents if not date or (each.day and _is_in(each.day, sign.strip("?"), limit))]
    if not order:
        return chosen
    days = sorted(each.day for each in chosen if each.day)
    is_certain = len(days) >= max(2, _MIN_DATED * len(chosen))
    return [each for each in chosen if is_certain and each.day == days[-1 if order == "newest" else 0]]


def _is_in(day: str, sign: str, limit: str) -> bool:
    """Return whether a day is certainly in a period.

    >>> _is_in("2022-09-05", "<", "2022-10"), _is_in("2022", "<", "2022-10"), _is_in("2023-04-01", ">", "2023")
    (True, False, False)
    """
    return SIGNS[sign](day[: len(limit)], limit) and len(day) >= len(limit) if sign else compare_dates(day, limit) == 1


def _plain(text: str) -> str:
    """Return the words of a name, without a first article."""
    return re.sub(r"\W+", " ", re.sub(r"^(?:the|an?)\s", "", normalize("NFKC", text).casefold())).strip()


def _first_block(uri: str, reader: IndexReader) -> Span:
    """Return the first block of a document."""
    text, _, body = reader.document(uri)
    start, end = next(((block.start, block.end) for block in sentences.split_blocks(text, body)), (body, body))
    return Span("", uri, start, end, text[start:end])
