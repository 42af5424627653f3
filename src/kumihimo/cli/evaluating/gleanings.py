"""documents of an index -> entity references by chunk size and gleanings, as table and figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kumihimo.app.cost import DryRunModels, estimate_plan, usage_history
from kumihimo.app.facade import Kumihimo
from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import open_index
from kumihimo.cli.evaluating.confirm import confirm_plan
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.core.wiring import ROOT
from kumihimo.evaluate.gleanings import (
    GLEANING_ROUNDS,
    count_references,
    draw_references,
    references_table,
    sample_documents,
)
from kumihimo.evaluate.records import Score
from kumihimo.evaluate.study import Study
from kumihimo.index import settings_for_step, settings_scope
from kumihimo.llm.budget import Caps


def run_gleanings_study(
    study: Study, index_options: Mapping[str, Any], caps: Caps, count: int, *, yes: bool, quiet: bool
) -> None:
    """Run the study, write gleanings.jsonl and gleanings.svg, print the table.

    Raises ItemFailed if a document failed.
    """

    study.check_folder()
    with open_index(**index_options) as kumi:
        rows, manifest = _count_references(kumi, caps, count, yes=yes, quiet=quiet)
    counts = references_table(rows)
    study.write("gleanings", rows)
    study.write_text("gleanings.svg", draw_references(counts))
    study.record_stage("gleanings", **manifest)
    if quiet:
        jsonl.print_json({"study": str(study.folder), "entity_references": counts, **manifest})
    else:
        _show_references(counts)
        print(f"Drawn in {study.folder / 'gleanings.svg'}; by document in {study.path('gleanings')}.")
    if failed := [row for row in rows if row.status == "failed"]:
        raise ItemFailed(
            f"{len({row.question for row in failed}):,} documents failed and are left out; the first: "
            f"{failed[0].reason}. Run the same command to try them again"
        )


def _count_references(
    kumi: Kumihimo, caps: Caps, count: int, *, yes: bool, quiet: bool
) -> tuple[list[Score], dict[str, Any]]:

    role = settings_scope("mentions")
    settings = {n: v for n, v in settings_for_step("mentions", kumi.settings).items() if n != "gleanings"}
    common: dict[str, Any] = {"tokenizer": kumi.tokenizer, "settings": settings}
    llm = kumi.models.llm(role, kumi.models.budget(caps))
    with kumi.snapshot() as snapshot:
        documents = sample_documents(snapshot.table(ROOT), count)
    tally = DryRunModels(kumi.models, kumi.tokenizer)
    list(count_references(documents, tally.llm(role), **common))
    spent = kumi.models.cache().usage()
    confirm_plan(
        estimate_plan(tally.tallies, {}, usage_history(spent, tally.tallies), spent), caps, yes=yes, quiet=quiet
    )
    with terminal.progress_bar(not quiet) as progress:
        rows = list(count_references(documents, llm, **common, progress=progress))
    texts = hash_parts(*(document.text for document in documents))
    return rows, {"model": llm.fingerprint, "documents": len(documents), "read": texts, "settings": settings}


def _show_references(counts: Mapping[int, list[float]]) -> None:

    rows = [(f"{size:,}", *(f"{value:,.0f}" for value in line)) for size, line in counts.items()]
    head = ("chunks of", *(f"{n} gleaning{'' if n == 1 else 's'}" for n in GLEANING_ROUNDS))
    print("References to entities:")
    terminal.show_rows(rows, head=head, numeric=range(len(head)))
