"""topic + chunks -> points: the best sentences on a topic, spread over the documents."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from math import log, sqrt
from unicodedata import normalize

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.records import Chunk, Community, Member, Mention
from kumihimo.core.table import Table
from kumihimo.methods.shared import sentence_quality, spread
from kumihimo.methods.shared.map_step import make_point
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.sentences import collapse_spaces, split_blocks, split_sentences
from kumihimo.text.tokens import subject_terms

_POOL = 100  # chunks of each search
_MAX_SENTENCES = 60
_MIN_PARTS = 2  # a topic of a single part is not broad
_MIN_TOPIC_SHARE = 1 / 3  # of the topic, by rarity, in a sentence and its neighbours
_MIN_SCORE_RATIO = 0.5  # to the best score
_CONTEXT_WEIGHT, _CHUNK_WEIGHT = 0.3, 0.5  # of the neighbours' topic words, and of the chunk's search score
_PREFIX_CHARS, _MIN_COMMON_PREFIX = 5, 0.6  # first letters in common, and their share of the longer word
_MAX_PASSAGES = 150  # whose sentences are read
_PASSAGE_CHARS, _MARGIN_CHARS = 200, 300  # from the first word of the topic to the last, and around them
_DUPLICATE_OVERLAP = 0.6  # Jaccard overlap from which two sentences count as duplicates


@dataclass(frozen=True, slots=True)
class _Passage:
    """A place in a chunk with words of the topic.

    start, end: of the first word and of the last. prefixes: of the words.
    """

    hit: Evidence
    start: int
    end: int
    prefixes: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Sentence:
    chunk: str
    text: str
    words: frozenset[str]
    topic_words: frozenset[str]
    context_topic_words: frozenset[str]  # those of the previous and next sentence included
    chunk_score: float  # search score of its chunk, from 0 to 1


def extract_topic_sentences(
    topic: str,
    chunks: Table[Chunk],
    mentions: Table[Mention] | None,
    members: Table[Member] | None,
    communities: Table[Community] | None,
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
) -> Context:
    """Return sentences on the topic, the best of each part first.

    topic: the subject of the question. Parts are the communities of level 0; a chunk belongs to the community of most
    entities that it mentions. Without communities each document is a part. The context is empty if no sentence covers a
    third of the topic, or if all such sentences come from one part.
    """
    hits = Context.fuse([keyword_search(chunks, topic, k=_POOL), vector_search(chunks, topic, k=_POOL)])
    # ferry also finds ferries
    prefixes = {word: word[: min(_PREFIX_CHARS, max(2, len(word) - 1))] for word in sorted(subject_terms(topic))}
    passages = [passage for hit in hits for passage in _find_passages(hit, prefixes.values())]
    rarity = _weigh_words(prefixes, passages, sum(len(hit.text) for hit in hits))
    scored = _score_sentences(rarity, _candidate_sentences(_best_passages(passages, prefixes, rarity), prefixes))
    part_of: Mapping[str, str] = {}
    if mentions is not None and members is not None and communities is not None:
        ids = list(dict.fromkeys(sentence.chunk for _, sentence in scored))
        part_of = spread.assign_communities(ids, mentions, members, communities)
    selected = list(_select_diverse(scored, lambda id: {_document(id), part_of.get(id) or _document(id)}))
    chunk_ids = [sentence.chunk for _, sentence in selected]
    if len({part_of.get(id) or _document(id) for id in chunk_ids}) < _MIN_PARTS:
        return Context()
    part_ids, documents = {part_of[id] for id in chunk_ids if id in part_of}, set(map(_document, chunk_ids))
    scope = f"{len(part_ids):,} communities" if part_ids else f"{len(documents):,} documents"
    points = (
        Evidence("points", make_point(collapse_spaces(s.text), [("chunks", s.chunk)], tokenizer, verbatim=True), score)
        for score, s in selected
    )
    return Context(tuple(points), query_type=f"broad question: sentences from {scope}")


def _document(chunk_id: str) -> str:
    return chunk_id.partition(".")[0]


def _find_passages(hit: Evidence, prefixes: Iterable[str]) -> Iterator[_Passage]:
    """Yield the passages of a chunk with words of the topic.

    No word is read but these: a chunk may be long.
    """
    folded = normalize("NFKC", hit.text).casefold()
    scale = len(hit.text) / max(len(folded), 1)  # normalization moves the places a little
    places = sorted((int(place * scale), prefix) for prefix in set(prefixes) for place in _find_prefix(folded, prefix))
    first = 0
    while first < len(places):
        start, last = places[first][0], first
        while last + 1 < len(places) and places[last + 1][0] <= start + _PASSAGE_CHARS:
            last += 1
        yield _Passage(hit, start, places[last][0], frozenset(prefix for _, prefix in places[first : last + 1]))
        first = last + 1


def _find_prefix(folded: str, prefix: str) -> Iterator[int]:
    """Yield where words begin with the prefix.

    In scripts without spaces, it may stand anywhere.
    """
    place = folded.find(prefix)
    while place >= 0:
        before = folded[max(place - 1, 0) : place]
        if not (prefix.isascii() and before.isascii() and before.isalnum()):
            yield place
        place = folded.find(prefix, place + 1)


def _weigh_words(prefixes: Mapping[str, str], passages: Sequence[_Passage], chars: int) -> dict[str, float]:
    """Return the weight of each topic word, by rarity; sum 1.

    chars: the length of all texts.
    """
    count = Counter(prefix for passage in passages for prefix in passage.prefixes)
    weights = {word: sqrt(log(1 + chars / _PASSAGE_CHARS / (1 + count[prefix]))) for word, prefix in prefixes.items()}
    total = sum(weights.values()) or 1.0
    return {word: weight / total for word, weight in weights.items()}


def _best_passages(
    passages: Sequence[_Passage], prefixes: Mapping[str, str], rarity: Mapping[str, float]
) -> list[_Passage]:
    """Return the passages with most of the topic, in the best chunks.

    Those near each other are merged.
    """

    def score(passage: _Passage) -> float:
        share = sum(weight for word, weight in rarity.items() if prefixes[word] in passage.prefixes)
        return share + _CHUNK_WEIGHT * passage.hit.score / max_score

    max_score = max((passage.hit.score for passage in passages), default=0.0) or 1.0
    best = sorted(passages, key=score, reverse=True)[:_MAX_PASSAGES]
    merged: list[_Passage] = []
    for passage in sorted(best, key=lambda passage: (-passage.hit.score, passage.hit.reference, passage.start)):
        if merged and merged[-1].hit is passage.hit and passage.start - merged[-1].end <= 2 * _MARGIN_CHARS:
            merged[-1] = replace(merged[-1], end=passage.end)
        else:
            merged.append(passage)
    return merged


def _candidate_sentences(passages: Sequence[_Passage], prefixes: Mapping[str, str]) -> Iterator[_Sentence]:
    """Yield the sentences with a topic word, each text once.

    Chunks overlap, so a sentence may stand in two of them.
    """
    max_score = max((passage.hit.score for passage in passages), default=0.0) or 1.0
    yielded: set[str] = set()

    def find_words(text: str) -> frozenset[str]:
        """Return the subject terms, if a quick check finds a prefix."""
        may_match = any(map(normalize("NFKC", text).casefold().__contains__, prefixes.values()))
        return frozenset(subject_terms(text)) if may_match else frozenset()

    for passage in passages:
        sentences = list(_split_passage(passage))
        words = [find_words(text) for text, _ in sentences]
        matches = [_match_topic(tokens, prefixes.keys()) if tokens else tokens for tokens in words]
        for i, (text, is_whole) in enumerate(sentences):
            if is_whole and matches[i] and text not in yielded:
                yielded.add(text)
                nearby = frozenset[str]().union(*matches[max(0, i - 1) : i + 2])
                score = passage.hit.score / max_score
                yield _Sentence(passage.hit.record.id, text, words[i], matches[i], nearby, score)


def _split_passage(passage: _Passage) -> Iterator[tuple[str, bool]]:
    """Yield the sentences around a passage, and whether each is whole.

    The first and the last may be cut.
    """
    text = passage.hit.text
    low, high = max(0, passage.start - _MARGIN_CHARS), min(len(text), passage.end + _MARGIN_CHARS)
    low, high = high - len(text[low:high].lstrip()), low + len(text[low:high].rstrip())
    line = text.rfind("\n", 0, low) + 1
    first, last = max(line, len(text) - len(text.lstrip())), len(text.rstrip())
    for block in split_blocks(text[line:high]):
        if block.kind == "prose":
            for start, end in split_sentences(text, max(line + block.start, low), line + block.end):
                yield text[start:end], (start > low or low == first) and (end < high or high == last)


def _match_topic(words: frozenset[str], topic_words: Set[str]) -> frozenset[str]:
    """Return the topic words that these words match.

    A match is the same word, or one with the same prefix and most letters in common.

    >>> sorted(_match_topic(frozenset({"educator", "ethics"}), frozenset({"education", "ethical", "experience"})))
    ['education', 'ethical']
    """
    exact = words & topic_words
    prefixes = {word[:_PREFIX_CHARS] for word in words}
    similar = {word for word in topic_words - exact if len(word) >= _PREFIX_CHARS and word[:_PREFIX_CHARS] in prefixes}
    return exact | {word for word in similar if any(_share_root(word, other) for other in words)}


def _share_root(one: str, other: str) -> bool:
    common = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return common > _MIN_COMMON_PREFIX * max(len(one), len(other))


def _score_sentences(rarity: Mapping[str, float], candidates: Iterable[_Sentence]) -> list[tuple[float, _Sentence]]:
    """Return the sentences that cover enough of the topic, with scores.

    Scores are between 0 and 1.
    """
    min_words = min(2, (len(rarity) + 1) // 2)
    scored = []
    for sentence in candidates:
        own_share = sum(rarity[word] for word in sorted(sentence.topic_words))
        context_share = sum(rarity[word] for word in sorted(sentence.context_topic_words))
        if min(context_share, 2 * own_share) >= _MIN_TOPIC_SHARE and len(sentence.context_topic_words) >= min_words:
            score = own_share + _CONTEXT_WEIGHT * context_share + _CHUNK_WEIGHT * sentence.chunk_score
            score /= 1 + _CONTEXT_WEIGHT + _CHUNK_WEIGHT
            scored.append((score * sentence_quality.rate_sentence(sentence.text), sentence))
    threshold = max((score for score, _ in scored), default=0.0) * _MIN_SCORE_RATIO
    return [pair for pair in scored if pair[0] > threshold]


def _select_diverse(
    scored: Iterable[tuple[float, _Sentence]], parts_of: Callable[[str], set[str]]
) -> Iterator[tuple[float, _Sentence]]:
    """Yield the best sentence of each part before any second one.

    Near-duplicates of a selected sentence are skipped.
    """
    used: Counter[str] = Counter()
    selected: list[frozenset[str]] = []
    heap = [(0, -score, sentence.text, sentence.chunk, sentence) for score, sentence in scored]
    heapify(heap)
    while heap and len(selected) < _MAX_SENTENCES:
        turn, score, text, id, sentence = heappop(heap)
        uses = sum(used[part] for part in parts_of(id))
        if uses > turn:
            heappush(heap, (uses, score, text, id, sentence))
        elif not any(_near_duplicates(sentence.words, words) for words in selected):
            selected.append(sentence.words)
            used.update(parts_of(id))
            yield 0.5**turn * (1 - score) / 2, sentence


def _near_duplicates(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= _DUPLICATE_OVERLAP * max(1, len(one | other))
