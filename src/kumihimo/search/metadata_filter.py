"""a filter expression -> the documents whose metadata matches."""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from operator import eq, ge, gt, le, lt
from typing import Any, cast
from unicodedata import normalize

from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.core.records import Document, Metadata
from kumihimo.core.table import Table

Fields = Mapping[str, object]  # the metadata of a document: field -> value
ValueTest = Callable[[object], bool]

DOCUMENT_COLUMNS = ("uri", "file", "title", "media_type", "modified")  # columns of every document
COMPLETED_FIELDS = ("author", "date", "date_source", "language", "kind")  # of a document: they replace its metadata
FILTER_EXAMPLE = 'author = "Sabine Orrell" and date >= 2024'

# A bare word may be of any script: all characters but spaces, punctuation other than `_-.`, and full-width operators
# and brackets.
_WORD_CHARACTER = r"[^\s!-,\/:-@\[-^`{-~“”＂「」（），、＝！＜＞≠≤≥≦≧]"
_KEYWORD_END = f"(?!{_WORD_CHARACTER})"
_GRAMMAR = rf"""
?start: any_of
?any_of: all_of (_OR all_of)*
?all_of: one (_AND one)*
?one: _NOT one -> negated | _LEFT any_of _RIGHT | field -> has | field ORDER value -> compared
    | field listed -> holds | field _NOT listed -> lacks
?listed: _IN values -> among | _CONTAINS value -> contains
values: _LEFT value (_COMMA value)* _RIGHT
field: WORD | NAME
value: TEXT -> text | DATE -> date | NUMBER -> number | TRUTH -> text

_AND.2: /and{_KEYWORD_END}/i
_OR.2: /or{_KEYWORD_END}/i
_NOT.2: /not{_KEYWORD_END}/i
_IN.2: /in{_KEYWORD_END}/i
_CONTAINS.2: /contains{_KEYWORD_END}/i
TRUTH: /(true|false){_KEYWORD_END}/i
WORD: /(?![\d.-]){_WORD_CHARACTER}+/
NAME: /`[^`]+`/
TEXT: /"(\\.|[^"\\])*"|'(\\.|[^'\\])*'|「(\\.|[^」\\])*」|[“”＂][^“”＂]*[“”＂]/s
DATE.2: /\d{{4}}[-－]\d\d([-－]\d\d(T\d\d:\d\d(:\d\d)?Z?)?)?/
NUMBER: /[-+－＋]?\d+([.．]\d+)?/
ORDER: /[=＝]{{1,2}}|[!！][=＝]|≠|[<＜][=＝]?|[>＞][=＝]?|[≤≦≥≧]/
_LEFT: "(" | "（"
_RIGHT: ")" | "）"
_COMMA: "," | "，" | "、"
%ignore /\s+/
"""
_MAX_DEPTH = 100  # protects the stack
_ISO_DATE = re.compile(r"\d{4}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01])(?:[t ].*)?)?)?", re.ASCII | re.DOTALL)
_SLASH_DATE = re.compile(r"(\d{4})[/.年](\d{1,2})(?:[/.月](\d{1,2})日?|月)?", re.ASCII)
_NUMBER = re.compile(r"[-+]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lt,
    "<=": le,
    "≤": le,
    "≦": le,
    ">": gt,
    ">=": ge,
    "≥": ge,
    "≧": ge,
}


def matching_documents(
    expression: str,
    documents: Table[Document],
    model_metadata: Table[Metadata] | None = None,
    without: str = "",
    *,
    lenient: bool = False,
) -> frozenset[str]:
    """Return the ids of the documents that match.

    model_metadata: metadata that a model extracted, for fields that the documents do not set themselves. without: a
    field that no document seems to have.

    Raises SettingsError for a syntax error and, unless `lenient`, for a field that no document has.
    """
    filter_ = parse_filter(expression)
    columns = [name for name in DOCUMENT_COLUMNS if name in filter_.fields]
    missing = set(filter_.fields).difference(columns)
    matching = set()
    for id, fields in _document_fields(documents, columns, _extracted_fields(model_metadata, missing), without):
        if missing:
            missing -= {field for field in missing if any(True for _ in field_values(fields, field))}
        if filter_.matches(fields):
            matching.add(id)
    if missing and not lenient:
        field = next(field for field in filter_.fields if field in missing)
        known = count_fields(documents, model_metadata, without)
        raise SettingsError(f"the filter: {describe_unknown('field', field, known)}")
    return frozenset(matching)


def _extracted_fields(model_metadata: Table[Metadata] | None, names: Collection[str]) -> dict[str, dict[str, object]]:
    """Return the extracted values of these fields, by document."""
    by_document: dict[str, dict[str, object]] = {}
    if model_metadata is not None:
        for field in sorted(names):
            for row in model_metadata.where(field=field):
                by_document.setdefault(row.document, {})[row.field] = list(row.values)
    return by_document


def _document_fields(
    documents: Table[Document], columns: Sequence[str], extracted: Mapping[str, Fields], without: str
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield each document id with its fields: metadata, columns, and `metadata` itself.

    Columns and completed fields win over metadata, and metadata over extracted values.
    """
    decode = json.JSONDecoder().raw_decode  # half the time of `json.loads`
    for id, raw, raw_completed, *values in documents.columns("id", "metadata", "fields", *columns):
        metadata: dict[str, object] = decode(raw)[0]
        completed: dict[str, object] = decode(raw_completed)[0]
        metadata.pop(without, None)
        fields = {"metadata": metadata, **replace_metadata(metadata, completed)}
        additions = extracted.get(id, {}).items()
        fields |= {name: value for name, value in additions if not any(True for _ in field_values(fields, name))}
        fields |= compress(zip(columns, values, strict=True), values)
        yield id, fields


def replace_metadata(metadata: Fields, completed: Fields) -> dict[str, object]:
    """Return the completed fields of a document, and its other metadata.

    >>> replace_metadata({"date": "2013-12-23", "author": "admin", "topic": "tides"}, {"date": "2024", "kind": "pdf"})
    {'date': '2024', 'kind': 'pdf', 'topic': 'tides'}
    """
    hidden = COMPLETED_FIELDS if completed else ()
    return {**completed, **{name: value for name, value in metadata.items() if name not in hidden}}


def count_fields(
    documents: Table[Document], model_metadata: Table[Metadata] | None = None, without: str = ""
) -> dict[str, int]:
    """Return how many documents have each field of filters.

    The completed fields come first, then the most frequent. model_metadata, without: as for `matching_documents`.
    """
    names = {field for (field,) in model_metadata.columns("field")} if model_metadata is not None else set[str]()
    counts = Counter(dict.fromkeys(DOCUMENT_COLUMNS, 0))
    for _, fields in _document_fields(documents, DOCUMENT_COLUMNS, _extracted_fields(model_metadata, names), without):
        del fields["metadata"]
        counts.update(set(_field_names(fields, "")))
    order = {name: position for position, name in enumerate(COMPLETED_FIELDS, -len(COMPLETED_FIELDS))}
    return dict(sorted(counts.items(), key=lambda item: (order.get(item[0], 0), -item[1], item[0])))


def _field_names(fields: Fields, outer: str) -> Iterator[str]:
    """Yield the names of fields with a value, such as `a.b`."""
    for key, value in fields.items():
        if isinstance(value, Mapping):
            yield from _field_names(value, f"{outer}{key}.")
        elif any(True for _ in _nested_values(value, ())):
            yield outer + key


@dataclass(frozen=True, slots=True)
class Filter:
    """A test of documents, and the fields it depends on."""

    matches: Callable[[Fields], bool]
    fields: tuple[str, ...]
    depth: int = 1


def parse_filter(expression: str) -> Filter:
    """Return the filter of an expression. Raise SettingsError for a syntax error.

    >>> parsed = parse_filter('author = "Hild Garrow" and (year >= 2020 or not year)')
    >>> parsed.fields
    ('author', 'year', 'year')
    >>> [parsed.matches(document) for document in ({"author": "hild garrow", "year": "2,021"}, {"author": "Bo"})]
    [True, False]
    """
    from lark import UnexpectedInput, UnexpectedToken

    try:
        return cast(Filter, _parser().parse(expression))
    except UnexpectedInput as error:
        at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
        position = error.pos_in_stream or 0
        rest = expression[position : position + 20].split("\n")[0]
        problem = "ends too early" if at_end else f"is not understood from {rest!r} (character {position + 1}) on"
        raise SettingsError(f"the filter {problem}: write it like {FILTER_EXAMPLE}") from error


@lru_cache(1)
def _parser() -> Any:
    from lark import Lark

    return Lark(_GRAMMAR, parser="lalr", transformer=cast(Any, _FilterTransformer()))


class _FilterTransformer:
    """The transformer of the grammar: a method for each rule."""

    def any_of(self, parts: Sequence[Filter]) -> Filter:
        return _combine_filters(parts, lambda d: any(part.matches(d) for part in parts))

    def all_of(self, parts: Sequence[Filter]) -> Filter:
        return _combine_filters(parts, lambda d: all(part.matches(d) for part in parts))

    def negated(self, parts: Sequence[Filter]) -> Filter:
        (part,) = parts
        return _combine_filters(parts, lambda d: not part.matches(d))

    def has(self, parts: Sequence[str]) -> Filter:
        return _any_value(parts[0], lambda _: True)

    def compared(self, parts: tuple[str, str, "FilterValue"]) -> Filter:
        field, order, operand = parts
        order = normalize("NFKC", order)
        if order in _COMPARISONS:
            return _any_value(field, operand.compare(_COMPARISONS[order]))
        equal = _any_value(field, operand.compare(eq))
        return equal if order in ("=", "==") else self.negated([equal])

    def among(self, parts: Sequence[list["FilterValue"]]) -> ValueTest:
        words = {value.text for value in parts[0] if value.is_plain_text}  # a list may be long
        equals = [value.compare(eq) for value in parts[0] if not value.is_plain_text]
        return lambda other: _fold_value(other) in words or any(equal(other) for equal in equals)

    def contains(self, parts: Sequence["FilterValue"]) -> ValueTest:
        return lambda other: parts[0].text in _fold_value(other)

    def holds(self, parts: tuple[str, ValueTest]) -> Filter:
        return _any_value(*parts)

    def lacks(self, parts: tuple[str, ValueTest]) -> Filter:
        return self.negated([_any_value(*parts)])

    def field(self, parts: Sequence[str]) -> str:
        return str(parts[0]).strip("`")

    def values(self, parts: list["FilterValue"]) -> list["FilterValue"]:
        return parts

    def text(self, parts: Sequence[str]) -> "FilterValue":
        unquoted = parts[0] if parts[0][0].isalpha() else re.sub(r"""\\([\\"'「」])""", r"\1", parts[0][1:-1])
        return _filter_value(unquoted, quoted=True)

    def date(self, parts: Sequence[str]) -> "FilterValue":
        value = _filter_value(parts[0])
        if not value.date:
            raise SettingsError(f"the filter: {parts[0]} is no date: write it like 2024-05-01, 2024-05 or 2024")
        return value

    def number(self, parts: Sequence[str]) -> "FilterValue":
        return _filter_value(parts[0])


def _combine_filters(parts: Sequence[Filter], matches: Callable[[Fields], bool]) -> Filter:
    depth = 1 + max(part.depth for part in parts)
    if depth > _MAX_DEPTH:
        raise SettingsError(f"the filter is nested more than {_MAX_DEPTH} deep: write it flatter")
    return Filter(matches, tuple(field for part in parts for field in part.fields), depth)


def _any_value(field: str, is_match: ValueTest) -> Filter:
    return Filter(lambda document: any(is_match(value) for value in field_values(document, field)), (field,))


def field_values(document: Fields, field: str) -> Iterator[object]:
    """Yield the values of a field, lists item by item.

    Null and empty values are skipped.

    >>> list(field_values({"tags": ["a", "b"], "source": {"name": "N"}, "note": ""}, "source.name"))
    ['N']
    """
    return _nested_values(document[field], ()) if field in document else _nested_values(document, field.split("."))


def _nested_values(value: object, keys: Sequence[str]) -> Iterator[object]:
    if isinstance(value, list):
        for item in value:
            yield from _nested_values(item, keys)
    elif keys:
        if isinstance(value, Mapping) and keys[0] in value:
            yield from _nested_values(value[keys[0]], keys[1:])
    elif value is not None and value != "" and value != {}:
        yield value


@dataclass(frozen=True, slots=True)
class FilterValue:
    """A value of a filter: a number, a date or a text.

    Dates are compared to the precision of this one.
    date: ISO 8601, possibly shortened, or empty. quoted: a text, even if it looks like a number.
    """

    text: str
    number: float | None
    date: str
    quoted: bool = False

    @property
    def is_plain_text(self) -> bool:
        """Return whether it is compared as text with any value."""
        return self.number is None and not self.date

    def compare(self, comparison: Callable[[Any, Any], bool]) -> ValueTest:
        """Return a test: a value is comparable and the comparison is true."""

        def test(other: object) -> bool:
            pair = self._comparable_pair(other)
            return pair is not None and comparison(*pair)

        return test

    def _comparable_pair(self, other: object) -> tuple[object, object] | None:
        """Return both values in comparable form, or None."""
        if self.number is not None and isinstance(other, int | float) and not isinstance(other, bool):
            return other, self.number
        text = _fold_value(other)
        if self.date and (date := _parse_date(text)):
            return date[: len(self.date)], self.date
        if self.quoted:
            return text, self.text
        number = None if self.number is None else _parse_number(text)
        return None if number is None else (number, self.number)


def _filter_value(raw: str, *, quoted: bool = False) -> FilterValue:
    text = _fold_value(raw)
    return FilterValue(text, _parse_number(text), _parse_date(text), quoted)


def _fold_value(value: object) -> str:
    """Return the value as text without differences of case and width."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return normalize("NFKC", text).casefold()


def _parse_number(text: str) -> float | None:
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return int(text.replace(",", ""))  # exact: ids may have many digits
    except ValueError:
        return float(text.replace(",", ""))


def _parse_date(text: str) -> str:
    """Return the date as (shortened) ISO 8601, else an empty text.

    >>> [_parse_date(text) for text in ("2023/4/5", "2023年04月", "2023.04.05", "2023-04-05", "1.5")]
    ['2023-04-05', '2023-04', '2023-04-05', '2023-04-05', '']
    """
    if match := _SLASH_DATE.fullmatch(text):
        text = "-".join(part.zfill(2) for part in match.groups() if part)
    return text.replace(" ", "t").removesuffix("z") if _ISO_DATE.fullmatch(text) else ""
