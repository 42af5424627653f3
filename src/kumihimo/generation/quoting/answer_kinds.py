"""a parsed question + a text -> whether the text has the kind of answer wanted: by rules in answer_kinds.toml."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from unicodedata import normalize

from kumihimo.text.question import ParsedQuestion
from kumihimo.text.tokens import subject_terms

_RULES = Path(__file__).with_suffix(".toml")


@cache
def _rules() -> Mapping[str, Mapping[str, list[str]]]:
    return tomllib.loads(_RULES.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class AnswerRules:
    """The rules for texts that answer a question."""

    asked: ParsedQuestion

    @property
    def wants_definition(self) -> bool:
        """Return whether an answer must define a name or word."""
        is_phrase = re.search(r"\b(of|in|at|for|from|on|to|and)\b|[をがのと的]", self.asked.subject)
        return bool(self.asked.subject) and self.asked.kind in ("", "who") and not is_phrase

    @cached_property
    def _answers(self) -> tuple[re.Pattern[str], ...]:
        flags = 0 if self.asked.kind in ("name", "who", "where") else re.IGNORECASE
        return tuple(re.compile(pattern, flags) for pattern in _rules()["answers"].get(self.asked.kind, ()))

    def is_answered_by(self, text: str) -> bool:
        """Return whether a text has new words of the wanted kind."""
        question = self.asked.plain.casefold()
        answers = (match[0].casefold().strip() for pattern in self._answers for match in pattern.finditer(text))
        return not self.asked.kind or any(match not in question for match in answers)

    @cached_property
    def _names(self) -> Sequence[str]:
        """Return the subject without its article, and parts of names."""
        whole = re.sub(r"(?i)^(the|an?) ", "", self.asked.subject)
        return whole, *(word for word in whole.split() if len(word) > 2 and word != whole and whole.istitle())

    @cached_property
    def _definitions(self) -> tuple[re.Pattern[str], ...]:
        """Return the patterns of definitions."""
        forms = [r"\s+".join(map(re.escape, name.split())) for name in self._names]
        subject = f"(?:{'|'.join(forms)})"
        is_name = self._names[0] == self.asked.subject and not self.asked.subject.islower()
        groups = [group for key, group in _rules()["definitions"].items() if is_name or key != "names"]
        return tuple(
            re.compile(pattern.replace("{X}", subject), re.IGNORECASE) for patterns in groups for pattern in patterns
        )

    def definition_score(self, sentence: str, excerpt: str = "", above: Sequence[str] = ()) -> float:
        """Return how much a sentence says what the subject is.

        It says more if more of its excerpt defines the subject, and if the subject is its heading or title.
        """
        if not self.asked.subject:
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
        lines = re.findall(r"(?m)^#+ (.+)$", text) if self.asked.subject else []
        return any(self._name_share(line) == 1 for line in lines)

    def _name_share(self, name: str) -> float:
        """Return the share of a heading with all of the subject."""
        words, subject_words = set(subject_terms(name)), set(subject_terms(self.asked.subject))
        return len(subject_words) / len(words) if words and subject_words <= words else 0.0
