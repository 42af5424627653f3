"""a plain text, or one with the units of another system (.textunits) -> a page, without the notices of a library."""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from kumihimo.core.errors import SourceError
from kumihimo.readers.page import Page
from kumihimo.readers.text import decode
from kumihimo.text.text_units import UNITS_FORMAT, TextUnits, dump_units, load_text_units

# What ends a text: the source of an edition of Aozora Bunko, the end of a book of Project Gutenberg, a licence below
# a rule.
COLOPHON = re.compile(r"^底本：", re.M)
TYPIST = re.compile(r"^入力：|青空文庫", re.M)
GUTENBERG_START = re.compile(r"^\*\*\* ?START OF TH(?:E|IS) PROJECT GUTENBERG .*$", re.M)
GUTENBERG_END = re.compile(r"^(?:\*\*\* ?END OF TH(?:E|IS) PROJECT GUTENBERG |End of (?:the )?Project Gutenberg)", re.M)
GUTENBERG_FIELD = re.compile(r"^(Title|Author|Language|Translator): *(\S[^\r\n]*)", re.M)
LICENCE = re.compile(
    r"(?m)^ {0,3}(?:-{3,}|\*{3,}|_{3,})[ \t]*\r?\n\s*+"
    r"((?:[*_>#<\[ ]|\bthe\b)*(?:©|&copy;|\(c\) ?\d|copyright\b|licen[sc]ed? under|all rights reserved|CC[ -]BY\b"
    r"|this (?:work|page|text|document|documentation|article|site|website|content|file|book) is "
    r"(?:\w+ )?(?:licen[sc]ed|available|published|distributed)|(?:content|text)s? (?:is|are) (?:licen[sc]ed|available) "
    r"under"
    r"|本(?:文書|書|作品|ページ|記事|資料|サイト)は[^\n]{0,60}ライセンス|本(?:文|作品|页|文档)采用[^\n]{0,60}许可)"
    r"[^\n]*(?:\n(?![ \t]*\r?\n)[^\n]*){0,5})\s*\Z",
    re.I,
)
MAX_LICENCE_CHARS = 1500
MAX_FIELD_CHARS = 300
# The marks of Aozora Bunko: https://www.aozora.gr.jp/annotation/
AOZORA = re.compile(r"［＃[^］\n]{1,400}］|【テキスト中に現れる記号について】")
AOZORA_HEAD = re.compile(
    r"\A((?:(?!-{20})[^\n]*\n){1,12})-{20,}[ \t]*\r?\n(?:(?!-{20})[^\n]*\n){1,60}-{20,}[ \t]*\r?\n"
)
AOZORA_HEADING = re.compile(r"^([^\n［]*)［＃「[^」\n]*」は(?:同行|窓)?(大|中|小)見出し］", re.M)
AOZORA_HEADING_BLOCK = re.compile(r"^［＃(大|中|小)見出し］([^\n［]*)［＃", re.M)
LEVELS = {"大": "# ", "中": "## ", "小": "### "}
GAIJI = re.compile(r"※［＃[^］\n]{0,200}?(?:U\+([0-9A-F]{4,5})|([12])-(\d{1,2})-(\d{1,2}))[^］\n]{0,200}］")
RUBY_OR_NOTE = re.compile(r"《[^》\n]{0,400}》|［＃[^］\n]{0,400}］|｜")


def read_plain_text(data: bytes, name: str) -> Iterator[Page]:
    """Read the file without the marks and notices of libraries.

    A text of Aozora Bunko has no readings and notes, and its title and author are those of its first lines.
    """
    text = decode(data, name)
    end, metadata = find_footer(text)
    text, title, body = text[:end], "", 0
    if AOZORA.search(text) or "colophon" in metadata:
        title, more, body = _read_aozora_head(text)
        text, metadata = text[:body] + drop_aozora_marks(text[body:]), {**metadata, **more}
    elif "PROJECT GUTENBERG" in text and (start := GUTENBERG_START.search(text)):
        fields = {
            key.lower(): value.strip()[:MAX_FIELD_CHARS] for key, value in GUTENBERG_FIELD.findall(text[: start.end()])
        }
        title, body, metadata = fields.pop("title", ""), start.end(), {**metadata, **fields}
    yield Page(title=title, text=text, metadata=metadata, body=body)


def find_footer(text: str) -> tuple[int, Mapping[str, object]]:
    """Return the end of the text above a notice, and the notice.

    >>> text = "The sea.\\n\\n---\\nLicensed under CC BY 4.0.\\n"
    >>> find_footer(text)
    (10, {'rights': 'Licensed under CC BY 4.0.'})
    """
    if "底本：" in text and (found := list(COLOPHON.finditer(text))) and TYPIST.search(text, found[-1].end()):
        return found[-1].start(), {"colophon": _shorten(text[found[-1].start() :])}
    if "GUTENBERG" in text[-30_000:].upper() and (found_end := GUTENBERG_END.search(text)):
        return found_end.start(), {}
    begin = max(0, len(text) - MAX_LICENCE_CHARS)
    notice = LICENCE.search(text, begin)
    return (notice.start(), {"rights": _shorten(notice[1])}) if notice and notice.start() else (len(text), {})


def _shorten(text: str) -> str:
    return " ".join(text.split()).lstrip("*_># ")[:MAX_FIELD_CHARS]


def _read_aozora_head(text: str) -> tuple[str, dict[str, object], int]:
    """Return title, author and length of the lines before the text.

    Without the block that explains the marks, there is no head.
    """
    head = AOZORA_HEAD.match(text)
    lines = [line.strip() for line in head[1].splitlines() if line.strip()] if head else []
    if not head or not lines:
        return "", {}, 0
    return drop_aozora_marks(lines[0]), {"author": lines[-1]} if len(lines) > 1 else {}, head.end()


def drop_aozora_marks(text: str) -> str:
    """Drop the readings and notes in a text of Aozora Bunko.

    >>> drop_aozora_marks("一［＃「一」は中見出し］\\n　｜大路《おおじ》の※［＃「さんずい＋廣」、U+7002、1-2］")
    '## 一\\n　大路の瀂'
    """
    text = AOZORA_HEADING.sub(lambda line: LEVELS[line[2]] + line[1].strip(), text)
    text = AOZORA_HEADING_BLOCK.sub(lambda line: f"{LEVELS[line[1]]}{line[2].strip()}［＃", text)
    return RUBY_OR_NOTE.sub("", GAIJI.sub(_gaiji_character, text))


def _gaiji_character(note: re.Match[str]) -> str:
    """Return the character that a note describes by its code."""
    if note[1]:
        return chr(int(note[1], 16))
    plane, row, cell = (int(number) for number in note.groups()[1:])
    try:
        return (b"\x8f" * (plane == 2) + bytes([row + 0xA0, cell + 0xA0])).decode("euc_jis_2004")
    except (UnicodeDecodeError, ValueError):
        return "※"


# -- texts of other systems

_DIGEST = re.compile("[0-9a-f]{16,64}")


def read_text_units(data: bytes, name: str) -> Iterator[Page]:
    """Read the text of an import; its units go along.

    Raises SourceError if the file has another format, or if its units do not fit its text.
    """
    from pydantic import ValidationError

    text = decode(data, name).strip()
    if not text:
        return
    try:
        content = load_text_units(text)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise SourceError(f"{name}: {place or 'content'}: {fault['msg']}; write it again with `kumi import`") from error
    if reason := _find_fault(content):
        raise SourceError(f"{name}: {reason}; write it again with `kumi import`")
    imported = dump_units(content.units)
    yield Page("", content.title, content.text, content.metadata, content.modified, imported=imported)


def _find_fault(content: TextUnits) -> str:
    """Return what is wrong with units, or empty."""
    if content.format != UNITS_FORMAT:
        return f"its format is {content.format[:40]!r}, not {UNITS_FORMAT!r}"
    ends = [(unit.start, unit.end) for unit in content.units]
    if not ends or any(not 0 <= start < end <= len(content.text) for start, end in ends):
        return "a unit lies outside of the text"
    if any(first >= second for first, second in pairwise(start for start, _ in ends)):
        return "the units are not in the order of their starts"
    keys = (key for unit in content.units for each in unit.communities for key in (each.key, each.parent or each.key))
    if any(not _DIGEST.fullmatch(key) for key in keys):
        return "the key of a community is no digest"
    return ""
