"""a SPARQL query on standard input -> what it finds, line by line: a program of its own, since only one can be stopped.

It is run by the path of this file, and so imports nothing of the house.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import pyoxigraph as ox

MEMORY = 4 << 30  # bytes that a query may take, where the system can hold it to that
_SERVICE = re.compile("service", re.IGNORECASE)
_ERROR_POSITION = re.compile(r"error at (\d+):(\d+): expected ", re.IGNORECASE)
_UPDATE = re.compile(r"(INSERT|DELETE|LOAD|CLEAR|DROP|CREATE|ADD|MOVE|COPY|WITH)\b", re.IGNORECASE)
_PROLOGUE = re.compile(r"\s+|#[^\n]*|(PREFIX\s+[^\s:<]*:|BASE)\s*<[^>\s]*>", re.IGNORECASE)


class _InvalidQuery(Exception):
    """The query is not one that is answered here."""


def main() -> None:
    _limit_memory()
    asked = json.loads(sys.stdin.buffer.read())
    try:
        for line in _answer_request(asked):
            _write_line(line)
    except _InvalidQuery as error:
        _write_line({"wrong": str(error)})
    except (OSError, RuntimeError) as error:
        _write_line({"failed": str(error)})


def _write_line(line: object) -> None:
    """At once: what has been found is not lost when this is stopped."""
    sys.stdout.write(f"{json.dumps(line)}\n")
    sys.stdout.flush()


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # a system without it
        return
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY if most < 0 else min(MEMORY, most), most))


def _answer_request(asked: dict[str, Any]) -> Iterator[dict[str, Any] | list[Any]]:
    query, known = asked["query"], {"prefixes": asked["prefixes"], "base_iri": asked["base"]}
    check_query(query, **known)
    found = ox.Store.read_only(asked["store"]).query(query, **known)
    if isinstance(found, ox.QueryBoolean):
        yield {"kind": "ask", "yes": bool(found)}
        return
    if isinstance(found, ox.QueryTriples):
        yield {"kind": "graph", "columns": ["subject", "predicate", "object"]}
    else:
        yield {"kind": "rows", "columns": [variable.value for variable in found.variables]}
    for row in islice(found, asked["most"]):
        yield [_term_to_json(part) for part in row]
    more = asked["most"] is not None and next(found, None) is not None
    yield {"more": more}


def _term_to_json(term: Any) -> dict[str, str] | None:
    """As SPARQL's JSON has it."""
    if term is None:
        return None
    if isinstance(term, ox.NamedNode):
        return {"type": "uri", "value": term.value}
    if isinstance(term, ox.BlankNode):
        return {"type": "bnode", "value": term.value}
    if not isinstance(term, ox.Literal):
        return {"type": "literal", "value": str(term)}
    told = {"type": "literal", "value": term.value}
    if term.language:
        return {**told, "xml:lang": term.language}
    return told if term.datatype.value.endswith("#string") else {**told, "datatype": term.datatype.value}


# -- what is not answered


def check_query(query: str, **known: Any) -> None:
    """Raises _Wrong where it is no query, changes something, or would ask another server.

    SERVICE is a keyword where the parser, which alone can tell, takes no other word in its place: in texts, remarks and
    names another word is as good. Over an empty store nothing is looked for.
    """
    stand_in = next(word for n in count() if (word := f"x{n:06}") not in query)
    try:
        ox.Store().query(_SERVICE.sub(stand_in, query), **known)
    except SyntaxError as error:
        raise _InvalidQuery(_explain_error(query, str(error))) from None
    except ValueError as error:
        raise _InvalidQuery(str(error)) from None


def _explain_error(query: str, error: str) -> str:
    """Near where it went wrong, and what was expected there as far as the parser tells."""
    begin = _query_start(query)
    if _UPDATE.match(query, begin):
        return "only queries are answered, nothing is changed: documents change with `kumi index`"
    if not (said := _ERROR_POSITION.match(error)):
        return f"the query cannot be read: {error}"
    symbols, keywords = _parse_expected(error[said.end() :])
    at = _offset(query, int(said[1]), int(said[2])) - (0 if symbols else min(map(len, keywords), default=0))
    if any(found.start() <= at and not query[found.end() : at].strip() for found in _SERVICE.finditer(query)):
        return "SERVICE would ask another server, which is not done here: ask what is in the index"
    before = query[:at].split("\n")
    here = query[at : at + 30].split("\n")[0].strip()
    where = f"line {len(before)}, column {len(before[-1]) + 1}{f', at {here!r}' if here else ', where it ends'}"
    if at == begin:
        wanted = "expected SELECT, CONSTRUCT, DESCRIBE or ASK"
    elif "Prefix not found" in error:
        wanted = "this prefix is not declared: PREFIX name: <IRI> at the beginning does that"
    else:
        wanted = f"expected {' or '.join(symbols[:8])}" if symbols else "this is not expected there"
    return f"the query cannot be read: {where}: {wanted}"


def _parse_expected(listed: str) -> tuple[list[str], list[str]]:
    """Symbols and keywords. Of these only the longest are told, as if they were expected where they would end."""
    plain = re.sub(r"\[(?!_\])[^\]]*\](\s*\|\s*)?", "", listed.removeprefix("one of ").replace("Prefix not found", ""))
    names = [name.strip() for name in plain.split(", ")]
    return [name for name in names if name.startswith('"')], [name for name in names if re.fullmatch(r"\w+", name)]


def _offset(query: str, line: int, column: int) -> int:
    return sum(len(above) + 1 for above in query.split("\n")[: line - 1]) + column - 1


def _query_start(query: str) -> int:
    """Where the query proper begins, after prefixes and remarks."""
    at = 0
    while (found := _PROLOGUE.match(query, at)) and found.end() > at:
        at = found.end()
    return at


if __name__ == "__main__":
    main()
