"""groups of options -> one option of a command for each field, and their values."""

import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from kumihimo.cli.options import IndexFolder, Output, PaidSession, expand_option_groups
from kumihimo.llm.budget import Caps


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
