"""text -> tokens: words folded and lightly stemmed; unspaced scripts (Japanese, Chinese) in pairs of characters."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from unicodedata import combining, normalize

# Scripts written without spaces: kana, CJK ideographs and their marks, Hangul (whose words carry particles), Thai.
_UNSPACED = (
    "々〆ー\u3040-\u309f\u30a0-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\u0e00-\u0e7f"
    "\U00020000-\U0003134f"
)
# Within a word: accents and vowel signs, which are no letters, soft hyphens, joiners.
_COMBINING_MARKS = (
    "\u00ad\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963\u0966-\u0dff"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d\u20d0-\u20ff"
)
_KANJI = "々〆\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_STOPWORDS = frozenset(
    """a an and are as at be been but by did do does for from had has have he her his how i if in into is it its me my
    no not of on or our she so than that the their them then there these they this to was we were what when where
    which who whom whose why will with you your 何 誰 什么 甚麼 哪里 哪裡 谁 誰是 怎么 怎麼 的 是 在 了 吗 嗎""".split()  # noqa: SIM905
)

_ASCII_WORD = re.compile("[a-z0-9]+")
_NON_LATIN = re.compile("[^\0-\xac\xae-\u02ff\u2010-\u205f]")  # finds what is no Latin letter or mark of punctuation
_LATIN_WORD = re.compile(r"[^\W_]+")  # what `_runs` finds of Latin letters, sooner
_ENDINGS = r"['’](?<=\w['’])(?:s|t|d|m|ll|re|ve)\b"  # of the gate's, who's, they've; compiled on first use
_ASKING_STEMS = frozenset({"about", "describ", "explain", "giv", "know", "show", "tell"})  # roots of how one asks


@cache  # sets of so many characters take a while to compile: only who reads or searches a text waits for it
def _run_pattern() -> re.Pattern[str]:
    return re.compile(rf"([{_UNSPACED}]+)|((?:(?![{_UNSPACED}])[^\W_][{_COMBINING_MARKS}]*)+)")


@cache
def _subject_pattern() -> re.Pattern[str]:
    return re.compile(
        f"([\u30a1-\u30fa\u31f0-\u31ff][\u30a1-\u30ffー]*)|([{_KANJI}]+)|([\uac00-\ud7af\u0e00-\u0e7f]+)"
        f"|((?:(?![{_UNSPACED}])[^\\W_][{_COMBINING_MARKS}]*)+)"
    )


def tokenize(text: str) -> list[str]:
    """The words of a text as they are indexed: folded, lightly stemmed; unspaced scripts in pairs.

    >>> tokens("The ferries' Café, 2 boats")
    ['the', 'ferry', 'cafe', '2', 'boat']
    >>> tokens("組紐の工房 A棟")
    ['組紐', '紐の', 'の工', '工房', 'a', '棟']
    """
    plain = normalize("NFKC", text).casefold()
    if words := _word_pattern(plain):
        return list(map(_stem, words.findall(plain)))
    found: list[str] = []
    for run in _run_pattern().finditer(plain):
        if unspaced := run[1]:
            found += [unspaced[i : i + 2] for i in range(max(1, len(unspaced) - 1))]
        else:
            found.append(_stem(run[2]))
    return found


def find_tokens(text: str, asked: frozenset[str]) -> frozenset[str]:
    """Those of these tokens that a text has, quicker than `tokens` where it is long.

    >>> sorted(among("The ferries leave, the ferry waits", frozenset({"ferry", "leave", "boat"})))
    ['ferry', 'leave']
    """
    plain = normalize("NFKC", text).casefold()
    if words := _word_pattern(plain):
        return asked.intersection(map(_stem, set(words.findall(plain))))
    pairs = {token for token in asked if len(token) == 2 and _is_unspaced(token)}
    said = {token for token in pairs if token in plain}  # two such letters side by side are always in one run
    rest = {token for token in asked - pairs if token in plain or not (token.isdigit() or _is_unspaced(token))}
    return frozenset(said | rest.intersection(tokenize(plain) if rest else ()))


@lru_cache(maxsize=65536)
def _is_unspaced(token: str) -> bool:
    return re.fullmatch(f"[{_UNSPACED}]+", token) is not None


def _word_pattern(plain: str) -> re.Pattern[str] | None:
    """What finds the words of a text in Latin letters; None for one that has others too."""
    return _ASCII_WORD if plain.isascii() else None if _NON_LATIN.search(plain) else _LATIN_WORD


def content_tokens(text: str) -> list[str]:
    """The tokens that say what a text is about, each once; all of them where there are only common words.

    >>> content("Who mended the breakwater, and who paid?")
    ['mend', 'breakwater', 'paid']
    """
    found = list(dict.fromkeys(tokenize(text)))
    return [token for token in found if token not in _STOPWORDS] or found


def subject_terms(text: str) -> list[str]:
    """What a text speaks of, each once: its content words; words of katakana whole, kanji in pairs.

    Hiragana mostly says how, not what, so that pairs of it would make any two sentences alike.

    >>> subjects("東京タワーの高さは何メートルですか")
    ['東京', 'タワー', '高', 'メートル']
    >>> subjects("Who leaves the gate?") == subjects("Leave the gates"), subjects("The gate's keeper")
    (True, ['gat', 'keeper'])
    """
    plain = normalize("NFKC", text).casefold()
    return _find_subjects(re.sub(_ENDINGS, "", plain)) or _find_subjects(plain)  # `It'll Be Me` is a name


def _find_subjects(plain: str) -> list[str]:
    found: list[str] = []
    for run in _subject_pattern().finditer(plain):
        if kanji := run[2]:
            found += [kanji[i : i + 2] for i in range(max(1, len(kanji) - 1))]
        else:
            found.append(run[1] or run[3] or _root(run[4]))
    return [word for word in dict.fromkeys(found) if word not in _STOPWORDS and word not in _ASKING_STEMS]


def _root(word: str) -> str:
    """What `leave` and `leaves` have in common. For the index a lighter hand finds more (measured)."""
    stem = _stem(word)
    return stem[:-1] if stem.endswith("e") and len(stem) > 3 else stem


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    if not word.isascii():
        word = "".join(c for c in normalize("NFKD", word) if not combining(c) and c not in "\u00ad\u200c\u200d")
    for suffix, instead in (("ies", "y"), ("ing", ""), ("edly", ""), ("ed", ""), ("es", ""), ("s", "")):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and word.isascii() and not word.endswith("ss"):
            return word[: -len(suffix)] + instead
    return word
