"""a chunk's passages and those that follow them -> links: in which discourse relation two passages stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import make_dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, Literal

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed, MalformedReply, SettingsError
from kumihimo.core.records import Chunk, DiscourseRelation, Passage
from kumihimo.core.table import Table
from kumihimo.index.pdtb_senses import leaf_sense_labels, match_sense_label, senses_by_label
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM

PROMPT = Path(__file__).with_suffix(".md")
PAPER_PROMPT = Path(__file__).with_name("links_paper.md")
NO_RELATION = "no relation"
_NO_RELATION_MEANING = "the two say nothing to each other, or one merely follows the other"
_CONFIDENCE_RULE = "- `confidence`: how sure you are of the sense, from 0 (a guess) to 1 (certain).\n"

PassagePair = tuple[Passage, Passage]  # in the order of the document


def links(
    chunk: Chunk,
    chunks: Table[Chunk],
    passages: Table[Passage],
    llm: LLM | None,
    *,
    reach: int = 1,
    batch: int = 8,
    no_relation: bool = True,
    confidence: bool = True,
    shuffled: bool = True,
    paper: bool = False,
) -> Iterable[DiscourseRelation]:
    """In which discourse relation each passage of a chunk stands to the `reach` next ones (江上・福田, section 3.1.3).

    The senses are those of the PDTB that have no kinds; passages go on in the next chunks of the document. batch: pairs
    in one call. Without a model: by connectives (`rules/connectives.py`), of passages that follow each other.
    But: `no_relation` is a choice too, which makes no row; the model says which text is Arg1, and how sure it is; it
    is told what the senses mean, in an order of its own for each call (`shuffled`), so that none is always the first.
    paper: none of these, and a call for each pair, whose first text is Arg1. (It does not say which pairs are judged.)
    """
    if reach < 1 or batch < 1:
        raise SettingsError(f"links.reach = {reach}, links.batch = {batch}: both have to be 1 or more")
    line = passages.where(chunk=chunk.id)
    pairs = list(_passage_pairs(line, _next_passages(chunk, chunks, passages, reach) if line else [], reach))
    if llm is None:
        from kumihimo.index.rules import connectives  # here: who asks a model needs none of the rules

        return connectives.link_passages(pairs)
    size = 1 if paper else batch
    judge = partial(_judge_pairs, llm=llm, no_relation=no_relation, confidence=confidence, shuffled=shuffled)
    return _judge_batches(
        _paper_judge(llm) if paper else judge, [pairs[at : at + size] for at in range(0, len(pairs), size)]
    )


def _next_passages(chunk: Chunk, chunks: Table[Chunk], passages: Table[Passage], limit: int) -> list[Passage]:
    """The first passages after the chunk, in the chunks that follow it."""
    found: list[Passage] = []
    for ordinal in count(chunk.ordinal + 1):
        id = f"{chunk.document}.{ordinal:05}"
        more = passages.where(chunk=id)
        found += more
        if len(found) >= limit or not (more or chunks.ids(id=id)):  # a chunk may say nothing new
            break
    return found[:limit]


def _passage_pairs(passages: Sequence[Passage], following: Sequence[Passage], reach: int) -> Iterator[PassagePair]:
    """Each of the line with the next ones."""
    whole = [*passages, *following]
    for at, passage in enumerate(passages):
        for other in whole[at + 1 : at + 1 + reach]:
            yield passage, other


def _judge_batches(
    judge: Callable[[Sequence[PassagePair]], list[DiscourseRelation]], batches: Iterable[Sequence[PassagePair]]
) -> list[DiscourseRelation]:
    """What is judged of all. Raises ItemFailed, with the rest in place of all, where some could not be judged."""
    found: list[DiscourseRelation] = []
    failure: ItemFailed | None = None
    for some in batches:
        try:
            found += judge(some)
        except ItemFailed as failed:
            failure = failure or failed
    if failure:
        failure.fallback = tuple(found)
        raise failure
    return found


def _judge_pairs(
    pairs: Sequence[PassagePair], llm: LLM, no_relation: bool, confidence: bool, shuffled: bool
) -> list[DiscourseRelation]:
    """What a model says of these pairs, asked together."""
    texts = list(dict.fromkeys(" ".join(passage.text.split()) for pair in pairs for passage in pair))
    place = {text: n for n, text in enumerate(texts, 1)}
    numbers = [[place[" ".join(passage.text.split())] for passage in pair] for pair in pairs]
    told = render_prompt(
        PROMPT,
        none=f"- Where {_NO_RELATION_MEANING}, the sense is `{NO_RELATION}`.\n" if no_relation else "",
        confidence=_CONFIDENCE_RULE if confidence else "",
        senses="\n".join(_sense_lines(texts, no_relation, shuffled)),
        texts="\n".join(f"{n}: {text}" for text, n in place.items()),
        pairs="\n".join(f"pair_{n}: first {one}, second {other}" for n, (one, other) in enumerate(numbers, 1)),
    )
    said = llm(told, schema=_reply_form(len(pairs), no_relation, confidence))
    return [link for n, pair in enumerate(pairs, 1) if (link := _to_relation(pair, getattr(said, f"pair_{n}")))]


def _sense_lines(texts: Sequence[str], no_relation: bool, shuffled: bool) -> list[str]:
    """The senses with what they mean; where they are shuffled, as the texts decide."""
    lines = [f"- {label}: {senses_by_label()[label].meaning}" for label in leaf_sense_labels()]
    lines += [f"- {NO_RELATION}: {_NO_RELATION_MEANING}"] if no_relation else []
    return sorted(lines, key=lambda line: hash_parts(*texts, line)) if shuffled else lines


@cache
def _reply_form(pairs: int, no_relation: bool, confidence: bool) -> type[Any]:
    """The form of a reply: of each of so many pairs, by its own name so that none is left out, what there is to say."""

    def check(said: Any) -> None:
        if not _leaf_sense(said.sense) and not (no_relation and _is_no_relation(said.sense)):
            raise ValueError(f"there is no sense {said.sense!r} in the list")
        if confidence and not 0 <= said.confidence <= 1:
            raise ValueError("the confidence is a number from 0 to 1")

    fields: list[tuple[str, Any]] = [("sense", str), ("arg1", Literal["first", "second"])]
    fields += [("confidence", float)] if confidence else []
    judged = make_dataclass("Judged", fields, frozen=True, namespace={"__post_init__": check})
    return make_dataclass("Judgements", [(f"pair_{n}", judged) for n in range(1, pairs + 1)], frozen=True)


def _to_relation(pair: PassagePair, judgement: Any) -> DiscourseRelation | None:
    label = _leaf_sense(judgement.sense)
    if not label:
        return None
    one, other = pair if judgement.arg1 == "first" else reversed(pair)
    return DiscourseRelation(one.id, other.id, getattr(judgement, "confidence", None), text=label)


def _paper_judge(llm: LLM) -> Callable[[Sequence[PassagePair]], list[DiscourseRelation]]:
    """As in the paper: one pair, and its sense in reply."""

    def judge(pairs: Sequence[PassagePair]) -> list[DiscourseRelation]:
        [(one, other)] = pairs
        told = render_prompt(PAPER_PROMPT, one=one.text, other=other.text, senses=", ".join(leaf_sense_labels()))
        return [DiscourseRelation(one.id, other.id, None, text=llm(told, parse=lambda reply: _parse_sense(reply.text)))]

    return judge


def _parse_sense(text: str) -> str:
    """The sense that a reply is. Raises Malformed."""
    if label := _leaf_sense(text):
        return label
    raise MalformedReply(f"The reply has to be one of {', '.join(leaf_sense_labels())}.")


def _leaf_sense(text: str) -> str:
    label = match_sense_label(text)
    return label if label in leaf_sense_labels() else ""


def _is_no_relation(text: str) -> bool:
    return "".join(text.casefold().split()) == NO_RELATION.replace(" ", "")
