"""text -> tokens: words folded and lightly stemmed; unspaced scripts in pairs of characters; spans that match terms."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from unicodedata import combining, normalize
from zlib import crc32

from kumihimo.text.function_words import cut_function_words
from kumihimo.text.sentences import split_blocks, split_sentences

# Scripts in pairs of characters: kana, CJK ideographs and marks, Hangul (its words carry particles), Thai.
_UNSPACED = (
    "々〆ー\u3040-\u309f\u30a0-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\u0e00-\u0e7f"
    "\U00020000-\U0003134f"
)
# Characters within a word that are no letters: accents, vowel signs, soft hyphens, joiners.
_COMBINING_MARKS = (
    "\u00ad\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963\u0966-\u0dff"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d\u20d0-\u20ff"
)
_KANJI = "々〆\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
STOPWORDS = frozenset(
    """a an and are as at be been but by did do does for from had has have he her his how i if in into is it its me my
    no not of on or our she so than that the their them then there these they this to was we were what when where
    which who whom whose why will with you your 何 誰 什么 甚麼 哪里 哪裡 谁 誰是 怎么 怎麼 的 是 在 了 吗 嗎""".split()  # noqa: SIM905
)

_NON_LATIN = re.compile("[^\0-\xac\xae-\u02ff\u2010-\u205f]")  # neither Latin letter nor punctuation
_LATIN_WORD = re.compile(r"[^\W_]+")  # as `_RUN` for Latin text, but faster
_ASCII_WORD = re.compile("[a-z0-9]+")  # as `_LATIN_WORD` for ASCII text, but faster
_ENDINGS = r"['’](?<=\w['’])(?:s|t|d|m|ll|re|ve)\b"  # in gate's, who's, they've; compiled on first use
# Stems of verbs that only introduce a question.
_ASKING_STEMS = frozenset({"about", "describ", "explain", "giv", "know", "show", "tell"})


# These are slow to compile, so `re` does it at the first use.
_SPACED_RUN = rf"((?:(?![{_UNSPACED}])[^\W_][{_COMBINING_MARKS}]*)+)"
_RUN = f"([{_UNSPACED}]+)|{_SPACED_RUN}"
SUBJECT_RUN = (  # katakana, kanji, Hangul or Thai, a spaced word
    f"([\u30a1-\u30fa\u31f0-\u31ff][\u30a1-\u30ffー]*)|([{_KANJI}]+)|([\uac00-\ud7af\u0e00-\u0e7f]+)|{_SPACED_RUN}"
)


def tokenize(text: str) -> list[str]:
    """Return the index tokens of a text.

    Words are case-folded and lightly stemmed; unspaced scripts give pairs of characters.

    >>> tokenize("The ferries' Café, 2 boats")
    ['the', 'ferry', 'cafe', '2', 'boat']
    >>> tokenize("組紐の工房 A棟")
    ['組紐', '紐の', 'の工', '工房', 'a', '棟']
    """
    plain = normalize("NFKC", text).casefold()
    if plain.isascii() or not _NON_LATIN.search(plain):
        return list(map(_stem, (_ASCII_WORD if plain.isascii() else _LATIN_WORD).findall(plain)))
    tokens: list[str] = []
    for run in re.finditer(_RUN, plain):
        if unspaced := run[1]:
            tokens += [unspaced[i : i + 2] for i in range(max(1, len(unspaced) - 1))]
        else:
            tokens.append(_stem(run[2]))
    return tokens


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
    content = [token for token in dict.fromkeys(tokenize(cut_function_words(text))) if token not in STOPWORDS]
    return content or list(dict.fromkeys(tokenize(text)))


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
    plain = normalize("NFKC", text).casefold()
    stems = re.sub(_ENDINGS, "", plain)
    # `It'll Be Me` is a name: keep its endings.
    return _find_subjects(stems) or (_find_subjects(plain) if stems != plain else [])


def _find_subjects(plain: str) -> list[str]:
    is_latin = plain.isascii() or not _NON_LATIN.search(plain)
    terms = list(map(_root, _LATIN_WORD.findall(plain))) if is_latin else []
    for run in () if is_latin else re.finditer(SUBJECT_RUN, plain):
        if kanji := run[2]:
            terms += [kanji[i : i + 2] for i in range(max(1, len(kanji) - 1))]
        else:
            terms.append(run[1] or run[3] or _root(run[4]))
    return [word for word in dict.fromkeys(terms) if word not in STOPWORDS and word not in _ASKING_STEMS]


@lru_cache(maxsize=65536)
def _root(word: str) -> str:
    """Return a stem that `leave` and `leaves` share.

    The index uses the lighter `_stem`, which finds more (measured).
    """
    stem = _stem(word)
    return stem[:-1] if stem.endswith("e") and len(stem) > 3 else stem


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    if not word.isascii():
        word = "".join(c for c in normalize("NFKD", word) if not combining(c) and c not in "\u00ad\u200c\u200d")
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
    for run in re.finditer(SUBJECT_RUN, text):
        start, end = run.span()
        if run[2] and end - start > 1:  # pairs of ideographs
            yield from ((i, i + 2) for i in range(start, end - 1) if text[i : i + 2] in terms)
        elif (found := _word_terms(run[0])) and found <= terms:
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
    cut = re.compile(r".*\S(?=\s)", re.S).match(text, least - 1, end + 1)
    return cut.end() if cut else end
