"""an index folder -> a server in a process of its own, whose builds hang, and whose browser prints what it finds.

It exits with the number of the signal that ended it.
"""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from urllib.request import urlopen

from kumihimo.server import builds
from kumihimo.server.run import run_server
from kumihimo.server.settings import ServerSettings


def visit(address: str) -> bool:
    print(f"browser: {urlopen(f'{address}/health').status}", flush=True)
    return True


def announce(address: str) -> None:
    print(address, flush=True)


if __name__ == "__main__":
    vars(builds)["HANDLER"], vars(webbrowser)["open"] = "tests.server.build_handlers:hang", visit
    sys.exit(run_server([Path(sys.argv[1])], ServerSettings(port=0), announce, open_browser=True))
