"""questions and metadata -> tags, their labels; the questions of one label -> its summary."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Annotated
from unicodedata import normalize

from kumihimo.core import context, digests, settings, table
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.core.records import NOT_READ, Metadata, Question, Summary, Tag
from kumihimo.llm.prompts import number_sources, render_prompt, require_complete_text
from kumihimo.llm.protocols import LLM
from kumihimo.text import packs, sentences

PROMPT = Path(__file__).with_suffix(".md")
PARTS_PROMPT = Path(__file__).with_name("summaries_parts.md")
LANGUAGE_OF_QUESTIONS = "Write in the language of the questions; where they are in several, in that of most of them."
_MAX_QUESTION_CHARS = 1000
_TYPICAL_QUESTION_TOKENS = 40

MAX_QUESTION_LABEL_CHARS = 200  # a longer value is no name
_MAX_CATEGORY_CHARS, _MAX_CATEGORY_WORDS = 60, 8  # of a category in a field that the setting does not name
_COMBINATION = re.compile(r"(?<!\s)\s+[x×]\s+", re.I)
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[^\W\d_]")
_SENTENCE_END = re.compile(rf"[.!?]\s|[{sentences.TERMINALS}\n]")
_YES_NO_WORDS = frozenset("true false yes no none null n/a はい いいえ なし 是 否".split())  # noqa: SIM905
# Last words of field names with text, or with a different value in each document.
_NON_CATEGORY_FIELDS = frozenset(
    """abstract address body comment comments content contents created creation date day description doi email file
    filename hash href id isbn issn key link links modified note notes number page pages path published slug subtitle
    summary text time timestamp title updated uri url urls uuid version
    題名 表題 題 タイトル 件名 日付 日 日時 番号 要約 概要 本文 备注 標題 标题 日期 时间 摘要 正文 编号""".split()  # noqa: SIM905
) | {NOT_READ}


def tags(question: Question, metadata: table.Table[Metadata], *, by: settings.Names = ()) -> Iterable[Tag]:
    """Return the labels of a question: metadata values of its document.

    (MK-RAG, arXiv:2408.09017.) by: fields, `research_field`, and combinations of fields, `research_field x company`:
    every pair of values. Empty: each field with category-like values; titles, dates, numbers, addresses, yes and no,
    and sentences are none. A value longer than a line is never a label.
    """
    by_field: dict[str, list[str]] = {}
    for row in metadata.where(document=question.id.partition(".")[0]):
        by_field.setdefault(row.field, []).extend(row.values)
    for label in metadata_labels(by_field, by):
        yield Tag(digests.hash_parts(label_key(label)), label, text=question.text)


def summaries(
    tags: table.Group[Tag],
    tokenizer: context.Tokenizer,
    llm: LLM,
    *,
    window: settings.Tokens = 8000,
    words: Annotated[int, settings.Bounds(1, 100_000)] = 400,
    listed: settings.Count = 10,
    language: settings.Line = "",
) -> Summary | None:
    """Summarise the concepts in the questions of one label (MK Summary, arXiv:2408.09017).

    window: tokens of questions in one call. More questions are summarised in parts, then combined. The questions
    determine where a part ends, so a new question changes only one part.
    But: the paper publishes no prompt for this; up to `listed` questions are listed word for word instead.
    """
    label = min(Counter(tag.label for tag in tags).items(), key=lambda item: (-item[1], item[0]))[0]
    questions = _unique_questions(tag.text for tag in tags)
    if not questions:
        return None
    failure = None
    if len(questions) <= listed:
        text = _bullet_list(questions)
    else:
        language_rule = f"Write in {language.strip()}." if language.strip() else LANGUAGE_OF_QUESTIONS
        try:
            text = _write_summary(label_key(label), questions, tokenizer, llm, window, words, language_rule)
        except ItemFailed as error:
            failure, text = error, _bullet_list(questions[: max(listed, 1)])
    summary = Summary(label, len(questions), len(tokenizer(text)), text=text)
    if failure:
        raise ItemFailed(str(failure), fallback=[summary]) from failure
    return summary


def _unique_questions(questions: Iterable[str]) -> list[str]:
    """Return the questions sorted, each once, on one line of limited length.

    >>> _unique_questions(["When does it leave?", "ｗｈｅｎ  does it leave?", " ", "Where?"])
    ['When does it leave?', 'Where?']
    """
    lines = sorted({line for question in questions if (line := " ".join(question.split())[:_MAX_QUESTION_CHARS])})
    return unique_labels(lines)


def _bullet_list(texts: Iterable[str]) -> str:
    return "\n".join(f"- {text}" for text in texts)


def _write_summary(
    label: str, questions: Sequence[str], tokenizer: context.Tokenizer, llm: LLM, window: int, words: int, language: str
) -> str:
    """Write the summary with a model.

    Summarise packs of questions, then packs of the results, until one text is left.
    """

    def sum_up(pack: Sequence[str]) -> str | ItemFailed:
        values = {"label": label, "words": str(words), "language": language}
        if is_combining:
            messages = render_prompt(PARTS_PROMPT, parts=number_sources(pack), **values)
        else:
            messages = render_prompt(PROMPT, questions=_bullet_list(pack), **values)
        try:
            return llm(messages, parse=require_complete_text)
        except ItemFailed as failure:  # go on: the replies for the other packs are cached
            return failure

    is_combining, texts, typical_tokens = False, list(questions), _TYPICAL_QUESTION_TOKENS
    while not is_combining or len(texts) > 1:
        lengths = {text: len(tokenizer(text)) for text in texts}
        text_packs = packs.pack_texts(texts, lengths, window, max(2, window // typical_tokens))
        if sum(lengths.values()) <= window:
            text_packs = iter([texts])
        results = [pack[0] if is_combining and len(pack) == 1 else sum_up(pack) for pack in text_packs]
        for failure in results:
            if isinstance(failure, ItemFailed):
                raise failure
        is_combining, typical_tokens = True, 2 * words
        texts = sorted({text for text in results if isinstance(text, str)})
    return texts[0]


def label_key(text: str) -> str:
    """Return a comparison key of a label.

    Case, width and spaces do not count.

    >>> label_key("research_field = ＮＬＰ") == label_key("Research field  =  nlp")
    True
    """
    return " ".join(normalize("NFKC", text).casefold().replace("_", " ").split())


def metadata_labels(metadata: Mapping[str, Sequence[str]], by: Iterable[str]) -> list[str]:
    """Return the labels of a document, field by field.

    by: fields, and combinations of fields; empty: all fields with category-like values.

    >>> known = {"title": ["Tides"], "research_field": ["NLP", "ML"], "company": ["Tern & Co"], "year": ["2024"]}
    >>> metadata_labels(known, ())
    ['research_field = NLP', 'research_field = ML', 'company = Tern & Co']
    >>> metadata_labels(known, ("year", "Research Field x company"))[1:]
    ['research_field = NLP x company = Tern & Co', 'research_field = ML x company = Tern & Co']
    """
    lines = {name: list(_short_lines(values)) for name, values in metadata.items()}
    by_field = {label_key(name): [f"{name} = {value}" for value in values] for name, values in lines.items()}
    combinations = [[label_key(name) for name in _COMBINATION.split(text.strip())] for text in by if text.strip()]
    labels = (
        " x ".join(combined) for names in combinations for combined in product(*(by_field.get(n, []) for n in names))
    )
    categories = (
        f"{name} = {value}" for name, values in lines.items() for value in values if _is_category(name, value)
    )
    return unique_labels(labels if combinations else categories)


def unique_labels(texts: Iterable[str]) -> list[str]:
    """Return the texts in order, without repeats in another spelling.

    >>> unique_labels(["NLP", "ＮＬＰ", "nlp", "ML"])
    ['NLP', 'ML']
    """
    first: dict[str, str] = {}
    for text in texts:
        first.setdefault(label_key(text), text)
    return list(first.values())


def _short_lines(values: Iterable[str]) -> Iterator[str]:
    """Yield each value on one line, without values that are too long."""
    for value in values:
        if len(value) <= MAX_QUESTION_LABEL_CHARS and (line := " ".join(value.split())):
            yield line


def _is_category(field: str, value: str) -> bool:
    """Return whether documents are likely to share the value as a category.

    >>> values = ("tide gates", "2024-05-01", "https://a.org/b", "yes", "It rose. So?")
    >>> [_is_category("topic", value) for value in values]
    [True, False, False, False, False]
    >>> [_is_category(field, "Tides") for field in ("title", "doc_id", "Sub-title", "原題", "tags")]
    [False, False, False, True, True]
    """
    names = {field, label_key(field), re.split(r"[\s\-.]+", label_key(field))[-1]}
    if not names.isdisjoint(_NON_CATEGORY_FIELDS) or label_key(value) in _YES_NO_WORDS:
        return False
    letters, digits = len(_LETTER.findall(value)), len(_DIGIT.findall(value))
    is_brief = len(value) <= _MAX_CATEGORY_CHARS and len(value.split()) <= _MAX_CATEGORY_WORDS
    return is_brief and letters > digits and not ("://" in value or "@" in value or _SENTENCE_END.search(value))


def resolve_label_id(value: str, labels: Iterable[tuple[str, str]]) -> str:
    """Return the id of the label that a text means.

    Match the whole label or its values alone. Raise SettingsError if no label matches, or several do.

    labels: (id, label) pairs.

    >>> known = [("1", "topic = NLP"), ("2", "topic = NLP x company = Tern"), ("3", "tags = Tern"), ("4", "by = Tern")]
    >>> resolve_label_id("nlp", known), resolve_label_id("ＮＬＰ × tern", known), resolve_label_id("Tags=Tern", known)
    ('1', '2', '3')
    >>> resolve_label_id("tern", known)
    Traceback (most recent call last):
    kumihimo.core.errors.SettingsError: 'tern' may be 'by = Tern' or 'tags = Tern': write one of these
    """
    ids = dict(sorted((label, id) for id, label in labels))
    query = label_key(_COMBINATION.sub(" x ", re.sub("[=＝]", " = ", value)))
    matches = [label for label in ids if label_key(label) == query] or [
        label for label in ids if label_key(_label_values(label)) == query
    ]
    if len(matches) == 1:
        return ids[matches[0]]
    if matches:
        raise SettingsError(f"{value!r} may be {' or '.join(map(repr, matches))}: write one of these")
    by_spelling = {variant: label for label in ids for variant in (label_key(label), label_key(_label_values(label)))}
    suggestions = dict.fromkeys(
        repr(by_spelling[closest]) for closest in get_close_matches(query, by_spelling, n=3, cutoff=0.5)
    )
    hint = f"; did you mean {' or '.join(suggestions)}?" if suggestions else ":"
    raise SettingsError(f"no summary of {value!r}{hint} `kumi summaries` lists them")


def _label_values(label: str) -> str:
    """Return a label without its field names.

    >>> _label_values("research_field = NLP x company = Tern & Co")
    'NLP x Tern & Co'
    """
    return " x ".join(part.partition(" = ")[2] for part in label.split(" x "))
