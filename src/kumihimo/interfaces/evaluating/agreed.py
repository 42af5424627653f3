"""a plan -> whether to go on: asked of a person, or said beforehand."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from kumihimo.core.errors import NeedsConsent
from kumihimo.interfaces import terminal
from kumihimo.ports.purse import Caps
from kumihimo.results import Plan

MANY = 1000  # calls above which somebody has to agree


def agreed(plan: Plan, caps: Caps, *, yes: bool, quiet: bool) -> None:
    """Show it. Raises NeedsConsent where it is much, nothing bounds it, and nobody has agreed."""
    with redirect_stdout(sys.stderr):
        terminal.show_plan(plan)
    calls = plan.calls[1]
    if calls <= MANY or yes or caps != Caps():
        return
    if terminal.is_person() and not quiet and terminal.go_on():
        return
    raise NeedsConsent(f"up to {calls:,.0f} calls: nothing was asked; `--yes` does it, `--max-calls 500` bounds it")
