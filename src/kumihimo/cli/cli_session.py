"""options of the command line -> the open index, and its log on standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kumihimo.app import config
from kumihimo.app.facade import Kumihimo


class Interrupted(Exception):
    """Ctrl-C, pressed while an index was open."""


@contextmanager
def open_index(folder: Path, options: Sequence[str] | None = None, cache: Path | None = None) -> Iterator[Kumihimo]:
    """Open the index in a folder. Raises Interrupted on Ctrl-C."""
    try:
        with Kumihimo.open(folder, settings=config.parse_options(options or ()), cache=cache) as kumi:
            yield kumi
    except KeyboardInterrupt:
        raise Interrupted from None


def configure_logging(verbose: bool, show_prompts: bool) -> None:
    """Log requests and prompts on standard error."""
    if verbose or show_prompts:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        log = logging.getLogger("kumihimo")
        log.handlers[:] = log.handlers or [handler]  # one handler only: `kumi eval study` runs several commands
        log.setLevel(logging.INFO if verbose else logging.WARNING)
        logging.getLogger("kumihimo.prompts").setLevel(logging.DEBUG if show_prompts else logging.WARNING)
