"""values of metadata -> labels, under which questions are summed up; and which label somebody means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from unicodedata import normalize

from kumihimo.core.errors import SettingsError
from kumihimo.core.records import NOT_READ

MAX_QUESTION_LABEL_CHARS = 200  # characters of a value: what is longer names nothing
_MAX_CATEGORY_CHARS, _MAX_CATEGORY_WORDS = (
    60,
    8,
)  # characters and words of a value that sorts documents, where nobody has named its field
_COMBINATION = re.compile(r"\s+[x×]\s+", re.I)
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[^\W\d_]")
_SENTENCE_END = re.compile(r"[.!?]\s|[。！？\n]")
_YES_NO_WORDS = frozenset("true false yes no none null n/a はい いいえ なし 是 否".split())  # noqa: SIM905
# The last word of a field that each document has its own value of, or that is text.
_NON_CATEGORY_FIELDS = frozenset(
    """abstract address body comment comments content contents created creation date day description doi email file
    filename hash href id isbn issn key link links modified note notes number page pages path published slug subtitle
    summary text time timestamp title updated uri url urls uuid version
    題名 表題 題 タイトル 件名 日付 日 日時 番号 要約 概要 本文 备注 標題 标题 日期 时间 摘要 正文 编号""".split()  # noqa: SIM905
) | {NOT_READ}


def label_key(text: str) -> str:
    """What ways to write a label have in common: case, width and spaces do not count.

    >>> key("research_field = ＮＬＰ") == key("Research field  =  nlp")
    True
    """
    return " ".join(normalize("NFKC", text).casefold().replace("_", " ").split())


def metadata_labels(metadata: Mapping[str, Sequence[str]], by: Iterable[str]) -> list[str]:
    """The labels of a document with this metadata, by field. by: fields, and combinations of them; none: all that sort.

    >>> known = {"title": ["Tides"], "research_field": ["NLP", "ML"], "company": ["Tern & Co"], "year": ["2024"]}
    >>> labels(known, ())
    ['research_field = NLP', 'research_field = ML', 'company = Tern & Co']
    >>> labels(known, ("year", "Research Field x company"))[1:]
    ['research_field = NLP x company = Tern & Co', 'research_field = ML x company = Tern & Co']
    """
    held = {
        label_key(name): [f"{name} = {value}" for value in _short_lines(values)] for name, values in metadata.items()
    }
    if wanted := [[label_key(name) for name in _COMBINATION.split(each.strip())] for each in by if each.strip()]:
        found = [" x ".join(pair) for fields in wanted for pair in product(*(held.get(name, []) for name in fields))]
    else:
        found = [
            f"{name} = {value}"
            for name, values in metadata.items()
            for value in _short_lines(values)
            if _is_category(name, value)
        ]
    return unique_labels(found)


def unique_labels(texts: Iterable[str]) -> list[str]:
    """The texts in their order, those left out that are like an earlier one but for how they are written.

    >>> once(["NLP", "ＮＬＰ", "nlp", "ML"])
    ['NLP', 'ML']
    """
    first: dict[str, str] = {}
    for text in texts:
        first.setdefault(label_key(text), text)
    return list(first.values())


def _short_lines(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        if len(value) <= MAX_QUESTION_LABEL_CHARS and (line := " ".join(value.split())):
            yield line


def _is_category(field: str, value: str) -> bool:
    """Whether other documents are likely to share the value, and to be alike where they do.

    >>> [_sorts("topic", value) for value in ("tide gates", "2024-05-01", "https://a.org/b", "yes", "It rose. So?")]
    [True, False, False, False, False]
    >>> [_sorts(field, "Tides") for field in ("title", "doc_id", "Sub-title", "原題", "tags")]
    [False, False, False, True, True]
    """
    last = re.split(r"[\s\-.]+", label_key(field))[-1]
    if (
        last in _NON_CATEGORY_FIELDS
        or label_key(field) in _NON_CATEGORY_FIELDS
        or field in _NON_CATEGORY_FIELDS
        or label_key(value) in _YES_NO_WORDS
    ):
        return False
    letters, digits = len(_LETTER.findall(value)), len(_DIGIT.findall(value))
    brief = len(value) <= _MAX_CATEGORY_CHARS and len(value.split()) <= _MAX_CATEGORY_WORDS
    return brief and letters > digits and not ("://" in value or "@" in value or _SENTENCE_END.search(value))


def resolve_label_id(value: str, labels: Iterable[tuple[str, str]]) -> str:
    """Of (id, label) pairs the id of the label that is meant: written whole, or its values alone. Raises SettingsError.

    >>> known = [("1", "topic = NLP"), ("2", "topic = NLP x company = Tern"), ("3", "tags = Tern"), ("4", "by = Tern")]
    >>> meant("nlp", known), meant("ＮＬＰ × tern", known), meant("Tags=Tern", known)
    ('1', '2', '3')
    >>> meant("tern", known)
    Traceback (most recent call last):
    kumihimo.core.errors.SettingsError: 'tern' may be 'by = Tern' or 'tags = Tern': write one of these
    """
    ids = dict(sorted((label, id) for id, label in labels))
    wanted = label_key(_COMBINATION.sub(" x ", re.sub(r"\s*[=＝]\s*", " = ", value)))
    found = [label for label in ids if label_key(label) == wanted] or [
        label for label in ids if label_key(_label_values(label)) == wanted
    ]
    if len(found) == 1:
        return ids[found[0]]
    if found:
        raise SettingsError(f"{value!r} may be {' or '.join(map(repr, found))}: write one of these")
    spelt = {spelling: label for label in ids for spelling in (label_key(label), label_key(_label_values(label)))}
    near = dict.fromkeys(repr(spelt[like]) for like in get_close_matches(wanted, spelt, n=3, cutoff=0.5))
    hint = f"; did you mean {' or '.join(near)}?" if near else ":"
    raise SettingsError(f"no summary of {value!r}{hint} `kumi summaries` lists them")


def _label_values(label: str) -> str:
    """
    >>> _values("research_field = NLP x company = Tern & Co")
    'NLP x Tern & Co'
    """
    return " x ".join(part.partition(" = ")[2] for part in label.split(" x "))
