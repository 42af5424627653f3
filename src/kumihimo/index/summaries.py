"""questions + metadata -> tags, the labels that they carry; the questions of one label -> its summary."""

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
_MAX_QUESTION_CHARS = 1000  # characters of a question
PART_SEPARATOR = "\n\n---\n\n"
_TYPICAL_QUESTION_TOKENS = 40  # tokens of a question


def tags(question: Question, metadata: Table[Metadata], *, by: tuple[str, ...] = ()) -> Iterable[Tag]:
    """The labels of a question: values of metadata that its document carries (MK-RAG, arXiv:2408.09017).

    by: of which fields, `research_field`, and of which combinations, `research_field x company`: every pair of values.
    None: of each field whose values sort documents, which titles, dates, numbers, addresses, yes and no, and sentences
    do not; nor do they label anything, if they are longer than a line.
    """
    held: dict[str, list[str]] = {}
    for row in metadata.where(document=question.id.partition(".")[0]):
        held.setdefault(row.field, []).extend(row.values)
    for label in summary_labels.metadata_labels(held, by):
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
    """The concepts in the questions that carry a label, an MK Summary (arXiv:2408.09017).

    window: tokens of questions that a model is shown at once. Of more, parts are summed up, then put together; where
    a part ends its questions say, so that one more question has one part summed up anew.
    But: the paper publishes no prompt for it; up to `listed` questions are their own summary, word for word.
    """
    if window < 1 or words < 1:
        raise SettingsError(f"summaries.window = {window}, summaries.words = {words}: both have to be 1 or more")
    label = min(Counter(tag.label for tag in tags).items(), key=lambda item: (-item[1], item[0]))[0]
    questions = _unique_questions(tag.text for tag in tags)
    made = Summary(label, len(questions), 0)
    if not questions:
        return None
    if len(questions) <= listed:
        return _with_text(made, _bullet_list(questions), tokenizer)
    try:
        told = LANGUAGE_OF_QUESTIONS if not language.strip() else f"Write in {language.strip()}."
        return _with_text(
            made,
            _write_summary(summary_labels.label_key(label), questions, tokenizer, llm, window, words, told),
            tokenizer,
        )
    except ItemFailed as failure:
        some = _with_text(made, _bullet_list(questions[: max(listed, 1)]), tokenizer)
        raise ItemFailed(str(failure), fallback=[some]) from failure


def _unique_questions(questions: Iterable[str]) -> list[str]:
    """The questions in the order of what they say, each once, on a line of some length at most.

    >>> _once(["When does it leave?", "ｗｈｅｎ  does it leave?", " ", "Where?"])
    ['When does it leave?', 'Where?']
    """
    lines = sorted({line for question in questions if (line := " ".join(question.split())[:_MAX_QUESTION_CHARS])})
    return summary_labels.unique_labels(lines)


def _bullet_list(texts: Iterable[str]) -> str:
    return "\n".join(f"- {text}" for text in texts)


def _with_text(bare: Summary, text: str, tokenizer: Tokenizer) -> Summary:
    return replace(bare, text=text, tokens=len(tokenizer(text)))


def _write_summary(
    label: str, questions: Sequence[str], tokenizer: Tokenizer, llm: LLM, window: int, words: int, language: str
) -> str:
    """The summary in a model's words: of packs of questions, then of packs of what that gave, until it is one text."""

    def sum_up(pack: Sequence[str]) -> str | ItemFailed:
        given = {"label": label, "words": str(words), "language": language}
        asked = (
            render_prompt(PARTS_PROMPT, parts=PART_SEPARATOR.join(pack), **given)
            if parts
            else render_prompt(PROMPT, questions=_bullet_list(pack), **given)
        )
        try:
            return llm(asked, parse=require_complete_text)
        except ItemFailed as failure:  # the others are wanted all the same: they are remembered
            return failure

    parts, texts, usual = False, list(questions), _TYPICAL_QUESTION_TOKENS
    while not parts or len(texts) > 1:
        lengths = {text: len(tokenizer(text)) for text in texts}
        cut = pack_texts(texts, lengths, window, max(2, window // usual))
        if sum(lengths.values()) <= window:
            cut = iter([texts])
        made = [pack[0] if parts and len(pack) == 1 else sum_up(pack) for pack in cut]
        for failure in made:
            if isinstance(failure, ItemFailed):
                raise failure
        parts, texts, usual = True, sorted({text for text in made if isinstance(text, str)}), 2 * words
    return texts[0]
