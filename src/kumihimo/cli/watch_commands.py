"""kumi watch -> a line for each build, until Ctrl-C."""

from typing import Annotated

from typer import Argument, Exit, Option

from kumihimo.app.opened.results import Built
from kumihimo.app.upkeep.watch import watch_sources
from kumihimo.cli import builds, options, printing
from kumihimo.core.errors import KumiError


def watch(
    session: options.PaidSession,
    paths: Annotated[list[str] | None, Argument(help="Files and folders. Default: everything indexed before.")] = None,
    methods: Annotated[str, Option(help="Methods to build for, and to remember: bm25,naive.", metavar="NAMES")] = "",
) -> None:
    """Build the index, and again whenever a file changes.

    Builds that call a model need a limit, such as --max-cost, for all of them together. Ctrl-C ends it.
    """
    try:
        with session.open() as kumi:
            names = options.split_names(methods)
            for number, result in enumerate(watch_sources(kumi.opened, paths or [], names, session.caps)):
                _show(session, result, first=number == 0)
    except (KeyboardInterrupt, options.Interrupted):
        printing.print_note("Stopped watching; the index is as the last build left it.")
    raise Exit(0)


def _show(session: options.PaidSession, result: Built | KumiError, *, first: bool) -> None:
    """Print a build or its error as JSON or text."""
    if session.as_json:
        printing.print_text(printing.encode_json(result if isinstance(result, Built) else {"error": str(result)}))
    elif isinstance(result, KumiError):
        printing.print_error(str(result))
    elif first:
        builds.show_built(result, verbose=session.verbose)
    elif builds.has_changed(result) or result.failed:
        builds.show_update(result)
    if first and not session.as_json:
        printing.print_message("Watching for changes; Ctrl-C ends it.")
