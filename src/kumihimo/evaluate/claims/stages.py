"""A sentence of an answer -> its claims, through selection, disambiguation and decomposition (Claimify).

Each stage is asked several times; the majority counts.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, Literal
from unicodedata import normalize

from kumihimo.core.errors import ItemFailed
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Messages
from kumihimo.text.sentences import LIST_ITEM, Block, collapse_spaces, split_blocks, split_sentences

PieceKind = Literal["sentence", "heading"]

_NUMBER = r"\s*\^?\d{1,3}(?:\s*[,、，;；–\-]\s*\d{1,3})*\s*"
_CITATION = re.compile(  # [2], [1, 7], 【3】, [^1]; GraphRAG's [Data: Reports (2, 7, +more)]
    rf"(?:(?<![ \t\u3000])[ \t\u3000]+)?"
    rf"(?:[\[［【]{_NUMBER}[\]］】](?!\()|\[(?:Data|データ|数据)\s*[:：][^\[\]\n]{{0,300}}\])"
)
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,}).*$", re.M)
_QUOTE_MARK = re.compile(r"^[ \t]*(?:>[ \t]?)+", re.M)
_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\n]*\)")
_BOLD = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", re.S)
_ITALIC = re.compile(r"(?<![\w*])([*_])(?=[^\s*_])([^*_\n]*?[^\s*_])\1(?![\w*])")
_CODE = re.compile(r"(`{1,20})([^`\n]+)\1")
_HEADING_MARK = re.compile(r"#{1,6}\s++|(?<!\s)\s++#++\s*+$|\n[^\S\n]*[=-]++\s*+$")
_BOLD_LINE = re.compile(r"(\*\*|__)(?=\S)((?:(?!\1).)+)(?<=\S)\1\s*[:：]?\s*")
_TABLE_RULE = re.compile(r"\|?(?:\s*:?-+:?\s*\|)*\s*:?-+:?\s*\|?")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_WORD = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A sentence as a reader sees it, or a heading of the sentences below it."""

    text: str
    kind: PieceKind = "sentence"

    @property
    def markdown(self) -> str:
        """Return the text, with `# ` before a heading."""
        return f"# {self.text}" if self.kind == "heading" else self.text


def split_answer_sentences(answer: str) -> list[AnswerPiece]:
    r"""Split an answer into sentences and headings.

    A table row becomes one sentence that names its columns. The column names become a heading.

    >>> text = "## Boats\n**Two** left [1]. One [2, 3] stayed.\n\n- at *nine*\n- at ten"
    >>> [piece.markdown for piece in split_answer_sentences(text)]
    ['# Boats', 'Two left.', 'One stayed.', 'at nine', 'at ten']
    >>> [piece.markdown for piece in split_answer_sentences("| boat | built |\n|---|---|\n| Tern | 1922 |")]
    ['# boat; built', 'boat: Tern; built: 1922']
    """
    text = _CITATION.sub("", _FENCE.sub("", _QUOTE_MARK.sub("", answer)))
    pieces: list[AnswerPiece] = []
    for is_table, group in groupby(
        split_blocks(text), key=lambda block: block.kind == "row" and "|" in text[block.start : block.end]
    ):
        if is_table:
            pieces += _split_table([text[row.start : row.end] for row in group])
        else:
            pieces += (piece for block in group for piece in _split_block(text, block))
    return [piece for piece in pieces if _WORD.search(piece.text)]


def _split_block(text: str, block: Block) -> Iterator[AnswerPiece]:
    """Yield the pieces of a block: one heading, or its sentences."""
    source = text[block.start : block.end]
    if block.kind == "item" and (bullet := LIST_ITEM.match(source)):
        source = source[bullet.end() :]
    if block.kind == "heading" or _BOLD_LINE.fullmatch(source.strip()):
        yield AnswerPiece(_strip_markdown(_HEADING_MARK.sub("", source)), "heading")
        return
    plain = _strip_markdown(source)
    for start, end in split_sentences(plain):
        yield AnswerPiece(plain[start:end])


def _split_table(lines: Sequence[str]) -> Iterator[AnswerPiece]:
    """Yield the pieces of a table: its column names, then its rows."""
    rows = [
        [_strip_markdown(cell.replace("\\|", "|")) for cell in _CELL_BORDER.split(line.strip().strip("|"))]
        for line in lines
    ]
    column_names: list[str] = []
    if len(lines) > 1 and _TABLE_RULE.fullmatch(lines[1].strip()):
        column_names, rows, lines = rows[0], rows[2:], lines[2:]
        yield AnswerPiece("; ".join(filter(None, column_names)), "heading")
    for line, row in zip(lines, rows, strict=True):
        if not _TABLE_RULE.fullmatch(line.strip()):
            cells = zip_longest(column_names[: len(row)], row)
            yield AnswerPiece("; ".join(f"{name}: {cell}" if name else cell for name, cell in cells if cell))


def _strip_markdown(text: str) -> str:
    """Return the text without Markdown markup, on one line."""
    for markup in (_LINK, _BOLD, _ITALIC, _CODE):
        text = markup.sub(lambda match: match[match.lastindex or 0], text)
    return collapse_spaces(text)


def render_excerpt(pieces: Sequence[AnswerPiece], position: int, before: int, after: int) -> str:
    """Return a piece with its neighbours; [...] marks omitted text."""
    start, end = max(position - before, 0), position + 1 + after
    lines = [piece.markdown for piece in pieces[start:end]]
    return "\n".join([*(["[...]"] if start else []), *lines, *(["[...]"] if end < len(pieces) else [])])


# -- votes

Votes = tuple[int, int, int]  # replies per stage; more than half must agree
PAPER_VOTES: Votes = (3, 3, 1)
ECONOMY_VOTES: Votes = (1, 1, 1)
VOTE_TEMPERATURE = 0.2  # for requests sent several times


def votes_needed(votes: int) -> int:
    """Return the smallest majority of this number of votes.

    >>> [votes_needed(votes) for votes in (1, 2, 3, 5)]
    [1, 2, 2, 3]
    """
    return votes // 2 + 1


@dataclass(slots=True)
class _Poll:
    """The replies to one request, until more could not change the majority."""

    votes: int
    accepted: list[Any] = field(default_factory=list)
    rejected: list[Any] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)  # a note on each failed request

    @property
    def is_settled(self) -> bool:
        """Return whether further replies cannot change the outcome."""
        needed = votes_needed(self.votes)
        return len(self.accepted) >= needed or len(self.rejected) > self.votes - needed

    @property
    def outcome(self) -> Literal["yes", "no", "invalid", "failed"]:
        """Return `yes` or `no` by majority, else why there is none.

        `failed` if a reply is missing, `invalid` if replies were only unreadable.
        """
        if len(self.accepted) >= votes_needed(self.votes):
            return "yes"
        if len(self.accepted) + len(self.failures) < votes_needed(self.votes):
            return "no"
        return "failed" if any(note.startswith("failed") for note in self.failures) else "invalid"


def _poll_replies(
    llm: LLM, messages: Messages, schema: Any, accepts: Callable[[Any], bool], votes: int, *, all_votes: bool = False
) -> _Poll:
    """Request replies 0, 1, ... until the outcome is settled.

    accepts: whether a reply counts as a yes. all_votes: request every reply, because the content of each one matters.
    """
    poll = _Poll(votes)
    # a single request keeps the configured temperature
    settings: dict[str, Any] = {"temperature": VOTE_TEMPERATURE} if votes > 1 else {}
    for number in range(votes):
        if poll.is_settled and not all_votes:
            break
        try:
            reply = llm(messages, schema=schema, sample=number, **settings)
        except ItemFailed as failure:
            poll.failures.append(f"{failure.status}: {failure}")
        else:
            (poll.accepted if accepts(reply) else poll.rejected).append(reply)
    return poll


# -- stages

SELECTION, DISAMBIGUATION, DECOMPOSITION = CLAIM_PROMPTS = tuple(
    Path(__file__).with_name(f"claim_{stage}.md") for stage in ("selection", "disambiguation", "decomposition")
)
_SENTENCES_BEFORE, _SENTENCES_AFTER = 5, 5  # in the excerpt; only selection shows the sentences after
_FINAL_PUNCTUATION = " .。．!！?？;；、,"


@dataclass(frozen=True, slots=True)
class Selection:
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


# name, prompt, reply form, sentences after, rejecting verdict and its outcome, verdict that changes the sentence
_FILTERS = (
    ("selection", SELECTION, Selection, _SENTENCES_AFTER, "none", "not selected", "part"),
    ("disambiguation", DISAMBIGUATION, Read, 0, "unresolvable", "ambiguous", "resolved"),
)


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
    pieces: Sequence[AnswerPiece]
    position: int

    def build_prompt(self, path: Path, sentence: str, after: int = 0) -> Messages:
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
    for (name, prompt, schema, after, rejection, outcome, change), count in zip(_FILTERS, votes[:2], strict=True):
        messages = job.build_prompt(prompt, sentence, after)

        def accepts(reply: Any, no: str = rejection) -> bool:
            return bool(reply.verdict != no)

        poll = _poll_replies(llm, messages, schema, accepts, count)
        trace[name] = _trace_entry(poll)
        if poll.outcome != "yes":
            return SentenceResult(outcome if poll.outcome == "no" else poll.outcome, trace=trace)
        reply = poll.accepted[0]
        sentence = reply.sentence.strip() or sentence if reply.verdict == change else sentence
    return _decompose(job, sentence, llm, votes[2], trace)


def _trace_entry(poll: _Poll) -> dict[str, Any]:
    """Return the trace of a stage: all verdicts and one reply.

    The reply is the one used by the next stage, or else the first.
    """
    votes = [*(reply.verdict for reply in (*poll.accepted, *poll.rejected)), *poll.failures]
    relevant = poll.accepted if poll.outcome == "yes" else [*poll.rejected, *poll.accepted]
    if not relevant:
        return {"votes": votes}
    return {"votes": votes, "reasoning": relevant[0].reasoning, "sentence": relevant[0].sentence}


def _decompose(job: SentenceJob, sentence: str, llm: LLM, votes: int, trace: dict[str, Any]) -> SentenceResult:
    """Ask several times for the claims; each claim needs a majority."""
    poll = _poll_replies(llm, job.build_prompt(DECOMPOSITION, sentence), list[str], bool, votes, all_votes=True)
    claims = _majority_claims(poll.accepted, votes_needed(votes)) if poll.outcome == "yes" else ()
    trace["decomposition"] = {"sentence": sentence, "claims": list(claims)}
    trace["decomposition"] |= {"votes": poll.failures} if poll.failures else {}
    outcome = poll.outcome if poll.outcome in ("invalid", "failed") else "nothing decomposed"
    return SentenceResult("claims" if claims else outcome, claims, trace)


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
