"""a model's reply in numbered sections -> the lines of each item: decisions, lists, questions, answers."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Literal
from unicodedata import normalize, numeric

Section = Literal["", "decisions", "lists", "questions", "answers"]
NumberedItems = dict[int, list[str]]  # number -> lines

_MAX_HEADING_CHARS = 80  # with its markup
_WORD_END = r"(?![^\W_])"
_FIRST_UNSPACED = "\u0500"  # scripts after this character write words without spaces
_MAX_NUMBER_GAP = 10  # skipped numbers; a larger gap means a year or another number of the text

_HEADING_WORDS: dict[Section, str] = {
    "decisions": "yes or no|yes/no|yes / no|yes-or-no|decision|decisions|はい・いいえ|はい/いいえ|はい／いいえ|"
    "はいかいいえ|判断|是/否|是／否|是否|是或否|ja/nein|ja oder nein|oui/non|oui ou non|sí/no|sí o no|sì/no",
    "lists": "list|lists|metadata|リスト|一覧|メタデータ|列表|清单|元数据|liste|listen|listes|lista|listas|metadaten",
    "answers": "answer|answers|回答|答え|解答|答案|antwort|antworten|réponse|réponses|respuesta|respuestas|risposte",
    "questions": "question|questions|q&a|質問|問い|問題|设问|提问|问题|frage|fragen|pregunta|preguntas|domande|"
    "perguntas",
}
_HEADING_FILLERS = (  # other words of a heading
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
    """Return a comparison key; width, case and spaces do not count."""
    return " ".join(normalize("NFKC", text).casefold().split())


class NumberedReply:
    """A reply, parsed line by line.

    names: the field names that may label a list. sections: the sections found.
    """

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self.names, self.sections = names, set[Section]()
        self.items: dict[Section, NumberedItems] = {"decisions": {}, "lists": {}, "questions": {}, "answers": {}}
        self._section: Section = ""
        self._last_number = 0  # as written in the reply
        self._number_offset = 0  # added to the numbers of this part, if they start at 1 again
        self._item_indent = 0  # of the section's first item
        self._part_offsets: dict[Section, list[int]] = {"questions": [0], "answers": [0]}
        self._current_lines: list[str] = []
        for line in text.replace("\r", "\n").split("\n"):
            if line.strip() and not line.lstrip().startswith("```"):
                self._parse_line(line)

    def _parse_line(self, line: str) -> None:
        """Parse a line as a heading, an item or a continuation."""
        if section := _heading_section(line):
            self._open_section(section)
        elif not (self._start_item(line) or self._start_unnumbered_item(line)):
            self._current_lines.append(line)

    def _open_section(self, section: Section) -> None:
        """Open a section; its numbers may begin at 1 again.

        A repeated section continues after its last number; repeated answers follow the numbering of their questions.
        """
        self._section, self._last_number, self._number_offset, self._current_lines = section, 0, 0, []
        if section in self._part_offsets and self.items[section]:
            part, question_offsets = len(self._part_offsets[section]), self._part_offsets["questions"]
            follows_questions = section == "answers" and part < len(question_offsets)
            self._number_offset = question_offsets[part] if follows_questions else max(self.items[section])
            self._part_offsets[section].append(self._number_offset)
        self.sections.add(section)

    def _start_item(self, line: str) -> bool:
        """Start an item if this line begins one, and return whether."""
        number, label, indent, content = _parse_item(line)
        section = self._item_section(label, content) if number or label else ""
        is_nested = section == self._section and indent > self._item_indent + 1
        if not section or (not label and is_nested and self.items[section]):
            return False
        if label and section == label:
            number = self._labelled_number(section, number)
        elif section in self._part_offsets:
            section, number = self._next_number(section, number)
        if not number or number in self.items[section]:
            return False
        self._item_indent = self._item_indent if self.items[section] else indent
        self._add_item(section, number, content)
        return True

    def _add_item(self, section: Section, number: int, content: str) -> None:
        """Start a new item in a section."""
        self._section = section
        self.sections.add(section)
        self._current_lines = self.items[section].setdefault(number, [content])

    def _item_section(self, label: Section, content: str) -> Section:
        """Return the section of an item, from context, content and label."""
        if self._section in ("", "decisions") and content.lstrip("* ").startswith(("[", "［")):
            return "lists"
        is_unclear = not label and not self._section and len(content) < _MAX_HEADING_CHARS
        may_decide = self._section == "decisions" or is_unclear
        if may_decide and parse_yes_no(content) is not None:
            return "decisions"
        if self._section == "lists" and self._is_list_item(content):
            return "lists"
        return label or (self._section if self._section in self._part_offsets else "questions")

    def _is_list_item(self, content: str) -> bool:
        """Return whether a line is a list or belongs to one.

        Each field has one list, and no list item is a question.
        """
        is_bulleted = bool(self._current_lines) and not self._current_lines[0].strip(" :：*")
        return not is_question(content) and (is_bulleted or len(self.items["lists"]) < len(self.names))

    def _labelled_number(self, section: Section, number: int) -> int:
        """Return the number of a labelled question or answer.

        An unnumbered answer takes the number of its question.
        """
        last = max(self.items["questions"], default=0)
        if not number:
            return last + (section == "questions")
        return number if number not in self.items[section] else max(self.items[section]) + 1

    def _next_number(self, section: Section, number: int) -> tuple[Section, int]:
        """Return the section and number this item continues with.

        Questions that restart at 1 are answers, unless the reply has an answers section.
        """
        if self._section != section:
            self._open_section(section)
        if number == 1 and self._last_number and section == "questions" and "answers" not in self.sections:
            self._open_section("answers")
            section = "answers"
        if not self._last_number and number > 1 and self._number_offset:  # numbering continues under another heading
            self._part_offsets[section][-1], self._last_number, self._number_offset = number - 1, number - 1, 0
        if not self._last_number < number <= self._last_number + _MAX_NUMBER_GAP:
            return section, 0
        self._last_number = number
        return section, number + self._number_offset

    def _start_unnumbered_item(self, line: str) -> bool:
        """Start an unnumbered list or decision, and return whether.

        The line begins with a field name, or it is a list, which takes the next number.
        """
        if self._section not in ("", "decisions", "lists"):
            return False
        plain = line.strip().lstrip("-•*_{ \"'")
        name, colon, rest = plain[:_MAX_HEADING_CHARS].replace("：", ":").partition(":")
        if (number := self._field_number(name)) and colon and number not in self.items["lists"]:
            if self._section == "decisions" and parse_yes_no(rest) is not None and "[" not in rest:
                self.items["decisions"][number] = [rest]
            else:
                self._add_item("lists", number, plain[len(name) + 1 :])
            return True
        starts_list = plain.startswith(("[", "［")) and not is_open_list(self._current_lines)
        if starts_list:
            self._add_item("lists", len(self.items["lists"]) + 1, plain)
        return starts_list

    def _field_number(self, name: str) -> int:
        """Return the number of the field with this name, or 0."""
        plain = fold_text_key(name.strip(" *_\"'`").replace("_", " "))
        return self.names.index(plain) + 1 if plain in self.names else 0


def is_open_list(lines: Sequence[str]) -> bool:
    """Return whether a list continues after these lines.

    Its bracket is open, or has not come yet.
    """
    text = "".join(lines[-50:])
    return bool(lines) and (text.count("[") > text.count("]") or not text.strip(" :：*"))


def is_question(text: str) -> bool:
    """Return whether the text ends like a question."""
    return text.rstrip(" *_").endswith(("?", "？", "か。", "か"))


def parse_yes_no(content: str) -> bool | None:
    """Parse yes or no at the start or after a question.

    Return None without either.

    >>> replies = ("**Yes.**", "いいえ、ありません", "不是", "Is it applied? no", "Nothing", "Ja")
    >>> [parse_yes_no(reply) for reply in replies]
    [True, False, False, False, None, True]
    """
    plain = content.strip(" *_.。'\"`")
    match = _yes_no_pattern().match(plain) or _yes_no_pattern().match(re.split(r"[?？:：]\s*", plain[-40:])[-1])
    return None if match is None else match["yes"] is not None


def _heading_section(line: str) -> Section:
    """Return the section that a heading line opens, or empty.

    >>> lines = ("## Yes/No", "**General and specific questions:**", "3. 回答", "The answer: no")
    >>> [_heading_section(line) for line in lines]
    ['decisions', 'questions', 'answers', '']
    """
    if len(line) > _MAX_HEADING_CHARS:
        return ""
    plain = re.sub(r"\([^)]*\)|（[^）]*）", "", line).strip(" \t#*_>`[]【】《》:：-=")
    match = _heading_pattern().fullmatch(plain)
    if not match:
        return ""
    kinds: list[Section] = [kind for kind in _HEADING_WORDS if match[kind] or match[f"and_{kind}"]]
    return "questions" if "answers" in kinds and "questions" in kinds else kinds[0]


def _parse_item(line: str) -> tuple[int, Section, int, str]:
    """Return the number, label, indent and content of a line.

    The number is 0 and the label empty if the line has none.

    >>> [_parse_item(line) for line in ("1. [2]", "**Ｑ２：** どこ?", "  (3) So.", "A: Yes.")]
    [(1, '', 0, '[2]'), (2, 'questions', 0, 'どこ?'), (3, '', 2, 'So.'), (0, 'answers', 0, 'Yes.')]
    >>> _parse_item("1. **Question:** Where?")
    (1, 'questions', 0, 'Where?')
    >>> lines = ("1.5 tons", "2024 was dry.", "A ferry leaves.", "12:30 it left", "Question")
    >>> [_parse_item(line)[:2] for line in lines]
    [(0, ''), (0, ''), (0, ''), (0, ''), (0, '')]
    """
    match = _item_pattern().match(line)
    if not match:
        return 0, "", 0, line
    label = _item_label(match)
    digits = match["inside"] or match["number"]
    number = int(digits) if digits else int(numeric(match["round"])) if match["round"] else 0
    sign = match["inside"] or match["round"] or match["sign"]
    if not (number and (label or sign)) and not (label and match["sign"] in (*":：",)):
        return 0, "", 0, line
    content = line[match.end() :]
    inner_match = None if label else _item_pattern().match(content)
    if inner_match and inner_match["sign"] in (*":：",) and not inner_match["number"] and _item_label(inner_match):
        label, content = _item_label(inner_match), content[inner_match.end() :]
    return number, label, len(match["indent"]), content


def _item_label(match: re.Match[str]) -> Section:
    """Return the section that an item's label names, or empty."""
    return "questions" if match["questions"] else "answers" if match["answers"] else ""


def _alternatives(words: str, end: str = "") -> str:
    """Return a regex alternation of these words, the longest first.

    end: a pattern after words of scripts with spaces.
    """
    longest_first = sorted(words.split("|"), key=len, reverse=True)
    return "|".join(re.escape(word) + (end if word < _FIRST_UNSPACED else "") for word in longest_first)


@cache  # slow to compile, so only at the first use
def _heading_pattern() -> re.Pattern[str]:
    filler = rf"(?:{_alternatives(_HEADING_FILLERS, _WORD_END)}|[\d\s.:)&/・、．])*+"
    first = "|".join(rf"(?P<{kind}>{_alternatives(words)})" for kind, words in _HEADING_WORDS.items())
    return re.compile(rf"{filler}(?:{first}){filler}(?:{first.replace('?P<', '?P<and_')})?{filler}", re.I)


@cache
def _item_pattern() -> re.Pattern[str]:
    labels = "|".join(rf"(?P<{kind}>{_alternatives(words)})" for kind, words in _ITEM_LABELS.items())
    return re.compile(
        rf"(?P<indent>\s*+)[>*_#`]*+\s*+(?:[-•・+]\s++)?[*_]*+(?:(?:{labels})[\s.]?+)?+"
        r"(?:[(（\[【<](?P<inside>\d{1,3})[)）\]】>]|(?P<round>[①-⑳])|(?P<number>\d{1,3})(?!\d))?+"
        r"[*_]*+(?P<sign>[)）、：．]|[.:](?!\d)|(?(number)\s[-–]\s|(?!)))?[*_]*+\s*+[*_]*+\s*+",
        re.I,
    )


@cache
def _yes_no_pattern() -> re.Pattern[str]:
    no, yes = (_alternatives(words, _WORD_END) for words in (_NO_WORDS, _YES_WORDS))
    return re.compile(rf"(?:(?P<no>{no})|(?P<yes>{yes}))", re.I)
