"""text -> tokens: words folded and lightly stemmed; unspaced scripts in pairs of characters; spans that match terms."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from unicodedata import combining, normalize
from zlib import crc32

from kumihimo.text.function_words import cut_function_words
from kumihimo.text.scripts import char_kinds, fold_text
from kumihimo.text.sentences import split_blocks, split_sentences

STOPWORDS = frozenset(
    """a an and are as at be been but by did do does for from had has have he her his how i if in into is it its me my
    no not of on or our she so than that the their them then there these they this to was we were what when where
    which who whom whose why will with you your 何 誰 什么 甚麼 哪里 哪裡 谁 誰是 怎么 怎麼 的 是 在 了 吗 嗎""".split()  # noqa: SIM905
)

_NON_LATIN = re.compile("[^\0-\xac\xae-\u02ff\u2010-\u205f]")  # neither Latin letter nor punctuation
_ENDINGS = r"(?i)['’](?<=\w['’])(?:s|t|d|m|ll|re|ve)\b"  # in gate's, who's, they've; compiled on first use
# Stems of verbs that only introduce a question.
_ASKING_STEMS = frozenset({"about", "describ", "explain", "giv", "know", "show", "tell"})
_VIRAMA = 9  # combining class of what is no accent: it kills a vowel
_CHUNK = re.compile(r"[\w.+#‐-]+")  # words of Latin text with what may join them
_ASCII_CHUNK = re.compile("[A-Za-z0-9_.+#‐-]+")  # those that have other forms, of any text
# In the kinds of characters: words with their signs, as in .NET and C++, and what they are parts of.
_WORD = r"(?:(?<![wdm.])\.(?=w))?[wd][wdm]*(?:(?<=[wm])(?:\+\+|[+#](?![wd_])))?"
_JOINED_WORDS = re.compile(f"{_WORD}(?:[-_]{_WORD})*")
_WORDS = re.compile(f"([hklcgt][hklcgtm]*)|{_WORD}")
_SUBJECTS = re.compile(f"(k[klm]*)|([ct][ctm]*)|(g+)|{_WORD}")
_HUMP = re.compile("[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")


def tokenize(text: str) -> list[str]:
    """Return the index tokens of a text.

    Words are case-folded and lightly stemmed; unspaced scripts give pairs of characters, each with its vowel signs.
    After all words come the other forms of names in program code and of product codes.

    >>> tokenize("The ferries' Café, 2 boats")
    ['the', 'ferry', 'cafe', '2', 'boat']
    >>> tokenize("組紐の工房 A棟")
    ['組紐', '紐の', 'の工', '工房', 'a', '棟']
    >>> tokenize("getName in C++ for PPR-1087")
    ['getname', 'in', 'c++', 'for', 'ppr', '1087', 'get', 'name', 'ppr1087']
    """
    words, forms = _split_words(fold_text(text))
    return words + forms


def word_tokens(text: str) -> list[str]:
    """Return the tokens of the words of a text, in their order.

    >>> word_tokens("getName in C++")
    ['getname', 'in', 'c++']
    """
    return _split_words(fold_text(text))[0]


def _split_words(plain: str) -> tuple[list[str], list[str]]:
    """Return the tokens of a folded text, and those of other forms."""
    is_latin = plain.isascii() or not _NON_LATIN.search(plain)
    words, kinds = list[str](), "" if is_latin else char_kinds(plain)
    for run in _WORDS.finditer(kinds):
        start, end = run.span()
        if run[1] and "m" not in run[1]:  # as below, but faster
            words += [plain[i : i + 2] for i in range(start, end - 1)] or [plain[start:end]]
        else:
            words += [plain[a:b] for a, b in _pair_spans(kinds, start, end)] if run[1] else [_stem(plain[start:end])]
    chunks = list(map(_split_chunk, (_CHUNK if is_latin else _ASCII_CHUNK).findall(plain)))
    if is_latin:
        words = list(chain.from_iterable(map(itemgetter(0), chunks)))
    forms = list(chain.from_iterable(map(itemgetter(1), chunks)))
    return words, forms


@lru_cache(maxsize=65536)
def _split_chunk(chunk: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tokens of joined words, and those of other forms.

    >>> _split_chunk("getUserById"), _split_chunk("PPR-1087")
    ((('getuserbyid',), ('get', 'user', 'by', 'id')), (('ppr', '1087'), ('ppr1087',)))
    >>> [_split_chunk(chunk)[1] for chunk in ("get_id", ".NET", "C++", "well-known")]
    [('getid',), ('net',), (), ()]
    """
    if chunk.isalpha() and chunk.isascii() and (chunk.islower() or chunk.istitle()):
        return (_stem(chunk),), ()
    kinds, words, forms = char_kinds(chunk), list[str](), list[str]()
    for joined in _JOINED_WORDS.finditer(kinds):
        parts = [chunk[slice(*part.span())] for part in _WORDS.finditer(kinds, *joined.span())]
        bare = [part.strip(".+#") for part in parts]
        words += parts
        if len(parts) > 1 and ("_" in joined[0] or {"w", "d"} <= {*joined[0]}):
            forms.append("".join(bare))
        forms += (word for word, part in zip(bare, parts, strict=True) if word != part and len(word) > 1)
        for word in filter(str.isascii, bare):
            humps = [hump for hump in _HUMP.findall(word) if len(hump) > 1]
            forms += humps if len(humps) > 1 else ()
    return tuple(map(_stem, words)), tuple(map(_stem, forms))


def _pair_spans(kinds: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the spans of two neighbouring letters with their marks."""
    letters = [i for i in range(start, end) if kinds[i] != "m"] if "m" in kinds[start:end] else range(start, end)
    edges = [*letters, end]
    return list(zip(edges, edges[2:], strict=False)) or [(start, end)]


def locate_words(plain: str) -> Iterator[tuple[str, int, int, bool]]:
    """Yield the tokens of a folded text with their places.

    The last value tells whether the script has no spaces.

    >>> list(locate_words("a C++ 東京都"))
    [('a', 0, 1, False), ('c++', 2, 5, False), ('東京', 6, 8, True), ('京都', 7, 9, True)]
    """
    kinds = char_kinds(plain)
    for run in _WORDS.finditer(kinds):
        start, end = run.span()
        if run[1]:
            yield from ((plain[a:b], a, b, True) for a, b in _pair_spans(kinds, start, end))
        else:
            yield _stem(plain[start:end]), start, end, False


def hash_token(token: str) -> int:
    """Return the 24-bit number of a token in the forward index."""
    return int.from_bytes(_hash_bytes(token), "little")


@lru_cache(maxsize=65536)
def _hash_bytes(token: str) -> bytes:
    return crc32(token.encode()).to_bytes(4, "little")[:3]


def pack_tokens(tokens: Iterable[str]) -> bytes:
    """Return the numbers of tokens in order, three bytes each, little-endian."""
    return b"".join(map(_hash_bytes, tokens))


def content_tokens(text: str) -> list[str]:
    """Return the distinct tokens without function words; all if nothing is left.

    >>> content_tokens("Who mended the breakwater, and who paid?")
    ['mend', 'breakwater', 'paid']
    >>> content_tokens("職員が困っていることは何ですか")
    ['職員', '員が', 'が困', '困っ']
    """
    return search_tokens(cut_function_words(text)) or search_tokens(text)


def search_tokens(text: str) -> list[str]:
    """Return the distinct tokens without stopwords; all if nothing is left.

    Pairs of function words stay: plain keyword search finds more with them (measured).

    >>> search_tokens("誰が困っているか")
    ['誰が', 'が困', '困っ', 'って', 'てい', 'いる', 'るか']
    """
    distinct = list(dict.fromkeys(tokenize(text)))
    return [token for token in distinct if token not in STOPWORDS] or distinct


def subject_terms(text: str) -> list[str]:
    """Return the distinct subject terms of a text.

    Content words; katakana words as a whole, kanji in pairs. Hiragana is left out: it is mostly grammar, and pairs of
    it would make any two sentences similar.

    >>> subject_terms("東京タワーの高さは何メートルですか")
    ['東京', 'タワー', '高', 'メートル']
    >>> subject_terms("Who leaves the gate?") == subject_terms("Leave the gates"), subject_terms("The gate's keeper")
    (True, ['gat', 'keeper'])
    """
    plain = fold_text(text)
    stems = re.sub(_ENDINGS, "", plain)
    # `It'll Be Me` is a name: keep its endings.
    return _find_subjects(stems) or (_find_subjects(plain) if stems != plain else [])


def _find_subjects(plain: str) -> list[str]:
    if plain.isascii() or not _NON_LATIN.search(plain):
        terms = list(map(_root, _split_words(plain)[0]))
    else:
        terms, kinds = [], char_kinds(plain)
        for run in _SUBJECTS.finditer(kinds):
            start, end = run.span()
            if run[2]:
                terms += [plain[a:b] for a, b in _pair_spans(kinds, start, end)]
            else:
                terms.append(plain[start:end] if run[1] or run[3] else _root(_stem(plain[start:end])))
    return [word for word in dict.fromkeys(terms) if word not in STOPWORDS and word not in _ASKING_STEMS]


def word_root(word: str) -> str:
    """Return what the forms of an English word share.

    >>> word_root("salaries") == word_root("salary"), word_root("priced") == word_root("prices"), word_root("orchards")
    (True, True, 'orchard')
    """
    return _root(_stem(word))


def _root(stem: str) -> str:
    """Return what the stems of `leave` and `leaves` share.

    The index uses the lighter stem, which finds more (measured).
    """
    return stem[:-1] if stem.endswith("e") and len(stem) > 3 else stem


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    word = word.casefold()
    if not word.isascii():
        word = "".join(c for c in normalize("NFKD", word) if combining(c) in (0, _VIRAMA))
    for suffix, replacement in (("ies", "y"), ("ing", ""), ("edly", ""), ("ed", ""), ("es", ""), ("s", "")):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and word.isascii() and not word.endswith("ss"):
            return word[: -len(suffix)] + replacement
    return word


_LEAD_PARTS = 4  # a cut sentence begins a quarter of the snippet before its first match


def mark_matches(text: str, terms: Collection[str]) -> list[tuple[int, int]]:
    """Return the spans of the words with these subject terms.

    Inflected forms count. Of a run of ideographs, only the matching part is marked. Spans do not touch.

    >>> text = "The Gates' keeper opens 東京タワーの門。"
    >>> [text[start:end] for start, end in mark_matches(text, subject_terms("a gate of 東京タワー"))]
    ['Gates', '東京タワー']
    """
    spans: list[tuple[int, int]] = []
    for start, end in _matching_parts(text, frozenset(terms)):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _matching_parts(text: str, terms: frozenset[str]) -> Iterator[tuple[int, int]]:
    kinds = char_kinds(text)
    for run in _SUBJECTS.finditer(kinds):
        start, end = run.span()
        if run[2]:
            yield from (span for span in _pair_spans(kinds, start, end) if fold_text(text[slice(*span)]) in terms)
        elif (found := _word_terms(text[start:end])) and found <= terms:
            yield start, end


@lru_cache(maxsize=65536)
def _word_terms(word: str) -> frozenset[str]:
    return frozenset(subject_terms(word))


def snippet_at(text: str, terms: Collection[str], size: int) -> tuple[int, int]:
    """Return the span with the most different terms.

    It has at most `size` characters. It begins and ends with a sentence where that fits, and never within a word.
    Without a match it begins with the text. A cut end needs a mark for the reader, such as ….

    >>> text = "It was a calm day. Nobody spoke. The pier was mended in May by the crew of the Oriole. It rained."
    >>> start, end = snippet_at(text, subject_terms("Who mended the pier?"), 60)
    >>> text[start:end]
    'The pier was mended in May by the crew of the Oriole.'
    """
    begin, stop = len(text) - len(text.lstrip()), len(text.rstrip())
    if stop - begin <= size:
        return begin, max(begin, stop)
    first, last = _densest_part(text, mark_matches(text, terms), size) or (begin, begin)
    near = (block for block in split_blocks(text) if block.start <= first + size and block.end >= first - size)
    sentences = [span for block in near for span in split_sentences(text, block.start, block.end)]
    start = max((a for a, _ in sentences if a <= first), default=begin)
    if last - start > size:
        start = _next_word(text, max(begin, first - size // _LEAD_PARTS, last - size), first)
    end = max((b for _, b in sentences if last <= b <= start + size), default=0)
    if not end:
        end = _last_word_end(text, max(last, start + 1), min(stop, start + size))
    earlier = [a for a, _ in sentences if a < start and end - a <= size]
    return (min(earlier) if earlier and end == stop else start), end


def _densest_part(text: str, spans: Sequence[tuple[int, int]], size: int) -> tuple[int, int] | None:
    """Return the first and last character of the best stretch of matches."""
    words = [text[start:end].casefold() for start, end in spans]
    best, best_part = (0, 0), None
    for i, (start, _) in enumerate(spans):
        inside = [j for j in range(i, len(spans)) if spans[j][1] - start <= size]
        score = (len({words[j] for j in inside}), len(inside))
        if inside and score > best:
            best, best_part = score, (start, spans[inside[-1]][1])
    return best_part or (spans[0] if spans else None)


def _next_word(text: str, position: int, limit: int) -> int:
    """Return the start of the first word from `position` on."""
    match = re.compile(r"(?<!\S)\S").search(text, position, limit)
    return match.start() if match else position


def _last_word_end(text: str, least: int, end: int) -> int:
    """Return the end of the last whole word before `end`."""
    if end == len(text) or text[end : end + 1].isspace():
        return end
    parts = text[least - 1 : end + 1].rsplit(None, 1)  # the second is the word that `end` cuts
    return least - 1 + len(parts[0]) if len(parts) > 1 else end
