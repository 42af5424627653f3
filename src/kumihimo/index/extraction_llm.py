"""a chunk -> what a model reads in it: records, in one conversation that every step of the graph asks alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from kumihimo.core.errors import ItemFailed, MalformedReply
from kumihimo.core.records import Chunk
from kumihimo.index.extraction_parser import ExtractedRecord, ParsedExtraction, drop_last_line, parse_extraction
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Messages
from kumihimo.llm.structured import Reply, reply_form

T = TypeVar("T")
ParsedTurn = tuple[str, ParsedExtraction, bool]  # what is whole of a reply, its records, and whether it broke off

MAX_CONTINUATIONS = 3  # times a reply that breaks off is continued
_LANGUAGE_OF_TEXT = "Write descriptions and keywords in the language of the text."


@dataclass(slots=True)
class ExtractionChat:
    """What was said so far, and the records that it gave."""

    llm: LLM
    messages: list[Mapping[str, str]]
    records: list[ExtractedRecord] = field(default_factory=list)

    def add_user_turn(self, turn: str, **values: str) -> None:
        self.messages += _turn_messages(turn, **values)

    def request_reply(self, parse: Callable[[Reply], T], followups: int, **parameters: Any) -> T:
        """The model's answer to all of it, which may be followed by so many turns."""
        heard: T = self.llm(list(self.messages), parse=parse, followups=followups, **parameters)
        return heard

    def add_reply(self, reply: str) -> None:
        self.messages.append({"role": "assistant", "content": reply})


def extract_records(
    chunk: Chunk,
    llm: LLM,
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
) -> tuple[list[ExtractedRecord], ItemFailed | None]:
    """The records of a chunk in the order they were read, and why there are not more of them, if a turn has failed.

    An extraction, up to `gleanings` rounds of a check and a continuation (GraphRAG, arXiv:2404.16130, appendix A.2),
    then the claims. But: a round that brings nothing new is the last; what broke off is continued, lines that cannot
    be read are asked for again; a relation has keywords too (LightRAG, arXiv:2410.05779).
    """
    talk = ExtractionChat(llm, [*_first_messages(chunk, types, examples, domain, language)])
    failure = None
    try:
        _request_records(talk, followups=2 * gleanings + claims)
        _glean(talk, gleanings, _yes_no_bias(yes, no), later_turns=int(claims))
        if claims:
            talk.add_user_turn("claims", about=f"\n\nWhat to look for: {about}" if about else "")
            _request_records(talk)
    except ItemFailed as failed:
        failure = failed
    return list(dict.fromkeys(talk.records)), failure


def _first_messages(chunk: Chunk, types: Sequence[str], examples: str, domain: str, language: str) -> Messages:
    told = (
        f"Write descriptions and keywords in {language}, names as the text writes them."
        if language
        else _LANGUAGE_OF_TEXT
    )
    return render_prompt(
        Path(__file__).with_name("mentions.md"),
        types=", ".join(types),
        examples=examples or _turn_messages("examples")[0]["content"],
        domain=f"\n\nThe text is one of many about: {domain}" if domain else "",
        language=told,
        title=f"Title: {chunk.title}\n" if chunk.title else "",
        text=chunk.text,
    )


def _turn_messages(name: str, **values: str) -> Messages:
    return render_prompt(Path(__file__).with_name(f"mentions_{name}.md"), **values)


def _glean(chat: ExtractionChat, max_rounds: int, yes_no_bias: Mapping[str, Any], later_turns: int) -> None:
    """Ask what is missing, until nothing is."""
    for left in range(2 * max_rounds + later_turns, later_turns, -2):
        chat.add_user_turn("check")
        complete = chat.request_reply(_parse_yes_no, left - 1, **yes_no_bias)
        chat.add_reply(complete)
        if complete == "yes":
            return
        known = set(chat.records)
        chat.add_user_turn("more")
        _request_records(chat, left - 2)
        if known.issuperset(chat.records):
            return


def _yes_no_bias(yes: int | None, no: int | None) -> dict[str, Any]:
    """Parameters that leave a model no other word, where its tokens for both are known (appendix A.2)."""
    if yes is None or no is None:
        return {}
    return {"logit_bias": {str(yes): 100, str(no): 100}, "max_tokens": 1}


def _parse_yes_no(reply: Reply) -> str:
    """One word, which may be all that the reply was allowed to be. Raises Malformed."""
    answer: str = reply_form(Literal["yes", "no"]).parse(replace(reply, finish_reason="stop"))
    return answer


def _request_records(chat: ExtractionChat, followups: int = 0) -> None:
    """Ask for records, and once more for those whose lines cannot be read: all of them have to be, or it fails."""
    if broken := _request_until_complete(chat, followups, _parse_turn):
        chat.add_user_turn("mend", lines="\n".join(broken))
        _request_until_complete(chat, followups, _parse_repaired_turn)


def _request_until_complete(chat: ExtractionChat, followups: int, parse: Callable[[Reply], ParsedTurn]) -> list[str]:
    """Hear a reply, and the rest of it where it broke off; which of its lines cannot be read."""
    broken: list[str] = []
    for _ in range(1 + MAX_CONTINUATIONS):
        text, found, cut = chat.request_reply(parse, followups)
        chat.add_reply(text)
        chat.records += found.records
        broken += found.broken_lines
        if not cut:
            return broken
        chat.add_user_turn("rest", last=text.rpartition("\n")[2])
    raise ItemFailed(
        f"{chat.llm.fingerprint} broke off {1 + MAX_CONTINUATIONS} times: set a larger max_tokens for it, or a smaller size of chunks"
    )


def _parse_repaired_turn(reply: Reply) -> ParsedTurn:
    """The same of lines that were asked for again. Raises Malformed where one cannot be read still."""
    heard = _parse_turn(reply)
    if broken := heard[1].broken_lines:
        raise MalformedReply(f"This is no record still: {broken[0]}")
    return heard


def _parse_turn(reply: Reply) -> ParsedTurn:
    """What of a reply is whole, its records, and whether it broke off. Raises Malformed where there is no record."""
    text = reply.text
    found = parse_extraction(text)
    cut = reply.truncated and not found.has_end_mark
    if cut:
        text = drop_last_line(text)
        found = parse_extraction(text)
        if not found.records:
            raise MalformedReply(
                "The reply broke off before its first record was whole. Write nothing before the records."
            )
    if not found.records and not found.has_end_mark:
        raise MalformedReply("The reply holds no record: write each on one line, as shown, and END after the last.")
    return text, found, cut
