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

    def is_answered_by(self, text: str) -> bool:
        """Return whether a text has new words of the wanted kind."""
        flags = 0 if self.kind in ("name", "who", "where") else re.IGNORECASE
        asked = self.plain.casefold()
        found = (match[0] for p in _rules()["answers"].get(self.kind, []) for match in re.finditer(p, text, flags))
        return any(match.casefold().strip() not in asked for match in found)

    @cached_property
    def _definitions(self) -> tuple[re.Pattern[str], ...]:
        """Return the patterns of definitions, also for parts of names."""
        whole = re.sub(r"(?i)^(the|an?) ", "", self.subject)
        names = [whole, *(word for word in re.findall(r"\b[A-Z]\w{2,}", whole) if word != whole)]
        forms = [r"\s+".join(map(re.escape, name.split())) for name in names]
        subject = f"(?:{'|'.join(forms)})"
        groups = _rules()["definitions"].values()
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
        wanted = set(subject_terms(self.subject))
        names = [words for words in map(set, map(subject_terms, above)) if wanted <= words]
        named = max((len(wanted) / len(words) for words in names), default=0.0)
        if not any(pattern.search(plain) for pattern in self._definitions):
            return named
        count = sum(pattern.search(excerpt) is not None for pattern in self._definitions)
        return 1.0 + 0.1 * min(count, 5)


def _find_any(patterns: list[str], text: str) -> bool:
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
