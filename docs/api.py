"""the docstrings of the public names -> the page api.md: python -m docs.api"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("api.md")
INTRODUCTION = """# The API

This page lists the public names of Kumihimo with their types. [Python](python.md) shows how to use them. Names that are
not on this page may change without notice.
"""
EXTENSIONS = """`kumihimo.ext` exports everything that a method, a step or a reader may import: the records, `Context`
and `Evidence`, the types of all inputs, and these.
"""
INPUTS = "[Add a method](add-a-method.md) shows how to declare these.\n"
# heading -> what stands below it, the module, and its names; a name may be followed by the members to list
SECTIONS: dict[str, tuple[str, str, str]] = {
    "An index": (
        "",
        "kumihimo",
        "Kumihimo AsyncKumihimo IndexPlace:at,name,base copy_index CopiedIndex import_store Imported Caps Budget: "
        "CancelToken KumiError Cancelled",
    ),
    "Answers and evidence": (
        "",
        "kumihimo",
        "Query:of Answer Part Citation Span Context Evidence Usage Solutions RdfTerm",
    ),
    "Builds, estimates and status": (
        "",
        "kumihimo",
        "Built BatchState ProgressEvent Plan Estimate Total LocalWork Status CommunityLevel UsageEntry CheckResult "
        "Problem",
    ),
    "Records": ("", "kumihimo", "Record Document Chunk"),
    "Snapshots": ("", "kumihimo", "Snapshot:table,retrieve,ask,trace,trace_part,find"),
    "Extensions": (EXTENSIONS, "kumihimo.ext", "declare reads AddressForm KeyVariable TextForm QueryCost:"),
    "Tests of extensions": ("", "kumihimo.testing", "check_laws"),
    "Inputs of methods and steps": (
        INPUTS,
        "kumihimo.ext",
        "Table:get,get_many,where,columns KeywordSearch RowTokens VectorSearch LLM:__call__,samples Reranker "
        "NamedEntityRecognizer Tokenizer",
    ),
}
HIDDEN = {"cache", "models", "pids", "embed"}  # members for the package itself


def write_page() -> str:
    """Return the page."""
    parts = [INTRODUCTION]
    for heading, (text, module, names) in SECTIONS.items():
        parts += [f"## {heading}\n", *filter(None, [text])]
        for entry in names.split():
            name, _, members = entry.partition(":")
            value = getattr(import_module(module), name)
            parts += _describe(value, name, members.split(",") if ":" in entry else None)
    return "\n".join(parts)


def _describe(value: Any, name: str, members: Sequence[str] | None) -> Iterator[str]:
    """Yield the heading, the signature and the docstring of a name, and its members."""
    node = _parse(value)
    yield f"### {name}\n"
    if isinstance(node, ast.ClassDef):
        if fields := [ast.unparse(n) for n in node.body if isinstance(n, ast.AnnAssign) and _is_public(_target(n))]:
            yield _fence(f"{name}(", fields, ")")
        yield _docstring(node)
        functions = [each for each in node.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
        for function in functions:
            if function.name in members if members is not None else _is_listed(function.name):
                yield _sign(function)
                yield _docstring(function)
    else:
        yield _sign(node)
        yield _docstring(node)


def _parse(value: Any) -> Any:
    return ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]


def _target(node: ast.AnnAssign) -> str:
    return ast.unparse(node.target) if "ClassVar" not in ast.unparse(node.annotation) else "_"


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def _is_listed(name: str) -> bool:
    return name == "__call__" or (_is_public(name) and name not in HIDDEN)


def _sign(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the signature of a function, as Python writes it."""
    arguments = node.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        del arguments.args[0]
    kinds = [ast.unparse(each) for each in node.decorator_list]
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    if "property" in kinds:
        return _fence(f"{node.name}{result.replace(' -> ', ': ')}", [], "")
    begin = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return _fence(f"{begin}{node.name}(", _split(ast.unparse(arguments)), f"){result}")


def _split(arguments: str) -> list[str]:
    """Split arguments at the commas outside of brackets."""
    depth, parts = 0, [""]
    for character in arguments:
        depth += (character in "([{") - (character in ")]}")
        parts = [*parts, ""] if character == "," and not depth else [*parts[:-1], parts[-1] + character]
    return [part.strip() for part in parts if part.strip()]


def _fence(begin: str, parts: Sequence[str], end: str) -> str:
    """Return code on one line, or with a line for each part."""
    line = f"{begin}{', '.join(parts)}{end}"
    if len(line) > 100:
        line = "\n".join([begin, *(f"    {part}," for part in parts), end])
    return f"```py\n{line}\n```\n"


def _docstring(node: Any) -> str:
    text = ast.get_docstring(node) or ""
    return re.sub(r"\n\n>>> .*", "", text, flags=re.DOTALL) + "\n" if text else ""


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
