"""settings -> the fields of metadata; a model's reply about them -> their values, and questions with answers."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple

from kumihimo.core.errors import MalformedReply, SettingsError
from kumihimo.index.numbered_reply import NumberedReply, fold_text_key, is_question, parse_yes_no
from kumihimo.text.sentences import collapse_spaces

QuestionAnswer = tuple[str, str]
Preset = Literal["paper", "news", "policy", "manual"]

CATEGORIES_PLACEHOLDER = "{text_categories}"  # stands for the categories of the setting `text_categories`
MAX_FIELD_VALUE_CHARS = 200  # a longer value is no name
_MAX_LIST_CHARS = 20_000  # per list
_EMPTY_WORDS = frozenset(
    "none|null|n/a|na|nil|-|nothing|unknown|not specified|not applicable|なし|無し|該当なし|特になし|无|無|没有|"  # noqa: SIM905
    "keine|keiner|aucun|aucune|ninguno|ninguna|nessuno|nessuna".split("|")
)
_QUOTED_VALUE = re.compile(
    r"""[\s,、，;；]*+(?:["'“”‘’「『`](.{0,400}?)["'“”‘’」』`]\s*(?=[,、，;；]|$)|([^,、，;；]++))""", re.S
)
_BULLET = re.compile(r"\s*(?:[-*•・+]|\d{1,2}[.)、])\s+(.*)", re.S)


@dataclass(frozen=True, slots=True)
class MetadataField:
    """A field of metadata.

    question: yes or no, whether a document has a value. list: the instruction to list its values. maximum: the most
    values. categories: the only values allowed; empty: any.
    """

    name: str
    question: str
    list: str
    maximum: int = 3
    categories: tuple[str, ...] = ()


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
        MetadataField("topic", "Does it clearly belong to one or more topics of the news?",
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
    try:
        options: dict[str, Any] = json.loads(text)
        return MetadataField(**{**options, "categories": tuple(options.get("categories", ()))})
    except (ValueError, TypeError) as error:
        raise SettingsError(
            f"metadata.fields: {text[:80]!r} is no field: write [fields.NAME] in kumi.toml, and under it question, list"
        ) from error


class ParsedMetadata(NamedTuple):
    """Parsed values of each field, and question-answer pairs."""

    values: tuple[tuple[str, ...], ...]
    pairs: tuple[QuestionAnswer, ...] = ()


def parse_metadata_reply(text: str, fields: Sequence[MetadataField]) -> ParsedMetadata:
    r"""Parse field values and pairs. Raise MalformedReply with the missing part.

    The parser accepts any style of numbers, Python or bulleted lists, headings in several languages or none, yes and no
    in several languages, bold and fences.

    >>> topic = MetadataField("topic", "Has it a topic?", "Which?", 2, ("Tide gates", "Ferries"))
    >>> reply = "１．はい\n1. [“FERRIES”, 'boats']\n質問：\n(1) いつ出ますか。\n(2) どこへ?\n回答：\n(1) 九時に出ます。"
    >>> parse_metadata_reply(reply, [topic])
    ParsedMetadata(values=(('Ferries',),), pairs=(('いつ出ますか。', '九時に出ます。'),))
    """
    reply = NumberedReply(text, [fold_text_key(field.name.replace("_", " ")) for field in fields])
    pairs = _match_answers(reply.items["questions"], reply.items["answers"])
    _validate_reply(reply, pairs)
    return ParsedMetadata(tuple(_field_values(reply, n, field) for n, field in enumerate(fields, 1)), pairs)


def _validate_reply(reply: NumberedReply, pairs: Sequence[QuestionAnswer]) -> None:
    """Raise MalformedReply if the reply lacks a required part."""
    if pairs:
        return
    if any(map(_item_text, (*reply.items["questions"].values(), *reply.items["answers"].values()))):
        raise MalformedReply(
            "No question of the reply has an answer: write all questions under Questions:, numbered from 1, then under "
            "Answers: each answer with the number of its question."
        )
    if not reply.items["lists"] and not reply.items["decisions"]:
        raise MalformedReply(
            "The reply is not of the form that was asked for: write the headings Yes or no:, Lists:, Questions: and "
            "Answers:, and numbered lines under each."
        )
    if "questions" not in reply.sections:
        raise MalformedReply(
            "The reply holds no questions: after the lists write numbered questions under Questions:, and their "
            "answers under Answers:; or None under both if the text holds nothing to ask about."
        )


def split_list_lines(lines: Sequence[str]) -> Iterator[str]:
    r"""Yield the values of a list: Python, bulleted or comma-separated.

    Any quotes are accepted; a bulleted list has one value per line.

    >>> list(split_list_lines(["Fields: ['Bayes' theorem', “網, 綱”, \"x\",]"]))
    ["Bayes' theorem", '網, 綱', 'x']
    >>> list(split_list_lines(["Companies:", "- Tern & Co, Ltd.", "- *Loft*"]))
    ['Tern & Co, Ltd.', 'Loft']
    >>> list(split_list_lines(["ferries, gates"]))
    ['ferries', 'gates']
    """
    text = "\n".join(lines)[:_MAX_LIST_CHARS].replace("［", "[").replace("］", "]")
    if "[" in text:
        inner = text[text.index("[") + 1 :]
        yield from _split_list(inner[: inner.rindex("]")] if "]" in inner else inner)
        return
    bullets = [match[1] for line in lines if (match := _BULLET.fullmatch(line))]
    yield from map(_clean_value, bullets) if bullets else _split_list(text.rpartition(": ")[2])


def _split_list(text: str) -> Iterator[str]:
    """Yield the values of a delimited text, unquoted."""
    for match in _QUOTED_VALUE.finditer(text.strip().rstrip(",、，")):
        yield _clean_value(match[1] if match[1] is not None else match[2])


def _clean_value(value: str) -> str:
    """Return a value on one line, without quotes and markup."""
    return " ".join(value.replace("\\'", "'").replace('\\"', '"').split()).strip(" *`\"'“”‘’")


def _field_values(reply: NumberedReply, number: int, field: MetadataField) -> tuple[str, ...]:
    """Return the values of one field; none if the decision is no."""
    if parse_yes_no(" ".join(reply.items["decisions"].get(number, ()))) is False:
        return ()
    values = split_list_lines(reply.items["lists"].get(number, ()))
    return unique_values((value for value in values if value and fold_text_key(value) not in _EMPTY_WORDS), field)


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


def _match_answers(questions: Mapping[int, list[str]], answers: Mapping[int, list[str]]) -> tuple[QuestionAnswer, ...]:
    """Return the questions that have an answer, with their answers."""
    if questions and not answers:  # each answer stands under its question, without a label
        answers = {n: lines[1:] for n, lines in questions.items() if len(lines) > 1 and is_question(lines[0])}
        questions = {n: lines[:1] if n in answers else lines for n, lines in questions.items()}
    pairs = ((_item_text(questions[n]), _item_text(answers[n])) for n in sorted(questions.keys() & answers.keys()))
    return unique_questions((question, answer) for question, answer in pairs if question and answer)


def unique_questions(pairs: Iterable[QuestionAnswer]) -> tuple[QuestionAnswer, ...]:
    """Return the pairs, each question once; case and width do not count."""
    by_question: dict[str, QuestionAnswer] = {}
    for pair in pairs:
        by_question.setdefault(fold_text_key(pair[0]), pair)
    return tuple(by_question.values())


def _item_text(lines: Sequence[str]) -> str:
    """Return the text of an item; empty for an empty answer."""
    text = collapse_spaces("\n".join(lines).replace("**", "")).strip("_ ")
    return "" if fold_text_key(text.strip(". ")) in _EMPTY_WORDS else text
