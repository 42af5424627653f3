"""records -> in-memory tables, simple searches over them, and a scripted model."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kumihimo.core.context import Context, Evidence
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import (
    Chunk,
    Claim,
    Community,
    Entity,
    Member,
    Mention,
    Question,
    Record,
    Relation,
    RelationMention,
    Report,
    Summary,
)
from kumihimo.core.table import Table, codec
from kumihimo.index.chunk_background import Description
from kumihimo.llm.local_embedder import find_subwords
from kumihimo.llm.prompts import reply_form, require_complete_text
from kumihimo.llm.protocols import Reply
from kumihimo.llm.rerank import CandidateReranker
from kumihimo.search.protocols import RowTokens, StoredVectors, encode_vectors
from kumihimo.testing.fake_models import FakeEmbedder
from kumihimo.text.name_keys import entity_id, name_key, relation_id
from kumihimo.text.tokens import content_tokens, hash_token, tokenize
from tests.factories_tables import Held


def table(name: str, kind: type[Record], records: Mapping[str, Record]) -> Table[Any]:
    record_codec = codec(kind)
    return Table(
        name,
        record_codec,
        Held(record_codec.columns, [record_codec.encode(id, record) for id, record in sorted(records.items())]),
    )


class WordTokenizer:
    """Tokenizer: a word is a token."""

    fingerprint = "words"

    def __call__(self, text: str) -> Sequence[int]:
        return range(len(text.split()))


tokenizer = WordTokenizer()


def row_tokens(text: str) -> RowTokens:
    """Return the tokens of a text, as in the forward index."""
    words, (subwords,) = [*map(hash_token, tokenize(text))], find_subwords([text])
    return RowTokens(np.array(words, np.uint32), np.frombuffer(subwords, np.uint16))


class FakeKeywordSearch:
    """`KeywordSearch` that counts the words in common."""

    def __call__(self, table: Table[Any], text: str | Sequence[str], *, k: int) -> Context:
        terms = set(content_tokens(text) if isinstance(text, str) else text)
        scores = {record.id: float(len(terms & set(tokenize(record.index_text)))) for record in table}
        return _top_rows(table, {id: score for id, score in scores.items() if score}, k)

    def tokens(self, table: Table[Any], ids: Sequence[str]) -> dict[str, RowTokens]:
        return {id: row_tokens(row.index_text) for id, row in table.get_many(ids).items() if row.index_text}


keyword_search = FakeKeywordSearch()


@dataclass
class FakeVectorSearch:
    """`VectorSearch` with a fake embedder; it records the number of rows compared."""

    row_counts: list[int] = field(default_factory=list)

    def __call__(
        self, table: Table[Any], text: str | Sequence[str], *, k: int, candidate_ids: Collection[str] | None = None
    ) -> Context:
        records = [
            record for record in table if record.index_text and (candidate_ids is None or record.id in candidate_ids)
        ]
        self.row_counts.append(len(records))
        if not records:
            return Context()
        texts = [text] if isinstance(text, str) else list(text)
        vectors = FakeEmbedder()([" ".join(tokenize(t)) for t in (*texts, *(r.index_text for r in records))])
        question = vectors[: len(texts)].mean(axis=0)
        scores = {r.id: float(v @ question) for r, v in zip(records, vectors[len(texts) :], strict=True)}
        return _top_rows(table, scores, k)

    def search_many(
        self, table: Table[Any], texts: Sequence[str], *, k: int, candidate_ids: Collection[str] | None = None
    ) -> list[Context]:
        return [self(table, text, k=k, candidate_ids=candidate_ids) for text in texts]

    def vectors(self, table: Table[Any], ids: Collection[str]) -> dict[str, StoredVectors]:
        rows = {id: row for id, row in table.get_many(ids).items() if row.index_text}
        texts = [" ".join(tokenize(row.index_text)) for row in rows.values()]
        return {id: encode_vectors(vector) for id, vector in zip(rows, FakeEmbedder()(texts), strict=True)}


vector_search = FakeVectorSearch()


def _top_rows(table: Table[Any], scores: Mapping[str, float], k: int) -> Context:
    ids = sorted(scores, key=lambda id: (-scores[id], id))[:k]
    return Context(tuple(Evidence(table.name, table[id], scores[id]) for id in ids))


rerank = CandidateReranker({})  # no reranker: keeps the order


@dataclass
class ScriptedLLM:
    """LLM whose reply is a function of the prompt."""

    answer: Callable[[str], object]
    prompts: list[str] = field(default_factory=list)
    fingerprint: str = "scripted"
    workers: int = 2

    def __call__(self, prompt: Any, *, schema: Any = None, parse: Any = None, **_: Any) -> Any:
        text = "\n\n".join(message["content"] for message in prompt)
        self.prompts.append(text)
        answer = self.answer(text)
        reply = Reply(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))
        return (parse or (require_complete_text if schema is None else reply_form(schema).parse))(reply)

    def samples(self, prompt: Any, count: int, **parameters: Any) -> list[str]:
        return [str(self(prompt, **parameters)) for _ in range(count)]


# -- a small graph


def community(level: int, parent: str = "", children: Sequence[str] = (), members: Sequence[str] = ()) -> Community:
    return Community(level=level, parent=parent, children=tuple(children), members=tuple(members))


def report(text: str, *, level: int = 0, rating: float = 5.0, elements: int = 10, **others: Any) -> Report:
    fields: dict[str, Any] = {"summary": text, "findings": (), "sources": (), **others}
    return Report(
        text=text,
        title="A report",
        rating=rating,
        reason="",
        dropped=0,
        level=level,
        elements=elements,
        tokens=len(text.split()),
        **fields,
    )


def chunk(text: str, title: str = "") -> Chunk:
    return Chunk(text=text, title=title, start=0, end=len(text), tokens=len(text.split()))


@dataclass
class GraphBuilder:
    """Builds the tables of an entity graph, chunk by chunk.

    strength: that of new relations; None: as made by rules.
    """

    rows: dict[str, dict[str, Any]] = field(default_factory=lambda: {name: {} for name in RECORD_TYPES})
    strength: float | None = None

    def add_chunk(self, text: str, *names: str, title: str = "", document: str = "") -> str:
        """Add a chunk that mentions these entities, each related to the first; return its id.

        A title is a document of its own.
        """
        document_id = hash_parts(document or title or "a document")
        id = f"{document_id}.{len(self.rows['chunks']):05}"
        self.rows["descriptions"][document_id] = Description((), text=title)
        self.rows["chunks"][id] = chunk(text, title)
        ends = [self.entity(name) for name in names]
        for n, (name, end) in enumerate(zip(names, ends, strict=True)):
            self.rows["mentions"][f"{id}.{n:05}"] = Mention(text=text, entity=end, name=name, type="")
        for n, (name, end) in enumerate(zip(names[1:], ends[1:], strict=True)):
            self._add_relation(f"{id}.{n:05}", text, ends[0], end, (names[0], name))
        return id

    def entity(self, name: str) -> str:
        id = entity_id(name_key(name))
        self.rows["entities"].setdefault(
            id, Entity(text=f"{name}.", name=name, type="", forms=(name,), types=(), mentions=1, tokens=2)
        )
        return id

    def _add_relation(self, id: str, text: str, one: str, other: str, names: tuple[str, str]) -> None:
        (source, first), (target, second) = sorted(zip((one, other), names, strict=True))
        relation = relation_id(one, other)
        self.rows["ties"][id] = RelationMention(
            text=text, relation=relation, source=source, target=target, names=(first, second)
        )
        self.rows["relations"][relation] = Relation(
            text=text,
            source=source,
            target=target,
            names=(first, second),
            keywords=(),
            weight=1,
            strength=self.strength,
            tokens=len(text.split()),
        )

    def set_keywords(self, one: str, other: str, *keywords: str) -> None:
        """Set the keywords of the relation between two entities."""
        id = relation_id(entity_id(name_key(one)), entity_id(name_key(other)))
        self.rows["relations"][id] = replace(self.rows["relations"][id], keywords=keywords)

    def add_claim(self, text: str, subject: str) -> None:
        claim_row = Claim(
            text=text,
            subject=self.entity(subject),
            object="",
            names=(subject,),
            type="fact",
            statuses=("TRUE",),
            start="",
            end="",
            quotes=(),
            tokens=len(text.split()),
        )
        self.rows["claims"][hash_parts(text)] = claim_row

    def add_community(self, id: str, text: str, names: Sequence[str], parent: str = "", level: int = 0) -> None:
        """Add a leaf community with its report."""
        ids = [self.entity(name) for name in names]
        self.rows["communities"][id] = community(level, parent, (), ids)
        self.rows["members"] |= {f"{id}.{n:05}": Member(entity=entity) for n, entity in enumerate(ids)}
        self.rows["reports"][id] = report(text, level=level)

    def add_question(self, document: str, question: str, answer: str) -> str:
        """Add a question that a document answers; return its id."""
        id = f"{hash_parts(document)}.{len(self.rows['questions']):05}"
        tokens = len(f"{question} {answer}".split())
        self.rows["questions"][id] = Question(text=question, answer=answer, title=document, tokens=tokens)
        return id

    def add_summary(self, label: str, text: str) -> None:
        """Add a summary of the questions with this label."""
        summary = Summary(text=text, label=label, questions=1, tokens=len(text.split()))
        self.rows["summaries"][hash_parts(label)] = summary

    def tables(self, *, every: bool = False) -> dict[str, Any]:
        """Return the tables of the entity graph; with `every`, all tables."""
        kinds = (
            RECORD_TYPES if every else {name: kind for name, kind in RECORD_TYPES.items() if name not in _OTHER_TABLES}
        )
        return {name: table(name, kind, self.rows[name]) for name, kind in kinds.items()}


RECORD_TYPES: dict[str, type[Record]] = {
    "chunks": Chunk,
    "descriptions": Description,
    "mentions": Mention,
    "ties": RelationMention,
    "entities": Entity,
    "relations": Relation,
    "claims": Claim,
    "communities": Community,
    "members": Member,
    "reports": Report,
    "questions": Question,
    "summaries": Summary,
}
_OTHER_TABLES = ("descriptions", "questions", "summaries")
