"""the chunks of an index -> named topics of the whole or a part: phrases, documents, a sentence each."""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain

from kumihimo.core.spans import Span
from kumihimo.generation.quoting import drafts, ranking
from kumihimo.generation.quoting.passages import read_passages, read_span
from kumihimo.generation.quoting.topic_phrases import TopicPhrase, collect_phrases, names_topic, weigh_phrase
from kumihimo.text.sentences import LIST_ITEM, ends_sentence, split_blocks, split_sentences

_MAX_TOPICS = 7
_MAX_CANDIDATES = 14  # topics; not all have sentences to show
_MAX_COMPARED = 60  # phrases
_MAX_SHARED = 0.7  # texts of a topic that an earlier topic has
_MAX_READ_TEXTS = 4000  # of a larger index, a sample is read: about four seconds
_MAX_READ = 12  # texts of a topic whose sentences are read
_SENTENCE_CHARS = (50, 170)  # of a quotation
_LABEL = re.compile(r"[^\s:：.!?。！？][^:：.!?。！？\n]{0,38}[:：](?=\s|[^\x00-\xff])\s*")
_NO_PROSE = re.compile(r"\w_\w|\w\.\w{3,4}\s|`|\*\*|\]\(|[<>{}|]")
_TURN = re.compile(r"(?:and|but|so|like|no|oh|right|um|well|yeah|yes|or|because)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Topic:
    """A phrase with a sentence that has it. documents: their ids, those with most uses first."""

    name: str
    documents: tuple[str, ...]
    quote: Span


def find_topics(reader: ranking.IndexReader, part: Set[str] | None = None) -> tuple[list[Topic], int, int]:
    """Return topics, the number of passages, and of passages read.

    part: the ids of its documents; what is frequent everywhere is then no topic of it.
    """
    chunks = reader.find_table("chunks")
    if not chunks:
        return [], 0, 0
    ids, total, phrases = reader.once("topic phrases", lambda: _read_phrases(reader))
    document_of = [id.partition(".")[0] for id in ids]
    here = frozenset(n for n, document in enumerate(document_of) if part is None or document in part)
    topics, quoted = list[Topic](), set[str]()
    for phrase in _choose_phrases(phrases, here, document_of):
        texts = sorted(here & phrase.texts.keys(), key=lambda text: (-phrase.texts[text], text))
        spans = (read_span(reader, chunks, ids[n]) for n in texts[:_MAX_READ])
        quotes = (quote for span in spans for quote in _read_sentences(span, phrase))
        quote = next((span for span in quotes if _plain(span.text) not in quoted), None)
        if quote and len(topics) < _MAX_TOPICS:
            quoted.add(_plain(quote.text))
            topics.append(Topic(phrase.name, tuple(dict.fromkeys(document_of[n] for n in texts)), quote))
    return topics, total, len(ids)


def _read_phrases(reader: ranking.IndexReader) -> tuple[list[str], int, list[TopicPhrase]]:
    """Return the passages that are read, the number of all, and phrases."""
    passages = read_passages(reader, _MAX_READ_TEXTS)
    assert passages
    phrases = collect_phrases(passages.texts, _person_names(passages.ids, reader))
    return passages.ids, passages.total, list(filter(names_topic, phrases))


def _person_names(chunks: Iterable[str], reader: ranking.IndexReader) -> Iterator[str]:
    """Yield the names of people in these chunks."""
    mentions, entities = reader.find_table("mentions"), reader.find_table("entities")
    if mentions is not None and entities is not None:
        named = chain.from_iterable(mentions.child_values(chunks, "entity").values())
        yield from chain.from_iterable(e.forms for e in entities.get_many(named).values() if e.type == "person")


def _choose_phrases(phrases: Sequence[TopicPhrase], here: Set[int], document_of: Sequence[str]) -> list[TopicPhrase]:
    """Return phrases that share no word and few texts, the best first."""
    weights = {phrase.key: weigh_phrase(phrase, here, document_of) for phrase in phrases}
    usable = [phrase for phrase in phrases if weights[phrase.key] > 0]
    usable.sort(key=lambda phrase: (-weights[phrase.key], phrase.key))
    chosen: list[TopicPhrase] = []
    covered: set[int] = set()  # of the texts
    for phrase in usable[:_MAX_COMPARED]:
        texts = here & phrase.texts.keys()
        is_new = all(set(phrase.key).isdisjoint(other.key) for other in chosen)
        if is_new and len(texts & covered) <= _MAX_SHARED * len(texts):
            covered.update(texts)
            chosen.append(phrase)
    return chosen[:_MAX_CANDIDATES]


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _read_sentences(chunk: Span, phrase: TopicPhrase) -> Iterator[Span]:
    """Yield readable sentences with the phrase."""
    forms = phrase.pattern()
    for block in split_blocks(chunk.text):
        if block.kind not in ("prose", "item"):
            continue
        for start, end in split_sentences(chunk.text, block.start, block.end):
            for pattern in (LIST_ITEM, _LABEL):
                mark = pattern.match(chunk.text, start, end)
                start = mark.end() if mark else start
            text = chunk.text[start:end]
            if _reads_well(text) and forms.search(text):
                yield drafts.cut_span(chunk, start, end)


def _reads_well(text: str) -> bool:
    low, high = _SENTENCE_CHARS
    ends = ends_sentence(text) and not re.search(r"(?<!\W)[^\w?？؟]*+[?？؟]\W*+$", text) and not _NO_PROSE.search(text)
    return low <= len(text) <= high and ends and not text[:1].islower() and not _TURN.match(text) and "\n\n" not in text
