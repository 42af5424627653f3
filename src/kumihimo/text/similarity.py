"""two keys of names -> how alike they are, and why; all keys -> the pairs that are worth a look."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from unicodedata import combining, normalize

PairScores = dict[tuple[int, int], tuple[float, str]]  # places of two keys, the smaller first -> how alike, and why


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_MALE_TITLES = _word_set("mr mister sir lord master monsieur herr senor don king")
_FEMALE_TITLES = _word_set("mrs ms miss lady dame madame mme frau senora dona queen")
_MALE_WORDS = _MALE_TITLES | _word_set("man men boy boys gentleman gentlemen brother father son husband uncle nephew")
_FEMALE_WORDS = _FEMALE_TITLES | _word_set("woman women girl girls sister mother daughter wife aunt niece")
_OLD_WORDS, _YOUNG_WORDS = _word_set("old older senior sr"), _word_set("young younger little tiny junior jr")
_OPPOSITES = ((_MALE_WORDS, _FEMALE_WORDS), (_word_set("mrs"), _word_set("miss")), (_OLD_WORDS, _YOUNG_WORDS))
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
_NUMBERS = re.compile(r"\d+(?:[.,]\d+)*|[〇一二三四五六七八九十百]+")
_CJK = re.compile(r"[々〆ー\u3040-\u30ff\u3400-\u9fff]")
_FUNCTION_WORDS = _word_set("of the and for in on a an de la du des von und et y")
_KANA_FOLDING = (
    {c: c + 0x60 for c in range(0x3041, 0x3097)}
    | dict.fromkeys(map(ord, "ー・"), "")
    | {ord(small): plain for small, plain in zip("ァィゥェォッャュョヮ", "アイウエオツヤユヨワ", strict=True)}
)
_VU = re.compile(r"ヴ([ァィェォ]?)")
_BU = {"ァ": "バ", "ィ": "ビ", "ェ": "ベ", "ォ": "ボ", "": "ブ"}
_MAX_NGRAM_NAMES = 40  # names with the same piece: where there are more, it says nothing of a pair
_MIN_LETTER_RATIO = 0.72  # letters in common, below which spelling says nothing


@lru_cache(maxsize=65536)
def fold_key(key: str) -> str:
    """The key without what writers leave out at will: accents, long vowels, small kana; in katakana, not hiragana.

    >>> [folded(key) for key in ("sextón", "サーバー", "さば", "ヴァイオリン", "バイオリン")]
    ['sexton', 'サバ', 'サバ', 'バイオリン', 'バイオリン']
    """
    if key.isascii():
        return key
    bare = "".join(c for c in normalize("NFKD", key) if not combining(c) or c in "\u3099\u309a")
    kana = normalize("NFKC", bare).translate({c: c + 0x60 for c in range(0x3041, 0x3097)})
    return _VU.sub(lambda v: _BU[v[1]], kana).translate(_KANA_FOLDING)


@lru_cache(maxsize=65536)
def _strip_titles(name: str) -> tuple[str, ...]:
    """The words of a folded key that are no titles or articles before it, or all of them."""
    words = _HONORIFIC.sub("", name).split(" ")
    while len(words) > 1 and words[0] in _TITLES:
        words = words[1:]
    return tuple(words)


def name_numbers(name: str) -> frozenset[str]:
    """What sets a name apart from others of its kind: names that differ in it are of different things.

    >>> [sorted(numbers(name)) for name in ("windows 11", "vitamin b", "henry iv", "a christmas carol", "第三章")]
    [['11'], ['b'], ['iv'], [], ['三']]
    """
    words = name.split(" ")
    letters = {word for word in words[1:] if len(word) == 1 and word.isalpha() and not _CJK.match(word)}
    return frozenset(_NUMBERS.findall(name)) | letters | _ORDINAL_WORDS.intersection(words)


def name_similarity(one: str, other: str, people: bool = False) -> tuple[float, str]:
    """How alike two folded keys are, from 0 to 1, and why. people: both are names of people.

    >>> alike("mr topper", "topper"), alike("bob cratchit", "robert cratchit"), alike("mr fezziwig", "mrs fezziwig")
    ((0.95, 'title'), (0.9, 'short form'), (0.0, ''))
    >>> alike("windows 10", "windows 11")[0], alike("boy cratchit", "girl cratchit")[0], alike("fezziwig", "fezziwigg")
    (0.0, 0.0, (0.79, 'spelling'))
    >>> alike("scrooge", "ebenezer scrooge", people=True), alike("christmas", "christmas day")
    ((0.8, 'part'), (0.6, 'part'))
    """
    if one == other:
        return 1.0, "letters"
    if _are_opposed(one, other):
        return 0.0, ""
    a, b = _strip_titles(one), _strip_titles(other)
    if a == b:
        return 0.95, "title"
    few, many = _sort_by_length(a, b)
    if _is_part(few, many):
        return _part_similarity(few, many, people), "part"
    return (
        _plural_similarity(a, b, people) or _word_similarity(few, many, people)
        if name_numbers(one) == name_numbers(other)
        else (0.0, "")
    )


def _word_similarity(few: Sequence[str], many: Sequence[str], people: bool) -> tuple[float, str]:
    if _sorted_words(few) == _sorted_words(many) or "".join(few) == "".join(many):
        return 0.95, "same words"
    if len(few) == len(many) and all(map(_is_short_form, few, many)):
        return 0.9, "short form"
    return _spelling_similarity(few, many, people)


def _are_opposed(one: str, other: str) -> bool:
    """Whether they cannot be one thing: a man and a woman, old and young, different numbers, addresses, only ends."""
    a, b = (set(name.split(" ")) for name in (one, other))
    if any((a & these and b & those) or (a & those and b & these) for these, those in _OPPOSITES):
        return True
    if one.startswith(_URL_PREFIXES) and other.startswith(_URL_PREFIXES):
        return True
    counted = name_numbers(one), name_numbers(other)
    return all(counted) and counted[0] != counted[1]


def _is_part(few: Sequence[str], many: Sequence[str]) -> bool:
    """Whether the words of one name stand together in the other; or its letters at an end, without spaces."""
    if len(few) == len(many) == 1 and _CJK.match(few[0]):
        return len(few[0]) > 1 and (many[0].startswith(few[0]) or many[0].endswith(few[0]))
    return any(tuple(many[i : i + len(few)]) == tuple(few) for i in range(len(many) - len(few) + 1))


def _part_similarity(few: Sequence[str], many: Sequence[str], people: bool) -> float:
    """How much it says that one name is inside the other: by what the other has more."""
    if name_numbers(" ".join(few)) != name_numbers(" ".join(many)):
        return 0.3
    more = [word for word in many if word not in few]
    if len(more) == 1 and more[0] == "".join(word[0] for word in few):  # "internal revenue service (irs)"
        return 0.95
    bare = {word for word in more if word not in _FUNCTION_WORDS}
    if bare and bare <= _EPITHETS:
        return 0.8 if people else 0.85
    if "and" in more:
        return 0.3
    if len(bare) < len(more) or len(more) > 2:
        return 0.45
    if len(many) == 1:  # written without spaces
        return 0.75 if people else 0.5
    return 0.8 if people and (few[-1] == many[-1] or len(many) == 2) else 0.6


def _plural_similarity(a: Sequence[str], b: Sequence[str], people: bool) -> tuple[float, str] | None:
    """Of one thing and several; people in one and many are not the same."""
    one, many = sorted((" ".join(a), " ".join(b)), key=lambda name: (len(name), "men" in name))
    if many in (f"{one}s", f"{one}es", f"{one[:-1]}ies", f"{one[:-3]}men"):
        return (0.4 if people else 0.6), "plural"
    return None


def _sorted_words(words: Sequence[str]) -> list[str]:
    """The words, however they are ordered; the key has taken the plural off the last alone."""
    return sorted(word.removesuffix("s") for word in words)


def _is_short_form(one: str, other: str) -> bool:
    """Whether one word may stand for the other: itself, its initial, its short form."""
    initial = min(len(one), len(other)) == 1 and one[0] == other[0]
    return one == other or initial or (one in _FULL_NAMES and _FULL_NAMES[one] == _FULL_NAMES.get(other))


def _spelling_similarity(few: Sequence[str], many: Sequence[str], people: bool) -> tuple[float, str]:
    """By letters, word by word: a word in either that is like none in the other makes two things of them, mostly."""
    from rapidfuzz.fuzz import ratio, token_sort_ratio

    if len("".join(few)) < 5:
        return 0.0, ""
    if any(max(ratio(word, other) for other in many) < 75 for word in few):
        shared = set(few).intersection(many) - _FUNCTION_WORDS
        return (0.0, "") if people or 2 * len(shared) < len(few) else (0.3, "words")
    letters = token_sort_ratio(" ".join(few), " ".join(many)) / 100
    return (
        (round((letters - _MIN_LETTER_RATIO) / (1 - _MIN_LETTER_RATIO), 2), "spelling")
        if letters > _MIN_LETTER_RATIO
        else (0.0, "")
    )


# -- which pairs are worth a look, without comparing all with all


def similar_pairs(names: Sequence[str], people: Sequence[bool]) -> PairScores:
    """Of folded keys those pairs that are alike, and how; part of many names says less of each of them."""
    wanted = _rare_ngram_pairs(names) | set(_containment_pairs(names))
    found = {(i, j): name_similarity(names[i], names[j], people[i] and people[j]) for i, j in wanted}
    found |= {pair: (0.85, "acronym") for pair in _acronym_pairs(names) if found.get(pair, (0.0, ""))[0] < 0.85}
    _discount_ambiguous_parts(found, names)
    both = Counter(i for pair, (_, why) in found.items() if why == "title" for i in pair)
    for (i, j), (_, why) in found.items():
        if (
            why == "title"
            and max(both[i], both[j]) > 1
            and any(names[k].split(" ")[0] in _FEMALE_TITLES for k in (i, j))
        ):
            found[i, j] = 0.6, why  # beside a Mr of that name
    return {pair: found[pair] for pair in sorted(found) if found[pair][0] > 0}


def _discount_ambiguous_parts(scores: PairScores, names: Sequence[str]) -> None:
    """Take from pairs of which one is part of the other, by how many others it could be."""
    parts = {
        pair: _sort_by_length(*(_strip_titles(names[i]) for i in pair))
        for pair, (_, why) in scores.items()
        if why == "part"
    }
    others = Counter(few for few, _ in dict.fromkeys(parts.values()))
    for pair, (few, many) in parts.items():
        if not _EPITHETS.issuperset(set(many) - set(few)):
            scores[pair] = round(max(scores[pair][0] - 0.12 * (others[few] - 1) ** 0.5, 0.0), 2), "part"


def _sort_by_length(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    few, many = sorted((one, other), key=lambda words: (len(words), len("".join(words)), words))
    return few, many


def _rare_ngram_pairs(names: Sequence[str]) -> set[tuple[int, int]]:
    """Pairs with a rare piece in common: names that share enough of all pieces share one of their rarest.

    But: Chaudhuri and others (ICDE 2006) and Bayardo and others (WWW 2007) leave out no piece for being common.
    """
    pieces = [sorted(_ngrams(name)) for name in names]
    often = Counter(piece for held in pieces for piece in held)
    at: defaultdict[str, list[int]] = defaultdict(list)
    for i, held in enumerate(pieces):
        rarest = sorted(held, key=lambda piece: (often[piece], piece))[: len(held) // 2 + 1]
        for piece in rarest:
            at[piece].append(i)
    for i, name in enumerate(names):
        at["=" + "".join(_sorted_words(_strip_titles(name)))].append(i)
        for word in _strip_titles(name)[-1:]:
            at["-" + word].append(i)
    return {pair for held in at.values() if len(held) <= _MAX_NGRAM_NAMES for pair in combinations(held, 2)}


def _ngrams(name: str) -> set[str]:
    size = 2 if _CJK.search(name) else 3
    padded = f" {name} "
    return {padded[i : i + size] for i in range(len(padded) - size + 1)}


def _acronym_pairs(names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Names of one word that are the initials of others."""
    place = {name: i for i, name in enumerate(names) if 2 <= len(name) <= 8 and " " not in name and name.isalpha()}
    for i, name in enumerate(names):
        words = name.split(" ")
        if len(words) > 1:
            full = "".join(word[0] for word in words)
            bare = "".join(word[0] for word in words if word not in _FUNCTION_WORDS)
            yield from (_ordered_pair(place[short], i) for short in (full, bare) if short in place)


def _containment_pairs(names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Pairs of which one is some words of the other, or its beginning or end where it is written without spaces."""
    place = {name: i for i, name in enumerate(names)}
    for j, name in enumerate(names):
        yield from (
            _ordered_pair(place[part], j) for part in _name_parts(name) if part in place and part not in _FUNCTION_WORDS
        )


def _ordered_pair(i: int, j: int) -> tuple[int, int]:
    return (i, j) if i < j else (j, i)


def _name_parts(name: str) -> Iterable[str]:
    words = name.split(" ")
    if len(words) > 1:
        ends = range(1, len(words) + 1)
        return (" ".join(words[i:j]) for i in range(len(words)) for j in ends if 0 < j - i < len(words))
    if not _CJK.match(name):
        return ()
    return (part for i in range(2, len(name)) for part in (name[:i], name[-i:]))
