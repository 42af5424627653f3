"""a question -> its kind, its subject and its words: by rules in question_kinds.toml."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from unicodedata import normalize

from kumihimo.text.tokens import subject_terms

_RULES = Path(__file__).with_suffix(".toml")
_ASKING_WORDS = frozenset(
    subject_terms(  # words that only ask
        "called named name tell please much many long far please which kind sort type were was can could would any"
        " anything something whos wat wats does did"
    )
)


@cache
def _rules() -> Mapping[str, Mapping[str, list[str]]]:
    return tomllib.loads(_RULES.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Question:
    """A question without a model to understand it."""

    text: str

    @cached_property
    def plain(self) -> str:
        return " ".join(normalize("NFKC", self.text).split())

    @cached_property
    def terms(self) -> frozenset[str]:
        """Return the subject terms that an answer should have."""
        terms = frozenset(subject_terms(self.plain))
        return (terms - _ASKING_WORDS) or terms

    @cached_property
    def whole_words(self) -> frozenset[str]:
        """Return the words of two ideographs that stand alone."""
        return frozenset(re.findall(r"(?<![\u3400-\u9fff])[\u3400-\u9fff]{2}(?![\u3400-\u9fff])", self.plain))

    @cached_property
    def content(self) -> str:
        """Return the question without the words that only ask."""
        words = [word for word in re.findall(r"\w+", self.plain) if self.terms & set(subject_terms(word))]
        return " ".join(words) or self.plain

    @cached_property
    def kind(self) -> str:
        """Return the kind: name, who, how_many and so on; or empty."""
        return next((kind for kind, patterns in _rules()["kinds"].items() if _find_any(patterns, self.plain)), "")

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

    @cached_property
    def _answers(self) -> tuple[re.Pattern[str], ...]:
        flags = 0 if self.kind in ("name", "who", "where") else re.IGNORECASE
        return tuple(re.compile(pattern, flags) for pattern in _rules()["answers"].get(self.kind, ()))

    def is_answered_by(self, text: str) -> bool:
        """Return whether a text has new words of the wanted kind."""
        question = self.plain.casefold()
        answers = (match[0].casefold().strip() for pattern in self._answers for match in pattern.finditer(text))
        return not self.kind or any(match not in question for match in answers)

    @cached_property
    def _names(self) -> Sequence[str]:
        """Return the subject without its article, and parts of names."""
        whole = re.sub(r"(?i)^(the|an?) ", "", self.subject)
        return whole, *(word for word in whole.split() if len(word) > 2 and word != whole and whole.istitle())

    @cached_property
    def _definitions(self) -> tuple[re.Pattern[str], ...]:
        """Return the patterns of definitions."""
        forms = [r"\s+".join(map(re.escape, name.split())) for name in self._names]
        subject = f"(?:{'|'.join(forms)})"
        is_name = self._names[0] == self.subject and not self.subject.islower()
        groups = [group for key, group in _rules()["definitions"].items() if is_name or key != "names"]
        return tuple(
            re.compile(pattern.replace("{X}", subject), re.IGNORECASE) for patterns in groups for pattern in patterns
        )

    def definition_score(self, sentence: str, excerpt: str = "", above: Sequence[str] = ()) -> float:
        """Return how much a sentence says what the subject is.

        It says more if more of its excerpt defines the subject, and if the subject is its heading or title.
        """
        if not self.subject:
            return 0.0
        plain = " ".join(normalize("NFKC", sentence).split())
        name_share = max(map(self._name_share, above), default=0.0)
        has_name = any(name.casefold() in plain.casefold() for name in self._names)
        if not has_name or not any(pattern.search(plain) for pattern in self._definitions):
            return name_share
        count = sum(pattern.search(excerpt) is not None for pattern in self._definitions)
        return 1.0 + 0.1 * min(count, 5)

    def names_heading(self, text: str) -> bool:
        """Return whether a heading in a text is the subject."""
        lines = re.findall(r"(?m)^#+ (.+)$", text) if self.subject else []
        return any(self._name_share(line) == 1 for line in lines)

    def _name_share(self, name: str) -> float:
        """Return the share of a heading with all of the subject."""
        words, subject_words = set(subject_terms(name)), set(subject_terms(self.subject))
        return len(subject_words) / len(words) if words and subject_words <= words else 0.0


def _find_any(patterns: list[str], text: str) -> bool:
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
