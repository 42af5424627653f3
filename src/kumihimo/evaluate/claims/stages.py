"""a sentence of an answer -> the claims it makes, by way of selection, disambiguation and decomposition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from unicodedata import normalize

from kumihimo.evaluate.claims.sentences import Piece, render_excerpt
from kumihimo.evaluate.claims.voting import Poll, poll_replies, vote_settings, votes_needed
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM

Votes = tuple[int, int, int]  # replies of each stage, of which more than half have to agree
PAPER_VOTES: Votes = (3, 3, 1)
ECONOMY_VOTES: Votes = (1, 1, 1)
SELECTION, DISAMBIGUATION, DECOMPOSITION = CLAIM_PROMPTS = tuple(
    Path(__file__).with_name(f"claim_{stage}.md") for stage in ("selection", "disambiguation", "decomposition")
)
_SENTENCES_BEFORE, _SENTENCES_AFTER = (
    5,
    5,
)  # sentences that are shown around the one in question; those after it for selection only
_FINAL_PUNCTUATION = " .。．!！?？;；、,"


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
class SentenceResult:
    """What became of a sentence: its claims, or why there are none, and what each stage made of it."""

    outcome: str
    claims: tuple[str, ...] = ()
    trace: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SentenceJob:
    """One sentence, where it stands."""

    question: str
    pieces: Sequence[Piece]
    position: int

    def build_prompt(self, path: Path, sentence: str, after: int = 0) -> Any:
        around = render_excerpt(self.pieces, self.position, _SENTENCES_BEFORE, after)
        return render_prompt(path, question=self.question, excerpt=around, sentence=sentence)


def extract_sentence_claims(job: SentenceJob, *, llm: LLM, votes: Votes = PAPER_VOTES) -> SentenceResult:
    """The claims of one sentence (Claimify, arXiv:2502.10855).

    But: a stage stops asking when the replies that are missing could not change what most of them say. How many votes
    and which temperatures is known from ports of it alone; the prompts are our own.
    """
    said = job.pieces[job.position].text
    trace: dict[str, Any] = {}
    chosen = _vote_selection(job, said, llm, votes[0])
    trace["selection"] = _trace_entry(chosen)
    if chosen.outcome != "yes":
        return SentenceResult("not selected" if chosen.outcome == "no" else chosen.outcome, trace=trace)
    first = chosen.accepted[0]
    said = first.sentence.strip() or said if first.verdict == "part" else said
    read = _vote_disambiguation(job, said, llm, votes[1])
    trace["disambiguation"] = _trace_entry(read)
    if read.outcome != "yes":
        return SentenceResult("ambiguous" if read.outcome == "no" else read.outcome, trace=trace)
    clear = read.accepted[0]
    said = clear.sentence.strip() or said if clear.verdict == "resolved" else said
    return _vote_decomposition(job, said, llm, votes[2], trace)


def _vote_selection(asked: SentenceJob, said: str, llm: LLM, votes: int) -> Poll[Selected]:
    shown = asked.build_prompt(SELECTION, said, _SENTENCES_AFTER)

    def one(n: int) -> Selected:
        reply: Selected = llm(shown, schema=Selected, sample=n, **vote_settings(votes))
        return reply

    return poll_replies(one, lambda reply: reply.verdict != "none", votes)


def _vote_disambiguation(asked: SentenceJob, said: str, llm: LLM, votes: int) -> Poll[Read]:
    shown = asked.build_prompt(DISAMBIGUATION, said)

    def one(n: int) -> Read:
        reply: Read = llm(shown, schema=Read, sample=n, **vote_settings(votes))
        return reply

    return poll_replies(one, lambda reply: reply.verdict != "unresolvable", votes)


def _trace_entry(found: Poll[Any]) -> dict[str, Any]:
    """Of the reply that was gone on with, or else of the first."""
    first = next(iter(found.accepted if found.outcome == "yes" else [*found.rejected, *found.accepted]), None)
    votes = [*(reply.verdict for reply in (*found.accepted, *found.rejected)), *found.failure_notes]
    said = {"reasoning": first.reasoning, "sentence": first.sentence} if first else {}
    return {"votes": votes, **said}


def _vote_decomposition(asked: SentenceJob, said: str, llm: LLM, votes: int, trace: dict[str, Any]) -> SentenceResult:
    """Each claim is voted on, not only whether there are any."""
    shown = asked.build_prompt(DECOMPOSITION, said)

    def one(n: int) -> list[str]:
        reply: list[str] = llm(shown, schema=list[str], sample=n, **vote_settings(votes))
        return reply

    found = poll_replies(one, bool, votes, all_votes=True)
    claims = _majority_claims(found.accepted, votes_needed(votes)) if found.outcome == "yes" else ()
    trace["decomposition"] = {"sentence": said, "claims": list(claims)}
    trace["decomposition"] |= {"votes": found.failure_notes} if found.failures else {}
    outcome = (
        "claims" if claims else {"invalid": "invalid", "failed": "failed"}.get(found.outcome, "nothing decomposed")
    )
    return SentenceResult(outcome, claims, trace)


def _majority_claims(replies: Sequence[Sequence[str]], needed: int) -> tuple[str, ...]:
    """The claims that so many replies make, each once, in the words and order of the first that makes them."""
    said: dict[str, str] = {}
    times: Counter[str] = Counter()
    for reply in replies:
        for claim in reply:
            said.setdefault(claim_key(claim), " ".join(claim.split()))
        times.update({claim_key(claim) for claim in reply} - {""})
    return tuple(claim for name, claim in said.items() if times[name] >= needed)


def claim_key(claim: str) -> str:
    """What claims have in common that say the same in the same words.

    >>> key("The  ferry left.") == key("the ferry left"), key("船は出た。") == key("船は出た")
    (True, True)
    """
    return " ".join(normalize("NFKC", claim).casefold().split()).strip(_FINAL_PUNCTUATION)
