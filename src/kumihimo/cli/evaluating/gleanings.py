"""documents of an index -> how many references to entities are read by chunk size and gleanings: table and figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import open_index
from kumihimo.cli.evaluating.confirm import confirm_plan
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.llm.budget import Caps

if TYPE_CHECKING:
    from kumihimo.app.facade import Kumihimo
    from kumihimo.evaluate.records import Score
    from kumihimo.evaluate.study import Study


def run_gleanings_study(
    held: Study, given: Mapping[str, Any], caps: Caps, count: int, *, yes: bool, quiet: bool
) -> None:
    """Ask, write gleanings.jsonl and gleanings.svg, show them. Raises ItemFailed where a document failed."""
    from kumihimo.evaluate.gleanings import draw_references, references_table

    held.check_folder()
    with open_index(**given) as kumi:
        rows, told = _count_references(kumi, caps, count, yes=yes, quiet=quiet)
    found = references_table(rows)
    held.write("gleanings", rows)
    held.write_text("gleanings.svg", draw_references(found))
    held.record_stage("gleanings", **told)
    if quiet:
        jsonl.print_json({"study": str(held.folder), "entity_references": found, **told})
    else:
        _show_references(found)
        print(f"Drawn in {held.folder / 'gleanings.svg'}; by document in {held.path('gleanings')}.")
    if failed := [row for row in rows if row.status == "failed"]:
        raise ItemFailed(
            f"{len({row.question for row in failed}):,} documents failed and are left out; of the first: "
            f"{failed[0].reason}. The same command goes on with them"
        )


def _count_references(
    kumi: Kumihimo, caps: Caps, count: int, *, yes: bool, quiet: bool
) -> tuple[list[Score], dict[str, Any]]:
    from kumihimo.app.cost import DryRunModels, estimate_plan, usage_history
    from kumihimo.core.wiring import ROOT
    from kumihimo.evaluate.gleanings import count_references, sample_documents
    from kumihimo.index import settings_for_step, settings_scope

    role = settings_scope("mentions")
    settings = {n: v for n, v in settings_for_step("mentions", kumi.settings).items() if n != "gleanings"}
    own: dict[str, Any] = {"tokenizer": kumi.tokenizer, "settings": settings}
    ask = kumi.models.llm(role, kumi.models.budget(caps))
    with kumi.snapshot() as reading:
        documents = sample_documents(reading.table(ROOT), count)
    tally = DryRunModels(kumi.models, kumi.tokenizer)
    list(count_references(documents, tally.llm(role), **own))
    spent = kumi.models.cache().usage()
    confirm_plan(
        estimate_plan(tally.tallies, {}, usage_history(spent, tally.tallies), spent), caps, yes=yes, quiet=quiet
    )
    with terminal.progress_bar(not quiet) as progress:
        rows = list(count_references(documents, ask, **own, progress=progress))
    texts = hash_parts(*(document.text for document in documents))
    return rows, {"model": ask.fingerprint, "documents": len(documents), "read": texts, "settings": settings}


def _show_references(found: Mapping[int, list[float]]) -> None:
    from kumihimo.evaluate.gleanings import GLEANING_ROUNDS

    rows = [(f"{size:,}", *(f"{value:,.0f}" for value in line)) for size, line in found.items()]
    head = ("chunks of", *(f"{n} gleaning{'' if n == 1 else 's'}" for n in GLEANING_ROUNDS))
    print("References to entities:")
    terminal.show_rows(rows, head=head, numeric=range(len(head)))
