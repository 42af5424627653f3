"""groups of options -> one option of a command for each field, and their values."""

import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
import typer.main
from typer.testing import CliRunner

from kumihimo.app.settings.config import NON_SETTINGS
from kumihimo.cli import main
from kumihimo.cli.main import _ClickException, app
from kumihimo.cli.options import IndexFolder, Output, PaidSession, expand_option_groups
from kumihimo.core.errors import SettingsError
from kumihimo.llm.budget import Caps
from tests.cli_runner import kumi


def run(command: object, *words: str) -> str:
    app = typer.Typer()
    app.command()(expand_option_groups(command))  # type: ignore[arg-type]
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return result.output


def test_the_values_of_options_reach_their_group() -> None:
    def ask(session: PaidSession, question: str, loud: Annotated[bool, typer.Option("--loud")] = False) -> None:
        print(question, loud, session.index, session.settings, session.as_json, session.caps == Caps(calls=3))

    assert run(ask, "Who?", "--index", "x", "--set", "naive.k=5", "--max-calls", "3", "--json", "--loud") == (
        "Who? True x ['naive.k=5'] True True\n"
    )
    assert run(ask, "Who?").startswith(f"Who? False {Path('.kumi')} None False")


def test_options_of_groups_come_after_those_of_the_command() -> None:
    def status(index: IndexFolder, levels: Annotated[bool, typer.Option("--levels")] = False) -> None:
        """Nothing."""

    text = run(status, "--help")
    assert sorted(["--levels", "--index", "--json"], key=text.index) == ["--levels", "--index", "--json"]


def test_a_name_in_two_groups_is_refused() -> None:
    def status(index: IndexFolder, output: Output) -> None:
        """Nothing."""

    with pytest.raises(ValueError, match="duplicate parameter name"):
        expand_option_groups(status)


@pytest.mark.parametrize(("as_json", "printed"), [(True, "[\n  1\n]\n"), (False, "one\n")])
def test_a_result_is_json_or_text(as_json: bool, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=as_json)
    output.show([1], "one")
    output.show([1], lambda numbers: sys.stdout.write("one\n" * len(numbers)))
    assert capsys.readouterr().out == printed * 2


# -- values without sense


def walk(command: Any, path: str = "kumi") -> Iterator[tuple[str, Any]]:
    """Yield each command of a group, with its name."""
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        yield from walk(command.get_command(None, name), f"{path} {name}")


def test_every_variable_of_an_option_may_be_set() -> None:
    commands = [command for _, command in walk(typer.main.get_command(app))]
    variables = {parameter.envvar for command in commands for parameter in command.params if parameter.envvar}
    assert "KUMI_STUDY" in variables
    assert variables <= {*NON_SETTINGS}


def senseless(parameter: Any) -> list[str]:
    """Return values that no option of this kind takes."""
    words = ["", " ", "\t\n", ",", " , "]
    words += ["file:///etc", "https://example.org/x"] if parameter.metavar in ("FILE", "TO", "[FILE]") else []
    words += ["0"] if parameter.name == "crawl" else []
    if getattr(parameter, "min", None) is not None:
        return [*words, "-1", "1" + "0" * 19, "inf", "nan", "x", "\x1b[2J", "🐟", "9" * 5000]
    return [*words, "new\x1b[2J", "new\x9b"] if parameter.metavar in ("DIR", "FILE", "TO") else words


def test_no_option_or_argument_takes_a_value_without_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    taken, errors = list[tuple[str, str, str]](), list[str]()
    for name, command in walk(typer.main.get_command(app)):
        needed = [each for each in command.params if each.required]
        for parameter in command.params:
            if getattr(parameter, "is_flag", False):
                continue
            for value in senseless(parameter):
                is_option = parameter.param_type_name == "option"
                options = [w for each in needed if each.param_type_name == "option" for w in (each.opts[0], "reader")]
                arguments = [each for each in command.params if each.param_type_name == "argument"]
                before = arguments[: arguments.index(parameter)] if not is_option else []
                after = [each for each in arguments if each.required and each not in (*before, parameter)]
                words = [*options, *([f"{parameter.opts[0]}={value}"] if is_option else [])]
                values = ["x"] * len(before) + ([] if is_option else [value]) + ["x"] * len(after)
                if parameter in needed and is_option:
                    words = [f"{parameter.opts[0]}={value}"]
                try:
                    command.make_context(name, [*words, "--", *values])
                    taken.append((name, parameter.name, value))
                except (SettingsError, _ClickException) as error:
                    errors.append(str(error))
    assert not taken
    assert len(errors) > 1000
    assert max(map(len, errors)) < 300


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["eval", "study", "--stages", "nan"], "--stages is of one study: name it, `kumi eval study NAME`"),
        (["eval", "study", "--methods", "naive"], "--methods is of one study: name it, `kumi eval study NAME`"),
        (["eval", "study", "--set", "a,,b"], "--set is of one study: name it, `kumi eval study NAME`"),
        (["eval", "study", "--protocol", "x"], "--protocol is of one study: name it, `kumi eval study NAME`"),
        (
            ["key", "new", "--role", "reader", "--name", "x\x1b[2J"],
            "key.name has the control character '\\x1b': take it out",
        ),
        (
            ["key", "new", "--role", "reader", "--name", "x" * 1001],
            "key.name is a text of up to 1,000 characters, not 'xxx",
        ),
        (["trust", "gone"], "gone is not there: name a kumi.toml, or its folder"),
    ],
)
def test_an_option_that_would_do_nothing_or_harm_is_refused(tmp_path: Path, words: list[str], error: str) -> None:
    ran = kumi(tmp_path, *words)
    assert (ran.returncode, ran.stdout, [*tmp_path.iterdir()]) == (2, "", [])
    assert ran.stderr.startswith(f"kumi: {error}")


@pytest.mark.parametrize("command", ["cache", "key list"])
def test_an_index_that_is_not_there_is_an_error(tmp_path: Path, command: str) -> None:
    ran = kumi(tmp_path, *command.split(), "--index", "gone")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "kumi: there is no index in gone: make one with `kumi index PATH`\n"
    assert kumi(tmp_path, "key", "new", "--role", "reader").returncode == 0
    assert kumi(tmp_path, "key", "list").returncode == 0, "keys may come before the index"
    assert list(tmp_path.iterdir()) == [tmp_path / ".kumi"]


# -- lists of commands


def test_a_list_of_commands_says_what_each_page_of_help_says() -> None:
    for table in (*main.COMMANDS.values(), main.KEY_COMMANDS, main.EVAL_COMMANDS):
        for place, (summary, *_) in table.items():
            module, _, function = place.partition(":")
            command = getattr(import_module(f"kumihimo.cli.{module}"), function)
            assert (inspect.getdoc(command) or "").partition("\n\n")[0].replace("\n", " ") == summary


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["eval", "--help"], ["aks"]])
def test_a_list_of_commands_imports_none_of_them(words: list[str]) -> None:
    assert len(_own_modules(_imports_of(Path(), *words))) < 25


def _imports_of(folder: Path, *words: str) -> set[str]:
    """The modules that a process of its own has imported when it ends."""
    code = (
        "import atexit, sys; from kumihimo.cli.entry import run_kumi; "
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); run_kumi()"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    return {*process.stderr.splitlines()[-1].split()}


def test_nothing_is_looked_for_among_modules(tmp_path: Path) -> None:
    """The collector of garbage waits until a command is imported, and has nothing to do at the end."""
    code = (
        "import atexit, gc; from kumihimo.cli.entry import run_kumi; "
        "atexit.register(lambda: print(gc.isenabled(), gc.get_freeze_count() > 10_000, gc.get_objects() == [])); "
        "run_kumi()"
    )
    words = [sys.executable, "-c", code, "methods"]
    process = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.stdout.splitlines()[-1] == "True True True"


def _own_modules(modules: set[str]) -> set[str]:
    return {module for module in modules if module.startswith("kumihimo.")}


def test_a_question_imports_nothing_that_only_other_commands_need(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("The ferry leaves at nine. The harbour office opens at eight.")
    assert kumi(tmp_path, "index", "note.txt").returncode == 0
    modules = _imports_of(tmp_path, "ask", "When does the ferry leave?")
    assert "kumihimo.methods.braid.plain_match" in modules, "it has answered"
    assert len(_own_modules(modules)) <= 196
    builds = {"kumihimo.app.build.build", "kumihimo.readers.documents", "kumihimo.readers.pdf"}
    assert not modules & {
        *builds,
        "kumihimo.app.opened.results",
        "kumihimo.index.rules.ner",
        "kumihimo.generation.quoting.overview",
        "numpy.ma",
        "pydantic",
        "rich.text",
        "scipy",
        "asyncio",
    }
