"""an English passage -> the 5W1H slots and the predicate, by patterns over word kinds.

One letter stands for the kind of a word: d the, n noun, m Name, q plural, t time, r I, p in, w with, f about, o of,
h to, a and, c that, x is, N not, b also, and for verbs v go, s goes, e went, g going. A verb form used as a noun is k.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from kumihimo.text.dates import find_dates
from kumihimo.text.inflections import verb_forms

_KINDS = {
    "d": """a an the my your his her its our their some any each every another no both these those this several many
        few all most such much more other""",
    "r": """i you he she it we they me him them us who everyone everybody someone somebody anyone nobody there one
        something anything nothing everything myself himself herself itself themselves""",
    "rx": """i'm i've i'd i'll you're you've you'll he's he'll she's she'll it's it'll we're we've we'll they're they've
        they'll there's that's what's who's""",
    "p": "in at on into inside outside onto near behind beneath under above below beside across around within from",
    "w": "with by via using through without",
    "f": """about as like than for after before during since until till against among between over upon toward towards
        despite except per off out up down away back throughout""",
    "o": "of",
    "h": "to",
    "a": "and or &",
    "c": """that which whose whom what when where why how because if whether while although though unless so but nor
        then let's please yes yeah oh okay ok well hi hello wow""",
    "x": """is are was were be been being am has have had do does did will would can could shall should may might must
        isn't aren't wasn't weren't don't doesn't didn't won't wouldn't can't couldn't shouldn't hasn't haven't hadn't
        cannot""",
    "N": "not never",
    "b": """also just already still soon now here very really actually often always only even again later once too
        quite almost ever probably maybe perhaps kind sort ago yet""",
    "t": """morning evening night afternoon noon midnight day days week weeks month months year years today yesterday
        tomorrow tonight hour hours minute minutes monday tuesday wednesday thursday friday saturday sunday january
        february april june july august september october november december century decade o'clock spring summer
        autumn winter weekend""",
}
_EMPTY_VERBS = frozenset("know think mean guess get got feel want like see said say saw".split())  # noqa: SIM905 - `you know`
_PLACE_NOUNS = frozenset(
    """room house home city town village country state street road garden office school university college hospital
    church station park forest river lake sea ocean mountain island beach bridge building hall corridor kitchen bedroom
    library museum hotel restaurant shop store market factory lab laboratory studio theater theatre court prison camp
    field farm door window wall floor roof bed table chair desk yard gate tower castle palace mansion villa estate
    district region province county continent world space area airport harbour harbor port ship boat train car bus plane
    place site center centre company club bank storeroom hallway ventilator safe box bag paper web internet north south
    east west neighborhood neighbourhood valley coast border capital headquarters apartment basement stairs cabin tent
    cave""".split()  # noqa: SIM905
)
_NOUN = "(?>d?b?(?>t+|[nmqk][nmqtk]*)(?>od?[nmqkt]+)*)"
_CLAUSE = re.compile(
    rf"(?>(?:[pwfo]{_NOUN},?){{0,2}})(?P<subject>{_NOUN}(?:(?:,{_NOUN}){{0,3}},?a{_NOUN})?|r)(?>(?:p{_NOUN}){{0,2}}),?b*"
    rf"(?P<verb>(?>x[Nbx]*)[vseg]?|[vseg])(?P<rest>(?:b*(?P<object>{_NOUN}(?:a{_NOUN}){{0,2}}))?)"
)
_PHRASE = re.compile(rf"(?P<by>[pwh])(?P<noun>{_NOUN}|g(?:{_NOUN})?)")
_TIME = re.compile(r"(?:(?<=[.,c])|^)(?:d?n?t+)(?=[,.mnrd])|(?<=[vsegnmqb])d?n?t+(?=[.,]|$)")
_VERB_AS_NOUN = re.compile(r"(?<=[dpofw])[vsge]+(?=[nmqtk.,poafhxc]|$)|(?<=[dpofw])[vsge](?=[vsge])")
_NOMINAL = re.compile(r"(?<=[nk])v|^v(?=[segx])|(?<=[nmk])s(?=[sex])|(?<![xNbqw])g(?=[nmqseg])")
_IMPERATIVE = re.compile(r"(?:(?<=[.,])|^)M(?![sex])")  # `Look`; but `Mark sold it`
_WORDS = re.compile(
    r"\w+(?:['’.-]\w+)*(?:\.(?:(?<=\bM[rs]\.)|(?<=\bMrs\.)|(?<=\b[DS][rt]\.)|(?<=\bProf\.)))?|[^\w\s]|\n\s*\n"
)
_WHY = re.compile(
    r"\b(?:because(?: of)?|due to|owing to|thanks to|in order to|so that)\s+"
    r"(?:(?:the|a|an|his|her|its|their|my|our)\s)?"
    r"([^.,;:!?\n–—]{2,80})",
    re.I,
)
_SPEAKER = re.compile(r"^([A-Z][A-Z.]+(?: [A-Z][A-Z.]+){1,3}) ?:", re.M)
_MAX_REASON_WORDS = 12

Spans = list[tuple[int, int]]


def find_english_slots(text: str) -> Iterator[tuple[str, str]]:
    """Yield slots and values, in the words of the text.

    >>> text = "The horse boy does not know Abe Slaney's past, and he ran into the garden with a lamp."
    >>> slots = find_english_slots(text)
    >>> "; ".join(map(": ".join, slots))
    "who: horse boy; predicate: does not know; what: Abe Slaney's past; predicate: ran; where: garden; how: lamp"
    """
    for speaker in _SPEAKER.finditer(text):
        yield "who", speaker[1].title()
    kinds, spans = _tag_words(text)
    for clause in _CLAUSE.finditer(kinds):
        yield from _clause_slots(text, kinds, spans, clause)
    for phrase in _PHRASE.finditer(kinds):
        yield from _phrase_slots(text, kinds, spans, phrase)
    for when in _TIME.finditer(kinds):
        yield "when", _span_text(text, kinds, spans, *when.span())
    for why in _WHY.finditer(text) if "ecause" in text or " to " in text or "hat " in text else ():
        yield "why", " ".join(why[1].split()[:_MAX_REASON_WORDS])


def _tag_words(text: str) -> tuple[str, Spans]:
    """Return a letter for each word, and the words' spans."""
    matches = list(_WORDS.finditer(text))
    spans = [word.span() for word in matches]
    kinds = "".join([_word_kind(word[0]) for word in matches])
    for start, end in find_dates(text):
        kinds = "".join("t" if start <= spans[i][0] < end else kind for i, kind in enumerate(kinds))
    if "M" in kinds:
        kinds = _IMPERATIVE.sub("c", kinds).replace("M", "m")
    return _NOMINAL.sub("k", _VERB_AS_NOUN.sub(lambda run: "k" * len(run[0]), kinds)), spans


@cache
def _kind_by_word() -> dict[str, str]:
    verbs = {form: kind for form, (_, kind) in verb_forms().items()}
    function_words = {word: kind for kind, words in reversed(_KINDS.items()) for word in words.split()}
    return verbs | {word: "c" if kind == "rx" else kind for word, kind in function_words.items()}


@lru_cache(maxsize=65536)
def _word_kind(word: str) -> str:
    """Return the kind of a word.

    M is a verb with a capital, which may be a name.
    """
    first, small = word[0], word.lower().replace("’", "'")
    kind = _kind_by_word().get(small)
    if kind:
        return "M" if kind in "vseg" and first.isupper() else kind
    if not first.isalnum():
        return "n" if first in "$€£&" else "," if first in ",()\"“”‘’'—–-" else "."
    if first.isupper():
        return "m"
    return _kind_by_ending(small)


def _kind_by_ending(word: str) -> str:
    """Return the kind that a word's ending suggests."""
    if word.endswith(("ly", "ed")) and len(word) > 4:
        return "b" if word.endswith("ly") else "e"
    return "q" if word.endswith("s") and not word.endswith(("ss", "us", "is", "'s")) and len(word) > 3 else "n"


def _span_text(text: str, kinds: str, spans: Spans, start: int, end: int) -> str:
    """Return the text of a range of words, without leading articles."""
    while start < end and kinds[start] in "dbf,":
        start += 1
    return text[spans[start][0] : spans[end - 1][1]] if start < end else ""


def _list_items(text: str, kinds: str, spans: Spans, start: int, end: int) -> Iterator[str]:
    """Yield the items of a list such as `Ada, Bo and Cy`."""
    begin = start
    for index in range(start, end + 1):
        if index == end or kinds[index] in "a,":
            if item := _span_text(text, kinds, spans, begin, index):
                yield item
            begin = index + 1


def _clause_slots(text: str, kinds: str, spans: Spans, clause: re.Match[str]) -> Iterator[tuple[str, str]]:
    """Yield a clause's subject, predicate and object.

    A pronoun does not fill `who`.
    """
    subject, object_kinds, verb, rest = clause["subject"], clause["object"], clause["verb"], clause["rest"]
    is_pronoun, copula = subject == "r", verb[-1] in "xNb"
    first, (start, end) = spans[clause.start("subject")], clause.span("verb")
    is_existential = is_pronoun and text[slice(*first)].lower() == "there"
    if not is_pronoun:
        slot = "when" if "t" in subject else "who"
        yield from ((slot, item) for item in _list_items(text, kinds, spans, *clause.span("subject")))
    is_adjectival = copula and rest.lstrip("b") in ("n", "q")
    if is_adjectival and not is_existential:
        yield "predicate", _span_text(text, kinds, spans, start, clause.end())  # `is tall`
    elif not copula and not (is_pronoun and not object_kinds and text[slice(*spans[end - 1])].lower() in _EMPTY_VERBS):
        yield "predicate", _span_text(text, kinds, spans, start, end)
    if object_kinds and (is_existential or not is_adjectival):
        slot = "when" if "t" in object_kinds else "who" if is_existential else "what"
        yield from ((slot, item) for item in _list_items(text, kinds, spans, *clause.span("object")))


def _phrase_slots(text: str, kinds: str, spans: Spans, phrase: re.Match[str]) -> Iterator[tuple[str, str]]:
    """Yield the time, place or means of a prepositional phrase.

    Other phrases yield nothing, because too much may follow `in`.
    """
    noun = phrase["noun"]
    value = _span_text(text, kinds, spans, *phrase.span("noun"))
    if not value:
        return
    if "t" in noun:
        if phrase["by"] == "p" and not value[0].isdecimal():
            yield "when", value
    elif phrase["by"] == "w":
        yield "how", value
    elif noun[0] != "g" and (noun.strip("dbo")[:1] == "m" or not _PLACE_NOUNS.isdisjoint(value.lower().split())):
        yield "where", value
