"""a file -> its documents, read in a child process with limits unless it is small and simple."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

from kumihimo.core.digests import replace_surrogates
from kumihimo.core.errors import LimitExceeded, SourceError
from kumihimo.core.executors import WorkerContext
from kumihimo.core.records import Document
from kumihimo.core.table import codec
from kumihimo.core.wiring import FileType
from kumihimo.readers import READERS
from kumihimo.readers.documents import ReadingLimits, iterate_documents, read_documents, unreadable_error
from kumihimo.workers import Worker, WorkerStopped

_SMALL_BYTES = 1 << 20  # of a simple file that this process reads itself
_CLOCK_FACTOR = 4  # seconds of the clock for a second of processor time
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

    def open(self, context: WorkerContext) -> Callable[[ReadingJob], Reading]:
        reader = FileReader(context.catalogue.readers, self.limits)
        return lambda job: reader.try_read(job) if job.path.exists() else (job, None)

    def describe(self, job: ReadingJob) -> str:
        return job.uri


class FileReader:
    """A reader of files, with one child process for many files.

    A reader function that the child cannot import, such as one of a notebook, runs in this process.
    """

    def __init__(self, readers: Mapping[str, FileType], limits: ReadingLimits) -> None:
        self.readers, self.limits = readers, limits
        self.worker = Worker(_HANDLER, memory=limits.memory << 20)
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
        request = {"path": str(path.absolute()), "uri": uri, "readers": added, "limits": asdict(self.limits)}
        while True:
            is_fresh = not self.worker.requests
            try:
                return self._ask_worker(request)
            except WorkerStopped as stop:
                # Earlier files use some of the memory of a process, so a fresh one decides.
                if is_fresh or stop.reason not in ("memory", "crash"):
                    raise self._describe_stop(uri, stop) from stop

    def _ask_worker(self, request: Mapping[str, Any]) -> list[Document]:
        decode, seconds = codec(Document).decode, self.limits.seconds
        documents: list[Document] = []
        error: SourceError | None = None
        for reply in self.worker.ask(request, seconds=seconds * _CLOCK_FACTOR, cpu_seconds=seconds):
            if isinstance(reply, list):
                documents.append(decode(tuple(reply)))
            else:
                error = (LimitExceeded if reply["is_limit"] else SourceError)(reply["error"])
        if error:
            raise error
        return documents

    def _describe_stop(self, uri: str, stop: WorkerStopped) -> SourceError:
        """Return the error for a file that ended its process.

        A crash and the clock may have other causes, so such a file is read again by the next build.
        """
        if stop.reason in ("memory", "time"):
            return self.limits.error(uri, "memory" if stop.reason == "memory" else "seconds")
        if stop.reason == "clock":
            seconds = self.limits.seconds * _CLOCK_FACTOR
            return SourceError(f"{uri}: it was not read within {seconds:,} seconds (four times reading.seconds)")
        if stop.reason == "error":
            return unreadable_error(uri, str(stop))
        return SourceError(
            f"{uri}: its reader crashed ({stop}); the file is damaged, or needs more than "
            f"{self.limits.memory:,} MB of memory (reading.memory)"
        )

    def close(self) -> None:
        self.worker.close()


def _is_importable(file_type: FileType) -> bool:
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
        readers[suffix] = FileType(media_type, attrgetter(name)(import_module(module)), has_attachments)
    limits = ReadingLimits(**request["limits"])
    try:
        for document in iterate_documents(Path(request["path"]), request["uri"], readers, limits):
            row = encode(document.id, document)
            yield [replace_surrogates(value) if isinstance(value, str) else value for value in row]
    except SourceError as error:
        yield {"error": str(error), "is_limit": isinstance(error, LimitExceeded)}
