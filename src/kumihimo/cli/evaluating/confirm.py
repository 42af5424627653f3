"""the size of a run -> consent to it, from the user or an option."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from kumihimo.app.results import Plan
from kumihimo.cli import terminal
from kumihimo.core.errors import ConsentRequired
from kumihimo.llm.budget import Caps

MAX_UNCONFIRMED_CALLS = 1000  # more need consent


def confirm_plan(plan: Plan, caps: Caps, *, yes: bool, quiet: bool) -> None:
    """Show the plan and ask for consent. Raises ConsentRequired."""
    with redirect_stdout(sys.stderr):
        terminal.show_plan(plan)
    require_consent(plan.calls[1], caps, yes=yes, quiet=quiet)


def require_consent(calls: float, caps: Caps, *, yes: bool, quiet: bool, cheaper: str = "") -> None:
    """Raise ConsentRequired if many calls are neither capped nor confirmed.

    quiet: a program reads the output, so do not ask. cheaper: a remedy that takes fewer calls.
    """
    if (
        calls <= MAX_UNCONFIRMED_CALLS
        or yes
        or caps != Caps()
        or (terminal.is_interactive() and not quiet and terminal.confirm())
    ):
        return
    remedies = ", ".join(["`--yes` agrees to them", "`--max-calls 500` limits them", *([cheaper] if cheaper else [])])
    raise ConsentRequired(f"up to {calls:,.0f} calls: no model was called; {remedies}")
