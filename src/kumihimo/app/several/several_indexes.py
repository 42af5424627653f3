"""several indexes -> SeveralIndexes: one question to all of them, one answer whose citations name the index."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from kumihimo.app.ask.questions import Questions
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened.open_index import IndexPlace
from kumihimo.app.several.several_snapshot import SeveralSnapshot, naming_errors
from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import SettingsError
from kumihimo.core.task import Progress


class SeveralIndexes(Questions):
    """Several indexes that answer one question together.

    The method searches each of them; one answer follows, from the best evidence of all. The first one leads: its
    models and settings write the answer, its cache records what is spent, and a passage that several hold is its own.

    indexes: by the names that citations have. rights: of each index, by its name, beside those of the question.

    >>> from tempfile import TemporaryDirectory
    >>> texts = {"ferry": "The ferry leaves at nine.", "office": "The harbour office opens at eight."}
    >>> with TemporaryDirectory() as folder:
    ...     for name, text in texts.items():
    ...         note = Path(folder, name, "note.txt")
    ...         note.parent.mkdir()
    ...         _ = note.write_text(text)
    ...         with Kumihimo.open(note.with_name(".kumi")) as kumi:
    ...             _ = kumi.index(note)
    ...     with SeveralIndexes.open(Path(folder, "ferry/.kumi"), Path(folder, "office/.kumi")) as both:
    ...         print(both.ask("When does the harbour office open?", "bm25"))
    The harbour office opens at eight. [1]
    <BLANKLINE>
    [1] office: note.txt, line 1
    """

    def __init__(self, indexes: Mapping[str, Kumihimo], *, rights: Mapping[str, str] | None = None) -> None:
        if len(indexes) < 2:
            raise SettingsError("give two indexes or more: Kumihimo.open opens one")
        self.indexes, self.rights = dict(indexes), rights or {}
        first = next(iter(indexes.values()))
        self.models, self.settings, self.catalogue = first.models, first.settings, first.catalogue

    @classmethod
    def open(cls, *indexes: str | Path | IndexPlace, **options: Any) -> Self:
        """Open these indexes; `close` closes them.

        options: as for `Kumihimo.open`, for each.
        """
        places = [IndexPlace.at(index) for index in indexes]
        names = name_indexes(places)
        with ExitStack() as stack:
            opened = [stack.enter_context(Kumihimo.open(place, **options)) for place in places]
            several = cls(dict(zip(names, opened, strict=True)))
            stack.pop_all()  # `close` closes them
        return several

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all indexes."""
        for kumi in self.indexes.values():
            kumi.close()

    def prepare_method(self, name: str, progress: Progress | None = None, *, cancel: CancelToken | None = None) -> None:
        """Build what a method lacks in each index, if it costs nothing."""
        for index, kumi in self.indexes.items():
            with naming_errors(index):
                kumi.prepare_method(name, progress, cancel=cancel)

    @contextmanager
    def snapshot(self, method: str = "", *, rights: str = "", cancel: CancelToken | None = None) -> Iterator[Snapshot]:
        """Open a snapshot of one finished build of each index.

        Parameters: as for `Kumihimo.snapshot`.
        """
        self.prepare_method(method, cancel=cancel)
        with ExitStack() as stack:
            parts: dict[str, Snapshot] = {}
            for index, kumi in self.indexes.items():
                both = [f"({each})" for each in (self.rights.get(index, "").strip(), rights.strip()) if each]
                with naming_errors(index):
                    parts[index] = stack.enter_context(kumi.snapshot(rights=" and ".join(both), cancel=cancel))
            yield SeveralSnapshot.of(parts)


def name_indexes(places: Sequence[IndexPlace]) -> list[str]:
    """Return a short name for each index, all different.

    Raises SettingsError for one that is there twice.

    >>> folders = ("/work/reports/.kumi", "/work/notes.kumi", "/old/reports/.kumi")
    >>> name_indexes([IndexPlace(Path(folder)) for folder in folders])
    ['work/reports', 'notes', 'old/reports']
    """
    paths = [place.named_path for place in places]
    if repeated := next((path for n, path in enumerate(paths) if path in paths[:n]), None):
        raise SettingsError(f"the index {repeated} is named twice: name each index once")
    return [_shortest_name(path, [other for other in paths if other != path]) for path in paths]


def _shortest_name(path: Path, others: Sequence[Path]) -> str:
    for count in range(1, len(path.parts)):
        if all(path.parts[-count:] != other.parts[-count:] for other in others):
            return "/".join(path.parts[-count:])
    return str(path)
