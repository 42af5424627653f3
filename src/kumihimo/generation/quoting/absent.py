"""a question + the words of an index -> the names and rare words of the question that no document has."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from kumihimo.text import common_words, function_words, lemmas, tokens
from kumihimo.text.question import ParsedQuestion

_LETTER = "[A-Za-zÀ-ʯͰ-ԯ0-9]"
_WORD = re.compile(rf"(?![0-9]){_LETTER}(?:{_LETTER}|['’.-](?={_LETTER}))*")
_KATAKANA = re.compile("[ァ-ヺ][ァ-ヺー]{4,}")  # a shorter word may be a unit, or have a word in kanji beside it
_QUOTED = re.compile('["“「『《]([^"“”「」『』《》]{2,})["”」』》]')
_KANA = re.compile("[ぁ-ヺ]")
_FILE_NAME = re.compile(r"\w\.\w{1,5}$")
_KANJI = re.compile("[\u3400-\u4f54\u4f56-\u9fff々]{3,}")  # without 何, which asks


def find_absent_words(asked: ParsedQuestion, has: Callable[[str], bool]) -> list[str]:
    """Return the names, words and quoted phrases that occur nowhere.

    A common word in small letters is left out: it may stand for others. So are short words in Japanese. Of a run of
    ideographs in a Japanese question, no pair may occur; Chinese has no mark between its words. has: whether a passage
    has the tokens of a text in order.

    >>> indexed = "the ferry to brannet leaves at nine 連絡船"
    >>> has = lambda text: text.casefold() in indexed
    >>> find_absent_words(ParsedQuestion("When does the ferry to Oslo leave for Brannet?"), has)
    ['Oslo']
    >>> find_absent_words(ParsedQuestion('Barack Obama took which "nine ferry"?'), has)
    ['nine ferry', 'Barack Obama']
    >>> find_absent_words(ParsedQuestion("富士山へ行く連絡船の名前は何メートルですか"), has)
    ['富士山']
    >>> find_absent_words(ParsedQuestion("I haven't seen the ferry that they've painted"), has)
    []
    >>> find_absent_words(ParsedQuestion("Compare ferry.md and the newest 王小明的文档有几篇"), has)
    []
    """
    absent = list[str]()
    for word in dict.fromkeys(_candidates(asked)):
        if _occurs(word, has) or any(word in longer.split() for longer in absent):
            continue
        if absent and f"{absent[-1]} {word}" in asked.normalized:
            absent[-1] += f" {word}"
        else:
            absent.append(word)
    return absent


def _candidates(asked: ParsedQuestion) -> Iterator[str]:
    """Yield the words whose absence says something."""
    yield from (phrase.strip() for phrase in _QUOTED.findall(asked.normalized))
    names = {word.start for word in asked.wording.words if word.is_name}
    for match in _WORD.finditer(asked.normalized):
        word = re.sub("['’](?:s|[a-z]{2})$|n['’]t$", "", match[0])
        if _FILE_NAME.search(word):
            continue
        plain = word.casefold()
        forms = {plain, lemmas.verb_lemma(plain), plain.removesuffix("est"), plain.removesuffix("er")}
        is_telling = match.start() in names or not any(map(common_words.is_common_word, forms))
        if is_telling and not asked.terms.isdisjoint(tokens.subject_terms(word)):
            yield word
    content = function_words.cut_function_words(asked.normalized)
    yield from _KATAKANA.findall(content)
    if _KANA.search(asked.normalized):
        yield from _KANJI.findall(content)


def _occurs(word: str, has: Callable[[str], bool]) -> bool:
    if _KANJI.fullmatch(word):
        return any(has(one + other) for one, other in pairwise(word))
    return has(word)
