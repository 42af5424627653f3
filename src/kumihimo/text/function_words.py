"""a question in Japanese or Chinese -> the question with gaps for the words that only carry grammar."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from unicodedata import normalize

_WORDS = Path(__file__).with_name("function_words.tsv")
_KANJI = "々〆\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_KANA = "\u3041-\u3096\u30a1-\u30ff"
_MIN_WORD = 2  # characters of a word in hiragana
_PREFIXES = "おご"  # of a word that begins with kanji: お金


def cut_function_words(text: str) -> str:
    """Return a Japanese or Chinese text with gaps for its function words.

    A gap leaves the characters next to other words: with one, a word of one character is still a pair. All other texts
    stay as they are.

    >>> cut_function_words("職員が困っていることは何ですか。")
    '職員が困っ 。'
    >>> cut_function_words("ひまわりについて"), cut_function_words("这家工厂现在有什么困难？")
    ('ひまわりに ', '这家工厂现 么困难?')
    >>> cut_function_words("What is it?")
    'What is it?'
    """
    if text.isascii():
        return text
    plain = normalize("NFKC", text)
    marks = bytearray(b" " * len(plain))
    for start, stop in _japanese_spans(plain) if re.search(f"[{_KANA}]", plain) else _chinese_spans(plain):
        marks[start:stop] = b"x" * (stop - start)
    parts, end = [], 0
    for start, stop in (match.span() for match in re.finditer(b"xx+", marks)):
        lead = plain[start] if start > end and _is_unspaced(plain[start - 1]) else ""
        tail = plain[stop - 1] if _is_unspaced(plain[stop : stop + 1]) else ""
        parts.append(f"{plain[end:start]}{lead} {tail}")
        end = stop
    return "".join([*parts, plain[end:]]) if parts else text


def _is_unspaced(character: str) -> bool:
    return re.match(f"[{_KANJI}{_KANA}]", character) is not None


def _japanese_spans(plain: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of hiragana, and kanji that ask, without content."""
    for run in re.finditer("[\u3041-\u309f]+", plain):
        before, after = plain[run.start() - 1 : run.start()], plain[run.end() : run.end() + 1]
        follows_kanji = re.match(f"[{_KANJI}]", before) is not None
        has_prefix = run[0][-1] in _PREFIXES and re.match(f"[{_KANJI}]", after)
        body = run[0][:-1] if has_prefix else run[0]
        start = _word_end(body, is_ending=follows_kanji, has_word=before.isalnum())
        asks = start == 0 and before in _words("ja asking")
        yield run.start() + start - asks, run.start() + len(body)


def _word_end(hiragana: str, *, is_ending: bool, has_word: bool) -> int:
    """Return where only function words follow.

    Before that is a word in hiragana. is_ending: or the end of one that begins with kanji. has_word: whether a word
    stands before all this.
    """
    size, words = len(hiragana), _words("ja opening") | _words("ja following")
    after_any, after_particle = {size}, {size}  # where function words may begin
    for i in range(size - 1, -1, -1):
        if any(j in after_any and hiragana[i:j] in words for j in range(i + 1, i + _max_length() + 1)):
            after_any.add(i)
            after_particle.add(i)
        elif hiragana[i] in _words("ja particle") and i + 1 in after_particle:
            after_any.add(i)
    opening = _words("ja opening")
    if (0 in after_any and has_word) or any(hiragana[:j] in opening for j in after_any if j <= _max_length()):
        return 0
    if is_ending and not after_any.isdisjoint((1, 2)):
        return 1
    return min((i for i in after_any if i >= _MIN_WORD), default=size)


def _chinese_spans(plain: str) -> Iterator[tuple[int, int]]:
    """Yield the spans that are only grammar."""
    return (match.span() for match in re.finditer(_chinese_pattern(), plain))


@cache
def _chinese_pattern() -> str:
    words = sorted(_words("zh word"), key=len, reverse=True)
    return f"(?:{'|'.join(words)}|[{''.join(_words('zh character'))}])+"


@cache
def _max_length() -> int:
    return max(map(len, _words("ja following")))


@cache
def _words(name: str) -> frozenset[str]:
    rows = (row.split("\t") for row in _WORDS.read_text(encoding="utf-8").splitlines() if not row.startswith("#"))
    return frozenset(word for kind, words in rows if kind == name for word in words.split())
