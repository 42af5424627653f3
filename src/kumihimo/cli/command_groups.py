"""commands + examples -> groups of the command line, with help by example."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import typer
import typer.main
from typer.core import TyperGroup

EVAL_HELP = "Measure which method works best on your documents, at what cost and confidence."
EVAL_EXAMPLES = (
    "kumi eval questions",
    "kumi eval run --methods bm25,naive,local --again naive --max-cost 5",
    "kumi eval judge --max-cost 20",
    "kumi eval report",
)


class EvalGroup(TyperGroup):
    """The group `kumi eval`, which imports its commands when it needs them."""

    @cached_property
    def loaded(self) -> dict[str, Any]:
        """Return the commands by name."""
        from kumihimo.cli.evaluating import EVAL_COMMANDS

        group = typer.Typer()
        add_commands(group, EVAL_COMMANDS, None, self.rich_markup_mode == "rich")
        return dict(typer.main.get_group(group).commands)

    def list_commands(self, _ctx: Any) -> list[str]:
        return list(self.loaded)

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        return self.loaded.get(cmd_name)


def add_commands(
    group: typer.Typer, commands: Mapping[Callable[..., None], Sequence[str]], panel: str | None, colour: bool
) -> None:
    for command, examples in commands.items():
        register = group.command(
            command.__name__.rstrip("_"), epilog=format_examples(examples, colour), rich_help_panel=panel
        )
        register(command)


def format_examples(examples: Sequence[str], colour: bool) -> str:
    r"""Return the examples as an epilog, one per line.

    Without colour, the first line is the mark \b, so that Click keeps the line breaks.
    """
    if not colour:
        return "\n".join(["\b", "For example:", *(f"  {line}" for line in examples)])
    from rich.markup import escape

    return "\n\n".join(["[bold]For example[/bold]", *(f"  [cyan]{escape(line)}[/cyan]" for line in examples)])
