"""sample of chunks -> settings fitted to the corpus: domain, language, persona, types, examples."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kumihimo.core import digests, table
from kumihimo.core.errors import BudgetExceeded, ItemFailed, MalformedReply, SettingsError
from kumihimo.core.records import Chunk
from kumihimo.llm.prompts import number_sources, render_prompt
from kumihimo.llm.protocols import LLM, Reply
from kumihimo.text.sentences import split_sentences

PROMPT = Path(__file__).with_suffix(".md")
EXAMPLE_PROMPT = PROMPT.with_name("prompt_tuning_example.md")
_MAX_CHUNK_CHARS = 1500  # of a chunk, in the prompt
_MAX_EXAMPLE_CHARS = 700  # of an example, which is part of every extraction prompt
_MAX_TYPES = 12
_TRIES_PER_EXAMPLE = 2  # chunks
_SEPARATOR = "<|>"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Description of a corpus from a sample; types: each a name and its meaning. Raises ValueError without types."""

    domain: str
    language: str
    persona: str
    types: tuple[str, ...]

    def __post_init__(self) -> None:
        by_name: dict[str, str] = {}
        for line in self.types:
            if name := _type_name(line):
                meaning = " ".join(line.partition(":")[2].split()).rstrip(".")
                by_name.setdefault(name, f"{name}: {meaning}" if meaning else name)
        object.__setattr__(self, "types", tuple(by_name.values())[:_MAX_TYPES])
        for name in ("domain", "language", "persona"):
            object.__setattr__(self, name, " ".join(getattr(self, name).split()))
        if len(self.types) < 3:
            raise ValueError("name 5 to 12 types")


def _type_name(line: str) -> str:
    """Return the name of a type, without its meaning.

    >>> _type_name("Court  Case: a suit"), _type_name("pier, quay")
    ('court case', 'pier quay')
    """
    return " ".join(line.partition(":")[0].replace(",", " ").lower().split())


@dataclass(frozen=True, slots=True)
class TunedSettings:
    """Settings by scope, and errors if examples are missing."""

    settings: Mapping[str, Mapping[str, object]]
    failed: tuple[str, ...]


def tune_prompts(chunks: table.Table[Chunk], llm: LLM, *, sample: int = 20, examples: int = 2) -> TunedSettings:
    """Return settings fitted to a sample of the corpus, for review.

    (GraphRAG's prompt tuning, microsoft.github.io/graphrag/prompt_tuning/auto_prompt_tuning.) But: settings, not
    prompts; one call for everything except the examples. The digests of the chunk ids decide the sample, so it is
    always the same. Raises SettingsError if the index has no chunks, ItemFailed if the model's reply is unusable.
    """
    ids = sorted((id for (id,) in chunks.columns("id")), key=digests.hash_parts)
    sampled = [chunks[id] for id in ids[:sample]]
    if not sampled:
        raise SettingsError("the index has no text to tune to: `kumi index PATH` adds some")
    pieces = number_sources(sorted(chunk.index_text[:_MAX_CHUNK_CHARS].strip() for chunk in sampled))
    corpus: Corpus = llm(render_prompt(PROMPT, pieces=pieces), schema=Corpus)
    errors: list[str] = []
    written = list(_write_examples(sampled, corpus, llm, examples, errors))
    mentions: dict[str, object] = {"domain": corpus.domain, "language": corpus.language, "types": corpus.types}
    reports: dict[str, object] = {"persona": corpus.persona, "language": corpus.language}
    by_scope = {"mentions": {**mentions, "examples": "\n\n".join(written)}, "reports": reports}
    reported = errors if len(written) < examples else []
    return TunedSettings(
        {scope: {n: v for n, v in values.items() if v} for scope, values in by_scope.items()}, tuple(reported)
    )


def _write_examples(sample: Sequence[Chunk], corpus: Corpus, llm: LLM, target: int, errors: list[str]) -> Iterator[str]:
    """Yield examples, from different documents first.

    errors: receives why examples are missing.
    """
    first_chunks = {chunk.document: chunk for chunk in reversed(sample)}
    order = sorted(sample, key=lambda chunk: first_chunks[chunk.document].id != chunk.id)
    count = 0
    for chunk in order[: _TRIES_PER_EXAMPLE * target]:
        if count == target:
            return
        try:
            yield write_example(_first_sentences(chunk.text), corpus, llm)
            count += 1
        except ItemFailed as failure:
            errors.append(str(failure))
            if isinstance(failure, BudgetExceeded):
                return


def _first_sentences(text: str) -> str:
    """Return the first sentences, at least one, with their line breaks."""
    spans = split_sentences(text, 0, len(text))
    end = max([end for _, end in spans if end <= _MAX_EXAMPLE_CHARS] or [min(len(text), _MAX_EXAMPLE_CHARS)])
    return "\n".join(filter(None, (" ".join(line.split()) for line in text[:end].splitlines())))


def write_example(text: str, corpus: Corpus, llm: LLM) -> str:
    """Return a text with its records, in the format of `mentions.examples`.

    Raises ItemFailed.
    """
    messages = render_prompt(
        EXAMPLE_PROMPT,
        types="\n".join(corpus.types),
        domain=corpus.domain,
        language=corpus.language,
        text=text,
    )
    records = llm(messages, parse=lambda reply: parse_example(reply, list(map(_type_name, corpus.types))))
    return "\n".join(["Text:", text, *records, "END"])


def parse_example(reply: Reply, types: Sequence[str]) -> list[str]:
    r"""Return the valid records of a reply, entities first.

    An example has to be exact, so invalid lines are dropped. Raises MalformedReply for fewer than two entities, or no
    relation between them.

    >>> lines = ["entity<|>Oban<|>Place<|>A port.", "entity<|>Ada<|>person<|>A pilot.", "entity<|>Tea<|>food<|>Hot."]
    >>> lines += ["relation<|>Ada<|>Oban<|>Ada lives in Oban.<|>home<|>7", "relation<|>Ada<|>Tea<|>Likes.<|>x<|>3"]
    >>> print(*parse_example(Reply("\n".join(lines)), ["person", "place"]), sep="\n")
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
