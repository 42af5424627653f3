"""a command line -> a call of the library, its result printed."""

import errno
import logging
import os
import sys
from collections.abc import Callable
from contextvars import copy_context
from typing import Annotated, Any

import typer.main
from typer import Option

from kumihimo.app.facade import StorageError
from kumihimo.cli import (
    ask_commands,
    care_commands,
    graph_commands,
    index_commands,
    options,
    printing,
    report_commands,
    serve_commands,
)
from kumihimo.cli.translated_help import EvalGroup, TranslatedGroup, add_commands, format_examples
from kumihimo.cli.tune import tune
from kumihimo.core.errors import ItemFailed, KumiError
from kumihimo.text.translation import translate


def show_version_or_help(
    context: typer.Context,
    _language: options.LanguageChoice = "",
    version: Annotated[bool, Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        from importlib import metadata

        printing.print_text(f"kumihimo {metadata.version('kumihimo')}")
    elif context.invoked_subcommand is None:
        printing.print_text(context.get_help())


HELP = "Index your documents, and get answers with their sources."
COMMANDS: dict[str, dict[Callable[..., None], tuple[str, ...]]] = {  # heading -> command -> examples
    "Build an index": {
        index_commands.index: (
            "kumi index notes reports/2024.pdf",
            "kumi index                             refresh everything indexed before",
            "kumi index --methods braid,global,local --max-cost 5",
            "kumi index --set chunks.size=300 --yes",
        ),
        index_commands.plan: (
            "kumi plan notes",
            "kumi plan --methods braid,global,local",
            "kumi plan --ask hyde 'Who mended the breakwater?'",
        ),
        index_commands.watch: ("kumi watch notes", "kumi watch --methods local,global --max-cost 5"),
        index_commands.import_: (
            "kumi import graphrag christmas",
            "kumi import lightrag rag_storage --name minutes",
        ),
        index_commands.remove: (
            "kumi remove notes/old.md",
            "kumi remove reports --forget",
            "kumi remove --forget                   erase what earlier removals left",
        ),
    },
    "Ask it": {
        ask_commands.ask: (
            "kumi ask 'Who mended the breakwater?'",
            "kumi ask 'What are the main themes?' --method global",
            "kumi ask '組紐を送ったのは誰ですか' --method bm25",
            "kumi ask 'What did it cost?' --filter 'author = \"Sabine Orrell\" and date >= 2024'",
            "kumi ask                               a conversation",
        ),
        ask_commands.retrieve: (
            "kumi retrieve 'oat seed' --k 5",
            "kumi retrieve --questions asked.jsonl --out found.jsonl",
        ),
        report_commands.summaries: ("kumi summaries", "kumi summaries 'research_field = NLP'"),
        ask_commands.trace: ("kumi trace chunks:4f376d639742497b27fa.00000", "kumi trace notes/harbour.md"),
    },
    "The graph": {
        graph_commands.entities: (
            "kumi entities",
            "kumi entities 'Sabine Orrell'",
            "kumi entities --similar",
            "kumi entities --similar --write          asks about each pair",
        ),
        report_commands.report: (
            "kumi report                            the twenty largest",
            "kumi report 4f376d                     one whole report",
            "kumi report --html report.html         the graph and its reports, in a page",
        ),
        report_commands.export: (
            "kumi export graphml",
            "kumi export obsidian --out vault",
            "kumi export rdf --out graph.nt",
        ),
        graph_commands.edit: (
            "kumi edit 'Kit Roake = K. Roake'",
            "kumi edit 'type: Mercury = planet'",
            "kumi edit 'relation: Kit Roake -> Oban = She was born there.'",
            "kumi edit --undo 'type: Mercury = planet'",
        ),
        graph_commands.sparql: (
            "kumi sparql 'SELECT ?name { ?e a kumi:Entity ; rdfs:label ?name } LIMIT 10'",
            "kumi sparql 'DESCRIBE entities:4f376d639742497b27fa'",
            "kumi sparql @question.rq --format csv",
        ),
        tune: ("kumi tune", "kumi tune --sample 40 --max-cost 1 --write"),
    },
    "Serve it": {
        serve_commands.serve: (
            "kumi serve                             the page, in a browser on this machine",
            "kumi serve --index notes.kumi --index reports.kumi --port 9000",
            "kumi serve --host 0.0.0.0 --allow-host docs.example.org",
        ),
        serve_commands.mcp: ("kumi mcp --index reports/.kumi",),
    },
    "Look after it": {
        care_commands.status: ("kumi status", "kumi status --levels", "kumi status --json"),
        care_commands.check: ("kumi check", "kumi check --repair"),
        care_commands.copy: (
            "kumi copy .kumi 'postgresql://db/notes?schema=harbour'",
            "kumi copy 'postgresql://db/notes?schema=harbour' harbour.kumi",
        ),
        care_commands.methods: ("kumi methods",),
        care_commands.init: ("kumi init",),
        care_commands.trust: ("kumi trust", "kumi trust shared/kumi.toml"),
        care_commands.cache: ("kumi cache", "kumi cache prune", "kumi cache drop-batches"),
    },
}
EXAMPLES = ("kumi index FOLDER", "kumi ask 'What do they say about ...?'")
KEY_HELP = "Make the keys of a server, list them, and revoke them."
KEY_EXAMPLES = (
    "kumi key new --role reader --name Ana",
    "kumi key new --role reader --filter 'author = \"Sabine Orrell\"' --budget 200000",
    "kumi key list",
    "kumi key revoke 4f376d63",
)
EVAL_HELP = "Measure which method works best for you, and at what cost."
EVAL_EXAMPLES = (
    "kumi eval questions",
    "kumi eval run --methods bm25,naive,local --again naive --max-cost 5",
    "kumi eval judge --max-cost 20",
    "kumi eval report",
)


def _build_app(*, colour: bool) -> typer.Typer:
    """Build the command line. colour: with help for a terminal."""
    root = typer.Typer(
        cls=TranslatedGroup,
        help=HELP,
        epilog=format_examples(EXAMPLES, colour),
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if colour else None,
    )
    root.callback()(show_version_or_help)
    for panel, commands in COMMANDS.items():
        add_commands(root, commands, panel, colour=colour)
    keys = typer.Typer(
        cls=TranslatedGroup, help=KEY_HELP, epilog=format_examples(KEY_EXAMPLES, colour), no_args_is_help=True
    )
    add_commands(keys, serve_commands.KEY_COMMANDS, None, colour=colour)
    root.add_typer(keys, name="key", rich_help_panel="Serve it")
    evaluation = typer.Typer(
        cls=EvalGroup, help=EVAL_HELP, epilog=format_examples(EVAL_EXAMPLES, colour), no_args_is_help=True
    )
    root.add_typer(evaluation, name="eval", rich_help_panel="Evaluate it")
    return root


app = _build_app(colour=sys.stdout.isatty())
_ClickException: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main() -> None:
    """Run the command line; print an error as one line, with remedy.

    Exit codes: 0 success, 1 some items failed, 2 usage or settings, 3 requests wait in a batch, 130 Ctrl-C.
    """
    copy_context().run(_main)  # the language that it chooses is its own


def _main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    logging.getLogger("kumihimo").handlers[:] = [printing.TerminalHandler()]
    out = sys.stdout
    try:
        _run_app()
    except _ClickException as error:
        command = error.ctx.command_path if error.ctx else "kumi"
        message = translate(error.format_message()).replace("Value error, ", "")
        sys.exit(_print_error(f"{message} {translate(f'See `{command} --help`')}", 2))
    except SystemExit as stop:
        if sys.stdout is out:
            raise
        sys.exit(0 if stop.code == 1 else stop.code)  # the reader closed the pipe: no error
    except KumiError as error:
        sys.exit(_print_error(str(error), 1 if isinstance(error, ItemFailed) else 2))
    except (options.Interrupted, typer.Abort) as stop:
        _exit_now(_print_error(str(stop) or "stopped", 130))
    except (OSError, StorageError) as error:
        sys.exit(_print_error(describe_failure(error), 2))


def _run_app() -> None:
    """Run a command, and exit. Raises Interrupted on Ctrl-C."""
    code = app(prog_name="kumi", standalone_mode=False)
    if code == 130:  # typer's, while no index was open
        raise options.Interrupted
    sys.exit(code)


def _exit_now(code: int) -> None:
    """Exit at once, without waiting for requests under way."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _print_error(message: str, code: int) -> int:
    printing.print_error(message)
    return code


_FULL = "the disk is full: free some room on it, and run the same command again"
_FULL_CODES = (errno.ENOSPC, errno.EDQUOT)
_REMEDIES = {
    errno.EACCES: "check that you may read and write it",
    errno.EPERM: "check that you may read and write it",
    errno.EROFS: "use an index in a folder that you may write to, --index",
    errno.EMFILE: "close files, or raise the limit, `ulimit -n`",
    errno.EIO: "the disk may be damaged",
}


def describe_failure(error: OSError | StorageError) -> str:
    """Return a line on the error, its place and its remedy.

    >>> describe_failure(OSError(errno.EACCES, "Permission denied", "notes/a.md"))
    'notes/a.md: Permission denied: check that you may read and write it'
    """
    if isinstance(error, OSError):
        what = error.strerror or str(error) or type(error).__name__
        remedy = _FULL if error.errno in _FULL_CODES else _REMEDIES.get(error.errno or 0, "")
        return ": ".join(filter(None, (str(error.filename or ""), translate(what), translate(remedy))))
    if "full" in str(error):
        return f"{error}: {_FULL}"
    return f"the database of the index or of its cache: {error}: check that you may write to its folder"
