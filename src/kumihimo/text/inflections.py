"""a form of an English verb -> the verb, by lists and endings."""

from __future__ import annotations

from functools import cache, lru_cache

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
_UNCHANGED = (
    "cost cut hit hurt let put quit read set shut split spread bet burst cast upset"  # past and participle are the same
)
# Frequent regular verbs.
_VERBS = """accept accuse achieve acquire act add address adjust admit adopt advance advise affect agree aim
    allow announce answer appear apply appoint approach approve argue arrange arrest arrive ask assume attach
    attack attempt attend attract avoid award base battle believe belong block book borrow bother bounce breathe
    broadcast burn call campaign care carry cause celebrate challenge change charge chase check claim clean
    clear climb close coach code collapse collect combine command commit compare compete complain complete
    compose concern conclude conduct confirm connect consider consist construct contain continue contribute
    control convert convince cook copy correct count cover crash create criticize cross cry damage dance deal
    decide declare decline decorate defeat defend define deliver demand deny depend derive describe deserve
    design destroy determine develop die differ direct disappear discover discuss divide divorce drag dress drop
    earn edit elect emerge employ enable encourage end engage enjoy ensure enter escape establish estimate
    examine exist expand expect experience explain explore express extend face fail fear feature fill film
    finish fire fix float flow focus follow force form found function gain gather generate govern graduate grant
    greet guard guess guide handle happen hate head heat help hire hope host identify imagine impact implement
    improve include increase indicate influence inform inherit inhabit injure inspire install intend introduce
    invade invent invest investigate invite involve issue join judge jump justify kick kill kiss knock lack land
    last laugh launch lift like limit line link list listen live locate lock look love maintain manage march
    mark marry master match matter measure mention mine miss mix move murder name need note notice observe
    obtain occupy occur offer open operate oppose order organize own pack paint park participate pass perform
    permit persuade pick place plan plant play point possess post pour practice predict prefer prepare present
    press prevent print proceed process produce promise promote propose protect provide publish pull purchase
    push question race rain raise reach react realize receive recognize recommend record recover reduce refer
    reflect refuse regard reject relate release remain remember remind remove repair repeat replace reply report
    represent request require rescue research resign resolve respond rest result retire return reveal review
    rule rush sail save scale score scream search seem select separate serve settle shape share shift shout sign
    smell smile smoke solve sound specialize spell stare start state stay step stop store study succeed suffer
    suggest suit supply support suppose surprise surround survive suspect switch talk target taste tend test
    thank threaten tie touch tour track trade train transfer transform translate travel treat trust try turn
    type unite use value vary view visit vote wait walk want warn wash waste watch welcome whistle whisper wish
    wonder work worry wrap yell appreciate collaborate program publicise analyse realise recognise organise
    criticise specialise"""
_DOUBLED = """stop plan admit commit occur permit refer prefer drop drag wrap ship step rub grab beg chat fit
    control program begin get cut hit let put quit set shut sit run swim dig win spin bet transfer forget split
    upset"""


@cache
def verb_forms() -> dict[str, tuple[str, str]]:
    """Map each form to its verb and its kind.

    Kinds are `v` as in `go`, `s` goes, `e` went or gone, `g` going.

    >>> [verb_forms()[form] for form in ("goes", "went", "planned", "hoping", "tries")]
    [('go', 's'), ('go', 'e'), ('plan', 'e'), ('hope', 'g'), ('try', 's')]
    """
    strong = [verb.split() for verb in _STRONG.replace("\n", " ").split("/")]
    doubled, by_form = set(_DOUBLED.split()), dict[str, tuple[str, str]]()
    for verb, *past in [*strong, *([verb, verb] for verb in _UNCHANGED.split()), *([verb] for verb in _VERBS.split())]:
        stem = verb[:-1] if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) else verb
        stem += verb[-1] if verb in doubled else ""
        stem_past = f"{verb[:-1]}i" if _takes_ies(verb) else stem
        third = (
            f"{verb[:-1]}ies"
            if _takes_ies(verb)
            else f"{verb}es"
            if verb.endswith(("s", "x", "ch", "sh", "o"))
            else f"{verb}s"
        )
        past_forms = [(f"{stem_past}ed", "e")] if not past else [(form, "e") for form in past]
        ing = {"die": "dying", "lie": "lying", "tie": "tying"}.get(verb, f"{stem}ing")
        for form, kind in [*past_forms, (third, "s"), (ing, "g"), (verb, "v")]:
            by_form.setdefault(form, (verb, kind))
    return by_form


def _takes_ies(verb: str) -> bool:
    return verb.endswith("y") and verb[-2] not in "aeou"


@lru_cache(maxsize=65536)
def verb_lemma(form: str) -> str:
    """Return the verb of a form in small letters.

    >>> forms = ("went", "visited", "hopping", "created", "weaves", "cancelled", "sung", "tall")
    >>> [verb_lemma(form) for form in forms]
    ['go', 'visit', 'hop', 'create', 'weave', 'cancel', 'sing', 'tall']
    """
    if form in verb_forms():
        return verb_forms()[form][0]
    for ending, least in (("ied", 5), ("ies", 5), ("ing", 6), ("ed", 5), ("es", 5), ("s", 4)):
        if form.endswith(ending) and len(form) >= least and not form.endswith(("ss", "us", "is")):
            stem = form[: -len(ending)]
            return f"{stem}y" if ending in ("ied", "ies") else _restore_stem(stem, ending)
    return form


def _restore_stem(stem: str, ending: str) -> str:
    """Restore a dropped e, or remove a doubled letter."""
    if ending == "s" or (ending == "es" and stem.endswith(("s", "x", "z", "ch", "sh"))):
        return stem
    if ending == "es" or stem.endswith(
        ("at", "iz", "uc", "iv", "ov", "av", "ur", "dg", "ang", "ns", "rs", "c", "v", "u")
    ):
        return f"{stem}e"
    if len(stem) > 2 and stem[-1] == stem[-2] and (stem[-1] not in "lsze" or (stem.endswith("ell") and len(stem) > 5)):
        return stem[:-1]
    consonant, vowel = stem[-1] not in "aeiouwxy", len(stem) > 2 and stem[-2] in "aeiou"
    return f"{stem}e" if consonant and vowel and not any(map(stem[:-2].__contains__, "aeiou")) else stem
