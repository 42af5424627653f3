"""texts with words between spaces -> phrases that may name a topic: nouns by their surroundings."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from math import log, sqrt
from typing import Self

from kumihimo.generation.quoting.selection import read_rules
from kumihimo.index.rules.ner_words import WORDS
from kumihimo.text import lazy_numpy as np, question_types, tokens
from kumihimo.text.scripts import has_cjk

_RUN = re.compile(r"[^\W_][\w'’-]*(?: +[^\W_][\w'’-]*)*")
_LABEL = re.compile(r"^[^\s:：.!?。！？][^:：.!?。！？\n]{0,38}[:：](?=\s|[^\x00-\xff])", re.MULTILINE)
_BEFORE_NOUN = frozenset(
    """a an the this these those my our your his her its their of in on at for with by from about into""".split()  # noqa: SIM905
)
_NOUN_SHARE = 0.3  # of the occurrences of a phrase between a word that precedes nouns and the end of its words
_COMMON_SHARE = 0.15  # of the texts: a word in more of them says nothing
_MIN_COHESION = 0.04  # uses of a phrase, as a share of those of its rarest word
_MAX_WORDS = 3
_MIN_LIFT = 0.6  # logarithm of how much more frequent a topic of a part is in it
_MANY = 30  # documents, of which three have a topic
_MANY_WORDS = 2.5  # a phrase of several words says more than a word


@dataclass(slots=True)
class TopicPhrase:
    """A phrase with the texts that have it, by number, and its forms."""

    key: tuple[str, ...]
    texts: Counter[int]
    forms: Counter[str]

    @property
    def name(self) -> str:
        """Return the most frequent form."""
        return min(self.forms, key=lambda form: (-self.forms[form], form))

    def pattern(self) -> re.Pattern[str]:
        """Return a pattern for its forms as words."""
        forms = "|".join(re.escape(form) for form in sorted(self.forms))
        return re.compile(rf"\b(?:{forms})\b", re.IGNORECASE)


def collect_phrases(texts: Sequence[str], left_out: Iterable[str] = ()) -> list[TopicPhrase]:
    """Return the phrases that occur in two texts or more.

    left_out: names that are no topics. Speakers' labels are none either.
    """
    names = {tuple(tokens.word_tokens(name)) for name in left_out}
    labels: Counter[str] = Counter(label[0][:-1] for text in texts for label in _LABEL.finditer(text))
    names |= {tuple(tokens.word_tokens(label)) for label, count in labels.items() if count > 1}
    words = _Words()
    places = _Places.of([list(map(words.__getitem__, _split_runs(_LABEL.sub("", text)))) for text in texts], words)
    of_names = [words.stems[word] for name in names for word in name if word in words.stems]
    word_totals = np.zeros(len(words.stems), dtype=np.int64)
    phrases: list[TopicPhrase] = []
    for size in range(1, _MAX_WORDS + 1):
        uses = places.find_uses(size)
        stems, totals = places.stems[uses.places[uses.starts][:, None] + np.arange(size)], uses.ends - uses.starts
        is_topic = uses.count(uses.is_noun) >= _NOUN_SHARE * totals * (1.5 if size == 1 else 1)
        is_topic &= ~np.isin(stems, of_names).any(axis=1)
        if size == 1:
            word_totals[stems[:, 0]] = totals
            is_topic &= uses.count(uses.is_new) <= max(_COMMON_SHARE * len(texts), 6)
        else:
            is_topic &= totals >= _MIN_COHESION * word_totals[stems].min(axis=1)
        phrases += (places.phrase(uses, i, size, words) for i in np.flatnonzero(is_topic).tolist())
    return _drop_parts(phrases)


class _Words(dict[str, int]):
    """The number of each word, which is read at its first use.

    stems: those of words that name something, with their numbers. stem_of: the number of the stem of each word, or -1.
    """

    def __init__(self) -> None:
        self.stems: dict[str, int] = {}
        self.stem_of: list[int] = []
        self.forms: list[str] = []
        self.before_noun: list[bool] = []

    def __missing__(self, word: str) -> int:
        stem, form, before_noun = _read_word(word)
        self.stem_of.append(self.stems.setdefault(stem, len(self.stems)) if stem else -1)
        self.forms.append(form)
        self.before_noun.append(before_noun)
        return self.setdefault(word, len(self))


def _split_runs(text: str) -> list[str]:
    """Return the words of a text, with a bar behind each run.

    None in Chinese and Japanese: of the compounds there, 6 in 10 named a topic.
    """
    return [] if has_cjk(text) else " | ".join([*_RUN.findall(text), ""]).split()


@dataclass(frozen=True, slots=True)
class _Uses:
    """The uses of phrases of one size, those of a phrase side by side, in the order of the texts.

    places: of their first words. is_new: whether no use before is in the same text. starts, ends: of the uses of each
    phrase that is in two texts or more.
    """

    places: np.Integers
    is_noun: np.NDArray[np.bool_]
    is_new: np.NDArray[np.bool_]
    starts: np.Integers
    ends: np.Integers

    def count(self, marks: np.NDArray[np.bool_]) -> np.Integers:
        """Return how many uses of each phrase have a mark."""
        sums = np.concatenate([[0], np.cumsum(marks)])
        return np.asarray(sums[self.ends] - sums[self.starts])


@dataclass(frozen=True, slots=True)
class _Places:
    """All words of the texts as numbers; behind each run of words is a bar.

    stems: -1 for a word that names nothing. is_after: whether the words that name something, of which this is one,
    follow a word that precedes nouns.
    """

    words: np.Integers
    texts: np.Integers
    stems: np.Integers
    is_after: np.NDArray[np.bool_]

    @classmethod
    def of(cls, read: Sequence[Sequence[int]], words: _Words) -> Self:
        """Return the places of these texts, each the numbers of its words."""
        numbers = np.fromiter(chain.from_iterable(read), dtype=np.int64)
        stems = np.array(words.stem_of, dtype=np.int64)[numbers]
        before_noun = np.concatenate([[False], np.array(words.before_noun, dtype=bool)[numbers]])
        begins = (stems >= 0) & (np.concatenate([[-1], stems])[:-1] < 0)
        starts = np.maximum.accumulate(np.where(begins, np.arange(len(stems)), 0))
        texts = np.repeat(np.arange(len(read)), np.array(list(map(len, read)), dtype=np.int64))
        return cls(numbers, texts, stems, before_noun[starts])

    def find_uses(self, size: int) -> _Uses:
        """Return the uses of the phrases of so many words."""
        is_name, last = self.stems >= 0, max(len(self.stems) - size, 0)
        places = np.flatnonzero(np.logical_and.reduce([is_name[n : last + n] for n in range(size)]))
        keys = np.zeros(len(places), dtype=np.int64)
        for n in range(size):
            keys = keys * (int(self.stems.max(initial=0)) + 1) + self.stems[places + n]
        order = np.argsort(keys, kind="stable")
        keys, places = keys[order], places[order]
        texts, is_first = self.texts[places], np.diff(keys, prepend=-1) != 0
        starts = np.flatnonzero(is_first)
        ends = np.concatenate([starts[1:], [len(keys)]])[: len(starts)]
        several = texts[starts] != texts[ends - 1]
        is_noun = self.is_after[places] & ~is_name[places + size]
        is_new = is_first | (np.diff(texts, prepend=-1) != 0)
        return _Uses(places, is_noun, is_new, starts[several], ends[several])

    def phrase(self, uses: _Uses, i: int, size: int, words: _Words) -> TopicPhrase:
        """Return one of the phrases of this size."""
        places = uses.places[uses.starts[i] : uses.ends[i]]
        numbers = self.words[places[:, None] + np.arange(size)].tolist()
        forms = Counter[str]()
        for use, count in Counter(map(tuple, numbers)).items():
            forms[" ".join(words.forms[number] for number in use)] += count
        key = tuple(_read_word(words.forms[number])[0] for number in numbers[0])
        return TopicPhrase(key, Counter(self.texts[places].tolist()), forms)


def names_topic(phrase: TopicPhrase) -> bool:
    """Return whether a phrase alone says what documents are about.

    It has several words, or is a name with capitals.
    """
    return len(phrase.key) > 1 or all(form[:1].isupper() for form in phrase.forms)


@lru_cache(maxsize=65536)
def _read_word(word: str) -> tuple[str, str, bool]:
    """Return the stem and bare form of a content word.

    The stem of another word is empty. The third value: whether a noun may follow.
    """
    folded = word.casefold().replace("’", "'")
    bare = folded.removesuffix("'s")
    words, stems = _no_topics()
    if len(bare) < 3 or "'" in bare or bare[0].isdigit() or bare in words or tokens.word_root(bare) in stems:
        return "", "", folded in _BEFORE_NOUN
    return tokens.word_root(bare), re.sub("['’]s$", "", word), False


@cache
def _no_topics() -> tuple[frozenset[str], frozenset[str]]:
    """Return the words and the stems that name no topic."""
    words = WORDS["stop_words"] | WORDS["sentence_openers"] | {*read_rules("requests")["topics"]["light"].split()}
    return words, question_types.class_stems("corpus parts", "possible parts", "topics", "views", "generic")


def _drop_parts(phrases: Sequence[TopicPhrase]) -> list[TopicPhrase]:
    """Return the phrases, without parts of longer ones."""
    inside: dict[tuple[str, ...], int] = defaultdict(int)
    for phrase in phrases:
        total = phrase.texts.total()
        for size in range(1, len(phrase.key)):
            for start in range(len(phrase.key) - size + 1):
                part = phrase.key[start : start + size]
                inside[part] = max(inside[part], total)
    return [phrase for phrase in phrases if inside[phrase.key] < 0.6 * phrase.texts.total()]


def weigh_phrase(phrase: TopicPhrase, here: Set[int], document_of: Sequence[str]) -> float:
    """Return how well a phrase names a topic of these texts.

    It counts in how many documents of them it is; if they are a part of the corpus, also how much more frequent it is
    in them, and otherwise how often it comes again within a document. document_of: the document of each text.
    """
    uses = {number: count for number, count in phrase.texts.items() if number in here}
    documents = {document_of[number] for number in uses}
    total, total_documents = len(document_of), len(set(document_of))
    if len(documents) < min(total_documents, 2 if total_documents < _MANY else 3) or len(uses) < 2:
        return 0.0
    words = _MANY_WORDS if len(phrase.key) > 1 else 1.0
    if 2 * len(here) < total:  # nothing is much more frequent in the larger part
        lift = log((len(uses) / len(here)) / (len(phrase.texts) / total))
        return len(documents) * words * lift**2 if lift > _MIN_LIFT else 0.0
    return log(1 + len(documents)) * words * sqrt(sum(uses.values()) / len(documents))
