"""a chunk -> the names in its sentences, and who is named with whom: what a model would be asked, by rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kumihimo.core.records import Chunk, Mention, RelationMention
from kumihimo.index.rules import ner_cjk, ner_latin
from kumihimo.index.rules.ner_spans import QUANTITY, NameSpan, drop_overlaps
from kumihimo.text import name_keys
from kumihimo.text.sentences import collapse_spaces, split_blocks, split_sentences

MAX_FOLLOWING_NAMES = 4  # names of the same sentence that one is tied to

_UNEVEN_SPACE = re.compile(r"[\t-\r\xa0\xad\u200b\ufeff]|  ")
_PARENTHESIS = re.compile(r"\s*[(（][^()（）]*[)）]")
_STAGE_DIRECTION = re.compile(r"\[[^\[\]]*\]")  # of a transcript: `[MUSIC]`
_ROW_LABEL = re.compile(r"(^|; )[^:;\n]{1,40}: ")  # of a row, `Year: 2024; Month: May`
_FILE_NAME = re.compile(r"[_/\\|<>{}\[\]]|\.\w{2,5}$|\d{5}")


class ChunkSentence(NamedTuple):
    text: str
    heading: bool
    name_text: str  # what names are sought in


def find_mentions(chunk: Chunk, aliases: Mapping[str, str]) -> Iterable[Mention]:
    """A mention for each name in each sentence, in reading order, whose text is the sentence.

    The document's title is named by the first sentence too, if it looks like a name. A name of a script that has
    neither capitals nor ideographs is found only as a title or in quotation marks.
    """
    for sentence, names in _named_sentences(chunk, aliases):
        for entity, one in names.items():
            yield Mention(entity=entity, name=one.name, type=one.type, text=sentence)


def find_relation_mentions(chunk: Chunk, aliases: Mapping[str, str]) -> Iterable[RelationMention]:
    """A tie for each two names of one sentence, whose text is the sentence; nobody judges its strength.

    Each name is tied to the four that follow it, so that a list of 200 names makes 790 ties, not 19,900; quantities
    are not tied to each other.
    """
    for sentence, names in _named_sentences(chunk, aliases):
        found = list(names.items())
        for i, one in enumerate(found):
            for other in found[i + 1 : i + 1 + MAX_FOLLOWING_NAMES]:
                if not one[1].type == other[1].type == QUANTITY:
                    yield _make_relation_mention(sentence, one, other)


def _make_relation_mention(sentence: str, *ends: tuple[str, NameSpan]) -> RelationMention:
    (source, one), (target, other) = sorted(ends)
    relation = name_keys.relation_id(source, target)
    return RelationMention(relation=relation, source=source, target=target, names=(one.name, other.name), text=sentence)


def _named_sentences(chunk: Chunk, aliases: Mapping[str, str]) -> Iterator[tuple[str, dict[str, NameSpan]]]:
    """Each sentence with the entities that it names, in reading order."""
    said = list(_split_sentences(chunk.text))
    title = title_as_name(chunk.title)
    found, short = _find_names(chunk.text, said, title)
    for i, (sentence, names) in enumerate(zip(said, found, strict=True)):
        if i == 0 and title:
            names = [*names, NameSpan(len(sentence.text), len(sentence.text), title)]
        named: dict[str, NameSpan] = {}
        for one in names:
            key = (
                one.name.casefold() if one.type == QUANTITY else name_keys.name_key(one.key_text or one.name)
            )  # `$5` is not `5%`
            key = short.get(key, key)
            if len(key) > 1 and not key.isdigit():
                named.setdefault(name_keys.entity_id(aliases.get(key, key)), one)
        if named:
            yield sentence.text, named


def _split_sentences(text: str) -> Iterator[ChunkSentence]:
    for block in split_blocks(text):
        if block.kind == "heading":
            heading = _heading_text(text[block.start : block.end])
            yield ChunkSentence(heading, True, heading)
            continue
        for start, end in split_sentences(text, block.start, block.end):
            sentence = text[start:end]
            sentence = collapse_spaces(sentence) if _UNEVEN_SPACE.search(sentence) else sentence
            if not _STAGE_DIRECTION.fullmatch(sentence):
                yield ChunkSentence(
                    sentence, False, _ROW_LABEL.sub(r"\1", sentence) if block.kind == "row" else sentence
                )


def _heading_text(text: str) -> str:
    """
    >>> [_heading(text) for text in ("## The old pier ##", "Otaru\\n=====", "# C#", "#")]
    ['The old pier', 'Otaru', 'C#', '']
    """
    words = text.split()
    while words and not words[0].strip("#"):
        words.pop(0)
    while words and not words[-1].strip("#=-"):
        words.pop()
    return collapse_spaces(" ".join(words))


def title_as_name(title: str) -> str:
    """A document's title, if it looks like a name: at most six words, and no file's name.

    >>> titles = ("Mercury (planet)", "梅雨", "minutes_2019-04.md", "What we did when it rained all day")
    >>> [as_name(title) for title in titles]
    ['Mercury', '梅雨', '', '']
    """
    plain = collapse_spaces(_PARENTHESIS.sub("", title))
    words = plain.split(" ")
    if len(plain) < 2 or len(words) > 6 or len(plain) > 60 or _FILE_NAME.search(plain) or plain.endswith((".", "。")):
        return ""
    return plain if not plain[0].islower() and name_keys.name_key(plain).strip("0123456789 ") else ""


def _find_names(text: str, said: list[ChunkSentence], title: str) -> tuple[list[list[NameSpan]], dict[str, str]]:
    """The names of each sentence; and the keys of acronyms, with the keys of what they stand for."""
    runs = [list(ner_latin.find_capital_runs(sentence.name_text, sentence.heading)) for sentence in said]
    steady = frozenset(
        word
        for some in runs
        for run in some
        if not run.opens_sentence
        for word in (run.span.name, *run.span.name.split(" "))
    )
    opening = any(run.opens_sentence for some in runs for run in some)
    words = ner_latin.collect_words(text) if opening else frozenset()
    reads = ner_cjk.choose_name_finder(text, title)
    found: list[list[NameSpan]] = []
    short: dict[str, str] = {}
    for sentence, some in zip(said, runs, strict=True):
        names = [
            *ner_latin.find_quoted_titles(sentence.name_text),
            *ner_latin.find_quantities(sentence.name_text),
            *_find_title(sentence.name_text, title),
        ]
        for acronym, long in ner_latin.find_acronyms(sentence.name_text):
            short[name_keys.name_key(acronym)] = name_keys.name_key(long.name)
            names.append(long)
        names += reads(sentence.name_text)
        names += (run.span for run in some if ner_latin.is_name_run(run, steady, words))
        found.append(list(drop_overlaps(names)))
    return found, short


def _find_title(text: str, title: str) -> Iterator[NameSpan]:
    """Where a sentence names the document's title, as it is written or with a small first letter."""
    if not title:
        return
    for form in {title: 0, title[0].lower() + title[1:]: 0}:
        at = text.find(form)
        while at >= 0:
            end = at + len(form)
            if not ner_cjk.is_inside_word(text, at, end):
                yield NameSpan(at, end, form)
            at = text.find(form, end)
