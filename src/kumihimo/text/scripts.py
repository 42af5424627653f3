"""text -> the kind of each character by its Unicode properties: letter, mark, script without spaces, or none."""

import re
from unicodedata import category, name, normalize

# Kinds of letters of scripts that have no spaces between words, or whose words carry particles (Hangul).
_UNSPACED = {
    "HIRAGANA": "h",
    "KATAKANA": "k",
    "CJK": "c",
    "IDEOGRAPHIC": "c",
    "HANGUL": "g",
    **dict.fromkeys(["THAI", "LAO", "KHMER", "MYANMAR", "JAVANESE", "BALINESE", "TAI", "NEW"], "t"),  # NEW TAI LUE
}
_LONG_MARKS = "ー・゠"  # within a word in katakana
_INNER_MARKS = "՛՜՞׳״"  # punctuation within a word: Armenian, Hebrew
_SIGNS = {"_": "_", "-": "-", "‐": "-", ".": ".", "+": "+", "#": "#"}
# Within a word, but no part of its spelling: hyphens and joiners that nobody sees, marks of direction, variants.
_INVISIBLE = (
    f"[\u00ad\u0640\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20dd-\u20e4\ufe00-\ufe0f\ufeff"
    f"\U000e0100-\U000e01ef{_INNER_MARKS}]"
)
KANA, IDEOGRAPHS = re.compile("[\u3041-\u3096\u30a1-\u30fa]"), re.compile("[々〆\u3400-\u9fff]")
_CJK_CHAR = "[々〆\u3400-\u9fff\u30a1-\u30fa\u30fc]"  # compiled at the first use
_NEEDS_FOLDING = re.compile("[^\0-\xac\xae-\u02ff\u2010-\u2029\u202f-\u205f\u3000-\u30ff\u3400-\u9fff]")


class _Kinds(dict[int, str]):
    """The kinds of the characters that were met so far."""

    def __missing__(self, code: int) -> str:
        return self.setdefault(code, _find_kind(chr(code)))


def _find_kind(char: str) -> str:
    if char in _SIGNS:
        return _SIGNS[char]
    if category(char) in ("Mn", "Mc", "Me", "Cf") or char in _INNER_MARKS:
        return "m"
    if char in _LONG_MARKS:
        return "l"
    if not char.isalnum():
        return " "
    return _UNSPACED.get(name(char, "").partition(" ")[0], "d" if char.isdecimal() else "w")


_CHARACTER_KINDS = _Kinds()


def char_kinds(text: str) -> str:
    """Return one letter for each character of a text.

    w, d: a letter or digit of a script with spaces. h, k, c, g, t: one of a script without (hiragana, katakana,
    ideograph, Hangul, Thai and its neighbours). l: a mark within katakana. m: a vowel sign or another mark within a
    word. The signs _ - . + # stand for themselves; a space stands for all others.

    >>> char_kinds("C++ है、タワーの門")
    'w++ wm kklhc'
    """
    return text.translate(_CHARACTER_KINDS)


def fold_text(text: str) -> str:
    """Return the text in Unicode's form NFKC, without invisible characters.

    >>> fold_text("ＳＥＡ break\\u00adwater")
    'SEA breakwater'
    """
    if text.isascii():
        return text
    plain = normalize("NFKC", text)
    return re.sub(_INVISIBLE, "", plain) if _NEEDS_FOLDING.search(plain) else plain


def find_words(text: str) -> list[str]:
    """Return the runs of letters, digits and their marks.

    >>> find_words("It's हिन्दी。")
    ['It', 's', 'हिन्दी']
    """
    return [text[run.start() : run.end()] for run in re.finditer("[a-z]+", char_kinds(text))]


def is_chinese(text: str) -> bool:
    """Return whether a text has next to no kana among its ideographs."""
    kana, han = len(KANA.findall(text)), len(IDEOGRAPHS.findall(text))
    return kana * 20 < kana + han


def has_cjk(text: str) -> bool:
    """Return whether a text holds ideographs or katakana."""
    return not text.isascii() and bool(re.search(_CJK_CHAR, text))
