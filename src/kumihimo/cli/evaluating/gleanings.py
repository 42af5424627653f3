"""documents of an index -> how many references to entities are read by chunk size and gleanings: table and figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import opened
from kumihimo.cli.evaluating.confirm import agreed
from kumihimo.core.digests import digest
from kumihimo.core.errors import ItemFailed
from kumihimo.llm.budget import Caps

if TYPE_CHECKING:
    from kumihimo.app.facade import Kumihimo
    from kumihimo.evaluate.records import Score
    from kumihimo.evaluate.study import Study


def gleaned(held: Study, given: Mapping[str, Any], caps: Caps, count: int, *, yes: bool, quiet: bool) -> None:
    """Ask, write gleanings.jsonl and gleanings.svg, show them. Raises ItemFailed where a document failed."""
    from kumihimo.evaluate.gleanings import drawn, table

    held.check()
    with opened(**given) as kumi:
        rows, told = _asked(kumi, caps, count, yes=yes, quiet=quiet)
    found = table(rows)
    held.write("gleanings", rows)
    held.write_text("gleanings.svg", drawn(found))
    held.note("gleanings", **told)
    if quiet:
        jsonl.show({"study": str(held.folder), "entity_references": found, **told})
    else:
        _show(found)
        print(f"Drawn in {held.folder / 'gleanings.svg'}; by document in {held.path('gleanings')}.")
    if failed := [row for row in rows if row.status == "failed"]:
        raise ItemFailed(
            f"{len({row.question for row in failed}):,} documents failed and are left out; of the first: "
            f"{failed[0].reason}. The same command goes on with them"
        )


def _asked(kumi: Kumihimo, caps: Caps, count: int, *, yes: bool, quiet: bool) -> tuple[list[Score], dict[str, Any]]:
    from kumihimo.app.cost import Tally, estimated, history
    from kumihimo.core.wiring import ROOT
    from kumihimo.evaluate.gleanings import references, sampled
    from kumihimo.index import scope, values

    role = scope("mentions")
    settings = {n: v for n, v in values("mentions", kumi.settings).items() if n != "gleanings"}
    own: dict[str, Any] = {"ruler": kumi.ruler, "settings": settings}
    ask = kumi.models.asking(role, kumi.models.purse(caps))
    with kumi.reading() as reading:
        documents = sampled(reading.table(ROOT), count)
    tally = Tally(kumi.models, kumi.ruler)
    list(references(documents, tally.asking(role), **own))
    spent = kumi.models.memo().usage()
    agreed(estimated(tally.asked, {}, history(spent, tally.asked), spent), caps, yes=yes, quiet=quiet)
    with terminal.progress(not quiet) as progress:
        rows = list(references(documents, ask, **own, progress=progress))
    texts = digest(*(document.text for document in documents))
    return rows, {"model": ask.mark, "documents": len(documents), "read": texts, "settings": settings}


def _show(found: Mapping[int, list[float]]) -> None:
    from kumihimo.evaluate.gleanings import ROUNDS

    rows = [(f"{size:,}", *(f"{value:,.0f}" for value in line)) for size, line in found.items()]
    head = ("chunks of", *(f"{n} gleaning{'' if n == 1 else 's'}" for n in ROUNDS))
    print("References to entities:")
    terminal.show_rows(rows, head=head, figures=range(len(head)))
