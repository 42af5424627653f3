"""a command line -> what it asks for: parse, call the session, print."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from kumihimo.app import config
from kumihimo.app.settings_registry import SETTINGS, SUMMARIES
from kumihimo.app.snapshot import DEFAULT
from kumihimo.cli import (
    ask_commands,
    evaluating,
    graph_commands,
    jsonl,
    report_commands,
    sparql,
    summaries,
    terminal,
    tune,
)
from kumihimo.cli.cli_session import Stopped, listen, opened
from kumihimo.cli.options import (
    HOME,
    Index,
    Json,
    MaxCalls,
    MaxCost,
    MaxTokens,
    Memo,
    Methods,
    Set,
    ShowPrompts,
    Verbose,
    Wait,
)
from kumihimo.core.errors import ItemFailed, KumiError, SettingsError, unknown
from kumihimo.llm.budget import Caps
from kumihimo.methods import METHODS
from kumihimo.methods.method_guide import RECALL, SETS, SUITS

Paths = Annotated[list[str] | None, typer.Argument(help="Files and folders; none: all that are remembered.")]


def index(
    paths: Paths = None,
    folder: Index = HOME,
    methods: Methods = "",
    options: Set = None,
    wait: Wait = False,
    check: Annotated[bool, typer.Option("--check", help="Read every file again, even if it looks unchanged.")] = False,
    regroup: Annotated[bool, typer.Option("--regroup", help="Find the communities of the graph anew.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree to pay again where a change needs that.")] = False,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    memo: Memo = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: Json = False,
) -> None:
    """Add files and folders, or refresh them: what is new, changed or gone."""
    listen(verbose, show_prompts)
    caps = Caps(max_calls, max_tokens, max_cost)
    consent = yes or (terminal.agree if terminal.is_person() and not as_json else False)
    with opened(folder, options, memo) as kumi, terminal.progress(not (verbose or show_prompts)) as progress:
        built = kumi.index(
            *(paths or []),
            methods=_named(methods),
            wait=wait,
            check=check,
            regroup=regroup,
            caps=caps,
            consent=consent,
            progress=progress,
        )
    jsonl.show(asdict(built)) if as_json else terminal.show_built(built)
    raise typer.Exit(1 if built.failed else 0)


def plan(
    paths: Paths = None,
    folder: Index = HOME,
    methods: Methods = "",
    sample: Annotated[int, typer.Option(help="Ask about this many chunks in earnest, to say more.", min=0)] = 0,
    ask: Annotated[
        str, typer.Option(help="What a question asked by this method costs; the question may follow.", metavar="METHOD")
    ] = "",
    options: Set = None,
    memo: Memo = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: Json = False,
) -> None:
    """Say what indexing, or a question, would ask of models, and cost, without doing it."""
    listen(verbose, show_prompts)
    if ask and (methods or sample):
        raise SettingsError("--ask is about a question, --methods and --sample about indexing: say one or the other")
    with opened(folder, options, memo) as kumi, terminal.progress(not (verbose or show_prompts)) as progress:
        if ask:
            found = kumi.foretell(ask, " ".join(paths or []))
        else:
            found = kumi.plan(*(paths or []), methods=_named(methods), sample=sample, progress=progress)
    jsonl.show(asdict(found)) if as_json else terminal.show_plan(found)


def _named(methods: str) -> list[str]:
    return [name.strip() for name in methods.split(",") if name.strip()]


def remove(
    target: Annotated[str, typer.Argument(help="A source's name or path, a document's uri, or a file or folder.")],
    folder: Index = HOME,
    forget: Annotated[bool, typer.Option("--forget", help="Erase from the memo, too, what only it needed.")] = False,
    wait: Wait = False,
    as_json: Json = False,
) -> None:
    """Take a source or a document out of the index; its file stays where it is."""
    with opened(folder) as kumi, terminal.progress() as progress:
        built = kumi.remove(target, forget=forget, wait=wait, progress=progress)
    jsonl.show(asdict(built)) if as_json else terminal.show_removed(built)
    raise typer.Exit(1 if built.failed else 0)


def status(
    folder: Index = HOME,
    levels: Annotated[bool, typer.Option("--levels", help="Show what each level of communities holds.")] = False,
    as_json: Json = False,
) -> None:
    """Show what the index holds: sources, tables, models, what failed."""
    with opened(folder) as kumi:
        found = kumi.status(levels=levels)
    jsonl.show(asdict(found)) if as_json else terminal.show_status(found)
    raise typer.Exit(1 if found.failed else 0)


def methods(as_json: Json = False) -> None:
    """List the methods: which question each suits, what was measured, their settings."""
    if as_json:
        described = {
            name: {
                "summary": m.summary,
                "suits": SUITS.get(name, ""),
                "recall@5": dict(zip(SETS, RECALL.get(name, ()), strict=False)),
                "default": name == DEFAULT,
                "reads": list(m.tables),
                "settings": {s.name: {"type": s.kind, "default": s.default} for s in m.settings.values()},
            }
            for name, m in METHODS.items()
        }
        jsonl.show(described)
    else:
        terminal.show_methods(METHODS, DEFAULT)
        rows = [(name, *(f"{share:.3f}" for share in shares)) for name, shares in RECALL.items()]
        print("Recall@5 without a model, as docs/methods.md tells it:")
        terminal.show_rows(rows, head=("", *SETS), figures=range(1, 6))


def init(
    path: Annotated[Path | None, typer.Argument(help="The file to write: kumi.toml beside the index.")] = None,
    folder: Index = HOME,
    as_json: Json = False,
) -> None:
    """Write a kumi.toml that shows every setting and sets none."""
    path = path or folder.parent / "kumi.toml"
    if path.exists():
        raise SettingsError(f"{path} is there already: edit it, or name another file")
    jsonl.write(path, config.written(SETTINGS, SUMMARIES).splitlines())
    told = f"Wrote {path}: take the # away from a line and change it."
    jsonl.show({"written": str(path)}) if as_json else print(told)


def memo(
    action: Annotated[str, typer.Argument(help="prune: erase what building the index anew would not use.")] = "show",
    folder: Index = HOME,
    as_json: Json = False,
) -> None:
    """Show what models have said to this index, replies, size, hits; or prune it."""
    if action not in ("show", "prune"):
        raise SettingsError(unknown("memo command", action, ("show", "prune")))
    with opened(folder) as kumi:
        found = {"erased": kumi.prune()} if action == "prune" else kumi.memo()
    jsonl.show(found) if as_json else terminal.show_memo(found)


def about(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and leave.", is_eager=True)] = False,
) -> None:
    if version:
        from importlib import metadata

        print(f"kumihimo {metadata.version('kumihimo')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


HELP = "One index of your documents, and answers that say where they stand."
COMMANDS: dict[str, dict[Callable[..., None], tuple[str, ...]]] = {  # under their headings, each with examples
    "Build an index": {
        index: (
            "kumi index notes reports/2024.pdf",
            "kumi index                             refresh all that the index remembers",
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
            "kumi ask 'What did it cost?' --where 'author = \"Sabine Orrell\" and date >= 2024'",
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
            "kumi report 4f376d                     one of them, whole",
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
        memo: ("kumi memo", "kumi memo prune"),
    },
}
FIRST = ("kumi index FOLDER", "kumi ask 'What do they say about ...?'")


def _app(*, coloured: bool) -> typer.Typer:
    """The command line. coloured: its help is for a person."""
    made = typer.Typer(
        help=HELP,
        epilog=_examples(FIRST, coloured),
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if coloured else None,
    )
    made.callback()(about)
    for panel, commands in COMMANDS.items():
        _fill(made, commands, panel, coloured)
    group = typer.Typer(help=evaluating.HELP, epilog=_examples(evaluating.FIRST, coloured), no_args_is_help=True)
    _fill(group, evaluating.COMMANDS, None, coloured)
    made.add_typer(group, name="eval", rich_help_panel="Evaluate it")
    return made


def _fill(
    group: typer.Typer, commands: Mapping[Callable[..., None], Sequence[str]], panel: str | None, coloured: bool
) -> None:
    for command, shown in commands.items():
        made = group.command(command.__name__.rstrip("_"), epilog=_examples(shown, coloured), rich_help_panel=panel)
        made(command)


def _examples(shown: Sequence[str], coloured: bool) -> str:
    """Each on a line of its own: of what is not coloured, after a mark that keeps lines from being joined."""
    if not coloured:
        return "\n".join(["\b", "For example:", *(f"  {line}" for line in shown)])
    from rich.markup import escape

    return "\n\n".join(["[bold]For example[/bold]", *(f"  [cyan]{escape(line)}[/cyan]" for line in shown)])


app = _app(coloured=bool(sys.stdout) and sys.stdout.isatty())
_Wrong: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main() -> None:
    """The outer door: every error is one line that names the remedy. Exit 2: usage or settings."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.reconfigure(errors="replace")
    out = sys.stdout
    try:
        sys.exit(app(standalone_mode=False))
    except _Wrong as error:
        command = error.ctx.command_path if error.ctx else "kumi"
        sys.exit(_say(f"{error.format_message()} See `{command} --help`", 2))
    except SystemExit as stop:
        if sys.stdout is out:
            raise
        sys.exit(0 if stop.code == 1 else stop.code)  # typer has replaced a stream that nobody reads any more
    except KumiError as error:
        sys.exit(_say(str(error), 1 if isinstance(error, ItemFailed) else 2))
    except Stopped:
        _leave(_say("stopped; the index is as it was before. Run the same command again to go on.", 130))
    except (OSError, sqlite3.Error) as error:
        sys.exit(_say(f"{error}: check that the disk has room and that the index folder can be written", 2))


def _leave(code: int) -> None:
    """At once: requests that are under way are not waited for."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(code)


def _say(message: str, code: int) -> int:
    terminal.complain(message)
    return code


if __name__ == "__main__":
    main()
