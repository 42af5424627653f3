"""question -> simple questions by a model that knows the corpus -> stored question-answer pairs near them."""

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.errors import SettingsError, UnparsableReply
from kumihimo.core.records import Chunk, Question, Summary
from kumihimo.core.settings import Bounds, Line, StartRows, Tokens
from kumihimo.core.signature import IndexSizes, MethodSettings, QueryCost, declare
from kumihimo.core.table import Table
from kumihimo.index.summaries import label_key, resolve_label_id
from kumihimo.llm import prompts, protocols
from kumihimo.methods.shared.map_step import SOURCE_TOKENS
from kumihimo.methods.shared.ranking import merge_best, new_questions
from kumihimo.search.protocols import VectorSearch
from kumihimo.text import tokens, translation
from kumihimo.text.question import ParsedQuestion

PROMPT = Path(__file__).with_suffix(".md")
log = logging.getLogger("kumihimo")
_NUMBER = r"\d{1,2}|[０-９]{1,2}|[一二三四五六七八九十]{1,3}|[ivx]{1,4}|[a-z]"
_QUESTION_WORD = r"(?:question|query|質問|問い?|问题|問題|q)\s*"
_NUMBERED_LINE = (  # compiled on first use: that is slow
    rf"[\s>*_#|\-•]*(?:[①-⑳]|[(（\[【]\s*(?:{_QUESTION_WORD})?(?:{_NUMBER})\s*[)）\]】]"
    rf"|{_QUESTION_WORD}(?:{_NUMBER})\s*[.．:：)）、]"
    rf"|(?:{_NUMBER})(?:\s*[.．)）、:：](?!\d)|\s+[-–—]\s))[.．:：、]?[*_]*\s*(.*)"
)
_BULLETED_LINE = r"\s*[-*•・]\s+(.*)"
_QUESTION_LINE = r"(.*[?？][\s\"'”’」』,、\]*_)]*)"
_MAX_PAIRS = 15  # the best of all searches
_POOL_GROWTH = 4  # factor of the next search if too few distinct questions were found


def meta_cost(settings: MethodSettings, sizes: IndexSizes) -> QueryCost:
    """Return one call, for the queries; it may read a summary."""
    prompt = sizes.prompt_tokens(PROMPT)
    summary = sizes.tokens("summaries") + SOURCE_TOKENS
    return QueryCost.for_calls((1, 1), (prompt, prompt + summary), (1, settings["n"] + 1))


@declare(best_for="many documents of one kind, by the questions they answer", calls=meta_cost)
def meta(
    question: str,
    chunks: Table[Chunk],
    questions: Table[Question],
    summaries: Table[Summary],
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    llm: protocols.LLM,
    rerank: protocols.Reranker,
    *,
    value: Line = "",
    summary: bool = True,
    pairs: bool = True,
    n: Annotated[int, Bounds(1, 50, asked=(1, 20))] = 5,
    k: StartRows = 5,
    budget: Tokens = 8000,
    reranker: protocols.RerankerName = "none",
) -> Context:
    """Search stored questions with simple questions by a model (MK-RAG, arXiv:2408.09017).

    One call writes up to `n` questions from a summary of the stored ones: the summary named by `value`, such as
    `research_field = NLP`, or else the nearest to the question, if it has a word of it. Each finds the `k` nearest
    stored questions with their answers; the best 15 count. `summary=False` is the arm of the paper without a summary;
    `pairs=False` searches chunks.
    But: results rank by their best score, scaled from 0 to 1 for each search; a question answered by several documents
    is one piece of evidence.
    """
    if value.strip() and not summary:
        raise SettingsError("meta.value names a summary, but meta.summary = false uses none: leave one of them out")
    selected = _select_summary(question, summaries, vector_search, value) if summary else None
    queries = _write_questions(question, selected, llm, n)
    rankings = _search_each(questions if pairs else chunks, queries or [question], vector_search, k)
    merged = _group_duplicates(merge_best(Context.fuse([ranking]) for ranking in rankings))
    context = rerank(question, merged, reranker).top(_MAX_PAIRS).fit(budget, tokenizer)
    return replace(context, queries=tuple(new_questions(queries, [question])))


def _select_summary(
    question: str, summaries: Table[Summary], vector_search: VectorSearch, value: str
) -> Summary | None:
    """Return the named summary, or the nearest one, if any.

    Raises SettingsError if `value` names no summary.
    """
    if value.strip():
        return summaries[resolve_label_id(value, ((id, label) for id, label in summaries.columns("id", "label")))]
    nearest = next((item.record for item in vector_search(summaries, question, k=1)), None)
    return nearest if isinstance(nearest, Summary) and _bears_on(nearest.index_text, question) else None


def _bears_on(text: str, question: str) -> bool:
    """Return whether a text has words of a question, or another script.

    >>> [_bears_on("Tide gates", text) for text in ("Who opens the gates?", "Who sells eels?", "誰が売るのですか")]
    [True, False, True]
    """
    if translation.script_language(question, "") != translation.script_language(text, ""):
        return True
    return not set(tokens.subject_terms(text)).isdisjoint(ParsedQuestion(question).terms)


# -- writing the queries


def _write_questions(question: str, selected: Summary | None, llm: protocols.LLM, n: int) -> list[str]:
    """Return the questions to search for; empty if the reply has none."""
    prompt = prompts.render_prompt(PROMPT, n=str(n), summary=selected.index_text if selected else "", question=question)
    try:
        reply = llm(prompt, parse=prompts.require_text)
    except UnparsableReply as error:
        log.warning("meta searches for the question itself: %s", error)
        return []
    return new_questions(_parse_questions(reply), [])[:n]


def _parse_questions(text: str) -> list[str]:
    r"""Return the questions in a reply.

    Numbered lines count; if there are none, bulleted lines or lines that end as a question.

    >>> _parse_questions("Sure!\n\n1. **What is it?**\n２）いつですか。\n(3) Where, in 2019?\n\nHope this helps.")
    ['What is it?', 'いつですか。', 'Where, in 2019?']
    >>> _parse_questions('["What is it?",\n"And where?"]'), _parse_questions("- tide gates\n* ferries")
    (['What is it?', 'And where?'], ['tide gates', 'ferries'])
    >>> _parse_questions("I cannot say.")
    []
    """
    lines = [line for line in text.splitlines() if line.strip()]
    for pattern in (_NUMBERED_LINE, _BULLETED_LINE, _QUESTION_LINE):
        matches = filter(None, (re.fullmatch(pattern, line, re.I) for line in lines))
        if questions := list(filter(None, (_clean_line(match[1]) for match in matches))):
            return questions
    return []


def _clean_line(line: str) -> str:
    return " ".join(line.split()).strip("\"'“”‘’「」『』`*_[], ").strip()


# -- searching


def _search_each(table: Table[Any], queries: Sequence[str], vector_search: VectorSearch, k: int) -> list[Context]:
    """Return the `k` nearest distinct rows to each query.

    Rows with the same question count as one.
    """
    limit = k + 1
    while True:
        rankings = vector_search.search_many(table, queries, k=limit)
        grouped = [_group_duplicates(ranking) for ranking in rankings]
        if all(len(ranking) > k or len(rows) < limit for ranking, rows in zip(grouped, rankings, strict=True)):
            return [ranking.top(k) for ranking in grouped]
        limit *= _POOL_GROWTH


def _group_duplicates(ranking: Context) -> Context:
    """Group rows with the same question under the first one."""
    groups: dict[str, list[Evidence]] = {}
    for item in ranking:
        key = label_key(item.text) if isinstance(item.record, Question) else item.record.id
        groups.setdefault(key, []).append(item)
    return Context(tuple(map(_merge_group, groups.values())))


def _merge_group(group: Sequence[Evidence]) -> Evidence:
    """Return the first row, with the others as its duplicates."""
    first, records = group[0], {part.record.id: part.record for item in group for part in item.parts}
    return replace(first, duplicates=tuple(record for id, record in records.items() if id != first.record.id))
