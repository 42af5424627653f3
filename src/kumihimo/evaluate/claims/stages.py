"""a sentence of an answer -> the claims it makes, by way of selection, disambiguation and decomposition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from unicodedata import normalize

from kumihimo.evaluate.claims.sentences import Piece, excerpt
from kumihimo.evaluate.claims.voting import Poll, majority, poll, settings
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask

Votes = tuple[int, int, int]  # replies of each stage, of which more than half have to agree
PAPER: Votes = (3, 3, 1)
ECONOMY: Votes = (1, 1, 1)
SELECTION, DISAMBIGUATION, DECOMPOSITION = PROMPTS = tuple(
    Path(__file__).with_name(f"claim_{stage}.md") for stage in ("selection", "disambiguation", "decomposition")
)
_BEFORE, _AFTER = 5, 5  # sentences that are shown around the one in question; those after it for selection only
_ENDS = " .。．!！?？;；、,"


@dataclass(frozen=True, slots=True)
class Selected:
    reasoning: str
    verdict: Literal["none", "part", "all"]
    sentence: str


@dataclass(frozen=True, slots=True)
class Read:
    reasoning: str
    verdict: Literal["unresolvable", "resolved", "clear"]  # from no to yes
    sentence: str


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a sentence: its claims, or why there are none, and what each stage made of it."""

    outcome: str
    claims: tuple[str, ...] = ()
    trace: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """One sentence, where it stands."""

    question: str
    pieces: Sequence[Piece]
    at: int

    def prompt(self, path: Path, sentence: str, after: int = 0) -> Any:
        around = excerpt(self.pieces, self.at, _BEFORE, after)
        return prompt(path, question=self.question, excerpt=around, sentence=sentence)


def taken(asked: Asked, *, ask: Ask, votes: Votes = PAPER) -> Taken:
    """The claims of one sentence (Claimify, arXiv:2502.10855).

    But: a stage stops asking when the replies that are missing could not change what most of them say. How many votes
    and which temperatures is known from ports of it alone; the prompts are our own.
    """
    said = asked.pieces[asked.at].text
    trace: dict[str, Any] = {}
    chosen = _select(asked, said, ask, votes[0])
    trace["selection"] = _told(chosen)
    if chosen.outcome != "yes":
        return Taken("not selected" if chosen.outcome == "no" else chosen.outcome, trace=trace)
    first = chosen.ayes[0]
    said = first.sentence.strip() or said if first.verdict == "part" else said
    read = _read(asked, said, ask, votes[1])
    trace["disambiguation"] = _told(read)
    if read.outcome != "yes":
        return Taken("ambiguous" if read.outcome == "no" else read.outcome, trace=trace)
    clear = read.ayes[0]
    said = clear.sentence.strip() or said if clear.verdict == "resolved" else said
    return _decompose(asked, said, ask, votes[2], trace)


def _select(asked: Asked, said: str, ask: Ask, votes: int) -> Poll[Selected]:
    shown = asked.prompt(SELECTION, said, _AFTER)

    def one(n: int) -> Selected:
        reply: Selected = ask(shown, into=Selected, sample=n, **settings(votes))
        return reply

    return poll(one, lambda reply: reply.verdict != "none", votes)


def _read(asked: Asked, said: str, ask: Ask, votes: int) -> Poll[Read]:
    shown = asked.prompt(DISAMBIGUATION, said)

    def one(n: int) -> Read:
        reply: Read = ask(shown, into=Read, sample=n, **settings(votes))
        return reply

    return poll(one, lambda reply: reply.verdict != "unresolvable", votes)


def _told(found: Poll[Any]) -> dict[str, Any]:
    """Of the reply that was gone on with, or else of the first."""
    first = next(iter(found.ayes if found.outcome == "yes" else [*found.noes, *found.ayes]), None)
    votes = [*(reply.verdict for reply in (*found.ayes, *found.noes)), *found.troubles]
    said = {"reasoning": first.reasoning, "sentence": first.sentence} if first else {}
    return {"votes": votes, **said}


def _decompose(asked: Asked, said: str, ask: Ask, votes: int, trace: dict[str, Any]) -> Taken:
    """Each claim is voted on, not only whether there are any."""
    shown = asked.prompt(DECOMPOSITION, said)

    def one(n: int) -> list[str]:
        reply: list[str] = ask(shown, into=list[str], sample=n, **settings(votes))
        return reply

    found = poll(one, bool, votes, every=True)
    claims = _agreed(found.ayes, majority(votes)) if found.outcome == "yes" else ()
    trace["decomposition"] = {"sentence": said, "claims": list(claims)}
    trace["decomposition"] |= {"votes": found.troubles} if found.without else {}
    outcome = (
        "claims" if claims else {"invalid": "invalid", "failed": "failed"}.get(found.outcome, "nothing decomposed")
    )
    return Taken(outcome, claims, trace)


def _agreed(replies: Sequence[Sequence[str]], needed: int) -> tuple[str, ...]:
    """The claims that so many replies make, each once, in the words and order of the first that makes them."""
    said: dict[str, str] = {}
    times: Counter[str] = Counter()
    for reply in replies:
        for claim in reply:
            said.setdefault(key(claim), " ".join(claim.split()))
        times.update({key(claim) for claim in reply} - {""})
    return tuple(claim for name, claim in said.items() if times[name] >= needed)


def key(claim: str) -> str:
    """What claims have in common that say the same in the same words.

    >>> key("The  ferry left.") == key("the ferry left"), key("船は出た。") == key("船は出た")
    (True, True)
    """
    return " ".join(normalize("NFKC", claim).casefold().split()).strip(_ENDS)
