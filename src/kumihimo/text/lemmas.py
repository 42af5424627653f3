"""the text of a slot -> a normalised name, equal for texts with the same meaning."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from unicodedata import normalize

from kumihimo.text import name_keys
from kumihimo.text.dates import parse_iso_date
from kumihimo.text.inflections import verb_lemma

SLOTS = ("who", "when", "where", "what", "why", "how", "predicate")

_ARTICLE = re.compile(r"\b(?:the|an?) (?=\S)")
_LEAD_WORDS = {
    "when": re.compile(r"(?:in|on|at|during|by|since|the) (?=\S)"),
    "where": re.compile(r"(?:in|on|at|from|to|into|onto|inside|within) (?=\S)"),
    "why": re.compile(r"(?:because of|because|due to|owing to|thanks to|since|for|in order to|so that|to) (?=\S)"),
    "how": re.compile(r"(?:by means of|by|with|using|via|through) (?=\S)"),
}
_AUXILIARY = re.compile(
    r"(?:be|am|is|are|was|were|been|being|has|have|had|do|does|did|will|would|shall|should|can|could|may|might|must"
    r"|to|also|just|already|still) (?=\S)"
)
_NEGATION = re.compile(r"\b(?:not|never|cannot)\b|n['’]t\b")
_AMOUNT_SIGN = re.compile(r"[$€£¥%℃°]")
_EDGE_CHARS = " \t\n\"'`“”‘’«»「」『』（）()[]【】〈〉《》、。，．,.;:!?！？…・*_#-–—"
_KANA_VERBS = {
    "ない": "ない",
    "なか": "ない",
    "あ": "ある",
    "い": "いる",
    "な": "なる",
    "し": "する",
    "す": "する",
    "でき": "できる",
    "わか": "わかる",
    "おこな": "行",
}


@cache  # slow to compile, so only at the first use
def _cjk_pattern() -> re.Pattern[str]:
    return re.compile("[\u3040-\u30ff\u3400-\u9fff]")


@cache
def _particle_pattern() -> re.Pattern[str]:
    """Return a pattern for Japanese particles at the end of a word.

    The word is in kanji, katakana or letters: `はは` is not `は` with a particle.
    """
    return re.compile(
        r"(?:(?<=[\u30a1-\u30fe\u3400-\u9fff々a-z0-9])|(?<=さん)|(?<=くん)|(?<=たち))(?:のため(?:に)?|によって|により|において|について|として|ことで|ので|から|まで|より"
        r"|(?:[でにとへ])?[はもの]|頃に|ごろに|が|を|に|で|と|へ|や|も)$"
    )


@cache
def _ending_pattern() -> re.Pattern[str]:
    """Return a pattern for the endings of verbs, adjectives and `である`."""
    return re.compile(
        r"(?:し|され|させ|でき)?(?:て(?:い|お|あ|しま|き|く|い)|で(?:い|お|しま))?"
        r"[\u3041-\u3096]*$"
    )


@cache
def _copula_pattern() -> re.Pattern[str]:
    return re.compile(r"(?<=.)(?:である|であった|でした|です|だった|だ|という|のこと)$")


@cache
def _negation_pattern() -> re.Pattern[str]:
    return re.compile(r"(?:ない|なかった|ません|ませんでした|ず|ぬ|ないでいる)$")


@lru_cache(maxsize=65536)
def normalise_value(slot: str, text: str, *, paper: bool = False) -> str:
    """Return the normalised form of a slot's text; empty without content.

    Texts of one slot with the same meaning get the same form.

    >>> [normalise_value("who", text) for text in ("the cats", "ＣＡＴ", "田中さんは", "Watson,")]
    ['cat', 'cat', '田中さん', 'watson']
    >>> [normalise_value("when", text) for text in ("in April 1883", "1883年4月に", "翌朝", "the next morning")]
    ['1883-04', '1883-04', '翌朝', 'next morning']
    >>> predicates = ("was married", "does not know", "結婚した", "知らない", "描かれていた")
    >>> [normalise_value("predicate", text) for text in predicates]
    ['marry', 'not know', '結婚', '知ない', '描']
    >>> normalise_value("where", "at the door of the house"), normalise_value("how", "with a pencil")
    ('door of house', 'pencil')
    >>> normalise_value("why", "雨のために")
    '雨'

    paper: only lower case and lemmas, as in the paper.

    >>> normalise_value("where", "In the Gardens", paper=True), normalise_value("who", "田中さんは", paper=True)
    ('in the garden', '田中さんは')
    """
    if paper:
        return " ".join(map(_lemmatise, text.lower().split()))
    plain = " ".join((text if text.isascii() else normalize("NFKC", text)).split()).strip(_EDGE_CHARS)
    if slot == "when" and (date := _iso_date(plain)):
        return date
    if not plain.isascii() and _cjk_pattern().search(plain):
        return _normalise_japanese(slot, plain.casefold())
    return _normalise_predicate(plain.casefold()) if slot == "predicate" else _normalise_spaced(slot, plain)


def _lemmatise(word: str) -> str:
    """Return the dictionary form of an English word."""

    return verb_lemma(word)


def _iso_date(text: str) -> str:
    """Return a date text as ISO 8601; empty for other texts."""

    if not any(map(str.isdecimal, text)) and len(text) > 12:
        return ""
    return parse_iso_date(_particle_pattern().sub("", _strip_lead_word("when", text)))


def _strip_lead_word(slot: str, text: str) -> str:
    """Remove the introductory words of a slot: `in`, `because of`."""
    lead_words = _LEAD_WORDS.get(slot)
    match = lead_words.match(text.casefold()) if lead_words else None
    return text[match.end() :] if match and len(text) == len(text.casefold()) else text


def _normalise_spaced(slot: str, text: str) -> str:
    """Normalise a text in a script with spaces."""
    if _AMOUNT_SIGN.search(text):
        return text.casefold()  # `$5` is not `5%`
    bare = _strip_lead_word(slot, text)
    return name_keys.name_key(_ARTICLE.sub("", bare) or bare) if bare else ""


def _normalise_predicate(text: str) -> str:
    """Return the dictionary form of an English verb, `not` before it.

    The words after the verb stay.
    """
    negation = "not " if _NEGATION.search(text) else ""
    plain = " ".join(_NEGATION.sub(" ", text).split())
    while match := _AUXILIARY.match(plain):
        plain = plain[match.end() :]
    first, space, rest = plain.partition(" ")
    return negation + _lemmatise(first) + space + _ARTICLE.sub("", rest)


def _normalise_japanese(slot: str, text: str) -> str:
    """Normalise a Japanese or Chinese text."""
    plain = re.sub(r"(?<=[\u3040-\u9fff]) (?=[\u3040-\u9fff])", "", text)
    if slot == "predicate":
        return _predicate_stem(plain)
    while (bare := _particle_pattern().sub("", plain)) != plain:
        plain = bare
    return name_keys.name_key(plain) if plain else ""


def _predicate_stem(text: str) -> str:
    """Return a Japanese predicate without its ending.

    It is the kanji of a verb, or the noun before `する`.
    """
    plain = _copula_pattern().sub("", text)
    negation = "ない" if (match := _negation_pattern().search(plain)) and match.start() else ""
    if "\u3041" <= plain[0] <= "\u3096":
        prefix = next((kana for kana in sorted(_KANA_VERBS, key=len, reverse=True) if plain.startswith(kana)), "")
        is_known = prefix and len(plain) - len(prefix) <= 6
        return _KANA_VERBS[prefix] + negation if is_known else plain
    stem = _ending_pattern().sub("", plain) or plain
    return stem.strip(_EDGE_CHARS) + negation
