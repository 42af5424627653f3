"""kumi import -> a source of this index, from the store of another system; what was kept, and what not."""

from typing import Annotated

from typer import Argument, Exit, Option

from kumihimo.app.build.import_store import Imported
from kumihimo.app.facade import import_store
from kumihimo.cli import builds, options, printing
from kumihimo.text.translation import translate


def import_(
    session: options.PaidSession,
    kind: Annotated[str, Argument(help="graphrag, lightrag, nano, graphml or openie.", metavar="KIND")],
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


def _labels() -> dict[str, str]:
    """Return the names of the tables that a store fills."""
    return {
        "documents": translate("documents"),
        "chunks": translate("text units"),
        "entities": translate("entities"),
        "relations": translate("relations"),
        "claims": translate("claims"),
        "communities": translate("communities"),
        "reports": translate("reports"),
    }


def show_imported(imported: Imported) -> None:
    """Print the rows of both stores, and what was not kept."""
    built, labels = imported.built, _labels()
    rows = [(labels[table], f"{count:,}", f"{built.rows.get(table, 0):,}") for table, count in imported.counts.items()]
    printing.print_message(f"Imported as the source {imported.name}:")
    printing.show_rows(rows, ("", translate("in the store"), translate("in the index now")), numeric=(1, 2))
    if imported.notes:
        printing.print_message("Not kept, or kept in another way:")
        for note in imported.notes:
            printing.print_message(f"- {translate(note)}")
    builds.show_built(built)
