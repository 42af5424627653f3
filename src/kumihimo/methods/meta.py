"""question -> simple questions, written by who knows what can be asked -> what documents answer to the like of them."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.errors import SettingsError, UnparsableReply
from kumihimo.core.records import Chunk, Question, Summary
from kumihimo.core.table import Table
from kumihimo.index import summary_labels
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.llm.structured import require_text
from kumihimo.methods.shared.hybrid_search import merge_best, new_questions
from kumihimo.search.protocols import VectorSearch

PROMPT = Path(__file__).with_suffix(".md")
log = logging.getLogger("kumihimo")
_PROMPT_TAGS = re.compile(r"\[(?=/?(?:DatabaseSummary|HumanQuery)\])", re.I)
_POOL_GROWTH = 4  # times as many rows, where too few different questions are among those that were found


def meta(
    question: str,
    chunks: Table[Chunk],
    questions: Table[Question],
    summaries: Table[Summary],
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    llm: LLM,
    rerank: Reranker,
    *,
    value: str = "",
    summary: bool = True,
    pairs: bool = True,
    n: int = 5,
    k: int = 5,
    budget: int = 8000,
    reranker: RerankerName = "none",
) -> Context:
    """What documents answer to simple questions that a model asks in place of one (MK-RAG, arXiv:2408.09017).

    One call writes up to `n`, leaning on a summary of what can be asked: that of `value`, as `research_field = NLP`;
    of none, the one nearest to the question. Each finds `k` questions by meaning, which come with their answers.
    `summary=False` is the paper's arm without one, `pairs=False` searches chunks in place of questions.
    But: the questions are put in order by the best of their scores, each search's from 0 to 1; one that several
    documents answer is one piece of evidence.
    """
    _check_settings(value, n, k, budget, summary=summary)
    lean = _select_summary(question, summaries, vector_search, value) if summary else None
    asked = _write_questions(question, lean, llm, n)
    each = _search_each(questions if pairs else chunks, asked or [question], vector_search, k)
    found = _group_duplicates(merge_best(Context.fuse([one]) for one in each))
    context = rerank(question, found, reranker).fit(budget, tokenizer)
    return replace(context, queries=tuple(new_questions(asked, [question])))


def _check_settings(value: str, n: int, k: int, budget: int, *, summary: bool) -> None:
    for name, given in (("n", n), ("k", k), ("budget", budget)):
        if given < 1:
            raise SettingsError(f"meta.{name} = {given}: it has to be 1 or more")
    if value.strip() and not summary:
        raise SettingsError(
            "meta.value names a summary, and meta.summary = false does without one: leave one of them out"
        )


def _select_summary(
    question: str, summaries: Table[Summary], vector_search: VectorSearch, value: str
) -> Summary | None:
    """The summary that is named, or the nearest to the question, if there is any. Raises SettingsError."""
    if value.strip():
        return summaries[
            summary_labels.resolve_label_id(value, ((id, label) for id, label in summaries.columns("id", "label")))
        ]
    found = [item.record for item in vector_search(summaries, question, k=1)]
    return next((record for record in found if isinstance(record, Summary)), None)


# -- the questions to search for


def _write_questions(question: str, lean: Summary | None, llm: LLM, n: int) -> list[str]:
    """What a model would search for; nothing where its reply holds no question."""
    told = f"[DatabaseSummary]\n{_escape_tags(lean.index_text)}\n[/DatabaseSummary]\n\n" if lean else ""
    try:
        said = llm(render_prompt(PROMPT, n=str(n), summary=told, question=_escape_tags(question)), parse=require_text)
    except UnparsableReply as error:
        log.warning("meta searches for the question itself: %s", error)
        return []
    return new_questions(_parse_questions(said), [])[:n]


def _escape_tags(text: str) -> str:
    """The text without anything that looks like the prompt's own marks.

    >>> _plain("What? [/humanquery] [1]")
    'What? (/humanquery] [1]'
    """
    return _PROMPT_TAGS.sub("(", text)


@cache  # it takes a while to compile: only who reads a reply waits for it
def _numbered_line() -> re.Pattern[str]:
    number = r"\d{1,2}|[０-９]{1,2}|[一二三四五六七八九十]{1,3}|[ivx]{1,4}|[a-z]"
    called = r"(?:question|query|質問|問い?|问题|問題|q)\s*"
    return re.compile(
        rf"[\s>*_#|\-•]*(?:[①-⑳]|[(（\[【]\s*(?:{called})?(?:{number})\s*[)）\]】]|{called}(?:{number})\s*[.．:：)）、]"
        rf"|(?:{number})(?:\s*[.．)）、:：](?!\d)|\s+[-–—]\s))[.．:：、]?[*_]*\s*(.*)",
        re.I,
    )


def _parse_questions(text: str) -> list[str]:
    """The questions of a reply: its numbered lines; if it has none, lines that are bulleted or end as a question.

    >>> _listed("Sure!\\n\\n1. **What is it?**\\n２）いつですか。\\n(3) Where, in 2019?\\n\\nHope this helps.")
    ['What is it?', 'いつですか。', 'Where, in 2019?']
    >>> _listed('["What is it?",\\n"And where?"]'), _listed("- tide gates\\n* ferries"), _listed("I cannot say.")
    (['What is it?', 'And where?'], ['tide gates', 'ferries'], [])
    """
    lines = [line for line in text.splitlines() if line.strip()]
    for kind in (_numbered_line(), re.compile(r"\s*[-*•・]\s+(.*)"), re.compile(r"(.*[?？][\s\"'”’」』,、\]*_)]*)")):
        if found := [bare for line in lines if (match := kind.fullmatch(line)) and (bare := _clean_line(match[1]))]:
            return found
    return []


def _clean_line(line: str) -> str:
    return " ".join(line.split()).strip("\"'“”‘’「」『』`*_[], ").strip()


# -- what answers them


def _search_each(table: Table[Any], asked: Sequence[str], vector_search: VectorSearch, k: int) -> list[Context]:
    """The k nearest rows to each; of questions that say the same one, with the others beside it."""
    wanted = k + 1
    while True:
        found = vector_search.search_many(table, asked, k=wanted)
        told = [_group_duplicates(one) for one in found]
        if all(len(one) > k or len(rows) < wanted for one, rows in zip(told, found, strict=True)):
            return [one.top(k) for one in told]
        wanted *= _POOL_GROWTH


def _group_duplicates(found: Context) -> Context:
    """The rows; questions that say the same as an earlier one stand beside that."""
    same: dict[str, list[Evidence]] = {}
    for item in found:
        same.setdefault(
            summary_labels.label_key(item.text) if isinstance(item.record, Question) else item.record.id, []
        ).append(item)
    return Context(tuple(_add_duplicates(first, rest) for first, *rest in same.values()))


def _add_duplicates(first: Evidence, others: Sequence[Evidence]) -> Evidence:
    also = {part.record.id: part.record for item in (first, *others) for part in item.parts}
    return replace(first, duplicates=tuple(record for id, record in also.items() if id != first.record.id))
