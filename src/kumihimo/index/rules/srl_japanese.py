"""a Japanese passage -> the 5W1H slots and the predicate, by particles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

_HAN, _KATA = "々〆\u3400-\u9fff", "\u30a1-\u30fa\u30fc"
_RUN = rf"[{_HAN}{_KATA}A-Za-z0-9Ａ-Ｚａ-ｚ０-９・＝]"
_MAX_VALUE_CHARS = 24


@cache  # slow to compile, so only on first use
def _term_pattern() -> re.Pattern[str]:
    """Return the pattern of a term and its particle.

    Examples: `踊る人形を`, `物置の扉の上に`.
    """
    led = rf"(?:(?<![ぁ-ん{_HAN}])[{_HAN}]{{1,2}}[いるたな](?=[{_HAN}{_KATA}]))?"
    honour = "(?:さん|ちゃん|くん|たち|ら(?=[はがをにの]))?"
    term = rf"{led}{_RUN}+{honour}(?:の{_RUN}+{honour})*(?:のところ)?"
    particle = (
        r"によって|により|を使って|を用いて|のため(?:に)?|から|まで|より|には|では|とは|にも|でも|へは|は(?!じ|ず)"
        r"|が(?![っる])|も|を|に(?![よく])|へ|で(?!あ|す|し|き|は?な)|と(?!い[うえ]|し|思|言)|[、，,]"
    )
    return re.compile(rf"({term})({particle})")


@cache
def _time_pattern() -> re.Pattern[str]:
    return re.compile(
        rf"(?:(?<![少青老])年|年代|[月日時分秒朝昼夜晩頃週春夏秋冬]|[昨今明翌前後同]日|夕方|世紀|最近|現在|当時|当夜|時間|時刻|直後|直前|以前|以後|その後"
        rf"|[{_HAN}0-9][年日月週]前|[年日月週]間?後)$"
    )


@cache
def _place_pattern() -> re.Pattern[str]:
    return re.compile(
        r"(?:[室家館駅国州市区県町村島山川海港屋所場庭園道街店院校寺社城宅棟床上下中内外隣側奥穴窓扉壁紙]|部屋|廊下|ドア|ベッド|テーブル"
        r"|ホテル|ロンドン|アメリカ|イギリス|ビル|センター|スタジオ|地方|地域|付近|周辺)$"
    )


@cache
def _predicate_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of verbs at the end of a sentence.

    The first matches `ある` after a particle; the second `結婚した`, `受け取った`, `紳士である`.
    """
    verb = rf"(?:[{_HAN}][きぎしじちびみりけげせてねべめれいえ])?{_RUN}+[ぁ-ん]*"
    kana = "(?:あ[るっり]|い[るたなま]|な[るっりい]|でき|し[たてま]|する|され|もら|くれ|わか|つく|かか)[ぁ-ん]*"
    return re.compile(rf"(?<={_RUN}[はがもをにでと]){kana}$"), re.compile(f"{verb}$")


_SENTENCE_CUT = re.compile(r"(?<=[。！？!?\n])|」と")
_PARENTHESIS = re.compile(r"[（(][^（）()]{0,80}[）)]")
_WHY = re.compile(r"([^、。，\nはが]{2,30}?)(?:の?ために|の?ため|(?<!も)ので|せいで|(?<=[るたいだ])から)[、，,。]")
_BEING_VERB = re.compile("い[るた]|あ[るっ]|[住泊残置立座来行着戻帰入向]")
_STOP_TERMS = frozenset(
    [
        "誰",
        "何",
        "以下",
        "それぞれ",
        "今",
        "結果",
        "場合",
        "時",
        "中",
        "一人",
        "本当",
        "実際",
        "一緒",
        "非常",
        "同様",
        "様",
        "特",
    ]
)


def find_japanese_slots(text: str) -> Iterator[tuple[str, str]]:
    """Yield slots and values, sentence by sentence.

    Values are words of the text.

    >>> [value for _, value in find_japanese_slots("翌朝、キュービットとエルシィは雨のために馬車で駅に行った。")]
    ['翌朝', 'キュービット', 'エルシィ', '雨', '馬車', '駅', '行った']
    >>> list(find_japanese_slots("父は病気なので、家にいる。"))
    [('why', '病気な'), ('who', '父'), ('where', '家'), ('predicate', 'いる')]
    """
    for sentence in _SENTENCE_CUT.split(text):
        plain = _PARENTHESIS.sub("", sentence).strip(" \n\u3000。．！？!?」』")
        if plain:
            for why in _WHY.finditer(sentence):
                yield "why", why[1]
            ends = (verb.search(plain, max(len(plain) - 40, 0)) for verb in _predicate_patterns())
            verb = next((match[0] for match in ends if match), "")
            yield from _term_slots(plain, bool(_BEING_VERB.match(verb)))
            if verb and verb[0] not in "誰何":
                yield "predicate", verb


def _term_slots(sentence: str, moving: bool) -> Iterator[tuple[str, str]]:
    """Yield slots and terms by the particles of a sentence.

    moving: whether its verb is one of being or going somewhere.
    """
    listed = list[str]()
    for match in _term_pattern().finditer(sentence):
        term, particle = match[1], match[2]
        if term in _STOP_TERMS or len(term) > _MAX_VALUE_CHARS or term.isdecimal():
            continue
        slot = "when" if _time_pattern().search(term) else _slot_of_term(term, particle, moving)
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
    if particle in ("は", "が", "も", "とは"):
        return "who"
    if particle == "を":
        return "what"
    if particle.startswith("のため"):
        return "why"
    if particle in ("によって", "により", "を使って", "を用いて"):
        return "how"
    place = bool(_place_pattern().search(term))
    if particle in ("で", "では", "でも"):
        return "where" if place else "how" if particle == "で" else ""
    if particle in ("に", "には", "にも", "へ", "へは", "から", "まで") and (place or moving):
        return "where"
    return ""
