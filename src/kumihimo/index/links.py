"""a chunk's passages and the passages after them -> links: discourse relations between passages."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import make_dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import MalformedReply
from kumihimo.core.records import Chunk, DiscourseRelation, Passage
from kumihimo.core.settings import Batch, Bounds
from kumihimo.core.table import Table
from kumihimo.index.batched_calls import collect_rows
from kumihimo.index.pdtb_senses import leaf_sense_labels, match_sense_label, senses_by_label
from kumihimo.llm.prompts import number_sources, render_prompt
from kumihimo.llm.protocols import LLM

PROMPT = Path(__file__).with_suffix(".md")
PAPER_PROMPT = Path(__file__).with_name("links_paper.md")
NO_RELATION = "no relation"
ORDERS = 4  # of the senses in prompts: few, so that servers can cache the beginning of a prompt
_NO_RELATION_MEANING = "the two say nothing to each other, or one merely follows the other"

PassagePair = tuple[Passage, Passage]  # in the order of the document


def links(
    chunk: Chunk,
    chunks: Table[Chunk],
    passages: Table[Passage],
    llm: LLM | None,
    *,
    reach: Annotated[int, Bounds(1, 100)] = 1,
    batch: Batch = 32,
    paper: bool = False,
) -> Iterable[DiscourseRelation]:
    """Classify the discourse relation of each passage to its next `reach` passages.

    (江上・福田, section 3.1.3.) The senses are the leaf senses of the PDTB; the next passages may lie in the next
    chunks of the document. batch: the most pairs in one call. Without a model there are none.
    But: no relation is a choice too and stores no row; the model names the text that is Arg1 and its confidence; the
    prompt explains the senses, in one of a few orders that the texts determine, so that no sense is always
    first, and a server can cache each order.
    paper: without all this, one call per pair, whose first text is Arg1. (The paper does not say which pairs it
    judges.)
    """
    if llm is None:
        return ()
    own_passages = passages.where(chunk=chunk.id)
    following = _next_passages(chunk, chunks, passages, reach) if own_passages else []
    pairs = list(_passage_pairs(own_passages, following, reach))
    if paper:
        return collect_rows(partial(_judge_as_paper, llm=llm), pairs, 1)
    return collect_rows(partial(_judge_pairs, llm=llm), pairs, batch)


def _next_passages(chunk: Chunk, chunks: Table[Chunk], passages: Table[Passage], limit: int) -> list[Passage]:
    """Return the first passages of the chunks that follow."""
    following: list[Passage] = []
    for ordinal in count(chunk.ordinal + 1):
        id = f"{chunk.document}.{ordinal:05}"
        chunk_passages = passages.where(chunk=id)
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


def _judge_pairs(pairs: Sequence[PassagePair], llm: LLM) -> list[DiscourseRelation]:
    """Return the relations that a model sees in these pairs."""
    texts = list(dict.fromkeys(" ".join(passage.text.split()) for pair in pairs for passage in pair))
    text_numbers = {text: n for n, text in enumerate(texts, 1)}
    numbers = [[text_numbers[" ".join(passage.text.split())] for passage in pair] for pair in pairs]
    messages = render_prompt(
        PROMPT,
        senses=_sense_lines(int(hash_parts(*texts), 16) % ORDERS),
        texts="\n".join(f"{n}: {text}" for text, n in text_numbers.items()),
        pairs="\n".join(f"pair_{n}: first {first}, second {second}" for n, (first, second) in enumerate(numbers, 1)),
    )
    reply = llm(messages, schema=_reply_form(len(pairs)))
    return [link for n, pair in enumerate(pairs, 1) if (link := _to_relation(pair, getattr(reply, f"pair_{n}")))]


@cache
def _sense_lines(order: int) -> str:
    """Return one line per sense, shuffled by the number of an order."""
    meanings = {label: senses_by_label()[label].meaning for label in leaf_sense_labels()}
    senses = [f"- {label}: {text}" for label, text in (meanings | {NO_RELATION: _NO_RELATION_MEANING}).items()]
    return "\n".join(sorted(senses, key=lambda line: hash_parts(str(order), line)))


@cache
def _reply_form(pairs: int) -> type[Any]:
    """Return the reply form for a number of pairs.

    Each pair has a field of its own name, so the model cannot skip one.
    """

    def check(reply: Any) -> None:
        is_no_relation = "".join(reply.sense.casefold().split()) == NO_RELATION.replace(" ", "")
        if not _leaf_sense(reply.sense) and not is_no_relation:
            raise ValueError("the sense is not in the list")
        if not 0 <= reply.confidence <= 1:
            raise ValueError("the confidence is a number from 0 to 1")

    fields = [("sense", str), ("arg1", Literal["first", "second"]), ("confidence", float)]
    judged = make_dataclass("Judged", fields, frozen=True, namespace={"__post_init__": check})
    return make_dataclass("Judgements", [(f"pair_{n}", judged) for n in range(1, pairs + 1)], frozen=True)


def _to_relation(pair: PassagePair, judgement: Any) -> DiscourseRelation | None:
    """Build the relation of a pair; None for no relation."""
    label = _leaf_sense(judgement.sense)
    if not label:
        return None
    first, second = pair if judgement.arg1 == "first" else reversed(pair)
    return DiscourseRelation(first.id, second.id, judgement.confidence, text=label)


def _judge_as_paper(pairs: Sequence[PassagePair], llm: LLM) -> list[DiscourseRelation]:
    """Return the relation of one pair, as in the paper."""
    [(first, second)] = pairs
    texts = number_sources([first.text, second.text])
    messages = render_prompt(PAPER_PROMPT, texts=texts, senses=", ".join(leaf_sense_labels()))
    label = llm(messages, parse=lambda reply: _parse_sense(reply.text))
    return [DiscourseRelation(first.id, second.id, None, text=label)]


def _parse_sense(text: str) -> str:
    """Parse a reply that is one sense. Raise MalformedReply otherwise."""
    if label := _leaf_sense(text):
        return label
    raise MalformedReply(f"The reply has to be one of {', '.join(leaf_sense_labels())}.")


def _leaf_sense(text: str) -> str:
    """Return the leaf sense a text names, or empty."""
    label = match_sense_label(text)
    return label if label in leaf_sense_labels() else ""
