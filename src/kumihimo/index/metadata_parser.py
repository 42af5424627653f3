"""a model's reply about a document -> its field values, and questions with answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kumihimo.core.errors import MalformedReply
from kumihimo.index.metadata_fields import MetadataField
from kumihimo.index.numbered_reply import NumberedReply, fold_text_key, is_question, parse_yes_no
from kumihimo.text.sentences import collapse_spaces

QuestionAnswer = tuple[str, str]

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
class ParsedMetadata:
    """Parsed values of each field, and question-answer pairs.

    dropped: the number of unusable parts: questions without an answer, answers without a question, values outside the
    categories, above the maximum, or given although the answer was no.
    """

    values: tuple[tuple[str, ...], ...]
    pairs: tuple[QuestionAnswer, ...] = ()
    dropped: int = 0


def parse_metadata_reply(text: str, fields: Sequence[MetadataField]) -> ParsedMetadata:
    r"""Parse field values and pairs. Raise MalformedReply with the missing part.

    The parser accepts any style of numbers, Python or bulleted lists, headings in several languages or none, yes and no
    in several languages, bold and fences.

    >>> topic = MetadataField("topic", "Has it a topic?", "Which?", 2, ("Tide gates", "Ferries"))
    >>> reply = "１．はい\n1. [“FERRIES”, 'boats']\n質問：\n(1) いつ出ますか。\n(2) どこへ?\n回答：\n(1) 九時に出ます。"
    >>> parse_metadata_reply(reply, [topic])
    ParsedMetadata(values=(('Ferries',),), pairs=(('いつ出ますか。', '九時に出ます。'),), dropped=2)
    """
    reply = NumberedReply(tuple(fold_text_key(field.name.replace("_", " ")) for field in fields)).parse(text)
    pairs, unpaired = _match_answers(reply.questions, reply.answers)
    _validate_reply(reply, pairs)
    by_field = [_field_values(reply, n, field) for n, field in enumerate(fields, 1)]
    return ParsedMetadata(
        tuple(values for values, _ in by_field), pairs, unpaired + sum(unused for _, unused in by_field)
    )


def _validate_reply(reply: NumberedReply, pairs: Sequence[QuestionAnswer]) -> None:
    """Raise MalformedReply if the reply lacks a required part."""
    if pairs:
        return
    if any(map(_item_text, (*reply.questions.values(), *reply.answers.values()))):
        raise MalformedReply(
            "No question of the reply has an answer: write all questions under Questions:, numbered from 1, then under "
            "Answers: each answer with the number of its question."
        )
    if not reply.lists and not reply.decisions:
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


def _field_values(reply: NumberedReply, number: int, field: MetadataField) -> tuple[tuple[str, ...], int]:
    """Return the values of one field, and the number of unusable ones."""
    values = [
        value
        for value in split_list_lines(reply.lists.get(number, ()))
        if value and fold_text_key(value) not in _EMPTY_WORDS
    ]
    if number in reply.decisions and parse_yes_no(" ".join(reply.decisions[number])) is False:
        return (), len(values)
    usable = unique_values(values, field)
    return usable, len({fold_text_key(value) for value in values}) - len(usable)


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


def _match_answers(
    questions: Mapping[int, list[str]], answers: Mapping[int, list[str]]
) -> tuple[tuple[QuestionAnswer, ...], int]:
    """Return the question-answer pairs, and the number of unpaired parts."""
    if questions and not answers:  # each answer stands under its question, without a label
        answers = {n: lines[1:] for n, lines in questions.items() if len(lines) > 1 and is_question(lines[0])}
        questions = {n: lines[:1] if n in answers else lines for n, lines in questions.items()}
    question_texts, answer_texts = (
        {n: text for n, lines in part.items() if (text := _item_text(lines))} for part in (questions, answers)
    )
    pairs = unique_questions((question_texts[n], answer_texts[n]) for n in sorted(question_texts) if n in answer_texts)
    return pairs, len(question_texts.keys() ^ answer_texts.keys())


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
