"""an index and a seed -> the same documents built again by the model, to measure how much a graph varies."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened.open_index import IndexPlace
from kumihimo.cli import options
from kumihimo.core.errors import SettingsError
from kumihimo.llm.budget import Budget


def with_seed(session: options.PaidSession, kumi: Kumihimo, seed: int) -> options.PaidSession:
    """Return the session with a seed in each chat request.

    Requests with different seeds share no cached reply.
    """
    extra = json.loads(str(kumi.models.settings.get("chat", {}).get("extra", "")) or "{}")
    setting = f"chat.extra={json.dumps({**extra, 'seed': seed}, sort_keys=True)}"
    return replace(session, settings=[*(session.settings or ()), setting])


@contextmanager
def open_other_build(
    session: options.PaidSession, kumi: Kumihimo, number: int, seed: int, methods: Sequence[str], budget: Budget
) -> Iterator[tuple[options.PaidSession, Kumihimo]]:
    """Open build `number` of an index, after making or completing it.

    It lies beside the index, in `INDEX-build-NUMBER`, and has the same sources, methods and settings, but for the seed.
    budget: pays for it.
    """
    sources = _find_sources(kumi)
    place = IndexPlace.at(f"{kumi.opened.folder}-build-{number}")
    other = with_seed(replace(session, index=place), kumi, seed)
    with kumi.snapshot() as snapshot:
        built_for = snapshot.db.meta("methods", [])
    with other.open() as built, other.progress_bar() as progress:
        built.index(*sources, methods=[*dict.fromkeys((*built_for, *methods))], paid_by=budget, progress=progress)
        yield other, built


def _find_sources(kumi: Kumihimo) -> list[str]:
    """Return the files and folders of an index.

    Raises SettingsError if it has other sources, or lies in a database.
    """
    sources = [*kumi.status().sources.values()]
    if kumi.opened.place.database or not all(Path(source).exists() for source in sources):
        raise SettingsError("--builds needs an index in a folder whose documents are all files: use --builds 1")
    return sources
