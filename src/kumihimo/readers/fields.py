"""a page, its file's name and media type -> the fields of every document: author, date, language, kind."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import cache

from kumihimo.readers import CODE_TYPES
from kumihimo.readers.page import Page
from kumihimo.text.dates import list_dates
from kumihimo.text.languages import MAX_CHARS, find_language, latin_languages

AUTHOR_KEYS = ("author", "authors", "creator", "著者", "作者", "筆者", "執筆者", "作成者", "autor", "auteur")
DATE_KEYS = ("date", "published", "published_at", "pubdate", "issued", "created", "created_at")
MORE_DATE_KEYS = ("日付", "日期", "発行日", "作成日", "datum", "fecha", "year", "年")
PATH_KEYS = ("path", "permalink", "url")  # of a page of a blog, which has its date in its address
LANGUAGE_KEYS = ("language", "lang", "言語", "语言")
KINDS = {  # what a person calls such a document, and parts of its media types; the first one counts
    "document": "wordprocessingml msword opendocument.text rtf",
    "slides": "presentation powerpoint",
    "sheet": "spreadsheet excel csv tab-separated-values",
    "page": "html",
    "pdf": "pdf",
    "book": "epub",
    "mail": "rfc822 outlook",
    "mailbox": "mbox",
    "text": "plain markdown x-rst x-org x-tex text-units",
    "notebook": "ipynb",
    "data": "json yaml application/xml",
    "references": "bibtex",
    "subtitles": "vtt subrip",
    "archive": "zip",
    "picture": "image/",
    "": "octet-stream",
}
_MAX_CHARS, _MAX_AUTHORS = 200, 20  # of an author; of a list of them
_HEAD_CHARS, _HEAD_LINES = 600, 8  # where a byline may stand
# An account or a program, which wrote nothing; its date is then that of a template.
_PROGRAM = re.compile(r"\b(?:python-docx|python-pptx|openpyxl|xlsxwriter|apache poi|phpword|phpspreadsheet)\b", re.I)
_GENERATED = re.compile(rf"generated (?:by|using) {_PROGRAM.pattern}", re.I)
_ACCOUNT = (  # compiled at its first use
    r"(?i)(?:(?:the|ms|microsoft|windows|office|home|pc|my)\s+)*(?:user|admin(?:istrator)?|owner|root|guest|author|unknown"
    r"|anonymous|none|n/?a|me|pc|office|libreoffice|openoffice(?:\.org)?|canva|adobe\b.*|pandoc|latex.*|\W*"
    r"|匿名|不明|管理者|管理员|用户|ユーザー|作成者)\s*\d*"
)
_ZERO_DATES = ("0001-01-01", "1899-12-30", "1899-12-31", "1900-01-01", "1904-01-01", "1970-01-01", "1980-01-01")
_NAME = r"[^\W\d_a-z][\w.'’-]*"  # with a capital
_NAMES = rf"{_NAME}(?:[\s,]+(?:(?:de|van|von|der|la|di|da|dos|and|und|et|y|e|&)\s+)*{_NAME})"
_BYLINE = re.compile(
    rf"(?:(?:Written )?[Bb]y|[Vv]on|[Pp]ar|[Pp]or)\s+({_NAMES}{{1,5}})"
    rf"|(?:A(?:uthor|UTHOR)s?|Written by|Autor(?:en|es)?|Auteurs?|Verfasser(?:in)?)\s*[:：]\s*({_NAMES}{{1,8}})"
    r"|(?:著者|作者|筆者|執筆者?|文責)\s*[:：]\s*([^\W\d_a-z][^\n;|。.:：、\d]{1,40})"
)
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_NUMBER = re.compile("[0-9０-９〇零一二三四五六七八九十元]")
_FISCAL_YEAR = re.compile(r"(?:\d{4}|(?:明治|大正|昭和|平成|令和).{1,3})年度|\d{4}[-_–](?!0[1-9]|1[0-2])\d\d(?!\d)")
_LETTER_TO_DIGIT = re.compile(r"(?<=[^\W\d_])[-_]+(?=\d)|(?<=\d)[-_]+(?=[^\W\d_])")
_FOLDERS = re.compile(r"(?:^|/)((?:19|20)\d\d)(?:[-/_](\d\d)(?:[-/_](\d\d))?)?(?=/|$)")
_HEADING = re.compile(r"^#{1,6} (.+)", re.M)
_LANGUAGE_CODE = re.compile(r"([a-z]{2})(?:[-_][\w-]+)?", re.I)
_LANGUAGE_NAMES = "English en German de Deutsch de French fr Français fr Spanish es Español es Italian it Italiano it "
_LANGUAGE_NAMES += "Portuguese pt Dutch nl Japanese ja 日本語 ja Chinese zh 中文 zh Korean ko Russian ru Latin la"


def complete_fields(page: Page, path: str, media_type: str) -> dict[str, object]:
    """Return the fields of a document that are known.

    path: of its file. `date_source` says where the date stands: in the metadata, the front matter, the name of the file
    or its folder, or the first heading. A `kind` of its own counts. What is not clear is left out.
    """
    own = {str(key).casefold(): value for key, value in page.metadata.items()}
    kind, own_kind = find_kind(media_type), own.get("kind")
    head = page.text[page.body : page.body + _HEAD_CHARS]
    found, source = _find_date(own, page, path, "" if kind == "code" else head)
    fields = {
        "author": _find_author(own, kind) or _find_byline(head),
        "date": found,
        "date_source": source,
        "language": _find_language(own, page.text[page.body : page.body + MAX_CHARS], is_code=kind == "code"),
        "kind": own_kind if isinstance(own_kind, str) and len(own_kind) <= _MAX_CHARS else kind,
    }
    return {name: value for name, value in fields.items() if value}


@cache
def find_kind(media_type: str) -> str:
    """Return what a person calls a document of this type.

    >>> [find_kind(each) for each in ("text/x-python", "text/csv", "text/calendar", "application/octet-stream")]
    ['code', 'sheet', 'calendar', '']
    """
    if media_type in CODE_TYPES:
        return "code"
    found = (kind for kind, parts in KINDS.items() if any(part in media_type for part in parts.split()))
    return next(found, media_type.rpartition("/")[2].removeprefix("x-"))


def _find_author(own: Mapping[str, object], kind: str) -> object:
    """Return the first author that the metadata states, or a list."""
    keys = (*AUTHOR_KEYS, "from") if kind == "mail" else AUTHOR_KEYS
    for values in (own[key] for key in keys if key in own):
        names = list(_person_names(values if isinstance(values, list) else [values]))[:_MAX_AUTHORS]
        if names:
            return names if len(names) > 1 else names[0]
    return ""


def _person_names(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        name = value.get("name") if isinstance(value, Mapping) else value
        plain = " ".join(name.split()) if isinstance(name, str) else ""
        if 0 < len(plain) <= _MAX_CHARS and not re.fullmatch(_ACCOUNT, plain) and not _PROGRAM.search(plain):
            yield plain


def _find_byline(head: str) -> str:
    """Return the author in a line such as `By Bo Lind`."""
    for line in head.split("\n")[:_HEAD_LINES]:
        if match := _BYLINE.fullmatch(line.strip("#*_>/ \t\r-")):
            return next(_person_names([match[match.lastindex or 0]]), "")
    return ""


def _find_date(own: Mapping[str, object], page: Page, path: str, head: str) -> tuple[str, str]:
    """Return the date of a document and where it stands.

    head: the text with the first heading; empty for code, where a comment looks like one.
    """
    if found := _stated_date(own):
        return found, "front matter" if page.body else "metadata"
    if found := _date_of_name(path):
        return found, "name"
    heading = _HEADING.search(head)
    dates = map(_read_date, dict.fromkeys([page.title, heading[1] if heading else ""]) if head else ())
    found = next((date for date in dates if len(date) > 4), "")  # a year may be a topic
    return found, "heading" if found else ""


def _stated_date(own: Mapping[str, object]) -> str:
    """Return the first date that the metadata states.

    A program that makes files leaves there the date of its template.
    """
    if _PROGRAM.search(str(own.get("author", ""))) or _GENERATED.match(str(own.get("description", ""))):
        return ""
    dates = [_read_date(str(own[key])[:_MAX_CHARS]) for key in (*DATE_KEYS, *MORE_DATE_KEYS) if key in own]
    dates += [found for key in PATH_KEYS if len(found := _date_of_folders(str(own.get(key, ""))[:_MAX_CHARS])) > 4]
    return next(filter(None, dates), "")


def _read_date(text: str) -> str:
    """Return the only date in a text as ISO 8601."""
    if _ISO_DATE.fullmatch(text):
        return text.replace(" ", "T") if _is_calendar_date(text[:10]) else ""
    if not _NUMBER.search(text):
        return ""
    found = dict.fromkeys(list_dates(text))
    longest = max(found, key=lambda each: (not each.startswith("--"), len(each)), default="")
    is_only = all(each.removeprefix("--") in longest for each in found)
    return longest if is_only and _is_calendar_date(longest) else ""


def _is_calendar_date(text: str) -> bool:
    try:
        return text not in _ZERO_DATES and bool(date.fromisoformat(text + "-01-01"[len(text) - 4 :]))
    except ValueError:
        return False


def _date_of_name(path: str) -> str:
    """Return the date in the name of a file or folder.

    A year in a longer name is often a topic or a number.

    >>> paths = ("2024-05-18-minutes.md", "notes/2024/05/a.md", "May-2024.md", "goals-2024.md", "2023年度.md")
    >>> [_date_of_name(path) for path in paths]
    ['2024-05-18', '2024-05', '2024-05', '', '']
    """
    folders, _, name = path.rpartition("/")
    stem = name.rpartition(".")[0] or name
    found = _read_date(_LETTER_TO_DIGIT.sub(" ", _FISCAL_YEAR.sub(" ", stem)))
    return found if len(found) > 4 else _date_of_folders(f"{folders}/{stem}")


def _date_of_folders(path: str) -> str:
    """Return the date in a path or an address, such as `/2024/05/`."""
    parts = _FOLDERS.search(path)
    return _read_date("-".join(filter(None, parts.groups()))) if parts else ""


def _find_language(own: Mapping[str, object], text: str, *, is_code: bool) -> object:
    """Return the language of a text, or the list in its metadata.

    What a template states is often wrong, so the text counts more where it is clear.
    """
    stated = next((own[key] for key in LANGUAGE_KEYS if own.get(key)), "")
    codes = [code for value in (stated if isinstance(stated, list) else [stated]) if (code := _language_code(value))]
    found = find_language(text)
    if is_code and found in latin_languages():
        return ""
    if found and (not codes or (found not in codes and codes[0] in latin_languages())):
        return found
    return codes if len(codes) > 1 else "".join(codes)


def _language_code(value: object) -> str:
    name = str(value).strip()[:_MAX_CHARS]
    code = _LANGUAGE_CODE.fullmatch(name)
    return code[1].lower() if code else _CODE_OF_NAME.get(name.casefold(), "")


_CODE_OF_NAME = dict(zip(*(iter(_LANGUAGE_NAMES.casefold().split()),) * 2, strict=True))
