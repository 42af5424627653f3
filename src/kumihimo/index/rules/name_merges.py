"""the names of a document -> the names that are forms of others, by rules on titles, surnames and acronyms."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from kumihimo.index.name_records import PERSON_TYPES
from kumihimo.index.rules import cjk_name_merges
from kumihimo.index.rules.name_forms import NAME_WORDS, NameForm, collect_forms, is_fuller
from kumihimo.index.rules.ner_words import WORDS
from kumihimo.text import name_keys, similarity

MergeTriple = tuple[str, str, str]  # form, name, rule

_MAX_WORDS = 5  # of the full name of a person
_LOWER_WORD = re.compile(r"(?<![\w'’-])[a-zß-öø-ÿ][^\W_]*")
_ACRONYM = re.compile(r"[A-Z]{3,6}")
_HEAD = re.compile(r"[A-Z][a-z]+(?<!ian|ish|ese)(?: |$)")  # `the Irish` are none
_KINDS = "University|College|Company|Corporation"
_KIND = re.compile(rf" (?:{_KINDS})\b")
_SHORTER = re.compile(rf"(.+) (?:{_KINDS})")
_NO_HEADS = NAME_WORDS["rank_titles"] | NAME_WORDS["qualifiers"]
_LONE_PARTICLES = {(particle,) for particle in "van von de del di da du der den".split()}  # noqa: SIM905
_ROMAN_NUMBER = re.compile(r"[IVXivx]+")
_SAYS = (
    "said|says|told|tells|explained|explains|added|adds|wrote|writes|argued|argues|recalled|recalls|replied|asked|asks"
    "|thinks|thought|believes|believed|admitted|joked|insisted|tweeted|testified"
)

_AROUND = 200  # characters of the text before and after a name, to tell what it is
_ARTICLE = re.compile(  # not in `to Behind the Tech`, which may be a name
    r"(?:^|[.!?:;,*\"”] (?:[A-Z][a-z]+ )?|(?:^| )[^ A-Z]\S* )[Tt]he $"
)
_IN_PLACE, _OF_PLACE = re.compile(r"\b(?:[Ii]n|[Nn]ear|around|,) $"), re.compile(", [A-Z]")
_NUMBERED = re.compile(r" (?:[IVX]+\b|of [A-Z])")  # `Henry II`, `Henry of Blois`
_NOUN_BEFORE = re.compile(r"(?<![a-z-])([a-z-]+),? $")
_PERSON_AFTER = re.compile(r", (?:who|aged|\d\d)\b| who\b| ?\( ?born\b")
_ROLE_AFTER = re.compile(r"(?: ?\([^()]*\))?(?: is| was) (?:an?|the)((?: [\w'’-]+){1,7})")
_SPEECH_BEFORE, _SPEECH_AFTER = re.compile(rf"\b(?:{_SAYS}) $"), re.compile(rf"(?:,? who)? (?:{_SAYS})\b")


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
        *document.find_shortened(),
        *document.find_single_words(),
        *document.find_heads(),
        *_spelled_acronyms(acronyms),
        *document.find_initials(),
        *document.find_known_acronyms(),
        *cjk_name_merges.find_merges(forms.values(), read_text),
    )
    merges: dict[str, MergeTriple] = {}
    for form, name, rule in candidates:
        key, target = name_keys.name_key(form), name_keys.name_key(name)
        if key != target and frozenset((key, target)) not in distinct:
            merges.setdefault(key, (form, name, rule))
    triples = ((form, _last_name(key, merges), rule) for key, (form, _, rule) in merges.items())
    return sorted(triple for triple in triples if frozenset(map(name_keys.name_key, triple[:2])) not in distinct)


def _last_name(key: str, merges: Mapping[str, MergeTriple]) -> str:
    """Return the name at the end of a chain of merges."""
    visited = set[str]()
    name = ""
    while key in merges and key not in visited:
        visited.add(key)
        name = merges[key][1]
        key = name_keys.name_key(name)
    return name


def _spelled_acronyms(acronyms: Iterable[tuple[str, str]]) -> Iterator[MergeTriple]:
    """Yield the acronyms that are spelled out in one way only."""
    expansions: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for short, expansion in sorted(acronyms):
        if _ROMAN_NUMBER.fullmatch(short):
            continue
        expansions[short].setdefault(name_keys.name_key(expansion), expansion)
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
        return [form for form in self.forms.values() if not similarity.is_cjk(form.form)]

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
            candidates = [
                other for other in self.by_last[words[-1]] if is_fuller(other, words) and other in self.people
            ]
            best = max(candidates, key=lambda other: (len(other), len("".join(other)), other), default=None)
            if best and all(other == best or is_fuller(best, other) for other in candidates):
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
        return " ".join(self.read_text().split())

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

        `Mr Kerrow` and `Mrs Kerrow` stay apart; `Captain Ahab` needs `Ahab` in the text, and `Oban CTO Kit Roake` needs
        `Kit Roake`.
        """
        sexes: defaultdict[str, set[str]] = defaultdict(set)
        for form in self.spaced:
            if len(form.words) == 1:
                sexes[form.bare_key] |= form.sexes
        for form in self.spaced:
            stays = len(sexes[form.bare_key]) > 1 and form.sexes
            if form.titles and not stays and (form.has_courtesy_title or form.bare_key in self.forms):
                yield form.form, form.bare, "title"
            elif rest := self.forms.get(_after_role(form.form)):
                yield form.form, rest.form, "title"

    def find_fuller(self) -> Iterator[MergeTriple]:
        """Yield full names without a part: `J. Roake`, `Kit Roake`."""
        for words, best in self.fuller.items():
            yield self.full_names[words].bare, self.full_names[best].bare, "part of the name"

    def find_shortened(self) -> Iterator[MergeTriple]:
        """Yield names without their kind: `Oban`, `Oban University`."""
        longer: defaultdict[str, list[NameForm]] = defaultdict(list)
        for form in self.spaced:
            if (head := _SHORTER.fullmatch(form.form)) and name_keys.name_key(head[1]) in self.forms:
                longer[name_keys.name_key(head[1])].append(form)
        for key, names in longer.items():
            short = self.forms[key].form
            if len(names) == 1 and not self.is_place(short):
                yield short, names[0].form, "part of the name"

    def is_place(self, name: str) -> bool:
        """Return whether the text shows a name as a place."""
        return any(
            _OF_PLACE.match(after) or (_IN_PLACE.search(before) and not _KIND.match(after))
            for before, after in self.around(name)
        )

    def find_heads(self) -> Iterator[MergeTriple]:
        """Yield `the Society` for the only name with that head: `Kettle Society`."""
        for form in self.spaced:
            names = self.containing.get(form.words[0], set()) if len(form.words) == 1 else self.by_end[form.words]
            if len(names) != 1 or not _HEAD.match(form.form) or form.words[0] in _NO_HEADS:
                continue
            (words,) = names
            full = next((name for name in self.spaced if name.words == words), form)
            follows = full.position < form.position or full.mentions > 1
            if follows and _is_head(form.form, full.form) and self.has_article(form.form, full):
                yield form.form, full.form, "head"

    @cached_property
    def by_end(self) -> Mapping[tuple[str, ...], set[tuple[str, ...]]]:
        """Return the names of organisations by their last two or more words."""
        by_end: defaultdict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
        for form in self.spaced:
            is_organisation = form.words[-1:] and form.words[-1] in WORDS["organisation_ends"]
            for i in range(1, len(form.words) - 1) if is_organisation else ():
                by_end[form.words[i:]].add(form.words)
        return by_end

    def has_article(self, head: str, full: NameForm) -> bool:
        """Return whether `the` stands before a word outside the full name."""
        start, _, end = full.form.rpartition(head)
        apart = [
            before for before, after in self.around(head) if not (before.endswith(start) and after.startswith(end))
        ]
        return bool(apart) and all(_ARTICLE.search(before) for before in apart) and not self.is_person(full.words)

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
            elif word == words[0] and self.is_given_name(form, full):
                yield form.bare, full.bare, "given name"
            elif word == words[-1] and (words[:-1] in _LONE_PARTICLES or self.is_surname(form, full)):
                yield form.bare, full.bare, "surname"

    def is_given_name(self, form: NameForm, full: NameForm) -> bool:
        """Return whether a word is a given name, and no ruler's."""
        may_be = full.is_person or form.words[0] in NAME_WORDS["given_names"]
        return may_be and not any(_NUMBERED.match(after) for _, after in self.around(form.bare))

    def is_surname(self, form: NameForm, full: NameForm) -> bool:
        """Return whether the text shows a word as a surname."""
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

    def is_person(self, words: tuple[str, ...]) -> bool:
        """Return whether a full name, or the text, shows a person."""
        full = self.full_names.get(words)
        return words in self.people or (full is not None and self.is_described(full))

    def is_described(self, full: NameForm) -> bool:
        """Return whether the text shows a name as a person."""
        nouns = NAME_WORDS["person_nouns"]
        for before, after in self.around(full.form):
            noun, role = _NOUN_BEFORE.search(before), _ROLE_AFTER.match(after)
            if _PERSON_AFTER.match(after) or (noun and noun[1] in nouns):
                return True
            if role and not nouns.isdisjoint(role[1].split()):
                return True
        return False

    def speaks(self, form: NameForm) -> bool:
        """Return whether this person says something in the text."""
        return any(
            _SPEECH_BEFORE.search(before) or _SPEECH_AFTER.match(after) for before, after in self.around(form.bare)
        )

    def around(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield the text before and after each mention of a name."""
        for match in re.finditer(rf"{re.escape(name)}(?<!\w{re.escape(name)})\b", self.text):  # a literal first: fast
            yield (
                self.text[max(match.start() - _AROUND, 0) : match.start()],
                self.text[match.end() : match.end() + _AROUND],
            )

    def find_known_acronyms(self) -> Iterator[MergeTriple]:
        """Yield abbreviations that need no explanation: `EU`."""
        for entry in NAME_WORDS["known_acronyms"]:
            short, _, name = entry.partition("=")
            forms = self.forms.get(short), self.forms.get(name_keys.name_key(name.replace("_", " ")))
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


def _is_head(word: str, name: str) -> bool:
    """Return whether a word may stand for a whole name after `the`.

    >>> [_is_head("Society", name) for name in ("Kettle Society", "Society of Tides", "Life in Society")]
    [True, True, False]
    """
    if name.startswith(f"{word} of "):
        return True
    before = name.removesuffix(f" {word}").split(" ")
    is_plain = before[0].lower() not in NAME_WORDS["qualifiers"] or " " in word
    return is_plain and name.endswith(f" {word}") and name[0].isupper() and WORDS["lowercase_words"].isdisjoint(before)


def _after_role(name: str) -> str:
    """Return the key of the full name after a role.

    >>> _after_role("Oban CTO Kit Roake"), _after_role("Oban CTO")
    ('kit roake', '')
    """
    words = name.split(" ")
    roles = [i for i, word in enumerate(words[:-2]) if word.lower() in NAME_WORDS["rank_titles"]]
    return name_keys.name_key(" ".join(words[roles[-1] + 1 :])) if roles else ""
