"""kumi index, plan, remove, import, watch -> a build of the index, its result printed."""

from functools import partial
from typing import Annotated

from typer import Argument, Exit, Option

from kumihimo.app.build.import_store import Imported, import_store
from kumihimo.app.opened.results import Built
from kumihimo.app.upkeep.watch import watch_sources
from kumihimo.cli import builds, options, printing
from kumihimo.cli.translated_help import Interrupted
from kumihimo.core.errors import KumiError, SettingsError
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
    session: options.BuildSession,
    paths: Paths = None,
    methods: Methods = "",
    wait: options.Wait = False,
    reread: Annotated[bool, Option("--reread", help="Read every file again, even if it looks unchanged.")] = False,
    recluster: Annotated[bool, Option("--recluster", help="Detect the communities of the graph from scratch.")] = False,
    refresh: Annotated[bool, Option("--refresh", help="Write the reports again that have changes since.")] = False,
    rebuild: Annotated[bool, Option("--rebuild", help="Build every table again; cached replies are kept.")] = False,
    batch: Annotated[bool, Option("--batch", help="Submit requests as batches, at half the price.")] = False,
    crawl: options.Crawl = None,
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
            crawl=crawl or 0,
            caps=session.caps,
            consent=consent,
            progress=progress,
        )
    session.show(built, partial(builds.show_built, verbose=session.verbose))
    waits = built.batch and built.batch.waiting
    raise Exit(3 if waits else 1 if built.failed or (built.batch and built.batch.capped) else 0)


def plan(
    session: options.IndexSession,
    paths: Paths = None,
    methods: Methods = "",
    ask: Annotated[
        str, Option(help="Estimate a question by this method instead; the question may follow.", metavar="METHOD")
    ] = "",
    crawl: options.Crawl = None,
) -> None:
    """Estimate model calls and cost of indexing or of a question."""
    if ask and methods:
        raise SettingsError("--ask estimates a question, --methods estimates indexing: use one or the other")
    with session.open() as kumi, session.progress_bar() as progress:
        if ask:
            estimate = kumi.estimate_query_cost(ask, " ".join(paths or []))
        else:
            names = options.split_names(methods)
            estimate = kumi.plan(*(paths or []), methods=names, crawl=crawl or 0, progress=progress)
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
        failed_before = kumi.status().failed
        built = kumi.remove(target, forget=forget, wait=wait, progress=progress)
    index.show(built, builds.show_removed)
    raise Exit(0 if {*built.failed} <= {*failed_before} else 1)


def import_(
    session: options.PaidSession,
    kind: Annotated[str, Argument(help="graphrag, lightrag or nano.", metavar="KIND")],
    path: Annotated[str, Argument(help="The folder or file of the other system.", metavar="PATH")],
    name: Annotated[str, Option(help="The name of the source. Default: that of the folder or file.")] = "",
    methods: Annotated[str, Option(help="Methods to build for, and to remember: local,global.", metavar="NAMES")] = "",
    wait: options.Wait = False,
) -> None:
    """Add an index of graphrag, LightRAG or others, for free.

    Import the same store again to update the source.
    """
    with session.open() as kumi, session.progress_bar() as progress:
        imported = import_store(
            kumi,
            kind,
            path,
            name=name,
            methods=options.split_names(methods),
            wait=wait,
            caps=session.caps,
            progress=progress,
        )
    session.show(imported, show_imported)
    raise Exit(1 if imported.built.failed else 0)


def show_imported(imported: Imported) -> None:
    """Print the rows of both stores, and what was not kept."""
    built, counts = imported.built, imported.counts
    names = {table: translate("text units" if table == "chunks" else table) for table in counts}
    rows = [(names[table], f"{count:,}", f"{built.rows.get(table, 0):,}") for table, count in counts.items()]
    printing.print_message(f"Imported as the source {imported.name}:")
    printing.show_rows(rows, ("", translate("in the store"), translate("in the index now")), numeric=(1, 2))
    if imported.notes:
        printing.print_message("Not kept, or kept in another way:")
        for note in imported.notes:
            printing.print_message(f"- {translate(note)}")
    builds.show_built(built)


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
    except (KeyboardInterrupt, Interrupted):
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
        printing.print_message(builds.describe_files(result))
        builds.show_partial(result.partial)
        builds.show_failures(result.failed)
    if first and not session.as_json:
        printing.print_message("Watching for changes; Ctrl-C ends it.")
