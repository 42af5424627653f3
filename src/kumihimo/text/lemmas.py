"""the text of a slot, a form of an English verb -> a normal form, equal for texts with the same meaning."""

import re
from functools import cache, lru_cache
from unicodedata import normalize

from kumihimo.text import dates, name_keys

SLOTS = ("who", "when", "where", "what", "why", "how", "predicate")

_ARTICLE = re.compile(r"\b(?:the|an?) (?=\S)")
_LEAD_WORDS = {
    "when": re.compile(r"(?:in|on|at|during|by|since|the) (?=\S)"),
    "where": re.compile(r"(?:in|on|at|from|to|into|onto|inside|within) (?=\S)"),
    "why": re.compile(r"(?:because of|because|due to|owing to|thanks to|since|for|in order to|so that|to) (?=\S)"),
    "how": re.compile(r"(?:by means of|by|with|using|via|through) (?=\S)"),
}
_AUXILIARIES = re.compile(
    r"(?:(?:be|am|is|are|was|were|been|being|has|have|had|do|does|did|will|would|shall|should|can|could|may|might|must"
    r"|to|also|just|already|still) (?=\S))*"
)
_NEGATION = re.compile(r"\b(?:not|never|cannot)\b|n['’]t\b")
_AMOUNT_SIGN = re.compile(r"[$€£¥%℃°]")
_EDGE_CHARS = " \t\n\"'`“”‘’«»「」『』（）()[]【】〈〉《》、。，．,.;:!?！？…・*_#-–—"
_KANA_VERBS = {
    "おこな": "行",
    "わか": "わかる",
    "ない": "ない",
    "なか": "ない",
    "でき": "できる",
    "あ": "ある",
    "い": "いる",
    "な": "なる",
    "し": "する",
    "す": "する",
}
_COPULA = re.compile(r"(?<=.)(?:である|であった|でした|です|だった|だ|という|のこと)$")
_JAPANESE_NEGATION = re.compile(r"(?<=.)(?:ない|なかった|ません|ませんでした|ず|ぬ|ないでいる)$")
# The endings of verbs, adjectives and `である`.
_ENDING = re.compile(r"(?<![\u3041-\u3096])[\u3041-\u3096]+$")
# These are slow to compile, so `re` does it at the first use.
_CJK = "[\u3040-\u30ff\u3400-\u9fff]"
_PARTICLE = (  # after kanji, katakana or letters: `はは` is not `は` with a particle
    r"(?:(?<=[\u30a1-\u30fe\u3400-\u9fff々a-z0-9])|(?<=さん)|(?<=くん)|(?<=たち))(?:のため(?:に)?|によって|により|において|について|として|ことで|ので|から|まで|より"
    r"|(?:[でにとへ])?[はもの]|頃に|ごろに|が|を|に|で|と|へ|や|も)$"
)
# Verb, past, and the participle if it differs.
_STRONG = """be was been/arise arose arisen/awake awoke awoken/bear bore borne/beat beat beaten/become
    became/begin began begun/bend bent/bind bound/bite bit bitten/bleed bled/blow blew blown/break broke
    broken/breed bred/bring brought/build built/burn burnt/buy bought/catch caught/choose chose chosen/cling
    clung/come came/creep crept/deal dealt/dig dug/do did done/draw drew drawn/dream dreamt/drink drank
    drunk/drive drove driven/eat ate eaten/fall fell fallen/feed fed/feel felt/fight fought/find found/flee
    fled/fly flew flown/forget forgot forgotten/forgive forgave forgiven/freeze froze frozen/get got gotten/give
    gave given/go went gone/grind ground/grow grew grown/hang hung/have had/hear heard/hide hid hidden/hold
    held/keep kept/kneel knelt/know knew known/lay laid/lead led/lean leant/leap leapt/learn learnt/leave
    left/lend lent/lie lay lain/light lit/lose lost/make made/mean meant/meet met/pay paid/prove proved
    proven/ride rode ridden/ring rang rung/rise rose risen/run ran/say said/see saw seen/seek sought/sell
    sold/send sent/shake shook shaken/shine shone/shoot shot/show showed shown/shrink shrank shrunk/sing sang
    sung/sink sank sunk/sit sat/sleep slept/slide slid/speak spoke spoken/spend spent/spin spun/stand
    stood/steal stole stolen/stick stuck/strike struck stricken/swear swore sworn/sweep swept/swim swam
    swum/swing swung/take took taken/teach taught/tear tore torn/tell told/think thought/throw threw
    thrown/understand understood/wake woke woken/wear wore worn/weave wove woven/weep wept/win won/wind
    wound/withdraw withdrew withdrawn/write wrote written/undergo underwent undergone/overcome
    overcame/undertake undertook undertaken"""
# Past and participle are the same.
_UNCHANGED = "cost cut hit hurt let put quit read set shut split spread bet burst cast upset"
# Regular verbs whose forms do not show where they end.
_VERBS = """accuse acquire add advise assume base battle breathe cause challenge charge chase close collapse combine
    compare compete complete compose conclude contribute control criticize damage decide declare decline defeat define
    describe determine die divide emerge enable encourage engage escape examine explore float guide handle heat
    imagine include increase inspire invade invite manage oppose organize persuade pour prepare proceed promise
    promote propose provide purchase raise realize recognize refuse release repeat require retire settle specialize
    succeed suppose surprise taste tie tour treat type unite use waste welcome whistle publicise analyse realise
    recognise organise criticise specialise"""
_DOUBLED = """control begin get cut hit let put quit set shut sit run swim dig win spin bet forget split upset"""
_SILENT_E_STEMS = ("at", "iz", "uc", "iv", "ov", "av", "ur", "dg", "ang", "ns", "rs", "c", "v", "u")


@cache
def _verb_forms() -> dict[str, str]:
    """Map each form to its verb."""
    strong = [verb.split() for verb in _STRONG.replace("\n", " ").split("/")]
    doubled, by_form = set(_DOUBLED.split()), dict[str, str]()
    for verb, *past in [*strong, *([verb, verb] for verb in _UNCHANGED.split()), *([verb] for verb in _VERBS.split())]:
        stem = verb[:-1] if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) else verb
        stem += verb[-1] if verb in doubled else ""
        third, stem_past = f"{verb}es" if verb.endswith(("s", "x", "ch", "sh", "o")) else f"{verb}s", stem
        if verb.endswith("y") and verb[-2] not in "aeou":
            third, stem_past = f"{verb[:-1]}ies", f"{verb[:-1]}i"
        ing = {"die": "dying", "lie": "lying", "tie": "tying"}.get(verb, f"{stem}ing")
        for form in (*(past or [f"{stem_past}ed"]), third, ing, verb):
            by_form.setdefault(form, verb)
    return by_form


@lru_cache(maxsize=65536)
def verb_lemma(form: str) -> str:
    """Return the verb of a form in small letters.

    >>> forms = ("went", "visited", "hopping", "created", "weaves", "cancelled", "sung", "tall")
    >>> [verb_lemma(form) for form in forms]
    ['go', 'visit', 'hop', 'create', 'weave', 'cancel', 'sing', 'tall']
    """
    if form in _verb_forms():
        return _verb_forms()[form]
    for ending, least in (("ied", 5), ("ies", 5), ("ing", 6), ("ed", 5), ("es", 5), ("s", 4)):
        if form.endswith(ending) and len(form) >= least and not form.endswith(("ss", "us", "is")):
            stem = form[: -len(ending)]
            return f"{stem}y" if ending in ("ied", "ies") else _restore_stem(stem, ending)
    return form


def _restore_stem(stem: str, ending: str) -> str:
    """Restore a dropped e, or remove a doubled letter."""
    if ending == "s" or (ending == "es" and stem.endswith(("s", "x", "z", "ch", "sh"))):
        return stem
    if ending == "es" or stem.endswith(_SILENT_E_STEMS):
        return f"{stem}e"
    if len(stem) > 2 and stem[-1] == stem[-2] and (stem[-1] not in "lsze" or (stem.endswith("ell") and len(stem) > 5)):
        return stem[:-1]
    consonant, vowel = stem[-1] not in "aeiouwxy", len(stem) > 2 and stem[-2] in "aeiou"
    return f"{stem}e" if consonant and vowel and not any(map(stem[:-2].__contains__, "aeiou")) else stem


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
        return " ".join(map(verb_lemma, text.lower().split()))
    plain = " ".join((text if text.isascii() else normalize("NFKC", text)).split()).strip(_EDGE_CHARS)
    if slot == "when" and (date := _iso_date(plain)):
        return date
    if not plain.isascii() and re.search(_CJK, plain):
        return _normalise_japanese(slot, plain.casefold())
    return _normalise_predicate(plain.casefold()) if slot == "predicate" else _normalise_spaced(slot, plain)


def _iso_date(text: str) -> str:
    """Return a date text as ISO 8601; empty for other texts."""
    if not any(map(str.isdecimal, text)) and len(text) > 12:
        return ""
    return dates.parse_iso_date(re.sub(_PARTICLE, "", _strip_lead_word("when", text)))


def _strip_lead_word(slot: str, text: str) -> str:
    """Remove the introductory words of a slot: `in`, `because of`."""
    match = _LEAD_WORDS[slot].match(text.casefold()) if slot in _LEAD_WORDS else None
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
    plain, negations = _NEGATION.subn(" ", text)
    plain = " ".join(plain.split())
    first, space, rest = _AUXILIARIES.sub("", plain, count=1).partition(" ")
    return ("not " if negations else "") + verb_lemma(first) + space + _ARTICLE.sub("", rest)


def _normalise_japanese(slot: str, text: str) -> str:
    """Normalise a Japanese or Chinese text."""
    plain = re.sub(r"(?<=[\u3040-\u9fff]) (?=[\u3040-\u9fff])", "", text)
    if slot == "predicate":
        return _predicate_stem(plain)
    while (bare := re.sub(_PARTICLE, "", plain)) != plain:
        plain = bare
    return name_keys.name_key(plain) if plain else ""


def _predicate_stem(text: str) -> str:
    """Return a Japanese predicate without its ending.

    It is the kanji of a verb, or the noun before `する`.
    """
    plain = _COPULA.sub("", text)
    negation = "ない" if _JAPANESE_NEGATION.search(plain) else ""
    if "\u3041" <= plain[0] <= "\u3096":
        prefix = next(filter(plain.startswith, _KANA_VERBS), "")
        return _KANA_VERBS[prefix] + negation if prefix and len(plain) - len(prefix) <= 6 else plain
    return (_ENDING.sub("", plain) or plain).strip(_EDGE_CHARS) + negation
