"""words of one slot -> the name by which they are the same wherever they are said."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from unicodedata import normalize

from kumihimo.text import name_keys

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


@cache  # these take a while to compile: only who has a value waits for them
def _cjk_pattern() -> re.Pattern[str]:
    return re.compile("[\u3040-\u30ff\u3400-\u9fff]")


@cache
def _particle_pattern() -> re.Pattern[str]:
    """Particles that end words in kanji, katakana or letters: `はは` is no `は` with a particle."""
    return re.compile(
        r"(?:(?<=[\u30a1-\u30fe\u3400-\u9fff々a-z0-9])|(?<=さん)|(?<=くん)|(?<=たち))(?:のため(?:に)?|によって|により|において|について|として|ことで|ので|から|まで|より"
        r"|(?:[でにとへ])?[はもの]|頃に|ごろに|が|を|に|で|と|へ|や|も)$"
    )


@cache
def _ending_pattern() -> re.Pattern[str]:
    """How verbs, adjectives and `である` end, after what carries their meaning."""
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
    """What the texts of one slot have in common that mean the same; nothing, where they say nothing.

    >>> [name("who", text) for text in ("the cats", "ＣＡＴ", "田中さんは", "Watson,")]
    ['cat', 'cat', '田中さん', 'watson']
    >>> [name("when", text) for text in ("in April 1883", "1883年4月に", "翌朝", "the next morning")]
    ['1883-04', '1883-04', '翌朝', 'next morning']
    >>> [name("predicate", text) for text in ("was married", "does not know", "結婚した", "知らない", "描かれていた")]
    ['marry', 'not know', '結婚', '知ない', '描']
    >>> [name("where", "at the door of the house"), name("how", "with a pencil"), name("why", "雨のために")]
    ['door of house', 'pencil', '雨']

    paper: small letters and lemmas only, as the paper has it.

    >>> name("where", "In the Gardens", paper=True), name("who", "田中さんは", paper=True)
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
    from kumihimo.text.inflections import verb_lemma

    return verb_lemma(word)


def _iso_date(text: str) -> str:
    from kumihimo.text.dates import parse_iso_date

    if not any(map(str.isdecimal, text)) and len(text) > 12:
        return ""
    return parse_iso_date(_particle_pattern().sub("", _strip_lead_word("when", text)))


def _strip_lead_word(slot: str, text: str) -> str:
    """Without the word that leads to it, `in`, `because of`."""
    leading = _LEAD_WORDS.get(slot)
    found = leading.match(text.casefold()) if leading else None
    return text[found.end() :] if found and len(text) == len(text.casefold()) else text


def _normalise_spaced(slot: str, text: str) -> str:
    if _AMOUNT_SIGN.search(text):
        return text.casefold()  # `$5` is not `5%`
    bare = _strip_lead_word(slot, text)
    return name_keys.name_key(_ARTICLE.sub("", bare) or bare) if bare else ""


def _normalise_predicate(text: str) -> str:
    """A verb as a dictionary has it, `not` before it; what follows it stays."""
    denied = "not " if _NEGATION.search(text) else ""
    plain = " ".join(_NEGATION.sub(" ", text).split())
    while led := _AUXILIARY.match(plain):
        plain = plain[led.end() :]
    first, space, rest = plain.partition(" ")
    return denied + _lemmatise(first) + space + _ARTICLE.sub("", rest)


def _normalise_japanese(slot: str, text: str) -> str:
    plain = re.sub(r"(?<=[\u3040-\u9fff]) (?=[\u3040-\u9fff])", "", text)
    if slot == "predicate":
        return _predicate_stem(plain)
    while (bare := _particle_pattern().sub("", plain)) != plain:
        plain = bare
    return name_keys.name_key(plain) if plain else ""


def _predicate_stem(text: str) -> str:
    """What a predicate has before its ending: the kanji of a verb, the noun before `する`."""
    plain = _copula_pattern().sub("", text)
    denied = "ない" if (no := _negation_pattern().search(plain)) and no.start() else ""
    if "\u3041" <= plain[0] <= "\u3096":
        begin = next((kana for kana in sorted(_KANA_VERBS, key=len, reverse=True) if plain.startswith(kana)), "")
        known = begin and len(plain) - len(begin) <= 6
        return _KANA_VERBS[begin] + denied if known else plain
    bare = _ending_pattern().sub("", plain) or plain
    return bare.strip(_EDGE_CHARS) + denied
