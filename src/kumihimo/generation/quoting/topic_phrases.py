"""texts with words between spaces -> phrases that may name a topic: nouns by their surroundings."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from math import log, sqrt

from kumihimo.generation.quoting.selection import read_rules
from kumihimo.index.rules.ner_words import WORDS
from kumihimo.text import question_types, tokens
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

_Use = tuple[int, str, bool]  # the number of the text, the form, and whether it is a noun


@dataclass(slots=True)
class TopicPhrase:
    """A phrase with the texts that have it, by number, and its forms."""

    key: tuple[str, ...]
    texts: Counter[int]
    forms: Counter[str]
    noun_uses: int

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
    single = {word for name in names for word in name}
    uses: defaultdict[tuple[str, ...], list[_Use]] = defaultdict(list)
    for number, text in enumerate(texts):
        for key, form, is_noun in _find_phrases(_LABEL.sub("", text)):
            uses[key].append((number, form, is_noun))
    # most phrases occur in one text: they are not counted
    phrases = {key: _count_uses(key, each) for key, each in uses.items() if each[0][0] != each[-1][0]}
    most = max(_COMMON_SHARE * len(texts), 6)

    def names_something(phrase: TopicPhrase) -> bool:
        if not single.isdisjoint(phrase.key) or not _is_nominal(phrase):
            return False
        if len(phrase.key) == 1:
            return len(phrase.texts) <= most
        return phrase.texts.total() >= _MIN_COHESION * min(phrases[(word,)].texts.total() for word in phrase.key)

    return _drop_parts(list(filter(names_something, phrases.values())))


def _count_uses(key: tuple[str, ...], uses: Sequence[_Use]) -> TopicPhrase:
    texts, forms, noun_uses = zip(*uses, strict=True)
    return TopicPhrase(key, Counter(texts), Counter(forms), sum(noun_uses))


def names_topic(phrase: TopicPhrase) -> bool:
    """Return whether a phrase alone says what documents are about.

    It has several words, or is a name with capitals.
    """
    return len(phrase.key) > 1 or all(form[:1].isupper() for form in phrase.forms)


def _is_nominal(phrase: TopicPhrase) -> bool:
    return phrase.noun_uses >= _NOUN_SHARE * phrase.texts.total() * (1.5 if len(phrase.key) == 1 else 1)


def _find_phrases(text: str) -> Iterator[tuple[tuple[str, ...], str, bool]]:
    """Yield the key, form and noun use of each phrase.

    None in Chinese and Japanese: of the compounds there, 6 in 10 named a topic.
    """
    for run in () if has_cjk(text) else _RUN.finditer(text):
        content, after_determiner = list[tuple[str, str]](), False
        for word in run[0].split():
            stem, bare, precedes_noun = _read_word(word)
            if stem:
                content.append((stem, bare))
                continue
            if content:
                yield from _phrases_of_run(content, after_determiner)
                content = []
            after_determiner = precedes_noun
        yield from _phrases_of_run(content, after_determiner)


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


def _phrases_of_run(
    words: Sequence[tuple[str, str]], after_determiner: bool
) -> Iterator[tuple[tuple[str, ...], str, bool]]:
    """Yield the phrases in a run of content words."""
    for start in range(len(words)):
        for end in range(start + 1, min(start + _MAX_WORDS, len(words)) + 1):
            stems, forms = zip(*words[start:end], strict=True)
            yield stems, " ".join(forms), after_determiner and end == len(words)


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
