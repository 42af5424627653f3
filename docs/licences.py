"""the installed packages -> the table of their licences in licences.md: python -m docs.licences"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE = Path(__file__).with_name("licences.md")
USED = (
    "",
    "docs",
    "frames",
    "haystack",
    "ja",
    "langchain",
    "llamaindex",
    "multilingual",
    "ocr",
    "parquet",
    "postgres",
    "ray",
    "remote",
    "server",
    "watch",
    "zh",
)
ALLOWED = {  # SPDX
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "CNRI-Python",
    "HPND",
    "ISC",
    "LGPL-3.0-only",  # asks for the source of the library alone
    "MIT",
    "MIT-0",
    "MIT-CMU",
    "MPL-1.1",
    "MPL-2.0",
    "PSF-2.0",
    "Python-2.0",
    "Unlicense",
    "Zlib",
}
NAMES = {  # what packages write -> SPDX
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache software license 2.0": "Apache-2.0",
    "apache-2.0 license": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd-3-clause license": "BSD-3-Clause",
    "bsd-3-clause, apache-2.0, dependency licenses": "Apache-2.0 AND BSD-3-Clause",  # of pypdfium2
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
    "psf": "PSF-2.0",
    "the unlicense (unlicense)": "Unlicense",
    "historical permission notice and disclaimer (hpnd)": "HPND",
}
_HEAD = """# Licences

Kumihimo has the [MIT licence](https://opensource.org/license/mit). This table lists every package that it installs,
with its licence as the package states it. `python -m docs.licences` makes the table of the installed packages, and a
test checks it. No package has a licence that asks for the source of your own program, such as the GPL or the AGPL. The
extra `postgres` brings psycopg under the LGPL, which asks for the source of psycopg alone.

*core* is what `pip install kumihimo` brings; the other names are extras.

| package | licence | needed by |
|---|---|---|
"""


def closure(extra: str) -> Iterator[tuple[str, Distribution]]:
    """Yield the installed packages that an extra brings, or the core, each once."""
    pending = [("kumihimo", extra)]
    seen = set(pending)
    while pending:
        name, wanted = pending.pop()
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        if name != "kumihimo":
            yield name, found
        new = [item for line in found.requires or () for item in _required(Requirement(line), wanted)]
        pending += dict.fromkeys(item for item in new if item not in seen)
        seen.update(new)


def _required(requirement: Requirement, extra: str) -> Iterator[tuple[str, str]]:
    """Yield a package with each of its extras, if it is needed here."""
    if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
        for each in ("", *sorted(requirement.extras)):
            yield canonicalize_name(requirement.name), each


UNSTATED = {"chardetng_py": "MIT"}  # packages whose licence stands in a file alone


def licence(found: Distribution) -> str:
    """Return the licence of a package as SPDX, or what the package writes."""
    metadata: Any = found.metadata
    if known_text := UNSTATED.get(metadata["Name"]):
        return known_text
    if expression := metadata.get("License-Expression"):
        return NAMES.get(expression.casefold(), str(expression))
    classifiers = [c.rpartition(" :: ")[2] for c in metadata.get_all("Classifier") or () if c.startswith("License ::")]
    known = sorted({NAMES[c.casefold()] for c in classifiers if c.casefold() in NAMES})
    if known:
        return " OR ".join(known)
    written = str(metadata.get("License") or "").strip().partition("\n")[0]
    return NAMES.get(written.casefold(), written) or " OR ".join(classifiers)


def is_allowed(expression: str) -> bool:
    """Return whether one may use a package under this licence: all that it asks for, or one of those it offers."""
    tokens = re.findall(r"[()]|[^\s()]+", re.sub(r"\bWITH \S+", "", expression))[::-1]

    def any_of() -> bool:
        allowed = all_of()
        while tokens and tokens[-1] == "OR":
            tokens.pop()
            allowed = all_of() or allowed
        return allowed

    def all_of() -> bool:
        allowed = one()
        while tokens and tokens[-1] == "AND":
            tokens.pop()
            allowed = one() and allowed
        return allowed

    def one() -> bool:
        if not tokens:
            return False
        if (token := tokens.pop()) != "(":
            return token in ALLOWED
        allowed = any_of()
        return bool(tokens) and tokens.pop() == ")" and allowed

    return any_of() and not tokens


def installed_packages() -> Mapping[str, tuple[str, list[str]]]:
    """Return the licence of each package that is installed here, and the extras that bring it."""
    packages: dict[str, tuple[str, list[str]]] = {}
    for extra in USED:
        for name, found in closure(extra):
            packages.setdefault(name, (licence(found), []))[1].append(extra or "core")
    return packages


def read_table() -> dict[str, tuple[str, str]]:
    """Return the licence and the extras of each package in the page."""
    rows = re.findall(r"^\| (\S+) \| (.+?) \| (.+?) \|$", PAGE.read_text("utf-8"), re.M)
    return {name: (text, extras) for name, text, extras in rows if name != "package"}


def main() -> None:
    """Write the page; rows of packages that are not installed here stay."""
    rows = read_table() if PAGE.exists() else {}
    for name, (text, extras) in installed_packages().items():
        rows[name] = text, "core" if "core" in extras else ", ".join(dict.fromkeys(extras))
    lines = "".join(f"| {name} | {text} | {extras} |\n" for name, (text, extras) in sorted(rows.items()))
    PAGE.write_text(_HEAD + lines, "utf-8")
    refused = [f"{name}: {text}" for name, (text, _) in rows.items() if not is_allowed(text)]
    print(f"{len(rows)} packages", *refused, sep="\n")


if __name__ == "__main__":
    main()
