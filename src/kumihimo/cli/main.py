"""a command line -> a call of the library, its result printed."""

import errno
import logging
import os
import sys
from contextvars import copy_context
from typing import Annotated, Any

import typer.main
from typer import Option

from kumihimo.cli import printing
from kumihimo.cli.entry import print_version
from kumihimo.cli.translated_help import CommandTable, Interrupted, LanguageChoice, format_examples, group_of
from kumihimo.core.errors import ItemFailed, KumiError, StorageError
from kumihimo.text.translation import choose_language, message_language, translate, use_system_language


def show_version_or_help(
    context: typer.Context,
    _language: LanguageChoice = "",
    version: Annotated[bool, Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        print_version()
    elif context.invoked_subcommand is None:
        printing.print_text(context.get_help())


HELP = "Index your documents, and get answers with their sources."
COMMANDS: dict[str, CommandTable] = {  # by heading
    "Build an index": {
        "index_commands:index": (
            "Add files and folders to the index, or refresh what it holds.",
            "kumi index notes reports/2024.pdf",
            "kumi index                             refresh everything indexed before",
            "kumi index --methods braid,global,local --max-cost 5",
            "kumi index --set chunks.size=300 --yes",
        ),
        "index_commands:plan": (
            "Estimate model calls and cost of indexing or of a question.",
            "kumi plan notes",
            "kumi plan --methods braid,global,local",
            "kumi plan --ask hyde 'Who mended the breakwater?'",
        ),
        "index_commands:watch": (
            "Build the index, and again whenever a file changes.",
            "kumi watch notes",
            "kumi watch --methods local,global --max-cost 5",
        ),
        "index_commands:import_": (
            "Add an index of graphrag, LightRAG or others, for free.",
            "kumi import graphrag christmas",
            "kumi import lightrag rag_storage --name minutes",
        ),
        "index_commands:remove": (
            "Remove a source or a document from the index; keep its file.",
            "kumi remove notes/old.md",
            "kumi remove reports --forget",
            "kumi remove --forget                   erase what earlier removals left",
        ),
    },
    "Ask it": {
        "ask_commands:ask": (
            "Answer a question with its sources, or start a conversation.",
            "kumi ask 'Who mended the breakwater?'",
            "kumi ask 'What are the main themes?' --method global",
            "kumi ask '組紐を送ったのは誰ですか' --method bm25",
            "kumi ask 'What did it cost?' --filter 'author = \"Sabine Orrell\" and date >= 2024'",
            "kumi ask                               a conversation",
        ),
        "ask_commands:retrieve": (
            "Show the evidence for a question, best first; no answer.",
            "kumi retrieve 'oat seed' --k 5",
            "kumi retrieve --questions asked.jsonl --out found.jsonl",
        ),
        "report_commands:summaries": (
            "List the metadata summaries that `meta` uses, or show one.",
            "kumi summaries",
            "kumi summaries 'research_field = NLP'",
        ),
        "ask_commands:trace": (
            "Show the text of a row and its location in the documents.",
            "kumi trace chunks:4f376d639742497b27fa.00000",
            "kumi trace notes/harbour.md",
        ),
    },
    "The graph": {
        "graph_commands:entities": (
            "List the entities of the graph, show one, or find duplicates.",
            "kumi entities",
            "kumi entities 'Sabine Orrell'",
            "kumi entities --similar",
            "kumi entities --similar --write          asks about each pair",
        ),
        "report_commands:report": (
            "Show community reports: the largest, one report, or an HTML page.",
            "kumi report                            the twenty largest",
            "kumi report 4f376d                     one whole report",
            "kumi report --html report.html         the graph and its reports, in a page",
        ),
        "report_commands:export": (
            "Export the graph and its reports to files for other programs.",
            "kumi export graphml",
            "kumi export obsidian --out vault",
            "kumi export rdf --out graph.nt",
        ),
        "graph_commands:edit": (
            "Mend the graph with a line of aliases.txt, or list its lines.",
            "kumi edit 'Kit Roake = K. Roake'",
            "kumi edit 'type: Mercury = planet'",
            "kumi edit 'relation: Kit Roake -> Oban = She was born there.'",
            "kumi edit --undo 'type: Mercury = planet'",
        ),
        "graph_commands:sparql": (
            "Query documents, passages, entities and reports as RDF.",
            "kumi sparql 'SELECT ?name { ?e a kumi:Entity ; rdfs:label ?name } LIMIT 10'",
            "kumi sparql 'DESCRIBE entities:4f376d639742497b27fa'",
            "kumi sparql @question.rq --format csv",
        ),
        "tune:tune": (
            "Let the chat model write settings that fit your documents.",
            "kumi tune",
            "kumi tune --sample 40 --max-cost 1 --write",
        ),
    },
    "Serve it": {
        "serve_commands:serve": (
            "Serve indexes: a page, HTTP, OpenAI-compatible and MCP.",
            "kumi serve                             the page, in a browser on this machine",
            "kumi serve --index notes.kumi --index reports.kumi --port 9000",
            "kumi serve --host 0.0.0.0 --allow-host docs.example.org",
        ),
        "serve_commands:mcp": (
            "Serve indexes to an AI application that starts this command.",
            "kumi mcp --index reports/.kumi",
        ),
    },
    "Look after it": {
        "care_commands:status": (
            "Show the sources, tables, models and failures of the index.",
            "kumi status",
            "kumi status --levels",
            "kumi status --json",
        ),
        "care_commands:check": (
            "Check the files of the index and of the cache for damage.",
            "kumi check",
            "kumi check --repair",
        ),
        "care_commands:copy": (
            "Copy an index to another folder or database, and check it.",
            "kumi copy .kumi 'postgresql://db/notes?schema=harbour'",
            "kumi copy 'postgresql://db/notes?schema=harbour' harbour.kumi",
        ),
        "care_commands:methods": (
            "List the retrieval methods, with their recall and settings.",
            "kumi methods",
        ),
        "care_commands:init": (
            "Write a kumi.toml that lists every setting, commented out.",
            "kumi init",
        ),
        "care_commands:trust": (
            "Allow a kumi.toml to use the servers and keys that it names.",
            "kumi trust",
            "kumi trust shared/kumi.toml",
        ),
        "care_commands:cache": (
            "Show the size and hits of the response cache, or prune it.",
            "kumi cache",
            "kumi cache prune",
            "kumi cache drop-batches",
        ),
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


KEY_COMMANDS: CommandTable = {
    "serve_commands:new": (
        "Make a key for these indexes, and show it once.",
        "kumi key new --role reader --name Ana",
        "kumi key new --role editor --index notes.kumi --index b.kumi",
    ),
    "serve_commands:list_": (
        "List the keys of these indexes, without the keys themselves.",
        "kumi key list",
        "kumi key list --json",
    ),
    "serve_commands:revoke": (
        "Revoke a key: from now on it opens nothing.",
        "kumi key revoke 4f376d63",
    ),
}
EVAL_COMMANDS: CommandTable = {
    "evaluating.questions:questions": (
        "Write questions: global ones from user personas, local and linked ones.",
        "kumi eval questions --draft",
        "kumi eval questions",
        "kumi eval questions --personas 0 --local 50",
    ),
    "evaluating.study_files:import_": (
        "Import your own questions, or the answers of another system.",
        "kumi eval import my-questions.jsonl",
        "kumi eval import answers.json --system lightrag",
    ),
    "evaluating.study_files:export": (
        "Export questions and answers for BenchmarkQED or ragas.",
        "kumi eval export --format benchmarkqed --out qed",
    ),
    "evaluating.study:plan": (
        "Estimate the model calls and the cost of a study.",
        "kumi eval plan --methods naive,global:C0",
        "kumi eval plan --protocol graphrag --questions 125",
    ),
    "evaluating.run:run": (
        "Ask each system the questions of a study, and keep its answers.",
        "kumi eval run --methods naive,global:C0,light:hybrid --max-cost 5",
        "kumi eval run --methods naive,global:C0 --again naive",
    ),
    "evaluating.retrieval:retrieval": (
        "Measure retrieval against gold: recall, MAP, MRR, nDCG, tokens read.",
        "kumi eval retrieval --methods bm25,naive,naive:words=false --k 5,10,20",
        "kumi eval retrieval --run runs --qrels gold.qrels",
        "kumi eval retrieval --from-run theirs.run",
    ),
    "evaluating.questions:assertions": (
        "Write assertions for each question from its gold passages, for scoring.",
        "kumi eval assertions --max-calls 100",
    ),
    "evaluating.run:claims": (
        "Extract the claims of each answer; count, cluster and check them.",
        "kumi eval claims --context",
        "kumi eval claims --economy --sample 20",
    ),
    "evaluating.judge:judge": (
        "Let a judge model compare answers in pairs, or rate them.",
        "kumi eval judge --max-cost 20",
        "kumi eval judge --protocol graphrag --methods global:C0,naive --yes",
    ),
    "evaluating.study_files:report": (
        "Write the results of studies to an HTML page and CSV tables.",
        "kumi eval report",
        "kumi eval report --study podcast --study news --out figure2.html",
    ),
    "evaluating.run:score": (
        "Score each answer: faithfulness, correctness, evidence; some measures need no model.",
        "kumi eval score --measures faithfulness,token_f1",
    ),
    "evaluating.study_files:status": (
        "Show the contents of a study and the commands for more.",
        "kumi eval status",
    ),
    "evaluating.study:study": (
        "Run a study of a paper, and write its tables.",
        "kumi eval study",
        "kumi eval study levels --max-cost 20",
    ),
}


def _build_app(*, colour: bool) -> typer.Typer:
    """Build the command line. colour: with help for a terminal."""
    root = typer.Typer(
        cls=group_of(COMMANDS),
        help=HELP,
        epilog=format_examples(EXAMPLES, colour),
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if colour else None,
    )
    root.callback()(show_version_or_help)
    groups = (
        ("key", KEY_HELP, KEY_EXAMPLES, KEY_COMMANDS, "Serve it"),
        ("eval", EVAL_HELP, EVAL_EXAMPLES, EVAL_COMMANDS, "Evaluate it"),
    )
    for name, text, examples, commands, panel in groups:
        epilog = format_examples(examples, colour)
        group = typer.Typer(cls=group_of({"": commands}), help=text, epilog=epilog, no_args_is_help=True)
        root.add_typer(group, name=name, rich_help_panel=panel)
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
        sys.exit(_print_error(_describe_wrong_use(error), 2))
    except SystemExit as stop:
        if sys.stdout is out:
            raise
        sys.exit(0 if stop.code == 1 else stop.code)  # the reader closed the pipe: no error
    except KumiError as error:
        sys.exit(_print_error(str(error), 1 if isinstance(error, ItemFailed) else 2))
    except (Interrupted, typer.Abort) as stop:
        _exit_now(_print_error(str(stop) or "stopped", 130))
    except (OSError, StorageError) as error:
        sys.exit(_print_error(describe_failure(error), 2))


def _describe_wrong_use(error: Any) -> str:
    """Return the error of a wrong command line, with its remedy."""
    command = error.ctx.command_path if error.ctx else "kumi"
    message = translate(error.format_message()).replace("Value error, ", "")
    stop, gap = (".", " ") if message_language() == "en" else ("。", "")
    end = gap if message.endswith((".", "?", "。", "？")) else stop + gap
    return f"{message}{end}{translate(f'See `{command} --help`')}"


def _run_app() -> None:
    """Run a command, and exit. Raises Interrupted on Ctrl-C."""
    use_system_language(os.environ)
    if name := os.environ.get("KUMI_LANG"):  # typer shows the page of help before it reads options
        choose_language(name)
    code = app(prog_name="kumi", standalone_mode=False)
    if code == 130:  # typer's, while no index was open
        raise Interrupted
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
