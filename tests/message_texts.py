"""the source -> every text that a person may see as a message, with {0}, {1} where values stand."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from importlib import import_module
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from jinja2 import Environment
from jinja2.nodes import Call, Concat, CondExpr, Const, Name, Node

import kumihimo
from kumihimo.cli import main
from kumihimo.cli.repl import SLASH_COMMANDS
from kumihimo.index.mentions import TYPE_MEANINGS
from kumihimo.methods import METHODS
from kumihimo.page import script_labels

HOUSE = Path(kumihimo.__file__).parent
NOT_SHOWN = {
    "AssertionError",
    "MalformedReply",
    "StepError",
    "ValueError",
    "PydanticCustomError",
    "TypeError",
    "AttributeError",
    "FileNotFoundError",
    "Exit",
}
ERRORS = re.compile(
    r"^(?!Os|OS)_?[A-Z]\w*(Error|Failed|Exceeded|Refused|Busy|Damaged|Unavailable|Required|Format|Try)$"
)
ERRORS_TOO = {"UndefinedEstimate", "LateReply", "Interrupted", "_InvalidQuery", "StoreRemoved", "RequestTimedOut"}
ERRORS_TOO |= {"NotStored", "UnparsableReply", "Problem", "_gold_error", "error", "wrong", "offline"}
PRINTERS = {
    "add_note",
    "translate",
    "print_message",
    "describe_unknown",
    "check_choice",
    "print_error",
    "print_note",
    "confirm",
    "Problem",
}
IGNORED = {
    "braid",
    "{0}.run",
    "kumi: {0}",
    "json_schema",
    "response_format",
    "--generations {0}",
    "--methods {0}",
    "kumi",
    "it",
    "a header",
    "question 0 name relevance",
    "question Q0 name place score system",
    "rjieba opencc",
    "sudachipy sudachidict-core",
}
IGNORED |= {"0Table", "1Table", "Current User", "PowerPoint Document"}  # streams of old office files
IGNORED |= {"{0} to {1}", "`pip install --force-reinstall 'kumihimo[docs]'`"}
IGNORED |= {"kumi eval run --methods {0} --generations 2", "kumi eval run --methods {0} --generations 5", "even"}
IGNORED |= {"# Settings of this index. Remove the # from a line and change it.", '"none"'}
IGNORED |= {"file", "media_type", "metadata", "modified", "title", "uri", "global", "meta", "linked", "local", "MB"}
IGNORED |= {
    f"kumi eval {name}" for name in ("claims", "judge", "judge --protocol mk", "questions", "retrieval", "score")
}
UNREAD = {"open", "read", "write", "format", "name", "run", "text", "result"}  # functions of too many kinds
LISTS = {"remarks", "lines", "labels"}  # of what is printed line by line
FIELD = "\0"  # where a value stands
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Source:
    """The modules of the package: what their names stand for."""

    @cached_property
    def trees(self) -> dict[Path, ast.Module]:
        return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(HOUSE.rglob("*.py"))}

    @cached_property
    def functions(self) -> dict[str, list[Function]]:
        found: dict[str, list[Function]] = {}
        for tree in self.trees.values():
            for node in ast.walk(tree):
                if isinstance(node, Function):
                    found.setdefault(node.name, []).append(node)
        return found

    @cached_property
    def calls(self) -> dict[str, list[tuple[ast.AST, ast.Call]]]:
        """Each name -> the calls of it, and where they are."""
        found: dict[str, list[tuple[ast.AST, ast.Call]]] = {}
        for tree in self.trees.values():
            for scope, listed in scopes(tree):
                for node in listed:
                    if isinstance(node, ast.Call):
                        found.setdefault(called_name(node), []).append((scope, node))
        return found

    @cached_property
    def constants(self) -> dict[str, list[ast.expr]]:
        found: dict[str, list[ast.expr]] = {}
        for tree in self.trees.values():
            for node in tree.body:
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    found.setdefault(node.targets[0].id, []).append(node.value)
        return found


SOURCE = Source()


@cache
def nodes(scope: ast.AST) -> list[ast.AST]:
    return list(ast.walk(scope))


class Reader:
    """The texts of one function, or of a module."""

    def __init__(self, scope: ast.AST, seen: frozenset[str] = frozenset()) -> None:
        self.scope, self.seen = scope, seen
        self.inner: set[str] = set()  # messages within messages

    def texts(self, node: ast.AST | None) -> list[str]:
        """What the expression may be, with FIELD for each value."""
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr(values=parts):
                return self._joined(parts)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return self._joined([left, right])
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return self._field(value)
            case ast.Call():
                return self._called(node)
        return self._one_of(node)

    def _one_of(self, node: ast.AST | None) -> list[str]:
        match node:
            case ast.IfExp(body=one, orelse=other):
                return [*(self.texts(one) or [FIELD]), *(self.texts(other) or [FIELD])]
            case ast.BoolOp(values=values):
                return [text for value in values for text in self.texts(value)]
            case ast.Name(id=name):
                return self._named(name)
            case ast.Attribute(attr=name) if name.isupper():  # a constant of another module
                return self._named(name)
            case ast.NamedExpr(value=value):
                return self.texts(value)
            case ast.Subscript(value=value):
                return [text for each in self._held(value) for text in self.texts(each)]
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return [text for each in elements for text in self.texts(each)]
        return []

    def _held(self, node: ast.expr) -> list[ast.expr]:
        """The values of a constant table."""
        if isinstance(node, ast.Subscript):
            return self._held(node.value)
        tables = SOURCE.constants.get(node.id, []) if isinstance(node, ast.Name) else [node]
        return [value for table in tables if isinstance(table, ast.Dict) for value in table.values]

    def _named(self, name: str) -> list[str]:
        if name in self.seen:
            return []
        reader = Reader(self.scope, self.seen | {name})
        texts = [text for value in self._values(name) for text in reader.texts(value)]
        self.inner |= reader.inner
        return texts or self._given(name)

    def _given(self, name: str) -> list[str]:
        """What callers give for a parameter, if it is a sentence or part of one."""
        arguments = getattr(self.scope, "args", None)
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)] if arguments else []
        keywords = [each.arg for each in arguments.kwonlyargs] if arguments else []
        if name not in names + keywords:
            return []
        function: Any = self.scope
        texts: list[str] = []
        for scope, call in SOURCE.calls.get(function.name, []):
            listed = names[1:] if names[:1] in (["self"], ["cls"]) else names
            given = dict(zip(listed, call.args, strict=False)) | {k.arg: k.value for k in call.keywords}
            if name in given:
                reader = Reader(scope, self.seen | {name, function.name})
                texts += [text for text in reader.texts(given[name]) if " " in text.strip(FIELD) or text.istitle()]
                self.inner |= {text for text in reader.inner if " " in text}
        self.inner |= set(texts)
        return []

    def _joined(self, parts: list[ast.expr]) -> list[str]:
        options = [self.texts(part) or [FIELD] for part in parts]
        if prod(map(len, options)) > 40:
            options = [option if len(option) == 1 else [FIELD] for option in options]
        return ["".join(chosen) for chosen in product(*options)]

    def _field(self, value: ast.expr) -> list[str]:
        """A constant or a choice of texts stands in the message itself; another message is one of its own."""
        values = self._values(value.id) if isinstance(value, ast.Name) else [value]
        name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
        is_constant = name.strip("_").isupper()
        if is_constant or (values and all(isinstance(each, ast.IfExp) for each in values)):
            texts = self.texts(value)
            return texts if texts and len(texts) <= 4 else [FIELD]
        self.inner |= set(self.texts(value))
        return [FIELD]

    def _values(self, name: str) -> list[ast.expr]:
        pairs: list[tuple[ast.expr, ast.expr]] = []
        for node in nodes(self.scope):
            if isinstance(node, ast.Assign):
                pairs += [(target, node.value) for target in node.targets]
            elif isinstance(node, ast.NamedExpr):
                pairs.append((node.target, node.value))
        pairs += [pair for pair in pairs if isinstance(pair[0], ast.Tuple) for pair in unpacked(*pair)]
        found = [value for target, value in pairs if isinstance(target, ast.Name) and target.id == name]
        return found or SOURCE.constants.get(name, [])

    def _called(self, node: ast.Call) -> list[str]:
        name = called_name(node)
        if name in ("redact", "translate", "str"):
            return [text for argument in node.args[:1] for text in self.texts(argument)]
        if name == "get" and isinstance(node.func, ast.Attribute):
            return [text for each in self._held(node.func.value) for text in self.texts(each)]
        if name == "join":
            self.inner |= {text for argument in node.args for text in self._elements(argument)}
            return []
        return [] if name in self.seen or name in UNREAD else self._returned(name)

    def _returned(self, name: str) -> list[str]:
        texts: list[str] = []
        for function in SOURCE.functions.get(name, []):
            reader = Reader(function, self.seen | {name})
            for inside in nodes(function):
                if isinstance(inside, ast.Return | ast.Yield):
                    texts += reader.texts(inside.value)
            self.inner |= reader.inner
        return texts

    def _elements(self, node: ast.AST) -> list[str]:
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return [text for element in node.elts for text in self._elements(element)]
        if isinstance(node, ast.GeneratorExp | ast.ListComp):
            return self.texts(node.elt)
        if isinstance(node, ast.Starred):
            return self._elements(node.value)
        return self.texts(node)


def unpacked(targets: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each name of `a, b = ...` with what it gets."""
    sides = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    for side in sides:
        yield from zip(getattr(targets, "elts", []), getattr(side, "elts", []), strict=False)


def called_name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def raised(node: ast.AST) -> str:
    """The first text of an error that is made."""
    return called_name(node) if isinstance(node, ast.Call) else ""


def roots(listed: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """The expressions that a person sees."""
    for node in listed:
        if isinstance(node, ast.Assign | ast.AugAssign) and is_list_of_messages(node):
            yield from elements(node.value)
        if isinstance(node, ast.Call):
            yield from seen(node)


def seen(node: ast.Call) -> list[ast.expr]:
    """The arguments that a person sees."""
    name, named = called_name(node), {keyword.arg: keyword.value for keyword in node.keywords}
    if shown := [named[each] for each in ("query_type", "best_for") if each in named]:
        return shown
    if name in ("Option", "Argument"):
        return [named["help"]] if "help" in named else []
    if name in ("show_rows", "_show_table"):
        return [named["head"]] if "head" in named else node.args[1:2]
    if name == "show":
        return node.args[1:]
    if name == "append" and isinstance(node.func, ast.Attribute):
        return node.args if ast.unparse(node.func.value) in LISTS else []
    if name == "__init__" and ast.unparse(node.func) == "super().__init__":  # of an error with fields
        return node.args[:1]
    is_error = name not in NOT_SHOWN and (ERRORS.match(name) or name in ERRORS_TOO)
    if name == "Problem":
        return node.args[2:]
    return node.args[:1] if is_error or name in PRINTERS else []


def is_list_of_messages(node: ast.Assign | ast.AugAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id in LISTS for target in targets)


def elements(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return [node.elt]
    return list(node.elts) if isinstance(node, ast.List | ast.Tuple) else []


def numbered(text: str) -> str:
    """The text with {0}, {1} for its fields."""
    parts = text.split(FIELD)
    return parts[0] + "".join(f"{{{i}}}{part}" for i, part in enumerate(parts[1:]))


def is_message(text: str) -> bool:
    return len(re.findall(r"[A-Za-z]", text.replace(FIELD, ""))) >= 2


def scopes(tree: ast.Module) -> Iterator[tuple[ast.AST, list[ast.AST]]]:
    """Each outermost function with its nodes, and the module with the nodes outside of them."""
    outside: list[ast.AST] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Function):
            yield node, nodes(node)
        else:
            outside.append(node)
            waiting += ast.iter_child_nodes(node)
    yield tree, outside


@cache
def messages() -> dict[str, str]:
    """Every message -> the module that has it."""
    found: dict[str, str] = {}
    for path, tree in SOURCE.trees.items():
        for scope, listed in scopes(tree):
            reader = Reader(scope)
            texts = [text for root in roots(listed) for text in reader.texts(root)]
            for text in [*texts, *sorted(reader.inner)]:
                if is_message(text):
                    found.setdefault(numbered(text), path.relative_to(HOUSE).as_posix())
    return found


@cache
def help_texts() -> dict[str, str]:
    """Every text of a page of help, without those of options."""
    tables = (*main.COMMANDS.values(), main.KEY_COMMANDS, main.EVAL_COMMANDS)
    entries = [entry for table in tables for entry in table.values()]
    remarks = [remark for _, *lines in entries for line in lines for remark in re.findall(r" {5}(\S[^\[]*)", line)]
    places = [place.split(":") for table in tables for place in table]
    commands = [getattr(import_module(f"kumihimo.cli.{module}"), name) for module, name in places]
    documented = [inspect.getdoc(command) or "" for command in commands]
    texts = [
        main.HELP,
        main.KEY_HELP,
        main.EVAL_HELP,
        *main.COMMANDS,
        "Evaluate it",
        "For example",
        *(text for text, *_ in entries),
        *documented,
        *remarks,
    ]
    described = [description for description, _ in SLASH_COMMANDS.values()] + [*TYPE_MEANINGS]
    summaries = [method.summary for method in METHODS.values()]
    counts = [f"{{0}} {noun}" for one in COUNTED for noun in one]
    return dict.fromkeys([*texts, *described, *summaries, *counts, *NAMED], "cli/main.py")


@cache
def page_texts() -> dict[str, str]:
    """Every text of an HTML page, of its template or its script."""
    found: dict[str, str] = {}
    for path in [path for path in HOUSE.rglob("templates/*.html") if "evaluate" not in path.parts]:
        for call in Environment().parse(path.read_text(encoding="utf-8")).find_all(Call):
            if isinstance(call.node, Name) and call.node.name == "translate":
                found |= dict.fromkeys(map(numbered, template_texts(call.args[0])), path.name)
            if isinstance(call.node, Name) and call.node.name == "count_of":
                found |= dict.fromkeys(counted(*(str(each.as_const()) for each in call.args[1:])), path.name)
    for path in [*HOUSE.rglob("templates/*.js"), *HOUSE.rglob("static/*.js")]:
        found |= dict.fromkeys(script_labels(path.read_text(encoding="utf-8")), path.name)
    return {text: name for text, name in found.items() if is_message(text.replace("{0}", ""))}


def counted(one: str, many: str = "") -> list[str]:
    """The two forms of a number with its noun."""
    return [f"{{0}} {one}", f"{{0}} {many or f'{one}s'}"]


def template_texts(node: Node) -> list[str]:
    """The texts that a template gives, with FIELD for each value."""
    if isinstance(node, Concat):
        return ["".join(parts) for parts in product(*map(template_texts, node.nodes))]
    if isinstance(node, CondExpr) and node.expr2:
        return [*template_texts(node.expr1), *template_texts(node.expr2)]
    return [str(node.value)] if isinstance(node, Const) else [FIELD]


# What `kumi index` counts; places in documents; kinds of entries of `kumi status`.
COUNTED = (
    ("document", "documents"),
    ("chunk", "chunks"),
    ("entity", "entities"),
    ("report", "reports"),
    ("file", "files"),
    ("call", "calls"),
)
NAMED = ("p. {0}", "line {0}", "slide {0}", "sheet {0}", "no suffix", "spent", "saved")

# What other libraries and the system say, as far as a person sees it.
FOREIGN = (
    "{0}, line {1}",
    "{0} cannot be reached ({1})",  # our own, by a way that is not followed here
    ".",
    "{0}.",
    "Usage:",
    "Arguments",
    "Options",
    "Commands",
    "[default: {}]",
    "[env var: {}]",
    "[required]",
    "env var:",
    "default:",
    "required",
    "(dynamic)",
    "Show this message and exit.",
    "Install completion for the current shell.",
    "Show completion for the current shell, to copy it or customize the installation.",
    "Missing command.",
    "No such command {0}.",
    "No such command {0}. Did you mean {1}?",
    "No such option: {0}",
    "No such option: {0} (Possible options: {1})",
    "No such option: {0} Did you mean {1}?",
    "Invalid value for {0}: {1}",
    "Missing argument {0}.",
    "Missing option {0}.",
    "Option {0} requires an argument.",
    "Option {0} does not take a value.",
    "Got unexpected extra argument ({0})",
    "Got unexpected extra arguments ({0})",
    "Got unexpected extra argument(s) ({0})",
    "{0} is not a valid integer.",
    "{0} is not a valid float.",
    "{0} is not in the range {1}.",
    "No such file or directory",
    "Permission denied",
    "Is a directory",
    "Not a directory",
    "Connection refused",
    "No space left on device",
    "Read-only file system",
    "Input should be greater than or equal to {0}",
    "Input should be less than or equal to {0}",
    "Input should be a valid integer, unable to parse string as an integer",
    "Input should be a valid number, unable to parse string as a number",
)

# What functions return for others to raise.
RETURNED = (
    "reads replies from {0}, outside its folder",
    "reads {0}, outside its folder",
    "fetches pages from {0}",
    "runs parts of builds at {0}, which can run programs on this machine",
    "reads a key from the environment variable {0}",
    "sends text of your documents to {0}",
    "sends text of your documents and the key in {0} to {1}",
    "{0} has changed since `kumi` wrote it: move it away to keep it, or replace it with --force",
    "a repair cannot mend it: move the file away, and run `kumi index PATH` for the folders that it held",
    "{0} cannot be written, since the disk is full: make room, and run the same command again",
    "{0} cannot be read or written (disk I/O error): check the disk",
    "{0} is damaged: `kumi check --repair` keeps the replies that can be read",
    "{0} were embedded by {1}, and would be by {2}",
    "{0} would be embedded again where they change",
    "{0} says: {1}; it asks to wait {2}: run it again after that, or set a longer `patience`",
)

# What the log warns of.
LOGGED = (
    "{0} needs {1}: building them",
    "{0} needs tables that are not built yet; another process builds: going on without",
    "{0} needs tables that are not built yet; another process builds: waiting for it",
)

# The types of settings, as an error names them.
TYPES = (
    "true or false",
    "a whole number from {0} to {1}",
    "a whole number from {0} to {1} or none",
    "a number from {0} to {1}",
    "a number from {0} to {1} or none",
    "a text of up to {0} characters",
    "a text of {0} to {1} characters",
    "a text of {0} to {1} characters or none",
    "a list of up to {0} items",
    "a list of {0} to {1} items",
    "{0}.{1} is one of {2}, not {3} (default: {4})",
)


@cache
def expected() -> dict[str, str]:
    """Every text that a catalogue translates, without spaces around it -> where it comes from."""
    found = {
        **help_texts(),
        **dict.fromkeys(FOREIGN, "another library"),
        **dict.fromkeys((*RETURNED, *LOGGED, *TYPES), "a function"),
    }
    for text, module in {**messages(), **page_texts()}.items():
        found.setdefault(text.strip(), module)
    return {text: module for text, module in found.items() if text not in IGNORED}
