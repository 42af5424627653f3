"""`kumi eval`: which method answers your questions best, at what cost, and how sure that is -> its commands."""

from __future__ import annotations

from collections.abc import Callable

from kumihimo.interfaces.evaluating.assertions import assertions
from kumihimo.interfaces.evaluating.claims import claims
from kumihimo.interfaces.evaluating.judging import judge
from kumihimo.interfaces.evaluating.report import report
from kumihimo.interfaces.evaluating.score import score
from kumihimo.interfaces.evaluating.status import status

HELP = "Measure which method serves your documents best, at what cost, and how sure that is."
COMMANDS: dict[Callable[..., None], tuple[str, ...]] = {  # with examples
    assertions: ("kumi eval assertions --max-calls 100",),
    claims: ("kumi eval claims --context", "kumi eval claims --economy --sample 20"),
    judge: ("kumi eval judge --max-cost 20", "kumi eval judge --protocol graphrag --methods global:C0,naive --yes"),
    report: ("kumi eval report", "kumi eval report --study podcast --study news --out figure2.html"),
    score: ("kumi eval score --measures faithfulness,token_f1",),
    status: ("kumi eval status",),
}
FIRST = ("kumi eval status",)
