"""a model's reply in numbered sections -> the lines of each item: decisions, lists, questions, answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal
from unicodedata import normalize, numeric

Section = Literal["", "decisions", "lists", "questions", "answers"]
NumberedItems = dict[int, list[str]]  # by number, the lines of an item

_MAX_HEADING_CHARS = 80  # characters of a heading, with its marks
_FIRST_UNSPACED = "\u0500"  # words of scripts behind it are not set apart by spaces
_MAX_NUMBER_GAP = 10  # numbers that may be left out; what jumps further is a year, or a number of the text

_HEADING_WORDS: dict[Section, str] = {
    "decisions": "yes or no|yes/no|yes / no|yes-or-no|decision|decisions|はい・いいえ|はい/いいえ|はい／いいえ|"
    "はいかいいえ|判断|是/否|是／否|是否|是或否|ja/nein|ja oder nein|oui/non|oui ou non|sí/no|sí o no|sì/no",
    "lists": "list|lists|metadata|リスト|一覧|メタデータ|列表|清单|元数据|liste|listen|listes|lista|listas|metadaten",
    "answers": "answer|answers|回答|答え|解答|答案|antwort|antworten|réponse|réponses|respuesta|respuestas|risposte",
    "questions": "question|questions|q&a|質問|問い|問題|设问|提问|问题|frage|fragen|pregunta|preguntas|domande|"
    "perguntas",
}
_HEADING_FILLERS = (  # what may stand in a heading beside that
    "general|specific|and|the|python|python-style|final|all|numbered|of|for|to|part|section|一般的な|具体的な|一般|具体|"
    "的な|的|と|の|および|和|与|und|et|y|e|allgemeine|spezifische|générales|spécifiques|generales|específicas"
)
_YES_WORDS = "yes|true|y|はい|ある|是的|是|有|对|ja|oui|sí|si|sì|sim|да|예|네"
_NO_WORDS = "no|false|n|いいえ|ない|なし|不是|否|不|没有|无|nein|non|não|нет|아니요|아니오"
_ITEM_LABELS = {
    "questions": "question|質問|問い|問|問題|问题|问|frage|pregunta|q|Ｑ",
    "answers": "answer|回答|答え|答案|答|antwort|réponse|respuesta|a|Ａ",
}


def fold_text_key(text: str) -> str:
    """What texts have in common that differ in width, case and spaces alone."""
    return " ".join(normalize("NFKC", text).casefold().split())


@dataclass(slots=True)
class NumberedReply:
    """A reply, as far as its lines were read.

    names: of the fields, by which their lists may be called. opened: the sections that it has.
    """

    names: tuple[str, ...]
    decisions: NumberedItems = field(default_factory=dict)
    lists: NumberedItems = field(default_factory=dict)
    questions: NumberedItems = field(default_factory=dict)
    answers: NumberedItems = field(default_factory=dict)
    sections: set[Section] = field(default_factory=set)
    _section: Section = ""
    _last_number: int = 0  # the number that was read last, as it is written
    _number_offset: int = 0  # to the numbers of this part of the section, since they began anew
    _item_indent: int = 0  # of the first item of the section
    _part_offsets: dict[Section, list[int]] = field(default_factory=lambda: {"questions": [0], "answers": [0]})
    _current_lines: list[str] = field(default_factory=list)

    def parse(self, text: str) -> NumberedReply:
        """Itself, after all lines of the text."""
        for line in text.replace("\r", "\n").split("\n"):
            if line.strip() and not line.lstrip().startswith("```"):
                self._parse_line(line)
        return self

    def _parse_line(self, line: str) -> None:
        if section := _heading_section(line):
            self._open_section(section)
        elif not (self._start_item(line) or self._start_unnumbered_item(line)):
            self._current_lines.append(line)

    def _items_of(self, section: Section) -> NumberedItems:
        found: NumberedItems = getattr(self, section)
        return found

    def _open_section(self, section: Section) -> None:
        self._section, self._last_number, self._number_offset, self._current_lines = section, 0, 0, []
        if section in self._part_offsets and self._items_of(section):
            nth, known = len(self._part_offsets[section]), self._part_offsets["questions"]
            as_asked = section == "answers" and nth < len(known)
            self._number_offset = known[nth] if as_asked else max(self._items_of(section))
            self._part_offsets[section].append(self._number_offset)
        self.sections.add(section)

    def _start_item(self, line: str) -> bool:
        """Whether an item begins here, which it takes up then."""
        number, called, indent, content = _parse_item(line)
        kind = self._item_section(called, content) if number or called else ""
        if not kind or (called == "" and self._is_nested(kind, indent)):
            return False
        if called and kind == called:
            number = self._labelled_number(kind, number)
        elif kind in self._part_offsets:
            kind, number = self._next_number(kind, number)
        if not number or number in self._items_of(kind):
            return False
        self._item_indent = self._item_indent if self._items_of(kind) else indent
        self._add_item(kind, number, content)
        return True

    def _add_item(self, section: Section, number: int, content: str) -> None:
        self._section = section
        self.sections.add(section)
        self._current_lines = self._items_of(section).setdefault(number, [content])

    def _is_nested(self, section: Section, indent: int) -> bool:
        """Whether it stands further in than the items of its section do, and so belongs to one of them."""
        return section == self._section and bool(self._items_of(section)) and indent > self._item_indent + 1

    def _item_section(self, label: Section, content: str) -> Section:
        """What an item is: by its section, by what it looks like, by what it is called."""
        if self._section in ("", "decisions") and content.lstrip("* ").startswith(("[", "［")):
            return "lists"
        short = self._section == "decisions" or (not label and not self._section and len(content) < _MAX_HEADING_CHARS)
        if short and parse_yes_no(content) is not None:
            return "decisions"
        if self._section == "lists" and self._is_list_item(content):
            return "lists"
        return label or (self._section if self._section in self._part_offsets else "questions")

    def _is_list_item(self, content: str) -> bool:
        """Whether it is a list still, or one of the lines of the last: each field has one, and none is a question."""
        bulleted = bool(self._current_lines) and not self._current_lines[0].strip(" :：*")
        return not is_question(content) and (bulleted or len(self.lists) < len(self.names))

    def _labelled_number(self, section: Section, number: int) -> int:
        """The number of what is called a question or an answer; of an answer without one, that of its question."""
        last = max(self.questions, default=0)
        if not number:
            return last + (section == "questions")
        return number if number not in self._items_of(section) else max(self._items_of(section)) + 1

    def _next_number(self, section: Section, number: int) -> tuple[Section, int]:
        """The section that this number goes on with; questions numbered anew are answers, where nobody says so."""
        if self._section != section:
            self._open_section(section)
        if number == 1 and self._last_number and section == "questions" and "answers" not in self.sections:
            self._open_section("answers")
            section = "answers"
        if not self._last_number and number > 1 and self._number_offset:  # numbered on under another heading, not anew
            self._part_offsets[section][-1], self._last_number, self._number_offset = number - 1, number - 1, 0
        if not self._last_number < number <= self._last_number + _MAX_NUMBER_GAP:
            return section, 0
        self._last_number = number
        return section, number + self._number_offset

    def _start_unnumbered_item(self, line: str) -> bool:
        """Whether it is a list, or yes or no, that is called by its field; or a list by itself, the next."""
        if self._section not in ("", "decisions", "lists"):
            return False
        plain = line.strip().lstrip("-•*_{ \"'")
        name, colon, rest = plain[:_MAX_HEADING_CHARS].replace("：", ":").partition(":")
        if (nth := self._field_number(name)) and colon and nth not in self.lists:
            if self._section == "decisions" and parse_yes_no(rest) is not None and "[" not in rest:
                self.decisions[nth] = [rest]
            else:
                self._add_item("lists", nth, plain[len(name) + 1 :])
            return True
        if plain.startswith(("[", "［")) and not is_open_list(self._current_lines):
            self._add_item("lists", len(self.lists) + 1, plain)
            return True
        return False

    def _field_number(self, name: str) -> int:
        plain = fold_text_key(name.strip(" *_\"'`").replace("_", " "))
        return self.names.index(plain) + 1 if plain in self.names else 0


def is_open_list(lines: Sequence[str]) -> bool:
    """Whether a list goes on after these lines: its bracket is open, or has not come yet."""
    said = "".join(lines[-50:])
    return bool(lines) and (said.count("[") > said.count("]") or not said.strip(" :：*"))


def is_question(text: str) -> bool:
    """Whether it ends as questions do."""
    return text.rstrip(" *_").endswith(("?", "？", "か。", "か"))


def parse_yes_no(content: str) -> bool | None:
    """Yes or no, as a line begins, or ends after a question; None where it is neither.

    >>> [decision(said) for said in ("**Yes.**", "いいえ、ありません", "不是", "Is it applied? no", "Nothing", "Ja")]
    [True, False, False, False, None, True]
    """
    plain = content.strip(" *_.。'\"`")
    found = _yes_no_pattern().match(plain) or _yes_no_pattern().match(re.split(r"[?？:：]\s*", plain[-40:])[-1])
    return None if found is None else found["yes"] is not None


def _heading_section(line: str) -> Section:
    """Which section a line opens, if it is nothing else.

    >>> [_heading(said) for said in ("## Yes/No", "**General and specific questions:**", "3. 回答", "The answer: no")]
    ['decisions', 'questions', 'answers', '']
    """
    if len(line) > _MAX_HEADING_CHARS:
        return ""
    plain = re.sub(r"\([^)]*\)|（[^）]*）", "", line).strip(" \t#*_>`[]【】《》:：-=")
    found = _heading_pattern().fullmatch(plain)
    if not found:
        return ""
    kinds: list[Section] = [kind for kind in _HEADING_WORDS if found[kind] or found[f"and_{kind}"]]
    return "questions" if "answers" in kinds and "questions" in kinds else kinds[0]


def _parse_item(line: str) -> tuple[int, Section, int, str]:
    """The number that a line begins with, or 0; what it is called; how far in it stands; and what follows.

    >>> [_item(said) for said in ("1. [2]", "**Ｑ２：** どこ?", "  (3) So.", "A: Yes.")]
    [(1, '', 0, '[2]'), (2, 'questions', 0, 'どこ?'), (3, '', 2, 'So.'), (0, 'answers', 0, 'Yes.')]
    >>> _item("1. **Question:** Where?")
    (1, 'questions', 0, 'Where?')
    >>> [_item(said)[:2] for said in ("1.5 tons", "2024 was dry.", "A ferry leaves.", "12:30 it left", "Question")]
    [(0, ''), (0, ''), (0, ''), (0, ''), (0, '')]
    """
    found = _item_pattern().match(line)
    if not found:
        return 0, "", 0, line
    called: Section = "questions" if found["questions"] else "answers" if found["answers"] else ""
    digits = found["inside"] or found["number"]
    number = int(digits) if digits else int(numeric(found["round"])) if found["round"] else 0
    signed = found["inside"] or found["round"] or found["sign"]
    if not (number and (called or signed)) and not (called and found["sign"] in (*":：",)):
        return 0, "", 0, line
    content = line[found.end() :]
    inner = None if called else _item_pattern().match(content)
    if inner and inner["sign"] in (*":：",) and not inner["number"] and (inner["questions"] or inner["answers"]):
        return number, "questions" if inner["questions"] else "answers", len(found["indent"]), content[inner.end() :]
    return number, called, len(found["indent"]), content


def _alternatives(words: str) -> str:
    return "|".join(map(re.escape, sorted(words.split("|"), key=len, reverse=True)))


@cache  # these take a while to compile: only who reads a reply waits for them
def _heading_pattern() -> re.Pattern[str]:
    latin, wide = (
        _alternatives("|".join(w for w in _HEADING_FILLERS.split("|") if (w < _FIRST_UNSPACED) == spaced))
        for spaced in (True, False)
    )
    beside = rf"(?:(?:{latin})(?![^\W_])|{wide}|[\d\s.:)&/・、．])*+"
    first = "|".join(rf"(?P<{kind}>{_alternatives(said)})" for kind, said in _HEADING_WORDS.items())
    return re.compile(rf"{beside}(?:{first}){beside}(?:{first.replace('?P<', '?P<and_')})?{beside}", re.I)


@cache
def _item_pattern() -> re.Pattern[str]:
    called = "|".join(rf"(?P<{kind}>{_alternatives(said)})" for kind, said in _ITEM_LABELS.items())
    return re.compile(
        rf"(?P<indent>\s*+)[>*_#`]*+\s*+(?:[-•・+]\s++)?[*_]*+(?:(?:{called})[\s.]?+)?+"
        r"(?:[(（\[【<](?P<inside>\d{1,3})[)）\]】>]|(?P<round>[①-⑳])|(?P<number>\d{1,3})(?!\d))?+"
        r"[*_]*+(?P<sign>[)）、：．]|[.:](?!\d)|(?(number)\s[-–]\s|(?!)))?[*_]*+\s*+[*_]*+\s*+",
        re.I,
    )


@cache
def _yes_no_pattern() -> re.Pattern[str]:
    def said(words: str) -> str:
        return "|".join(rf"{re.escape(w)}(?![^\W_])" if w < _FIRST_UNSPACED else re.escape(w) for w in words.split("|"))

    return re.compile(rf"(?:(?P<no>{said(_NO_WORDS)})|(?P<yes>{said(_YES_WORDS)}))", re.I)
