"""kumi index, plan, remove -> a call of the facade, its result printed."""

from functools import partial
from typing import Annotated

from typer import Argument, Exit, Option

from kumihimo.cli import builds, options, printing
from kumihimo.core.errors import SettingsError

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
