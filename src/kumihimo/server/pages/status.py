"""the state of an index -> a page: contents, models, methods with settings, usage, builds, and own settings."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from kumihimo.app.facade import Kumihimo
from kumihimo.app.json_values import Json, method_json
from kumihimo.app.snapshot import LENGTHS, Snapshot
from kumihimo.core.errors import IndexUnavailable
from kumihimo.core.usage import Usage
from kumihimo.server.pages.errors import PageRoute
from kumihimo.server.pages.rendering import ReaderVisit, Visit, render

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a step, a method or a role has asked of a model."""

    scope: str
    model: str
    usage: Usage
    saved: Usage


@router.get("/status")
def show_status(visit: ReaderVisit) -> HTMLResponse:
    """Send the page about the index."""
    kumi, rights = visit.access.served.kumi, visit.access.rights
    facts: dict[str, Any] = {"rows": {}, "built": [], "makers": {}, "default": "", "failures": 0}
    try:
        with kumi.snapshot(rights=rights) as snapshot:
            facts = _read_facts(snapshot)
    except IndexUnavailable:
        pass  # nothing has been added yet
    spent = [] if rights else _group_usage(kumi)
    return render(
        visit,
        "status.html",
        **facts,
        bytes=0 if rights else sum(path.stat().st_size for path in kumi.folder.glob("*") if path.is_file()),
        chat=_model_name(kumi.models.chat("answer")),
        embedder=_model_name(kumi.models.paid_embedder),
        methods=[list_method(kumi, name) for name in kumi.catalogue.methods],
        spent=spent,
        total=sum((row.usage for row in spent), Usage()),
        saved=sum((row.saved for row in spent), Usage()),
        lengths=LENGTHS,
        jobs=list_jobs(visit),
        folder=kumi.folder.resolve().parent,
    )


def _read_facts(snapshot: Snapshot) -> dict[str, Any]:
    failures = [] if snapshot.rights else list(snapshot.db.failures())
    return {
        "rows": snapshot.row_counts(),
        "built": snapshot.db.meta("methods", []),
        "makers": snapshot.db.meta("models", {}),
        "default": snapshot.default_method(),
        "failures": len(failures),
    }


def _model_name(model: Any) -> str:
    """Return the name of a model, without its server; empty: none."""
    return str(model.fingerprint).partition(" ")[0] if model else ""


def list_method(kumi: Kumihimo, name: str) -> Json:
    """Return a method with its settings, and whether it can be used without another model."""
    method = kumi.catalogue.method(name)
    needs_model = "llm" in method.ports and "llm" not in method.optional_ports
    usable = not needs_model or kumi.models.chat(name) is not None
    return {**method_json(name, method), "name": name, "usable": usable}


def list_jobs(visit: Visit) -> list[Json]:
    """Return the latest builds that the sender may see."""
    return []


def _group_usage(kumi: Kumihimo) -> list[Spent]:
    """Return the usage by step or method and by model, most tokens first."""
    rows: dict[tuple[str, str], dict[str, Usage]] = {}
    for entry in kumi.spent():
        row = rows.setdefault((entry.scope, entry.model), {"spent": Usage(), "saved": Usage()})
        row[entry.kind] += entry.usage
    spent = [Spent(scope, model, row["spent"], row["saved"]) for (scope, model), row in rows.items()]
    return sorted(spent, key=lambda row: (-row.usage.tokens, -row.saved.tokens, row.scope, row.model))
