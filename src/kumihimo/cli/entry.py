"""the command `kumi` -> its command line; Ctrl-C and missing memory end it with one line, also while it is imported."""

import atexit
import gc
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType


def run_kumi() -> None:
    """Run the command line."""
    gc.set_threshold(50_000)  # at the usual 700, a start would look for garbage again and again
    gc.disable()  # until the command is imported: modules are no garbage
    atexit.register(gc.freeze)  # nor is anything when the process ends
    sys.excepthook = _print_traceback
    _replace_closed_streams()
    # our matrices are small: threads of BLAS would only wait for each other, which doubles the CPU time of reports
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        if sys.argv[1:] == ["--version"]:
            print_version()  # needs nothing of the command line
            return
        _show_warnings()
        from kumihimo.cli.main import main

        main()
    except KeyboardInterrupt:
        _stop("stopped", 130)
    except MemoryError:
        _stop("there is not enough memory: end other programs, or give this one more", 2)


def print_version() -> None:
    """Print the name and version of the package."""
    from importlib.metadata import version

    print(f"kumihimo {version('kumihimo')}")


def _replace_closed_streams() -> None:
    """Open each closed standard stream on nothing.

    Otherwise the next file that opens, such as a database, would take its number.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open("w" if number else "r", encoding="utf-8")  # noqa: SIM115 (for the process)
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


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
    with suppress(OSError, ValueError):  # a closed stream
        sys.stdout.flush()
    with suppress(OSError):
        os.write(2, f"kumi: {message}\n".encode())
    os._exit(code)


if __name__ == "__main__":
    run_kumi()
