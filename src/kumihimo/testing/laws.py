"""methods, steps and readers + documents -> nothing, or the law of an index that they break."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.facade import Kumihimo
from kumihimo.core.context import Evidence
from kumihimo.core.errors import KumiError
from kumihimo.core.settings import SettingValues

Function = Callable[..., Any]
Contents = dict[str, Any]  # table or question -> its rows, as JSON values
_UNSTABLE = "communities"  # keeps its earlier groups, so it may differ from a fresh build
_RELOADED = "__reloaded_main__"  # the name of a script that the other process loads, so that it does not check again


@dataclass(frozen=True, slots=True)
class _Plugin:
    """The functions to check, as `module:name`, and what to ask."""

    methods: tuple[str, ...]
    steps: tuple[str, ...]
    readers: tuple[str, ...]
    built: tuple[str, ...]  # names of the methods to build for and to ask
    questions: tuple[str, ...]
    settings: Mapping[str, Mapping[str, object]]

    def open(self, folder: Path) -> Kumihimo:
        """Return the index in a folder, with the functions in its catalogue."""
        loaded: Any = {kind: [_load(name) for name in getattr(self, kind)] for kind in ("methods", "steps", "readers")}
        return Kumihimo.open(folder, settings=self.settings, **loaded)


def check_laws(
    documents: str | Path,
    questions: Iterable[str],
    *,
    methods: Sequence[Function | str] = (),
    steps: Sequence[Function] = (),
    readers: Sequence[Function] = (),
    settings: SettingValues | None = None,
) -> None:
    """Raise AssertionError where a function breaks a law of the index.

    documents: a folder with at least two files. methods: functions, or names of methods that are built in or installed
    as plug-ins. steps, readers: functions that the methods need; all functions stand in a file, for another process
    loads them. settings: such as `{"longest": {"k": 2}}`.

    The laws: every piece of evidence leads to a span of a document whose text it is. The same question gives the same
    evidence, also in another process. Building again changes nothing. An index from which a document was removed equals
    a fresh index without it, and adding it again restores the tables. A filter lets only its documents speak.
    """
    if _RELOADED in sys.modules:
        return
    plugin = _Plugin(
        tuple(_address(function) for function in methods if not isinstance(function, str)),
        tuple(map(_address, steps)),
        tuple(map(_address, readers)),
        tuple(m if isinstance(m, str) else m.__name__.rstrip("_") for m in methods),
        tuple(questions),
        {scope: dict(values) for scope, values in (settings or {}).items()},
    )
    with TemporaryDirectory() as temporary:
        home = Path(temporary, Path(documents).resolve().name)
        shutil.copytree(documents, home)
        with plugin.open(Path(temporary, ".kumi")) as kumi:
            kumi.index(home, methods=plugin.built)
            _check_sources(kumi, plugin)
            _check_filter(kumi, plugin)
            complete = _contents(kumi, plugin)
            _compare(_contents(kumi, plugin), complete, "the same question gives other evidence")
            _compare(_fresh_contents(home, plugin), complete, "a build in another process gives other rows")
            kumi.index(reread=True)
            _compare(_contents(kumi, plugin), complete, "building again changes rows")
            for path in sorted(path for path in home.rglob("*") if path.is_file()):
                _check_removal(kumi, plugin, path, complete)


def _check_sources(kumi: Kumihimo, plugin: _Plugin) -> None:
    """Check that all evidence quotes its documents."""
    with kumi.snapshot() as snapshot:
        texts: dict[str, str] = dict(snapshot.table("documents").columns("uri", "text"))
        for _, evidence in _all_evidence(snapshot, plugin):
            spans = list(snapshot.trace(evidence))
            assert spans, f"{evidence.reference} leads to no document: its class needs `parents`, or its id its source"
            for span in spans:
                assert texts[span.uri][span.start : span.end] == span.text, f"{evidence.reference} misquotes {span.uri}"


def _check_filter(kumi: Kumihimo, plugin: _Plugin) -> None:
    """Check that only matching documents speak."""
    with kumi.snapshot() as snapshot:
        for (uri,) in sorted(snapshot.table("documents").columns("uri")):
            expression = f"uri = {json.dumps(uri, ensure_ascii=False)}"
            for method, evidence in _all_evidence(snapshot, plugin, expression):
                uris = {span.uri for span in snapshot.trace(evidence)}
                assert uris <= {uri}, f"{method} shows {sorted(uris)} though only {uri} may speak"


def _check_removal(kumi: Kumihimo, plugin: _Plugin, path: Path, complete: Contents) -> None:
    """Check the index without a file, and with the file again."""
    content, times = path.read_bytes(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.unlink()
    kumi.index()
    fresh = _fresh_contents(path.parent, plugin) if any(path.parent.iterdir()) else None
    if fresh is not None:
        _compare(_contents(kumi, plugin), fresh, f"removing {path.name} leaves other rows than a fresh build")
    path.write_bytes(content)
    os.utime(path, ns=times)
    kumi.index()
    _compare(_contents(kumi, plugin), complete, f"adding {path.name} again does not restore the rows")


def _all_evidence(snapshot: Snapshot, plugin: _Plugin, filter: str = "") -> Iterable[tuple[str, Evidence]]:
    for method in plugin.built:
        for question in plugin.questions:
            for evidence in snapshot.retrieve(question, method, filter=filter):
                yield method, evidence


def _contents(kumi: Kumihimo, plugin: _Plugin) -> Contents:
    """Return the rows of the tables and the evidence of the questions."""
    with kumi.snapshot() as snapshot:
        unstable = snapshot.catalogue.downstream_steps([_UNSTABLE])
        tables = [t for t in snapshot.record_types if t not in unstable and snapshot.db.has(t)]
        contents: Contents = {table: [asdict(row) for row in snapshot.table(table)] for table in tables}
        for method in plugin.built:
            if unstable.isdisjoint(snapshot.method(method).tables):
                for question in plugin.questions:
                    context = snapshot.retrieve(question, method)
                    contents[f"{method}: {question}"] = [[*e.reference, e.score] for e in context]
    loaded: Contents = json.loads(json.dumps(contents))
    for document in loaded["documents"]:
        document.pop("modified")
    return loaded


def _fresh_contents(folder: Path, plugin: _Plugin) -> Contents:
    """Return the contents of a new index, built by another process."""
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    script = getattr(sys.modules["__main__"], "__file__", None) if "__main__:" in json.dumps(asdict(plugin)) else None
    process = subprocess.run(
        [sys.executable, "-c", "from kumihimo.testing.laws import main; main()", str(folder), *filter(None, [script])],
        input=json.dumps(asdict(plugin)),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, f"a build in another process fails: {process.stderr}"
    contents: Contents = json.loads(process.stdout)
    return contents


def _compare(actual: Contents, expected: Contents, complaint: str) -> None:
    for name in sorted({*actual, *expected}):
        assert actual.get(name) == expected.get(name), f"{complaint}: {name}"


def _address(function: Function) -> str:
    module = sys.modules[function.__module__]
    if (module.__name__ == "__main__" and not hasattr(module, "__file__")) or "<" in function.__qualname__:
        raise KumiError(f"another process has to load {function.__qualname__}: write it at the top level of a file")
    return f"{function.__module__}:{function.__qualname__}"


def _load(address: str) -> Function:
    module, _, name = address.partition(":")
    function: Function = getattr(import_module(module), name)
    return function


def main() -> None:
    """Build an index of the folder in the arguments; print its contents."""
    folder, *script = sys.argv[1:]
    if script:
        sys.modules["__main__"] = sys.modules[_RELOADED] = ModuleType(_RELOADED)
        with redirect_stdout(sys.stderr):
            vars(sys.modules["__main__"]).update(runpy.run_path(script[0], run_name=_RELOADED))
    arguments: Any = {n: tuple(v) if isinstance(v, list) else v for n, v in json.load(sys.stdin).items()}
    plugin = _Plugin(**arguments)
    with TemporaryDirectory() as home, plugin.open(Path(home, ".kumi")) as kumi:
        kumi.index(folder, methods=plugin.built)
        print(json.dumps(_contents(kumi, plugin)))
