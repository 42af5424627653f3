"""a chunk -> extraction records from a model, in one conversation shared by all graph steps."""

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
ParsedTurn = tuple[str, ParsedExtraction, bool]  # complete text, its records, and whether the reply was cut

MAX_CONTINUATIONS = 3  # of one truncated reply
_LANGUAGE_OF_TEXT = "Write descriptions and keywords in the language of the text."


@dataclass(slots=True)
class ExtractionChat:
    """A conversation with the model, and the records it has produced."""

    llm: LLM
    messages: list[Mapping[str, str]]
    records: list[ExtractedRecord] = field(default_factory=list)

    def add_user_turn(self, turn: str, **values: str) -> None:
        """Append the messages of a turn's prompt."""
        self.messages += _turn_messages(turn, **values)

    def request_reply(self, parse: Callable[[Reply], T], followups: int, **parameters: Any) -> T:
        """Return the model's parsed reply.

        followups: the maximum number of turns after this one.
        """
        result: T = self.llm(list(self.messages), parse=parse, followups=followups, **parameters)
        return result

    def add_reply(self, reply: str) -> None:
        """Append the model's reply."""
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
    """Extract the records of a chunk, in order, and return any failure.

    Run an extraction, then up to `gleanings` rounds of check and continuation (GraphRAG, arXiv:2404.16130, appendix
    A.2), then the claims. But: a round without a new record is the last; a truncated reply is continued, and unreadable
    lines are requested again; a relation also has keywords (LightRAG, arXiv:2410.05779). If a turn fails, the second
    value is its failure, and the records are those read before it.
    """
    chat = ExtractionChat(llm, [*_first_messages(chunk, types, examples, domain, language)])
    failure = None
    try:
        _request_records(chat, followups=2 * gleanings + claims)
        _glean(chat, gleanings, _yes_no_bias(yes, no), later_turns=int(claims))
        if claims:
            chat.add_user_turn("claims", about=f"\n\nWhat to look for: {about}" if about else "")
            _request_records(chat)
    except ItemFailed as error:
        failure = error
    return list(dict.fromkeys(chat.records)), failure


def _first_messages(chunk: Chunk, types: Sequence[str], examples: str, domain: str, language: str) -> Messages:
    """Return the messages of the first turn."""
    language_rule = (
        f"Write descriptions and keywords in {language}, names as the text writes them."
        if language
        else _LANGUAGE_OF_TEXT
    )
    return render_prompt(
        Path(__file__).with_name("mentions.md"),
        types=", ".join(types),
        examples=examples or _turn_messages("examples")[0]["content"],
        domain=f"\n\nThe text is one of many about: {domain}" if domain else "",
        language=language_rule,
        title=f"Title: {chunk.title}\n" if chunk.title else "",
        text=chunk.text,
    )


def _turn_messages(name: str, **values: str) -> Messages:
    """Return the messages of one `mentions_*.md` prompt."""
    return render_prompt(Path(__file__).with_name(f"mentions_{name}.md"), **values)


def _glean(chat: ExtractionChat, max_rounds: int, yes_no_bias: Mapping[str, Any], later_turns: int) -> None:
    """Request missing records until the model reports none."""
    for remaining in range(2 * max_rounds + later_turns, later_turns, -2):
        chat.add_user_turn("check")
        answer = chat.request_reply(_parse_yes_no, remaining - 1, **yes_no_bias)
        chat.add_reply(answer)
        if answer == "yes":
            return
        known_records = set(chat.records)
        chat.add_user_turn("more")
        _request_records(chat, remaining - 2)
        if known_records.issuperset(chat.records):
            return


def _yes_no_bias(yes: int | None, no: int | None) -> dict[str, Any]:
    """Return request parameters that allow only the tokens `yes` and `no`.

    Empty unless both token ids are set (appendix A.2).
    """
    if yes is None or no is None:
        return {}
    return {"logit_bias": {str(yes): 100, str(no): 100}, "max_tokens": 1}


def _parse_yes_no(reply: Reply) -> str:
    """Parse a reply of one word, which `max_tokens` may have cut.

    Raise MalformedReply if it is neither yes nor no.
    """
    answer: str = reply_form(Literal["yes", "no"]).parse(replace(reply, finish_reason="stop"))
    return answer


def _request_records(chat: ExtractionChat, followups: int = 0) -> None:
    """Request records, and request unreadable lines once more.

    Fail unless every line is readable in the end.
    """
    if broken_lines := _request_until_complete(chat, followups, _parse_turn):
        chat.add_user_turn("mend", lines="\n".join(broken_lines))
        _request_until_complete(chat, followups, _parse_repaired_turn)


def _request_until_complete(chat: ExtractionChat, followups: int, parse: Callable[[Reply], ParsedTurn]) -> list[str]:
    """Read a reply, continue it while truncated, and return its broken lines."""
    broken_lines: list[str] = []
    for _ in range(1 + MAX_CONTINUATIONS):
        text, extraction, cut = chat.request_reply(parse, followups)
        chat.add_reply(text)
        chat.records += extraction.records
        broken_lines += extraction.broken_lines
        if not cut:
            return broken_lines
        chat.add_user_turn("rest", last=text.rpartition("\n")[2])
    raise ItemFailed(
        f"{chat.llm.fingerprint} was cut off {1 + MAX_CONTINUATIONS} times: "
        "set a larger max_tokens for it, or a smaller chunks.size"
    )


def _parse_repaired_turn(reply: Reply) -> ParsedTurn:
    """Parse a reply with repaired records.

    Raise MalformedReply if a line is still no record.
    """
    turn = _parse_turn(reply)
    if broken_lines := turn[1].broken_lines:
        raise MalformedReply(f"This is no record still: {broken_lines[0]}")
    return turn


def _parse_turn(reply: Reply) -> ParsedTurn:
    """Return a reply's complete text, its records and whether it was cut.

    Raise MalformedReply if it has no record.
    """
    text = reply.text
    extraction = parse_extraction(text)
    cut = reply.truncated and not extraction.has_end_mark
    if cut:
        text = drop_last_line(text)
        extraction = parse_extraction(text)
        if not extraction.records:
            raise MalformedReply(
                "The reply broke off before its first record was whole. Write nothing before the records."
            )
    if not extraction.records and not extraction.has_end_mark:
        raise MalformedReply("The reply holds no record: write each on one line, as shown, and END after the last.")
    return text, extraction, cut
