"""options of the command line -> the index they open, and what goes on in it told on standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kumihimo.app import config
from kumihimo.app.facade import Kumihimo


class Interrupted(Exception):
    """Somebody pressed Ctrl-C."""


@contextmanager
def open_index(folder: Path, options: Sequence[str] | None = None, cache: Path | None = None) -> Iterator[Kumihimo]:
    """The index in that folder, for as long as it is used. Raises Stopped."""
    try:
        with Kumihimo.open(folder, settings=config.parse_options(options or ()), cache=cache) as kumi:
            yield kumi
    except KeyboardInterrupt:
        raise Interrupted from None


def configure_logging(verbose: bool, show_prompts: bool) -> None:
    """Have what goes on told on standard error."""
    if verbose or show_prompts:
        told = logging.StreamHandler(sys.stderr)
        told.setFormatter(logging.Formatter("%(message)s"))
        log = logging.getLogger("kumihimo")
        log.handlers[:] = log.handlers or [told]  # a command may be made of several
        log.setLevel(logging.INFO if verbose else logging.WARNING)
        logging.getLogger("kumihimo.prompts").setLevel(logging.DEBUG if show_prompts else logging.WARNING)
