"""the chunks of an index -> named topics of the whole or of a subject: phrases, documents, two sentences each."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kumihimo.core.spans import Span
from kumihimo.core.table import Table
from kumihimo.generation.quoting.drafts import MAX_LONG_CHARS, Draft, cut_span, say, say_count
from kumihimo.generation.quoting.excerpts import IndexReader
from kumihimo.generation.quoting.passages import MIN_SHARE, NEAR, Passages, Subject, read_passages, weigh_subject
from kumihimo.generation.quoting.topic_phrases import Phrase, collect_phrases, weigh_phrase
from kumihimo.llm.protocols import Embedder
from kumihimo.text.sentences import LIST_ITEM, split_blocks, split_sentences
from kumihimo.text.tokens import subject_terms

_MAX_TOPICS, _MIN_TOPICS = 7, 3
_MAX_CANDIDATES = 14  # topics; not all have sentences to show
_MAX_COMPARED = 60  # phrases
_RELATED, _MAX_NAMES = 0.55, 3  # cosine of two names of a topic, and the names shown
_MAX_SHARED = 0.5  # texts of a topic that an earlier topic has
_MIN_TEXTS, _MIN_DOCUMENTS = 20, 3  # that mention a subject; of fewer, sentences say more than topics
_NAMES_SUBJECT = 0.3  # what a sentence gains that names the subject
_MAX_READ = 12  # texts of a topic whose sentences are compared
_SENTENCE_CHARS = (50, 170)  # of a quotation; half of it in Japanese and Chinese
_LABEL = re.compile(r"[^\s:：.!?。！？][^:：.!?。！？\n]{0,38}[:：](?=\s|[^\x00-\xff])\s*")
_FILE_NAME = re.compile(r"\w_\w|\w\.\w{3,4}\s")
_TURN = re.compile(r"(?:and|but|so|like|no|oh|right|um|well|yeah|yes|or|because)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Topic:
    """Phrases that occur together; texts: the numbers of those that have one, most uses first."""

    phrases: tuple[Phrase, ...]
    texts: tuple[int, ...]


def write_topics(subject: str, reader: IndexReader, embed: Embedder, language: str) -> Draft | None:
    """Return the topics of the corpus, or of a subject of it; None if there are too few."""
    passages, entities = read_passages(reader), reader.find_table("entities")
    if passages is None:
        return None
    folded = [text.casefold() for text in passages.texts]
    about = weigh_subject(subject, folded)
    near = {number: text for number, whole in enumerate(folded) if (text := about.near(whole))}
    document_of = list(map(passages.document, range(len(folded))))
    documents = {document_of[number] for number in near}
    if subject and (len(near) < _MIN_TEXTS or len(documents) < _MIN_DOCUMENTS):
        return None
    phrases = collect_phrases(passages.texts, _person_names(entities))
    if subject:
        _keep_near(phrases, near)
    topics = _choose_topics(phrases, frozenset(near), document_of, subject, embed)
    total = say_count("document", len(documents), language)
    draft = Draft(MAX_LONG_CHARS)
    draft.add(say("topics of" if subject else "topics", language, subject=subject, total=total))
    n = 1
    for topic in topics:
        if n <= _MAX_TOPICS:
            n += _add_topic(draft, n, topic, (subject, about), passages, embed, language)
    return draft if n > _MIN_TOPICS else None


def _keep_near(phrases: Iterable[Phrase], near: Mapping[int, str]) -> None:
    """Leave out the texts in which a phrase is not near the subject."""
    for phrase in phrases:
        forms = [form.casefold() for form in phrase.forms]
        for number in near.keys() & phrase.texts.keys():
            if not any(form in near[number] for form in forms):
                del phrase.texts[number]


def _person_names(entities: Table[Any] | None) -> Iterator[str]:
    for kind, forms in entities.columns("type", "forms") if entities is not None else ():
        if kind == "person":
            yield from json.loads(forms) if isinstance(forms, str) else forms


def _choose_topics(
    phrases: Sequence[Phrase], here: frozenset[int], document_of: Sequence[str], subject: str, embed: Embedder
) -> list[Topic]:
    """Return topics that do not overlap, the best first."""
    terms = frozenset(subject_terms(subject))
    total, weights = len(document_of), dict[tuple[str, ...], float]()
    for phrase in phrases:
        if terms.isdisjoint(subject_terms(phrase.name)):
            weights[phrase.key] = weigh_phrase(phrase, here, total, document_of)
    usable = [p for p in phrases if weights.get(p.key, 0.0) > 0]
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
        near = [j for j in range(i + 1, len(usable)) if j not in used and similar[i][j] >= _RELATED]
        members = (phrase, *[usable[j] for j in near if not _contains(phrase, usable[j])][: _MAX_NAMES - 1])
        used.update([i, *parts, *near])
        uses = {text: sum(member.texts[text] for member in members) for member in members for text in member.texts}
        order = sorted(here & uses.keys(), key=lambda text: (-(phrase.texts[text] > 0), -uses[text], text))
        covered.update(texts)
        topics.append(Topic(members, tuple(order)))
    return topics


def _contains(one: Phrase, other: Phrase) -> bool:
    """Return whether one of two phrases has all words of the other."""
    return set(one.key) <= set(other.key) or set(other.key) <= set(one.key)


def _add_topic(
    draft: Draft, n: int, topic: Topic, subject: tuple[str, Subject], passages: Passages, embed: Embedder, language: str
) -> bool:
    """Add a topic with two sentences of different documents, if there is one and room."""
    documents = list(map(passages.document, topic.texts))
    found: list[tuple[str, Span]] = []
    for document, number in list(zip(documents, topic.texts, strict=True))[:_MAX_READ]:
        found += [(document, span) for span in _read_sentences(passages.span(number), topic.phrases[0], subject[1])]
    if not found:
        return False
    vectors = embed([" ".join([subject[0], *(p.name for p in topic.phrases)]), *(span.text for _, span in found)])
    shares = [_NAMES_SUBJECT * subject[1].share(span.text.casefold()) for _, span in found]
    scores = (vectors[1:] @ vectors[0] + shares).round(4).tolist()
    quotes: dict[str, Span] = {}
    for i in sorted(range(len(found)), key=lambda i: (-scores[i], i)):
        document, span = found[i]
        if all(_plain(other.text) != _plain(span.text) for other in quotes.values()):
            quotes.setdefault(document, span)
    names = ", ".join(phrase.name for phrase in topic.phrases)
    selected = list(quotes.values())[:2]
    count = say_count("document", len(set(documents)), language)
    title = f"{n}. {names} — {count}"
    if draft.size + len(title) + sum(len(span.text) + 12 for span in selected) >= draft.limit:
        return False
    draft.add(title)
    for span in selected:
        draft.quote(span, "   ")
    return True


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _read_sentences(chunk: Span, phrase: Phrase, subject: Subject) -> Iterator[Span]:
    """Yield the sentences of a chunk that have the phrase, near the subject, and can stand alone."""
    forms = [form.casefold() for form in phrase.forms]
    for block in split_blocks(chunk.text):
        if block.kind not in ("prose", "item"):
            continue
        for start, end in split_sentences(chunk.text, block.start, block.end):
            for pattern in (LIST_ITEM, _LABEL):
                mark = pattern.match(chunk.text, start, end)
                start = mark.end() if mark else start
            text, around = chunk.text[start:end], chunk.text[max(start - NEAR, 0) : end + NEAR].casefold()
            if (
                subject.share(around) >= MIN_SHARE
                and _reads_well(text)
                and any(form in text.casefold() for form in forms)
            ):
                yield cut_span(chunk, start, end)


def _reads_well(text: str) -> bool:
    wide = sum(char > "\u2fff" for char in text)
    low, high = (size // 2 if 2 * wide > len(text) else size for size in _SENTENCE_CHARS)
    ends = text.rstrip("”’\"')]*_」』").endswith((".", "!", "。", "！", "．"))
    ends = ends and not _FILE_NAME.search(text)
    return low <= len(text) <= high and ends and not text[:1].islower() and not _TURN.match(text) and "\n\n" not in text
