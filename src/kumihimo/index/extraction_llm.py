"""a chunk -> what a model reads in it: records, in one conversation that every step of the graph asks alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from kumihimo.core.errors import ItemFailed, Malformed
from kumihimo.core.records import Chunk
from kumihimo.index.extraction_parser import Extracted, Said, extracted, whole_lines
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask, Messages
from kumihimo.llm.structured import Reply, form

A = TypeVar("A")
Heard = tuple[str, Extracted, bool]  # what is whole of a reply, its records, and whether it broke off

CONTINUED = 3  # times a reply that breaks off is continued
_AS_WRITTEN = "Write descriptions and keywords in the language of the text."


@dataclass(slots=True)
class Conversation:
    """What was said so far, and the records that it gave."""

    ask: Ask
    messages: list[Mapping[str, str]]
    records: list[Said] = field(default_factory=list)

    def say(self, turn: str, **values: str) -> None:
        self.messages += _turn(turn, **values)

    def listen(self, read: Callable[[Reply], A], further: int, **parameters: Any) -> A:
        """The model's answer to all of it, which may be followed by so many turns."""
        heard: A = self.ask(list(self.messages), read=read, further=further, **parameters)
        return heard

    def answered(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})


def read(
    chunk: Chunk,
    ask: Ask,
    *,
    types: Sequence[str],
    examples: str,
    domain: str,
    language: str,
    gleanings: int,
    yes: int | None,
    no: int | None,
    claims: bool = False,
    about: str = "",
) -> tuple[list[Said], ItemFailed | None]:
    """The records of a chunk in the order they were read, and why there are not more of them, if a turn has failed.

    An extraction, up to `gleanings` rounds of a check and a continuation (GraphRAG, arXiv:2404.16130, appendix A.2),
    then the claims. But: a round that brings nothing new is the last; what broke off is continued, lines that cannot
    be read are asked for again; a relation has keywords too (LightRAG, arXiv:2410.05779).
    """
    talk = Conversation(ask, [*_opening(chunk, types, examples, domain, language)])
    failure = None
    try:
        _records(talk, further=2 * gleanings + claims)
        _glean(talk, gleanings, _one_token(yes, no), after=int(claims))
        if claims:
            talk.say("claims", about=f"\n\nWhat to look for: {about}" if about else "")
            _records(talk)
    except ItemFailed as failed:
        failure = failed
    return list(dict.fromkeys(talk.records)), failure


def _opening(chunk: Chunk, types: Sequence[str], examples: str, domain: str, language: str) -> Messages:
    told = f"Write descriptions and keywords in {language}, names as the text writes them." if language else _AS_WRITTEN
    return prompt(
        Path(__file__).with_name("mentions.md"),
        types=", ".join(types),
        examples=examples or _turn("examples")[0]["content"],
        domain=f"\n\nThe text is one of many about: {domain}" if domain else "",
        language=told,
        title=f"Title: {chunk.title}\n" if chunk.title else "",
        text=chunk.text,
    )


def _turn(name: str, **values: str) -> Messages:
    return prompt(Path(__file__).with_name(f"mentions_{name}.md"), **values)


def _glean(talk: Conversation, rounds: int, one_token: Mapping[str, Any], after: int) -> None:
    """Ask what is missing, until nothing is."""
    for left in range(2 * rounds + after, after, -2):
        talk.say("check")
        complete = talk.listen(_yes_or_no, left - 1, **one_token)
        talk.answered(complete)
        if complete == "yes":
            return
        known = set(talk.records)
        talk.say("more")
        _records(talk, left - 2)
        if known.issuperset(talk.records):
            return


def _one_token(yes: int | None, no: int | None) -> dict[str, Any]:
    """Parameters that leave a model no other word, where its tokens for both are known (appendix A.2)."""
    if yes is None or no is None:
        return {}
    return {"logit_bias": {str(yes): 100, str(no): 100}, "max_tokens": 1}


def _yes_or_no(reply: Reply) -> str:
    """One word, which may be all that the reply was allowed to be. Raises Malformed."""
    answer: str = form(Literal["yes", "no"]).read(replace(reply, end="stop"))
    return answer


def _records(talk: Conversation, further: int = 0) -> None:
    """Ask for records, and once more for those whose lines cannot be read: all of them have to be, or it fails."""
    if broken := _to_the_end(talk, further, _read):
        talk.say("mend", lines="\n".join(broken))
        _to_the_end(talk, further, _mended)


def _to_the_end(talk: Conversation, further: int, read: Callable[[Reply], Heard]) -> list[str]:
    """Hear a reply, and the rest of it where it broke off; which of its lines cannot be read."""
    broken: list[str] = []
    for _ in range(1 + CONTINUED):
        text, found, cut = talk.listen(read, further)
        talk.answered(text)
        talk.records += found.records
        broken += found.broken
        if not cut:
            return broken
        talk.say("rest", last=text.rpartition("\n")[2])
    raise ItemFailed(
        f"{talk.ask.mark} broke off {1 + CONTINUED} times: set a larger max_tokens for it, or a smaller size of chunks"
    )


def _mended(reply: Reply) -> Heard:
    """The same of lines that were asked for again. Raises Malformed where one cannot be read still."""
    heard = _read(reply)
    if broken := heard[1].broken:
        raise Malformed(f"This is no record still: {broken[0]}")
    return heard


def _read(reply: Reply) -> Heard:
    """What of a reply is whole, its records, and whether it broke off. Raises Malformed where there is no record."""
    text = reply.text
    found = extracted(text)
    cut = reply.cut and not found.ended
    if cut:
        text = whole_lines(text)
        found = extracted(text)
        if not found.records:
            raise Malformed("The reply broke off before its first record was whole. Write nothing before the records.")
    if not found.records and not found.ended:
        raise Malformed("The reply holds no record: write each on one line, as shown, and END after the last.")
    return text, found, cut
