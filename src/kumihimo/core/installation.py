"""a message that names an extra -> the same message with the command that installs it here."""

import json
import re
import shlex
import shutil
import sys
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

_HINT = re.compile(r"`pip install (--force-reinstall |-U )?'?kumihimo(\[[a-z,-]+\])?'?`")
may_show_paths = ContextVar("may_show_paths", default=True)  # the reader of messages is on this machine


def fit_commands(message: str) -> str:
    """Return a message with the commands of this installation.

    It stays as it is for those who may not see paths of this machine.
    """
    if "`pip install " not in message or not may_show_paths.get():
        return message
    return _HINT.sub(lambda hint: f"`{install_command(hint[2] or '', hint[1] or '')}`", message)


@cache
def install_command(extras: str = "", options: str = "") -> str:
    """Return the command that installs this package again, with extras.

    extras: such as `[docs,ocr]`.
    """
    interpreter, found = Path(sys.executable), shutil.which("pip")
    if found and Path(found).parent == interpreter.parent:
        command = "pip install"
    elif find_spec("pip"):
        command = f"{_shell_word(str(interpreter))} -m pip install"
    else:
        command = f"uv pip install --python {_shell_word(str(interpreter))}"
    return f"{command} {options}{_requirement(extras)}"


def _requirement(extras: str) -> str:
    """Return the package as a path, an address or a name."""
    from importlib.metadata import Distribution, PackageNotFoundError  # few messages need what these load
    from urllib.request import url2pathname  # noqa: TID251

    try:
        origin = json.loads(Distribution.from_name("kumihimo").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # run from its source
        origin = {}
    url, vcs = origin.get("url", ""), origin.get("vcs_info", {})
    path = Path(url2pathname(urlsplit(url).path))
    if url.startswith("file:") and path.exists():
        editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
        return editable + _shell_word(f"{path}{extras}")
    if vcs:
        return _shell_word(f"kumihimo{extras} @ {vcs['vcs']}+{url}@{vcs['commit_id']}")
    return _shell_word(f"kumihimo{extras} @ {url}" if url.startswith("https:") else f"kumihimo{extras}")


def _shell_word(word: str) -> str:
    """Return a word as all shells of this system take it."""
    is_plain = not re.search(r"[^\w./:\\-]", word)
    return word if is_plain else f'"{word}"' if sys.platform == "win32" else shlex.quote(word)
