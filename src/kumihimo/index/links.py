"""a chunk's passages and those that follow them -> links: in which discourse relation two passages stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import make_dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, Literal

from kumihimo.core.digests import digest
from kumihimo.core.errors import ItemFailed, Malformed, SettingsError
from kumihimo.core.records import Chunk, Link, Passage
from kumihimo.core.table import Table
from kumihimo.index.pdtb_senses import by_label, leaves, named
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask

PROMPT = Path(__file__).with_suffix(".md")
PAPER = Path(__file__).with_name("links_paper.md")
NONE = "no relation"
_MEANING = "the two say nothing to each other, or one merely follows the other"
_CONFIDENCE = "- `confidence`: how sure you are of the sense, from 0 (a guess) to 1 (certain).\n"

Pair = tuple[Passage, Passage]  # in the order of the document


def links(
    chunk: Chunk,
    chunks: Table[Chunk],
    passages: Table[Passage],
    ask: Ask | None,
    *,
    reach: int = 1,
    batch: int = 8,
    no_relation: bool = True,
    confidence: bool = True,
    shuffled: bool = True,
    paper: bool = False,
) -> Iterable[Link]:
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
    pairs = list(_pairs(line, _following(chunk, chunks, passages, reach) if line else [], reach))
    if ask is None:
        from kumihimo.index.rules import connectives  # here: who asks a model needs none of the rules

        return connectives.links(pairs)
    size = 1 if paper else batch
    judge = partial(_judged, ask=ask, none=no_relation, confidence=confidence, shuffled=shuffled)
    return _all(_by_label(ask) if paper else judge, [pairs[at : at + size] for at in range(0, len(pairs), size)])


def _following(chunk: Chunk, chunks: Table[Chunk], passages: Table[Passage], wanted: int) -> list[Passage]:
    """The first passages after the chunk, in the chunks that follow it."""
    found: list[Passage] = []
    for ordinal in count(chunk.ordinal + 1):
        id = f"{chunk.document}.{ordinal:05}"
        more = passages.where(chunk=id)
        found += more
        if len(found) >= wanted or not (more or chunks.ids(id=id)):  # a chunk may say nothing new
            break
    return found[:wanted]


def _pairs(line: Sequence[Passage], following: Sequence[Passage], reach: int) -> Iterator[Pair]:
    """Each of the line with the next ones."""
    whole = [*line, *following]
    for at, passage in enumerate(line):
        for other in whole[at + 1 : at + 1 + reach]:
            yield passage, other


def _all(judge: Callable[[Sequence[Pair]], list[Link]], batches: Iterable[Sequence[Pair]]) -> list[Link]:
    """What is judged of all. Raises ItemFailed, with the rest in place of all, where some could not be judged."""
    found: list[Link] = []
    failure: ItemFailed | None = None
    for some in batches:
        try:
            found += judge(some)
        except ItemFailed as failed:
            failure = failure or failed
    if failure:
        failure.instead = tuple(found)
        raise failure
    return found


def _judged(pairs: Sequence[Pair], ask: Ask, none: bool, confidence: bool, shuffled: bool) -> list[Link]:
    """What a model says of these pairs, asked together."""
    texts = list(dict.fromkeys(" ".join(passage.text.split()) for pair in pairs for passage in pair))
    place = {text: n for n, text in enumerate(texts, 1)}
    numbers = [[place[" ".join(passage.text.split())] for passage in pair] for pair in pairs]
    told = prompt(
        PROMPT,
        none=f"- Where {_MEANING}, the sense is `{NONE}`.\n" if none else "",
        confidence=_CONFIDENCE if confidence else "",
        senses="\n".join(_listed(texts, none, shuffled)),
        texts="\n".join(f"{n}: {text}" for text, n in place.items()),
        pairs="\n".join(f"pair_{n}: first {one}, second {other}" for n, (one, other) in enumerate(numbers, 1)),
    )
    said = ask(told, into=_form(len(pairs), none, confidence))
    return [link for n, pair in enumerate(pairs, 1) if (link := _link(pair, getattr(said, f"pair_{n}")))]


def _listed(texts: Sequence[str], none: bool, shuffled: bool) -> list[str]:
    """The senses with what they mean; where they are shuffled, as the texts decide."""
    lines = [f"- {label}: {by_label()[label].meaning}" for label in leaves()]
    lines += [f"- {NONE}: {_MEANING}"] if none else []
    return sorted(lines, key=lambda line: digest(*texts, line)) if shuffled else lines


@cache
def _form(pairs: int, none: bool, confidence: bool) -> type[Any]:
    """The form of a reply: of each of so many pairs, by its own name so that none is left out, what there is to say."""

    def check(said: Any) -> None:
        if not _sense(said.sense) and not (none and _is_none(said.sense)):
            raise ValueError(f"there is no sense {said.sense!r} in the list")
        if confidence and not 0 <= said.confidence <= 1:
            raise ValueError("the confidence is a number from 0 to 1")

    fields: list[tuple[str, Any]] = [("sense", str), ("arg1", Literal["first", "second"])]
    fields += [("confidence", float)] if confidence else []
    judged = make_dataclass("Judged", fields, frozen=True, namespace={"__post_init__": check})
    return make_dataclass("Judgements", [(f"pair_{n}", judged) for n in range(1, pairs + 1)], frozen=True)


def _link(pair: Pair, said: Any) -> Link | None:
    label = _sense(said.sense)
    if not label:
        return None
    one, other = pair if said.arg1 == "first" else reversed(pair)
    return Link(one.id, other.id, getattr(said, "confidence", None), text=label)


def _by_label(ask: Ask) -> Callable[[Sequence[Pair]], list[Link]]:
    """As in the paper: one pair, and its sense in reply."""

    def judge(pairs: Sequence[Pair]) -> list[Link]:
        [(one, other)] = pairs
        told = prompt(PAPER, one=one.text, other=other.text, senses=", ".join(leaves()))
        return [Link(one.id, other.id, None, text=ask(told, read=lambda reply: _only(reply.text)))]

    return judge


def _only(text: str) -> str:
    """The sense that a reply is. Raises Malformed."""
    if label := _sense(text):
        return label
    raise Malformed(f"The reply has to be one of {', '.join(leaves())}.")


def _sense(text: str) -> str:
    label = named(text)
    return label if label in leaves() else ""


def _is_none(text: str) -> bool:
    return "".join(text.casefold().split()) == NONE.replace(" ", "")
