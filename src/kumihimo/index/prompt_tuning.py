"""a sample of chunks -> settings fitted to the documents: domain, language, persona, types, examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import BudgetExceeded, ItemFailed, MalformedReply, SettingsError
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM
from kumihimo.llm.structured import Reply
from kumihimo.text.sentences import split_sentences

PROMPT = Path(__file__).with_suffix(".md")
EXAMPLE_PROMPT = PROMPT.with_name("prompt_tuning_example.md")
_MAX_CHUNK_CHARS = 1500  # characters of a chunk that a model is shown
_MAX_EXAMPLE_CHARS = 700  # of one that becomes an example, which every prompt of the index will hold
_MAX_TYPES = 12
_TRIES_PER_EXAMPLE = 2  # chunks tried for each example
_SEPARATOR = "<|>"


@dataclass(frozen=True, slots=True)
class Corpus:
    """What a sample tells of all documents. Raises ValueError where there are no types."""

    domain: str
    language: str
    persona: str
    types: tuple[str, ...]

    def __post_init__(self) -> None:
        plain = [" ".join(kind.replace(",", " ").lower().split()) for kind in self.types]
        object.__setattr__(self, "types", tuple(dict.fromkeys(filter(None, plain)))[:_MAX_TYPES])
        for name in ("domain", "language", "persona"):
            object.__setattr__(self, name, " ".join(getattr(self, name).split()))
        if len(self.types) < 3:
            raise ValueError("name 5 to 12 types")


@dataclass(frozen=True, slots=True)
class TunedSettings:
    """Settings, by scope; and why there are fewer examples than were wanted, if there are."""

    settings: Mapping[str, Mapping[str, object]]
    failed: tuple[str, ...]


def tune_prompts(chunks: Table[Chunk], llm: LLM, *, sample: int = 20, examples: int = 2) -> TunedSettings:
    """Settings of the steps that read documents, as far as `sample` chunks tell, for a person to go over.

    (GraphRAG's prompt tuning, microsoft.github.io/graphrag/prompt_tuning/auto_prompt_tuning.) But: settings, not
    prompts; one call for all but the examples. The same chunks are chosen each time, by the digests of their ids.
    Raises SettingsError where there are none, ItemFailed where the model says nothing of use.
    """
    chosen = _sample_chunks(chunks, sample)
    if not chosen:
        raise SettingsError("the index holds no text to tune to: `kumi index PATH` adds some")
    found: Corpus = llm(render_prompt(PROMPT, pieces=_format_chunks(chosen)), schema=Corpus)
    failed: list[str] = []
    made = list(_write_examples(chosen, found, llm, examples, failed))
    mentions: dict[str, object] = {"domain": found.domain, "language": found.language, "types": found.types}
    reports: dict[str, object] = {"persona": found.persona, "language": found.language}
    told = {"mentions": {**mentions, "examples": "\n\n".join(made)}, "reports": reports}
    short = failed if len(made) < examples else []
    return TunedSettings({scope: {n: v for n, v in held.items() if v} for scope, held in told.items()}, tuple(short))


def _sample_chunks(chunks: Table[Chunk], size: int) -> list[Chunk]:
    ids = sorted((id for (id,) in chunks.columns("id")), key=hash_parts)
    return [chunks[id] for id in ids[:size]]


def _format_chunks(chosen: Sequence[Chunk]) -> str:
    return "\n\n---\n\n".join(sorted(chunk.index_text[:_MAX_CHUNK_CHARS].strip() for chunk in chosen))


def _write_examples(chosen: Sequence[Chunk], corpus: Corpus, llm: LLM, wanted: int, failed: list[str]) -> Iterator[str]:
    """Examples of different documents, as far as there are. failed: is told why others are missing."""
    first = {chunk.document: chunk for chunk in reversed(chosen)}
    order = sorted(chosen, key=lambda chunk: first[chunk.document].id != chunk.id)
    made = 0
    for chunk in order[: _TRIES_PER_EXAMPLE * wanted]:
        if made == wanted:
            return
        try:
            yield write_example(_first_sentences(chunk.text), corpus, llm)
            made += 1
        except ItemFailed as failure:
            failed.append(str(failure))
            if isinstance(failure, BudgetExceeded):
                return


def _first_sentences(text: str) -> str:
    """Its first sentences, one at least, on lines of their own where it had them."""
    spans = split_sentences(text, 0, len(text))
    end = max([end for _, end in spans if end <= _MAX_EXAMPLE_CHARS] or [min(len(text), _MAX_EXAMPLE_CHARS)])
    return "\n".join(filter(None, (" ".join(line.split()) for line in text[:end].splitlines())))


def write_example(text: str, corpus: Corpus, llm: LLM) -> str:
    """A text and the records that a model reads in it, as `mentions.examples` holds them. Raises ItemFailed."""
    language = f"Write descriptions and keywords in {corpus.language}." if corpus.language else ""
    asked = render_prompt(
        EXAMPLE_PROMPT,
        types=", ".join(corpus.types),
        domain=corpus.domain,
        language=language or "Write descriptions and keywords in the language of the text.",
        text=text,
    )
    records = llm(asked, parse=lambda reply: parse_example(reply, corpus.types))
    return "\n".join(["Text:", text, *records, "END"])


def parse_example(reply: Reply, types: Sequence[str]) -> list[str]:
    """Of the lines of a reply those that are records without fault, entities first: an example has to be exact.

    Raises Malformed where they name fewer than two entities or relate none.

    >>> lines = ["entity<|>Oban<|>Place<|>A port.", "entity<|>Ada<|>person<|>A pilot.", "entity<|>Tea<|>food<|>Hot."]
    >>> lines += ["relation<|>Ada<|>Oban<|>Ada lives in Oban.<|>home<|>7", "relation<|>Ada<|>Tea<|>Likes.<|>x<|>3"]
    >>> print(*checked(Reply("\\n".join(lines)), ["person", "place"]), sep="\\n")
    entity<|>Oban<|>place<|>A port.
    entity<|>Ada<|>person<|>A pilot.
    relation<|>Ada<|>Oban<|>Ada lives in Oban.<|>home<|>7
    """
    rows = [[field.strip() for field in line.split(_SEPARATOR)] for line in reply.text.splitlines()]
    rows = [list(row) for row in dict.fromkeys(map(tuple, rows)) if all(row)]
    entities = [[*row[:2], row[2].lower(), row[3]] for row in rows if row[0] == "entity" and len(row) == 4]
    entities = [row for row in entities if row[2] in types]
    names = {row[1] for row in entities}
    relations = [row for row in rows if row[0] == "relation" and len(row) == 6 and {row[1], row[2]} <= names]
    relations = [row for row in relations if row[1] != row[2] and row[5].isdecimal() and 1 <= int(row[5]) <= 10]
    if len(entities) < 2 or not relations:
        raise MalformedReply(
            "Name two or more entities of the types that are asked for, and relate two of them, in lines."
        )
    return [_SEPARATOR.join(row) for row in (*entities, *relations)]
