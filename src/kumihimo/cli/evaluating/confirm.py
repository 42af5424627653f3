"""how much is to come -> whether to go on: asked of a person, or said beforehand."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from kumihimo.app.results import Plan
from kumihimo.cli import terminal
from kumihimo.core.errors import ConsentRequired
from kumihimo.llm.budget import Caps

MAX_UNCONFIRMED_CALLS = 1000  # calls above which somebody has to agree


def confirm_plan(plan: Plan, caps: Caps, *, yes: bool, quiet: bool) -> None:
    """Show it. Raises NeedsConsent."""
    with redirect_stdout(sys.stderr):
        terminal.show_plan(plan)
    require_consent(plan.calls[1], caps, yes=yes, quiet=quiet)


def require_consent(calls: float, caps: Caps, *, yes: bool, quiet: bool, cheaper: str = "") -> None:
    """Raises NeedsConsent where it is much, nothing bounds it, and nobody has agreed.

    quiet: a program reads what is printed, so that nobody is asked. less: what else would take fewer.
    """
    if (
        calls <= MAX_UNCONFIRMED_CALLS
        or yes
        or caps != Caps()
        or (terminal.is_interactive() and not quiet and terminal.confirm())
    ):
        return
    remedies = ", ".join(["`--yes` does it", "`--max-calls 500` bounds it", *([cheaper] if cheaper else [])])
    raise ConsentRequired(f"up to {calls:,.0f} calls: nothing was asked; {remedies}")
