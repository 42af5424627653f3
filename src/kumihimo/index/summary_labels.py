"""metadata values -> labels that group questions; and a user's text -> the label it means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from unicodedata import normalize

from kumihimo.core.errors import SettingsError
from kumihimo.core.records import NOT_READ

MAX_QUESTION_LABEL_CHARS = 200  # a longer value is no name
_MAX_CATEGORY_CHARS, _MAX_CATEGORY_WORDS = 60, 8  # of a category in a field that the setting does not name
_COMBINATION = re.compile(r"\s+[x×]\s+", re.I)
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[^\W\d_]")
_SENTENCE_END = re.compile(r"[.!?]\s|[。！？\n]")
_YES_NO_WORDS = frozenset("true false yes no none null n/a はい いいえ なし 是 否".split())  # noqa: SIM905
# Last words of field names with text, or with a different value in each document.
_NON_CATEGORY_FIELDS = frozenset(
    """abstract address body comment comments content contents created creation date day description doi email file
    filename hash href id isbn issn key link links modified note notes number page pages path published slug subtitle
    summary text time timestamp title updated uri url urls uuid version
    題名 表題 題 タイトル 件名 日付 日 日時 番号 要約 概要 本文 备注 標題 标题 日期 时间 摘要 正文 编号""".split()  # noqa: SIM905
) | {NOT_READ}


def label_key(text: str) -> str:
    """Return a comparison key of a label.

    Case, width and spaces do not count.

    >>> label_key("research_field = ＮＬＰ") == label_key("Research field  =  nlp")
    True
    """
    return " ".join(normalize("NFKC", text).casefold().replace("_", " ").split())


def metadata_labels(metadata: Mapping[str, Sequence[str]], by: Iterable[str]) -> list[str]:
    """Return the labels of a document, field by field.

    by: fields, and combinations of fields; empty: all fields with category-like values.

    >>> known = {"title": ["Tides"], "research_field": ["NLP", "ML"], "company": ["Tern & Co"], "year": ["2024"]}
    >>> metadata_labels(known, ())
    ['research_field = NLP', 'research_field = ML', 'company = Tern & Co']
    >>> metadata_labels(known, ("year", "Research Field x company"))[1:]
    ['research_field = NLP x company = Tern & Co', 'research_field = ML x company = Tern & Co']
    """
    by_field = {
        label_key(name): [f"{name} = {value}" for value in _short_lines(values)] for name, values in metadata.items()
    }
    if combinations := [
        [label_key(name) for name in _COMBINATION.split(combination.strip())]
        for combination in by
        if combination.strip()
    ]:
        labels = [
            " x ".join(combined)
            for fields in combinations
            for combined in product(*(by_field.get(name, []) for name in fields))
        ]
    else:
        labels = [
            f"{name} = {value}"
            for name, values in metadata.items()
            for value in _short_lines(values)
            if _is_category(name, value)
        ]
    return unique_labels(labels)


def unique_labels(texts: Iterable[str]) -> list[str]:
    """Return the texts in order, without repeats in another spelling.

    >>> unique_labels(["NLP", "ＮＬＰ", "nlp", "ML"])
    ['NLP', 'ML']
    """
    first: dict[str, str] = {}
    for text in texts:
        first.setdefault(label_key(text), text)
    return list(first.values())


def _short_lines(values: Iterable[str]) -> Iterator[str]:
    """Yield each value on one line, without values that are too long."""
    for value in values:
        if len(value) <= MAX_QUESTION_LABEL_CHARS and (line := " ".join(value.split())):
            yield line


def _is_category(field: str, value: str) -> bool:
    """Return whether documents are likely to share the value as a category.

    >>> values = ("tide gates", "2024-05-01", "https://a.org/b", "yes", "It rose. So?")
    >>> [_is_category("topic", value) for value in values]
    [True, False, False, False, False]
    >>> [_is_category(field, "Tides") for field in ("title", "doc_id", "Sub-title", "原題", "tags")]
    [False, False, False, True, True]
    """
    last_word = re.split(r"[\s\-.]+", label_key(field))[-1]
    if (
        last_word in _NON_CATEGORY_FIELDS
        or label_key(field) in _NON_CATEGORY_FIELDS
        or field in _NON_CATEGORY_FIELDS
        or label_key(value) in _YES_NO_WORDS
    ):
        return False
    letters, digits = len(_LETTER.findall(value)), len(_DIGIT.findall(value))
    is_brief = len(value) <= _MAX_CATEGORY_CHARS and len(value.split()) <= _MAX_CATEGORY_WORDS
    return is_brief and letters > digits and not ("://" in value or "@" in value or _SENTENCE_END.search(value))


def resolve_label_id(value: str, labels: Iterable[tuple[str, str]]) -> str:
    """Return the id of the label that a text means.

    Match the whole label or its values alone. Raise SettingsError if no label matches, or several do.

    labels: (id, label) pairs.

    >>> known = [("1", "topic = NLP"), ("2", "topic = NLP x company = Tern"), ("3", "tags = Tern"), ("4", "by = Tern")]
    >>> resolve_label_id("nlp", known), resolve_label_id("ＮＬＰ × tern", known), resolve_label_id("Tags=Tern", known)
    ('1', '2', '3')
    >>> resolve_label_id("tern", known)
    Traceback (most recent call last):
    kumihimo.core.errors.SettingsError: 'tern' may be 'by = Tern' or 'tags = Tern': write one of these
    """
    ids = dict(sorted((label, id) for id, label in labels))
    query = label_key(_COMBINATION.sub(" x ", re.sub(r"\s*[=＝]\s*", " = ", value)))
    matches = [label for label in ids if label_key(label) == query] or [
        label for label in ids if label_key(_label_values(label)) == query
    ]
    if len(matches) == 1:
        return ids[matches[0]]
    if matches:
        raise SettingsError(f"{value!r} may be {' or '.join(map(repr, matches))}: write one of these")
    by_spelling = {variant: label for label in ids for variant in (label_key(label), label_key(_label_values(label)))}
    suggestions = dict.fromkeys(
        repr(by_spelling[closest]) for closest in get_close_matches(query, by_spelling, n=3, cutoff=0.5)
    )
    hint = f"; did you mean {' or '.join(suggestions)}?" if suggestions else ":"
    raise SettingsError(f"no summary of {value!r}{hint} `kumi summaries` lists them")


def _label_values(label: str) -> str:
    """Return a label without its field names.

    >>> _label_values("research_field = NLP x company = Tern & Co")
    'NLP x Tern & Co'
    """
    return " x ".join(part.partition(" = ")[2] for part in label.split(" x "))
