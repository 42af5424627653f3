"""functions -> commands of a group, with help in the language of messages."""

import gc
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from kumihimo.core.control_characters import make_visible
from kumihimo.core.errors import SettingsError
from kumihimo.text import translation
from kumihimo.text.translation import choose_language, translate

# What typer writes into a page of help for a terminal: the name of its constant -> the text.
_TYPER_TEXTS = {
    "ARGUMENTS_PANEL_TITLE": "Arguments",
    "OPTIONS_PANEL_TITLE": "Options",
    "COMMANDS_PANEL_TITLE": "Commands",
    "DEFAULT_STRING": "[default: {}]",
    "ENVVAR_STRING": "[env var: {}]",
    "REQUIRED_LONG_STRING": "[required]",
}
_REMARKS = re.compile(r"env var: |default: |required|\(dynamic\)")  # in brackets at the end of a plain line

CommandTable = Mapping[str, tuple[str, ...]]  # `module:function` -> what it does, and examples
_EXAMPLE_TEXTS = re.compile(r"For example|(?<= {5})(?! )[^\n\[]+")


_MAX_NUMBER = 10**15


def choose_language_option(name: str) -> str:
    """Use the language that an option names, if it does."""
    if name:
        choose_language(name)
    return name


def suggest_language(question: str) -> None:
    """Use the language of a question in kana or kanji.

    A language that was chosen stays.
    """
    evidence = "かな" if translation.message_language() == "ja" else ""  # of the system: for a question in kanji alone
    if translation.script_language(question, evidence) != "en":
        translation.suggest_language(question, evidence)


LANGUAGE_HELP = "Language of messages: en, ja, zh or zh-TW. Default: that of the question, or of the system."
LanguageChoice = Annotated[
    str,
    typer.Option(
        "--lang", envvar="KUMI_LANG", help=LANGUAGE_HELP, metavar="NAME", is_eager=True, callback=choose_language_option
    ),
]


class Interrupted(Exception):
    """Ctrl-C, pressed while an index was open."""


_Base: Any = typer.Context.formatter_class  # typer exports no name for it
_Command: Any = TyperCommand.__base__  # nor for this


class _Formatter(_Base):  # type: ignore[misc]
    """A page of plain help."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, translate(prefix or "Usage: "))

    def write_heading(self, heading: str) -> None:
        super().write_heading(translate(heading))

    def write_dl(self, rows: Sequence[tuple[str, str]], *arguments: Any, **options: Any) -> None:
        def translate_remarks(bracket: re.Match[str]) -> str:
            return _REMARKS.sub(lambda remark: translate(remark[0]), bracket[0])

        rows = [(name, re.sub(r"  \[[^]]{0,300}\]$", translate_remarks, text)) for name, text in rows]
        super().write_dl(rows, *arguments, **options)


class _Context(typer.Context):
    formatter_class = _Formatter


class _Translated(_Command):  # type: ignore[misc]
    """A page of help in the language of messages."""

    context_class: Any = _Context

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Choose the language of the page.

        Raises SettingsError for a second value of an option with one, and for a value without sense.
        """
        if "--help" in args and "--lang" in args[:-1]:
            choose_language(args[args.index("--lang") + 1])
        for parameter in self.get_params(ctx):
            _convert_without_pydantic(parameter)
        texts, _, given = self.make_parser(ctx).parse_args([*args])
        rest: list[str] = super().parse_args(ctx, args)
        repeated = (each for n, each in enumerate(given) if each in given[:n] and not (each.multiple or each.is_flag))
        if not ctx.resilient_parsing:
            if option := next(repeated, None):
                raise SettingsError(f"{option.opts[0]} takes one value: give it once")
            for each in given:
                _check_values(each, texts[each.name], ctx.params.get(each.name))
        return rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _translate_page(self, ctx)
        super().format_help(ctx, formatter)


def _convert_without_pydantic(parameter: Any) -> None:
    """Let typer import pydantic only for values that it has to convert.

    Texts and absent values stay as they are; older versions of typer do not use pydantic.
    """
    build = getattr(parameter, "get_runtime_param", None)
    if build is None:
        return

    def convert(value: Any, *, param: Any, ctx: Any) -> Any:
        described, is_list = param.type_descriptor, param.multiple or param.nargs == -1
        parse = described.parameter_info.parser
        if value is None:
            return () if is_list else None
        if described.annotation is str and not (parse or is_list):
            return value
        if parse and not is_list:
            with suppress(ValueError):  # which the converter below turns into an error of the option
                return parse(value)
        return build().coerce(value, param=param, ctx=ctx)

    parameter.get_runtime_param = lambda: SimpleNamespace(coerce=convert)


def _check_values(option: Any, texts: Any, values: Any) -> None:
    """Raise SettingsError for an empty value, or one of no use.

    texts: of the values, as they were given.
    """
    name = option.opts[0] if option.param_type_name == "option" else option.metavar or option.name.upper()
    for text in texts if isinstance(texts, Sequence) and not isinstance(texts, str) else [texts]:
        if isinstance(text, str) and not text.strip(" ,\t\n"):
            raise SettingsError(f"{name} is empty: give it a value")
        if "://" in str(text) and (isinstance(values, Path) or option.metavar == "FILE"):
            raise SettingsError(f"{name} is a path on this machine, not the address {text}: name a file or folder")
    for value in values if isinstance(values, list) else [values]:
        if isinstance(value, int | float) and value > _MAX_NUMBER:
            raise SettingsError(f"{name} is a number up to {_MAX_NUMBER:,}: choose a smaller one")
        path = getattr(value, "folder", value)  # of an IndexPlace
        if isinstance(path, Path) and make_visible(str(path)) != str(path) and not path.exists():
            raise SettingsError(f"{path} has control characters, and there is no such file: choose another name")


class TranslatedCommand(_Translated, TyperCommand):
    """A command with help in the language of messages."""


class TranslatedGroup(_Translated, TyperGroup):
    """A group with help in the language of messages; a command is imported when it is called.

    tables: the commands by heading. places: name -> `module:function` and heading.
    """

    tables: ClassVar[Mapping[str, CommandTable]] = {}
    places: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: dict[str, Any] = {**dict.fromkeys(self.places), **self.commands}

    def list_commands(self, _ctx: Any) -> list[str]:
        return list(self.commands)

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        if self.commands.get(cmd_name) is None and cmd_name in self.places:
            self.commands[cmd_name] = self._import_command(cmd_name)
        return self.commands.get(cmd_name)

    def _import_command(self, name: str) -> Any:
        from kumihimo.cli.options import expand_option_groups

        place, panel = self.places[name]
        module, _, function = place.partition(":")
        _, *examples = self.tables[panel][place]
        group = typer.Typer(rich_markup_mode=self.rich_markup_mode)
        epilog = format_examples(examples, self.rich_markup_mode == "rich")
        decorate = group.command(name, cls=TranslatedCommand, epilog=epilog, rich_help_panel=panel or None)
        decorate(expand_option_groups(getattr(import_module(f"kumihimo.cli.{module}"), function)))
        gc.freeze()
        gc.enable()
        return typer.main.get_group(group).commands[name]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for name, (place, panel) in self.places.items():
            self.commands[name] = TyperCommand(name, help=self.tables[panel][place][0], rich_help_panel=panel or None)
        for command in self.commands.values():
            _translate_command(command)
        super().format_help(ctx, formatter)


def _translate_page(command: Any, context: Any) -> None:
    """Translate the texts of a command, its parameters and of typer.

    Typer makes the command anew for each run, so this changes nothing for later ones.
    """
    if command.rich_markup_mode == "rich":
        from typer import rich_utils

        for name, text in _TYPER_TEXTS.items():
            setattr(rich_utils, name, translate(text))
        vars(rich_utils).update(Table=_folding_table, Columns=_join_texts)
    _translate_command(command)
    if command.epilog:  # examples, some with a remark after spaces
        command.epilog = _EXAMPLE_TEXTS.sub(lambda text: translate(text[0]), command.epilog)
    for parameter in command.get_params(context):
        parameter.help = translate(getattr(parameter, "help", "") or "")


def _folding_table(*arguments: Any, **options: Any) -> Any:
    """Return a table that breaks long words instead of cutting them.

    To rich, a line without spaces is one word.
    """
    from rich.table import Table

    class FoldingTable(Table):
        def add_row(self, *cells: Any, **options: Any) -> None:
            super().add_row(*cells, **options)
            for column in self.columns:
                column.overflow = "fold"

    return FoldingTable(*arguments, **options)


def _join_texts(texts: Sequence[Any]) -> Any:
    """Return the help and the default of an option as one text."""
    from rich.text import Text

    return Text(" ").join(texts)


def _translate_command(command: Any) -> None:
    command.help = translate(command.help or "")
    command.rich_help_panel = translate(command.rich_help_panel or "") or None


def format_examples(examples: Sequence[str], colour: bool) -> str:
    r"""Return the examples as an epilog, one per line.

    Without colour, the first line is the mark \b, so that Click keeps the line breaks.
    """
    if not colour:
        return "\n".join(["\b", "For example:", *(f"  {line}" for line in examples)])
    from rich.markup import escape

    return "\n\n".join(["[bold]For example[/bold]", *(f"  [cyan]{escape(line)}[/cyan]" for line in examples)])


def group_of(tables: Mapping[str, CommandTable]) -> type[TranslatedGroup]:
    """Return the group of the commands below these headings."""
    listed = {
        place.rpartition(":")[2].rstrip("_"): (place, panel) for panel, table in tables.items() for place in table
    }
    return type("Group", (TranslatedGroup,), {"tables": tables, "places": listed})
