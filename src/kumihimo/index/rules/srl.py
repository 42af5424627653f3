"""a passage -> the 5W1H slots and the predicate, by rules instead of a model.

No grammar is parsed. English uses patterns over the kinds of words, Japanese particles, Chinese a list of verbs. In
other languages only dates are found.

One letter stands for the kind of an English word: d the, n noun, m Name, q plural, t time, r I, p in, w with, f about,
o of, h to, a and, c that, x is, N not, b also, and for verbs v go, s goes, e went, g going. A verb form used as a noun
is k.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from kumihimo.text.dates import find_dates
from kumihimo.text.lemmas import verb_forms

MAX_CHARS = 3000  # only a passage without sentences is longer
_MAX_JAPANESE_VALUE_CHARS, _MAX_CHINESE_VALUE_CHARS = 24, 12
_HAN, _KATA = "々〆\u3400-\u9fff", "\u30a1-\u30fa\u30fc"
_JA_RUN, _ZH_RUN = rf"[{_HAN}{_KATA}A-Za-z0-9Ａ-Ｚａ-ｚ０-９・＝]", "[A-Za-z0-9\u3400-\u9fff·‧・•]"
_JA_LED = rf"(?:(?<![ぁ-ん{_HAN}])[{_HAN}]{{1,2}}[いるたな](?=[{_HAN}{_KATA}]))?"
_JA_HONOUR = "(?:さん|ちゃん|くん|たち|ら(?=[はがをにの]))?"
_ZH_PLACE_ENDS = "上下中裡里內内外旁邊边附近"
_PATTERNS = {  # slow to compile, so only on first use
    "kana": "[\u3041-\u3096\u30a1-\u30fa]",
    "han": "[\u3400-\u9fff]",
    "term and particle": (  # `踊る人形を`, `物置の扉の上に`
        rf"({_JA_LED}{_JA_RUN}+{_JA_HONOUR}(?:の{_JA_RUN}+{_JA_HONOUR})*(?:のところ)?)"
        r"(によって|により|を使って|を用いて|のため(?:に)?|から|まで|より|には|では|とは|にも|でも|へは|は(?!じ|ず)"
        r"|が(?![っる])|も|を|に(?![よく])|へ|で(?!あ|す|し|き|は?な)|と(?!い[うえ]|し|思|言)|[、，,])"
    ),
    "time": (
        rf"(?:(?<![少青老])年|年代|[月日時分秒朝昼夜晩頃週春夏秋冬]|[昨今明翌前後同]日|夕方|世紀|最近|現在|当時|当夜|時間|時刻|直後|直前|以前|以後|その後"
        rf"|[{_HAN}0-9][年日月週]前|[年日月週]間?後)$"
    ),
    "place": (
        r"(?:[室家館駅国州市区県町村島山川海港屋所場庭園道街店院校寺社城宅棟床上下中内外隣側奥穴窓扉壁紙]|部屋|廊下|ドア|ベッド|テーブル"
        r"|ホテル|ロンドン|アメリカ|イギリス|ビル|センター|スタジオ|地方|地域|付近|周辺)$"
    ),
    "verb after a particle": (  # `ある`
        rf"(?<={_JA_RUN}[はがもをにでと])(?:あ[るっり]|い[るたなま]|な[るっりい]|でき|し[たてま]|する|され|もら|くれ|わか|つく|かか)"
        "[ぁ-ん]*$"
    ),
    # `結婚した`, `受け取った`, `紳士である`
    "verb": rf"(?:[{_HAN}][きぎしじちびみりけげせてねべめれいえ])?{_JA_RUN}+[ぁ-ん]*$",
}
_JA_SLOTS = {
    **dict.fromkeys(("は", "が", "も", "とは"), "who"),
    **dict.fromkeys(("のため", "のために"), "why"),
    **dict.fromkeys(("によって", "により", "を使って", "を用いて"), "how"),
    "を": "what",
}
_JA_SENTENCE_CUT = re.compile(r"(?<=[。！？!?\n])|」と")
_JA_PARENTHESIS = re.compile(r"[（(][^（）()]{0,80}[）)]")
_JA_WHY = re.compile(r"([^、。，\nはが]{2,30}?)(?:の?ために|の?ため|(?<!も)ので|せいで|(?<=[るたいだ])から)[、，,。]")
_JA_BEING_VERB = re.compile("い[るた]|あ[るっ]|[住泊残置立座来行着戻帰入向]")
_ZH_CLAUSE = re.compile(r"[^，,。；;！？!?：:\n]+")
_ZH_TIME = re.compile(
    "(?:公元前?|西元前?)?[0-9一二三四五六七八九十]{1,4}(?:年代?|世紀|世纪|月|日)(?:[0-9一二三四五六七八九十]{1,2}[月日])*(?:初|底|末|間|间|後|后)?"
    "|(?:今|去|明|同|隔|翌|次)[年日天]|昨[天日晚]|當[時年]|当[时年]|后来|後來|目前|現在|现在"
)
_ZH_TIME_PHRASE = re.compile(f"[在於于]?(?:{_ZH_TIME.pattern})")
_ZH_EDGE_WORDS = re.compile(
    "^(?:而|但|但是|並|并|並且|并且|且|也|又|則|则|其中|此外|因此|所以|由於|由于|因為|因为|雖然|虽然|如果|在|於|于|了|著|着|過|过|個|个|一個|一个|一種|一种"
    "|一位|一座|的|為|为|到|出|對|对|從|从|與|与|和|給|给|把|以|用|他|她|它|才|不過|不过)+|(?:對|对|從|从|與|与|和|給|给|把|以|用|才|還|还|則|则|也|都|曾|已|已經|已经|將|将|被|會|会|可以|可能|能|不|就|便|並|并|的|了|共同|正式|後來|后来|主要|一直|開始|开始)+$"
)
_EN_NOUN = "(?>d?b?(?>t+|[nmqk][nmqtk]*)(?>od?[nmqkt]+)*)"
_EN_CLAUSE = re.compile(
    rf"(?>(?:[pwfo]{_EN_NOUN},?){{0,2}})(?P<subject>{_EN_NOUN}(?:(?:,{_EN_NOUN}){{0,3}},?a{_EN_NOUN})?|r)(?>(?:p{_EN_NOUN}){{0,2}}),?b*"
    rf"(?P<verb>(?>x[Nbx]*)[vseg]?|[vseg])(?P<rest>(?:b*(?P<object>{_EN_NOUN}(?:a{_EN_NOUN}){{0,2}}))?)"
)
_EN_ITEM = re.compile("[^a,]+")
_EN_PHRASE = re.compile(rf"(?P<by>[pwh])(?P<noun>{_EN_NOUN}|g(?:{_EN_NOUN})?)")
_EN_TIME = re.compile(r"(?:(?<=[.,c])|^)(?:d?n?t+)(?=[,.mnrd])|(?<=[vsegnmqb])d?n?t+(?=[.,]|$)")
_EN_VERB_AS_NOUN = re.compile(r"(?<=[dpofw])[vsge]+(?=[nmqtk.,poafhxc]|$)|(?<=[dpofw])[vsge](?=[vsge])")
_EN_NOMINAL = re.compile(r"(?<=[nk])v|^v(?=[segx])|(?<=[nmk])s(?=[sex])|(?<![xNbqw])g(?=[nmqseg])")
_EN_IMPERATIVE = re.compile(r"(?:(?<=[.,])|^)M(?![sex])")  # `Look`; but `Mark sold it`
_EN_WORDS = re.compile(
    r"\w+(?:['’.-]\w+)*(?:\.(?:(?<=\bM[rs]\.)|(?<=\bMrs\.)|(?<=\b[DS][rt]\.)|(?<=\bProf\.)))?|[^\w\s]|\n\s*\n"
)
_EN_WHY = re.compile(
    r"\b(?:because(?: of)?|due to|owing to|thanks to|in order to|so that)\s+"
    r"(?:(?:the|a|an|his|her|its|their|my|our)\s)?"
    r"([^.,;:!?\n–—]{2,80})",
    re.I,
)
_EN_SPEAKER = re.compile(r"^([A-Z][A-Z.]+(?: [A-Z][A-Z.]+){1,3}) ?:", re.M)
_EN_MAX_REASON_WORDS = 12


class _TaggedText(NamedTuple):
    """An English text with a letter for the kind of each word, and the words."""

    text: str
    kinds: str
    matches: list[re.Match[str]]

    def words(self, start: int, end: int) -> str:
        """Return the text of a range of words, without leading articles."""
        while start < end and self.kinds[start] in "dbf,":
            start += 1
        return self.text[self.matches[start].start() : self.matches[end - 1].end()] if start < end else ""

    def items(self, start: int, end: int) -> Iterator[str]:
        """Yield the items of a list such as `Ada, Bo and Cy`."""
        return filter(None, (self.words(*item.span()) for item in _EN_ITEM.finditer(self.kinds, start, end)))

    def small_word(self, index: int) -> str:
        """Return a word in small letters."""
        return self.matches[index][0].lower()


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS[name])


@cache
def _word_lists() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@cache
def _words(name: str) -> frozenset[str]:
    return frozenset(_word_lists()[name].split())


def find_slots(text: str) -> Iterator[tuple[str, str]]:
    """Yield slots and values, in the words of the text.

    >>> dict(find_slots("In 1883 Helen Stoner visited Holmes in London because of her fear."))
    {'when': '1883', 'who': 'Helen Stoner', 'predicate': 'visited', 'what': 'Holmes', 'where': 'London', 'why': 'fear'}
    >>> dict(find_slots("ヘレンは昨夜、寝室で口笛を聞いた。"))
    {'who': 'ヘレン', 'when': '昨夜', 'where': '寝室', 'what': '口笛', 'predicate': '聞いた'}
    >>> dict(find_slots("1883年，福爾摩斯在倫敦發現了毒蛇。"))
    {'when': '1883年', 'where': '倫敦', 'who': '福爾摩斯', 'predicate': '發現', 'what': '毒蛇'}
    """
    text = text[:MAX_CHARS]
    dates = list(find_dates(text))
    yield from (("when", text[start:end]) for start, end in dates)
    kana, han = (0 if text.isascii() else len(_pattern(script).findall(text)) for script in ("kana", "han"))
    if (kana + han) * 4 < len(text):
        yield from find_english_slots(text, dates)
    elif kana * 20 >= kana + han:
        yield from find_japanese_slots(text)
    else:
        yield from find_chinese_slots(text)


def find_english_slots(text: str, dates: Sequence[tuple[int, int]] = ()) -> Iterator[tuple[str, str]]:
    """Yield slots and values, in the words of the text.

    dates: the spans of dates in it.

    >>> text = "The horse boy does not know Abe Slaney's past, and he ran into the garden with a lamp."
    >>> slots = find_english_slots(text)
    >>> "; ".join(map(": ".join, slots))
    "who: horse boy; predicate: does not know; what: Abe Slaney's past; predicate: ran; where: garden; how: lamp"
    """
    for speaker in _EN_SPEAKER.finditer(text):
        yield "who", speaker[1].title()
    tagged = _tag_words(text, dates)
    for clause in _EN_CLAUSE.finditer(tagged.kinds):
        yield from _clause_slots(tagged, clause)
    for phrase in _EN_PHRASE.finditer(tagged.kinds):
        yield from _phrase_slots(phrase, tagged.words(*phrase.span("noun")))
    for when in _EN_TIME.finditer(tagged.kinds):
        yield "when", tagged.words(*when.span())
    for why in _EN_WHY.finditer(text) if "ecause" in text or " to " in text or "hat " in text else ():
        yield "why", " ".join(why[1].split()[:_EN_MAX_REASON_WORDS])


def _tag_words(text: str, dates: Iterable[tuple[int, int]]) -> _TaggedText:
    words = list(_EN_WORDS.finditer(text))
    kinds = "".join([_word_kind(word[0]) for word in words])
    for start, end in dates:
        kinds = "".join("t" if start <= words[i].start() < end else kind for i, kind in enumerate(kinds))
    if "M" in kinds:
        kinds = _EN_IMPERATIVE.sub("c", kinds).replace("M", "m")
    kinds = _EN_NOMINAL.sub("k", _EN_VERB_AS_NOUN.sub(lambda run: "k" * len(run[0]), kinds))
    return _TaggedText(text, kinds, words)


@cache
def _kind_by_word() -> dict[str, str]:
    verbs = {form: kind for form, (_, kind) in verb_forms().items()}
    word_lists = reversed(_word_lists()["english_kinds"].items())
    return verbs | {word: kind for kind, words in word_lists for word in words.split()}


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


def _clause_slots(tagged: _TaggedText, clause: re.Match[str]) -> Iterator[tuple[str, str]]:
    """Yield a clause's subject, predicate and object.

    A pronoun does not fill `who`.
    """
    subject, object_kinds, verb, rest = clause["subject"], clause["object"], clause["verb"], clause["rest"]
    is_pronoun, copula = subject == "r", verb[-1] in "xNb"
    start, end = clause.span("verb")
    is_existential = is_pronoun and tagged.small_word(clause.start("subject")) == "there"
    if not is_pronoun:
        slot = "when" if "t" in subject else "who"
        yield from ((slot, item) for item in tagged.items(*clause.span("subject")))
    is_adjectival = copula and rest.lstrip("b") in ("n", "q")
    is_empty = is_pronoun and not object_kinds and tagged.small_word(end - 1) in _words("english_empty_verbs")
    if is_adjectival and not is_existential:
        yield "predicate", tagged.words(start, clause.end())  # `is tall`
    elif not copula and not is_empty:
        yield "predicate", tagged.words(start, end)
    if object_kinds and (is_existential or not is_adjectival):
        slot = "when" if "t" in object_kinds else "who" if is_existential else "what"
        yield from ((slot, item) for item in tagged.items(*clause.span("object")))


def _phrase_slots(phrase: re.Match[str], value: str) -> Iterator[tuple[str, str]]:
    """Yield the time, place or means of a prepositional phrase.

    Other phrases yield nothing, because too much may follow `in`.
    """
    noun, by = phrase["noun"], phrase["by"]
    if not value:
        return
    if "t" in noun:
        if by == "p" and not value[0].isdecimal():
            yield "when", value
    elif by == "w":
        yield "how", value
    elif noun[0] != "g":
        is_place = not _words("english_place_nouns").isdisjoint(value.lower().split())
        if is_place or noun.strip("dbo")[:1] == "m":
            yield "where", value


def find_japanese_slots(text: str) -> Iterator[tuple[str, str]]:
    """Yield slots and values, sentence by sentence.

    Values are words of the text.

    >>> [value for _, value in find_japanese_slots("翌朝、キュービットとエルシィは雨のために馬車で駅に行った。")]
    ['翌朝', 'キュービット', 'エルシィ', '雨', '馬車', '駅', '行った']
    >>> list(find_japanese_slots("父は病気なので、家にいる。"))
    [('why', '病気な'), ('who', '父'), ('where', '家'), ('predicate', 'いる')]
    """
    for sentence in _JA_SENTENCE_CUT.split(text):
        plain = _JA_PARENTHESIS.sub("", sentence).strip(" \n\u3000。．！？!?」』")
        if plain:
            for why in _JA_WHY.finditer(sentence):
                yield "why", why[1]
            ends = (_pattern(name).search(plain, max(len(plain) - 40, 0)) for name in ("verb after a particle", "verb"))
            verb = next((match[0] for match in ends if match), "")
            yield from _term_slots(plain, bool(_JA_BEING_VERB.match(verb)))
            if verb and verb[0] not in "誰何":
                yield "predicate", verb


def _term_slots(sentence: str, moving: bool) -> Iterator[tuple[str, str]]:
    """Yield slots and terms by the particles of a sentence.

    moving: whether its verb is one of being or going somewhere.
    """
    listed = list[str]()
    for match in _pattern("term and particle").finditer(sentence):
        term, particle = match[1], match[2]
        if term in _words("japanese_stop_terms") or len(term) > _MAX_JAPANESE_VALUE_CHARS or term.isdecimal():
            continue
        slot = "when" if _pattern("time").search(term) else _slot_of_term(term, particle, moving)
        if particle == "と" and not slot:
            listed.append(term)  # `AとBは`: A gets the slot of B
            continue
        if slot:
            yield from ((slot, value) for value in (*listed, term))
        listed = []


def _slot_of_term(term: str, particle: str, moving: bool) -> str:
    """Return the slot of a term, or empty if no rule applies.

    The term is not a time.
    """
    if slot := _JA_SLOTS.get(particle):
        return slot
    place = bool(_pattern("place").search(term))
    if particle in ("で", "では", "でも"):
        return "where" if place else "how" if particle == "で" else ""
    if particle in ("に", "には", "にも", "へ", "へは", "から", "まで") and (place or moving):
        return "where"
    return ""


def find_chinese_slots(text: str) -> Iterator[tuple[str, str]]:
    """Yield slots and values, clause by clause.

    Values are words of the text.

    >>> slots = find_chinese_slots("1949年後，因為戰爭，國民政府遷往臺灣。王先生通過考試進入大學。")
    >>> "; ".join(map(": ".join, slots))
    'when: 1949年後; why: 戰爭; how: 考試; who: 王先生; predicate: 進入; what: 大學'
    """
    for clause in _ZH_CLAUSE.finditer(text):
        phrase = clause[0].strip()
        yield from (("when", time[0]) for time in _ZH_TIME.finditer(phrase))
        rest = _ZH_TIME_PHRASE.sub("", phrase)
        for slot, pattern in _chinese_phrases():
            for match in pattern.finditer(f"{rest}。"):
                if not _ZH_TIME.fullmatch(match[1]):
                    yield slot, match[1]
            rest = pattern.sub("", f"{rest}。").rstrip("。")
        yield from _chinese_clause_slots(rest)


def _chinese_clause_slots(clause: str) -> Iterator[tuple[str, str]]:
    """Yield a verb, its subject and its object."""
    verb = _chinese_verb().search(clause)
    if not verb:
        return
    who = _trim_piece(clause[: verb.start()])
    what = _trim_piece(clause[verb.end() :])
    if who and len(who) <= _MAX_CHINESE_VALUE_CHARS and who not in _words("chinese_pronouns"):
        yield "who", who
    if verb[0] not in "是有":
        yield "predicate", verb[0]
    if what and len(what) <= _MAX_CHINESE_VALUE_CHARS and what not in _words("chinese_pronouns"):
        yield "what", what


def _trim_piece(piece: str) -> str:
    return _ZH_EDGE_WORDS.sub("", piece.strip("「」『』（）()《》 、")).strip("「」『』（）()《》 、")


@cache
def _chinese_verb() -> re.Pattern[str]:
    return re.compile("|".join(sorted(_words("chinese_verbs"), key=lambda verb: (-len(verb), verb))))


@cache
def _chinese_phrases() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the patterns of phrases with their slots."""
    verb = _chinese_verb().pattern
    patterns = {
        "why": rf"(?:因為|因为|由於|由于)({_ZH_RUN}{{2,20}}?)(?=[，,。；]|而|所以)",
        "how": rf"(?:透過|通過|通过|利用|使用|藉由|借助|憑藉|凭借)({_ZH_RUN}{{2,14}}?)(?=[，,。；]|來|来|{verb})",
        "where": rf"[在於于至到](?!年)({_ZH_RUN}{{2,12}}?)[{_ZH_PLACE_ENDS}]?(?=[，,。；、的]|{verb})",
    }
    return tuple((slot, re.compile(pattern)) for slot, pattern in patterns.items())
