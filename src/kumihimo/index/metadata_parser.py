"""a model's reply about a document -> the values of its fields, and questions with their answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kumihimo.core.errors import MalformedReply
from kumihimo.index.metadata_fields import MetadataField
from kumihimo.index.numbered_reply import NumberedReply, fold_text_key, is_question, parse_yes_no
from kumihimo.text.sentences import collapse_spaces

QuestionAnswer = tuple[str, str]

MAX_FIELD_VALUE_CHARS = 200  # characters of a value: what is longer names nothing
_MAX_LIST_CHARS = 20_000  # of a list
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
    """What a reply holds. values: of each field.

    dropped: how much could not be used: questions without an answer, answers without a question, values that are not
    among the categories, too many, or given though the answer was no.
    """

    values: tuple[tuple[str, ...], ...]
    pairs: tuple[QuestionAnswer, ...] = ()
    dropped: int = 0


def parse_metadata_reply(text: str, fields: Sequence[MetadataField]) -> ParsedMetadata:
    r"""The values and the pairs of a reply. Raises Malformed, which says what is missing.

    Read are numbers of any style, lists of Python or bulleted ones, headings in several languages or none, yes and no
    likewise, bold and fences.

    >>> topic = Field("topic", "Has it a topic?", "Which?", 2, ("Tide gates", "Ferries"))
    >>> said = "１．はい\n1. [“FERRIES”, 'boats']\n質問：\n(1) いつ出ますか。\n(2) どこへ?\n回答：\n(1) 九時に出ます。"
    >>> prepared(said, [topic])
    Prepared(values=(('Ferries',),), pairs=(('いつ出ますか。', '九時に出ます。'),), dropped=2)
    """
    read = NumberedReply(tuple(fold_text_key(field.name.replace("_", " ")) for field in fields)).parse(text)
    pairs, single = _match_answers(read.questions, read.answers)
    _validate_reply(read, pairs)
    found = [_field_values(read, n, field) for n, field in enumerate(fields, 1)]
    return ParsedMetadata(tuple(values for values, _ in found), pairs, single + sum(left for _, left in found))


def _validate_reply(reply: NumberedReply, pairs: Sequence[QuestionAnswer]) -> None:
    """Raises Malformed where the reply is not of the form."""
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
    r"""The values of a list: of Python, with whatever quotes; bulleted, a line each; or between commas.

    >>> list(items(["Fields: ['Bayes' theorem', “網, 綱”, \"x\",]"]))
    ["Bayes' theorem", '網, 綱', 'x']
    >>> list(items(["Companies:", "- Tern & Co, Ltd.", "- *Loft*"])), list(items(["ferries, gates"]))
    (['Tern & Co, Ltd.', 'Loft'], ['ferries', 'gates'])
    """
    said = "\n".join(lines)[:_MAX_LIST_CHARS].replace("［", "[").replace("］", "]")
    if "[" in said:
        inner = said[said.index("[") + 1 :]
        yield from _split_list(inner[: inner.rindex("]")] if "]" in inner else inner)
        return
    bullets = [found[1] for line in lines if (found := _BULLET.fullmatch(line))]
    yield from map(_clean_value, bullets) if bullets else _split_list(said.rpartition(": ")[2])


def _split_list(text: str) -> Iterator[str]:
    for found in _QUOTED_VALUE.finditer(text.strip().rstrip(",、，")):
        yield _clean_value(found[1] if found[1] is not None else found[2])


def _clean_value(value: str) -> str:
    return " ".join(value.replace("\\'", "'").replace('\\"', '"').split()).strip(" *`\"'“”‘’")


def _field_values(reply: NumberedReply, number: int, field: MetadataField) -> tuple[tuple[str, ...], int]:
    """What the reply gives for one field, and how many values of it cannot be used."""
    said = [
        value
        for value in split_list_lines(reply.lists.get(number, ()))
        if value and fold_text_key(value) not in _EMPTY_WORDS
    ]
    if number in reply.decisions and parse_yes_no(" ".join(reply.decisions[number])) is False:
        return (), len(said)
    kept = unique_values(said, field)
    return kept, len({fold_text_key(value) for value in said}) - len(kept)


def unique_values(values: Iterable[str], field: MetadataField) -> tuple[str, ...]:
    """The first of the values, each once, no matter its case and width; of categories, as they are written.

    >>> distinct(["ｆｅｒｒｉｅｓ", "Boats", "Ferries"], Field("topic", "", "", 3, ("Ferries", "Gates")))
    ('Ferries',)
    """
    allowed = {fold_text_key(category): category for category in field.categories}
    found: dict[str, str] = {}
    for value in values:
        key = fold_text_key(value)
        if len(value) <= MAX_FIELD_VALUE_CHARS and (not allowed or key in allowed):
            found.setdefault(key, allowed.get(key, value))
    return tuple(found.values())[: field.maximum]


def _match_answers(
    questions: Mapping[int, list[str]], answers: Mapping[int, list[str]]
) -> tuple[tuple[QuestionAnswer, ...], int]:
    """Questions with their answers, and how many there are of one without the other."""
    if questions and not answers:  # each under its question, without a mark
        answers = {n: lines[1:] for n, lines in questions.items() if len(lines) > 1 and is_question(lines[0])}
        questions = {n: lines[:1] if n in answers else lines for n, lines in questions.items()}
    asked, given = (
        {n: said for n, lines in part.items() if (said := _item_text(lines))} for part in (questions, answers)
    )
    pairs = unique_questions((asked[n], given[n]) for n in sorted(asked) if n in given)
    return pairs, len(asked.keys() ^ given.keys())


def unique_questions(pairs: Iterable[QuestionAnswer]) -> tuple[QuestionAnswer, ...]:
    """The pairs, each question once, no matter its case and width."""
    found: dict[str, QuestionAnswer] = {}
    for pair in pairs:
        found.setdefault(fold_text_key(pair[0]), pair)
    return tuple(found.values())


def _item_text(lines: Sequence[str]) -> str:
    said = collapse_spaces("\n".join(lines).replace("**", "")).strip("_ ")
    return "" if fold_text_key(said.strip(". ")) in _EMPTY_WORDS else said
