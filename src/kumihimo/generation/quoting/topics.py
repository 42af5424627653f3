"""the chunks of an index -> named topics of the whole or of a subject: phrases, documents, a sentence each."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from kumihimo.core.context import Context, KeyPoint
from kumihimo.core.spans import Span
from kumihimo.generation.answer import make_quoter
from kumihimo.generation.quoting.drafts import MAX_LONG_CHARS, Draft, cut_span, say, say_count
from kumihimo.generation.quoting.passages import MIN_SHARE, Passages, Subject, read_passages, weigh_subject
from kumihimo.generation.quoting.ranking import IndexReader
from kumihimo.generation.quoting.topic_phrases import Phrase, collect_phrases, phrase_keys, weigh_phrase
from kumihimo.llm.protocols import Embedder
from kumihimo.text.sentences import LIST_ITEM, ends_sentence, split_blocks, split_sentences

_MAX_TOPICS, _MIN_TOPICS = 7, 3
_MAX_CANDIDATES = 14  # topics; not all have sentences to show
_MAX_COMPARED = 60  # phrases
_RELATED, _MAX_NAMES = 0.55, 3  # cosine of two names of a topic, and the names shown
_MAX_SHARED = 0.7  # texts of a topic that an earlier topic has
_MIN_DOCUMENTS = 3  # about a subject; of fewer, sentences say more than topics
_MAX_TEXTS = 120  # about a subject
_MAX_READ_TEXTS = 4000  # of a larger index, a sample is read: about four seconds
_MAX_POINT_CHARS = 300  # of a sentence that the method found
_MAX_READ = 12  # texts of a topic whose sentences are compared
_SENTENCE_CHARS = (50, 170)  # of a quotation; half of it in Japanese and Chinese
_LABEL = re.compile(r"[^\s:：.!?。！？][^:：.!?。！？\n]{0,38}[:：](?=\s|[^\x00-\xff])\s*")
_NO_PROSE = re.compile(r"\w_\w|\w\.\w{3,4}\s|`|\*\*|\]\(|[<>{}|]")
_TURN = re.compile(r"(?:and|but|so|like|no|oh|right|um|well|yeah|yes|or|because)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Topic:
    """Phrases that occur together.

    texts: the numbers of the texts with one of them, most uses first.
    """

    phrases: tuple[Phrase, ...]
    texts: tuple[int, ...]


def write_topics(subject: str, context: Context, reader: IndexReader, embed: Embedder, language: str) -> Draft | None:
    """Return the topics of the corpus or a subject, or None.

    Topics of a subject quote the sentences that the method found, those of the whole any sentence.
    """
    passages = read_passages(reader, _MAX_READ_TEXTS)
    points = _read_points(context, reader) if subject else []
    if passages is None or (subject and not points):
        return None
    folded = [text.casefold() for text in passages.texts]
    about = weigh_subject(subject, folded)
    near = _nearest_texts(about, folded)
    document_of = list(map(passages.document, range(len(folded))))
    documents = {document_of[number] for number in near}
    if subject and (not about.weights or len(documents) < _MIN_DOCUMENTS):
        return None
    phrases = collect_phrases(passages.texts, _person_names(passages.ids, reader))
    if subject:
        quoted = _quoted_keys(points)
        # in “harbour needs”, the second word may be a verb; “inner harbour” is a name
        phrases = [p for p in phrases if p.key in quoted and not about.share(p.name.casefold().split()[0])]
        _keep_near(phrases, near)
    draft = Draft(MAX_LONG_CHARS)
    total = say_count("document", len(documents), language)
    draft.add(say("topics of" if subject else "topics", language, subject=subject, total=total))
    n = 1
    for topic in _choose_topics(phrases, frozenset(near), document_of, embed):
        if n <= _MAX_TOPICS:
            quotes = _with_phrase(topic.phrases[0], points) if subject else _find_quotes(topic, passages, embed)
            title = f"{n}. {', '.join(phrase.name for phrase in topic.phrases)} — "
            title += say_count("document", len(set(map(passages.document, topic.texts))), language)
            n += _add_topic(draft, title, quotes)
    if len(folded) < passages.total:
        draft.add(say("sampled", language, n=f"{len(folded):,}", total=f"{passages.total:,}"))
    return draft if n > _MIN_TOPICS else None


def _read_points(context: Context, reader: IndexReader) -> list[Span]:
    """Return the sentences that the method found, best first."""
    items = [item for item in context if isinstance(item.record, KeyPoint) and item.record.verbatim]
    spans = [span for item in items for span in make_quoter(list(reader.spans(item)))(item.text)[:1]]
    return [span for span in spans if len(span.text) <= _MAX_POINT_CHARS]


def _quoted_keys(points: Iterable[Span]) -> set[tuple[str, ...]]:
    """Return the keys of phrases that the sentences may show."""
    documents: dict[tuple[str, ...], set[str]] = {}
    for span in points:
        for key in phrase_keys(span.text):
            documents.setdefault(key, set()).add(span.uri)
    return {key for key, uris in documents.items() if len(uris) > 1 or len(key) > 1}


def _with_phrase(phrase: Phrase, spans: Iterable[Span]) -> list[Span]:
    """Return the first sentence of each document that has the phrase."""
    pattern = phrase.pattern()
    by_document: dict[str, Span] = {}
    for span in spans:
        if pattern.search(span.text):
            by_document.setdefault(span.uri, span)
    return list(by_document.values())


def _nearest_texts(about: Subject, folded: Sequence[str]) -> dict[int, str]:
    """Return the text near a subject where documents say most about it."""
    places = {number: about.near(text) for number, text in enumerate(folded)}
    order = sorted(places, key=lambda number: (-places[number][0], -places[number][1], number))
    best = order[:_MAX_TEXTS] if about.weights else order
    return {number: places[number][2] for number in best if places[number][0] >= MIN_SHARE}


def _keep_near(phrases: Iterable[Phrase], near: Mapping[int, str]) -> None:
    """Remove texts without the phrase near the subject."""
    for phrase in phrases:
        forms = [form.casefold() for form in phrase.forms]
        for number in near.keys() & phrase.texts.keys():
            if not any(form in near[number] for form in forms):
                del phrase.texts[number]


def _person_names(chunks: Iterable[str], reader: IndexReader) -> Iterator[str]:
    """Yield the names of people in these chunks."""
    mentions, entities = reader.find_table("mentions"), reader.find_table("entities")
    if mentions is not None and entities is not None:
        named = chain.from_iterable(mentions.child_values(chunks, "entity").values())
        yield from chain.from_iterable(e.forms for e in entities.get_many(named).values() if e.type == "person")


def _choose_topics(
    phrases: Sequence[Phrase], here: frozenset[int], document_of: Sequence[str], embed: Embedder
) -> list[Topic]:
    """Return topics that do not overlap, the best first."""
    total = len(document_of)
    weights = {phrase.key: weigh_phrase(phrase, here, total, document_of) for phrase in phrases}
    usable = [phrase for phrase in phrases if weights[phrase.key] > 0]
    usable.sort(key=lambda phrase: (-weights[phrase.key], phrase.key))
    del usable[_MAX_COMPARED:]
    if not usable:
        return []
    vectors = embed([phrase.name for phrase in usable])
    similar = (vectors @ vectors.T).tolist()
    topics: list[Topic] = []
    used: set[int] = set()  # of the phrases
    covered: set[int] = set()  # of the texts
    for i, phrase in enumerate(usable):
        texts = here & phrase.texts.keys()
        if i in used or len(texts & covered) > _MAX_SHARED * len(texts) or len(topics) == _MAX_CANDIDATES:
            continue
        parts = [j for j in range(i + 1, len(usable)) if not set(phrase.key).isdisjoint(usable[j].key)]
        near = [
            j
            for j in range(i + 1, len(usable))
            if j not in used and similar[i][j] >= _RELATED and _alike(phrase, usable[j])
        ]
        members = (phrase, *[usable[j] for j in near if not _contains(phrase, usable[j])][: _MAX_NAMES - 1])
        used.update([i, *parts, *near])
        uses = {text: sum(member.texts[text] for member in members) for member in members for text in member.texts}
        order = sorted(here & uses.keys(), key=lambda text: (-(phrase.texts[text] > 0), -uses[text], text))
        covered.update(texts)
        topics.append(Topic(members, tuple(order)))
    return topics


def _alike(one: Phrase, other: Phrase) -> bool:
    """Return whether two phrases share a word, or two ideographs."""
    pairs = re.findall(r"(?=([㐀-鿿]{2}))", one.name)
    return not set(one.key).isdisjoint(other.key) or any(pair in other.name for pair in pairs)


def _contains(one: Phrase, other: Phrase) -> bool:
    """Return whether one of two phrases has all words of the other."""
    return set(one.key) <= set(other.key) or set(other.key) <= set(one.key)


def _find_quotes(topic: Topic, passages: Passages, embed: Embedder) -> list[Span]:
    """Return the sentences nearest to the names of a topic."""
    spans = [
        span for number in topic.texts[:_MAX_READ] for span in _read_sentences(passages.span(number), topic.phrases[0])
    ]
    if not spans:
        return []
    vectors = embed([" ".join(phrase.name for phrase in topic.phrases), *(span.text for span in spans)])
    scores = (vectors[1:] @ vectors[0]).round(4).tolist()
    quotes: dict[str, Span] = {}
    for i in sorted(range(len(spans)), key=lambda i: (-scores[i], i)):
        quotes.setdefault(spans[i].uri, spans[i])
    return list(quotes.values())


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
