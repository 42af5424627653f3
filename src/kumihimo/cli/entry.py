"""the command `kumi` -> its command line; Ctrl-C and missing memory end it with one line, also while it is imported."""

import os
import sys
from contextlib import suppress
from types import TracebackType


def run_kumi() -> None:
    """Run the command line."""
    sys.excepthook = _print_traceback
    # our matrices are small: threads of BLAS would only wait for each other, which doubles the CPU time of reports
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        _show_warnings()
        from kumihimo.cli.main import main

        main()
    except KeyboardInterrupt:
        _stop("stopped", 130)
    except MemoryError:
        _stop("there is not enough memory: end other programs, or give this one more", 2)


def _show_warnings() -> None:
    """Show the warnings of other packages as those of our own."""
    import logging

    from kumihimo.cli.printing import TerminalHandler

    logging.lastResort = TerminalHandler(logging.WARNING)
    logging.captureWarnings(True)


def _print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    from traceback import format_exception

    from kumihimo.cli.printing import print_note

    print_note("".join(format_exception(kind, error, trace)).rstrip())


def _stop(message: str, code: int) -> None:
    """Print a line and exit without waiting for requests."""
    with suppress(OSError, ValueError, AttributeError):  # a closed stream, or none
        sys.stdout.flush()
    with suppress(OSError):
        os.write(2, f"kumi: {message}\n".encode())
    os._exit(code)


if __name__ == "__main__":
    run_kumi()
