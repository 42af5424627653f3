"""functions -> commands of a group; those of `kumi eval` are imported when they are needed."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import typer
import typer.main

from kumihimo.cli import options
from kumihimo.cli.translated_help import TranslatedCommand, TranslatedGroup, format_examples


def add_commands(
    group: typer.Typer, commands: Mapping[Callable[..., None], Sequence[str]], panel: str | None, *, colour: bool
) -> None:
    """Add commands with their examples."""
    for command, examples in commands.items():
        name, epilog = command.__name__.rstrip("_"), format_examples(examples, colour)
        decorate = group.command(name, cls=TranslatedCommand, epilog=epilog, rich_help_panel=panel)
        decorate(options.expand_option_groups(command))


class EvalGroup(TranslatedGroup):
    """The group `kumi eval`, which imports its commands when it needs them."""

    @cached_property
    def loaded(self) -> dict[str, Any]:
        """Return the commands by name."""
        from kumihimo.cli.evaluating import EVAL_COMMANDS

        group = typer.Typer()
        add_commands(group, EVAL_COMMANDS, None, colour=self.rich_markup_mode == "rich")
        return dict(typer.main.get_group(group).commands)

    def list_commands(self, _ctx: Any) -> list[str]:
        return list(self.loaded)

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        return self.loaded.get(cmd_name)
