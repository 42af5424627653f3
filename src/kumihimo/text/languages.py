"""a text -> its language, by its script, letters and function words; empty if it is not clear."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

_WORDS = Path(__file__).with_name("languages.tsv")
MAX_CHARS = 2_400  # of a text that count
_WINDOW, _STEP = 400, 1_000  # characters: the first clear one of some parts counts
# Of function words in Latin script: measured on texts of 200 characters. A word of n languages scores 1/n.
_MIN_SCORE, _MIN_SHARE, _MIN_OWN, _MIN_LEAD = 1.5, 0.07, 2, 2
_MIN_LETTERS, _MAX_LETTERS = 12, 200  # of another script; of a part, to find its script
_MAIN_SHARE = 0.6  # of the letters, which are of the script of the text
_CJK_WEIGHT = 3  # a character says as much as three letters
_HAS_CODE = re.compile("[`<@/]")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|<[^<>\n]*>|(?<![!-~])[!-~]*[/@][!-~]*", re.S)
_WORD = re.compile(r"\w+")
_KANA, _KANJI = re.compile("[\u3041-\u3096\u30a1-\u30fa]"), re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_CHINESE = re.compile("[的了是在这這们們我你他她和也就]")  # in every text, and rare in Japanese without kana
_MIN_KANA_SHARE, _MIN_CHINESE_SHARE = 0.1, 0.02  # to the kanji
_LATIN, _CJK = "Latn", "CJK"
# A language or script, and its first and last block of 128 characters.
_BLOCKS = (
    "Latn 0 4 Latn 60 61 el 6 7 Cyrl 8 9 hy 10 10 he 11 11 Arab 12 13 Deva 18 18 bn 19 19 pa 20 20 gu 21 21 ta 23 23 "
    "te 24 24 kn 25 25 ml 26 26 si 27 27 th 28 28 lo 29 29 my 32 32 ka 33 33 am 36 38 km 47 47 CJK 96 97 CJK 104 319 "
    "ko 344 431"
)
_SCRIPT_OF_BLOCK = {
    block: name
    for name, first, last in re.findall(r"\b(\w+) (\d+) (\d+)", _BLOCKS)
    for block in range(int(first), int(last) + 1)
}
# Of languages with one script: what stands in a text of the first, else of the second, and so on.
_MARKS = {
    "Cyrl": "kk [әғқңұһ] be ў mk [ѓќѕ] sr [јљњђћџ] uk [іїєґ] ru [ыэё] bg ъ",
    "Arab": "ur [ٹڈڑےں] fa [پچژگیک] ar [ةيىك]",
    "Deva": "mr ळ|आहे ne छ|को hi है|में",
}


def find_language(text: str) -> str:
    """Return the language of a text as ISO 639-1, if clear.

    Its beginning decides, without code and addresses.

    >>> [find_language(text) for text in ("誰が門を描きましたか。この門は古い。", "Кто нарисовал ворота? Это мы.")]
    ['ja', 'ru']
    >>> find_language("Wer hat die Tore gezeichnet, und wo ist der Plan für das Haus an der Mole, das wir suchen?")
    'de'
    >>> find_language("Tide table 2024")
    ''
    """
    windows = (text[start : start + _WINDOW] for start in range(0, min(len(text), MAX_CHARS), _STEP))
    return next(filter(None, map(_window_language, windows)), "")


def _window_language(text: str) -> str:
    sample = (_CODE.sub(" ", text) if _HAS_CODE.search(text) else text).lower()
    words = _WORD.findall(sample)
    if sample.isascii():
        return _latin_language(words)
    counts = Counter[str]()
    for block, count in Counter(ord(letter) >> 7 for letter in "".join(words)[:_MAX_LETTERS]).items():
        script = _SCRIPT_OF_BLOCK.get(block, "")
        counts[script] += count * (_CJK_WEIGHT if script == _CJK else 1)
    script, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
    if count < _MIN_LETTERS or count < _MAIN_SHARE * counts.total():
        return ""
    if script == _LATIN:
        return _latin_language(words)
    if script == _CJK:
        return _cjk_language(sample)
    if script in _MARKS:
        marks = _MARKS[script].split()
        return next((name for name, mark in zip(marks[::2], marks[1::2], strict=True) if re.search(mark, sample)), "")
    return script


def _cjk_language(sample: str) -> str:
    """Return ja or zh; empty for kanji alone, such as names."""
    kana, kanji, chinese = (len(letters.findall(sample)) for letters in (_KANA, _KANJI, _CHINESE))
    if kana > _MIN_KANA_SHARE * kanji:
        return "ja"
    return "zh" if chinese > _MIN_CHINESE_SHARE * kanji else ""


def _latin_language(words: Sequence[str]) -> str:
    """Return the language with the most function words, if it leads.

    What it shares with the second does not count for the lead.
    """
    languages = _function_words()
    found = [names for word in words if (names := languages.get(word))]
    scores = defaultdict[str, float](float)
    for names in found:
        for name in names:
            scores[name] += 1 / len(names)
    first, second = [*sorted(scores, key=scores.__getitem__, reverse=True), "", ""][:2]
    own, others = (sum(a in names and b not in names for names in found) for a, b in ((first, second), (second, first)))
    is_clear = own >= max(_MIN_OWN, _MIN_LEAD * others) and scores[first] >= max(_MIN_SCORE, _MIN_SHARE * len(words))
    return first if is_clear else ""


@cache
def latin_languages() -> frozenset[str]:
    """Return the languages that function words tell."""
    return frozenset(chain.from_iterable(_function_words().values()))


@cache
def _function_words() -> Mapping[str, Sequence[str]]:
    """Return the languages of each function word."""
    languages = defaultdict[str, list[str]](list)
    for row in _WORDS.read_text(encoding="utf-8").splitlines():
        name, _, words = row.partition("\t")
        for word in dict.fromkeys(words.split()):
            languages[word].append(name)
    return languages
