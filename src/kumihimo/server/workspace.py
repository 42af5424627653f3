"""index folders -> Workspace: the indexes that one server serves, by name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened.open_index import IndexPlace
from kumihimo.app.processes.async_facade import AsyncKumihimo
from kumihimo.app.upkeep.keys import IndexKeys
from kumihimo.core.errors import SettingsError
from kumihimo.server.builds import BuildQueue
from kumihimo.server.settings import ServerSettings


@dataclass(frozen=True, slots=True)
class ServedIndex:
    """An index with its name in addresses, its questions, builds, keys and uploads."""

    name: str
    kumi: Kumihimo
    questions: AsyncKumihimo
    builds: BuildQueue
    keys: IndexKeys
    uploads: Path  # the folder for uploaded files

    def kill(self) -> None:
        """End all its processes at once, from a signal handler too."""
        self.builds.kill()
        self.questions.kill()

    async def aclose(self) -> None:
        """End its builds and questions, and close it."""
        await self.builds.close()
        await self.questions.aclose()
        self.keys.close()
        self.kumi.close()


@dataclass(frozen=True, slots=True)
class Workspace:
    """The served indexes; the first one also has the short addresses."""

    indexes: Mapping[str, ServedIndex]

    def any_keys(self) -> bool:
        """Return whether an index has a valid key."""
        return any(served.keys.valid_ids() for served in self.indexes.values())

    def kill(self) -> None:
        """End the processes of builds and questions at once."""
        for served in self.indexes.values():
            served.kill()

    async def aclose(self) -> None:
        """Close all indexes."""
        for served in self.indexes.values():
            await served.aclose()


def open_workspace(places: Iterable[IndexPlace | Path], settings: ServerSettings | None = None) -> Workspace:
    """Open the indexes; new ones are empty.

    Raises SettingsError for two of the same name.
    """
    indexes: dict[str, ServedIndex] = {}
    for place in places:
        place = IndexPlace.at(place)
        name = place.name
        if name in indexes:
            raise SettingsError(f"two indexes are called {name}: rename the folder of one of them")
        indexes[name] = serve_index(name, Kumihimo.open(place), settings or ServerSettings())
    return Workspace(indexes)


def serve_index(name: str, kumi: Kumihimo, settings: ServerSettings) -> ServedIndex:
    """Return an open index as a server needs it."""
    uploads = (settings.uploads or kumi.base / "uploads") / name
    questions = AsyncKumihimo(kumi, workers=settings.workers, questions=settings.questions, seconds=settings.seconds)
    return ServedIndex(name, kumi, questions, BuildQueue(kumi), IndexKeys.of(kumi.opened), uploads.resolve())
