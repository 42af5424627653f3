"""questions and metadata -> tags, their labels; the questions of one label -> its summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from kumihimo.core.context import Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.core.records import Metadata, Question, Summary, Tag
from kumihimo.core.table import Group, Table
from kumihimo.index import summary_labels
from kumihimo.index.merge_descriptions import pack_texts
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM
from kumihimo.llm.structured import require_complete_text

PROMPT = Path(__file__).with_suffix(".md")
PARTS_PROMPT = Path(__file__).with_name("summaries_parts.md")
LANGUAGE_OF_QUESTIONS = "Write in the language of the questions; where they are in several, in that of most of them."
_MAX_QUESTION_CHARS = 1000
PART_SEPARATOR = "\n\n---\n\n"
_TYPICAL_QUESTION_TOKENS = 40


def tags(question: Question, metadata: Table[Metadata], *, by: tuple[str, ...] = ()) -> Iterable[Tag]:
    """Return the labels of a question: metadata values of its document.

    (MK-RAG, arXiv:2408.09017.) by: fields, `research_field`, and combinations of fields, `research_field x company`:
    every pair of values. Empty: each field with category-like values; titles, dates, numbers, addresses, yes and no,
    and sentences are none. A value longer than a line is never a label.
    """
    by_field: dict[str, list[str]] = {}
    for row in metadata.where(document=question.id.partition(".")[0]):
        by_field.setdefault(row.field, []).extend(row.values)
    for label in summary_labels.metadata_labels(by_field, by):
        yield Tag(hash_parts(summary_labels.label_key(label)), label, text=question.text)


def summaries(
    tags: Group[Tag],
    tokenizer: Tokenizer,
    llm: LLM,
    *,
    window: int = 8000,
    words: int = 400,
    listed: int = 10,
    language: str = "",
) -> Summary | None:
    """Summarise the concepts in the questions of one label (MK Summary, arXiv:2408.09017).

    window: tokens of questions in one call. More questions are summarised in parts, then combined. The questions
    determine where a part ends, so a new question changes only one part.
    But: the paper publishes no prompt for this; up to `listed` questions are listed word for word instead.
    """
    if window < 1 or words < 1:
        raise SettingsError(f"summaries.window = {window}, summaries.words = {words}: both have to be 1 or more")
    label = min(Counter(tag.label for tag in tags).items(), key=lambda item: (-item[1], item[0]))[0]
    questions = _unique_questions(tag.text for tag in tags)
    empty = Summary(label, len(questions), 0)
    if not questions:
        return None
    if len(questions) <= listed:
        return _with_text(empty, _bullet_list(questions), tokenizer)
    try:
        language_rule = LANGUAGE_OF_QUESTIONS if not language.strip() else f"Write in {language.strip()}."
        return _with_text(
            empty,
            _write_summary(summary_labels.label_key(label), questions, tokenizer, llm, window, words, language_rule),
            tokenizer,
        )
    except ItemFailed as failure:
        partial = _with_text(empty, _bullet_list(questions[: max(listed, 1)]), tokenizer)
        raise ItemFailed(str(failure), fallback=[partial]) from failure


def _unique_questions(questions: Iterable[str]) -> list[str]:
    """Return the questions sorted, each once, on one line of limited length.

    >>> _unique_questions(["When does it leave?", "ｗｈｅｎ  does it leave?", " ", "Where?"])
    ['When does it leave?', 'Where?']
    """
    lines = sorted({line for question in questions if (line := " ".join(question.split())[:_MAX_QUESTION_CHARS])})
    return summary_labels.unique_labels(lines)


def _bullet_list(texts: Iterable[str]) -> str:
    return "\n".join(f"- {text}" for text in texts)


def _with_text(bare: Summary, text: str, tokenizer: Tokenizer) -> Summary:
    """Return the summary with this text and its number of tokens."""
    return replace(bare, text=text, tokens=len(tokenizer(text)))


def _write_summary(
    label: str, questions: Sequence[str], tokenizer: Tokenizer, llm: LLM, window: int, words: int, language: str
) -> str:
    """Write the summary with a model.

    Summarise packs of questions, then packs of the results, until one text is left.
    """

    def sum_up(pack: Sequence[str]) -> str | ItemFailed:
        values = {"label": label, "words": str(words), "language": language}
        messages = (
            render_prompt(PARTS_PROMPT, parts=PART_SEPARATOR.join(pack), **values)
            if is_combining
            else render_prompt(PROMPT, questions=_bullet_list(pack), **values)
        )
        try:
            return llm(messages, parse=require_complete_text)
        except ItemFailed as failure:  # go on: the replies for the other packs are cached
            return failure

    is_combining, texts, typical_tokens = False, list(questions), _TYPICAL_QUESTION_TOKENS
    while not is_combining or len(texts) > 1:
        lengths = {text: len(tokenizer(text)) for text in texts}
        text_packs = pack_texts(texts, lengths, window, max(2, window // typical_tokens))
        if sum(lengths.values()) <= window:
            text_packs = iter([texts])
        results = [pack[0] if is_combining and len(pack) == 1 else sum_up(pack) for pack in text_packs]
        for failure in results:
            if isinstance(failure, ItemFailed):
                raise failure
        is_combining, typical_tokens = True, 2 * words
        texts = sorted({text for text in results if isinstance(text, str)})
    return texts[0]
