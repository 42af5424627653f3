"""a question + the ones before it -> the question with the names that it leaves out: without a model, by rules."""

import re
from collections.abc import Iterator, Sequence
from unicodedata import normalize

from kumihimo.core.context import Answer, Context
from kumihimo.generation.phrases import question_language
from kumihimo.generation.quoting.drafts import say
from kumihimo.generation.quoting.question_kinds import Question
from kumihimo.generation.quoting.requests import find_pronoun
from kumihimo.index.rules.ner_cjk import find_chinese_names, find_japanese_names, has_cjk, is_chinese
from kumihimo.index.rules.ner_words import QUANTITY, WORDS

_CAPITAL_RUN = re.compile(r"(?<!^)\b[A-Z][\w'’&-]*(?:\s+(?:(?:of|the|de|van|von)\s+)?[A-Z][\w'’&-]*)*")
_YEAR = re.compile(r"(?<!\d)[12]\d{3}(?!\d)")
_MAX_NAMES = 2


def carry_names(question: str, history: Sequence[Answer]) -> tuple[str, str]:
    """Return the question with names of the last one, and a note.

    The note is empty if the question stands alone. A question of another year is the one before with that year.

    >>> from kumihimo.core.usage import Usage
    >>> before = Answer("Who is Maren Oldacre?", "braid", "", (), Context(), Usage())
    >>> carry_names("When did she leave?", [before])
    ('When did she leave? (about Maren Oldacre)', '(about Maren Oldacre)')
    >>> carry_names("And in 2022?", [Answer("What did it cost in 2021?", "braid", "", (), Context(), Usage())])
    ('What did it cost in 2022?', '(What did it cost in 2022?)')
    >>> carry_names("Where is Thornhead Light?", [before])
    ('Where is Thornhead Light?', '')
    """
    plain = " ".join(normalize("NFKC", question).split())
    place = find_pronoun(plain)
    is_whole_short = has_cjk(plain) and place == len(plain)
    if not history or place is None or any(start < place for start, _ in _find_names(plain) if not is_whole_short):
        return question, ""
    before = " ".join(normalize("NFKC", history[-1].question).split())
    names = [name for _, name in _find_names(before)][-_MAX_NAMES:] or list(filter(None, [Question(before).subject]))
    if (year := _YEAR.search(plain)) and place == len(plain) and _YEAR.search(before):
        before = _YEAR.sub(year[0], before)
        return before, f"({before})"
    if not names:
        return question, ""
    note = say("about", question_language(question, Context()), names=", ".join(names))
    return f"{question} {note}", note


def _find_names(plain: str) -> Iterator[tuple[int, str]]:
    """Yield the names in a question with their places.

    Names are capitalised words within it, and compounds in kanji or katakana.
    """
    if has_cjk(plain):
        find = find_chinese_names if is_chinese(plain) else find_japanese_names
        for span in find(plain):
            if span.type != QUANTITY and find_pronoun(span.name + "は") is None:
                yield span.start, span.name
        return
    for run in _CAPITAL_RUN.finditer(plain):
        name = re.sub(r"['’]s$", "", run[0])
        if name.casefold() not in WORDS["stop_words"]:
            yield run.start(), name
