"""question + passages -> points: what the documents say of a topic, a sentence from as many parts of them as may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import log, sqrt
from unicodedata import normalize

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.records import Chunk, Community, Member, Mention
from kumihimo.core.table import Table
from kumihimo.methods.shared.map_step import make_point
from kumihimo.methods.shared.sentence_quality import rate_sentence
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.sentences import collapse_spaces, split_blocks, split_sentences
from kumihimo.text.tokens import subject_terms

_POOL = 100  # passages by words, and as many by meaning
_MAX_SENTENCES = 60  # sentences
_MIN_PARTS = 2  # of the documents, at least, or it is said in one place
_MIN_TOPIC_SHARE = 1 / 3  # share of the topic, by rarity, that a sentence has to speak of, alone or with its neighbours
_MIN_SCORE_RATIO = 0.5  # of the best
_CONTEXT_WEIGHT, _CHUNK_WEIGHT = 0.3, 0.5  # what its neighbours count, and how well its passage was found
_PREFIX_CHARS, _MIN_COMMON_PREFIX = (
    5,
    0.6,
)  # letters by which words begin, and share of the longer one, that make them akin
_DUPLICATE_OVERLAP = 0.6  # share of the words of two sentences that they have in common, from which they say the same


@dataclass(frozen=True, slots=True)
class _Sentence:
    chunk: str
    text: str
    words: frozenset[str]
    topic_words: frozenset[str]  # of the topic
    context_topic_words: frozenset[str]  # what it and the sentences before and after it say of the topic
    chunk_score: float  # how well its passage was found, from 0 to 1


def extract_topic_sentences(
    topic: str,
    chunks: Table[Chunk],
    mentions: Table[Mention],
    members: Table[Member] | None,
    communities: Table[Community] | None,
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
) -> Context:
    """Sentences that speak of the topic, the best of each part of the documents before the second of any.

    sought: the topic, in the words of the question. Parts are the communities of level 0, a passage belonging to that
    of most of what it mentions, and the documents; where there are no communities, the documents alone. Nothing, where
    no sentence says a third of the topic, or those that do stand in one part.
    """
    found = Context.fuse(
        [keyword_search(chunks, topic, k=_POOL), vector_search(chunks, topic, k=_POOL)], weights=[1.0, 1.0]
    )
    asked = frozenset(subject_terms(topic))
    scored = _score_sentences(asked, list(_candidate_sentences(found, asked)))
    ids = list(dict.fromkeys(sentence.chunk for _, sentence in scored))
    of = (
        assign_communities(ids, mentions, members, communities)
        if members is not None and communities is not None
        else {}
    )
    picked = list(_select_diverse(scored, lambda id: frozenset((of.get(id, ""), id.partition(".")[0])) - {""}))
    if len({of.get(sentence.chunk, sentence.chunk.partition(".")[0]) for _, sentence in picked}) < _MIN_PARTS:
        return Context()
    points = (
        (score, make_point(collapse_spaces(s.text), (("chunks", s.chunk),), tokenizer, verbatim=True))
        for score, s in picked
    )
    named = {of.get(sentence.chunk, "") for _, sentence in picked} - {""}
    documents = {sentence.chunk.partition(".")[0] for _, sentence in picked}
    told = f"{len(named):,} of their communities" if named else f"{len(documents):,} of them"
    decided = f"asked across the documents: sentences of {told}"
    return Context(tuple(Evidence("points", each, score) for score, each in points), query_type=decided)


def _candidate_sentences(found: Context, asked: frozenset[str]) -> Iterator[_Sentence]:
    """The sentences of the passages that have a word of the topic, each text once: passages overlap."""
    best = max((item.score for item in found), default=0.0) or 1.0
    seen: set[str] = set()
    begin = frozenset(word[: min(_PREFIX_CHARS, max(2, len(word) - 1))] for word in asked)  # ferry: ferries

    def may(text: str) -> bool:
        """Whether it is worth to look at its words, which takes longest."""
        return any(map(normalize("NFKC", text).casefold().__contains__, begin))

    for item in found:
        texts = list(_split_prose(item.text)) if may(item.text) else []
        words = [frozenset(subject_terms(text)) if may(text) else frozenset[str]() for text in texts]
        says = [_match_topic(each, asked) for each in words]
        for i, text in enumerate(texts):
            if text not in seen:
                seen.add(text)
                around = frozenset[str]().union(*says[max(0, i - 1) : i + 2])
                yield _Sentence(item.record.id, text, words[i], says[i], around, item.score / best)


def _match_topic(words: frozenset[str], asked: frozenset[str]) -> frozenset[str]:
    """The words of the topic that are among these, or akin to one: they begin alike, and have most letters in common.

    >>> sorted(_says(frozenset({"educator", "ethics"}), frozenset({"education", "ethical", "experience"})))
    ['education', 'ethical']
    """
    said = words & asked
    begin = {word[:_PREFIX_CHARS] for word in words}
    akin = {word for word in asked - said if len(word) >= _PREFIX_CHARS and word[:_PREFIX_CHARS] in begin}
    return said | {word for word in akin if any(_share_root(word, other) for other in words)}


def _share_root(one: str, other: str) -> bool:
    alike = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return alike > _MIN_COMMON_PREFIX * max(len(one), len(other))


def _split_prose(text: str) -> Iterator[str]:
    for block in split_blocks(text):
        if block.kind == "prose":
            yield from (text[start:end] for start, end in split_sentences(text, block.start, block.end))


def _score_sentences(asked: frozenset[str], found: Sequence[_Sentence]) -> list[tuple[float, _Sentence]]:
    """Those that say enough of the topic, each with how much, from 0 to 1."""
    count = Counter(word for sentence in found for word in sentence.topic_words)
    rarity = {word: sqrt(log(1 + len(found) / (1 + count[word]))) for word in sorted(asked)}
    total = sum(rarity.values()) or 1.0
    several = min(2, (len(asked) + 1) // 2)
    scored = []
    for sentence in found:
        said, around = (
            sum(rarity[w] for w in sorted(ws)) / total for ws in (sentence.topic_words, sentence.context_topic_words)
        )
        if around >= _MIN_TOPIC_SHARE and said >= _MIN_TOPIC_SHARE / 2 and len(sentence.context_topic_words) >= several:
            score = (said + _CONTEXT_WEIGHT * around + _CHUNK_WEIGHT * sentence.chunk_score) / (
                1 + _CONTEXT_WEIGHT + _CHUNK_WEIGHT
            )
            scored.append((score * rate_sentence(sentence.text), sentence))
    least = max((score for score, _ in scored), default=0.0) * _MIN_SCORE_RATIO
    return [each for each in scored if each[0] > least]


def _select_diverse(
    scored: Iterable[tuple[float, _Sentence]], places: Callable[[str], frozenset[str]]
) -> Iterator[tuple[float, _Sentence]]:
    """The best of each part before the second of any, none that says again what one before it says."""
    used: Counter[str] = Counter()
    taken: list[frozenset[str]] = []
    heap = [(0, -score, sentence.text, sentence.chunk, sentence) for score, sentence in scored]
    heapify(heap)
    while heap and len(taken) < _MAX_SENTENCES:
        turn, score, text, id, sentence = heappop(heap)
        now = sum(used[place] for place in places(id))
        if now > turn:
            heappush(heap, (now, score, text, id, sentence))
        elif not any(_near_duplicates(sentence.words, words) for words in taken):
            taken.append(sentence.words)
            used.update(places(id))
            yield 0.5**turn * (1 - score) / 2, sentence


def _near_duplicates(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= _DUPLICATE_OVERLAP * max(1, len(one | other))


def assign_communities(
    ids: Sequence[str], mentions: Table[Mention], members: Table[Member], communities: Table[Community]
) -> dict[str, str]:
    """The community of level 0 that most of what each passage mentions belongs to; of equal ones the first by id."""
    mentioned = mentions.child_values(ids, "entity")
    entities = sorted({entity for found in mentioned.values() for entity in found})
    leaves = {e: held[0].rpartition(".")[0] for e, held in members.ids_grouped("entity", entities).items() if held}
    top = _find_top_communities(leaves.values(), communities)
    counts = {id: Counter(top[leaves[e]] for e in found if leaves.get(e) in top) for id, found in mentioned.items()}
    return {id: min(count, key=lambda part: (-count[part], part)) for id, count in counts.items() if count}


def _find_top_communities(leaves: Iterable[str], communities: Table[Community]) -> Mapping[str, str]:
    """The community of level 0 that holds each."""
    above: dict[str, str] = {}
    level = set(leaves)
    while level:
        found = communities.get_many(sorted(level))
        above |= {id: community.parent or id for id, community in found.items()}
        level = {community.parent for community in found.values() if community.parent} - above.keys()
    return {leaf: _find_root(leaf, above) for leaf in above}


def _find_root(id: str, above: Mapping[str, str]) -> str:
    while (parent := above.get(id, id)) != id:
        id = parent
    return id
