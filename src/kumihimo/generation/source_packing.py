"""question + context -> PackedSource: the texts of a prompt, near the question, merged, without repeats."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log

from kumihimo.core.context import Context, Evidence, KeyPoint, Result, Tokenizer
from kumihimo.core.records import Chunk, Claim, Document, Entity, Passage, Reference, Relation, Report
from kumihimo.text.repetition import Repeats, split_block
from kumihimo.text.sentences import split_blocks
from kumihimo.text.tokens import subject_terms

MAX_SOURCES = 25
SCORE_SHARE = 0.9  # of all scores, in the best texts: they stay; benchmarks/packing.py tests it
_CARD_SHARE = 0.5  # the same of rows that are no texts
_SAFE_TOKENS = 2500  # of texts: the best ones stay, however low their score
_SAFE_ROWS = 3  # of each other table
_WORD_FLOOR = 0.85  # of the words of the question, relative to the best row: such a row stays
_MAX_GAP = 3  # characters between neighbouring chunks: space
_OWN_TERMS = 1  # of a relation, beside the names at its ends
_KINDS: Mapping[type, str] = {
    Chunk: "text",
    Passage: "text",
    Document: "text",
    Entity: "about an entity",
    Relation: "relation",
    Claim: "claim",
    Report: "report",
    KeyPoint: "point",
    Result: "result",
}


@dataclass(frozen=True, slots=True)
class PackedSource:
    """A source of a prompt: one text from one or more rows.

    rows: those behind the text, in its order. kind: what the text is, empty if unknown. document: the id of the only
    document it is from, if it stands there word for word.
    """

    text: str
    rows: tuple[Evidence, ...]
    kind: str = ""
    document: str = ""

    @property
    def documents(self) -> tuple[str, ...]:
        """Return the documents of a text or a point, by id."""
        if self.document:
            return (self.document,)
        points = [row.record for row in self.rows if type(row.record) is KeyPoint]
        ids = (id for point in points for table, id in point.sources if table in ("chunks", "documents"))
        return tuple(dict.fromkeys(id.partition(".")[0] for id in ids))

    @property
    def quoted_rows(self) -> tuple[tuple[Evidence, ...], ...]:
        """Return the rows in groups; a citation quotes each group once.

        Neighbouring chunks are one group; rows with the same content in other places are each their own.
        """
        first_parts = tuple(item.parts[0] for item in self.rows)
        groups = (first_parts,) if self.document else tuple((part,) for part in first_parts[:1])
        return (*groups, *((part,) for item in self.rows for part in item.parts[1:]))


def pack_sources(
    question: str,
    context: Context,
    tokenizer: Tokenizer,
    *,
    budget: int,
    limit: int = MAX_SOURCES,
    score_share: float = SCORE_SHARE,
    shown: Collection[Reference] = (),
) -> list[PackedSource]:
    """Return the sources of a prompt, texts of documents first.

    Of the evidence that fits into `budget` tokens, the best texts with this share of all scores stay, the first 2,500
    tokens, and those with most words of the question. Neighbouring chunks are one source; the sources of a document
    stand together, in its order. Rows about things lose the sentences that an earlier source holds. shown: the rows of
    an earlier prompt, which stay.
    """
    items = context.fit(budget, tokenizer).evidence
    terms = frozenset(subject_terms(" ".join((question, *context.queries))))
    relevant = {*_select_relevant(items, terms, tokenizer, score_share), *shown}
    ranked = [item for item in items if item.reference in relevant]
    chunks = [item for item in ranked if isinstance(item.record, Chunk | Passage)]
    texts = [source for source in _merge_neighbours(chunks) if any(map(str.isalnum, source.text))][:limit]
    repeats = Repeats()
    for source in texts:
        repeats.add(source.text)
    others = _pack_others([item for item in ranked if not isinstance(item.record, Chunk | Passage)], repeats)
    packed = [*_group_by_document(texts), *_group_by_kind(others[: limit - len(texts)])]
    return packed or [PackedSource(item.prompt_text, (item,), _kind(item)) for item in items[:1]]


def _select_relevant(
    items: Sequence[Evidence], terms: frozenset[str], tokenizer: Tokenizer, score_share: float
) -> Iterator[tuple[str, str]]:
    """Yield the references of the rows that bear on the question.

    Scores compare within a table only. Points are yielded all: their method has chosen them.
    """
    by_table: dict[str, list[Evidence]] = defaultdict(list)
    for item in items:
        by_table[item.table].append(item)
    for rows in by_table.values():
        if score_share >= 1 or isinstance(rows[0].record, KeyPoint):
            yield from (item.reference for item in rows)
            continue
        is_text = isinstance(rows[0].record, Chunk | Passage)
        missing_score = sum(max(item.score, 0.0) for item in rows) * (score_share if is_text else _CARD_SHARE)
        tokens = 0
        for rank, (item, word_share) in enumerate(zip(rows, _word_shares(rows, terms), strict=True)):
            is_first = tokens < _SAFE_TOKENS if is_text else rank < _SAFE_ROWS
            if is_first or missing_score >= 0 or word_share >= _WORD_FLOOR:
                yield item.reference
            missing_score -= max(item.score, 0.0)
            tokens += item.tokens(tokenizer)


def _word_shares(rows: Sequence[Evidence], terms: frozenset[str]) -> list[float]:
    """Return the share of the terms in each row, scaled to 1.

    Terms count by their rarity among the rows.
    """
    row_terms = [terms.intersection(subject_terms(item.prompt_text)) for item in rows]
    counts = Counter(term for words in row_terms for term in words)
    sums = [sum(log(1 + len(rows) / (1 + counts[term])) for term in sorted(words)) for words in row_terms]
    best = max(sums)
    return [total / best if best else 0.0 for total in sums]


# -- texts of documents


def _merge_neighbours(items: Sequence[Evidence]) -> list[PackedSource]:
    """Return the texts, best first; neighbouring and overlapping ones are merged."""
    ranks = {item.reference: rank for rank, item in enumerate(items)}
    runs: list[list[Evidence]] = []
    end = 0
    for item in sorted(items, key=_position):
        document, start, item_end = _position(item)
        if runs and _position(runs[-1][0])[0] == document and start <= end + _MAX_GAP:
            runs[-1].append(item)
            end = max(end, item_end)
        else:
            runs.append([item])
            end = item_end
    runs.sort(key=lambda run: min(ranks[item.reference] for item in run))
    return [PackedSource(_join_texts(run), tuple(run), "text", _position(run[0])[0]) for run in runs]


def _position(item: Evidence) -> tuple[str, int, int]:
    """Return the document of a text, and its place there."""
    record = item.record
    assert isinstance(record, Chunk | Passage)
    return record.id.partition(".")[0], record.start, record.end


def _join_texts(run: Sequence[Evidence]) -> str:
    """Return the text of neighbours in order, without their overlaps."""
    text, end = "", 0
    for item in run:
        _, start, item_end = _position(item)
        if not text:
            text, end = item.text, item_end
        elif item_end > end:
            text += item.text[end - start :] if start <= end else f"\n{item.text}"
            end = item_end
    return text


def _group_by_document(texts: Iterable[PackedSource]) -> Iterator[PackedSource]:
    """Yield the texts by document, the document of the best text first."""
    by_document: dict[str, list[PackedSource]] = defaultdict(list)
    for source in texts:
        by_document[source.document].append(source)
    for sources in by_document.values():
        yield from sorted(sources, key=lambda source: _position(source.rows[0]))


# -- rows about things, and points


def _pack_others(items: Iterable[Evidence], repeats: Repeats) -> list[PackedSource]:
    """Return the rows as sources, without repeated sentences.

    Points that rest on the same rows are one source.
    """
    sources: dict[object, PackedSource] = {}
    for item in items:
        if not (text := _unrepeated_text(item, repeats)):
            continue
        repeats.add(text)
        key = ("points", *item.record.sources) if isinstance(item.record, KeyPoint) else item.reference
        if earlier := sources.get(key):
            text, rows = f"{earlier.text}\n{text}", (*earlier.rows, item)
        else:
            rows = (item,)
        document = item.record.id if isinstance(item.record, Document) else ""
        sources[key] = PackedSource(text, rows, _kind(item), document)
    return list(sources.values())


def _kind(item: Evidence) -> str:
    return _KINDS.get(type(item.record), "")


def _unrepeated_text(item: Evidence, repeats: Repeats) -> str:
    """Return the text of a row without its repeated sentences."""
    record = item.record
    if isinstance(record, Result):  # a line of a list stands for itself
        return record.text
    if isinstance(record, KeyPoint):
        return "" if repeats.contain(record.text, share=1.0) else record.text
    if isinstance(record, Entity):
        return _with_heading(f"{record.name} ({record.type})" if record.type else record.name, record.text, repeats)
    if isinstance(record, Report):
        return _with_heading(f"# {record.title}", record.text, repeats)
    if isinstance(record, Relation | Claim):
        names = " – ".join(filter(None, record.names))
        text = _with_heading(names, record.text, repeats)
        own_terms = set(subject_terms(text)) - set(subject_terms(names))
        return text if len(own_terms) >= _OWN_TERMS else ""
    return item.prompt_text


def _with_heading(heading: str, text: str, repeats: Repeats) -> str:
    """Return the sentences without repeats under the heading, if any."""
    pieces: list[str] = []
    part_heading = ""
    for block in split_blocks(text):
        block_text = text[block.start : block.end]
        if block.kind == "heading":
            part_heading = "" if block_text == heading else block_text
            continue
        sentences = split_block(block.kind, block_text)
        is_new = [not repeats.contain(sentence) for sentence in sentences]
        # the first one names whom the others call "he" or "it"
        kept = [sentence for n, sentence in enumerate(sentences) if is_new[n] or n == 0]
        if any(is_new):
            pieces += filter(None, [part_heading, block_text if len(kept) == len(sentences) else " ".join(kept)])
            part_heading = ""
    return "\n".join([heading, *pieces]) if pieces else ""


def _group_by_kind(sources: Iterable[PackedSource]) -> Iterator[PackedSource]:
    """Yield the sources by kind, the kind of the best one first."""
    by_kind: dict[str, list[PackedSource]] = defaultdict(list)
    for source in sources:
        by_kind[source.kind].append(source)
    for group in by_kind.values():
        yield from group


def label_sources(sources: Sequence[PackedSource], headings: Mapping[str, str]) -> list[str]:
    """Return the kind of each source and the heading of its document.

    Each heading stands once. headings: of the first document of each source, by id.
    """
    labels = []
    for documents, group in groupby(sources, key=lambda source: source.documents):
        for n, source in enumerate(group):
            place = headings[documents[0]] if documents else ""
            if documents and n:
                place = "same document" if len(documents) == 1 else "same documents"
            elif len(documents) > 1:
                place = f"{place}; and {len(documents) - 1} more"
            labels.append("; ".join(filter(None, [source.kind, place])))
    return labels
