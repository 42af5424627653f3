"""name keys -> similar pairs, each with a score and a reason."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, combinations
from unicodedata import combining, normalize

from kumihimo.text.dates import MONTH, MONTHS

PairScores = dict[tuple[int, int], tuple[float, str]]  # positions of two keys, the smaller first -> score and reason


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_MALE_TITLES = _word_set("mr mister sir lord master monsieur herr senor don king")
_FEMALE_TITLES = _word_set("mrs ms miss lady dame madame mme frau senora dona queen")
_MALE_WORDS = _MALE_TITLES | _word_set("man men boy boys gentleman gentlemen brother father son husband uncle nephew")
_FEMALE_WORDS = _FEMALE_TITLES | _word_set("woman women girl girls sister mother daughter wife aunt niece")
_OLD_WORDS, _YOUNG_WORDS = _word_set("old older senior sr"), _word_set("young younger little tiny junior jr")
_OPPOSITES = ((_MALE_WORDS, _FEMALE_WORDS), (_word_set("mrs"), _word_set("miss")), (_OLD_WORDS, _YOUNG_WORDS))
_ALL_OPPOSITES = frozenset(chain.from_iterable(chain.from_iterable(_OPPOSITES)))
_ARTICLES = _word_set("a an the le la les el los der die das il lo")
_TITLES = (
    _MALE_TITLES | _FEMALE_TITLES | _ARTICLES | _word_set("dr prof professor rev reverend captain capt colonel general")
)
_URL_PREFIXES = ("www ", "http ", "https ")
_EPITHETS = _OLD_WORDS | _YOUNG_WORDS | _word_set("city state town village county province prefecture kingdom republic")
_HONORIFIC = re.compile(r"(?<=[^\x00-\u2fff]{2})(?:サン|サマ|様|氏|君|クン|チャン|先生|教授|博士)$")
_NICKNAMES = (
    "robert bob bobby rob|william bill billy will|richard dick rick|john jack johnny|james jim jimmy|joseph joe"
    "|thomas tom tommy|timothy tim|edward ed ted ned|frederick fred freddy|michael mike|charles charlie chuck"
    "|elizabeth liz beth betty|margaret peggy meg maggie|katherine kate kathy|samuel sam|benjamin ben|susan sue"
    "|daniel dan|david dave|nicholas nick|anthony tony|alexander alex|christopher chris|matthew matt|peter pete"
    "|steven steve|andrew andy|frances fanny|patricia pat|rebecca becky|gregory greg|jeffrey jeff|kenneth ken"
)
_FULL_NAMES = {name: group.split()[0] for group in _NICKNAMES.split("|") for name in group.split()}
_ORDINAL_WORDS = _word_set(
    "one two three four five six seven eight nine ten first second third fourth fifth sixth seventh eighth ninth tenth"
    " ii iii iv vi vii viii ix xi xii north south east west past present future upper lower"
)
_NUMBERS = re.compile(r"\d+(?:[.,]\d+)*|[〇一二三四五六七八九十百]+|明治|大正|昭和|平成|令和")
_MONTH = re.compile(MONTH, re.IGNORECASE)
_CJK = re.compile(r"[々〆ー\u3040-\u30ff\u3400-\u9fff]")
FUNCTION_WORDS = _word_set("of the and for in on a an de la du des von und et y")
_TO_KATAKANA = {c: c + 0x60 for c in range(0x3041, 0x3097)}
_KANA_FOLDING = str.maketrans("ァィゥェォッャュョヮ", "アイウエオツヤユヨワ", "ー・")
_VU = re.compile(r"ヴ([ァィェォ]?)")
_BU = {"ァ": "バ", "ィ": "ビ", "ェ": "ベ", "ォ": "ボ", "": "ブ"}
_MAX_NGRAM_NAMES = 40  # an n-gram in more names says nothing about a pair
_MIN_LETTER_RATIO = 0.72  # below, the spelling says nothing


@lru_cache(maxsize=65536)
def fold_key(key: str) -> str:
    """Return the key without optional spelling: accents, long vowels, small kana.

    Hiragana becomes katakana.

    >>> [fold_key(key) for key in ("sextón", "サーバー", "さば", "ヴァイオリン", "バイオリン")]
    ['sexton', 'サバ', 'サバ', 'バイオリン', 'バイオリン']
    """
    if key.isascii():
        return key
    bare = "".join(c for c in normalize("NFKD", key) if not combining(c) or c in "\u3099\u309a")
    kana = normalize("NFKC", bare).translate(_TO_KATAKANA)
    return _VU.sub(lambda match: _BU[match[1]], kana).translate(_KANA_FOLDING)


@lru_cache(maxsize=65536)
def _strip_titles(name: str) -> tuple[str, ...]:
    """Return the words of a folded key without leading titles and articles.

    At least one word stays.
    """
    words = _HONORIFIC.sub("", name).split(" ")
    while len(words) > 1 and words[0] in _TITLES:
        words = words[1:]
    return tuple(words)


@lru_cache(maxsize=65536)
def name_numbers(name: str) -> tuple[str, ...]:
    """Return the numbers, dates, single letters and ordinals of a name.

    A year and a month come first. Names that differ in them mean different things.

    >>> names = ("windows 11", "vitamin b", "henry iv", "a christmas carol", "第三章", "1 june 2022", "2022 06 01")
    >>> [name_numbers(name) for name in names]
    [('11',), ('b',), ('iv',), (), ('三',), ('2022', '6', '1'), ('2022', '6', '1')]
    """
    words = name.split(" ")
    numbers = [number.lstrip("0") or "0" for number in _NUMBERS.findall(name)]
    years = [number for number in numbers if len(number) == 4]
    months = [str(MONTHS.index(word[:3]) + 1) for word in words if _MONTH.fullmatch(word)]
    letters = {word for word in words[1:] if len(word) == 1 and word.isalpha() and not _CJK.match(word)}
    days = (number for number in numbers if len(number) != 4)
    return (*years, *months, *days, *sorted(letters | _ORDINAL_WORDS.intersection(words)))


def is_cjk(name: str) -> bool:
    """Return whether a name has Chinese or Japanese characters."""
    return bool(_CJK.search(name))


def name_similarity(one: str, other: str, people: bool = False) -> tuple[float, str]:
    """Return the similarity of folded keys, 0 to 1, and its reason.

    people: both are names of people.

    >>> name_similarity("mr topper", "topper"), name_similarity("bob cratchit", "robert cratchit")
    ((0.95, 'title'), (0.9, 'short form'))
    >>> name_similarity("mr fezziwig", "mrs fezziwig"), name_similarity("fezziwig", "fezziwigg")
    ((0.0, ''), (0.79, 'spelling'))
    >>> name_similarity("windows 10", "windows 11")[0], name_similarity("boy cratchit", "girl cratchit")[0]
    (0.0, 0.0)
    >>> name_similarity("scrooge", "ebenezer scrooge", people=True), name_similarity("christmas", "christmas day")
    ((0.8, 'part'), (0.6, 'part'))
    """
    if one == other:
        return 1.0, "letters"
    if _are_opposed(one, other):
        return 0.0, ""
    a, b = _strip_titles(one), _strip_titles(other)
    if a == b:
        return 0.95, "title"
    shorter, longer = _sort_by_length(a, b)
    if name_numbers(one) != name_numbers(other):
        return 0.0, ""
    if _is_part(shorter, longer):
        return _part_similarity(shorter, longer, people), "part"
    return _plural_similarity(a, b, people) or _word_similarity(shorter, longer, people)


@lru_cache(maxsize=65536)
def _opposite_words(name: str) -> frozenset[str]:
    """Return the words of a name that have an opposite."""
    return _ALL_OPPOSITES.intersection(name.split(" "))


def _word_similarity(shorter: Sequence[str], longer: Sequence[str], people: bool) -> tuple[float, str]:
    """Compare names word by word, then by spelling."""
    if _sorted_words(shorter) == _sorted_words(longer) or "".join(shorter) == "".join(longer):
        return 0.95, "same words"
    if len(shorter) == len(longer) and all(map(_is_short_form, shorter, longer)):
        return 0.9, "short form"
    return _spelling_similarity(shorter, longer, people)


def _are_opposed(one: str, other: str) -> bool:
    """Return whether two names cannot mean the same thing.

    Examples: a man and a woman, old and young, different numbers, two different URLs.
    """
    a, b = _opposite_words(one), _opposite_words(other)
    if a and b and any((a & first and b & second) or (a & second and b & first) for first, second in _OPPOSITES):
        return True
    if one.startswith(_URL_PREFIXES) and other.startswith(_URL_PREFIXES):
        return True
    both_numbers = name_numbers(one), name_numbers(other)
    return all(both_numbers) and both_numbers[0] != both_numbers[1]


def _is_part(shorter: Sequence[str], longer: Sequence[str]) -> bool:
    """Return whether one name is part of the other.

    Its words stand together in the other name; without spaces, it begins or ends the other name.
    """
    if len(shorter) == len(longer) == 1 and _CJK.match(shorter[0]):
        return len(shorter[0]) > 1 and (longer[0].startswith(shorter[0]) or longer[0].endswith(shorter[0]))
    return any(tuple(longer[i : i + len(shorter)]) == tuple(shorter) for i in range(len(longer) - len(shorter) + 1))


def _part_similarity(shorter: Sequence[str], longer: Sequence[str], people: bool) -> float:
    """Score one name inside another by the words it lacks."""
    extra = [word for word in longer if word not in shorter]
    if len(extra) == 1 and extra[0] == "".join(word[0] for word in shorter):  # "internal revenue service (irs)"
        return 0.95
    content_words = {word for word in extra if word not in FUNCTION_WORDS}
    if content_words and content_words <= _EPITHETS:
        return 0.8 if people else 0.85
    if "and" in extra:
        return 0.3
    if len(content_words) < len(extra) or len(extra) > 2:
        return 0.45
    if len(longer) == 1:  # written without spaces
        return 0.75 if people else 0.5
    return 0.8 if people and (shorter[-1] == longer[-1] or len(longer) == 2) else 0.6


def _plural_similarity(a: Sequence[str], b: Sequence[str], people: bool) -> tuple[float, str] | None:
    """Score a singular and its plural; None if they are neither.

    For people, one and many are different things, so the score is lower.
    """
    singular, plural = sorted((" ".join(a), " ".join(b)), key=lambda name: (len(name), "men" in name))
    if plural in (f"{singular}s", f"{singular}es", f"{singular[:-1]}ies", f"{singular[:-3]}men"):
        return (0.4 if people else 0.6), "plural"
    return None


@lru_cache(maxsize=65536)
def _sorted_words(words: tuple[str, ...]) -> list[str]:
    """Return the words sorted, without a final s.

    A key has the plural removed from its last word only.
    """
    return sorted(word.removesuffix("s") for word in words)


def _is_short_form(one: str, other: str) -> bool:
    """Return whether a word equals, abbreviates or is the initial of another."""
    is_initial = min(len(one), len(other)) == 1 and one[0] == other[0]
    return is_initial or _FULL_NAMES.get(one, one) == _FULL_NAMES.get(other, other)


def _spelling_similarity(shorter: Sequence[str], longer: Sequence[str], people: bool) -> tuple[float, str]:
    """Score names by their letters, word by word.

    A word without a similar word in the other name usually means two different things.
    """
    from rapidfuzz.fuzz import ratio, token_sort_ratio

    if len("".join(shorter)) < 5:
        return 0.0, ""
    if any(max(ratio(word, other) for other in longer) < 75 for word in shorter):
        shared = set(shorter).intersection(longer) - FUNCTION_WORDS
        return (0.0, "") if people or 2 * len(shared) < len(shorter) else (0.3, "words")
    letter_ratio = token_sort_ratio(" ".join(shorter), " ".join(longer)) / 100
    if letter_ratio <= _MIN_LETTER_RATIO:
        return 0.0, ""
    return round((letter_ratio - _MIN_LETTER_RATIO) / (1 - _MIN_LETTER_RATIO), 2), "spelling"


# -- candidate pairs, without comparing all names with all


def similar_pairs(names: Sequence[str], people: Sequence[bool]) -> PairScores:
    """Return the similar pairs of folded keys, with score and reason.

    A part of many names scores lower for each of them. It does not compare all names with all names.
    """
    candidates = _rare_ngram_pairs(names) | set(_containment_pairs(names))
    scores = {(i, j): name_similarity(names[i], names[j], people[i] and people[j]) for i, j in candidates}
    scores |= {pair: (0.85, "acronym") for pair in _acronym_pairs(names) if scores.get(pair, (0.0, ""))[0] < 0.85}
    _discount_ambiguous_parts(scores, names)
    differ_in_title = [pair for pair, (_, reason) in scores.items() if reason == "title"]
    title_counts = Counter(chain.from_iterable(differ_in_title))
    for i, j in differ_in_title:
        has_female_title = any(names[k].split(" ")[0] in _FEMALE_TITLES for k in (i, j))
        if has_female_title and max(title_counts[i], title_counts[j]) > 1:
            scores[i, j] = 0.6, "title"  # there is a Mr of this name too
    return {pair: scores[pair] for pair in sorted(scores) if scores[pair][0] > 0}


def _discount_ambiguous_parts(scores: PairScores, names: Sequence[str]) -> None:
    """Lower the score of a part that fits several names."""
    part_pairs = [pair for pair, (_, reason) in scores.items() if reason == "part"]
    parts = {(i, j): _sort_by_length(_strip_titles(names[i]), _strip_titles(names[j])) for i, j in part_pairs}
    fits = Counter(shorter for shorter, _ in dict.fromkeys(parts.values()))
    for pair, (shorter, longer) in parts.items():
        if not _EPITHETS.issuperset(set(longer) - set(shorter)):
            scores[pair] = round(max(scores[pair][0] - 0.12 * (fits[shorter] - 1) ** 0.5, 0.0), 2), "part"


def _sort_by_length(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    shorter, longer = sorted((one, other), key=lambda words: (len(words), len("".join(words)), words))
    return shorter, longer


def _rare_ngram_pairs(names: Sequence[str]) -> set[tuple[int, int]]:
    """Return the pairs of names that share a rare n-gram.

    Names that share enough n-grams share one of their rarest (prefix filtering). But: Chaudhuri and others (ICDE 2006)
    and Bayardo and others (WWW 2007) drop no n-gram for being common.
    """
    ngrams = [sorted(_ngrams(name)) for name in names]
    frequency = Counter(ngram for group in ngrams for ngram in group)
    by_ngram: defaultdict[str, list[int]] = defaultdict(list)
    for i, group in enumerate(ngrams):
        rarest = sorted(group, key=lambda ngram: (frequency[ngram], ngram))[: len(group) // 2 + 1]
        for ngram in rarest:
            by_ngram[ngram].append(i)
    for i, name in enumerate(names):
        by_ngram["=" + "".join(_sorted_words(_strip_titles(name)))].append(i)
        for word in _strip_titles(name)[-1:]:
            by_ngram["-" + word].append(i)
    return {pair for group in by_ngram.values() if len(group) <= _MAX_NGRAM_NAMES for pair in combinations(group, 2)}


def _ngrams(name: str) -> set[str]:
    size = 2 if _CJK.search(name) else 3
    padded = f" {name} "
    return {padded[i : i + size] for i in range(len(padded) - size + 1)}


def _acronym_pairs(names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield pairs of a one-word name and a name with these initials."""
    index_of = {name: i for i, name in enumerate(names) if 2 <= len(name) <= 8 and " " not in name and name.isalpha()}
    for i, name in enumerate(names):
        words = name.split(" ")
        if len(words) > 1:
            content_words = [word for word in words if word not in FUNCTION_WORDS]
            for initials in ("".join(word[0] for word in group) for group in (words, content_words)):
                if initials in index_of:
                    yield _ordered_pair(index_of[initials], i)


def _containment_pairs(names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield pairs in which one name contains the other.

    It contains its words, or begins or ends with it where it is written without spaces.
    """
    index_of = {name: i for i, name in enumerate(names)}
    for j, name in enumerate(names):
        parts = (part for part in _name_parts(name) if part in index_of and part not in FUNCTION_WORDS)
        yield from (_ordered_pair(index_of[part], j) for part in parts)


def _ordered_pair(i: int, j: int) -> tuple[int, int]:
    return (i, j) if i < j else (j, i)


def _name_parts(name: str) -> Iterable[str]:
    """Return the parts of a name that may be names themselves."""
    words = name.split(" ")
    if len(words) > 1:
        ends = range(1, len(words) + 1)
        return (" ".join(words[i:j]) for i in range(len(words)) for j in ends if 0 < j - i < len(words))
    if not _CJK.match(name):
        return ()
    return (part for i in range(2, len(name)) for part in (name[:i], name[-i:]))
