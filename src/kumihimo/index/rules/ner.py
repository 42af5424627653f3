"""a chunk -> the names in its sentences, and who is named with whom: what a model would be asked, by rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kumihimo.core.records import Chunk, Mention, Tie
from kumihimo.index.rules import ner_cjk, ner_latin
from kumihimo.index.rules.ner_spans import QUANTITY, Found, apart
from kumihimo.text import name_keys
from kumihimo.text.sentences import blocks, folded, sentences

NEAR = 4  # names of the same sentence that one is tied to

_UNEVEN = re.compile(r"[\t-\r\xa0\xad\u200b\ufeff]|  ")
_ASIDE = re.compile(r"\s*[(（][^()（）]*[)）]")
_DIRECTION = re.compile(r"\[[^\[\]]*\]")  # of a transcript: `[MUSIC]`
_LABEL = re.compile(r"(^|; )[^:;\n]{1,40}: ")  # of a row, `Year: 2024; Month: May`
_FILE = re.compile(r"[_/\\|<>{}\[\]]|\.\w{2,5}$|\d{5}")


class Sentence(NamedTuple):
    text: str
    heading: bool
    read: str  # what names are sought in


def mentions(chunk: Chunk, aliases: Mapping[str, str]) -> Iterable[Mention]:
    """A mention for each name in each sentence, in reading order, whose text is the sentence.

    The document's title is named by the first sentence too, if it looks like a name. A name of a script that has
    neither capitals nor ideographs is found only as a title or in quotation marks.
    """
    for sentence, names in _read(chunk, aliases):
        for entity, one in names.items():
            yield Mention(entity=entity, name=one.name, type=one.type, text=sentence)


def ties(chunk: Chunk, aliases: Mapping[str, str]) -> Iterable[Tie]:
    """A tie for each two names of one sentence, whose text is the sentence; nobody judges its strength.

    Each name is tied to the four that follow it, so that a list of 200 names makes 790 ties, not 19,900; quantities
    are not tied to each other.
    """
    for sentence, names in _read(chunk, aliases):
        found = list(names.items())
        for i, one in enumerate(found):
            for other in found[i + 1 : i + 1 + NEAR]:
                if not one[1].type == other[1].type == QUANTITY:
                    yield _tie(sentence, one, other)


def _tie(sentence: str, *ends: tuple[str, Found]) -> Tie:
    (source, one), (target, other) = sorted(ends)
    relation = name_keys.relation_id(source, target)
    return Tie(relation=relation, source=source, target=target, names=(one.name, other.name), text=sentence)


def _read(chunk: Chunk, aliases: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Found]]]:
    """Each sentence with the entities that it names, in reading order."""
    said = list(_sentences(chunk.text))
    title = as_name(chunk.title)
    found, short = _found(chunk.text, said, title)
    for i, (sentence, names) in enumerate(zip(said, found, strict=True)):
        if i == 0 and title:
            names = [*names, Found(len(sentence.text), len(sentence.text), title)]
        named: dict[str, Found] = {}
        for one in names:
            key = (
                one.name.casefold() if one.type == QUANTITY else name_keys.key(one.bare or one.name)
            )  # `$5` is not `5%`
            key = short.get(key, key)
            if len(key) > 1 and not key.isdigit():
                named.setdefault(name_keys.entity_id(aliases.get(key, key)), one)
        if named:
            yield sentence.text, named


def _sentences(text: str) -> Iterator[Sentence]:
    for block in blocks(text):
        if block.kind == "heading":
            heading = _heading(text[block.start : block.end])
            yield Sentence(heading, True, heading)
            continue
        for start, end in sentences(text, block.start, block.end):
            sentence = text[start:end]
            sentence = folded(sentence) if _UNEVEN.search(sentence) else sentence
            if not _DIRECTION.fullmatch(sentence):
                yield Sentence(sentence, False, _LABEL.sub(r"\1", sentence) if block.kind == "row" else sentence)


def _heading(text: str) -> str:
    """
    >>> [_heading(text) for text in ("## The old pier ##", "Otaru\\n=====", "# C#", "#")]
    ['The old pier', 'Otaru', 'C#', '']
    """
    words = text.split()
    while words and not words[0].strip("#"):
        words.pop(0)
    while words and not words[-1].strip("#=-"):
        words.pop()
    return folded(" ".join(words))


def as_name(title: str) -> str:
    """A document's title, if it looks like a name: at most six words, and no file's name.

    >>> titles = ("Mercury (planet)", "梅雨", "minutes_2019-04.md", "What we did when it rained all day")
    >>> [as_name(title) for title in titles]
    ['Mercury', '梅雨', '', '']
    """
    plain = folded(_ASIDE.sub("", title))
    words = plain.split(" ")
    if len(plain) < 2 or len(words) > 6 or len(plain) > 60 or _FILE.search(plain) or plain.endswith((".", "。")):
        return ""
    return plain if not plain[0].islower() and name_keys.key(plain).strip("0123456789 ") else ""


def _found(text: str, said: list[Sentence], title: str) -> tuple[list[list[Found]], dict[str, str]]:
    """The names of each sentence; and the keys of acronyms, with the keys of what they stand for."""
    runs = [list(ner_latin.runs(sentence.read, sentence.heading)) for sentence in said]
    steady = frozenset(
        word for some in runs for run in some if not run.opens for word in (run.found.name, *run.found.name.split(" "))
    )
    opening = any(run.opens for some in runs for run in some)
    words = ner_latin.written(text) if opening else frozenset()
    reads = ner_cjk.reader(text, title)
    found: list[list[Found]] = []
    short: dict[str, str] = {}
    for sentence, some in zip(said, runs, strict=True):
        names = [*ner_latin.quoted(sentence.read), *ner_latin.quantities(sentence.read), *_titles(sentence.read, title)]
        for acronym, long in ner_latin.acronyms(sentence.read):
            short[name_keys.key(acronym)] = name_keys.key(long.name)
            names.append(long)
        names += reads(sentence.read)
        names += (run.found for run in some if ner_latin.counts(run, steady, words))
        found.append(list(apart(names)))
    return found, short


def _titles(text: str, title: str) -> Iterator[Found]:
    """Where a sentence names the document's title, as it is written or with a small first letter."""
    if not title:
        return
    for form in {title: 0, title[0].lower() + title[1:]: 0}:
        at = text.find(form)
        while at >= 0:
            end = at + len(form)
            if not ner_cjk.within(text, at, end):
                yield Found(at, end, form)
            at = text.find(form, end)
