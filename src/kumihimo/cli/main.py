"""a command line -> a call of the library, its result printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main

from kumihimo.app import config
from kumihimo.app.catalogue import METHODS
from kumihimo.app.facade import StorageError
from kumihimo.app.method_guide import BEST_FOR, RECALL, RECALL_SETS
from kumihimo.app.settings_registry import SETTINGS, SUMMARIES
from kumihimo.app.snapshot import DEFAULT_METHOD
from kumihimo.cli import (
    ask_commands,
    graph_commands,
    jsonl,
    report_commands,
    sparql,
    summaries,
    terminal,
    tune,
)
from kumihimo.cli.cli_session import Interrupted, configure_logging, open_index
from kumihimo.cli.command_groups import EVAL_EXAMPLES, EVAL_HELP, EvalGroup, add_commands, format_examples
from kumihimo.cli.options import (
    DEFAULT_INDEX,
    CacheFile,
    IndexFolder,
    JsonOutput,
    MaxCalls,
    MaxCost,
    MaxTokens,
    Methods,
    SettingOverrides,
    ShowPrompts,
    Verbose,
    Wait,
)
from kumihimo.core.errors import ItemFailed, KumiError, SettingsError, describe_unknown
from kumihimo.llm.budget import Caps

Paths = Annotated[list[str] | None, typer.Argument(help="Files and folders. Default: everything indexed before.")]


def index(
    paths: Paths = None,
    folder: IndexFolder = DEFAULT_INDEX,
    methods: Methods = "",
    options: SettingOverrides = None,
    wait: Wait = False,
    reread: Annotated[
        bool, typer.Option("--reread", help="Read every file again, even if it looks unchanged.")
    ] = False,
    recluster: Annotated[
        bool, typer.Option("--recluster", help="Detect the communities of the graph from scratch.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build every table again; cached replies are kept.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree to pay again if a change requires it.")] = False,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: CacheFile = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: JsonOutput = False,
) -> None:
    """Add files and folders to the index, or refresh what it holds."""
    configure_logging(verbose, show_prompts)
    caps = Caps(max_calls, max_tokens, max_cost)
    consent = yes or (terminal.confirm_rebuild if terminal.is_interactive() and not as_json else False)
    with open_index(folder, options, cache) as kumi, terminal.progress_bar(not (verbose or show_prompts)) as progress:
        built = kumi.index(
            *(paths or []),
            methods=_split_methods(methods),
            wait=wait,
            reread=reread,
            recluster=recluster,
            rebuild=rebuild,
            caps=caps,
            consent=consent,
            progress=progress,
        )
    jsonl.print_json(asdict(built)) if as_json else terminal.show_built(built)
    raise typer.Exit(1 if built.failed else 0)


def plan(
    paths: Paths = None,
    folder: IndexFolder = DEFAULT_INDEX,
    methods: Methods = "",
    sample: Annotated[int, typer.Option(help="Call the model for this many chunks, for a better estimate.", min=0)] = 0,
    ask: Annotated[
        str, typer.Option(help="Estimate a question by this method instead; the question may follow.", metavar="METHOD")
    ] = "",
    options: SettingOverrides = None,
    cache: CacheFile = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: JsonOutput = False,
) -> None:
    """Estimate the model calls and the cost of indexing or a question."""
    configure_logging(verbose, show_prompts)
    if ask and (methods or sample):
        raise SettingsError(
            "--ask estimates a question, --methods and --sample estimate indexing: use one or the other"
        )
    with open_index(folder, options, cache) as kumi, terminal.progress_bar(not (verbose or show_prompts)) as progress:
        if ask:
            estimate = kumi.estimate_query_cost(ask, " ".join(paths or []))
        else:
            estimate = kumi.plan(*(paths or []), methods=_split_methods(methods), sample=sample, progress=progress)
    jsonl.print_json(asdict(estimate)) if as_json else terminal.show_plan(estimate)


def _split_methods(methods: str) -> list[str]:
    return [name.strip() for name in methods.split(",") if name.strip()]


def remove(
    target: Annotated[str, typer.Argument(help="A source's name or path, a document's uri, or a file or folder.")],
    folder: IndexFolder = DEFAULT_INDEX,
    forget: Annotated[bool, typer.Option("--forget", help="Also erase cached replies that only it used.")] = False,
    wait: Wait = False,
    as_json: JsonOutput = False,
) -> None:
    """Remove a source or a document from the index; keep its file."""
    with open_index(folder) as kumi, terminal.progress_bar() as progress:
        built = kumi.remove(target, forget=forget, wait=wait, progress=progress)
    jsonl.print_json(asdict(built)) if as_json else terminal.show_removed(built)
    raise typer.Exit(1 if built.failed else 0)


def status(
    folder: IndexFolder = DEFAULT_INDEX,
    levels: Annotated[bool, typer.Option("--levels", help="Also show the size of each community level.")] = False,
    as_json: JsonOutput = False,
) -> None:
    """Show the sources, tables, models and failures of the index."""
    with open_index(folder) as kumi:
        state = kumi.status(levels=levels)
    jsonl.print_json(asdict(state)) if as_json else terminal.show_status(state)
    raise typer.Exit(1 if state.failed else 0)


def methods(as_json: JsonOutput = False) -> None:
    """List the retrieval methods, with their recall and settings."""
    if as_json:
        described = {
            name: {
                "summary": method.summary,
                "suits": BEST_FOR.get(name, ""),
                "recall@5": dict(zip(RECALL_SETS, RECALL.get(name, ()), strict=False)),
                "default": name == DEFAULT_METHOD,
                "reads": list(method.tables),
                "settings": {
                    setting.name: {"type": setting.type_description, "default": setting.default}
                    for setting in method.settings.values()
                },
            }
            for name, method in METHODS.items()
        }
        jsonl.print_json(described)
    else:
        terminal.show_methods(METHODS, DEFAULT_METHOD)
        rows = [(name, *(f"{share:.3f}" for share in shares)) for name, shares in RECALL.items()]
        print("Recall@5 without a model (see docs/methods.md):")
        terminal.show_rows(rows, head=("", *RECALL_SETS), numeric=range(1, 6))


def init(
    path: Annotated[Path | None, typer.Argument(help="The file to write. Default: kumi.toml beside the index.")] = None,
    folder: IndexFolder = DEFAULT_INDEX,
    as_json: JsonOutput = False,
) -> None:
    """Write a kumi.toml that lists every setting, commented out."""
    path = path or folder.parent / "kumi.toml"
    if path.exists():
        raise SettingsError(f"{path} already exists: edit it, or name another file")
    jsonl.write_text_lines(path, config.render_default_config(SETTINGS, SUMMARIES).splitlines())
    message = f"Wrote {path}: uncomment a line to change a setting."
    jsonl.print_json({"written": str(path)}) if as_json else print(message)


def cache(
    action: Annotated[str, typer.Argument(help="prune: erase replies that a rebuild would not use.")] = "show",
    folder: IndexFolder = DEFAULT_INDEX,
    as_json: JsonOutput = False,
) -> None:
    """Show the size and hits of the response cache, or prune it."""
    if action not in ("show", "prune"):
        raise SettingsError(describe_unknown("cache command", action, ("show", "prune")))
    with open_index(folder) as kumi:
        result = {"erased": kumi.prune()} if action == "prune" else kumi.cache_stats()
    jsonl.print_json(result) if as_json else terminal.show_cache(result)


def show_version_or_help(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        from importlib import metadata

        print(f"kumihimo {metadata.version('kumihimo')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


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
        remove: ("kumi remove notes/old.md", "kumi remove reports --forget"),
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
        summaries.summaries: ("kumi summaries", "kumi summaries 'research_field = NLP'"),
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
            "kumi report                            the tree of reports",
            "kumi report 4f376d                     one whole report",
            "kumi report --html report.html         the graph and its reports, in a page",
        ),
        report_commands.export: (
            "kumi export graphml",
            "kumi export obsidian --out vault",
            "kumi export rdf --out graph.nt",
        ),
        sparql.sparql: (
            "kumi sparql 'SELECT ?name { ?e a kumi:Entity ; rdfs:label ?name } LIMIT 10'",
            "kumi sparql 'DESCRIBE entities:4f376d639742497b27fa'",
            "kumi sparql @question.rq --format csv",
        ),
        tune.tune: (
            "kumi tune",
            "kumi tune --sample 40 --max-cost 1 --write",
            "kumi tune --questions asked.jsonl",
        ),
    },
    "Look after it": {
        status: ("kumi status", "kumi status --levels", "kumi status --json"),
        methods: ("kumi methods",),
        init: ("kumi init",),
        cache: ("kumi cache", "kumi cache prune"),
    },
}
EXAMPLES = ("kumi index FOLDER", "kumi ask 'What do they say about ...?'")


def _build_app(*, colour: bool) -> typer.Typer:
    """Build the command line. colour: with help for a terminal."""
    root = typer.Typer(
        help=HELP,
        epilog=format_examples(EXAMPLES, colour),
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if colour else None,
    )
    root.callback()(show_version_or_help)
    for panel, commands in COMMANDS.items():
        add_commands(root, commands, panel, colour)
    group = typer.Typer(
        cls=EvalGroup, help=EVAL_HELP, epilog=format_examples(EVAL_EXAMPLES, colour), no_args_is_help=True
    )
    root.add_typer(group, name="eval", rich_help_panel="Evaluate it")
    return root


app = _build_app(colour=bool(sys.stdout) and sys.stdout.isatty())
_ClickException: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main() -> None:
    """Run the command line; print an error as one line, with remedy.

    Exit codes: 0 success, 1 some items failed, 2 usage or settings, 130 Ctrl-C.
    """
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.reconfigure(errors="replace")
    out = sys.stdout
    try:
        sys.exit(app(standalone_mode=False))
    except _ClickException as error:
        command = error.ctx.command_path if error.ctx else "kumi"
        sys.exit(_print_error(f"{error.format_message()} See `{command} --help`", 2))
    except SystemExit as stop:
        if sys.stdout is out:
            raise
        sys.exit(0 if stop.code == 1 else stop.code)  # the reader closed the pipe: no error
    except KumiError as error:
        sys.exit(_print_error(str(error), 1 if isinstance(error, ItemFailed) else 2))
    except Interrupted:
        _exit_now(_print_error("stopped; the index is as it was before. Run the same command again to go on.", 130))
    except (OSError, StorageError) as error:
        sys.exit(_print_error(f"{error}: check that the disk has room and that the index folder can be written", 2))


def _exit_now(code: int) -> None:
    """Exit at once, without waiting for requests under way."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(code)


def _print_error(message: str, code: int) -> int:
    terminal.print_error(message)
    return code


if __name__ == "__main__":
    main()
