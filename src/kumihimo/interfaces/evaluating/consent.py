"""how many calls may come -> whether to go on: asked of a person, or said beforehand."""

from __future__ import annotations

from kumihimo.core.errors import NeedsConsent
from kumihimo.interfaces import terminal
from kumihimo.ports.purse import Caps

MANY = 1000  # calls above which somebody has to agree


def consented(calls: float, caps: Caps, *, yes: bool, quiet: bool, less: str = "") -> None:
    """Raises NeedsConsent where it is much, nothing bounds it, and nobody has agreed.

    quiet: a program reads what is printed, so that nobody is asked. less: what else would take fewer.
    """
    if calls <= MANY or yes or caps != Caps() or (terminal.is_person() and not quiet and terminal.go_on()):
        return
    remedies = ", ".join(["`--yes` does it", "`--max-calls 500` bounds it", *([less] if less else [])])
    raise NeedsConsent(f"up to {calls:,.0f} calls: nothing was asked; {remedies}")
