"""settings -> the fields of metadata; a model's reply about them -> their values, and questions with answers."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, make_dataclass, replace
from functools import cache, lru_cache
from itertools import chain
from keyword import iskeyword
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints
from unicodedata import normalize

from kumihimo.core.errors import MalformedReply, SettingsError
from kumihimo.core.settings import Bounds, Names, Setting, TextForm, override_settings
from kumihimo.llm.prompts import ReplyForm, reply_form
from kumihimo.llm.protocols import Reply
from kumihimo.text.sentences import collapse_spaces

QuestionAnswer = tuple[str, str]
Preset = Literal["paper", "news", "policy", "manual"]

CATEGORIES_PLACEHOLDER = "{text_categories}"  # stands for the categories of the setting `text_categories`
MAX_FIELD_VALUE_CHARS = 200  # a longer value is no name
_EMPTY_WORDS = frozenset(
    "none|null|n/a|na|nil|-|nothing|unknown|not specified|not applicable|なし|無し|該当なし|特になし|无|無|没有|"  # noqa: SIM905
    "keine|keiner|aucun|aucune|ninguno|ninguna|nessuno|nessuna".split("|")
)


_RESERVED = ("uri", "file", "title", "media_type", "modified", "metadata")  # every document has them in filters
_NAME = TextForm(
    f"letters, digits, _ and -, and none of {', '.join(_RESERVED)}",
    lambda name: re.fullmatch(r"[\w-]{1,100}", name) and name not in _RESERVED,
)
_QUESTION = TextForm('a question with yes or no as its answer, such as "Does it name companies?"', str.strip)
_LIST = TextForm('a description of its values, such as "The names of these companies."', str.strip)


@dataclass(frozen=True, slots=True)
class MetadataField:
    """A field of metadata.

    question: yes or no, whether a document has a value. list: the instruction to list its values. maximum: the most
    values. categories: the only values allowed; empty: any.
    """

    name: str
    question: Annotated[str, _QUESTION] = ""
    list: Annotated[str, _LIST] = ""
    maximum: Annotated[int, Bounds(1, 1000)] = 3
    categories: Names = ()


# The six fields for papers are those of arXiv:2408.09017, appendix A; the other presets follow them.
PRESETS = {
    "paper": (
        MetadataField("research_field", "Does it clearly belong to one or more fields of research?",
                      "The fields of research that it belongs to.", 3, (CATEGORIES_PLACEHOLDER,)),
        MetadataField("applied_area", "Is it mainly applied research, rather than theory?",
                      "The areas that it is applied to."),
        MetadataField("repository", "Does it refer to a repository of code, such as one on GitHub?",
                      "The URLs of these repositories.", 2),
        MetadataField("theorem", "Does it reason mathematically?", "The names of the theorems that it uses."),
        MetadataField("company", "Does it tell how something is applied at companies that it names?",
                      "The names of these companies."),
        MetadataField("metric", "Does it compare methods by metrics of evaluation?",
                      "The names of these metrics.", 5),
    ),
    "news": (
        MetadataField("topic", "Does it clearly belong to one or more topics?",
                      "The topics that it belongs to.", 3, (CATEGORIES_PLACEHOLDER,)),
        MetadataField("event", "Does it report an event?", "A name of a few words for each event.", 2),
        MetadataField("place", "Does it happen at places that are named?", "The names of these places."),
        MetadataField("person", "Does it name persons who act or speak in it?", "The names of these persons.", 5),
        MetadataField("organization", "Does it name organizations that act in it?",
                      "The names of these organizations.", 5),
    ),
    "policy": (
        MetadataField("policy_area", "Does it clearly belong to one or more areas of policy?",
                      "The areas of policy that it belongs to.", 3, (CATEGORIES_PLACEHOLDER,)),
        MetadataField("issuer", "Does it say who issues it or answers for it?", "The names of these bodies."),
        MetadataField("audience", "Does it say to whom it applies?", "The groups that it applies to."),
        MetadataField("measure", "Does it order or propose measures?",
                      "A name of a few words for each measure.", 5),
        MetadataField("law", "Does it refer to laws or rules by name?", "The names of these laws and rules.", 5),
    ),
    "manual": (
        MetadataField("product", "Is it about products or systems that it names?",
                      "The names of these products.", 3, (CATEGORIES_PLACEHOLDER,)),
        MetadataField("task", "Does it explain how something is done?", "A name of a few words for each task.", 5),
        MetadataField("part", "Does it tell of single parts?", "The names of these parts.", 5),
        MetadataField("hazard", "Does it warn of dangers or faults?", "A name of a few words for each of them."),
        MetadataField("standard", "Does it refer to standards?", "The names of these standards."),
    ),
}  # fmt: skip


_KEYS = {
    f.name: Setting.of(f.name, get_type_hints(MetadataField, include_extras=True)[f.name], f.default)
    for f in fields(MetadataField)[1:]
}


@lru_cache(maxsize=16)
def resolve_fields(preset: str, fields: tuple[str, ...], text_categories: tuple[str, ...]) -> tuple[MetadataField, ...]:
    """Return the user's fields, or those of the preset.

    fields: one JSON text per field.

    >>> [(field.name, field.categories) for field in resolve_fields("manual", (), ("pumps", "valves"))][:2]
    [('product', ('pumps', 'valves')), ('task', ())]
    """
    resolved = tuple(map(_parse_field, fields)) or PRESETS[preset]
    return tuple(_fill_categories(field, text_categories) for field in resolved)


def _fill_categories(field: MetadataField, text_categories: tuple[str, ...]) -> MetadataField:
    """Replace the placeholder category by the categories of the setting."""
    parts = (text_categories if category == CATEGORIES_PLACEHOLDER else (category,) for category in field.categories)
    return replace(field, categories=tuple(chain.from_iterable(parts)))


def _parse_field(text: str) -> MetadataField:
    """Parse a field from kumi.toml. Raise SettingsError if it is invalid."""
    with suppress(ValueError, RecursionError):
        table = json.loads(text)
        if isinstance(table, dict):
            return _check_field(str(table.pop("name", "")), table)
    raise SettingsError(f"{text[:80]!r} is no field: write [fields.NAME] in kumi.toml, and under it question, list")


def field_to_json(name: str, table: Any) -> str:
    """Return a table [fields.NAME] in JSON. Raise SettingsError for no field."""
    field = _check_field(name, table)
    return json.dumps({"name": name, **{key: getattr(field, key) for key in table}}, ensure_ascii=False)


def _check_field(name: str, table: object) -> MetadataField:
    """Return the field of a table. Raise SettingsError if it is none."""
    if not isinstance(table, Mapping):
        raise SettingsError(f"fields.{name} is no field: write [fields.{name}], and under it question and list")
    _NAME.check_text(name, "the name of a field")
    missing = {key: "" for key in ("question", "list") if key not in table}
    values: dict[str, Any] = override_settings(f"fields.{name}", _KEYS, {}, {**table, **missing})
    return MetadataField(name, **values)


FIELD = TextForm("a field in JSON", _parse_field)


class ParsedMetadata(NamedTuple):
    """Parsed values of each field, and question-answer pairs.

    cut_off: the text of a reply that ended too early, so that more pairs are to come.
    """

    values: tuple[tuple[str, ...], ...]
    pairs: tuple[QuestionAnswer, ...] = ()
    cut_off: str = ""


@dataclass(frozen=True, slots=True)
class _Pair:
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class RestOfQuestions:
    """The reply form for the questions that a reply cut off."""

    questions: list[_Pair]


@cache
def reply_type(fields: Sequence[MetadataField]) -> type[Any]:
    """Return the reply form for some fields."""
    values = make_dataclass("Values", [(key, list[str]) for key in field_keys(fields)], frozen=True)
    return make_dataclass("Prepared", [("fields", values), ("questions", list[_Pair])], frozen=True)


def field_keys(fields: Sequence[MetadataField]) -> list[str]:
    """Return the keys of the fields in replies.

    They are the names if servers accept these as keys.

    >>> field_keys(PRESETS["news"][:2]), field_keys([MetadataField("港", "", "")])
    (['topic', 'event'], ['field_1'])
    """
    names = [field.name for field in fields]
    usable = all(name.isascii() and name.isidentifier() and not iskeyword(name) and name[0] != "_" for name in names)
    return names if usable else [f"field_{n}" for n in range(1, len(names) + 1)]


def parse_metadata_reply(reply: Reply, fields: Sequence[MetadataField]) -> ParsedMetadata:
    """Parse field values and pairs. Raise MalformedReply with the missing part.

    >>> topic = MetadataField("topic", "Has it a topic?", "Which?", 2, ("Tide gates", "Ferries"))
    >>> pair = '{"question": "When?", "answer": "At nine."}'
    >>> parse_metadata_reply(Reply('{"fields": {"topic": ["FERRIES", "boats"]}, "questions": [%s]}' % pair), [topic])
    ParsedMetadata(values=(('Ferries',),), pairs=(('When?', 'At nine.'),), cut_off='')
    """
    value, cut_off = _read_object(reply)
    return ParsedMetadata(_values(value.get("fields"), fields), _pairs(value.get("questions")), cut_off)


def _read_object(reply: Reply) -> tuple[Mapping[str, object], str]:
    """Return the object in a reply and its text if cut off.

    The object of such a reply ends with its last complete pair.
    """
    form: ReplyForm[dict[str, object]] = reply_form(dict[str, object])
    before, brace, _ = reply.text.rpartition("}")
    if reply.truncated and brace:
        with suppress(MalformedReply):
            value = _fold_keys(form.parse(Reply(f"{before}}}]}}", reply.finish_reason)))
            if "questions" in value:
                return value, reply.text
    return _fold_keys(form.parse(reply)), ""


def _values(listed: object, fields: Sequence[MetadataField]) -> tuple[tuple[str, ...], ...]:
    """Return the values of each field.

    Raise MalformedReply if a field is missing.
    """
    by_key, names = _fold_keys(listed), field_keys(fields)
    keys = [name if name in by_key else fold_text_key(name) for name in names]
    if missing := [name for name, key in zip(names, keys, strict=True) if key not in by_key]:
        raise MalformedReply(f"The reply lacks fields.{missing[0]}: a list of values, which may be empty.")
    return tuple(unique_values(_texts(by_key[key]), field) for key, field in zip(keys, fields, strict=True))


def _fold_keys(value: object) -> dict[str, object]:
    """Return an object with each key also in small letters.

    It is empty if the value is no object.
    """
    by_key = value if isinstance(value, dict) else {}
    return {fold_text_key(str(key)): item for key, item in by_key.items()} | by_key


def _pairs(items: object) -> tuple[QuestionAnswer, ...]:
    """Return the questions that have an answer.

    Raise MalformedReply if none has.
    """
    if not isinstance(items, list):
        raise MalformedReply("The reply lacks questions: a list of objects with question and answer.")
    texts = ((_text(item.get("question")), _text(item.get("answer"))) for item in map(_fold_keys, items))
    pairs = unique_questions((question, answer) for question, answer in texts if question and answer)
    if items and not pairs:
        raise MalformedReply("No question of the reply has an answer: write both in each object of questions.")
    return pairs


def _texts(value: object) -> list[str]:
    """Return the texts of a list or of one value."""
    return [text for item in (value if isinstance(value, list) else [value]) if (text := _text(item))]


def _text(value: object) -> str:
    """Return a text or number on one line.

    It is empty for a value that says nothing.
    """
    is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    text = collapse_spaces(str(value).replace("**", "")).strip() if is_plain else ""
    return "" if fold_text_key(text.strip(". 。")) in _EMPTY_WORDS else text


def fold_text_key(text: str) -> str:
    """Return the text in one width and case, with single spaces."""
    return " ".join(normalize("NFKC", text).casefold().split())


def unique_values(values: Iterable[str], field: MetadataField) -> tuple[str, ...]:
    """Return the first values, each once, up to the field's maximum.

    Case and width do not count. Categories keep the spelling of the setting.

    >>> unique_values(["ｆｅｒｒｉｅｓ", "Boats", "Ferries"], MetadataField("topic", "", "", 3, ("Ferries", "Gates")))
    ('Ferries',)
    """
    allowed = {fold_text_key(category): category for category in field.categories}
    by_key: dict[str, str] = {}
    for value in values:
        key = fold_text_key(value)
        if len(value) <= MAX_FIELD_VALUE_CHARS and (not allowed or key in allowed):
            by_key.setdefault(key, allowed.get(key, value))
    return tuple(by_key.values())[: field.maximum]


def unique_questions(pairs: Iterable[QuestionAnswer]) -> tuple[QuestionAnswer, ...]:
    """Return the pairs, each question once; case and width do not count."""
    by_question: dict[str, QuestionAnswer] = {}
    for pair in pairs:
        by_question.setdefault(fold_text_key(pair[0]), pair)
    return tuple(by_question.values())
