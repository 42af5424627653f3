"""`kumi eval`: which method answers your questions best, at what cost, and how sure that is -> its commands."""

from __future__ import annotations

from collections.abc import Callable

from kumihimo.interfaces.evaluating.judging import judge
from kumihimo.interfaces.evaluating.status import status

HELP = "Measure which method serves your documents best, at what cost, and how sure that is."
COMMANDS: dict[Callable[..., None], tuple[str, ...]] = {  # with examples
    judge: ("kumi eval judge --max-cost 20", "kumi eval judge --protocol graphrag --methods global:C0,naive --yes"),
    status: ("kumi eval status",),
}
FIRST = ("kumi eval status",)
