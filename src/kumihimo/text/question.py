"""a question -> ParsedQuestion: its words, dates, kind, subject and topic, each worked out once."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path

from kumihimo.core.context import Question
from kumihimo.core.digests import replace_surrogates
from kumihimo.text.dates import DATE_HINT, find_dates, list_dates
from kumihimo.text.question_types import class_stems, cut_pattern, extract_topic, has_broad_words, question_pattern
from kumihimo.text.scripts import find_words, fold_text
from kumihimo.text.tokens import STOPWORDS, content_tokens, locate_words, subject_terms

MAX_QUESTION_CHARS = 10_000
_RULES = Path(__file__).with_name("question_kinds.toml")
_AFTER_APOSTROPHE = re.compile(r"['’]\w+")
_GERMAN = re.compile(r"\b(?:der|das|ein|eine|ist|und|wann|wer|wie|wo|welche[mnrs]?|wurden?)\b", re.I)
_ASKING_WORDS = frozenset(
    subject_terms(  # words that only ask
        "called named name tell please much many long far please which kind sort type were was can could would any"
        " anything something whos wat wats does did"
    )
)


@dataclass(frozen=True, slots=True)
class Word:
    """A token of a question, at [start, end) of its normalized text.

    is_name: whether a capital letter marks a name. is_unspaced: whether its script has no spaces.
    """

    token: str
    start: int
    end: int
    is_name: bool
    is_unspaced: bool


@dataclass(frozen=True, slots=True)
class Wording:
    """The tokens of a question, its words outside dates, and the dates.

    tokens: its distinct index tokens without stopwords. subjects: its subject terms. dates: as the question writes
    them, by ISO form. labelled: where a number follows a content word. has_capitals: whether capital letters tell names
    from other words.
    """

    normalized: str
    tokens: tuple[str, ...]
    subjects: frozenset[str]
    words: Sequence[Word]
    dates: Mapping[str, str]
    labelled: Sequence[int]
    has_capitals: bool

    def term_text(self, term: tuple[int, int] | str) -> str:
        """Return the text of a span of words, or of a date."""
        if isinstance(term, str):
            return self.dates[term]
        return self.normalized[self.words[term[0]].start : self.words[term[1] - 1].end]


@dataclass(frozen=True)
class ParsedQuestion(Question):
    """A question without a model to understand it: what its words say, each worked out once."""

    def __post_init__(self) -> None:
        if not self.text.isascii():  # no file can hold half of a surrogate pair
            object.__setattr__(self, "text", replace_surrogates(self.text))

    def find_problem(self) -> str:
        """Return why the question cannot be asked; empty if it can."""
        if not self.text.strip():
            return "the question is empty: write what you want to know"
        if len(self.text) > MAX_QUESTION_CHARS:
            return (
                f"the question has {len(self.text):,} characters, and {MAX_QUESTION_CHARS:,} is the limit: "
                "ask more briefly, and put long texts into documents"
            )
        return ""

    @cached_property
    def normalized(self) -> str:
        """Return the text in Unicode's form NFKC, without invisible characters."""
        return fold_text(self.text)

    @cached_property
    def plain(self) -> str:
        """Return the normalized text on one line."""
        return " ".join(self.normalized.split())

    # -- words

    @property
    def terms(self) -> frozenset[str]:
        """Return the subject terms that an answer should have."""
        return (self.wording.subjects - _ASKING_WORDS) or self.wording.subjects

    @cached_property
    def content(self) -> str:
        """Return the question without the words that only ask."""
        terms = self.terms
        words = [word for word in find_words(self.plain) if not terms.isdisjoint(subject_terms(word))]
        return " ".join(words) or self.plain

    @cached_property
    def wording(self) -> Wording:
        """Return the tokens, the words outside dates, and the dates."""
        text = plain = self.normalized
        has_dates = re.search(DATE_HINT, text) is not None
        written = [text[start:end] for start, end in find_dates(text)] if has_dates else []
        for start, end in find_dates(text) if written else ():
            plain = f"{plain[:start]}{'|' * (end - start)}{plain[end:]}"
        places = list(locate_words(plain))
        written_words = [plain[start:end] for _, start, end, _ in places]
        has_small = any(word.islower() for word in written_words)
        has_capitals = has_small and any(word != word.lower() for word in written_words[1:])
        words: list[Word] = []
        for n, (word, place) in enumerate(zip(written_words, places, strict=True)):
            is_name = has_capitals and word != word.lower() and (n > 0 or word[1:] != word[1:].lower())
            words.append(Word(*place[:3], is_name, place[3]))
        pairs = enumerate(pairwise(words))
        labelled = [i for i, (label, number) in pairs if number.token.isdigit() and subject_terms(label.token)]
        dates: dict[str, str] = {}
        if has_dates:
            texts = reversed([*written, *text.split()])
            forms = {date: form.strip(".,;:?!") for form in texts for date in list_dates(form)}
            dates = {date: forms.get(date, date) for date in list_dates(text)}
        tokens, subjects = tuple(content_tokens(self.text)), frozenset(subject_terms(self.text))
        return Wording(text, tokens, subjects, words, dates, labelled, has_capitals)

    @cached_property
    def names(self) -> Sequence[Word]:
        """Return the words that a capital letter marks as names.

        None in German, where each noun has one.

        >>> [[word.token for word in ParsedQuestion(text).names] for text in ("Who is Bo Lind?", "Wer ist Bo Lind?")]
        [['bo', 'lind'], []]
        """
        return [] if _GERMAN.search(self.text) else [word for word in self.wording.words if word.is_name]

    # -- what it asks for

    @cached_property
    def has_content(self) -> bool:
        """Return whether it has more than function words.

        Names may be made of these: a capital within the sentence counts.

        >>> texts = ("the of and is it what", "What is it about?", "Who are The Who?", "これは何ですか", "什么是爱？")
        >>> [ParsedQuestion(text).has_content for text in texts]
        [False, True, True, False, True]
        """
        names = question_pattern("name").finditer(self.text)
        words = find_words(_AFTER_APOSTROPHE.sub("", cut_pattern("cjk function", self.text.lower())))
        return not STOPWORDS.issuperset(words) or any(name[0] != "I" for name in names)

    @cached_property
    def asks_one_fact(self) -> bool:
        """Return whether it asks for a single fact."""
        return question_pattern("single fact").search(self.text) is not None

    @cached_property
    def corpus_terms(self) -> frozenset[str]:
        """Return the subject terms; none for a question about the whole corpus.

        >>> [sorted(ParsedQuestion(text).corpus_terms) for text in ("What are the main themes?", "the old ferry")]
        [[], ['ferry', 'old']]
        """
        rest = cut_pattern("cjk corpus", self.text)
        subjects = self.wording.subjects
        terms = subjects if rest == self.text else frozenset(subject_terms(rest))
        return terms - class_stems("corpus") or (subjects if self.asks_one_fact else frozenset())

    @cached_property
    def topic(self) -> str | None:
        """Return the topic of a broad question.

        Empty for a question about the whole corpus, None for a specific one.

        >>> [ParsedQuestion(text).topic for text in ("What do the guests say of tides?", "What are the main themes?")]
        ['tides?', '']
        >>> ParsedQuestion("Where is Osk?").topic is None
        True
        """
        if not self.corpus_terms and not self.asks_one_fact:
            return ""
        return (extract_topic(self.text) or None) if self.is_broad else None

    @property
    def is_broad(self) -> bool:
        """Return whether it is about many documents, not one thing.

        Broad questions ask what parts or authors of the corpus say, how often, or which views are common. One with a
        name is not broad: a capitalised word within the sentence that is no acronym.

        >>> texts = (f"What {rest}?" for rest in ("do guests say of tides", "do guests say of Osk", "is the tide"))
        >>> [ParsedQuestion(text).is_broad for text in texts]
        [True, False, False]
        """
        pattern = question_pattern
        if not self.text.isascii() and pattern("cjk").search(self.text):
            one_fact = pattern("single fact").search(pattern("cjk parts").sub("", self.text))
            return bool(pattern("cjk broad").search(self.text)) and not (
                one_fact or pattern("cjk name").search(self.text)
            )
        if self._is_named or any(pattern(name).search(self.text) for name in ("factoid", "first person")):
            return False
        return has_broad_words(self.text.lower())

    @property
    def _is_named(self) -> bool:
        """Return whether a capital letter or a number marks a name."""
        names = question_pattern("name").finditer(self.text)
        return any(not question_pattern("acronym").fullmatch(name[0]) for name in names)

    @cached_property
    def is_on_all(self) -> bool:
        """Return whether it is about all documents, whatever they are called.

        >>> texts = ("Give an overview of these minutes.", "Give an overview of the ferry.", "会议记录里有哪些议题？")
        >>> [ParsedQuestion(text).is_on_all for text in texts]
        [True, False, True]
        """
        is_wide = self.topic is not None or question_pattern("topic nouns").search(self.text)
        rest = ParsedQuestion(question_pattern("file kinds").sub(" ", self.text)) if is_wide else self
        return not any(len(term) > 1 for term in rest.corpus_terms - class_stems("wide generic")) if is_wide else False

    @property
    def wide_topic(self) -> str:
        """Return what an answer from many documents is about, or empty.

        >>> ParsedQuestion("How has the price of coal changed over the years?").wide_topic
        'price coal'
        """
        if self.is_on_all:
            return ""
        generic = class_stems("wide generic")
        words = (word for word in self.forced_topic.split() if not generic.issuperset(subject_terms(word)))
        return " ".join(words).strip("?.") or self.forced_topic

    @property
    def asks_change(self) -> bool:
        """Return whether it asks how something has changed over time.

        >>> [ParsedQuestion(text).asks_change for text in ("How did it change?", "推移を教えて", "What changes hands?")]
        [True, True, False]
        """
        return question_pattern("change").search(self.plain) is not None

    @cached_property
    def aspects(self) -> Sequence[str]:
        """Return the topic with each item of its longest list.

        >>> ParsedQuestion("How does the inn serve guests, staff and dogs?").aspects
        ['guests inn serve', 'staff inn serve', 'dogs inn serve']
        >>> ParsedQuestion("館は外部（学校、海外）とどう協力していますか").aspects
        ['学校 館は外部()と 協力していますか', '海外 館は外部()と 協力していますか']
        """
        lists = [match.span() for match in question_pattern("list").finditer(self.plain)]
        start, end = max(lists, key=lambda span: span[1] - span[0], default=(0, 0))
        items = [item for item in question_pattern("between items").split(self.plain[start:end]) if subject_terms(item)]
        rest = ParsedQuestion(f"{self.plain[:start]}{self.plain[end:]}").wide_topic
        return [f"{item} {rest}".strip() for item in items if len(items) > 1]

    @cached_property
    def period(self) -> tuple[str, str]:
        """Return the first and the last date of its period.

        >>> texts = ("between 2018 and May 2023", "since 2019", "in 2020", "何が2020年まで")
        >>> [ParsedQuestion(text).period for text in texts]
        [('2018', '2023-05'), ('2019', '9'), ('2020', '2020'), ('', '2020')]
        """
        dates = sorted(date for date in self.wording.dates if date[0] != "-")
        if not dates:
            return "", "9"
        opens, closes = (len(dates) == 1 and question_pattern(name).search(self.plain) for name in ("since", "until"))
        return "" if closes else dates[0], "9" if opens else dates[-1]

    @property
    def forced_topic(self) -> str:
        """Return the topic as if the question were broad."""
        return extract_topic(self.text) if self.corpus_terms or self.asks_one_fact else ""

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


@cache
def _rules() -> Mapping[str, Mapping[str, list[str]]]:
    return tomllib.loads(_RULES.read_text(encoding="utf-8"))
