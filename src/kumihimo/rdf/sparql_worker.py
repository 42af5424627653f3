"""a SPARQL query -> its solutions, row by row: the handler of a child process."""

import re
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import pyoxigraph as ox

_SERVICE = re.compile("service", re.IGNORECASE)
_ERROR_POSITION = re.compile(r"error at (\d+):(\d+): expected ", re.IGNORECASE)
_UPDATE = re.compile(r"(INSERT|DELETE|LOAD|CLEAR|DROP|CREATE|ADD|MOVE|COPY|WITH)\b", re.IGNORECASE)
_PROLOGUE = re.compile(r"\s+|#[^\n]*|(PREFIX\s+[^\s:<]*:|BASE)\s*<[^>\s]*>", re.IGNORECASE)


class _InvalidQuery(Exception):
    """Error: the query is invalid or not supported."""


def answer_sparql(request: dict[str, Any]) -> Iterator[dict[str, Any] | list[Any]]:
    """Yield the lines of an answer, or an error."""
    try:
        yield from _answer_request(request)
    except _InvalidQuery as error:
        yield {"wrong": str(error)}
    except (OSError, RuntimeError) as error:
        yield {"failed": str(error)}


def _answer_request(request: dict[str, Any]) -> Iterator[dict[str, Any] | list[Any]]:
    query, namespaces = request["query"], {"prefixes": request["prefixes"], "base_iri": request["base"]}
    check_query(query, **namespaces)
    solutions = ox.Store.read_only(request["store"]).query(query, **namespaces)
    if isinstance(solutions, ox.QueryBoolean):
        yield {"kind": "ask", "yes": bool(solutions)}
        return
    if isinstance(solutions, ox.QueryTriples):
        yield {"kind": "graph", "columns": ["subject", "predicate", "object"]}
    else:
        yield {"kind": "rows", "columns": [variable.value for variable in solutions.variables]}
    for row in islice(solutions, request["limit"]):
        yield [_term_to_json(term) for term in row]
    more = request["limit"] is not None and next(solutions, None) is not None
    yield {"more": more}


def _term_to_json(term: Any) -> dict[str, str] | None:
    """Return a term in SPARQL's JSON format."""
    if term is None:
        return None
    if isinstance(term, ox.NamedNode):
        return {"type": "uri", "value": term.value}
    if isinstance(term, ox.BlankNode):
        return {"type": "bnode", "value": term.value}
    if not isinstance(term, ox.Literal):
        return {"type": "literal", "value": str(term)}
    literal = {"type": "literal", "value": term.value}
    if term.language:
        return {**literal, "xml:lang": term.language}
    return literal if term.datatype.value.endswith("#string") else {**literal, "datatype": term.datatype.value}


# -- rejected queries


def check_query(query: str, **namespaces: Any) -> None:
    """Raise _InvalidQuery for invalid queries, updates and SERVICE calls.

    The parser alone can tell if SERVICE is a keyword: the query stays valid with another word in its place only if it
    is not. The check runs on an empty store, so it searches nothing.
    """
    stand_in = next(word for n in count() if (word := f"x{n:06}") not in query)
    try:
        ox.Store().query(_SERVICE.sub(stand_in, query), **namespaces)
    except SyntaxError as error:
        raise _InvalidQuery(_explain_error(query, str(error))) from None
    except ValueError as error:
        raise _InvalidQuery(str(error)) from None


def _explain_error(query: str, error: str) -> str:
    """Return an error message with the place and what is expected there."""
    start = _query_start(query)
    if _UPDATE.match(query, start):
        return "only queries are answered, nothing is changed: documents change with `kumi index`"
    if not (reported := _ERROR_POSITION.match(error)):
        return f"the query cannot be read: {error}"
    symbols, keywords = _parse_expected(error[reported.end() :])
    line_start = sum(len(line) + 1 for line in query.split("\n")[: int(reported[1]) - 1])
    position = line_start + int(reported[2]) - 1 - (0 if symbols else min(map(len, keywords), default=0))
    services = [match for match in _SERVICE.finditer(query) if match.start() <= position]
    if any(not query[service.end() : position].strip() for service in services):
        return "SERVICE would ask another server, which is not done here: ask what is in the index"
    lines_before = query[:position].split("\n")
    excerpt = query[position : position + 30].split("\n")[0].strip()
    near = f", at {excerpt!r}" if excerpt else ", where it ends"
    where = f"line {len(lines_before)}, column {len(lines_before[-1]) + 1}{near}"
    if position == start:
        problem = "expected SELECT, CONSTRUCT, DESCRIBE or ASK"
    elif "Prefix not found" in error:
        problem = "this prefix is not declared: PREFIX name: <IRI> at the beginning does that"
    else:
        problem = f"expected {' or '.join(symbols[:8])}" if symbols else "this is not expected there"
    return f"the query cannot be read: {where}: {problem}"


def _parse_expected(expected: str) -> tuple[list[str], list[str]]:
    """Return expected symbols and keywords from the parser's message.

    The parser lists only the longest keywords, and reports them at the position where they would end.
    """
    plain = expected.removeprefix("one of ").replace("Prefix not found", "")
    cleaned = re.sub(r"\[(?!_\])[^\]]{0,500}\](\s*\|\s*)?", "", plain)
    names = [name.strip() for name in cleaned.split(", ")]
    return [name for name in names if name.startswith('"')], [name for name in names if re.fullmatch(r"\w+", name)]


def _query_start(query: str) -> int:
    """Return where the query starts after prefixes and comments."""
    position = 0
    while (match := _PROLOGUE.match(query, position)) and match.end() > position:
        position = match.end()
    return position
