"""subtitles (.vtt, .srt) -> a page of what is said, with the time of each cue."""

import re
from collections.abc import Iterator, Sequence
from html import unescape
from itertools import pairwise
from typing import NamedTuple

from kumihimo.core.errors import SourceError
from kumihimo.readers.glyphs import is_cjk_letter
from kumihimo.readers.page import Page
from kumihimo.readers.text import decode

TIMING = re.compile(
    r"\s*(?:(\d{1,3}):)?(\d{1,2}):(\d{2})[.,]\d{1,3}\s*-->\s*(?:(\d{1,3}):)?(\d{1,2}):(\d{2})[.,]\d{1,3}"
)
SPEAKER = re.compile(r"<v(?:\.[^\s<>]{0,100})?\s([^<>]{1,200})>")
TAG = re.compile(r"</?[a-zA-Z][^<>]{0,300}>|<[\d:.]{1,20}>|\{\\[^{}]{0,300}\}")
PAUSE = 3  # seconds between two cues that begin a paragraph


class Cue(NamedTuple):
    """Lines that are shown together. start, end: seconds. speaker: empty if it is not named."""

    start: int
    end: int
    speaker: str
    lines: tuple[str, ...]


def read_subtitles(data: bytes, name: str) -> Iterator[Page]:
    """Read what is said.

    A new speaker or a pause begins a paragraph. Raises SourceError if no line has a time.
    """
    source = decode(data, name).replace("\r\n", "\n").replace("\r", "\n")
    cues = list(_without_repetitions(list(_parse_cues(source.split("\n")))))
    if source.strip() and not cues and not source.lstrip().startswith("WEBVTT"):
        raise SourceError(f"{name}: has no line such as 00:00:01.000 --> 00:00:04.000; name it .txt to read it as text")
    parts, places, length, speaker = list[str](), list[tuple[int, str]](), 0, ""
    for before, cue in pairwise([None, *cues]):
        assert cue
        words = " ".join(cue.lines)
        gap, begins_with = _gap(before, cue, parts), ""
        if cue.speaker and (gap == "\n\n" or cue.speaker != speaker):
            begins_with = f"{cue.speaker}: "
        speaker = cue.speaker
        places.append((length + len(gap), _format_time(cue.start)))
        parts += [gap, begins_with, words]
        length += len(gap) + len(begins_with) + len(words)
    head, _, rest = source.partition("\n")
    title = head.removeprefix("WEBVTT").strip(" \t-") if rest and head.startswith("WEBVTT") else ""
    yield Page(title=title, text="".join(parts), places=tuple(places))


def _parse_cues(lines: Sequence[str]) -> Iterator[Cue]:
    """Yield the cues with a text.

    Comments, styles and numbers have no time.
    """
    timings = [(number, match) for number, line in enumerate(lines) if (match := TIMING.match(line))]
    for (number, match), (following, _) in pairwise([*timings, (len(lines), None)]):
        shown = list[str]()
        for line in lines[number + 1 : following]:
            if not line.strip():
                break
            shown.append(line)
        speakers = SPEAKER.findall(" ".join(shown))
        texts = [" ".join(unescape(TAG.sub("", line)).split()) for line in shown]
        if texts := [text for text in texts if text]:
            assert match
            hours, minutes, seconds, *end = (int(part or 0) for part in match.groups())
            start = 3600 * hours + 60 * minutes + seconds
            yield Cue(start, 3600 * end[0] + 60 * end[1] + end[2], speakers[0].strip() if speakers else "", (*texts,))


def _without_repetitions(cues: Sequence[Cue]) -> Iterator[Cue]:
    """Yield the cues without lines of the cue before.

    Live captions roll up line by line.
    """
    shown: tuple[str, ...] = ()
    for cue in cues:
        lines = cue.lines
        while lines and lines[0] in shown:
            lines = lines[1:]
        shown = cue.lines
        if lines:
            yield cue._replace(lines=lines)


def _gap(before: Cue | None, cue: Cue, parts: Sequence[str]) -> str:
    """Return what stands between two cues."""
    if before is None:
        return ""
    if cue.speaker != before.speaker or cue.start - before.end >= PAUSE:
        return "\n\n"
    return "" if is_cjk_letter(parts[-1][-1]) and is_cjk_letter(cue.lines[0][0]) else " "


def _format_time(seconds: int) -> str:
    """Return a time as players show it.

    >>> _format_time(3725), _format_time(65)
    ('1:02:05', '1:05')
    """
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
