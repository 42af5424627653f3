"""a question + a table -> what it asks of the rows: the measure, the conditions, the operation; or None if unsure."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kumihimo.generation.quoting.selection import SIGNS, find_periods, read_rules, usable
from kumihimo.generation.quoting.table_columns import Columns, bare_name, fold, full_name, years_of
from kumihimo.generation.quoting.table_words import Span, Words, longest_run
from kumihimo.generation.quoting.tables import Row, Table
from kumihimo.text.numbers import Column, number_unit, read_column
from kumihimo.text.tokens import word_root

_MIN_SHARE = 0.5  # of the name of a column, in the question
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?![\d,]*\d)(?!\.\d{3}(?!\d))(?:\.\d+)?"  # 1.250 may be two numbers
_NUMBER = rf"(?P<V>(?:[£$€¥]\s?)?{_DIGITS}%?)(?:\s?(?P<S>[百千万萬億亿]+))?"
_UNIT = r"\s?(?P<U>[^\s\d、,。をがはにの以未超上下]{0,4}?)"
_YEAR = r"(?<!\d)(?P<V>[12]\d{3})(?!\d)"
_BARE_YEAR = re.compile(r"(?<!\d)[12]\d{3}(?!\d)年?度?")
_COUNTER = re.compile("[人名冊册件回台本枚個个室戸户点頭匹羽軒棟社校座店歳岁円元]")  # is no unit of measure
_JOINED = "(?![的是了在有得被于於由与和各个個])[㐀-鿿々ァ-ヿ]"  # of a longer word
_OR = re.compile(r"\bor\b|または|或")
_OTHER_UNIT = re.compile("[単单單]位|[(（][百千万萬億亿]")  # above a table
_Limit = tuple[str, Sequence[Decimal | None], Decimal, str]  # a column, its values, a limit, its text
_SCALES = re.compile("[百千万萬億亿]|thousand|million", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TableQuestion:
    """What a question asks of a table.

    kind: highest, lowest, total, average, count, or rows. measure: its column; empty for a count or for rows. numbers:
    of the measure, for each row of `all_rows`. rows: that meet the conditions. columns: the first one and those that
    count. fit: how much of the question columns
    and cells have.
    """

    kind: str
    measure: str
    numbers: Column
    all_rows: tuple[Row, ...]
    rows: tuple[Row, ...]
    conditions: tuple[str, ...]
    columns: tuple[str, ...]
    fit: tuple[float, int]


def read_question(question: str, table: Table, title: str) -> TableQuestion | None:
    """Return what a question asks of a table, or None.

    Each word of the question must stand for an operation, a column, a condition or the title, or say nothing.
    """
    columns = Columns(table, question)
    return _Reader(question, table, title, columns).read() if columns.are_certain else None


def asks_to_compute(question: str) -> bool:
    """Return whether a question computes or compares."""
    words = Words(fold(question))
    return any(_cut_operations(words)) or any(_find_comparisons(words))


def may_ask_of(question: str, text: str) -> bool:
    """Return whether a text has the words of a question.

    Those that name nothing do not count.

    >>> [may_ask_of(f"Which boat has the most {what}?", "boat: Ebb; crew: 4") for what in ("crew", "sails")]
    [True, False]
    """
    words, folded = Words(fold(question)), fold(text)
    list(_find_comparisons(words))
    words.cut(_BARE_YEAR.pattern)
    list(_cut_operations(words))
    _cut_nameless(words)
    latin = [words.text[a:b][: len(word)] for word, a, b in words.latin if words.is_free((a, b))]
    return all(part.removesuffix("y") in folded for part in (*latin, *words.ideographs))


def _pattern(section: str, name: str, text: str) -> str:
    return "|".join(usable(read_rules("table_questions")[section][name], text.isascii())) or "(?!)"


def _cut_operations(words: Words) -> Iterator[str]:
    """Yield the operations of a question, whose words are taken."""
    for name in read_rules("table_questions")["operations"]:
        if words.cut(_pattern("operations", name, words.text)):
            yield name


def _cut_nameless(words: Words) -> None:
    """Take the words that name nothing."""
    for name in ("light", "verb", "kana"):
        words.cut(_pattern("words", name, words.text))


def _find_comparisons(words: Words) -> Iterator[tuple[str, bool, re.Match[str]]]:
    """Yield the sign of each comparison, whether of years, and its match.

    Its words are taken.
    """
    for sign, match in find_periods(words.rest, _YEAR):
        if words.is_free(match.span()):
            words.take([match.span()])
            yield sign, True, match
    for sign, patterns in read_rules("table_questions")["comparisons"].items():
        for pattern in usable(patterns, words.text.isascii()):
            filled = pattern.replace("<V>", _NUMBER).replace("<U>", _UNIT)
            for match in re.finditer(filled, words.rest):
                words.take([match.span()])
                yield sign, False, match


class _Reader:
    """One question over one table."""

    def __init__(self, question: str, table: Table, title: str, columns: Columns) -> None:
        self.words, self.columns, self.first, self.chosen = (
            Words(fold(question)),
            columns,
            columns.names[0],
            columns.rows,
        )
        headings = [line for line in table.above.splitlines() if line.startswith("#")]
        self.title, self.above = fold("\n".join([title, *headings])), table.above
        self.vocabulary = {word_root(word) for word in re.findall(r"[^\W\d_]+", self.title)}
        self.shown: list[str] = []  # the conditions
        self.used: set[str] = set()  # their columns

    def read(self) -> TableQuestion | None:
        """Return the reading, or None."""
        comparisons = [*_find_comparisons(self.words)]
        before = len(self.words.taken)
        if not (named := self._name_columns()):
            return None
        taken = len(self.words.taken) - before
        kinds = [*_cut_operations(self.words)]
        if (partly := self._name_by_parts(set(self.columns.names) - set(named[0]))) is None:
            return None
        scores = named[0] | partly
        if len(kinds) > 1 and "count" in kinds:  # 平均は何人 asks for no count, 一共有几个 for no sum
            kinds.remove("count" if any(map(self.columns.is_numeric, scores)) else kinds[0])
        certain = len(kinds) < 2 and all(self._compare(*comparison, scores) for comparison in comparisons)
        if not certain or not self._choose_years(scores) or not self._says_all(scores) or not self.chosen:
            return None
        return self._conclude(kinds[0] if kinds else "rows", scores, taken)

    # -- conditions

    def _compare(self, sign: str, is_time: bool, match: re.Match[str], named: Mapping[str, float]) -> bool:
        """Choose the rows of a comparison; return whether its column is certain."""
        options = [
            option
            for name in (named if is_time else self.columns.names)
            if (option := self._year_limit(name, match) if is_time else self._measure_limit(name, match, name in named))
        ]
        options = [option for option in options if option[0] in named] or options
        if len(options) != 1:
            return False
        name, values, limit, text = options[0]
        if None in values or (sign.endswith("?") and limit in values):
            return False
        sign = sign.strip("?")
        self._keep(name, f"{sign} {text}", [SIGNS[sign](value, limit) for value in values])
        return True

    def _year_limit(self, name: str, match: re.Match[str]) -> _Limit | None:
        years = self.columns.years(name)
        return (name, years, Decimal(match["V"]), match["V"]) if years else None

    def _measure_limit(self, name: str, match: re.Match[str], is_named: bool) -> _Limit | None:
        """Return a column with the limit of a comparison in its unit."""
        columns, groups = self.columns, match.groupdict()
        if not columns.is_numeric(name) or columns.numbers(name).problem or columns.years(name):
            return None
        units = columns.units(name)
        scaled = any(map(_SCALES.search, units))  # the number must have the same unit: 500万円 for 万円
        scale, before = groups["S"] or "", (groups["S"] or "") if scaled else ""
        unit = before + (groups.get("U") or "")
        if "U" not in groups:
            rest = self.words.text[match.end() :].lstrip()
            unit = next((unit for unit in sorted(units, key=len)[::-1] if (before + rest).startswith(unit)), before)
            end = len(self.words.text) - len(rest) + max(0, len(unit) - len(before))
            self.words.take([(match.end(), end)] if unit else [])
        number = read_column([match["V"].replace(",", "") + ("" if scaled else scale)])
        fits = (unit or number.unit) in units or (is_named and not unit and not number.unit and not scaled)
        if is_named and unit and not units and not _OTHER_UNIT.search(f"{self.title}\n{self.above}"):
            fits = _COUNTER.fullmatch(unit) is not None or f"({unit})" in self.title
        if not fits or number.values[0] is None:
            return None
        shown = f"{match['V']}{'' if scaled else scale} {unit}".strip()
        return name, columns.numbers(name).values, number.values[0], shown

    def _choose_years(self, named: Mapping[str, Any]) -> bool:
        """Choose the rows of the years that a question names.

        Returns False if a year is neither in the title nor in a column that is named or the first.
        """
        for match in _BARE_YEAR.finditer(self.words.rest):
            year = match[0][:4]
            tests = {
                name: [year in years_of(cell) for cell in self.columns.cells(name)] for name in {self.first, *named}
            }
            found = [name for name, test in tests.items() if any(test)]
            if len(found) == 1:
                self._keep(found[0], f"= {year}", tests[found[0]])
            elif found or years_of(self.title) != [year]:
                return False
            self.words.take([match.span()])
        return True

    def _keep(self, name: str, condition: str, test: Sequence[bool]) -> None:
        """Keep the rows of which the test is true."""
        kept = {row.start for row, meets in zip(self.columns.rows, test, strict=True) if meets}
        self.used.add(name)
        self.shown.append(f"{name} {condition}")
        self.chosen = tuple(row for row in self.chosen if row.start in kept)

    # -- columns and cells

    def _name_columns(self) -> tuple[dict[str, float]] | None:
        """Return the columns whose whole names a question has, each with 1.

        The cells that it names choose rows. None: it is not clear whose cell one is.
        """
        columns, words = self.columns.names, self.words
        names = {(span, name) for name in columns for p in (full_name(name), bare_name(name)) for span in words.find(p)}
        found = [(span, name, "") for span, name in names]
        cells = ((name, cell) for name in columns for cell in dict.fromkeys(self.columns.cells(name)))
        found += [(span, name, cell) for name, cell in cells for span in words.find(fold(cell))]
        scores: dict[str, float] = {}
        chosen: dict[str, list[str]] = {}
        for span in sorted({span for span, _, _ in found}, key=lambda span: span[0] - span[1]):
            beside = {name for other, name in names if self._are_near(span, other)}
            fitting = [(name, cell) for other, name, cell in found if other == span]
            fitting = [(name, cell) for name, cell in fitting if not cell or self._is_name(name, cell, span, names)]
            fitting = [pair for pair in fitting if not pair[1]] or fitting
            if len(fitting) > 1:
                fitting = [pair for pair in fitting if pair[0] in beside] or fitting
            if fitting and words.is_free(span):
                if len(fitting) > 1:
                    return None
                words.take([span])
                name, cell = fitting[0]
                if cell:
                    chosen.setdefault(name, []).append(cell)
                else:
                    scores[name] = 1.0
        if len(chosen) > 1 and _OR.search(words.text):
            return None
        return (scores,) if all(self._choose_cells(name, cells) for name, cells in chosen.items()) else None

    def _choose_cells(self, name: str, chosen: Sequence[str]) -> bool:
        """Choose the rows of some cells; return whether they are certain.

        They are not if another cell has the same words and more.
        """
        others = map(fold, set(self.columns.cells(name)) - set(chosen))
        self._keep(
            name, f"= {' / '.join(dict.fromkeys(chosen))}", [cell in chosen for cell in self.columns.cells(name)]
        )
        return not any(fold(cell) in other for other in others for cell in chosen)

    def _is_name(self, column: str, cell: str, span: Span, names: Collection[tuple[Span, str]]) -> bool:
        """Return whether a cell is a name in a question.

        A number or a letter needs the name of its column beside it; before it if Latin: `shelf A`, not `a shelf`.
        """
        if len(fold(cell)) > 1 and number_unit(cell) != "":
            light = _pattern("words", "light", cell)
            return re.fullmatch(light, cell, re.IGNORECASE) is None
        own = (other for other, name in names if name == column and self._are_near(span, other))
        return any(other[1] <= span[0] or not cell.isascii() for other in own)

    def _are_near(self, one: tuple[int, int], two: tuple[int, int]) -> bool:
        first, last = sorted([one, two])
        between = self.words.text[first[1] : last[0]]
        return first[1] <= last[0] and re.fullmatch(r"\s*|\s*(?:is|of)\s*|[をがはの]", between) is not None

    def _name_by_parts(self, names: Collection[str]) -> dict[str, float] | None:
        """Return the columns whose names a question has in part.

        None: another column has the same part.
        """
        rated = [(*self._find_parts(bare_name(name)), name) for name in names if not name.isdigit()]
        scores: dict[str, float] = {}
        for share, size, spans, name in sorted(rated, key=lambda rating: rating[:2], reverse=True):
            free = [span for span in spans if self.words.is_free(span)]
            if not free or share < _MIN_SHARE:
                continue
            rivals = [
                other for other in rated if other[3] not in {name, *scores} and not set(free).isdisjoint(other[2])
            ]
            if any(share < 1 or other[:2] == (share, size) for other in rivals):
                return None
            self.words.take(free)
            scores[name] = share
        return scores

    def _find_parts(self, name: str) -> tuple[float, int, list[Span]]:
        """Return the share of a name in a question, and its places.

        Some part must not be in the title, whose words mean the table. A part within a longer word is of another name.
        """
        rest, light = self.words.rest, _pattern("words", "light", name)
        latin = [word_root(word) for word in re.findall(r"[a-z'’à-ž]+", name) if not re.fullmatch(light, word)]
        places = {
            word: [(a, b) for own, a, b in self.words.latin if own == word and "\0" not in rest[a:b]] for word in latin
        }
        parts = [part for part in re.split(r"[^㐀-鿿々ァ-ヿ]+|[の的]", name) if part]
        for run in filter(None, (longest_run(part, rest) for part in parts)):
            found = re.finditer(f"(?<!{_JOINED}){re.escape(run)}(?!{_JOINED})", rest)
            places[run] = [match.span() for match in found]
        named = [word for word, spans in places.items() if spans]
        size = sum(1 if word in latin else len(word) for word in named)
        share = size / max(1, len(latin) + sum(map(len, parts)))
        if share < 1 and all(word in self.vocabulary or word in self.title for word in named):
            return 0.0, 0, []
        return share, size, [span for word in named for span in places[word]]

    # -- what is left

    def _says_all(self, named: Mapping[str, Any]) -> bool:
        """Return whether each word of the question is accounted for."""
        words = self.words
        units = {unit for name in named if self.columns.is_numeric(name) for unit in self.columns.units(name)}
        words.take([(a, b) for word, a, b in words.latin if word in self.vocabulary or words.text[a:b] in units])
        for unit in sorted(units, key=len, reverse=True):
            words.take(words.find(unit))
        for run in re.finditer(r"[㐀-鿿々ァ-ヿ\d]{2,}", words.rest):
            start = run.start()
            while part := longest_run(words.rest[start : run.end()].replace("\0", " "), self.title):
                start = words.rest.index(part, start)
                words.take([(start, start + len(part))])
        _cut_nameless(words)
        return not re.search(r"\w", words.rest)

    def _conclude(self, kind: str, scores: Mapping[str, float], taken: int) -> TableQuestion | None:
        """Return the reading, if each named column has its role."""
        columns, measure = self.columns, ""
        unused = [name for name in scores if name not in self.used]
        if kind in ("highest", "lowest", "total", "average"):
            numeric = [name for name in unused if name != self.first and columns.is_numeric(name)]
            numeric = [name for name in numeric if not columns.years(name)] or self._meant_columns()
            if len(numeric) > 1 and (
                asked := re.search(read_rules("table_questions")["words"]["asked"], self.words.text)
            ):
                numeric = [name for name in numeric if not word_root(asked["X"]).startswith(word_root(bare_name(name)))]
            if len(numeric) != 1:
                return None
            measure = numeric[0]
            who = re.search(read_rules("table_questions")["words"]["who"], self.words.text) is not None
            targets = [name for name in unused if name != measure] or ([self.first] if who else [])
            certain = all(columns.differ(name, self.chosen, as_names=who) for name in targets)
        elif kind == "count":  # a table that only has the words of a question need not list what it counts
            certain = bool(self.used) and set(unused) <= {self.first}
        else:  # what is asked about the thing of a row, and of no column, need not be about the table
            about = self.used - {self.first} or (self.used and set(unused) - {self.first})
            certain = (
                bool(about) and re.search(read_rules("table_questions")["words"]["asks"], self.words.text) is not None
            )
        if not certain:
            return None
        numbers = columns.numbers(measure) if measure else Column(())
        fit = (scores.get(measure, 0.0), taken)
        shown = tuple(filter(None, (self.first, measure, *sorted(self.used), *scores)))
        return TableQuestion(kind, measure, numbers, columns.rows, self.chosen, tuple(self.shown), shown, fit)

    def _meant_columns(self) -> list[str]:
        """Return the columns of a superlative: `longest` means length."""
        measures = read_rules("table_questions")["measures"].items()
        meant = [name for name, pattern in measures if re.search(pattern, self.words.text)]
        return [name for name in self.columns.names if bare_name(name) in meant and self.columns.is_numeric(name)]
