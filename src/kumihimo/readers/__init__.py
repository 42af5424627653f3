"""suffix -> media type and reader: the built-in file types."""

from kumihimo.core.catalogue import FileType
from kumihimo.readers import docx, html, mail, pdf, pptx, tables, text, workbooks

OFFICE = "application/vnd.openxmlformats-officedocument"
READERS: dict[str, FileType] = {
    ".txt": FileType("text/plain", text.read_plain_text, is_simple=True),
    ".text": FileType("text/plain", text.read_plain_text, is_simple=True),
    ".log": FileType("text/plain", text.read_plain_text, is_simple=True),
    ".rst": FileType("text/x-rst", text.read_plain_text, is_simple=True),
    ".org": FileType("text/x-org", text.read_plain_text, is_simple=True),
    ".tex": FileType("text/x-tex", text.read_plain_text, is_simple=True),
    ".md": FileType("text/markdown", text.read_markdown, is_simple=True),
    ".markdown": FileType("text/markdown", text.read_markdown, is_simple=True),
    ".html": FileType("text/html", html.read_html),
    ".htm": FileType("text/html", html.read_html),
    ".xhtml": FileType("application/xhtml+xml", html.read_html),
    ".pdf": FileType("application/pdf", pdf.read_pdf),
    ".docx": FileType(f"{OFFICE}.wordprocessingml.document", docx.read_docx),
    ".pptx": FileType(f"{OFFICE}.presentationml.presentation", pptx.read_pptx),
    ".xlsx": FileType(f"{OFFICE}.spreadsheetml.sheet", workbooks.read_workbook),
    ".xlsm": FileType("application/vnd.ms-excel.sheet.macroEnabled.12", workbooks.read_workbook),
    ".xls": FileType("application/vnd.ms-excel", workbooks.read_workbook),
    ".epub": FileType("application/epub+zip", html.read_epub),
    ".eml": FileType("message/rfc822", mail.read_mail, has_attachments=True),
    ".csv": FileType("text/csv", tables.read_delimited, is_simple=True),
    ".tsv": FileType("text/tab-separated-values", tables.read_delimited, is_simple=True),
    ".json": FileType("application/json", tables.read_json_pages, is_simple=True),
    ".jsonl": FileType("application/jsonl", tables.read_jsonl_pages, is_simple=True),
    ".ndjson": FileType("application/jsonl", tables.read_jsonl_pages, is_simple=True),
}
