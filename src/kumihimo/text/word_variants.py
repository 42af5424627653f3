"""a question + the words of an index -> the question as the documents write it.

A word that the documents have stays as it is. Another one gives way to a spelling that they have: with or without a
hyphen or a space, in the other kana, with or without a middle dot or a long-vowel mark, in other characters of Chinese,
inflected, or, if nothing else is found, with one other letter.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol
from unicodedata import normalize

from kumihimo.text import common_words, lemmas, name_keys, parts_of_speech
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.tokens import subject_terms, word_tokens

_MIN_LETTERS = 5  # of a word that may be misspelled: shorter ones are near too many others
_MIN_STEM = 3
_ENDINGS = ("", "s", "es", "ed", "ing")  # that `word_tokens` removes
_CLEARLY_MORE = 2  # times as many passages as the next word that is as near
_MIN_KANA = 3
_MIN_NOUN = 2  # a single character is only half a token
_MAX_QUESTION = 500  # characters: longer texts are searched as they are
_SAMPLE = 8  # passages that are read for the spelling of a word
# These are slow to compile, so `re` does it at the first use.
_LETTERS = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u03ff\u0400-\u04ff"
_WORD = rf"(?<![\d_{_LETTERS}])[{_LETTERS}]+(?:-[{_LETTERS}]+)*(?![\d_{_LETTERS}])"
_HIRAGANA, _KATAKANA, _KANJI = "\u3041-\u3096", "\u30a1-\u30fa", "\u3400-\u4dbf\u4e00-\u9fff"
_CJK = f"[{_HIRAGANA}{_KATAKANA}{_KANJI}]"
_KATAKANA_WORD = rf"[{_KATAKANA}][{_KATAKANA}ー]*(?:[・･=＝\- \u3000][{_KATAKANA}][{_KATAKANA}ー]*)*"
_PARTICLES = "をはがのにへともやでだかな"
_WORD_START = rf"(?:(?<![{_HIRAGANA}{_KANJI}ー])|(?<=[をはがのにへともや]))"  # endings of verbs follow kanji
_HIRAGANA_RUN = rf"{_WORD_START}(?=([{_HIRAGANA}][{_HIRAGANA}ー]{{2,15}}))"
_TO_KATAKANA = {code: code + 0x60 for code in range(0x3041, 0x3097)}
_TO_HIRAGANA = {code + 0x60: code for code in range(0x3041, 0x3097)}
_SOUNDS = [("ヴァ", "バ"), ("ヴィ", "ビ"), ("ヴェ", "ベ"), ("ヴォ", "ボ"), ("ヴ", "ブ"), ("ヂ", "ジ"), ("ヅ", "ズ")]
_FULL_SIZE = str.maketrans("ァィゥェォャュョヮヵヶ", "アイウエオヤユヨワカケ", "・･=＝- \u3000ー")
_BRITISH = (
    ("(?<=[a-z]{2})our", "or"),
    ("ys(?=[ei]|$)", "yz"),
    ("is(?=[ei]|ation|$)", "iz"),
    ("tr$", "ter"),
    ("ll", "l"),
)
_MORE_BRITISH = (("[ao]e", "e"), ("ogue?$", "og"), ("ence?$", "ens"), ("tre$", "ter"))


class WordIndex(Protocol):
    """The words of an index.

    has: whether a passage has the tokens of this text in order. stems: the stems that begin with a letter, and in how
    many passages they are. passages: some passages with tokens of this text, best first. rarity: how rare each
    token is, 0 or more.
    """

    def has(self, text: str) -> bool: ...
    def stems(self, letter: str) -> Mapping[str, int]: ...
    def passages(self, text: str, k: int) -> Sequence[str]: ...
    def rarity(self, tokens: Sequence[str]) -> Sequence[float]: ...


class Rewriting(NamedTuple):
    """A question as the documents write it, and each word with its replacement."""

    question: ParsedQuestion
    replaced: tuple[tuple[str, str], ...]


def rewrite_question(question: ParsedQuestion, index: WordIndex | None) -> Rewriting:
    """Replace the words that the documents write otherwise.

    A question without such words, a long one, or one without an index is returned as it is.
    """
    if index is None or len(question.text) > _MAX_QUESTION:
        return Rewriting(question, ())
    rewritten = plain = question.normalized
    cjk = (_variants_of_katakana, _variants_of_hiragana, _variants_of_nouns, _variants_of_kanji)
    variants = [_variants_of_spaced_words(list(re.finditer(_WORD, plain)), index)]
    variants += [find(plain, index) for find in cjk] if not plain.isascii() and re.search(_CJK, plain) else []
    changes: list[tuple[int, int, str]] = []
    for start, end, spelling in chain.from_iterable(variants):
        if spelling and all(end <= other or other_end <= start for other, other_end, _ in changes):
            changes.append((start, end, spelling))
    for start, end, spelling in sorted(changes, reverse=True):
        rewritten = rewritten[:start] + spelling + rewritten[end:]
    replaced = dict.fromkeys((plain[start:end], spelling) for start, end, spelling in sorted(changes))
    return Rewriting(ParsedQuestion(rewritten) if changes else question, tuple(replaced))


# -- words between spaces


def _variants_of_spaced_words(words: Sequence[re.Match[str]], index: WordIndex) -> Iterator[tuple[int, int, str]]:
    absent = [bool(subject_terms(word[0])) and not index.has(word[0]) for word in words]
    for i, word in enumerate(words):
        for before, right in zip(words[max(0, i - 1) : i + 1], words[i : i + 2], strict=False):
            one_space = before.string[before.end() : right.start()] == " "
            if absent[i] and before is not right and one_space and (spelling := _join(before[0] + right[0], index)):
                yield before.start(), right.end(), spelling
        if absent[i]:
            yield word.start(), word.end(), _find_spelling(word[0], index, is_first=i == 0)


def _join(word: str, index: WordIndex) -> str:
    return _sample_spelling(word, index) if len(word) > _MIN_STEM and index.has(word) else ""


def _find_spelling(word: str, index: WordIndex, *, is_first: bool) -> str:
    """Return another spelling of an absent word; empty: none."""
    parts = word.split("-")
    if len(parts) > 1:
        return _join("".join(parts), index)
    if two_words := _split(word, index):
        return two_words
    for form in (lemmas.verb_lemma(word.casefold()), name_keys.name_key(word.casefold())):
        if form != word.casefold() and index.has(form):
            return _sample_spelling(form, index)
    return "" if word.isupper() else _correct(word, index, is_first=is_first)


def _split(word: str, index: WordIndex) -> str:
    """Return the word as two words of the documents, or empty."""
    for i in range(1, len(word)):
        first, second = word[:i], word[i:]
        is_prefix = min(len(first), len(second)) < _MIN_KANA  # e-mail, but not `a lone`
        if len(word) > _MIN_STEM and index.has(f"{first} {second}"):
            pattern = rf"(?<!\w){first}{'-' if is_prefix else '[- ]'}{second}(?!\w)"
            for passage in index.passages(f"{first} {second}", _SAMPLE):
                if match := re.search(pattern, passage, re.IGNORECASE):
                    return match[0]
    return ""


def _correct(word: str, index: WordIndex, *, is_first: bool) -> str:
    """Return what a word was meant to be; empty: unclear.

    A common word is not misspelled: only another form of it will do. A name gives way only to a name.
    """
    from rapidfuzz.distance import OSA  # few questions need it

    plain = word.casefold()
    stems = _near_stems(plain, index)
    best = sorted(stems, key=lambda stem: (-stems[stem], stem))
    if same := [stem for stem in best if _is_form(stem, plain)]:
        return _sample_spelling(_complete(same[0]), index)
    is_unclear = len(best) > 1 and stems[best[0]] < _CLEARLY_MORE * stems[best[1]]
    if not best or is_unclear or len(word) < _MIN_LETTERS or common_words.is_common_word(plain):
        return ""
    spelling = _sample_spelling(_complete(best[0]), index, like=plain)
    is_near = OSA.distance(plain, spelling.casefold()) == 1
    return spelling if is_near and (word.islower() or is_first or not spelling[0].islower()) else ""


def _near_stems(word: str, index: WordIndex) -> dict[str, int]:
    """Return the stems one edit away, with passage counts."""
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    swapped = word[1] + word[0] + word[2:] if len(word) > 1 else word
    [stem], [other] = word_tokens(word), word_tokens(swapped)
    stems = {**index.stems(stem[0]), **{s: n for s, n in index.stems(other[0]).items() if s == other}}
    known = [stem for stem in stems if len(stem) >= _MIN_STEM and stem.isalpha()]
    near: set[str] = set()
    for ending in _ENDINGS:
        forms = [stem + ending for stem in known]
        found = process.extract(word, forms, scorer=OSA.distance, score_cutoff=1, limit=None)
        near.update(known[place] for _, _, place in found)
    return {stem: stems[stem] for stem in near}


def _complete(stem: str) -> str:
    """Return a word that has this stem: `houses` for `hous`."""
    return next((stem + ending for ending in _ENDINGS if word_tokens(stem + ending) == [stem]), stem)


def _is_form(stem: str, word: str) -> bool:
    """Return whether a stem is another form of a word."""
    [own] = word_tokens(word)
    same = subject_terms(stem) == subject_terms(word) or _american(stem) == _american(own)
    return same and min(len(stem), len(own)) > _MIN_STEM


def _american(stem: str) -> str:
    for british, american in (*_BRITISH, *_MORE_BRITISH):
        stem = re.sub(british, american, stem)
    return stem


def _sample_spelling(form: str, index: WordIndex, *, like: str = "") -> str:
    """Return the most frequent visible spelling, or empty.

    like: the spelling nearest to this instead.
    """
    from rapidfuzz.distance import OSA

    tokens, start = word_tokens(form), form[:_MIN_STEM].casefold()
    words = [word for passage in index.passages(form, _SAMPLE) for word in re.findall(rf"[{_LETTERS}]+", passage)]
    spellings = Counter(word for word in words if word.casefold().startswith(start) and word_tokens(word) == tokens)
    edits = {word: OSA.distance(like, word.casefold()) if like else 0 for word in spellings}
    return min(spellings, key=lambda word: (edits[word], word.isupper(), -spellings[word], word), default="")


# -- Japanese and Chinese


def _variants_of_katakana(question: str, index: WordIndex) -> Iterator[tuple[int, int, str]]:
    for word in re.finditer(_KATAKANA_WORD, question):
        if len(word[0]) >= _MIN_KANA and not index.has(word[0]):
            hiragana = word[0].translate(_TO_HIRAGANA)
            spelling = _same_sound(word[0], index) or _as_word(hiragana, index)
            yield word.start(), word.end(), spelling


def _variants_of_hiragana(question: str, index: WordIndex) -> Iterator[tuple[int, int, str]]:
    for run in re.finditer(_HIRAGANA_RUN, question):
        ends = [i for i in range(_MIN_KANA, len(run[1]) + 1) if (run[1] + "は")[i] in _PARTICLES]
        for end in reversed(ends):
            katakana = run[1][:end].translate(_TO_KATAKANA)
            if index.has(katakana) and not index.has(run[1][:end]) and (spelling := _same_sound(katakana, index)):
                yield run.start(), run.start() + end, spelling
                break


def _same_sound(word: str, index: WordIndex) -> str:
    """Return a katakana word with the same sound, or empty."""
    sound = _sound(word)
    for passage in index.passages(word, _SAMPLE):
        for other in re.findall(_KATAKANA_WORD, normalize("NFKC", passage)):
            if _sound(other) == sound:
                return str(other)
            for part in re.split(r"[ \u3000]", other):
                if _sound(part) == sound:
                    return part
    return ""


def _sound(katakana: str) -> str:
    """Return katakana without marks and without small letters.

    >>> _sound("ヴァイオリン・コンピューター") == _sound("バイオリンコンピュータ")
    True
    """
    for sound, plain in _SOUNDS:
        katakana = katakana.replace(sound, plain)
    return katakana.translate(_FULL_SIZE)


def _as_word(hiragana: str, index: WordIndex) -> str:
    """Return the hiragana if it is a word of the documents."""
    pattern = rf"{_WORD_START}{hiragana}(?![^{_PARTICLES}\W{_KANJI}])"
    passages = index.passages(hiragana, _SAMPLE) if index.has(hiragana) else ()
    return hiragana if any(re.search(pattern, passage) for passage in passages) else ""


def _variants_of_nouns(question: str, index: WordIndex) -> Iterator[tuple[int, int, str]]:
    """Yield Japanese nouns in their usual spelling or in kana."""
    nouns = parts_of_speech.japanese_nouns(question) if re.search(f"[{_HIRAGANA}]", question) else ()
    for start, end, usual, katakana in nouns:
        if end - start >= _MIN_NOUN and not index.has(question[start:end]):
            others = [other for other in (usual, katakana) if len(other) >= _MIN_NOUN and index.has(other)]
            hiragana = katakana.translate(_TO_HIRAGANA) if len(katakana) >= _MIN_KANA else ""
            yield start, end, next(iter(others), "") or (_as_word(hiragana, index) if hiragana else "")


def _variants_of_kanji(question: str, index: WordIndex) -> Iterator[tuple[int, int, str]]:
    """Yield words in traditional characters for simplified ones, and back."""
    for run in re.finditer(f"[{_KANJI}]{{2,}}", question):
        absent = [i for i in range(len(run[0]) - 1) if not index.has(run[0][i : i + 2])]
        for spelling in parts_of_speech.convert_chinese(run[0]) if absent else ():
            pairs = ((i, spelling[i : i + 2]) for i in absent)
            places = [i for i, pair in pairs if pair != run[0][i : i + 2] and index.has(pair)]
            for i in places:
                if i - 1 not in places:
                    end = next(j for j in range(i, len(spelling)) if j not in places) + 1
                    yield run.start() + i, run.start() + end, spelling[i:end]
