"""options that commands share -> groups that open the index, limit its spending and print results."""

import logging
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

from typer import Option

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened.catalogue import AUTO, installed_catalogue
from kumihimo.app.opened.open_index import DEFAULT_FOLDER, IndexPlace
from kumihimo.app.settings import config, trust
from kumihimo.app.settings.settings_registry import MAX_PAGES, SettingsRegistry
from kumihimo.cli import printing, terminal
from kumihimo.cli.translated_help import LANGUAGE_HELP, Interrupted, choose_language_option
from kumihimo.core.errors import IndexUnavailable, SettingsError, describe_unknown
from kumihimo.core.task import Progress
from kumihimo.llm.budget import Caps

T = TypeVar("T")


def complete_methods() -> list[str]:
    return [AUTO, *installed_catalogue().methods]


def complete_settings() -> list[str]:
    settings_by_scope = SettingsRegistry(installed_catalogue()).all
    return [f"{scope}.{name}=" for scope, settings in settings_by_scope.items() for name in settings]


Method = Annotated[
    str,
    Option(
        "--method",
        "-m",
        help="Retrieval method, such as bm25: see `kumi methods`. Default: auto.",
        metavar="NAME",
        autocompletion=complete_methods,
    ),
]
FilterExpression = Annotated[
    str, Option(help="Only documents that match: 'author = \"Sabine Orrell\" and date >= 2024'.")
]


Explain = Annotated[bool, Option("--explain", help="Explain why each piece of evidence was chosen.")]
DEFAULT_INDEX = IndexPlace.at(DEFAULT_FOLDER)
INDEX_HELP = "The index: a folder, or postgresql://HOST/DATABASE?schema=NAME."
Crawl = Annotated[
    int | None,
    Option(help="Also index up to N pages that a web page, or a sitemap, links to.", metavar="N", min=1, max=MAX_PAGES),
]
Wait = Annotated[bool, Option("--wait", help="Wait for another build to finish.")]


def split_names(names: str) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


def require_contents(place: IndexPlace, contents: Collection[object]) -> None:
    """Raise IndexUnavailable where nothing was found, and no index is there."""
    from kumihimo.app.upkeep.keys import has_index

    if not (contents or has_index(place)):
        raise IndexUnavailable(f"there is no index in {place}: make one with `kumi index PATH`")


def check_choice(label: str, name: str, choices: Collection[str]) -> None:
    """Raise SettingsError for a name that is not one of the choices."""
    if name not in choices:
        raise SettingsError(describe_unknown(label, name, choices))


_INTERRUPTED = "stopped; the index is as it was before. Run the same command again to go on."


@dataclass(frozen=True)
class Output:
    """The option for the form of the output.

    Commands take these groups as parameters; `--help` lists each field as an option.
    """

    as_json: Annotated[bool, Option("--json", help="Print one JSON document and nothing else.")] = field(
        default=False, kw_only=True
    )
    language: Annotated[
        str, Option("--lang", help=LANGUAGE_HELP, metavar="NAME", is_eager=True, callback=choose_language_option)
    ] = field(default="", kw_only=True)

    def show(self, result: T, text: str | Callable[[T], object]) -> None:
        """Print a result as JSON, or the text for a person.

        text: a function prints it.
        """
        if self.as_json:
            printing.print_json(result)
        elif isinstance(text, str):
            printing.print_message(text)
        else:
            text(result)


@dataclass(frozen=True)
class Writing:
    """The option of commands that write files."""

    force: Annotated[bool, Option("--force", help="Replace files that `kumi` did not write.")] = False


@dataclass(frozen=True)
class IndexFolder(Output):
    """The option for the index, of commands that only read it."""

    index: Annotated[
        IndexPlace,
        Option("--index", envvar="KUMI_INDEX", help=INDEX_HELP, metavar="DIR", parser=IndexPlace.at),
    ] = DEFAULT_INDEX

    def open(self) -> AbstractContextManager[Kumihimo]:
        """Open the index. Raises Interrupted on Ctrl-C."""
        return _open_index(self.index, **self._open_options())

    def _open_options(self) -> dict[str, Any]:
        return {"ask": not self.as_json}

    @contextmanager
    def snapshot(self, method: str = "", filter: str = "") -> Iterator[Snapshot]:
        """Open the index, prepare the method, and read the documents that match."""
        with self.open() as kumi, self.read(kumi, method) as snapshot:
            yield snapshot.narrowed(filter)

    def read(self, kumi: Kumihimo, *methods: str) -> AbstractContextManager[Snapshot]:
        """Prepare the methods, and read the open index."""
        for method in methods:
            self.prepare_method(kumi, method)
        return kumi.snapshot()

    def prepare_method(self, kumi: Kumihimo, name: str) -> None:
        """Build the tables that a method lacks, with a progress bar."""
        with self.progress_bar() as progress:
            kumi.prepare_method(name, progress)

    def progress_bar(self) -> AbstractContextManager[Progress | None]:
        """Show progress on a terminal."""
        return printing.progress_bar()


@dataclass(frozen=True)
class IndexSettings(IndexFolder):
    """The options for an index and its settings."""

    settings: Annotated[
        list[str] | None,
        Option(
            "--set",
            help="A setting for this command: chunks.size=600.",
            metavar="NAME=VALUE",
            autocompletion=complete_settings,
        ),
    ] = None

    def _open_options(self) -> dict[str, Any]:
        return {**super()._open_options(), "settings": config.parse_options(self.settings or ())}


@dataclass(frozen=True)
class IndexSession(IndexSettings):
    """The options for an index, its settings, its cache and its log."""

    cache: Annotated[
        Path | None, Option(envvar="KUMI_CACHE", help="The response cache, if not the index's own.", metavar="FILE")
    ] = None
    verbose: Annotated[bool, Option("--verbose", "-v", help="Log each request and its errors.")] = False
    show_prompts: Annotated[bool, Option("--show-prompts", help="Show each prompt and each reply.")] = False

    def open(self) -> AbstractContextManager[Kumihimo]:
        """Open the index, and show its log on standard error."""
        logging.getLogger("kumihimo").setLevel(logging.INFO if self.verbose else logging.WARNING)
        logging.getLogger("kumihimo.prompts").setLevel(logging.DEBUG if self.show_prompts else logging.WARNING)
        return super().open()

    def _open_options(self) -> dict[str, Any]:
        return {**super()._open_options(), "cache": self.cache}

    def progress_bar(self) -> AbstractContextManager[Progress | None]:
        """Show progress on a terminal, unless the log is shown there."""
        return printing.progress_bar(not (self.verbose or self.show_prompts))


@dataclass(frozen=True)
class PaidSession(IndexSession):
    """The options for an index and models, with limits on spending."""

    max_calls: Annotated[int | None, Option(help="Maximum number of model calls.", min=0)] = None
    max_tokens: Annotated[int | None, Option(help="Maximum number of tokens, prompts and replies together.", min=0)] = (
        None
    )
    max_cost: Annotated[float | None, Option(help="Maximum cost, at the prices in the settings.", min=0)] = None

    @property
    def caps(self) -> Caps:
        return Caps(self.max_calls, self.max_tokens, self.max_cost)


@dataclass(frozen=True)
class BuildSession(PaidSession):
    """The options for an index that is built."""

    executor: Annotated[
        str | None, Option(help="What builds: inline (this process), ray or ray://HOST:PORT.", metavar="NAME")
    ] = None

    def _open_options(self) -> dict[str, Any]:
        options = super()._open_options()
        if self.executor is not None:
            options["settings"].setdefault("building", {})["executor"] = self.executor
        return options


@contextmanager
def _open_index(index: IndexPlace, *, ask: bool, **arguments: Any) -> Iterator[Kumihimo]:
    """Open the index.

    ask: a person at a terminal may trust its kumi.toml.
    """
    try:
        try:
            kumi = Kumihimo.open(index, **arguments)
        except trust.TrustRequired as required:
            if not (ask and printing.is_interactive() and terminal.confirm_trust(required)):
                raise
            trust.save_trust(required.path, required.grants, os.environ)
            kumi = Kumihimo.open(index, **arguments)
        with kumi:
            yield kumi
    except KeyboardInterrupt:
        raise Interrupted(_INTERRUPTED) from None


def expand_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with each field of its dataclasses as an option.

    These options come after the command's own parameters.
    """
    parameters = signature(command).parameters
    annotations = {name: parameter.annotation for name, parameter in parameters.items()}
    group_types = {name: each for name, each in annotations.items() if isinstance(each, type) and is_dataclass(each)}
    fields = {name: signature(group_type).parameters for name, group_type in group_types.items()}

    @wraps(command)
    def run(**values: Any) -> None:
        groups = {name: group_types[name](**{field: values.pop(field) for field in fields[name]}) for name in fields}
        command(**groups, **values)

    own = [each for name, each in parameters.items() if name not in group_types]
    options = [each.replace(kind=Parameter.KEYWORD_ONLY) for group in fields.values() for each in group.values()]
    vars(run)["__signature__"] = Signature([*own, *options])  # Typer reads it
    return run
