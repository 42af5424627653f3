"""a chunk's passages and the passages after them -> links: discourse relations between passages."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated

from kumihimo.core.errors import MalformedReply
from kumihimo.core.records import Chunk, DiscourseRelation, Passage
from kumihimo.core.settings import Batch, Bounds
from kumihimo.core.table import Table
from kumihimo.index import batched_calls, pdtb_senses
from kumihimo.llm import prompts, protocols

PROMPT = Path(__file__).with_suffix(".md")
PAPER_PROMPT = Path(__file__).with_name("links_paper.md")
MAIN_SENSES = (  # leaf senses, the telling ones first; the others are rare, or tell only that a text goes on
    "contra-expectation",
    "reason",
    "result",
    "hypothetical",
    "exception",
    "chosen alternative",
    "instantiation",
    "generalization",
    "specification",
    "succession",
    "precedence",
    "juxtaposition",
    "list",
)
_NO_RELATION = re.compile(r"^\W*(?:\d+\W+\d+\W+)?(?:none|no relation)\b", re.I)
_RELATION = re.compile(r"(\d{1,4})\D{1,9}(\d{1,4})\s*\|([^|]+)\|\s*(\d(?:\.\d{1,9})?)\W*$")

PassagePair = tuple[Passage, Passage]  # in the order of the document


def links(
    chunk: Chunk,
    chunks: Table[Chunk],
    passages: Table[Passage],
    llm: protocols.LLM | None,
    *,
    reach: Annotated[int, Bounds(1, 100)] = 1,
    batch: Batch = 32,
    paper: bool = False,
) -> Iterable[DiscourseRelation]:
    """Classify the discourse relation of each passage to its next `reach` passages.

    (江上・福田, section 3.1.3.) The senses are leaf senses of the PDTB, the earlier passage is Arg1; the next ones may
    lie in the next chunks of the document. batch: the most pairs in one call. Without a model there are none.
    But: the prompt explains 13 senses, always in one order; the model names only the pairs that have one of them, each
    with its confidence.
    paper: all senses, without all this, one call per pair. (The paper does not say which pairs it judges.)
    """
    if llm is None:
        return ()
    own_passages = passages.where(made_from=chunk.id)
    following = _next_passages(chunk, chunks, passages, reach) if own_passages else []
    pairs = list(_passage_pairs(own_passages, following, reach))
    if paper:
        return batched_calls.collect_rows(partial(_judge_as_paper, llm=llm), pairs, 1)
    return batched_calls.collect_rows(partial(_judge_pairs, llm=llm), pairs, batch)


def _next_passages(chunk: Chunk, chunks: Table[Chunk], passages: Table[Passage], limit: int) -> list[Passage]:
    """Return the first passages of the chunks that follow."""
    following: list[Passage] = []
    for ordinal in count(chunk.ordinal + 1):
        id = f"{chunk.document}.{ordinal:05}"
        chunk_passages = passages.where(made_from=id)
        following += chunk_passages
        is_missing = not chunk_passages and not chunks.ids(id=id)  # a chunk may repeat the previous one only
        if len(following) >= limit or is_missing:
            break
    return following[:limit]


def _passage_pairs(passages: Sequence[Passage], following: Sequence[Passage], reach: int) -> Iterator[PassagePair]:
    """Yield each passage with its next `reach` passages."""
    sequence = [*passages, *following]
    for position, passage in enumerate(passages):
        for other in sequence[position + 1 : position + 1 + reach]:
            yield passage, other


def _judge_pairs(pairs: Sequence[PassagePair], llm: protocols.LLM) -> list[DiscourseRelation]:
    """Return the relations that a model sees in these pairs."""
    texts = {passage.id: " ".join(passage.text.split()) for pair in pairs for passage in pair}
    numbers = {id: n for n, id in enumerate(texts, 1)}
    by_numbers = {(numbers[first.id], numbers[second.id]): (first, second) for first, second in pairs}
    messages = prompts.render_prompt(
        PROMPT,
        senses="\n".join(f"- {label}: {pdtb_senses.senses_by_label()[label].meaning}" for label in MAIN_SENSES),
        texts="\n".join(f"{numbers[id]}: {text}" for id, text in texts.items()),
        pairs=", ".join(f"{first} {second}" for first, second in by_numbers),
    )
    relations: list[DiscourseRelation] = llm(messages, parse=partial(_parse_relations, by_numbers))
    return relations


def _parse_relations(pairs: Mapping[tuple[int, int], PassagePair], reply: protocols.Reply) -> list[DiscourseRelation]:
    """Return the relations in a reply. Raise MalformedReply for other lines."""
    relations: dict[PassagePair, DiscourseRelation] = {}
    for line in filter(str.strip, prompts.require_complete_text(reply).splitlines()):
        if _NO_RELATION.search(line):
            continue
        match = _RELATION.search(line)
        pair = pairs.get((int(match[1]), int(match[2]))) if match else None
        label = pdtb_senses.match_sense_label(match[3]) if match else ""
        if not match or not pair or label not in MAIN_SENSES or not 0 <= float(match[4]) <= 1:
            raise MalformedReply(
                f"{line[:80]!r} is not a pair with a sense: write lines such as 2 3 | result | 0.8, or none"
            )
        relations.setdefault(pair, DiscourseRelation(pair[0].id, pair[1].id, float(match[4]), text=label))
    return list(relations.values())


def _judge_as_paper(pairs: Sequence[PassagePair], llm: protocols.LLM) -> list[DiscourseRelation]:
    """Return the relation of one pair, as in the paper."""
    [(first, second)] = pairs
    texts = prompts.number_sources([first.text, second.text])
    messages = prompts.render_prompt(PAPER_PROMPT, texts=texts, senses=", ".join(pdtb_senses.leaf_sense_labels()))
    label = llm(messages, parse=lambda reply: _parse_sense(reply.text))
    return [DiscourseRelation(first.id, second.id, None, text=label)]


def _parse_sense(text: str) -> str:
    """Parse a reply that is one sense. Raise MalformedReply otherwise."""
    if label := _leaf_sense(text):
        return label
    raise MalformedReply(f"The reply has to be one of {', '.join(pdtb_senses.leaf_sense_labels())}.")


def _leaf_sense(text: str) -> str:
    """Return the leaf sense a text names, or empty."""
    label = pdtb_senses.match_sense_label(text)
    return label if label in pdtb_senses.leaf_sense_labels() else ""
