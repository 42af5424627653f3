"""text + subject terms -> the spans of the words that match, and the part of the text where most of them are."""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from kumihimo.text.sentences import split_blocks, split_sentences
from kumihimo.text.tokens import SUBJECT_RUN, subject_terms

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
