"""a sentence -> names in Japanese and Chinese, by parts of speech: proper nouns and the compounds that they are in.

Each word becomes one letter, and a pattern of letters finds the names.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence, Set
from operator import attrgetter

from kumihimo.index.rules.ner_cjk import CHINESE_FUNCTION_CHARS, find_bracketed_names
from kumihimo.index.rules.ner_words import WORDS, NameSpan, alternatives
from kumihimo.text.parts_of_speech import TaggedWord, can_tag_chinese, can_tag_japanese, tag_chinese, tag_japanese

_PROPER, _PERSON, _PLACE = "名詞-固有名詞", "名詞-固有名詞-人名", "名詞-固有名詞-地名"
_NOUN = ("名詞-普通名詞", "接尾辞-名詞的-一般", "接尾辞-名詞的-サ変可能")
_CLAUSE = ("動詞", "助動詞", "形容詞", "助詞-終助詞", "助詞-係助詞")
_JOINTS, _SPACES = frozenset("・＝=·‧•"), frozenset(" \u3000")
_KATAKANA = re.compile("[\u30a1-\u30fa\u30fc]+")
_WORD_OF_SCRIPT = re.compile("[\u30a1-\u30fa\u30fc]{2,}|[々\u3400-\u9fff]{2,}")
_IDEOGRAPH, _HIRAGANA = re.compile("[々\u3400-\u9fff]"), re.compile("[\u3041-\u309fー]+")
_NUMERAL = re.compile("[一二三四五六七八九十百千]")
_JOINED = re.compile("[・·‧•]")
_NAMED_FORM = re.compile(r"(?<![\u30a1-\u30fa\u30fc])[\u30a1-\u30fa\u30fc]{3,}+(?:[語人教族派家号島]|主義|事件|戦争)")
_LATIN = re.compile("[A-Za-zＡ-Ｚａ-ｚ]+")
_NAMED_KIND = re.compile("[\u30a1-\u30fa\u30fc]{2,}(?:語|人|教|主義)")  # for the dictionary a common noun
_ERA = "明治|大正|昭和|平成|令和|戦前|戦後"
_TIME = re.compile(f"(?:{_ERA})(?:時代|期|年間)?|.*[年月日曜]|[〇一二三四五六七八九十百千万]+")

# p person, h title after a person, f proper or unknown katakana, c other proper noun or unknown word, i other katakana,
# a Latin letters, x prefix, m adjectival noun, v noun of action, n other noun, K kind of named things, k kind after a
# proper noun only, j joint, s space, q d t: 第, a number, its counter
_JAPANESE_NAME = re.compile(
    "p(?:s?p)*(?:[nv]{0,2}K|n?k)*"
    "|[fi]{1,3}(?:j[fia]{1,3})+(?:[nvi]{0,2}K|n?k)*"
    "|(?:qd+t?)?[xm]?(?:c(?!d+t)|f)(?:[cfia]{0,2}[cf]|[canimvf]{0,3}K|n?i?k)*"
    "|a(?:[nvi]{0,2}K|[ni]{0,2}k)"
    "|(?:qd+t?)?[nimv]{0,2}[nim]K"
    "|(?:qd+t?)?[nimvaKk]{2,4}[niaKk]"  # three nouns are a term: it links passages
)
# p person, f foreign name, c other proper noun, C the same of one character, l a character of foreign names, n other
# noun; K, k, j as above
_CHINESE_NAME = re.compile(
    "(?:[flpC]{1,3}|n|c)(?:j(?:[flpC]{1,3}|n|c))+(?:n?K|k)*|(?:[lC]{0,30}f[flC]*|[lC]{2,4}(?=[kK])|c)(?:n{0,2}K|k)*|pK*|n{2}K"
)
_CHINESE_NUMBER = re.compile("第?[〇零一二三四五六七八九十百千万亿]+(?:世纪|年|月|日|代|届|次|个|$)")
_CHINESE_CORES = {"nr": "p", "nrfg": "p", "nrt": "f", "ns": "c", "nt": "c", "nz": "c"}
_CHINESE_NOUNS = frozenset(("n", "vn", "an", "ng", "b", "j", "s", *_CHINESE_CORES))
_FUNCTION_TAGS = ("p", "c", "d", "f", "m", "q", "r", "u", "y")
_FOREIGN = re.compile(f"[{''.join(sorted(WORDS['chinese_sounds']))}]+")

Kinds = tuple[re.Pattern[str], re.Pattern[str], frozenset[str]]


def _load_kinds(language: str) -> Kinds:
    """Return the ends of words that name a kind.

    They are organisations, other kinds, and kinds after a proper noun only.
    """
    organisation, other = (alternatives(f"{language}_{name}") for name in ("organisations", "kinds"))
    return re.compile(rf"(?:{organisation})$"), re.compile(rf"(?:{other})$"), WORDS[f"{language}_proper_kinds"]


_JAPANESE_KINDS, _CHINESE_KINDS = _load_kinds("japanese"), _load_kinds("chinese")


def find_tagged_japanese(text: str) -> Iterator[NameSpan]:
    """Yield the names of a Japanese sentence, by parts of speech."""
    words = list(tag_japanese(text))
    letters = "".join(map(_japanese_letter, words))
    for span in find_bracketed_names(text):
        inner = slice(*(bisect_left(words, edge, key=attrgetter("start")) for edge in (span.start, span.end)))
        if span.type or _may_be_title(words[inner], set(letters[inner])):
            yield span
    for match in _JAPANESE_NAME.finditer(letters):
        name_words = words[match.start() : match.end()]
        start, end = name_words[0].start, name_words[-1].end
        if text[start - 1 : start] in ("ヶ", "ケ") and start > 1:
            start -= 2  # `霧ヶ浜`, whose first part the dictionary does not know
        kind = _japanese_type(name_words, match[0]) if _ends_here(words, match.end()) else ""
        if letters[match.end() : match.end() + 1] == "h" and set(match[0]) <= set("pfjias") and kind != "place":
            titled = words[match.end()].end
            yield NameSpan(start, titled, text[start:titled], "person", text[start:end])
        elif end - start > 1:
            yield NameSpan(start, end, text[start:end], kind)


def _ends_here(words: Sequence[TaggedWord], position: int) -> bool:
    """Return whether a name before this position is whole."""
    following = words[position].form if position < len(words) else ""
    return not _IDEOGRAPH.match(following) or (len(following) > 1 and words[position].known)


def _may_be_title(words: Sequence[TaggedWord], letters: Set[str]) -> bool:
    """Return whether words in brackets are a name.

    They hold a proper noun, end in a noun, and are no clause.
    """
    is_clause = any(word.tag.startswith(_CLAUSE) for word in words)
    return not letters.isdisjoint("pcf") and words[-1].tag.startswith("名詞") and not is_clause


def _japanese_letter(word: TaggedWord) -> str:
    form, tag = word.form, word.tag
    if form in _JOINTS:
        return "j"
    if form in WORDS["japanese_person_titles"]:
        return "h"
    if form in _SPACES:
        return "s"
    if tag.startswith(("接頭辞", "名詞-数詞")):
        return "q" if form == "第" else "d" if tag.startswith("名詞") else "x" if form in "旧新元大小東西南北" else "."
    if tag.endswith(("助数詞", "助数詞可能")) and not _kind_letter(form, _JAPANESE_KINDS):
        return "t"
    return _japanese_noun_letter(form, tag, word.known)


def _japanese_noun_letter(form: str, tag: str, known: bool) -> str:
    is_proper, is_katakana = tag.startswith(_PROPER), bool(_KATAKANA.fullmatch(form))
    is_noun = tag.startswith(_NOUN) and not tag.endswith("副詞可能") and form not in WORDS["japanese_loose_nouns"]
    if not (is_proper or is_noun) or _TIME.fullmatch(form):
        return "."
    if is_proper or _NAMED_KIND.fullmatch(form) or (not known and _WORD_OF_SCRIPT.fullmatch(form)):
        return "f" if _KATAKANA.match(form) else "p" if tag.startswith(_PERSON) else "c"
    if letter := _kind_letter(form, _JAPANESE_KINDS):
        return letter
    if is_katakana or _LATIN.fullmatch(form):
        return "i" if is_katakana else "a"
    return {"形状詞可能": "m", "サ変可能": "v"}.get(tag.rpartition("-")[2], "n")


def _kind_letter(form: str, kinds: Kinds) -> str:
    """Return the letter of a kind of thing: `K`, `k` or none."""
    if kinds[0].search(form) or kinds[1].search(form):
        return "K"
    return "k" if form in kinds[2] or (len(form) > 2 and form[-1] in kinds[2]) else ""


def _japanese_type(words: Sequence[TaggedWord], letters: str) -> str:
    last = words[-1]
    if _JAPANESE_KINDS[0].search(last.form):
        return "organization"
    is_misread = bool(_HIRAGANA.fullmatch(last.form)) or (len(words) == 1 and bool(_NUMERAL.match(last.form)))
    is_place = last.tag.startswith(_PLACE) and not is_misread
    if is_place or (letters[-1] == "k" and last.form in WORDS["place_kinds"]):
        return "place"
    is_full_name = "j" in letters or _JOINED.search(last.form) or (len(words) > 1 and words[0].tag.endswith("姓"))
    return "person" if is_full_name and letters[-1] in "pf" and last.tag.startswith(_PERSON) else ""


def is_proper_japanese(name: str, mentions: int) -> bool:
    """Return whether a dictionary or a type word shows a proper noun.

    >>> is_proper_japanese("ジョン・マン", 1), is_proper_japanese("平均水準", 9)
    (True, False)
    """
    words = list(tag_japanese(name)) if can_tag_japanese() else []
    letters = "".join(map(_japanese_letter, words))
    if _HIRAGANA.fullmatch(name):
        return False
    is_known = any(word.known and word.tag.startswith(_PROPER) for word in words)
    return _is_proper(
        name, letters, is_known or bool(_NAMED_FORM.search(name)), 3 if set(letters) == {"p"} else 2, mentions
    )


def _is_proper(name: str, letters: str, is_known: bool, least: int, mentions: int) -> bool:
    """Return whether a known name has a type word or enough mentions.

    A name that is joined by a dot needs no more.
    """
    has_kind = len(letters) > 1 and letters[-1] in "kK"
    return bool(_JOINED.search(name)) or (is_known and (has_kind or mentions >= least))


def joins_common_nouns(name: str, katakana: Set[str]) -> bool:
    """Return whether a dot joins common nouns, of which one stands alone.

    katakana: words of the texts.

    >>> joins_common_nouns("アンテナ・リスト", {"リスト"}), joins_common_nouns("ジョン・マン", {"マン"})
    (True, False)
    """
    if not _JOINED.search(name) or katakana.isdisjoint(_JOINED.split(name)) or not can_tag_japanese():
        return False
    return all(word.known and not word.tag.startswith(_PROPER) for word in tag_japanese(name))


def find_tagged_chinese(text: str, title: str = "") -> Iterator[NameSpan]:
    """Yield the names of a Chinese sentence, by parts of speech.

    The document's title is a name wherever it stands.
    """
    yield from find_bracketed_names(text)
    for match in re.finditer(re.escape(title), text) if title else ():
        yield NameSpan(match.start(), match.end(), title)
    words = list(tag_chinese(text))
    letters = "".join(map(_chinese_letter, words))
    for match in _CHINESE_NAME.finditer(letters):
        start, end, last = words[match.start()].start, words[match.end() - 1].end, words[match.end() - 1]
        if end - start > 1:
            yield NameSpan(start, end, text[start:end], _chinese_type(last, match[0]))


def _chinese_letter(word: TaggedWord) -> str:
    form, tag = word.form, word.tag
    if form in _JOINTS:
        return "j"
    if form in WORDS["chinese_loose_nouns"] or _CHINESE_NUMBER.match(form):
        return "."
    may_be_kind = len(form) == 1 or tag in _CHINESE_NOUNS - (_CHINESE_CORES.keys() if len(form) > 2 else set())
    if may_be_kind and (letter := _kind_letter(form, _CHINESE_KINDS)):
        return letter
    if form.startswith("之"):  # `之日起` is a place for Jieba
        return "."
    if tag in _CHINESE_CORES or (not word.known and 2 <= len(form) <= 4):
        return _chinese_core_letter(form, tag)
    if tag == "t":
        return "c" if len(form) > 1 and form[-1] == "朝" else "."
    if len(form) == 1 and _FOREIGN.fullmatch(form) and not tag.startswith(_FUNCTION_TAGS):
        return "l"
    return "n" if tag in _CHINESE_NOUNS else "."


def _chinese_core_letter(form: str, tag: str) -> str:
    if form in WORDS["chinese_misread_nouns"]:
        return "n"
    if tag == "nrt" or (len(form) > 1 and _FOREIGN.fullmatch(form)):
        return "f"
    if len(form) == 1 and _FOREIGN.fullmatch(form):
        return "l"
    if tag in ("nr", "nrfg") or tag not in _CHINESE_CORES:
        is_person = form[0] in WORDS["chinese_surnames"] and 1 < len(form) < 5
        is_guess = tag not in _CHINESE_CORES and (len(form) != 3 or not CHINESE_FUNCTION_CHARS.isdisjoint(form))
        return "p" if is_person and not is_guess else "n"
    return "C" if len(form) == 1 else "c"


def _chinese_type(last: TaggedWord, letters: str) -> str:
    if _CHINESE_KINDS[0].search(last.form) or last.tag == "nt":
        return "organization"
    if letters == "p" and len(last.form) > 2:  # most shorter ones are other words
        return "person"
    return "place" if last.tag == "ns" or (letters[-1] == "k" and last.form in WORDS["place_kinds"]) else ""


def is_proper_chinese(name: str, mentions: int) -> bool:
    """Return whether a dictionary or a type word shows a proper noun."""
    words = list(tag_chinese(name)) if can_tag_chinese() else []
    cores = [word for word in words if word.known and word.tag in _CHINESE_CORES and len(word.form) > 1]
    is_known = any(word.tag != "nr" or len(word.form) > 2 for word in cores)
    return _is_proper(name, "".join(map(_chinese_letter, words)), is_known, 2, mentions)
