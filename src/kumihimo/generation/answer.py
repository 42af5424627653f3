"""question + context -> Answer, with citations, by a chat model from the evidence alone."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from math import log
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from kumihimo.core import records, settings, signature, usage
from kumihimo.core.answer import PART_SEPARATOR, Answer, Marker, Part, PartKind
from kumihimo.core.context import Context, Evidence, SpanFinder, Tokenizer
from kumihimo.core.errors import BudgetExceeded, ItemFailed, MalformedReply, SettingsError, UnparsableReply
from kumihimo.core.spans import Citation, Span
from kumihimo.generation.citation_filter import CitationFilter
from kumihimo.generation.search_again import (
    MAX_PASSAGES,
    NO_SEARCH,
    OFFER,
    OFFER_OF_MANY,
    SearchAgain,
    SearchFilter,
    split_reply,
)
from kumihimo.generation.source_packing import MAX_SOURCES, SCORE_SHARE, PackedSource, label_sources, pack_sources
from kumihimo.llm.prompts import Source, number_sources, render_prompt, require_text
from kumihimo.llm.protocols import LLM, Messages, Reply, TokenCallback
from kumihimo.text.sentences import LIST_ITEM, collapse_spaces, split_blocks, split_sentences
from kumihimo.text.tokens import subject_terms

PROMPT = Path(__file__).with_suffix(".md")
_FENCE = re.compile(r"^(?:`{3,}|~{3,})", re.M)
_CITATION = re.compile(r"[\[［【]\s*\d")
_MAX_QUOTE_CHARS = 1000  # of a document that is cited as a whole
Length = Literal["brief", "normal", "full"]
LENGTHS: dict[Length, str] = {  # what the prompt says of the length
    "brief": "Length: one to three sentences with what was asked, without headings and lists.",
    "normal": (
        "Length: as broad as the question. A question on one fact or one thing wants a sentence or a few. A question on"
        " causes, a course of events or several things wants a paragraph or a few. A question on a whole subject, or on"
        " all documents, wants a full answer: after the opening, a part with a short heading for each aspect, with what"
        " happened, who took part, when, and where the sides differ."
    ),
    "full": (
        "Length: everything that bears on the question. After the opening, take the aspects one after the other, each"
        " under a short heading: what happened, who took part, when and where, what each side says and why. Leave out"
        " no name, date or figure that matters, and add nothing to fill space: where little is known, the answer is"
        " short."
    ),
}
QuotableRows = tuple[Sequence[Evidence], Sequence[Span]]  # rows that a citation quotes together, and their sources


def answer(
    question: str,
    context: Context,
    spans: SpanFinder,
    describe_document: Callable[[str], str],
    llm: LLM,
    tokenizer: Tokenizer,
    prompt_path: Path,
    on_token: TokenCallback | None,
    on_context: Callable[[Context], None] | None = None,
    search_again: SearchAgain | None = None,
    quote: Callable[[Context], Answer] | None = None,
    *,
    length: Length = "normal",
    budget: settings.Tokens = 12000,
    sources: Annotated[int, settings.Bounds(1, 1000)] = MAX_SOURCES,
    score_share: settings.Share = SCORE_SHARE,
    max_tokens: settings.Tokens = 4096,
    response: str = "",
    rounds: Annotated[int, settings.Bounds(0, 5)] = 2,
) -> Answer:
    """Answer from the evidence with a chat model and citations.

    The text is the model's, without citations of missing sources; those are counted. prompt_path: the prompt file.
    describe_document: returns the title and the date of a document by its id. on_token: receives the text as it comes.
    on_context: receives the evidence before that. From then on nothing is read: the index may change under the model.
    search_again: lets the model reply with queries instead, or have many documents read; None: it has to answer. quote:
    returns the answer without a model, for one that does nothing but search.
    length: `normal` is as broad as the question. budget: maximum evidence tokens for the model. sources: their maximum
    number in the prompt. score_share: the best texts with this share of all scores are given; 1: all. max_tokens: of
    the answer. response: wanted form, such as `one paragraph` or `a table`; empty for a free form. rounds: how often
    the model may search again; each is one more call.
    """
    if max_tokens < 1:
        raise SettingsError(f"answer.max_tokens is {max_tokens}: it has to be 1 or more, such as 4096")
    empty = Answer(question, context.method, (), context, usage.Usage(), llm.fingerprint, approach="model")
    if not context:
        return announce(replace(empty, status="nothing"), on_token, on_context)
    wishes, shown = {"length": LENGTHS[length], "form": response}, frozenset[records.Reference]()
    while True:
        packed = _pack(question, context, tokenizer, budget=budget, limit=sources, score_share=score_share, shown=shown)
        shown = frozenset(item.reference for source in packed for item in source.rows)
        quotable = [[(rows, [*chain.from_iterable(map(spans, rows))]) for rows in each.quoted_rows] for each in packed]
        prompt = _render(prompt_path, question, context, number_packed_sources(packed, describe_document), **wishes)
        live_filter = CitationFilter(len(packed), on_token)
        stream = SearchFilter(live_filter, on_context and partial(on_context, context))
        searches = search_again if search_again and rounds > 0 and search_again.is_affordable(prompt) else None
        read_widely = searches.read_widely(prompt) if searches and not context.rounds[1:] else None
        offers = OFFER_OF_MANY if read_widely else OFFER if searches else ""
        if not (read := _ask(llm, prompt, stream, offers, on_token and stream, max_tokens)):
            return announce(quote(context) if quote else empty, on_token, None)
        reply, text, queries = read
        if searches is None or queries is None:
            break
        context, path, may_go_on = searches.read_on(context, queries, read_widely)
        prompt_path, rounds, sources = path or prompt_path, rounds - 1 if may_go_on else 0, sources + MAX_PASSAGES
    stream.start()
    live_filter.end()
    empty = replace(empty, method=context.method, context=context, truncated=reply.truncated)
    return _cite(empty, text, packed, quotable)


Read = tuple[Reply, str, list[str] | None]  # a reply, and its answer or its queries


def _ask(
    llm: LLM,
    prompt: Messages,
    stream: SearchFilter,
    offers: str,
    on_token: TokenCallback | None,
    max_tokens: int,
) -> Read | None:
    """Return what a reply says; None if it does nothing but search.

    offers: what it may do instead of answering; empty: nothing.
    """
    if offers:
        prompt = [*prompt[:-1], {**prompt[-1], "content": f"{prompt[-1]['content']}\n\n{offers}"}]
    else:
        stream.start()
    try:
        read: Read = llm(
            prompt, parse=partial(_read_reply, stream, bool(offers)), on_token=on_token, max_tokens=max_tokens
        )
    except (BudgetExceeded, UnparsableReply):
        if not stream.is_refused:
            raise
        return None
    return read


def _pack(question: str, context: Context, tokenizer: Tokenizer, *, budget: int, **limits: Any) -> list[PackedSource]:
    """Return the sources of a prompt. Raise SettingsError if none fits."""
    if packed := pack_sources(question, context, tokenizer, budget=budget, **limits):
        return packed
    raise SettingsError(f"no evidence fits into answer.budget = {budget} tokens: raise it")


def _render(path: Path, question: str, context: Context, sources: Sequence[Source], **wishes: str) -> Messages:
    """Return the prompt, with the searches that the model requested."""
    own_queries = chain.from_iterable(context.rounds[1:])  # those of the method repeat the question
    searched_for = "\n".join(f"- {collapse_spaces(query)}" for query in own_queries)
    return render_prompt(path, question=question, sources=sources, searched_for=searched_for, **wishes)


def _cite(
    empty: Answer, text: str, packed: Sequence[PackedSource], quotable: Sequence[Sequence[QuotableRows]]
) -> Answer:
    """Return the answer with this text and its citations."""
    whole = CitationFilter(len(packed))
    whole(text)
    whole.end()
    parts = tuple(_split_parts(whole.text, whole.citations, quotable))
    rows = tuple(tuple(item.reference for item in source.rows) for source in packed)
    return replace(empty, parts=parts, dangling=whole.dangling, sources=rows)


def check_length(name: str) -> Length:
    """Return the length with this name. Raise SettingsError for others."""
    return cast(Length, signature.settings_of(answer)["length"].parse("answer", name))


def announce(answer: Answer, on_token: TokenCallback | None, on_context: Callable[[Context], None] | None) -> Answer:
    """Pass on an answer without a model: its evidence, then its text."""
    if on_context:
        on_context(answer.context)
    if on_token and answer.text:
        on_token(answer.text)
    return answer


def number_packed_sources(packed: Sequence[PackedSource], describe_document: Callable[[str], str]) -> list[Source]:
    """Return the sources as they stand in the prompt."""
    headings = {id: describe_document(id) for id in dict.fromkeys(id for one in packed for id in one.documents[:1])}
    labels = label_sources(packed, headings)
    return [Source(n, source.text, label) for n, (source, label) in enumerate(zip(packed, labels, strict=True), 1)]


def _read_reply(stream: SearchFilter, may_search: bool, reply: Reply) -> Read:
    """Return the reply, and its answer or its queries.

    Text without a citation before a search is no answer. Raises ItemFailed if the limit of the reply left no text,
    MalformedReply if it searches where it has to answer.
    """
    if reply.truncated and not reply.text:
        raise ItemFailed("the model's reply reached its maximum length before its text began: raise answer.max_tokens")
    text, queries = split_reply(require_text(reply))
    stream.end()
    if queries is None or _CITATION.search(text):
        return reply, stream.before + text, None
    if may_search and not stream.has_started:
        return reply, "", queries
    if stream.is_refused:
        raise UnparsableReply("the model only searches where it has to answer")
    stream.refuse()
    raise MalformedReply(NO_SEARCH)


def _split_parts(text: str, markers: Sequence[Marker], sources: Sequence[Sequence[QuotableRows]]) -> Iterator[Part]:
    """Yield the paragraphs, lists and tables of a reply.

    A citation gets the sentence of its source that best matches the statement before it. Joined, the texts are the
    reply.
    """
    quoters = cache(lambda n: [_source_quoter(rows, spans) for rows, spans in sources[n - 1]])
    cite = cache(lambda n, text: [Citation(n, span) for quoter in quoters(n) for span in quoter(text)])
    begin, next_marker, position, statement = 0, 0, 0, ""
    for kind, part in _split_blocks(text):
        end = begin + len(part)
        own, cited = list[Marker](), dict[tuple[int, str], None]()
        while next_marker < len(markers) and markers[next_marker][0] < end:
            start, stop, numbers = markers[next_marker]
            before = text[position:start]
            statement = (before.strip() and _last_sentence(before)) or statement
            cited |= dict.fromkeys((n, statement) for n in numbers)
            own.append((start - begin, stop - begin, numbers))
            position, next_marker = stop, next_marker + 1
        citations = dict.fromkeys(citation for n, text_before in cited for citation in cite(n, text_before))
        yield Part(kind, part, tuple(citations), tuple(own))
        begin = end + len(PART_SEPARATOR)


def _split_blocks(text: str) -> Iterator[tuple[PartKind, str]]:
    r"""Yield the blocks of a Markdown text.

    Code, and a list with its paragraphs, are one block.

    >>> list(_split_blocks("So:\n\n1. One\n\n   more\n\n2. Two\n\n```\na\n\nb\n```\n\n| a |"))
    [('sentence', 'So:'), ('list', '1. One\n\n   more\n\n2. Two'), ('sentence', '```\na\n\nb\n```'), ('table', '| a |')]
    """
    kind: PartKind = "sentence"
    blocks: list[str] = []
    fence = ""  # of the code that is open
    for block in text.split(PART_SEPARATOR):
        first = block.lstrip("\n").partition("\n")[0]
        own: PartKind = "list" if LIST_ITEM.match(first) else "table" if first.startswith("|") else "sentence"
        if blocks and not fence and first and not first[0].isspace() and not own == kind == "list":
            yield kind, PART_SEPARATOR.join(blocks)
            blocks = []
        kind = kind if blocks else own
        blocks.append(block)
        for line in _FENCE.findall(block):
            fence = "" if fence and line.startswith(fence) else fence or line
    yield kind, PART_SEPARATOR.join(blocks)


def _source_quoter(rows: Sequence[Evidence], source_spans: Sequence[Span]) -> Callable[[str], Iterable[Span]]:
    """Return a function that finds the spans behind a statement.

    Of a whole document it returns no more than necessary.
    """
    find_sentence = make_quoter(source_spans)

    def quote(statement: str) -> Iterable[Span]:
        spans_found = find_sentence(statement)
        if spans_found is source_spans and not all(span.chunk for span in source_spans):
            spans_found = [
                replace(span, end=min(span.end, span.start + _MAX_QUOTE_CHARS), text=span.text[:_MAX_QUOTE_CHARS])
                for span in find_sentence(rows[0].prompt_text)
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
        f"Asked: {turn.question[:_MAX_HISTORY_CHARS]}\nAnswered: {(turn.text or turn.remark)[:_MAX_HISTORY_CHARS]}"
        for turn in history[-_MAX_TURNS:]
    )
    prompt = render_prompt(STANDALONE_PROMPT, turns=number_sources(turns), question=question)
    return " ".join(llm(prompt, parse=require_text).split())


def suggest_questions(answer: Answer, llm: LLM, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Suggest up to `MAX_QUESTIONS` follow-up questions, with one call.

    Returns nothing if the answer has no evidence.
    """
    packed = pack_sources(answer.question, answer.context, tokenizer, budget=_EVIDENCE_BUDGET)
    sources = number_sources(source.text for source in packed)
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


_MIN_QUOTE_SHARE = 0.25  # of a statement's terms in the sentence that is quoted for it


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


def _split_sentences(source: Span) -> Iterator[Span]:
    for block in split_blocks(source.text):
        parts: Iterable[tuple[int, int]] = []
        if block.kind == "row":  # it makes sense only as a whole
            parts = [(block.start, block.end)]
        elif block.kind != "heading":
            parts = split_sentences(source.text, block.start, block.end)
        for start, end in parts:
            yield Span(source.chunk, source.uri, source.start + start, source.start + end, source.text[start:end])


def _rarity_function(sentences: Sequence[frozenset[str]]) -> Callable[[str], float]:
    counts = Counter(word for words in sentences for word in words)
    return lambda word: log(1 + len(sentences) / (1 + counts[word]))
