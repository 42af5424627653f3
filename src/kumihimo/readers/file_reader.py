"""a file -> its documents, read in a child process with limits unless it is small and simple."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

from kumihimo.core import digests, executors, wiring
from kumihimo.core.errors import SourceError
from kumihimo.core.records import Document
from kumihimo.core.table import codec
from kumihimo.readers import READERS
from kumihimo.readers.documents import iterate_documents, read_documents
from kumihimo.readers.limits import ReadingLimits
from kumihimo.readers.reading_worker import ReadingWorker, reply_errors

_SMALL_BYTES = 1 << 20  # of a simple file that this process reads itself
_HANDLER = "kumihimo.readers.file_reader:answer_request"


@dataclass(frozen=True, slots=True)
class ReadingJob:
    """A file to read. stamp: what changes when the file does. size: bytes."""

    path: Path
    uri: str
    stamp: str
    size: int


Outcome = list[Document] | SourceError | None  # None: the file is not on this machine
Reading = tuple[ReadingJob, Outcome]


@dataclass(frozen=True, slots=True)
class ReadingSpec:
    """The reading of files in another process."""

    limits: ReadingLimits
    name: ClassVar[str] = "files"

    def open(self, context: executors.WorkerContext) -> Callable[[ReadingJob], Reading]:
        reader = FileReader(context.catalogue.readers, self.limits)
        return lambda job: reader.try_read(job) if job.path.exists() else (job, None)

    def describe(self, job: ReadingJob) -> str:
        return job.uri


class FileReader:
    """A reader of files, with one child process for many files.

    A reader function that the child cannot import, such as one of a notebook, runs in this process.
    """

    def __init__(self, readers: Mapping[str, wiring.FileType], limits: ReadingLimits) -> None:
        self.readers, self.limits = readers, limits
        self.worker = ReadingWorker(_HANDLER, limits)
        self._added = {suffix: each for suffix, each in readers.items() if READERS.get(suffix) != each}

    def read(self, path: Path, uri: str) -> list[Document]:
        """Return all documents of one file, as `read_documents` does.

        Raise LimitExceeded if it is over a limit, SourceError if it cannot be read.
        """
        if self._needs_worker(path):
            return self._read_in_worker(path, uri)
        return read_documents(path, uri, self.readers, self.limits)

    def try_read(self, job: ReadingJob) -> Reading:
        """Return the documents of a file, or its error."""
        try:
            return job, self.read(job.path, job.uri)
        except SourceError as error:
            return job, error
        except OSError as error:
            return job, SourceError(f"{job.path}: {error.strerror or error}")

    def _needs_worker(self, path: Path) -> bool:
        file_type = self.readers.get(path.suffix.lower())
        if file_type is None or not path.is_file() or (file_type.is_simple and path.stat().st_size <= _SMALL_BYTES):
            return False
        used = self._added.values() if file_type.has_attachments else {file_type} & {*self._added.values()}
        return all(_is_importable(each) for each in used)

    def _read_in_worker(self, path: Path, uri: str) -> list[Document]:
        added = {
            suffix: (each.read.__module__, each.read.__qualname__, each.media_type, each.has_attachments)
            for suffix, each in self._added.items()
            if _is_importable(each)
        }
        decode, request = codec(Document).decode, {"path": str(path.absolute()), "uri": uri, "readers": added}
        return self.worker.read(request, uri, lambda row: decode(tuple(row)), path.stat().st_size)

    def close(self) -> None:
        self.worker.close()


def _is_importable(file_type: wiring.FileType) -> bool:
    """Return whether another process can import the reader by its name."""
    module, name = file_type.read.__module__, file_type.read.__qualname__
    if module == "__main__" or "<" in name or module not in sys.modules:
        return False
    try:
        return attrgetter(name)(sys.modules[module]) is file_type.read
    except AttributeError:
        return False


def answer_request(request: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the documents of a file as rows, or an error.

    It runs in the child process.
    """
    readers, encode = dict(READERS), codec(Document).encode
    for suffix, (module, name, media_type, has_attachments) in request["readers"].items():
        readers[suffix] = wiring.FileType(media_type, attrgetter(name)(import_module(module)), has_attachments)
    documents = iterate_documents(Path(request["path"]), request["uri"], readers, ReadingLimits(**request["limits"]))
    rows = (encode(document.id, document) for document in documents)
    yield from reply_errors(
        [digests.replace_surrogates(each) if isinstance(each, str) else each for each in row] for row in rows
    )
