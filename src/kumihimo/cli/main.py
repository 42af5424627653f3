"""a command line -> a call of the library, its result printed."""

import logging
import os
import sys
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer.main
from typer import Argument, Exit, Option

from kumihimo.app import config, method_guide, safe_write
from kumihimo.app.catalogue import installed_catalogue
from kumihimo.app.facade import StorageError
from kumihimo.app.json_values import method_json
from kumihimo.app.settings_registry import SettingsRegistry
from kumihimo.app.snapshot import DEFAULT_METHOD
from kumihimo.app.trust import trust_settings_file
from kumihimo.cli import (
    ask_commands,
    builds,
    failures,
    graph_commands,
    import_commands,
    options,
    printing,
    report_commands,
    serve_commands,
    terminal,
    watch_commands,
)
from kumihimo.cli.groups import EvalGroup, add_commands
from kumihimo.cli.translated_help import TranslatedGroup, format_examples
from kumihimo.cli.tune import tune
from kumihimo.core.errors import ItemFailed, KumiError, SettingsError, describe_unknown
from kumihimo.text.translation import translate

Paths = Annotated[list[str] | None, Argument(help="Files, folders, addresses. Default: everything indexed before.")]
Methods = Annotated[
    str,
    Option(
        help="Methods to build for, and to remember: bm25,naive.",
        metavar="NAMES",
        autocompletion=options.complete_methods,
    ),
]


def index(
    session: options.PaidSession,
    paths: Paths = None,
    methods: Methods = "",
    wait: options.Wait = False,
    reread: Annotated[bool, Option("--reread", help="Read every file again, even if it looks unchanged.")] = False,
    recluster: Annotated[bool, Option("--recluster", help="Detect the communities of the graph from scratch.")] = False,
    refresh: Annotated[bool, Option("--refresh", help="Write the reports again that have changes since.")] = False,
    rebuild: Annotated[bool, Option("--rebuild", help="Build every table again; cached replies are kept.")] = False,
    batch: Annotated[bool, Option("--batch", help="Submit requests as batches, at half the price.")] = False,
    crawl: options.Crawl = 0,
    yes: Annotated[
        bool, Option("--yes", "-y", help="Agree to pay for model calls again if a change needs them.")
    ] = False,
) -> None:
    """Add files and folders to the index, or refresh what it holds."""
    consent = yes or (builds.confirm_rebuild if printing.is_interactive() and not session.as_json else False)
    with session.open() as kumi, session.progress_bar() as progress:
        built = kumi.index(
            *(paths or []),
            methods=options.split_names(methods),
            wait=wait,
            reread=reread,
            recluster=recluster,
            refresh=refresh,
            rebuild=rebuild,
            batch=batch,
            crawl=crawl,
            caps=session.caps,
            consent=consent,
            progress=progress,
        )
    session.show(built, partial(builds.show_built, verbose=session.verbose))
    waits = built.batch and built.batch.waiting
    raise Exit(3 if waits else 1 if built.failed or (built.batch and built.batch.capped) else 0)


def plan(
    session: options.Session,
    paths: Paths = None,
    methods: Methods = "",
    sample: Annotated[int, Option(help="Call the model for this many chunks, for a better estimate.", min=0)] = 0,
    ask: Annotated[
        str, Option(help="Estimate a question by this method instead; the question may follow.", metavar="METHOD")
    ] = "",
    crawl: options.Crawl = 0,
) -> None:
    """Estimate model calls and cost of indexing or of a question."""
    if ask and (methods or sample):
        raise SettingsError(
            "--ask estimates a question, --methods and --sample estimate indexing: use one or the other"
        )
    with session.open() as kumi, session.progress_bar() as progress:
        if ask:
            estimate = kumi.estimate_query_cost(ask, " ".join(paths or []))
        else:
            names = options.split_names(methods)
            estimate = kumi.plan(*(paths or []), methods=names, sample=sample, crawl=crawl, progress=progress)
    session.show(estimate, builds.show_plan)


def remove(
    index: options.IndexFolder,
    target: Annotated[
        str, Argument(help="The name or path of a source, the uri of a document, a file, or a folder.")
    ] = "",
    forget: Annotated[
        bool, Option("--forget", help="Erase all traces of what you remove now or removed earlier.")
    ] = False,
    wait: options.Wait = False,
) -> None:
    """Remove a source or a document from the index; keep its file."""
    with index.open() as kumi, printing.progress_bar() as progress:
        built = kumi.remove(target, forget=forget, wait=wait, progress=progress)
    index.show(built, builds.show_removed)
    raise Exit(1 if built.failed else 0)


def status(
    index: options.IndexFolder,
    levels: Annotated[bool, Option("--levels", help="Also show the size of each community level.")] = False,
) -> None:
    """Show the sources, tables, models and failures of the index."""
    with index.open() as kumi:
        state = kumi.status(levels=levels)
    index.show(state, terminal.show_status)
    raise Exit(1 if state.failed else 0)


def check(
    index: options.IndexFolder,
    repair: Annotated[bool, Option("--repair", help="Rebuild the damaged parts that can be rebuilt.")] = False,
    yes: Annotated[
        bool, Option("--yes", "-y", help="Agree to pay for model calls again if the repair needs them.")
    ] = False,
    wait: options.Wait = False,
) -> None:
    """Check the files of the index and of the cache for damage."""
    with index.open() as kumi:
        result = kumi.check(repair=repair, consent=yes, wait=wait)
    index.show(result, terminal.show_check)
    raise Exit(1 if result.problems else 0)


def methods(output: options.Output) -> None:
    """List the retrieval methods, with their recall and settings."""
    catalogue = installed_catalogue()
    if output.as_json:
        printing.print_json({name: method_json(name, method) for name, method in catalogue.methods.items()})
        return
    terminal.show_methods(catalogue.methods, DEFAULT_METHOD)
    rows = [(name, *(f"{share:.3f}" for share in shares)) for name, shares in method_guide.RECALL.items()]
    printing.print_message("Recall@5 without a model (see docs/methods.md):")
    printing.show_rows(rows, head=("", *method_guide.RECALL_SETS), numeric=range(1, 6))


def init(
    index: options.IndexFolder,
    writing: options.Writing,
    path: Annotated[Path | None, Argument(help="The file to write. Default: kumi.toml beside the index.")] = None,
) -> None:
    """Write a kumi.toml that lists every setting, commented out."""
    path = path or index.index_folder.parent / "kumi.toml"
    registry = SettingsRegistry(installed_catalogue())
    safe_write.write_file(path, [config.render_default_config(registry.own, registry.summaries)], force=writing.force)
    index.show({"written": str(path)}, f"Wrote {path}: uncomment a line to change a setting.")


def trust(
    index: options.IndexFolder,
    path: Annotated[
        Path | None, Argument(help="A kumi.toml, or its folder. Default: the one beside the index.")
    ] = None,
) -> None:
    """Allow a kumi.toml to use the servers and keys that it names."""
    path = path or index.index_folder.resolve().parent
    path = path / "kumi.toml" if path.is_dir() else path
    grants = trust_settings_file(path, os.environ)
    text = "\n  ".join([f"Trusted: {path}", *map(str, grants)]) if grants else f"{path} needs no trust."
    index.show({"path": str(path), "trusted": [grant._asdict() for grant in grants]}, text)


def cache(
    index: options.IndexFolder,
    action: Annotated[str, Argument(help="prune: erase unused replies. drop-batches: give up batches.")] = "show",
) -> None:
    """Show the size and hits of the response cache, or prune it."""
    with index.open() as kumi:
        actions: dict[str, Callable[[], dict[str, int]]] = {
            "show": kumi.cache_stats,
            "prune": lambda: {"erased": kumi.prune()},
            "drop-batches": lambda: {"dropped": kumi.drop_batches()},
        }
        if action not in actions:
            raise SettingsError(describe_unknown("cache command", action, actions))
        index.show(actions[action](), terminal.show_cache)


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
        index: (
            "kumi index notes reports/2024.pdf",
            "kumi index                             refresh everything indexed before",
            "kumi index --methods braid,global,local --max-cost 5",
            "kumi index --set chunks.size=300 --yes",
        ),
        plan: (
            "kumi plan notes",
            "kumi plan --methods braid,global,local --sample 20",
            "kumi plan --ask hyde 'Who mended the breakwater?'",
        ),
        watch_commands.watch: ("kumi watch notes", "kumi watch --methods local,global --max-cost 5"),
        import_commands.import_: (
            "kumi import graphrag christmas",
            "kumi import lightrag rag_storage --name minutes",
            "kumi import openie openie_results.json --methods local,light",
        ),
        remove: (
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
        graph_commands.sparql: (
            "kumi sparql 'SELECT ?name { ?e a kumi:Entity ; rdfs:label ?name } LIMIT 10'",
            "kumi sparql 'DESCRIBE entities:4f376d639742497b27fa'",
            "kumi sparql @question.rq --format csv",
        ),
        tune: ("kumi tune", "kumi tune --sample 40 --max-cost 1 --write", "kumi tune --questions asked.jsonl"),
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
        status: ("kumi status", "kumi status --levels", "kumi status --json"),
        check: ("kumi check", "kumi check --repair"),
        methods: ("kumi methods",),
        init: ("kumi init",),
        trust: ("kumi trust", "kumi trust shared/kumi.toml"),
        cache: ("kumi cache", "kumi cache prune", "kumi cache drop-batches"),
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


app = _build_app(colour=bool(sys.stdout) and sys.stdout.isatty())
_ClickException: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main() -> None:
    """Run the command line; print an error as one line, with remedy.

    Exit codes: 0 success, 1 some items failed, 2 usage or settings, 3 requests wait in a batch, 130 Ctrl-C.
    """
    copy_context().run(_main)  # the language that it chooses is its own


def _main() -> None:
    """Run the command line."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.reconfigure(errors="replace")
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
        sys.exit(_print_error(failures.describe_failure(error), 2))


def _run_app() -> None:
    """Run a command, and exit. Raises Interrupted on Ctrl-C."""
    code = app(prog_name="kumi", standalone_mode=False)
    if code == 130:  # typer's, while no index was open
        raise options.Interrupted
    sys.exit(code)


def _exit_now(code: int) -> None:
    """Exit at once, without waiting for requests under way."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(code)


def _print_error(message: str, code: int) -> int:
    printing.print_error(message)
    return code
