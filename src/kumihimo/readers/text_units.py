"""a text with what another system has made of it (.textunits) -> a page."""

import re
from collections.abc import Iterator
from itertools import pairwise

from kumihimo.core.errors import SourceError
from kumihimo.readers.page import Page
from kumihimo.readers.text import decode
from kumihimo.text.text_units import UNITS_FORMAT, TextUnits, dump_units, load_text_units

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
