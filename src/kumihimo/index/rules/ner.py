"""a chunk -> the names in its sentences, and the pairs named together, by rules instead of a model."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from kumihimo.core.errors import KumiError, StepError
from kumihimo.core.records import Chunk, Mention, RelationMention
from kumihimo.index.name_records import ChunkNames, NameResolver
from kumihimo.index.rules import ner_cjk, ner_latin, ner_tagged, ner_words
from kumihimo.index.rules.prose import blank_code
from kumihimo.llm.protocols import NamedEntityRecognizer
from kumihimo.text import name_keys, parts_of_speech, scripts
from kumihimo.text.sentences import Block, collapse_spaces, split_blocks, split_sentences

TypedName = tuple[str, str]  # name, type
MAX_FOLLOWING_NAMES = 4  # later names of the sentence that a name is paired with

_ROW_LABEL = re.compile(r"(^|; )[^:;\n]{1,40}: ")  # in a row: `Year: 2024; Month: May`


NameFinder = Callable[[str], Iterator[ner_words.NameSpan]]


class ChunkSentence(NamedTuple):
    """A sentence of a chunk, at [start, end) of it.

    name_text: the text to search for names.
    """

    start: int
    end: int
    heading: bool
    name_text: str


def find_names(chunk: Chunk, recognizer: NamedEntityRecognizer | None = None) -> ChunkNames:
    """Return the names in each sentence of a chunk, in reading order.

    The first sentence also has the document's title, if that looks like a name. In scripts without capitals and
    ideographs, a name is found only as a title or in quotation marks. recognizer: finds the names instead of the rules.
    """
    sentences = list(_split_sentences(chunk.text))
    title = name_keys.title_as_name(chunk.title)
    if recognizer:
        spans_by_sentence, acronyms = _recognize_names(sentences, recognizer), list(_find_acronyms(sentences))
    else:
        spans_by_sentence, acronyms = _find_names(chunk.text, sentences, title)
    names = [[(span.name, span.type) for span in spans] for spans in spans_by_sentence]
    if title and sentences:
        names[0].append((title, ""))
    pairs = zip(sentences, names, strict=True)
    rows = ((s.start, s.end, s.heading, tuple(names)) for s, names in pairs if names)
    return ChunkNames(chunk.document, tuple(rows), tuple(acronyms))


def find_mentions(chunk: Chunk, names: ChunkNames | None, resolver: NameResolver) -> Iterable[Mention]:
    """Yield a mention for each name of each sentence, in reading order.

    Its text is the sentence.
    """
    for sentence, entities in _named_sentences(chunk, names, resolver):
        for entity, (name, kind) in entities.items():
            yield Mention(entity=entity, name=name, type=kind, text=sentence)


def find_relation_mentions(chunk: Chunk, names: ChunkNames | None, resolver: NameResolver) -> Iterable[RelationMention]:
    """Yield a relation mention for each two names of a sentence.

    Its text is the sentence; its strength is not rated. Each name is paired with the next four, so that a list of 200
    names makes 790 pairs, not 19,900.
    """
    for sentence, names_by_entity in _named_sentences(chunk, names, resolver):
        entities = list(names_by_entity.items())
        for i, first in enumerate(entities):
            for second in entities[i + 1 : i + 1 + MAX_FOLLOWING_NAMES]:
                yield _make_relation_mention(sentence, first, second)


def _make_relation_mention(sentence: str, *ends: tuple[str, TypedName]) -> RelationMention:
    (source, (source_name, _)), (target, (target_name, _)) = sorted(ends)
    relation = name_keys.relation_id(source, target)
    return RelationMention(relation, source, target, (source_name, target_name), text=sentence)


def _named_sentences(
    chunk: Chunk, names: ChunkNames | None, resolver: NameResolver
) -> Iterator[tuple[str, dict[str, TypedName]]]:
    """Yield each sentence with its entities, in reading order."""
    if names is None:
        return
    for start, end, heading, typed_names in names.sentences:
        entities: dict[str, TypedName] = {}
        for name, kind in typed_names:
            key = name_keys.name_key(name)
            if len(key) > 1 and not key.isdigit():
                entities.setdefault(resolver.entity_of_key(key, kind), (name, kind))
        if entities:
            yield _sentence_text(chunk.text[start:end], heading=heading), entities


def _recognize_names(
    sentences: Sequence[ChunkSentence], recognizer: NamedEntityRecognizer
) -> list[list[ner_words.NameSpan]]:
    """Return the names that an NER model finds in each sentence.

    Raises StepError where it fails, or returns anything but ranges of the sentences.
    """
    texts = [sentence.name_text for sentence in sentences]
    try:
        rows = zip(texts, recognizer(texts), strict=True)
        return [[_to_name_span(text, *name_range) for name_range in sorted(ranges)] for text, ranges in rows]
    except KumiError:
        raise
    except Exception as error:  # a model of the user's choice may raise anything
        raise StepError(
            f"the NER model {recognizer.fingerprint} failed for {len(texts)} sentences "
            f"({type(error).__name__}: {error}): it has to return, for each, a list of (start, end, type), with "
            "0 <= start < end <= the length of the sentence. The index was not changed"
        ) from error


def _to_name_span(text: str, start: int, end: int, kind: str) -> ner_words.NameSpan:
    if not 0 <= start < end <= len(text) or not isinstance(kind, str):
        raise ValueError(f"({start!r}, {end!r}, {kind!r}) for a sentence of {len(text)} characters")
    return ner_words.NameSpan(int(start), int(end), text[start:end], kind)


def _find_acronyms(sentences: Iterable[ChunkSentence]) -> Iterator[tuple[str, str]]:
    """Yield each acronym that a sentence spells out."""
    for sentence in sentences:
        for acronym, expansion in ner_latin.find_acronyms(sentence.name_text):
            yield acronym, expansion.name
        yield from ner_cjk.find_cjk_abbreviations(sentence.name_text)


def _split_sentences(text: str) -> Iterator[ChunkSentence]:
    blocks, prose = list(split_blocks(text)), blank_code(text)
    for i, block in enumerate(blocks):
        if block.kind == "heading":
            heading = _sentence_text(prose[block.start : block.end], heading=True)
            yield ChunkSentence(block.start, block.end, True, heading)
            continue
        is_header = block.kind == "row" and _is_table_header(text, blocks, i)
        for start, end in split_sentences(text, block.start, block.end):
            name_text = _sentence_text(prose[start:end])
            name_text = _ROW_LABEL.sub(r"\1", name_text) if block.kind == "row" else name_text
            yield ChunkSentence(start, end, False, "" if is_header else name_text)


def _sentence_text(text: str, *, heading: bool = False) -> str:
    """Return the words of a sentence or heading."""
    if heading:
        return _heading_text(text)
    return text if text.isprintable() and "  " not in text else collapse_spaces(text)


def _is_table_header(text: str, blocks: Sequence[Block], i: int) -> bool:
    """Return whether a row names the columns.

    It is the first of a table with `|`, and has no digits.
    """
    row = text[blocks[i].start : blocks[i].end]
    is_first = i == 0 or blocks[i - 1].kind != "row"
    is_last = i + 1 == len(blocks) or blocks[i + 1].kind != "row"
    return is_first and not is_last and " | " in row and not any(map(str.isdecimal, row))


def _heading_text(text: str) -> str:
    r"""Return the words of a heading, without its markup.

    >>> [_heading_text(text) for text in ("## The old pier ##", "Otaru\n=====", "# C#", "#")]
    ['The old pier', 'Otaru', 'C#', '']
    """
    words = text.split()
    while words and not words[0].strip("#"):
        words.pop(0)
    while words and not words[-1].strip("#=-"):
        words.pop()
    return collapse_spaces(" ".join(words))


def _find_names(
    text: str, chunk_sentences: list[ChunkSentence], title: str
) -> tuple[list[list[ner_words.NameSpan]], list[tuple[str, str]]]:
    """Return the names of each sentence, and the acronyms with their expansions."""
    runs = [_find_runs(sentence.name_text, sentence.heading) for sentence in chunk_sentences]
    inner_names = {run.span.name for run in chain.from_iterable(runs) if not run.opens_sentence}
    inner_capitals = inner_names.union(*(name.split(" ") for name in inner_names))
    find_cjk_names = _choose_cjk_finder(text, title)
    spans_by_sentence: list[list[ner_words.NameSpan]] = []
    acronyms: list[tuple[str, str]] = []
    for sentence, sentence_runs in zip(chunk_sentences, runs, strict=True):
        names = [
            *ner_latin.find_quoted_titles(sentence.name_text),
            *ner_latin.find_quantities(sentence.name_text),
            *_find_title(sentence.name_text, title),
        ]
        expansions = list(ner_latin.find_acronyms(sentence.name_text))
        names += (expansion for _, expansion in expansions)
        acronyms += ((acronym, expansion.name) for acronym, expansion in expansions)
        acronyms += ner_cjk.find_cjk_abbreviations(sentence.name_text)
        if find_cjk_names and scripts.has_cjk(sentence.name_text):
            names += find_cjk_names(sentence.name_text)
        names += filter(None, (ner_latin.select_name(run, inner_capitals, text) for run in sentence_runs))
        # A quantity is an attribute, no entity. Its unit is no name either: `20 MB`.
        spans = [span for span in ner_words.drop_overlaps(names) if span.type != ner_words.QUANTITY]
        spans_by_sentence.append(spans)
    return spans_by_sentence, acronyms


@lru_cache(maxsize=128)  # the next chunk begins with the same sentences
def _find_runs(text: str, is_heading: bool) -> list[ner_latin.CapitalRun]:
    return list(ner_latin.find_capital_runs(text, is_heading))


def _choose_cjk_finder(text: str, title: str) -> NameFinder | None:
    """Return the name finder for a Chinese or Japanese text.

    Without the extra `zh` or `ja` no parts of speech are known.
    """
    if not scripts.has_cjk(text):
        return None
    if scripts.is_chinese(text):
        find = ner_tagged.find_tagged_chinese if parts_of_speech.can_tag_chinese() else ner_cjk.find_chinese_names
        return lambda sentence: find(sentence, title)
    return ner_tagged.find_tagged_japanese if parts_of_speech.can_tag_japanese() else ner_cjk.find_japanese_names


def _find_title(text: str, title: str) -> Iterator[ner_words.NameSpan]:
    """Yield where a sentence names the document's title.

    Its first letter may be small.
    """
    if not title:
        return
    for form in {title: 0, title[0].lower() + title[1:]: 0}:
        start = text.find(form)
        while start >= 0:
            end = start + len(form)
            if not ner_cjk.is_inside_word(text, start, end):
                yield ner_words.NameSpan(start, end, form)
            start = text.find(form, end)
