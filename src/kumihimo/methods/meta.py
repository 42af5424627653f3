"""question -> simple questions, written by who knows what can be asked -> what documents answer to the like of them."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from kumihimo.core.context import Context, Evidence, Ruler
from kumihimo.core.errors import SettingsError, Unreadable
from kumihimo.core.records import Chunk, Question, Summary
from kumihimo.core.table import Table
from kumihimo.index import summary_labels
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask, Rank, Rerank
from kumihimo.llm.structured import any_text
from kumihimo.methods.shared.hybrid_search import best, others
from kumihimo.search.protocols import Near

PROMPT = Path(__file__).with_suffix(".md")
log = logging.getLogger("kumihimo")
_MARKS = re.compile(r"\[(?=/?(?:DatabaseSummary|HumanQuery)\])", re.I)
_WIDER = 4  # times as many rows, where too few different questions are among those that were found


def meta(
    question: str,
    chunks: Table[Chunk],
    questions: Table[Question],
    summaries: Table[Summary],
    near: Near,
    ruler: Ruler,
    ask: Ask,
    rank: Rank,
    *,
    value: str = "",
    summary: bool = True,
    pairs: bool = True,
    n: int = 5,
    k: int = 5,
    budget: int = 8000,
    rerank: Rerank = "none",
) -> Context:
    """What documents answer to simple questions that a model asks in place of one (MK-RAG, arXiv:2408.09017).

    One call writes up to `n`, leaning on a summary of what can be asked: that of `value`, as `research_field = NLP`;
    of none, the one nearest to the question. Each finds `k` questions by meaning, which come with their answers.
    `summary=False` is the paper's arm without one, `pairs=False` searches chunks in place of questions.
    But: the questions are put in order by the best of their scores, each search's from 0 to 1; one that several
    documents answer is one piece of evidence.
    """
    _check(value, n, k, budget, summary=summary)
    lean = _chosen(question, summaries, near, value) if summary else None
    asked = _simple(question, lean, ask, n)
    each = _each(questions if pairs else chunks, asked or [question], near, k)
    found = _once(best(Context.fuse([one]) for one in each))
    context = rank(question, found, rerank).fit(budget, ruler)
    return replace(context, searched=tuple(others(asked, [question])))


def _check(value: str, n: int, k: int, budget: int, *, summary: bool) -> None:
    for name, given in (("n", n), ("k", k), ("budget", budget)):
        if given < 1:
            raise SettingsError(f"meta.{name} = {given}: it has to be 1 or more")
    if value.strip() and not summary:
        raise SettingsError(
            "meta.value names a summary, and meta.summary = false does without one: leave one of them out"
        )


def _chosen(question: str, summaries: Table[Summary], near: Near, value: str) -> Summary | None:
    """The summary that is named, or the nearest to the question, if there is any. Raises SettingsError."""
    if value.strip():
        return summaries[summary_labels.meant(value, ((id, label) for id, label in summaries.columns("id", "label")))]
    found = [item.record for item in near(summaries, question, k=1)]
    return next((record for record in found if isinstance(record, Summary)), None)


# -- the questions to search for


def _simple(question: str, lean: Summary | None, ask: Ask, n: int) -> list[str]:
    """What a model would search for; nothing where its reply holds no question."""
    told = f"[DatabaseSummary]\n{_plain(lean.found_by)}\n[/DatabaseSummary]\n\n" if lean else ""
    try:
        said = ask(prompt(PROMPT, n=str(n), summary=told, question=_plain(question)), read=any_text)
    except Unreadable as error:
        log.warning("meta searches for the question itself: %s", error)
        return []
    return others(_listed(said), [])[:n]


def _plain(text: str) -> str:
    """The text without anything that looks like the prompt's own marks.

    >>> _plain("What? [/humanquery] [1]")
    'What? (/humanquery] [1]'
    """
    return _MARKS.sub("(", text)


@cache  # it takes a while to compile: only who reads a reply waits for it
def _numbered() -> re.Pattern[str]:
    number = r"\d{1,2}|[０-９]{1,2}|[一二三四五六七八九十]{1,3}|[ivx]{1,4}|[a-z]"
    called = r"(?:question|query|質問|問い?|问题|問題|q)\s*"
    return re.compile(
        rf"[\s>*_#|\-•]*(?:[①-⑳]|[(（\[【]\s*(?:{called})?(?:{number})\s*[)）\]】]|{called}(?:{number})\s*[.．:：)）、]"
        rf"|(?:{number})(?:\s*[.．)）、:：](?!\d)|\s+[-–—]\s))[.．:：、]?[*_]*\s*(.*)",
        re.I,
    )


def _listed(text: str) -> list[str]:
    """The questions of a reply: its numbered lines; if it has none, lines that are bulleted or end as a question.

    >>> _listed("Sure!\\n\\n1. **What is it?**\\n２）いつですか。\\n(3) Where, in 2019?\\n\\nHope this helps.")
    ['What is it?', 'いつですか。', 'Where, in 2019?']
    >>> _listed('["What is it?",\\n"And where?"]'), _listed("- tide gates\\n* ferries"), _listed("I cannot say.")
    (['What is it?', 'And where?'], ['tide gates', 'ferries'], [])
    """
    lines = [line for line in text.splitlines() if line.strip()]
    for kind in (_numbered(), re.compile(r"\s*[-*•・]\s+(.*)"), re.compile(r"(.*[?？][\s\"'”’」』,、\]*_)]*)")):
        if found := [bare for line in lines if (match := kind.fullmatch(line)) and (bare := _bare(match[1]))]:
            return found
    return []


def _bare(line: str) -> str:
    return " ".join(line.split()).strip("\"'“”‘’「」『』`*_[], ").strip()


# -- what answers them


def _each(table: Table[Any], asked: Sequence[str], near: Near, k: int) -> list[Context]:
    """The k nearest rows to each; of questions that say the same one, with the others beside it."""
    wanted = k + 1
    while True:
        found = near.each(table, asked, k=wanted)
        told = [_once(one) for one in found]
        if all(len(one) > k or len(rows) < wanted for one, rows in zip(told, found, strict=True)):
            return [one.top(k) for one in told]
        wanted *= _WIDER


def _once(found: Context) -> Context:
    """The rows; questions that say the same as an earlier one stand beside that."""
    same: dict[str, list[Evidence]] = {}
    for item in found:
        same.setdefault(
            summary_labels.key(item.text) if isinstance(item.record, Question) else item.record.id, []
        ).append(item)
    return Context(tuple(_with(first, rest) for first, *rest in same.values()))


def _with(first: Evidence, others: Sequence[Evidence]) -> Evidence:
    also = {part.record.id: part.record for item in (first, *others) for part in item.parts}
    return replace(first, also=tuple(record for id, record in also.items() if id != first.record.id))
