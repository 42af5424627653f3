"""suffix -> media type and reader: the built-in file types."""

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from kumihimo.core.wiring import FileType


def has_ocr() -> bool:
    """Return whether the extra `ocr` is installed."""
    return all(find_spec(module) for module in ("rapidocr", "onnxruntime", "PIL"))


def _read_with(suffixes: str, media_type: str, reader: str, **traits: bool) -> dict[str, FileType]:
    """Return the file type of these suffixes.

    reader: its module and its name, imported when it is called.
    """
    module, name = reader.split(".")

    def read(data: bytes, file: str) -> Iterable[Any]:
        pages: Iterable[Any] = getattr(import_module(read.__module__), name)(data, file)
        return pages

    read.__module__, read.__qualname__ = f"{__name__}.{module}", name
    return dict.fromkeys(suffixes.split(" "), FileType(media_type, read, **traits))


# Suffixes, and the end of their media type.
CODE_LANGUAGES = {
    "python": ".py .pyi",
    "javascript": ".js .mjs .cjs .jsx",
    "typescript": ".ts .mts .tsx",
    "java": ".java",
    "kotlin": ".kt .kts",
    "scala": ".scala",
    "csharp": ".cs",
    "c": ".c .h",
    "c++": ".cc .cpp .cxx .hh .hpp",
    "objective-c": ".m .mm",
    "go": ".go",
    "rust": ".rs",
    "swift": ".swift",
    "dart": ".dart",
    "ruby": ".rb",
    "php": ".php",
    "perl": ".pl .pm",
    "lua": ".lua",
    "r": ".r",
    "julia": ".jl",
    "haskell": ".hs",
    "elixir": ".ex .exs",
    "sql": ".sql",
    "sh": ".sh .bash .zsh",
    "powershell": ".ps1",
}
CODE_TYPES = tuple(f"text/x-{language}" for language in CODE_LANGUAGES)
OFFICE = "application/vnd.openxmlformats-officedocument"
OPEN = "application/vnd.oasis.opendocument"
PICTURES = {  # with the extra `ocr`
    **_read_with(".png", "image/png", "ocr.read_picture"),
    **_read_with(".jpg .jpeg", "image/jpeg", "ocr.read_picture"),
    **_read_with(".tif .tiff", "image/tiff", "ocr.read_picture"),
    **_read_with(".webp", "image/webp", "ocr.read_picture"),
}
READERS: dict[str, FileType] = {
    **_read_with(".txt .text .log", "text/plain", "plain_text.read_plain_text", is_simple=True),
    **_read_with(".rst", "text/x-rst", "rst.read_rst", is_simple=True),
    **_read_with(".org", "text/x-org", "org.read_org", is_simple=True),
    **_read_with(".tex", "text/x-tex", "tex.read_tex", is_simple=True),
    **_read_with(".bib", "application/x-bibtex", "plain_text.read_plain_text", is_simple=True),
    **_read_with(".yaml .yml", "application/yaml", "plain_text.read_plain_text", is_simple=True),
    **_read_with(".md .markdown", "text/markdown", "markdown.read_markdown", is_simple=True),
    **_read_with(".html .htm", "text/html", "html.read_html"),
    **_read_with(".xhtml", "application/xhtml+xml", "html.read_html"),
    **_read_with(".pdf", "application/pdf", "pdf.read_pdf"),
    **_read_with(".docx", f"{OFFICE}.wordprocessingml.document", "docx.read_docx"),
    **_read_with(".pptx", f"{OFFICE}.presentationml.presentation", "pptx.read_pptx"),
    **_read_with(".xlsx", f"{OFFICE}.spreadsheetml.sheet", "workbooks.read_workbook"),
    **_read_with(".xlsm", "application/vnd.ms-excel.sheet.macroEnabled.12", "workbooks.read_workbook"),
    **_read_with(".xls", "application/vnd.ms-excel", "workbooks.read_workbook"),
    **_read_with(".doc", "application/msword", "doc.read_doc"),
    **_read_with(".ppt .pps", "application/vnd.ms-powerpoint", "ppt.read_ppt"),
    **_read_with(".epub", "application/epub+zip", "html.read_epub"),
    **_read_with(".eml", "message/rfc822", "mail.read_mail", has_attachments=True),
    **_read_with(".mbox", "application/mbox", "mail.read_mailbox", has_attachments=True),
    **_read_with(".msg", "application/vnd.ms-outlook", "outlook.read_msg", has_attachments=True),
    **_read_with(".odt", f"{OPEN}.text", "opendocument.read_odt"),
    **_read_with(".odp", f"{OPEN}.presentation", "opendocument.read_odp"),
    **_read_with(".ods", f"{OPEN}.spreadsheet", "opendocument.read_ods"),
    **_read_with(".rtf", "application/rtf", "rtf.read_rtf"),
    **_read_with(".xml", "application/xml", "xml.read_xml_page"),
    **_read_with(".ipynb", "application/x-ipynb+json", "notebook.read_notebook"),
    **_read_with(".vtt", "text/vtt", "subtitles.read_subtitles"),
    **_read_with(".srt", "application/x-subrip", "subtitles.read_subtitles"),
    **_read_with(".zip", "application/zip", "packed.read_zip", has_attachments=True),
    # for a file with no known suffix and no known content
    **_read_with("", "application/octet-stream", "packed.read_unnamed", has_attachments=True),
    **_read_with(".textunits", "application/x-kumihimo-text-units", "plain_text.read_text_units"),
    **_read_with(".csv", "text/csv", "tables.read_delimited", is_simple=True),
    **_read_with(".tsv", "text/tab-separated-values", "tables.read_delimited", is_simple=True),
    **_read_with(".json", "application/json", "tables.read_json_pages", is_simple=True),
    **_read_with(".jsonl .ndjson", "application/jsonl", "tables.read_jsonl_pages", is_simple=True),
    **(PICTURES if has_ocr() else {}),
}
for _type, _suffixes in zip(CODE_TYPES, CODE_LANGUAGES.values(), strict=True):
    READERS |= _read_with(_suffixes, _type, "code.read_code")
