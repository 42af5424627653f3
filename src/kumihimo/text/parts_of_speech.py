"""a Japanese or Chinese text -> its words with parts of speech: SudachiPy (extra `ja`), rjieba and OpenCC (extra `zh`).

rjieba is Jieba in Rust. Its dictionary has simplified characters, so each traditional one is replaced by its simplified
form first, one for one: the offsets stay.
"""

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import local
from typing import Any, NamedTuple

from kumihimo.text.packages import loading_extra

MAX_PIECE = 10_000  # characters; Sudachi reads at most 49,149 bytes at once

_IDEOGRAPHS = range(0x3400, 0xA000)


class TaggedWord(NamedTuple):
    """A word at `[start, end)` with its part of speech.

    tag: as in the dictionary, `名詞-固有名詞-人名-姓` or `ns`. form: in Chinese the word in simplified characters.
    known: whether the dictionary has it.
    """

    start: int
    end: int
    form: str
    tag: str
    known: bool = True


def can_tag_japanese() -> bool:
    """Return whether the extra `ja` is installed."""
    return _is_installed("sudachipy", "sudachidict_core")


def can_tag_chinese() -> bool:
    """Return whether the extra `zh` is installed."""
    return _is_installed("rjieba", "opencc")


@cache
def _is_installed(*modules: str) -> bool:
    return all(find_spec(module) for module in modules)


def tag_japanese(text: str) -> Iterator[TaggedWord]:
    """Yield the words of a Japanese text, compounds of the dictionary whole."""
    for offset in range(0, len(text), MAX_PIECE):
        for word in _load_tokenizer().tokenize(text[offset : offset + MAX_PIECE]):
            tag = _join_tag(word.part_of_speech())
            yield TaggedWord(offset + word.begin(), offset + word.end(), word.surface(), tag, not word.is_oov())


def japanese_nouns(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield the nouns with their usual spelling and their sound in katakana.

    Without the extra `ja` there are none.
    """
    for word in _load_tokenizer().tokenize(text) if can_tag_japanese() else ():
        if word.part_of_speech()[0] == "名詞" and not word.is_oov():
            yield word.begin(), word.end(), word.normalized_form(), word.reading_form()


def _load_tokenizer() -> Any:
    tokenizer = getattr(_OF_THREAD, "tokenizer", None)
    if tokenizer is None:  # it must not be called by two threads at once
        tokenizer = _OF_THREAD.tokenizer = _load_sudachi().tokenizer()
    return tokenizer


def tag_chinese(text: str) -> Iterator[TaggedWord]:
    """Yield the words of a Chinese text."""
    simplified, cut, has_word = _load_jieba()
    start = 0
    for form, tag in cut(text.translate(simplified)):
        yield TaggedWord(start, start + len(form), form, tag, has_word(form))
        start += len(form)


def convert_chinese(text: str) -> tuple[str, ...]:
    """Return a text in simplified and in traditional characters, where these differ.

    Without the extra `zh` there are none.
    """
    if not can_tag_chinese():
        return ()
    forms = (text.translate(_load_jieba()[0]), _load_traditional().convert(text))
    return tuple(form for form in forms if form != text and len(form) == len(text))


_OF_THREAD = local()


@cache
def _join_tag(levels: tuple[str, ...]) -> str:
    return "-".join(level for level in levels[:4] if level != "*")


@cache
def _load_sudachi() -> Any:
    with loading_extra("ja", "sudachipy sudachidict-core"):
        import sudachidict_core
        from sudachipy import Dictionary

        return Dictionary(dict=str(Path(sudachidict_core.__file__).parent / "resources" / "system.dic"))


@cache
def _load_jieba() -> tuple[dict[int, str], Any, Any]:
    """Return simplified characters by code, and Jieba's functions."""
    with loading_extra("zh", "rjieba opencc"):
        from opencc import OpenCC
        from rjieba import has_word, tag

        characters = [chr(code) for code in _IDEOGRAPHS]
        simplified = OpenCC("t2s").convert("\n".join(characters)).split("\n")
        changed = {ord(a): b for a, b in zip(characters, simplified, strict=True) if a != b and len(b) == 1}
        return changed, tag, has_word


@cache
def _load_traditional() -> Any:
    with loading_extra("zh", "opencc"):
        from opencc import OpenCC

        return OpenCC("s2t")
