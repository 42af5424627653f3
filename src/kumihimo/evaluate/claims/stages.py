"""a sentence of an answer -> its claims, through selection, disambiguation and decomposition."""

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

Votes = tuple[int, int, int]  # replies per stage; more than half must agree
PAPER_VOTES: Votes = (3, 3, 1)
ECONOMY_VOTES: Votes = (1, 1, 1)
SELECTION, DISAMBIGUATION, DECOMPOSITION = CLAIM_PROMPTS = tuple(
    Path(__file__).with_name(f"claim_{stage}.md") for stage in ("selection", "disambiguation", "decomposition")
)
_SENTENCES_BEFORE, _SENTENCES_AFTER = 5, 5  # in the excerpt; only selection shows the sentences after
_FINAL_PUNCTUATION = " .。．!！?？;；、,"


@dataclass(frozen=True, slots=True)
class Selected:
    """The reply of the selection stage."""

    reasoning: str
    verdict: Literal["none", "part", "all"]
    sentence: str


@dataclass(frozen=True, slots=True)
class Read:
    """The reply of the disambiguation stage."""

    reasoning: str
    verdict: Literal["unresolvable", "resolved", "clear"]
    sentence: str


@dataclass(frozen=True, slots=True)
class SentenceResult:
    """The outcome of one sentence: its claims or why it has none, and a trace of each stage."""

    outcome: str
    claims: tuple[str, ...] = ()
    trace: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SentenceJob:
    """A sentence with its question and the pieces of its answer."""

    question: str
    pieces: Sequence[Piece]
    position: int

    def build_prompt(self, path: Path, sentence: str, after: int = 0) -> Any:
        """Build the prompt of a stage, with an excerpt around the sentence."""
        context = render_excerpt(self.pieces, self.position, _SENTENCES_BEFORE, after)
        return render_prompt(path, question=self.question, excerpt=context, sentence=sentence)


def extract_sentence_claims(job: SentenceJob, *, llm: LLM, votes: Votes = PAPER_VOTES) -> SentenceResult:
    """Extract the claims of one sentence (Claimify, arXiv:2502.10855).

    But: voting stops as soon as the missing replies cannot change the majority. The vote counts and temperatures come
    from third-party ports of the paper; the prompts are our own.
    """
    sentence = job.pieces[job.position].text
    trace: dict[str, Any] = {}
    selection = _vote_selection(job, sentence, llm, votes[0])
    trace["selection"] = _trace_entry(selection)
    if selection.outcome != "yes":
        return SentenceResult("not selected" if selection.outcome == "no" else selection.outcome, trace=trace)
    selected = selection.accepted[0]
    sentence = selected.sentence.strip() or sentence if selected.verdict == "part" else sentence
    disambiguation = _vote_disambiguation(job, sentence, llm, votes[1])
    trace["disambiguation"] = _trace_entry(disambiguation)
    if disambiguation.outcome != "yes":
        return SentenceResult("ambiguous" if disambiguation.outcome == "no" else disambiguation.outcome, trace=trace)
    disambiguated = disambiguation.accepted[0]
    sentence = disambiguated.sentence.strip() or sentence if disambiguated.verdict == "resolved" else sentence
    return _vote_decomposition(job, sentence, llm, votes[2], trace)


def _vote_selection(job: SentenceJob, sentence: str, llm: LLM, votes: int) -> Poll[Selected]:
    """Ask several times for the verifiable part of the sentence."""
    messages = job.build_prompt(SELECTION, sentence, _SENTENCES_AFTER)

    def get_reply(n: int) -> Selected:
        """Return reply number n."""
        reply: Selected = llm(messages, schema=Selected, sample=n, **vote_settings(votes))
        return reply

    return poll_replies(get_reply, lambda reply: reply.verdict != "none", votes)


def _vote_disambiguation(job: SentenceJob, sentence: str, llm: LLM, votes: int) -> Poll[Read]:
    """Ask several times for an unambiguous form of the sentence."""
    messages = job.build_prompt(DISAMBIGUATION, sentence)

    def get_reply(n: int) -> Read:
        """Return reply number n."""
        reply: Read = llm(messages, schema=Read, sample=n, **vote_settings(votes))
        return reply

    return poll_replies(get_reply, lambda reply: reply.verdict != "unresolvable", votes)


def _trace_entry(vote: Poll[Any]) -> dict[str, Any]:
    """Return the trace of a stage: all verdicts and one reply.

    The reply is the one used by the next stage, or else the first.
    """
    first = next(iter(vote.accepted if vote.outcome == "yes" else [*vote.rejected, *vote.accepted]), None)
    votes = [*(reply.verdict for reply in (*vote.accepted, *vote.rejected)), *vote.failure_notes]
    reply_fields = {"reasoning": first.reasoning, "sentence": first.sentence} if first else {}
    return {"votes": votes, **reply_fields}


def _vote_decomposition(job: SentenceJob, sentence: str, llm: LLM, votes: int, trace: dict[str, Any]) -> SentenceResult:
    """Ask several times for the claims; each claim needs a majority."""
    messages = job.build_prompt(DECOMPOSITION, sentence)

    def get_reply(n: int) -> list[str]:
        """Return reply number n."""
        reply: list[str] = llm(messages, schema=list[str], sample=n, **vote_settings(votes))
        return reply

    vote = poll_replies(get_reply, bool, votes, all_votes=True)
    claims = _majority_claims(vote.accepted, votes_needed(votes)) if vote.outcome == "yes" else ()
    trace["decomposition"] = {"sentence": sentence, "claims": list(claims)}
    trace["decomposition"] |= {"votes": vote.failure_notes} if vote.failures else {}
    outcome = "claims" if claims else {"invalid": "invalid", "failed": "failed"}.get(vote.outcome, "nothing decomposed")
    return SentenceResult(outcome, claims, trace)


def _majority_claims(replies: Sequence[Sequence[str]], needed: int) -> tuple[str, ...]:
    """Return the claims made by at least `needed` replies.

    Each claim appears once, in the words and order of the first reply that makes it.
    """
    texts: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for reply in replies:
        for claim in reply:
            texts.setdefault(claim_key(claim), " ".join(claim.split()))
        counts.update({claim_key(claim) for claim in reply} - {""})
    return tuple(claim for key, claim in texts.items() if counts[key] >= needed)


def claim_key(claim: str) -> str:
    """Return a key that ignores case, width, spaces and final punctuation.

    >>> claim_key("The  ferry left.") == claim_key("the ferry left"), claim_key("船は出た。") == claim_key("船は出た")
    (True, True)
    """
    return " ".join(normalize("NFKC", claim).casefold().split()).strip(_FINAL_PUNCTUATION)
