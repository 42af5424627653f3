"""a question -> its words and their places, taken one by one by what they stand for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kumihimo.text.tokens import word_root

Span = tuple[int, int]


@dataclass
class Words:
    """A question whose words are taken one by one, by what they stand for."""

    text: str
    taken: set[int] = field(default_factory=set)

    @property
    def rest(self) -> str:
        """Return the question with gaps for what is taken."""
        return "".join("\0" if i in self.taken else char for i, char in enumerate(self.text))

    def take(self, spans: Sequence[Span]) -> None:
        """Take some spans."""
        self.taken |= {i for span in spans for i in range(*span)}

    def is_free(self, span: Span) -> bool:
        """Return whether nothing of a span is taken."""
        return self.taken.isdisjoint(range(*span))

    def cut(self, pattern: str) -> bool:
        """Take all that fits a pattern; return whether something does."""
        spans = [match.span() for match in re.finditer(pattern, self.rest, re.IGNORECASE) if match[0]]
        self.take(spans)
        return bool(spans)

    @cached_property
    def latin(self) -> Sequence[tuple[str, int, int]]:
        """Return the stem and the place of each word in Latin letters."""
        return [(word_root(match[0]), *match.span()) for match in re.finditer(r"[^\W\d_㐀-鿿々가-힣ぁ-ヿ]+", self.text)]

    @property
    def ideographs(self) -> Sequence[str]:
        """Return the ideographs and katakana that are not taken."""
        return [] if self.text.isascii() else re.findall("[㐀-鿿々ァ-ヿ]", self.rest)

    @cached_property
    def stems(self) -> frozenset[str]:
        """Return the stems of the words in Latin letters."""
        return frozenset(word for word, _, _ in self.latin)

    def find(self, phrase: str) -> list[Span]:
        """Return the places of a whole phrase; Latin words by their stems."""
        if phrase[:2] not in self.text:  # no ending is so near; most cells of a long table
            return []
        stems = [word_root(word) for word in phrase.split()] if phrase.isascii() else []
        if stems and not any(map(str.isdigit, phrase)):
            if stems[0] not in self.stems:
                return []
            runs = (self.latin[i : i + len(stems)] for i in range(len(self.latin)))
            return [(run[0][1], run[-1][2]) for run in runs if [word for word, _, _ in run] == stems]
        if not phrase or phrase not in self.text:
            return []
        found = re.finditer(rf"(?<![0-9a-z]){re.escape(phrase)}(?![0-9a-z])", self.text)
        return [match.span() for match in found]


def longest_run(part: str, text: str) -> str:
    """Return the longest part of a name that a text has.

    It has two characters or more, or is the whole name.

    >>> longest_run("貸出冊数", "本の冊数"), longest_run("12月", "2012年")
    ('冊数', '')
    """
    for size in range(len(part), 1, -1):
        for start in range(len(part) - size + 1):
            end = start + size
            run = part[start:end]
            cuts = re.search(r"\d\0\d", f"{part[:start]}\0{run}\0{part[end:]}")  # a number within its digits
            if run in text and " " not in run and not cuts and re.search(rf"(?<!\d){re.escape(run)}(?!\d)", text):
                return run
    return part if len(part) == 1 and part in text else ""
