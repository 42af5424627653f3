"""the chunks of an index -> named topics of the whole: phrases, documents, a sentence each."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from kumihimo.core.spans import Span
from kumihimo.generation.quoting.drafts import MAX_LONG_CHARS, Draft, cut_span, say, say_count
from kumihimo.generation.quoting.passages import Passages, read_passages
from kumihimo.generation.quoting.ranking import IndexReader
from kumihimo.generation.quoting.topic_phrases import Phrase, collect_phrases, weigh_phrase
from kumihimo.text.sentences import LIST_ITEM, ends_sentence, split_blocks, split_sentences

_MAX_TOPICS, _MIN_TOPICS = 7, 3
_MAX_CANDIDATES = 14  # topics; not all have sentences to show
_MAX_COMPARED = 60  # phrases
_MAX_SHARED = 0.7  # texts of a topic that an earlier topic has
_MAX_READ_TEXTS = 4000  # of a larger index, a sample is read: about four seconds
_MAX_READ = 12  # texts of a topic whose sentences are read
_SENTENCE_CHARS = (50, 170)  # of a quotation; half of it in Japanese and Chinese
_LABEL = re.compile(r"[^\s:：.!?。！？][^:：.!?。！？\n]{0,38}[:：](?=\s|[^\x00-\xff])\s*")
_NO_PROSE = re.compile(r"\w_\w|\w\.\w{3,4}\s|`|\*\*|\]\(|[<>{}|]")
_TURN = re.compile(r"(?:and|but|so|like|no|oh|right|um|well|yeah|yes|or|because)\b", re.IGNORECASE)


def write_topics(reader: IndexReader, language: str) -> Draft | None:
    """Return the topics of the corpus, each with a sentence; or None."""
    passages = read_passages(reader, _MAX_READ_TEXTS)
    if passages is None:
        return None
    document_of = list(map(passages.document, range(len(passages.texts))))
    phrases = collect_phrases(passages.texts, _person_names(passages.ids, reader))
    draft = Draft(MAX_LONG_CHARS)
    draft.add(say("topics", language, total=say_count("document", len(set(document_of)), language)))
    n = 1
    for topic in _choose_topics(phrases, document_of):
        if n <= _MAX_TOPICS:
            count = say_count("document", len({document_of[number] for number in topic.texts}), language)
            n += _add_topic(draft, f"{n}. {topic.name} — {count}", _find_quotes(topic, passages))
    if len(passages.texts) < passages.total:
        draft.add(say("sampled", language, n=f"{len(passages.texts):,}", total=f"{passages.total:,}"))
    return draft if n > _MIN_TOPICS else None


def _person_names(chunks: Iterable[str], reader: IndexReader) -> Iterator[str]:
    """Yield the names of people in these chunks."""
    mentions, entities = reader.find_table("mentions"), reader.find_table("entities")
    if mentions is not None and entities is not None:
        named = chain.from_iterable(mentions.child_values(chunks, "entity").values())
        yield from chain.from_iterable(e.forms for e in entities.get_many(named).values() if e.type == "person")


def _choose_topics(phrases: Sequence[Phrase], document_of: Sequence[str]) -> list[Phrase]:
    """Return phrases that share no word and few texts, the best first."""
    weights = {phrase.key: weigh_phrase(phrase, document_of) for phrase in phrases}
    usable = [phrase for phrase in phrases if weights[phrase.key] > 0]
    usable.sort(key=lambda phrase: (-weights[phrase.key], phrase.key))
    topics: list[Phrase] = []
    covered: set[int] = set()  # of the texts
    for phrase in usable[:_MAX_COMPARED]:
        texts = phrase.texts.keys()
        if not any(_alike(phrase, topic) for topic in topics) and len(texts & covered) <= _MAX_SHARED * len(texts):
            covered.update(texts)
            topics.append(phrase)
    return topics[:_MAX_CANDIDATES]


def _alike(one: Phrase, other: Phrase) -> bool:
    """Return whether two phrases share a word, or two ideographs."""
    pairs = re.findall(r"(?=([㐀-鿿]{2}))", one.name)
    return not set(one.key).isdisjoint(other.key) or any(pair in other.name for pair in pairs)


def _find_quotes(topic: Phrase, passages: Passages) -> Iterator[Span]:
    """Yield sentences with a phrase, from the texts that use it most."""
    for number in sorted(topic.texts, key=lambda text: (-topic.texts[text], text))[:_MAX_READ]:
        yield from _read_sentences(passages.span(number), topic)


def _add_topic(draft: Draft, title: str, quotes: Iterable[Span]) -> bool:
    """Add a topic with a new sentence."""
    quoted = {_plain(citation.span.text) for citation in draft.citations}
    span = next((span for span in quotes if _plain(span.text) not in quoted), None)
    if span is None or draft.size + len(title) + len(span.text) + 12 >= draft.limit:
        return False
    draft.add(title, "list")
    return draft.quote(span, "   ")


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _read_sentences(chunk: Span, phrase: Phrase) -> Iterator[Span]:
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
                yield cut_span(chunk, start, end)


def _reads_well(text: str) -> bool:
    wide = sum(char > "\u2fff" for char in text)
    low, high = (size // 2 if 2 * wide > len(text) else size for size in _SENTENCE_CHARS)
    ends = ends_sentence(text) and not re.search(r"[?？؟]\W*$", text) and not _NO_PROSE.search(text)
    return low <= len(text) <= high and ends and not text[:1].islower() and not _TURN.match(text) and "\n\n" not in text
