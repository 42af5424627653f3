"""source code -> a page of the file as it is, with its classes and functions as places."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from warnings import catch_warnings, simplefilter

from kumihimo.readers.page import MAX_LABEL_CHARS, Page, Places
from kumihimo.readers.text import decode

MODIFIERS = (
    "export default public private protected internal static final abstract async pub unsafe extern virtual override "
    "sealed partial data open inline const suspend local"
)
KINDS = (
    "class interface struct enum trait impl module namespace def defp defmodule function fn func fun sub record object "
    "protocol extension mod type"
)
NAME = r"([A-Za-z_$][\w$.:?!-]{0,200})"
# Compiled at the first use. The first one: `class Reader`, `pub(crate) async fn read`, `func (r *Reader) Read`,
# `impl<T> Reader`. The others: `const read = async (file) =>`, `public List<Row> rows(`, `static int read(`,
# `read() {`, `CREATE TABLE rows`.
DEFINITION = (
    rf"(?im)^([ \t]*)(?:(?:{'|'.join(MODIFIERS.split())})\b(?:\([^)\n]{{0,40}}\))?[ \t]+){{0,6}}"
    rf"(?:(?:{'|'.join(KINDS.split())})\b\*?(?:<[^>\n]{{0,80}}>)?[ \t]+){{1,2}}(?:\([^)\n]{{0,80}}\)[ \t]*)?{NAME}"
)
OTHER_FORMS = (
    rf"(?m)^([ \t]*)(?:export[ \t]+)?(?:const|let|var)[ \t]+{NAME}[ \t]*=[ \t]*"
    r"(?:async[ \t]*)?(?:\([^)\n]{0,200}\)|\w{1,80})[ \t]*=>",
    r"(?m)^([ \t]+)(?:(?:public|private|protected|internal|static|final|override|virtual|async)[ \t]+){1,5}"
    rf"[\w<>\[\],.?]{{1,80}}[ \t]+{NAME}[ \t]*\(",
    rf"(?m)^()(?:[A-Za-z_][\w:<>]{{0,60}}[ \t*&]+){{1,4}}{NAME}[ \t]*\([^;{{}}]{{0,400}}\)\s{{0,4}}\{{",
    rf"(?m)^([ \t]*){NAME}[ \t]*\(\)[ \t]*\{{",
    r"(?im)^()create[ \t]+(?:or[ \t]+replace[ \t]+)?(?:temp(?:orary)?[ \t]+)?"
    rf"(?:table|view|function|procedure|trigger)[ \t]+(?:if[ \t]+not[ \t]+exists[ \t]+)?{NAME}",
)
NO_NAMES = {"if", "for", "while", "switch", "return", "else", "catch", "when", "of", "in", "is", "the", "a", "from"}


def read_code(data: bytes, name: str) -> Iterator[Page]:
    """Read the file as it is.

    Its places are classes and functions, with the line where each begins.
    """
    text, path = decode(data, name), PurePosixPath(name)
    found = _python_definitions(text) if path.suffix.lower() in (".py", ".pyi") else None
    yield Page(title=path.name, text=text, places=_to_places(text, found or _definitions(text)))


def _python_definitions(text: str) -> list[tuple[int, str]] | None:
    """Return line and full name of each definition.

    None if it is no valid Python.
    """
    import ast  # here: other languages need none

    try:
        with catch_warnings():
            simplefilter("ignore")  # of backslashes in its strings
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found, pending = list[tuple[int, str]](), list[tuple[ast.AST, str]]([(tree, "")])
    while pending:
        node, above = pending.pop()
        for child in ast.iter_child_nodes(node):
            name = above
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{above}.{child.name}".lstrip(".")
                first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
                found.append((first, name))
            if isinstance(child, ast.stmt):
                pending.append((child, name))
    return sorted(found)


def _definitions(text: str) -> list[tuple[int, str]]:
    """Return line and full name of what looks like a definition.

    One with a larger indent belongs to the one above.
    """
    matches = {match.start(): match for pattern in (*OTHER_FORMS, DEFINITION) for match in re.finditer(pattern, text)}
    found, open_names, line, position = list[tuple[int, str]](), list[tuple[int, str]](), 1, 0
    for start, match in sorted(matches.items()):
        indent, name = len(match[1].expandtabs(4)), match[2].rstrip(".:-")
        if not name or name in NO_NAMES:
            continue
        line, position = line + text.count("\n", position, start), start
        open_names = [each for each in open_names if each[0] < indent]
        open_names.append((indent, name))
        found.append((line, ".".join(name for _, name in open_names)))
    return found


def _to_places(text: str, found: list[tuple[int, str]]) -> Places:
    """Return the places of definitions, such as `§ Reader.read:12`."""
    starts, position = [0], -1
    while (position := text.find("\n", position + 1)) >= 0:
        starts.append(position + 1)
    places = [(starts[line - 1], f"§ {name[:MAX_LABEL_CHARS]}:{line}") for line, name in found if line <= len(starts)]
    return ((0, "line 1"), *places) if places and places[0][0] else tuple(places)
