"""JSON or JSON lines -> a page for each object, or one for the whole file."""

from __future__ import annotations

import json as standard
import re
from collections.abc import Iterator

from kumihimo.core.errors import SourceError
from kumihimo.readers.decode import decode
from kumihimo.readers.page import Page, Row, row_to_page, rows_to_pages

# JSON can escape NUL and lone surrogates, which no text can store. The first group skips pairs and other escapes.
UNSTORABLE_ESCAPE = re.compile(
    r"\\(?:([^u]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2}))"
)


def read_jsonl_pages(data: bytes, name: str) -> Iterator[Page]:
    """Read a page from each line.

    One broken line raises SourceError, so that no file is read in part.
    """
    return rows_to_pages(_parse_rows(_decode_json(data, name), name))


def read_json_pages(data: bytes, name: str) -> Iterator[Page]:
    """Read a page from each object of a list.

    Any other value becomes one page: its `text`, or a line for each value.
    """
    text = _decode_json(data, name)
    if not text.strip():
        return
    value = _parse_value(text, name, "mend it, or name the file .jsonl if each line is a value")
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        yield from rows_to_pages(enumerate(value, 1))
    elif isinstance(value, dict) and "text" in value:
        yield row_to_page(value)
    else:
        title = value.get("title") if isinstance(value, dict) else None
        yield Page(title=title if isinstance(title, str) else "", text="\n\n".join(_flatten(value)))


def _decode_json(data: bytes, name: str) -> str:
    text = decode(data, name)
    return UNSTORABLE_ESCAPE.sub(lambda escape: "\\" + (escape[1] or "ufffd"), text) if r"\u" in text else text


def _parse_rows(text: str, name: str) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines: a JSON string may contain U+2028
        if line.strip():
            row = _parse_value(
                line, f"{name}: line {number}", "mend the line, or name the file .json if it is one value"
            )
            if not isinstance(row, dict):
                raise SourceError(f"{name}: line {number} is no JSON object; name the file .json if it is one value")
            yield number, row


def _parse_value(text: str, location: str, remedy: str) -> object:
    try:
        return standard.loads(text, parse_constant=str)
    except standard.JSONDecodeError as error:
        line = f": line {error.lineno}" if "\n" in text.strip() else ""
        raise SourceError(f"{location}{line} is not JSON ({error.msg}, character {error.colno}); {remedy}") from error
    except (RecursionError, ValueError) as error:  # nesting of 1,000 levels, or a number of over 4,300 digits
        raise SourceError(f"{location} is beyond this reader ({error}); write it flatter or shorter") from error


def _flatten(value: object) -> Iterator[str]:
    """Yield `path.to.key: value` for each value.

    It does not recurse, because a file may be nested deeper than the stack.
    """
    pending = [("", value)]
    while pending:
        path, value = pending.pop()
        children = _children(value)
        if children is not None:
            pending += [(f"{path}.{key}" if path else key, item) for key, item in reversed(children)]
        elif value not in (None, [], ""):
            yield f"{path}: {_format_value(value)}" if path else _format_value(value)


def _children(value: object) -> list[tuple[str, object]] | None:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        return [(str(index), item) for index, item in enumerate(value)]
    return None


def _format_value(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(_format_value(item) for item in value)
    return value if isinstance(value, str) else standard.dumps(value)
