"""the names of a document -> the names that are forms of others, by rules on titles, surnames and acronyms."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from kumihimo.index.name_resolution import PERSON_TYPES
from kumihimo.index.rules import cjk_name_merges
from kumihimo.index.rules.name_forms import NAME_WORDS, NameForm, collect_forms
from kumihimo.text.name_keys import name_key

MergeTriple = tuple[str, str, str]  # form, name, rule

_MAX_WORDS = 5  # of the full name of a person
_LOWER_WORD = re.compile(r"(?<![\w'’-])[a-zß-öø-ÿ][^\W_]*")
_ACRONYM = re.compile(r"[A-Z]{3,6}")
_ROMAN_NUMBER = re.compile(r"[IVXivx]+")
_SAYS = (
    "said|says|told|tells|explained|explains|added|adds|wrote|writes|argued|argues|recalled|recalls|replied|asked|asks"
    "|thinks|thought|believes|believed|admitted|joked|insisted|tweeted|testified"
)


def resolve_names(
    names: Iterable[tuple[str, str]],
    acronyms: Iterable[tuple[str, str]],
    read_text: Callable[[], str],
    distinct: Collection[frozenset[str]] = (),
) -> list[MergeTriple]:
    """Return the names of a document that are forms of others.

    names: (name, type) each, as often as they occur. acronyms: those that the text spells out. read_text: returns the
    text of the document. distinct: pairs of keys to keep apart.
    """
    forms = collect_forms(names)
    document = _DocumentNames(forms, read_text)
    candidates = (
        *document.find_titled(),
        *document.find_fuller(),
        *document.find_single_words(),
        *_spelled_acronyms(acronyms),
        *document.find_initials(),
        *document.find_known_acronyms(),
        *cjk_name_merges.find_merges(forms.values()),
    )
    merges: dict[str, MergeTriple] = {}
    for form, name, rule in candidates:
        key, target = name_key(form), name_key(name)
        if key != target and frozenset((key, target)) not in distinct:
            merges.setdefault(key, (form, name, rule))
    triples = ((form, _last_name(key, merges), rule) for key, (form, _, rule) in merges.items())
    return sorted(triple for triple in triples if frozenset(map(name_key, triple[:2])) not in distinct)


def _last_name(key: str, merges: Mapping[str, MergeTriple]) -> str:
    """Return the name at the end of a chain of merges."""
    visited = set[str]()
    name = ""
    while key in merges and key not in visited:
        visited.add(key)
        name = merges[key][1]
        key = name_key(name)
    return name


def _spelled_acronyms(acronyms: Iterable[tuple[str, str]]) -> Iterator[MergeTriple]:
    """Yield the acronyms that are spelled out in one way only."""
    expansions: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for short, expansion in sorted(acronyms):
        if _ROMAN_NUMBER.fullmatch(short):
            continue
        expansions[short].setdefault(name_key(expansion), expansion)
    for short, by_key in expansions.items():
        if len(by_key) == 1:
            yield short, next(iter(by_key.values())), "acronym"


@dataclass(frozen=True)
class _DocumentNames:
    """The names of one document in scripts with spaces, for the rules."""

    forms: Mapping[str, NameForm]
    read_text: Callable[[], str]

    @cached_property
    def spaced(self) -> list[NameForm]:
        """Return the names in scripts with spaces."""
        return [form for form in self.forms.values() if not cjk_name_merges.is_cjk(form.form)]

    @cached_property
    def full_names(self) -> dict[tuple[str, ...], NameForm]:
        """Return the names that may be full names, by their words."""
        candidates: dict[tuple[str, ...], NameForm] = {}
        for form in self.spaced:
            if 1 < len(form.words) <= _MAX_WORDS and form.can_be_full_name:
                candidates.setdefault(form.words, form)
        return candidates

    @cached_property
    def people(self) -> frozenset[tuple[str, ...]]:
        """Return the words of the full names that are of persons."""
        titled = {form.words[-1] for form in self.spaced if form.has_courtesy_title and len(form.words) == 1}
        return frozenset(
            words
            for words, form in self.full_names.items()
            if form.is_person or words[-1] in titled or _begins_like_person(words)
        )

    @cached_property
    def fuller(self) -> dict[tuple[str, ...], tuple[str, ...]]:
        """Return the fuller form of each incomplete full name."""
        longer: dict[tuple[str, ...], tuple[str, ...]] = {}
        for words in self.full_names:
            candidates = [other for other in self.by_last[words[-1]] if _is_fuller(other, words, self.people)]
            best = max(candidates, key=lambda other: (len(other), len("".join(other)), other), default=None)
            if best and all(other == best or _is_fuller(best, other, self.people) for other in candidates):
                longer[words] = best
        return longer

    @cached_property
    def by_last(self) -> dict[str, list[tuple[str, ...]]]:
        """Return the full names with each last word."""
        by_last: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
        for words in self.full_names:
            by_last[words[-1]].append(words)
        return by_last

    @cached_property
    def containing(self) -> dict[str, set[tuple[str, ...]]]:
        """Return the names of several words with each word.

        A name that holds a whole other one counts as that: `Kettle Narrows Power Society`.
        """
        containing: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
        for form in self.spaced:
            if len(form.words) > 1:
                for word in form.words:
                    containing[word].add(self.fullest(form.words))
        return {
            word: {words for words in names if not any(_holds(words, other) for other in names if other != words)}
            for word, names in containing.items()
        }

    @cached_property
    def text(self) -> str:
        return self.read_text()

    @cached_property
    def lower_words(self) -> frozenset[str]:
        """Return the words that the text writes in small letters."""
        return frozenset(_LOWER_WORD.findall(self.text))

    def fullest(self, words: tuple[str, ...]) -> tuple[str, ...]:
        while words in self.fuller:
            words = self.fuller[words]
        return words

    def find_titled(self) -> Iterator[MergeTriple]:
        """Yield names with a title, and the names without it.

        `Mr Kerrow` and `Mrs Kerrow` stay apart; `Captain Ahab` needs `Ahab` in the text.
        """
        sexes: defaultdict[str, set[str]] = defaultdict(set)
        for form in self.spaced:
            if len(form.words) == 1:
                sexes[form.bare_key] |= form.sexes
        for form in self.spaced:
            stays = len(sexes[form.bare_key]) > 1 and form.sexes
            if form.titles and not stays and (form.has_courtesy_title or form.bare_key in self.forms):
                yield form.form, form.bare, "title"

    def find_fuller(self) -> Iterator[MergeTriple]:
        """Yield full names without a part: `J. Roake`, `Kit Roake`."""
        for words, best in (*self.fuller.items(), *self.turned_names()):
            yield self.full_names[words].bare, self.full_names[best].bare, "part of the name"

    def turned_names(self) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Yield names as in a list, with the usual form: `Roake Kit`."""
        for words, form in self.full_names.items():
            other = self.full_names.get((*words[1:], words[0])) if len(words) < 4 else None
            if (
                other
                and self.people.intersection((words, other.words))
                and (form.mentions, words) < (other.mentions, other.words)
            ):
                yield words, other.words

    def find_single_words(self) -> Iterator[MergeTriple]:
        """Yield surnames and given names of the only full name with them."""
        singles = {form.words[0]: form for form in self.spaced if len(form.words) == 1}
        for word, form in singles.items():
            names = self.containing.get(word, set())
            known = self.forms.get(form.bare_key, form)
            if len(names) != 1 or known.has_other_type(PERSON_TYPES):
                continue
            (words,) = names
            full = self.full_names.get(words)
            if not full:
                continue
            is_first = not form.titles and form.position < full.position and full.mentions < 2
            if is_first or any(words[:i] in self.people for i in range(2, len(words))):
                continue  # a short name follows the full one; `Kit Roake Sallowquay` is two names
            if words in self.people and word == words[-1]:
                yield form.bare, full.bare, "surname"
            elif word == words[0] and (full.is_person or word in NAME_WORDS["given_names"]):
                yield form.bare, full.bare, "given name"
            elif word == words[-1] and self.is_surname(form, full):
                yield form.bare, full.bare, "surname"

    def is_surname(self, form: NameForm, full: NameForm) -> bool:
        """Return whether the text tells that a word is a surname."""
        return (
            len(full.words) == 2
            and len(full.words[0]) > 1
            and len(form.bare) > 3
            and not form.bare.isupper()
            and full.words[0] not in NAME_WORDS["qualifiers"]
            and form.words[0] not in self.lower_words
            and full.bare[0].isupper()
            and (self.speaks(form) or self.is_described(full))
        )

    def is_described(self, full: NameForm) -> bool:
        """Return whether the text says that a name is of a person."""
        before = re.search(rf"([a-z-]+),? {re.escape(full.form)}\b", self.text)
        after = re.search(rf"\b{re.escape(full.form)}(?:, (?:who|aged|\d\d)\b| who\b)", self.text)
        return bool(after or (before and before[1] in NAME_WORDS["person_nouns"]))

    def speaks(self, form: NameForm) -> bool:
        """Return whether the text says that this person says something."""
        name = re.escape(form.bare)
        return bool(re.search(rf"\b{name}(?:,? who)? (?:{_SAYS})\b|\b(?:{_SAYS}) {name}\b", self.text))

    def find_known_acronyms(self) -> Iterator[MergeTriple]:
        """Yield abbreviations that need no explanation: `EU`."""
        for entry in NAME_WORDS["known_acronyms"]:
            short, _, name = entry.partition("=")
            forms = self.forms.get(short), self.forms.get(name.replace("_", " "))
            if forms[0] and forms[1] and forms[0].bare.isupper():
                yield forms[0].form, forms[1].form, "acronym"

    def find_initials(self) -> Iterator[MergeTriple]:
        """Yield acronyms whose letters begin the words of one name only."""
        by_initials: defaultdict[str, list[NameForm]] = defaultdict(list)
        for form in self.spaced:
            if len(form.initials) > 2 and not form.form.isupper():
                by_initials[form.initials].append(form)
        for form in self.spaced:
            if len(form.words) == 1 and _ACRONYM.fullmatch(form.form):
                names = by_initials[form.form]
                if len(names) == 1:
                    yield form.form, names[0].form, "acronym"


def _begins_like_person(words: tuple[str, ...]) -> bool:
    """Return whether a full name has a given name, initial or particle."""
    return (
        words[0] in NAME_WORDS["given_names"]
        or (len(words) > 2 and len(words[0]) == 1)
        or (len(words) > 2 and words[1] in NAME_WORDS["name_particles"])
    )


def _holds(longer: tuple[str, ...], shorter: tuple[str, ...]) -> bool:
    """Return whether a name has the words of another in a row."""
    return any(longer[i : i + len(shorter)] == shorter for i in range(len(longer) - len(shorter) + 1))


def _is_fuller(longer: tuple[str, ...], shorter: tuple[str, ...], people: Collection[tuple[str, ...]]) -> bool:
    """Return whether one full name is another with more of its parts.

    >>> _is_fuller(("kit", "l", "roake"), ("k", "roake"), [("kit", "l", "roake")])
    True
    >>> _is_fuller(("kit", "roake"), ("bo", "roake"), [("kit", "roake")])
    False
    """
    if longer == shorter or longer[-1] != shorter[-1] or longer not in people:
        return False
    if longer[-len(shorter) :] == shorter:
        return True
    if len(longer) > len(shorter):
        return len(shorter) == 2 and _agree(longer[0], shorter[0])
    return sum(map(len, longer)) > sum(map(len, shorter)) and all(map(_agree, longer, shorter))


def _agree(one: str, other: str) -> bool:
    """Return whether two given names are equal, or one an initial."""
    short, full = sorted((one, other), key=len)
    return one == other or (len(short) == 1 and full.startswith(short))
