"""texts of a program -> files in the index folder, which a build reads like those of any folder."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from kumihimo.app.opened.results import Fields, Strings
from kumihimo.core.digests import hash_parts, replace_surrogates
from kumihimo.core.errors import SettingsError, SourceError
from kumihimo.index.sources import TEXTS_FOLDER
from kumihimo.readers.front_matter import to_json_value
from kumihimo.readers.markdown import first_title
from kumihimo.readers.remote.mirror import changed_files
from kumihimo.readers.remote.origins import text_file_name as text_file_name
from kumihimo.text.safe_write import is_link
from kumihimo.text.sentences import shorten_title

_DIGEST = re.compile(r"[0-9a-fA-F-]{16,}")  # an id that names nothing, as a program makes it
_TITLE_CHARS = 80  # of the first line, which is the title then


def dump_texts(
    texts: Strings, ids: Strings = None, titles: Strings = None, metadata: Fields | Sequence[Fields] | None = None
) -> dict[str, bytes]:
    """Return the files of texts by name, each a row of JSON.

    Parameters: as for `Kumihimo.index_texts`. Raise SettingsError for what cannot be stored.
    """
    listed, files = _list_values(texts), dict[str, bytes]()
    columns = {"ids": _list_values(ids), "titles": _list_values(titles), "metadata": _list_values(metadata)}
    for name, values in columns.items():
        if values and len(values) != len(listed):
            raise SettingsError(f"there are {len(listed):,} texts, and {len(values):,} {name}: give one for each text")
    for text, id, title, fields in zip_longest(listed, *columns.values()):
        kinds = {type(value).__name__ for value in (text, id, title) if not isinstance(value, str | None)}
        if text is None or kinds:
            kind = min(kinds, default="None")
            raise SettingsError(f"texts, ids and titles are strings, not {kind}: index a file by its path")
        if not isinstance(fields, Mapping | None):
            raise SettingsError(f"metadata are a dictionary for each text, not {type(fields).__name__}")
        key = replace_surrogates(id or "") or hash_parts(str(text))  # also for a string of NumPy
        file = text_file_name(key)
        if id and file in files:
            raise SettingsError(f"two texts have the id {key[:100]!r}: give each text one of its own")
        named = {**(fields or {}), **({"title": title} if title else {})}
        files[file] = _dump_row(key, text, named)
    return files


@contextmanager
def stored_texts(index: Path, files: Mapping[str, bytes]) -> Iterator[Path]:
    """Write the files of texts into the index folder; yield theirs.

    If the block fails, they are as they were.
    """
    folder = index.resolve() / TEXTS_FOLDER
    if is_link(folder):
        raise SourceError(f"{folder} is a link: remove it, or choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    with changed_files({folder / name: data for name, data in files.items()}):
        yield folder


def _list_values(values: object) -> list[Any]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable | None):
        return [values]
    return [*(() if values is None else values)]


def _dump_row(id: str, text: str, fields: Fields) -> bytes:
    """Return a row with the fields of a document.

    Its id and text replace fields of these names.
    """
    name = shorten_title(text.strip().partition("\n")[0], _TITLE_CHARS) if _DIGEST.fullmatch(id) else id
    title = fields.get("title") or first_title(text) or name
    row = {"kind": "text", **fields, "id": id, "title": title, "text": text}
    try:
        return replace_surrogates(json.dumps(row, ensure_ascii=False, default=to_json_value)).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SettingsError(f"the metadata of {id[:100]!r} is no JSON ({error}): give plain values") from error
