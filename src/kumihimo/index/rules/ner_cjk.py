"""a sentence in Japanese or Chinese -> its names, and abbreviations that it spells out.

Names are katakana and kanji runs, bracketed names and pieces of clauses. Abbreviations: 欧州中央銀行（ECB）.
"""

import re
from collections.abc import Iterator

from kumihimo.index.rules.name_forms import NAME_WORDS
from kumihimo.index.rules.ner_words import QUANTITY, WORDS, NameSpan, alternatives
from kumihimo.text import scripts

MAX_COMPOUND_CHARS = 10  # a longer compound of several scripts is split by script

_HAN, _KATA = "々〆\u3400-\u9fff", "\u30a1-\u30fa\u30fc"
_KATAKANA_RUN = rf"[{_KATA}]+(?:[・＝=][{_KATA}]+)*"
_COMPOUND = re.compile(rf"(?:[{_HAN}]+|{_KATAKANA_RUN}|(?<![A-Za-z0-9])[A-Z][A-Za-z]*(?=[{_HAN}{_KATA}]))+")
_PIECE = re.compile(rf"[{_HAN}]+|{_KATAKANA_RUN}")
_BRACKETED = re.compile(
    "「([^「」。！？、\n]{2,20})」|『([^『』。！？\n]{2,20})』|【([^【】\n]{2,20})】|《([^《》\n]{1,20})》|〈([^〈〉\n]{2,20})〉"
)
_WORKS = (2, 4)  # groups of the pattern above for titles of works
_SPEECH = re.compile(
    "[\u3041-\u3096、]{1,4}$|.*(?:です|ます|ました|ません|ない|たい|[だよねかろぞ])$|[^、\n]*、.*(?:から|[ぁ-ん]て)$"
)
_HIRAGANA = re.compile("[\u3041-\u309fー]+")
_DIGITS = "0-9０-９一二三四五六七八九十百千万億兆〇零数"
_COUNTERS = "年月日時分秒回人個本枚台代度号番目位歳才名件倍階次世紀期章節条項巻話点隻匹頭冊校社部種週間萬万億亿多餘余"
_COUNT = re.compile(rf"第?[{_DIGITS}]+[{_COUNTERS}]*(?:後|前|頃|中|末|半|以上|以下|現在)?")
_COUNTED = re.compile(rf"[{_COUNTERS}]+")
_UNITS = (
    "キロメートル|センチメートル|ミリメートル|平方キロメートル|平方メートル|キログラム|メートル|センチ|ミリ|キロ|グラム|トン|リットル"
    "|ヘクタール|マイル|フィート|インチ|ポンド|ドル|ユーロ|パーセント|ワット|ボルト|ヘルツ|バイト|円|元|圓|港元|美元|日元|億元|公里|公尺|公分"
    "|公斤|公噸|公頃|公克|平方公里|平方公尺|平方千米|千米|厘米|毫米|米|英里|英尺|海里|坪|km²|km2|km|cm|mm|kg|㎞|㎢|㎡|㎝|%|％"
)
_AMOUNT = re.compile(
    rf"(?<![\d.,第])(?:[\d０-９]{{1,12}}(?:[.,，．][\d０-９]{{1,6}}){{0,4}}|[一二三四五六七八九十百千]{{1,8}})"
    rf"[十百千万萬億亿兆]{{0,3}}(?:{_UNITS})(?![{_KATA}])"
)
_PERSON_SUFFIX = re.compile("さん|ちゃん|くん|様|殿|氏")
_HONORIFIC_SUFFIX = re.compile("(.{2,})(?:先生|博士|教授|君|氏|様|殿)$")
_NO_PERSON = re.compile("(?:模|多|同|仕|一|異|人間模|源|平|諸|主|暴)(?:様|氏|君)$")
_VERB = re.compile("(?:する|し[たて、なよま]|され|させ|せ[ずよ]|でき|な(?![どらがかりくい]))")
_INFLECTED = re.compile(
    "(?!くらい|ぐらい|うち|すべて|いずれ|いわゆる|つまり|わけ)[けげせべめれえうくぐつぬぶむるきぎちびみりっわいす]"
)
_CLAUSE = re.compile(rf"[{_HAN}{_KATA}A-Za-z·‧・•]+")
CHINESE_FUNCTION_CHARS = frozenset("的了是在和與与及於于為为有被由以而之其這这那就也都不並并從从到對对將将把讓让給给使")
_CLAUSE_CUT = re.compile(
    f"{alternatives('chinese_uncut')}|({alternatives('chinese_cuts')}|[{''.join(sorted(CHINESE_FUNCTION_CHARS))}])"
)


def is_inside_word(text: str, start: int, end: int) -> bool:
    """Return whether `[start, end)` is only a part of a word.

    Then letters or digits of the same script stand next to it.
    """
    return _same_word(text[start - 1 : start], text[start]) or _same_word(text[end - 1], text[end : end + 1])


def _same_word(previous: str, following: str) -> bool:
    return previous.isalnum() and following.isalnum() and _script_of(previous) == _script_of(following)


def _script_of(char: str) -> str:
    if scripts.IDEOGRAPHS.match(char):
        return "han"
    return "kana" if "\u3040" <= char < "\u3100" else "other"


def find_japanese_names(text: str) -> Iterator[NameSpan]:
    """Yield the names of a Japanese sentence.

    >>> sentence = "田中さんは東京タワーに、梅雨明けの今日、ジョン・マンと行った。"
    >>> [span.name for span in find_japanese_names(sentence)]
    ['田中さん', '東京タワー', '梅雨', 'ジョン・マン']
    """
    yield from find_bracketed_names(text)
    yield from find_cjk_amounts(text)
    for match in _COMPOUND.finditer(text):
        if match.end() - match.start() <= MAX_COMPOUND_CHARS:
            yield from _compound_names(text, match.start(), match.end())
        else:
            for piece in _PIECE.finditer(text, match.start(), match.end()):
                yield from _compound_names(text, piece.start(), piece.end())


def find_bracketed_names(text: str) -> Iterator[NameSpan]:
    """Yield names in brackets.

    Readings such as `行《ゆ》く` and speech such as `「行くよ」` are left out.
    """
    for match in _BRACKETED.finditer(text):
        group = match.lastindex or 0
        name = match[group]
        if (group == 4 and _HIRAGANA.fullmatch(name)) or (group < 3 and _SPEECH.match(name)):
            continue
        yield NameSpan(match.start(group), match.end(group), name, "work" if group in _WORKS else "")


def find_cjk_amounts(text: str) -> Iterator[NameSpan]:
    """Yield numbers with their units.

    >>> [span.name for span in find_cjk_amounts("三センチの木と20万円、3.5km、五月天")]
    ['三センチ', '20万円', '3.5km']
    """
    for match in _AMOUNT.finditer(text):
        yield NameSpan(match.start(), match.end(), match[0], QUANTITY)


def _skip_counter(text: str, start: int, end: int) -> int:
    """Return the start after the counter of a number: `3回`."""
    counted = _COUNTED.match(text, start, end) if start and text[start - 1].isdecimal() else None
    return counted.end() if counted else start


def _compound_names(text: str, start: int, end: int) -> Iterator[NameSpan]:
    start = _skip_counter(text, start, end)
    lead = _PIECE.match(text, start, end)
    if lead and lead.end() < end and (lead[0] in WORDS["common_japanese"] or lead[0] in "時後前中約各"):
        start = lead.end()  # `後年マーラー`
    name = text[start:end]
    if len(name) < 2 or name in WORDS["common_japanese"] or _COUNT.fullmatch(name):
        return
    person = _PERSON_SUFFIX.match(text, end)
    if person:
        yield NameSpan(start, person.end(), text[start : person.end()], "person", name)
        return
    honour = _HONORIFIC_SUFFIX.match(name)
    if honour and not _NO_PERSON.search(name):
        yield NameSpan(start, end, name, "person", honour[1])
        return
    if _VERB.match(text, end) and len(name) < 4 and not scripts.KANA.search(name):
        return
    if _INFLECTED.match(text, end) and scripts.IDEOGRAPHS.match(name[-1]):
        name = name[:-1]  # `梅雨明け`
    yield from _trim_affixes(start, name)


def _trim_affixes(start: int, name: str) -> Iterator[NameSpan]:
    """Yield a name without affixes of time or kind.

    Examples: `戦争後`, `一般的`.
    """
    while len(name) > 2 and (name[-1] in "後頃的" or (name[-1] == "等" and len(name) > 3)):
        name = name[:-1]
    if len(name) > 2 and name[0] in "各約":
        start, name = start + 1, name[1:]
    if len(name) > 1 and name not in WORDS["common_japanese"] and name[-1] != "的":
        yield NameSpan(start, start + len(name), name)


def find_chinese_names(text: str, title: str = "") -> Iterator[NameSpan]:
    """Yield the names of a Chinese sentence.

    A name is a piece of two to eight characters between function words.

    >>> [span.name for span in find_chinese_names("在歐洲，梵語的學術研究由威廉·瓊斯開創。")]
    ['歐洲', '梵語', '學術研究', '威廉·瓊斯']
    """
    yield from find_bracketed_names(text)
    yield from find_cjk_amounts(text)
    for clause in _CLAUSE.finditer(text):
        start = clause.start()
        for cut in _CLAUSE_CUT.finditer(text, clause.start(), clause.end()):
            if cut[1]:
                yield from _clause_names(text, start, cut.start(), title)
                start = cut.end()
        yield from _clause_names(text, start, clause.end(), title)


def _clause_names(text: str, start: int, end: int, title: str) -> Iterator[NameSpan]:
    """Yield the names between two function words.

    The document's title is a name of its own there.
    """
    title_start = text.find(title, start, end) if title else -1
    if title_start < 0:
        yield from _piece_name(text, start, end)
        return
    yield from _piece_name(text, start, title_start)
    yield NameSpan(title_start, title_start + len(title), title)
    yield from _piece_name(text, title_start + len(title), end)


def _piece_name(text: str, start: int, end: int) -> Iterator[NameSpan]:
    start = _skip_counter(text, start, end)
    name = text[start:end].strip("·‧・•")
    if len(name) > 2 and name[-1] in "上下中裡里內内等":
        name = name[:-1]
    longest = 12 if "·" in name or "‧" in name or "・" in name else 8
    if not 2 <= len(name) <= longest or name in WORDS["common_chinese"] or _COUNT.fullmatch(name) or name.isascii():
        return
    start = text.index(name, start)
    yield NameSpan(start, start + len(name), name)


_HAN_KANA = "々〆ー・\u30a1-\u30fa\u3400-\u9fff"
_END = "|".join(sorted(NAME_WORDS["cjk_organisation_ends"], key=lambda word: (-len(word), word)))
_NAME = rf"[{_HAN_KANA}]{{2,20}}(?:{_END})"
_LATIN = r"[A-Z][A-Z&]{1,7}"
_BEFORE = re.compile(rf"({_NAME})[」』]?\s?[（(](?:[^（）()]{{0,60}}[、，,;；:： ])?({_LATIN})[）)]")
_AFTER = re.compile(rf"(?<![A-Za-z&])({_LATIN})[（(]({_NAME})[、，,）)]")
_SHORT = re.compile(
    rf"([{_HAN_KANA}]{{3,20}})[」』]?\s?[（(][^（）()]{{0,60}}?(?:略称|略稱|简称|簡稱|以下|以降)(?:は|[、，:：]|\s)?"
    rf"[「『“]?([{_HAN_KANA}A-Za-z&]{{2,12}}?)[」』”]?(?:と(?:略す|いう|する|呼ぶ|表記))?[）)]"
)


def find_cjk_abbreviations(text: str) -> Iterator[tuple[str, str]]:
    """Yield abbreviations with what they stand for.

    >>> text = "欧州中央銀行（ECB）と国際連合（以下「国連」）。WHO（世界保健機関）の田中（NHK）。"
    >>> list(find_cjk_abbreviations(text))
    [('ECB', '欧州中央銀行'), ('WHO', '世界保健機関'), ('国連', '国際連合')]
    """
    if "（" not in text and "(" not in text:
        return
    for match in _BEFORE.finditer(text):
        yield match[2], match[1]
    for match in _AFTER.finditer(text):
        yield match[1], match[2]
    for match in _SHORT.finditer(text):
        if is_short_form(match[2], match[1]):
            yield match[2], match[1]


def is_short_form(short: str, name: str) -> bool:
    """Return whether a name has the letters of an abbreviation, in order.

    >>> is_short_form("国連", "国際連合"), is_short_form("東京", "国際連合")
    (True, False)
    """
    letters = iter(name)
    return short != name and all(letter in letters for letter in short)
