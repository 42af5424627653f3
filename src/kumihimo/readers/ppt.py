"""an old PowerPoint file (.ppt, PowerPoint 97 to 2003) -> one page of text, with its slides as places."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kumihimo.core.errors import SourceError
from kumihimo.readers.ole import open_ole, read_summary
from kumihimo.readers.page import Page, finish_slides

LOCKED_TOKEN = 0xF3D1C4DF
# Types of records.
DOCUMENT, SLIDE_ATOM, SLIDE_LIST, SLIDE_REFERENCE = 1000, 1007, 4080, 1011
TEXT_TYPE, TEXT_WIDE, TEXT_NARROW, OUTLINE_REFERENCE = 3999, 4000, 4008, 3998
EDIT, DIRECTORY, PLACEHOLDER, SHAPE = 4085, 6002, 3011, 0xF004
SLIDES, NOTES = 0, 2  # kinds of lists
TITLES = {0, 6}  # types of texts
DROPPED_PLACEHOLDERS = {7, 8, 9, 10}  # date, number, footer, header
MAX_DEPTH = 50
MAX_EDITS = 10_000


class PptRecord(NamedTuple):
    """A record. start, end: of its content. container: whether it holds records."""

    kind: int
    instance: int
    container: bool
    start: int
    end: int


class Text(NamedTuple):
    """A text of a slide. kind: as in the file, such as a title."""

    kind: int
    text: str


class SlideReference(NamedTuple):
    """An entry of a list of slides. id: its number for notes. object: its number in the directory."""

    id: int
    object: int
    texts: list[Text]


def read_ppt(data: bytes, name: str) -> Iterator[Page]:
    """Read each slide with its notes.

    Raise SourceError if it is locked or damaged.
    """
    file = open_ole(data, name)
    stream, user = file.read_stream("PowerPoint Document"), file.read_stream("Current User")
    if not stream or len(user) < 20:
        raise SourceError(f"{name}: not a PowerPoint file of 1997 to 2003; save it as .pptx")
    token, last_edit = struct.unpack_from("<II", user, 12)
    if token == LOCKED_TOKEN or ("EncryptedSummary",) in file.streams:
        raise SourceError(f"{name}: locked with a password; save it without one")
    try:
        slides = list(_PptReader(stream, name).read(last_edit))
    except (struct.error, LookupError) as error:
        raise SourceError(f"{name}: damaged, so its slides are not found; save it again as .pptx") from error
    yield finish_slides(slides, name, *read_summary(file))


class _PptReader:
    """The stream of a file, and the directory of its objects."""

    def __init__(self, stream: bytes, name: str) -> None:
        self.stream, self.name = stream, name
        self.objects: dict[int, int] = {}
        self.characters = 0

    def read(self, last_edit: int) -> Iterator[str]:
        """Yield the text of each slide."""
        document = self._record(self.objects[self._read_directory(last_edit)])
        lists = {SLIDES: list[SlideReference](), NOTES: list[SlideReference]()}
        for record in self._children(document):
            if record.kind == SLIDE_LIST and record.instance in lists:
                lists[record.instance] += self._read_list(record)
        notes = {each.id: each for each in lists[NOTES]}
        for slide in {each.object: each for each in lists[SLIDES]}.values():
            found = self._object(slide)
            texts = list(self._slide_texts(found, slide.texts)) if found else slide.texts
            about = notes.get(self._notes_id(found)) if found else None
            if about and (notes_record := self._object(about)):
                texts += self._slide_texts(notes_record, about.texts)
            yield "\n\n".join(filter(None, map(_format_text, texts)))

    def _object(self, reference: SlideReference) -> PptRecord | None:
        return self._record(self.objects[reference.object]) if reference.object in self.objects else None

    def _record(self, offset: int) -> PptRecord:
        flags, kind, size = struct.unpack_from("<HHI", self.stream, offset)
        start = offset + 8
        return PptRecord(kind, flags >> 4, flags & 15 == 15, start, min(start + size, len(self.stream)))

    def _children(self, record: PptRecord) -> Iterator[PptRecord]:
        position = record.start
        while position + 8 <= record.end:
            child = self._record(position)
            yield child._replace(end=min(child.end, record.end))
            position = child.end

    def _walk(self, record: PptRecord) -> Iterator[PptRecord]:
        """Yield all records inside a record, in order."""
        pending = [self._children(record)]
        while pending:
            child = next(pending[-1], None)
            if child is None:
                pending.pop()
                continue
            yield child
            if child.container and len(pending) < MAX_DEPTH:
                pending.append(self._children(child))

    def _read_directory(self, edit: int) -> int:
        """Read the places of all objects; return the document's number."""
        document, visited = -1, set[int]()
        while edit and edit not in visited and len(visited) < MAX_EDITS:
            visited.add(edit)
            record = self._record(edit)
            if record.kind != EDIT:
                break
            previous, directory, first = struct.unpack_from("<8xIII", self.stream, record.start)
            document = first if document < 0 else document
            self._read_directory_part(self._record(directory))
            edit = previous
        return document

    def _read_directory_part(self, record: PptRecord) -> None:
        position = record.start
        while record.kind == DIRECTORY and position + 4 <= record.end:
            head = struct.unpack_from("<I", self.stream, position)[0]
            first, count = head & 0xFFFFF, head >> 20
            offsets = struct.unpack_from(f"<{count}I", self.stream, position + 4)
            for number, offset in enumerate(offsets, first):
                self.objects.setdefault(number, offset)
            position += 4 + 4 * count

    def _read_list(self, record: PptRecord) -> Iterator[SlideReference]:
        """Yield the slides of a list, with the texts of their outline."""
        current: SlideReference | None = None
        kind = 0
        for child in self._children(record):
            if child.kind == SLIDE_REFERENCE:
                if current:
                    yield current
                number, id = struct.unpack_from("<I8xI", self.stream, child.start)
                current = SlideReference(id, number, [])
            elif child.kind == TEXT_TYPE:
                kind = struct.unpack_from("<I", self.stream, child.start)[0]
            elif current and (text := self._text(child)) is not None:
                current.texts.append(Text(kind, text))
        if current:
            yield current

    def _notes_id(self, slide: PptRecord) -> int:
        atom = next((child for child in self._children(slide) if child.kind == SLIDE_ATOM), None)
        return int(struct.unpack_from("<16xI", self.stream, atom.start)[0]) if atom else 0

    def _slide_texts(self, slide: PptRecord, outline: list[Text]) -> Iterator[Text]:
        """Yield the texts of the shapes, and those of the outline alone."""
        shown = set[int]()
        for shape in self._walk(slide):
            if shape.kind == SHAPE:
                yield from self._shape_texts(shape, outline, shown)
        yield from (text for number, text in enumerate(outline) if number not in shown)

    def _shape_texts(self, shape: PptRecord, outline: list[Text], shown: set[int]) -> Iterator[Text]:
        kind, texts = 4, list[Text]()
        for record in self._walk(shape):
            if record.kind == PLACEHOLDER and self.stream[record.start + 4] in DROPPED_PLACEHOLDERS:
                return
            if record.kind == TEXT_TYPE:
                kind = struct.unpack_from("<I", self.stream, record.start)[0]
            elif record.kind == OUTLINE_REFERENCE:
                number = struct.unpack_from("<I", self.stream, record.start)[0]
                if number < len(outline) and number not in shown:
                    shown.add(number)
                    texts.append(outline[number])
            elif (text := self._text(record)) is not None:
                texts.append(Text(kind, text))
        yield from texts

    def _text(self, record: PptRecord) -> str | None:
        """Return the text of a record, if it is one of text.

        Raise SourceError if all texts together are too long.
        """
        if record.kind not in (TEXT_WIDE, TEXT_NARROW):
            return None
        self.characters += record.end - record.start
        if self.characters > 2 * len(self.stream):
            raise SourceError(f"{self.name}: unpacks to far more than its size, like a zip bomb; it is not read")
        codec = "utf-16-le" if record.kind == TEXT_WIDE else "latin-1"
        return self.stream[record.start : record.end].decode(codec, "replace")


def _format_text(text: Text) -> str:
    """Return the lines of a text; a title as a heading."""
    lines = [" ".join(line.replace("\0", "").split()) for line in text.text.replace("\x0b", "\r").split("\r")]
    lines = [line for line in lines if line and line != "*"]  # which stands for a number
    return f"## {' '.join(lines)}" if text.kind in TITLES and lines else "\n".join(lines)
