"""text -> spans of its blocks and sentences: at full stops by nupunkt (MIT), at the terminals of scripts by rules."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

BlockKind = Literal["heading", "item", "row", "prose"]

_HEADING = re.compile(r" {0,3}#{1,6}\s")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)\s*$")
# The beginning of a list item.
LIST_ITEM = re.compile(r"\s*(?:[-*+•‣◦]\s|[・■□●○▪➢✓]|[（(\[]\d{1,3}[)）\]]|\d{1,3}[.)、．）]\s?(?!\d)|[①-⑳])")
_ROW = re.compile(r"\s*\||.*\S \| \S|[^\s:;][^:;\n]{0,40}: [^;\n]*; [^:;\n]{1,40}: ")  # `city: Otaru; founded: 1922`
# Unicode's Sentence_Terminal beyond ASCII, without the Burmese comma, and with the Greek question mark.
_TERMINAL_CODES = """
    037E 0589 061D 061E 061F 06D4 0700 0701 0702 07F9 0837 0839 083D 083E 0964 0965 104B 1362 1367 1368 166E 1735 1736
    17D4 17D5 1803 1809 1944 1945 1AA8 1AA9 1AAA 1AAB 1B5A 1B5B 1B5E 1B5F 1B7D 1B7E 1C3B 1C3C 1C7E 1C7F 203C 203D 2047
    2048 2049 2E2E 2E3C 2E53 2E54 3002 A4FF A60E A60F A6F3 A6F7 A876 A877 A8CE A8CF A92F A9C8 A9C9 AA5D AA5E AA5F AAF0
    AAF1 ABEB FE52 FE56 FE57 FF01 FF1F FF61 10A56 10A57 10F55 10F56 10F57 10F58 10F59 10F86 10F87 10F88 10F89 11047
    11048 110BE 110BF 110C0 110C1 11141 11142 11143 111C5 111C6 111CD 111DE 111DF 11238 11239 1123B 1123C 112A9 1144B
    1144C 115C2 115C3 115C9 115CA 115CB 115CC 115CD 115CE 115CF 115D0 115D1 115D2 115D3 115D4 115D5 115D6 115D7 11641
    11642 1173C 1173D 1173E 11944 11946 11A42 11A43 11A9B 11A9C 11C41 11C42 11EF7 11EF8 16A6E 16A6F 16AF5 16B37 16B38
    16B44 16E98 1BC9F 1DA88
    """
TERMINALS = "".join(chr(int(code, 16)) for code in _TERMINAL_CODES.split())
_STOPS, _OPEN, _CLOSE = f"{TERMINALS}!?．", "「『（(【〈《“«", "」』）)】〉》”»"
_CLOSING_CHARS = "\"'”’」』)）]*_»"
_SPACED = re.compile(r"[.?!…][\"'”’)\]»]*\s")

# What a single space replaces; no ideographic space, which is there on purpose.
_SPACES = re.compile(r"[ \t\n\r\f\xa0](?:(?<! )|[ \t\n\r\f\xa0])[ \t\n\r\f\xa0]*")
_IDEOGRAPHIC = r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]"
MAX_CUT_WORD = 12  # a shortened title loses a shorter word rather than a part of it
_INVISIBLE = re.compile("[\xad\u200b\ufeff]")
_KEPT_TEXTS, _MAX_KEPT_CHARS = 16_384, 2_000  # chunks, names and passages split the same paragraphs


# A stop that needs no space after it: one of these, or a mark after a letter.
_UNSPACED_STOPS, _UNSPACED_MARK = frozenset(f"{TERMINALS}．」』"), re.compile(r"[\u3040-\u9fff][!?]")

# These are slow to compile, so `re` does it at the first use.
_QUOTE_END = r"[\"'”’)\]»]+(?=\s|\Z)"
_LETTER = r"[\u3040-\u30ff\u3400-\u9fff々〆ー」』）]"
_LINE_WRAP = rf"(?<={_IDEOGRAPHIC})[ \t]*\r?\n\s*(?={_IDEOGRAPHIC})"


@dataclass(frozen=True, slots=True)
class Block:
    """The span of a heading, list item, table row or paragraph."""

    start: int
    end: int
    kind: BlockKind


def split_blocks(text: str, begin: int = 0) -> list[Block]:
    r"""Return the blocks of a text from `begin` on, without surrounding space.

    >>> text = "# Boats\n\nTwo lines\nof prose.\n- one\n- two\n"
    >>> [(b.kind, text[b.start:b.end]) for b in split_blocks(text)]
    [('heading', '# Boats'), ('prose', 'Two lines\nof prose.'), ('item', '- one'), ('item', '- two')]
    """
    spans: list[tuple[int, int, BlockKind | None]] = []
    start, end, lines = begin, begin, 0
    kind: BlockKind | None = None
    for line in text[begin:].splitlines(keepends=True):
        line_start, end = end, end + len(line)
        line_kind = _block_kind(line) if line.strip() else None
        lines += 1
        if kind == "prose" and lines == 2 and _UNDERLINE.match(line):
            kind = "heading"  # this line underlines the one before it
        elif line_kind == "prose" and kind in ("prose", "item"):
            pass  # the line continues the block
        else:
            spans.append((start, line_start, kind))
            start, kind, lines = line_start, line_kind, 1
    spans.append((start, end, kind))
    return [
        Block(first := text.index(block, start), first + len(block), kind)
        for start, end, kind in spans
        if kind and (block := text[start:end].strip())
    ]


def is_table_row(text: str) -> bool:
    """Return whether a text is a table row.

    >>> [is_table_row(text) for text in ("city: Otaru; founded: 1922", "| Otaru | 1922 |", "Otaru: a town by the sea.")]
    [True, True, False]
    """
    return bool(_ROW.match(text))


def _block_kind(line: str) -> BlockKind:
    if _HEADING.match(line):
        return "heading"
    if ("|" in line or ";" in line) and _ROW.match(line):
        return "row"
    return "item" if LIST_ITEM.match(line) else "prose"


def split_sentences(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Return the spans of the sentences in `text[start:end]`, without surrounding space.

    >>> text = "彼は「行く。」と言った。雨だった。Dr. Tose left. It rained."
    >>> [text[a:b] for a, b in split_sentences(text)]
    ['彼は「行く。」と言った。', '雨だった。', 'Dr. Tose left.', 'It rained.']
    """
    piece = text[start:end]
    find = _sentences_in if len(piece) <= _MAX_KEPT_CHARS else _sentences_in.__wrapped__
    return [(start + first, start + last) for first, last in find(piece)]


@lru_cache(maxsize=_KEPT_TEXTS)
def _sentences_in(text: str) -> tuple[tuple[int, int], ...]:
    """Return the spans of the sentences of a text."""
    pieces, spans = [(0, len(text))], list[tuple[int, int]]()
    if not text.isascii() and (_UNSPACED_MARK.search(text) or not _UNSPACED_STOPS.isdisjoint(text)):
        pieces = list(_split_at_terminals(text))
    for a, b in pieces:
        parts: Sequence[tuple[int, int]] = [(0, b - a)]
        if _SPACED.search(text, a, b):
            from nupunkt import sent_spans

            parts = sent_spans(text[a:b])
        for c, d in parts:
            if sentence := text[a + c : a + d].strip():
                first = text.index(sentence, a + c)
                spans.append((first, first + len(sentence)))
    return tuple(spans)


def ends_sentence(text: str) -> bool:
    """Return whether a text ends as a sentence, perhaps in quotation marks.

    >>> [ends_sentence(text) for text in ("It rained. ", "「雨だ。」", "हाँ।", "Rain:")]
    [True, True, True, False]
    """
    return text.rstrip(f"{_CLOSING_CHARS} \n").endswith((".", *_STOPS))


def _split_at_terminals(text: str) -> Iterator[tuple[int, int]]:
    """Yield spans that end with a terminal outside quotation marks."""
    balanced = sum(map(text.count, _OPEN)) == sum(map(text.count, _CLOSE))
    depth, begin, i, end = 0, 0, 0, len(text)
    while i < end:
        char = text[i]
        depth += (char in _OPEN) - (char in _CLOSE) if balanced else 0
        i += 1
        if depth <= 0 and _is_end(text, i, char):
            while i < end and text[i] in _STOPS:
                i += 1
            if quote := re.compile(_QUOTE_END).match(text, i, end):
                i = quote.end()
            yield begin, i
            begin = i
    if begin < end:
        yield begin, end


def _is_end(text: str, i: int, char: str) -> bool:
    """Return whether a sentence ends at `i`, after `char`."""
    if char in TERMINALS:
        return True
    if char in "．!?":  # `である．次に`, `本当?そう`; but not in `図３．２` or `A!B`
        follows_letter, precedes_letter = (re.match(_LETTER, text[j : j + 1]) is not None for j in (i - 2, i))
        return follows_letter and (char == "．" or precedes_letter or text[i : i + 1] in "!?")
    # the quotation is a sentence, 「行く。」, before a line end or another quotation
    return char in "」』" and text[i - 2 : i - 1] in tuple("。！？") and text[i : i + 1] in ("", *"\n\r「『")


def shorten_line(text: str, size: int) -> str:
    """Return the text on one line of at most this many characters."""
    line = " ".join(text.split())
    return line if len(line) <= size else f"{line[: size - 1]}…"


def shorten_title(title: str, size: int) -> str:
    """Return a title on one line, without its middle if long.

    What differs from other titles often stands at the end, such as the date of a meeting.

    >>> shorten_title("Meeting of the Harbour Committee, 2026-05-01", 28)
    'Meeting of the… 2026-05-01'
    """
    line = " ".join(title.split())
    if len(line) <= size:
        return line
    end = size * 2 // 5
    first, last = line[: size - 1 - end], line[-end:]
    before, _, cut = first.rpartition(" ")
    after = last.partition(" ")
    first = before if before and len(cut) < MAX_CUT_WORD else first
    return f"{first.rstrip()}…{after[1] + after[2] if len(after[0]) < MAX_CUT_WORD and after[2] else last}"


def collapse_spaces(text: str) -> str:
    r"""Return the text with single spaces, as a browser shows it.

    A line break between two ideographs is no space.

    >>> collapse_spaces("名前は\n    まだ  無い")
    '名前はまだ 無い'
    """
    if not text.isascii():
        text = _INVISIBLE.sub("", text)
        text = re.sub(_LINE_WRAP, "", text) if "\n" in text else text
    return _SPACES.sub(" ", text).strip(" ")
