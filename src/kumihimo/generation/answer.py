"""question + context -> Answer, with citations: by a chat model from the evidence alone, or by quoted sentences."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from math import log
from pathlib import Path
from typing import NamedTuple

from kumihimo.core.context import Answer, Context, Evidence, KeyPoint, SpanFinder, Tokenizer
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.core.records import Chunk
from kumihimo.core.spans import Citation, Span
from kumihimo.core.usage import Usage
from kumihimo.llm.fences import Source, number_sources
from kumihimo.llm.prompts import Reply, render_prompt, require_text
from kumihimo.llm.protocols import LLM, Embedder, TokenCallback
from kumihimo.text.sentences import collapse_spaces, split_blocks, split_sentences
from kumihimo.text.tokens import subject_terms

PROMPT = Path(__file__).with_suffix(".md")
_MAX_QUOTE_CHARS = 1000  # of a document that is cited as a whole
_MAX_PLACES = 3  # of a source, in the prompt
TRUNCATION_NOTE = "(The model's reply ends here: it reached the maximum length.)"


def answer(
    question: str,
    method: str,
    context: Context,
    spans: SpanFinder,
    llm: LLM,
    tokenizer: Tokenizer,
    prompt_path: Path,
    on_token: TokenCallback | None,
    *,
    budget: int = 12000,
    max_tokens: int = 2048,
    response: str = "",
) -> Answer:
    """Answer from the evidence with a chat model and citations.

    The text is the model's, without citations of missing sources; those are counted. prompt_path: the prompt file.
    on_token: receives the text as it comes. budget: maximum evidence tokens for the model. max_tokens: of the answer.
    response: wanted form, such as `one paragraph` or `a table`; empty for a free form.
    """
    from kumihimo.generation.citation_filter import CitationFilter  # here: unused by builds

    if max_tokens < 1:
        raise SettingsError(f"answer.max_tokens is {max_tokens}: it has to be 1 or more, such as 2048")
    if not context:
        text = no_answer_text(question, context)
        if on_token:
            on_token(text)
        return Answer(question, method, text, (), context, Usage(), llm.fingerprint)
    sources = context.fit(budget, tokenizer).evidence
    if not sources:
        raise SettingsError(f"no evidence fits into answer.budget = {budget} tokens: raise it")
    live_filter = CitationFilter(len(sources), on_token)
    prompt = render_prompt(
        prompt_path,
        sources=[Source(n, item.prompt_text, _format_place(item, spans)) for n, item in enumerate(sources, 1)],
        searched_for="\n".join(f"- {collapse_spaces(query)}" for query in context.queries),
        question=f"{question}\n\nForm of the answer: {response}" if response else question,
    )
    stream = live_filter if on_token else None
    reply: Reply = llm(prompt, parse=_check_text, on_token=stream, max_tokens=max_tokens)
    citation_filter = CitationFilter(len(sources))
    citation_filter(reply.text)
    for text_filter in (live_filter, citation_filter):
        text_filter.end()
        text_filter.add(f"\n\n{TRUNCATION_NOTE}" if reply.truncated else "")
    text, dangling = citation_filter.text, citation_filter.dangling
    citations = tuple(_resolve_citations(text, citation_filter.citations, sources, spans))
    return Answer(question, method, text, citations, context, Usage(), llm.fingerprint, dangling=dangling)


def _format_place(item: Evidence, spans: SpanFinder) -> str:
    """Return the files of a source, for the prompt."""
    return ", ".join(dict.fromkeys(span.uri for span in islice(spans(item), _MAX_PLACES)))


def _check_text(reply: Reply) -> Reply:
    """Return the reply. Raise ItemFailed if its limit left no text."""
    if reply.truncated and not reply.text:
        raise ItemFailed("the model's reply reached its maximum length before its text began: raise answer.max_tokens")
    require_text(reply)
    return reply


def _resolve_citations(
    text: str, places: Iterable[tuple[int, int, list[int]]], sources: Sequence[Evidence], spans: SpanFinder
) -> Iterator[Citation]:
    """Return the cited sentences, by source and each once.

    Each citation gets the sentence of its source that best matches the statement before it.
    """
    quotes = cache(lambda n: [_source_quoter(part, spans) for part in sources[n - 1].parts])
    citations: dict[Citation, None] = {}
    position, statement = 0, ""
    for start, end, numbers in places:
        statement = _last_sentence(text[position:start]) or statement
        position = end
        for n in numbers:
            citations |= dict.fromkeys(Citation(n, span) for quote in quotes(n) for span in quote(statement))
    return iter(sorted(citations, key=lambda citation: citation.n))


def _source_quoter(item: Evidence, spans: SpanFinder) -> Callable[[str], Iterable[Span]]:
    """Return a function that finds the spans behind a statement.

    Of a whole document it returns no more than necessary.
    """
    source_spans = list(spans(item))
    find_sentence = make_quoter(source_spans)

    def quote(statement: str) -> Iterable[Span]:
        spans_found = find_sentence(statement)
        if spans_found is source_spans and not all(span.chunk for span in source_spans):
            spans_found = [
                replace(span, end=min(span.end, span.start + _MAX_QUOTE_CHARS), text=span.text[:_MAX_QUOTE_CHARS])
                for span in find_sentence(item.prompt_text)
            ]
        return spans_found

    return quote


def _last_sentence(text: str) -> str:
    """Return the last sentence with a letter or digit.

    >>> _last_sentence("It rains. A ticket costs 3.50 euros")
    'A ticket costs 3.50 euros'
    """
    texts = [text[start:end] for start, end in split_sentences(text, 0, len(text))]
    return next((sentence for sentence in reversed(texts) if any(c.isalnum() for c in sentence)), "")


STANDALONE_PROMPT = Path(__file__).with_name("standalone_question.md")
FOLLOWUPS_PROMPT = Path(__file__).with_name("followups.md")
MAX_QUESTIONS = 5
_MAX_TURNS = 6  # of the history in the prompt
_MAX_HISTORY_CHARS, _MAX_ANSWER_CHARS = 800, 4000  # of a question or an answer in each prompt
_EVIDENCE_BUDGET = 4000  # tokens in the prompt


def rewrite_standalone(question: str, history: Sequence[Answer], llm: LLM) -> str:
    """Rewrite a follow-up question to stand alone, with one call.

    Without history, returns the question as it is.
    """
    if not history:
        return question
    turns = (
        f"Asked: {turn.question[:_MAX_HISTORY_CHARS]}\nAnswered: {turn.text[:_MAX_HISTORY_CHARS]}"
        for turn in history[-_MAX_TURNS:]
    )
    prompt = render_prompt(STANDALONE_PROMPT, turns=number_sources(turns), question=question)
    return " ".join(llm(prompt, parse=require_text).split())


def suggest_questions(answer: Answer, llm: LLM, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Suggest up to `MAX_QUESTIONS` follow-up questions, with one call.

    Returns nothing if the answer has no evidence.
    """
    sources = number_sources(item.text for item in answer.context.fit(_EVIDENCE_BUDGET, tokenizer))
    if not sources:
        return ()
    texts = {"question": answer.question, "answer": answer.text[:_MAX_ANSWER_CHARS]}
    prompt = render_prompt(FOLLOWUPS_PROMPT, count=str(MAX_QUESTIONS), sources=sources, **texts)
    questions = llm(prompt, schema=list[str])
    return _drop_repeats(questions, answer.question)


def _drop_repeats(questions: list[str], asked_question: str) -> tuple[str, ...]:
    """Return the distinct questions that differ from the one asked.

    >>> _drop_repeats(["Who  lit it?", " When? ", "", "who lit it?", "Why?"], "Why?")
    ('Who lit it?', 'When?')
    """
    distinct: dict[str, str] = {}
    for question in (" ".join(text.split()) for text in questions):
        if question and question.casefold() != " ".join(asked_question.split()).casefold():
            distinct.setdefault(question.casefold(), question)
    return tuple(distinct.values())[:MAX_QUESTIONS]


_NO_ANSWER = "No passage that answers this was found."
_NO_ANSWER_JAPANESE = "これに答える記述は見つかりませんでした。"
_NO_ANSWER_TRADITIONAL = "未找到能回答這個問題的段落。"
_NO_ANSWER_SIMPLIFIED = "未找到能回答这个问题的段落。"
# These are slow to compile, so `re` does it at the first use.
_KANA, _KANJI = "[\u3041-\u3096\u30a1-\u30fa\uff66-\uff9d]", "[\u3400-\u9fff]"
_MAX_EVIDENCE = 8  # items whose sentences are scored
_MAX_QUOTES = 3
_MAX_POINTS = 10
_MIN_COVERAGE = 0.3  # of the question's terms, by rarity, in a quoted sentence and its neighbours
_MIN_COVERAGE_SHORT = 0.5  # the same for a short question
_SHORT_QUESTION = 3  # terms
_MIN_QUOTE_SHARE = 0.25  # of a statement's terms in the sentence that is quoted for it


class _Sentence(NamedTuple):
    span: Span
    evidence_score: float  # by the rank of its evidence: scores of methods differ
    words: frozenset[str]
    context_words: frozenset[str]  # its words, and those of the previous and next sentence


class _ScoredSentence(NamedTuple):
    span: Span
    matched_words: frozenset[str]  # of the question
    score: float


def quote_answer(question: str, method: str, context: Context, spans: SpanFinder, embed: Embedder) -> Answer:
    """Answer with the best-matching sentences of the evidence.

    If the method extracted points, the points are the answer. If no sentence matches, the answer says so.
    """
    points = [item for item in context if isinstance(item.record, KeyPoint)]
    if points:
        return _answer_from_points(question, method, context, points[:_MAX_POINTS], spans)
    selected = _select_sentences(_score_sentences(question, list(_evidence_sentences(context, spans)), embed))
    citations = tuple(Citation(n, sentence.span) for n, sentence in enumerate(selected, 1))
    text = "\n".join(f"{_in_quotation_marks(c.span.text)} [{c.n}]" for c in citations)
    return Answer(question, method, text or no_answer_text(question, context), citations, context, Usage())


def _answer_from_points(
    question: str, method: str, context: Context, points: Sequence[Evidence], spans: SpanFinder
) -> Answer:
    """Answer with the points, each cited by its best sentence."""
    lines, citations = [], []
    for n, item in enumerate(points, 1):
        verbatim = isinstance(item.record, KeyPoint) and item.record.verbatim
        lines.append(f"{_in_quotation_marks(item.text) if verbatim else collapse_spaces(item.text)} [{n}]")
        citations += [Citation(n, span) for span in make_quoter(list(spans(item)))(item.text)[:1]]
    return Answer(question, method, "\n".join(lines), tuple(citations), context, Usage())


def no_answer_text(question: str, context: Context) -> str:
    """Return the "no answer" text in the language of the question.

    The script decides. A question in kanji alone may be Japanese or Chinese; then the script of the evidence decides.

    >>> no_answer_text("誰が門を描きましたか。", Context()), no_answer_text("东门钥匙", Context())
    ('これに答える記述は見つかりませんでした。', '未找到能回答这个问题的段落。')
    """
    if not re.search(_KANJI, question) and not re.search(_KANA, question):
        return _NO_ANSWER
    evidence_text = "".join(item.text for item in context.top(_MAX_EVIDENCE))
    kana, kanji = (len(re.findall(letters, evidence_text)) for letters in (_KANA, _KANJI))
    if re.search(_KANA, question) or kana > kanji / 10:
        return _NO_ANSWER_JAPANESE
    # GB 2312 has the simplified characters, Big5 the traditional ones.
    is_simplified = _count_encodable(question, "gb2312") >= _count_encodable(question, "big5")
    return _NO_ANSWER_SIMPLIFIED if is_simplified else _NO_ANSWER_TRADITIONAL


def _count_encodable(text: str, encoding: str) -> int:
    """Return how many characters of the text the encoding has."""
    return sum(len(letter.encode(encoding, "ignore")) > 0 for letter in text)


def make_quoter(spans: Sequence[Span]) -> Callable[[str], Sequence[Span]]:
    """Return a function that finds the best sentence for a statement.

    It returns all spans if no sentence matches well.
    """
    span_sentences = [sentence for span in spans for sentence in _split_sentences(span)]
    words = [frozenset(subject_terms(sentence.text)) for sentence in span_sentences]
    rarity = _rarity_function(words)

    def find_best(statement: str) -> Sequence[Span]:
        terms = frozenset(subject_terms(statement))
        total = sum(map(rarity, sorted(terms))) or 1.0
        shares = [sum(map(rarity, sorted(terms & words_of))) / total for words_of in words]
        best_share = max(shares, default=0.0)
        return [span_sentences[shares.index(best_share)]] if best_share >= _MIN_QUOTE_SHARE else spans

    return find_best


def _evidence_sentences(context: Context, spans: SpanFinder) -> Iterator[_Sentence]:
    """Yield the sentences of the best evidence, each text once.

    Chunks come first; other rows count only if there are no chunks.
    """
    yielded: set[str] = set()
    items = [item for item in context if isinstance(item.record, Chunk)] or list(context)
    for rank, item in enumerate(items[:_MAX_EVIDENCE]):
        for source in spans(item):
            span_sentences = list(_split_sentences(source))
            words = [frozenset(subject_terms(span.text)) for span in span_sentences]
            for i, span in enumerate(span_sentences):
                if span.text not in yielded:
                    yielded.add(span.text)
                    nearby = frozenset[str]().union(*words[max(0, i - 1) : i + 2])
                    yield _Sentence(span, 1 - rank / _MAX_EVIDENCE, words[i], nearby)


def _split_sentences(source: Span) -> Iterator[Span]:
    for block in split_blocks(source.text):
        parts: Iterable[tuple[int, int]] = []
        if block.kind == "row":  # it makes sense only as a whole
            parts = [(block.start, block.end)]
        elif block.kind != "heading":
            parts = split_sentences(source.text, block.start, block.end)
        for start, end in parts:
            yield Span(source.chunk, source.uri, source.start + start, source.start + end, source.text[start:end])


def _score_sentences(question: str, candidates: list[_Sentence], embed: Embedder) -> list[_ScoredSentence]:
    """Return the sentences that match the question, best first."""
    rarity = _rarity_function([sentence.words for sentence in candidates])
    terms = frozenset(subject_terms(question))
    total = sum(map(rarity, sorted(terms))) or 1.0
    minimum = _MIN_COVERAGE if len(terms) > _SHORT_QUESTION else _MIN_COVERAGE_SHORT
    matching: list[tuple[_Sentence, float]] = []
    for sentence in candidates:
        coverage = sum(map(rarity, sorted(terms & sentence.words))) / total
        context_coverage = sum(map(rarity, sorted(terms & sentence.context_words))) / total
        if coverage >= minimum or (context_coverage >= minimum and coverage >= minimum / 2):
            matching.append((sentence, coverage + 0.5 * context_coverage + 0.3 * sentence.evidence_score))
    if not matching:
        return []
    vectors = embed([question, *(sentence.span.text for sentence, _ in matching)])
    scored = [
        _ScoredSentence(sentence.span, terms & sentence.words, round(score + 0.5 * float(cosine), 4))
        for (sentence, score), cosine in zip(matching, vectors[1:] @ vectors[0], strict=True)
    ]
    return sorted(scored, key=lambda sentence: -sentence.score)


def _rarity_function(sentences: Sequence[frozenset[str]]) -> Callable[[str], float]:
    counts = Counter(word for words in sentences for word in words)
    return lambda word: log(1 + len(sentences) / (1 + counts[word]))


def _select_sentences(ranked: Sequence[_ScoredSentence]) -> list[_ScoredSentence]:
    """Return the best sentence, and others that are close or complementary."""
    selected = list(ranked[:1])
    for sentence in ranked[1:]:
        covered = frozenset[str]().union(*(earlier.matched_words for earlier in selected))
        close = sentence.score >= 0.75 * selected[0].score
        complementary = len(sentence.matched_words - covered) >= 2 and sentence.score >= 0.5 * selected[0].score
        if (close or complementary) and len(selected) < _MAX_QUOTES:
            selected.append(sentence)
    return selected


def _in_quotation_marks(text: str) -> str:
    """Return the sentence on one line, in its script's quotation marks."""
    line = collapse_spaces(text)
    if not any("\u3040" <= c <= "\u9fff" for c in line):
        return f"“{line}”"
    return f"『{line}』" if "「" in line else f"「{line}」"
