"""a question -> ParsedQuestion: its words, dates, kind, subject and topic, each worked out once."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Self
from unicodedata import normalize

from kumihimo.core.context import Question
from kumihimo.core.digests import replace_surrogates
from kumihimo.core.errors import SettingsError
from kumihimo.text.dates import find_dates, list_dates
from kumihimo.text.question_types import detect_topic, has_content_words
from kumihimo.text.tokens import content_tokens, subject_terms, tokenize

MAX_QUESTION_CHARS = 10_000
_RULES = Path(__file__).with_name("question_kinds.toml")
_CJK = "々〆ー\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_PIECE = rf"[{_CJK}]+|[^\W_{_CJK}]+"
_ASKING_WORDS = frozenset(
    subject_terms(  # words that only ask
        "called named name tell please much many long far please which kind sort type were was can could would any"
        " anything something whos wat wats does did"
    )
)


def question_problem(question: str) -> str:
    """Return why a question cannot be asked; empty if it can."""
    if not question.strip():
        return "the question is empty: write what you want to know"
    if len(question) > MAX_QUESTION_CHARS:
        return (
            f"the question has {len(question):,} characters, and {MAX_QUESTION_CHARS:,} is the limit: "
            "ask more briefly, and put long texts into documents"
        )
    return ""


@dataclass(frozen=True, slots=True)
class Word:
    """A token of a question, at [start, end) of its normalized text.

    is_name: whether a capital letter marks a name. is_cjk: whether its script has no spaces.
    """

    token: str
    start: int
    end: int
    is_name: bool
    is_cjk: bool


@dataclass(frozen=True)
class ParsedQuestion(Question):
    """A question without a model to understand it."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Return a question. Raise SettingsError if it cannot be asked."""
        if problem := question_problem(text):
            raise SettingsError(problem)
        return cls(replace_surrogates(text))

    @cached_property
    def normalized(self) -> str:
        """Return the text in Unicode's form NFKC."""
        return normalize("NFKC", self.text)

    @cached_property
    def plain(self) -> str:
        """Return the normalized text on one line."""
        return " ".join(self.normalized.split())

    # -- tokens

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """Return the distinct index tokens without stopwords."""
        return tuple(content_tokens(self.text))

    @cached_property
    def terms(self) -> frozenset[str]:
        """Return the subject terms that an answer should have."""
        terms = frozenset(subject_terms(self.plain))
        return (terms - _ASKING_WORDS) or terms

    @cached_property
    def content(self) -> str:
        """Return the question without the words that only ask."""
        words = [word for word in re.findall(r"\w+", self.plain) if self.terms & set(subject_terms(word))]
        return " ".join(words) or self.plain

    @cached_property
    def lone_pairs(self) -> frozenset[str]:
        """Return the words of two ideographs that stand alone."""
        return frozenset(re.findall(r"(?<![\u3400-\u9fff])[\u3400-\u9fff]{2}(?![\u3400-\u9fff])", self.plain))

    # -- words and dates

    @cached_property
    def _pieces(self) -> Sequence[re.Match[str]]:
        """Return the words outside dates."""
        plain = self.normalized
        for start, end in find_dates(plain):
            plain = f"{plain[:start]}{'|' * (end - start)}{plain[end:]}"
        return list(re.finditer(_PIECE, plain))

    @cached_property
    def has_capitals(self) -> bool:
        """Return whether capital letters tell names from other words."""
        has_small = any(piece[0].islower() for piece in self._pieces)
        return has_small and any(piece[0] != piece[0].lower() for piece in self._pieces[1:])

    @cached_property
    def words(self) -> Sequence[Word]:
        """Return the tokens outside dates, in order."""
        words: list[Word] = []
        for n, piece in enumerate(self._pieces):
            word, first = piece[0], piece.start()
            is_name = self.has_capitals and word != word.lower() and (n > 0 or word[1:] != word[1:].lower())
            for offset, token in enumerate(tokenize(word)):
                is_cjk = re.match(f"[{_CJK}]", token) is not None
                start = first + (offset if is_cjk else 0)
                words.append(Word(token, start, start + len(token) if is_cjk else piece.end(), is_name, is_cjk))
        return words

    @cached_property
    def labelled_numbers(self) -> Sequence[int]:
        """Return where a number follows a content word, by the place of that word."""
        pairs = enumerate(pairwise(self.words))
        return [i for i, (label, number) in pairs if number.token.isdigit() and subject_terms(label.token)]

    def term_text(self, term: tuple[int, int] | str) -> str:
        """Return a span of words, or a date in ISO form, as the question writes it."""
        if isinstance(term, str):
            return self.dates[term]
        return self.normalized[self.words[term[0]].start : self.words[term[1] - 1].end]

    @cached_property
    def dates(self) -> Mapping[str, str]:
        """Return the dates as the question writes them, by ISO form."""
        text = self.normalized
        written = [*(text[start:end] for start, end in find_dates(text)), *text.split()]
        forms = {date: form.strip(".,;:?!") for form in reversed(written) for date in list_dates(form)}
        return {date: forms.get(date, date) for date in list_dates(text)}

    # -- what it asks for

    @cached_property
    def has_content(self) -> bool:
        """Return whether it has more than function words."""
        return has_content_words(self.text)

    @cached_property
    def topic(self) -> str | None:
        """Return the topic of a broad question.

        Empty for a corpus-level question, None for a specific one.
        """
        return detect_topic(self.text)

    @cached_property
    def kind(self) -> str:
        """Return the kind: name, who, how_many and so on; or empty."""
        for kind, patterns in _rules()["kinds"].items():
            if any(re.search(pattern, self.plain, re.IGNORECASE) for pattern in patterns):
                return kind
        return ""

    @cached_property
    def subject(self) -> str:
        """Return the subject of a definition: `Maren Oldacre`, or empty."""
        for pattern in _rules()["subjects"]["who_is"]:
            if match := re.search(pattern, self.plain, re.IGNORECASE):
                subject = match["X"].strip(" \"'“”「」『』")
                return subject if len(subject_terms(subject)) <= 5 else ""
        return ""

    @property
    def wants_definition(self) -> bool:
        """Return whether an answer must define a name or word."""
        is_phrase = re.search(r"\b(of|in|at|for|from|on|to|and)\b|[をがのと的]", self.subject)
        return bool(self.subject) and self.kind in ("", "who") and not is_phrase


@cache
def _rules() -> Mapping[str, Mapping[str, list[str]]]:
    return tomllib.loads(_RULES.read_text(encoding="utf-8"))
