"""question + evidence -> a reason for each piece in words: what it names and says, which passage it continues."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from unicodedata import normalize

from kumihimo.app.evidence.source_tracer import SourceTracer
from kumihimo.core.context import Context, Evidence, KeyPoint
from kumihimo.core.records import Chunk, Mention, Record, Reference
from kumihimo.core.spans import Explanation, Phrase, Reason
from kumihimo.core.table import Table
from kumihimo.index.rules.ner_words import WORDS
from kumihimo.text import name_keys, scripts
from kumihimo.text.dates import list_dates
from kumihimo.text.sentences import collapse_spaces, shorten_line
from kumihimo.text.tokens import mark_matches, snippet_at, subject_terms
from kumihimo.text.translation import join_words, message_language, translate

_PIECE = re.compile("[kl]+|(cc+)|c|[wdgtm_]+")  # in the kinds of characters: katakana, ideographs, a word
_MAX_PART = 8  # ideographs that are compared at once
NAME_ENDING = r"(?i)(?<=\w)(?:n['’]t|['’](?:s|d|m|ll|re|ve))\b"  # in gate's, don't, who've
_ASKING_WORDS = frozenset(
    "called happen happened mention mentioned name named said say says talk think write".split()  # noqa: SIM905
)


def find_phrases(question: str, text: str, title: str = "") -> list[Phrase]:
    """Return the phrases of a question in a text or its title.

    They are in the order of the question, without common words at their ends.

    >>> [phrase.text for phrase in find_phrases("Who mended the old pier of Oban?", "They mended a pier of Oban")]
    ['mended', 'pier of Oban']
    """
    query, normalized = re.sub(NAME_ENDING, "", normalize("NFKC", question)), normalize("NFKC", text)
    plain = " ".join(normalized.casefold().split())
    spans = [span for span in _find_pieces(query, plain) if _piece_terms(query[slice(*span)])]
    asked = frozenset[str]().union(*(_piece_terms(query[slice(*span)]) for span in spans))
    in_text, in_title = _term_places(normalized, asked), _term_places(normalize("NFKC", title), asked)
    names = [_is_capital(query, span, normalized) for span in spans]
    phrases: list[Phrase] = []
    phrase_start = -1  # of the phrase that may continue
    for i, (start, end) in enumerate(spans):
        terms = _piece_terms(query[start:end])
        places = frozenset(set.intersection(*(in_text[term] for term in terms)))
        longer = query[phrase_start:end] if phrase_start >= 0 else ""
        if places and longer and " ".join(longer.casefold().split()) in plain:
            last = phrases.pop()
            names[i] = names[i - 1] and (names[i] or query[start:end].isdigit())
            phrases.append(Phrase(longer, last.terms | terms, names[i], last.places))
            continue
        phrase_start = start if places else -1
        if places or all(in_title[term] for term in terms):
            is_name = names[i] and not _is_part_of_name(query, spans, names, i)
            phrases.append(Phrase(query[start:end], terms, is_name, places))
    distinct = {phrase.terms: phrase for phrase in reversed(phrases)}
    return list(distinct.values())[::-1]


def _find_pieces(question: str, plain: str) -> Iterator[tuple[int, int]]:
    """Yield the words of a question.

    A run of ideographs gives the parts that the text has.
    """
    for piece in _PIECE.finditer(scripts.char_kinds(question)):
        start, end = piece.span()
        if not piece[1]:
            yield start, end
            continue
        while start < end:
            ends = range(min(end, start + _MAX_PART), start + 1, -1)
            part_end = next((stop for stop in ends if question[start:stop] in plain), start)
            if part_end > start:
                yield start, part_end
            start = max(part_end, start + 1)


def _term_places(text: str, terms: frozenset[str]) -> dict[str, set[int]]:
    """Return where these terms are in a text."""
    pieces = [text[piece.start() : piece.end()] for piece in _PIECE.finditer(scripts.char_kinds(text))]
    found = {piece: shared for piece in set(pieces) if (shared := _piece_terms(piece) & terms)}
    places = defaultdict[str, set[int]](set)
    for place, piece in enumerate(pieces):
        for term in found.get(piece, ()):
            places[term].add(place)
    return places


@lru_cache(maxsize=65536)
def _piece_terms(piece: str) -> frozenset[str]:
    """Return the subject terms of a piece; a common word has none."""
    word = piece if len(piece) > 1 and piece.isupper() else piece.lower()
    return frozenset() if word in WORDS["stop_words"] or word in _ASKING_WORDS else frozenset(subject_terms(piece))


def _is_capital(question: str, span: tuple[int, int], text: str) -> bool:
    """Return whether a capital letter marks a name.

    The first word has one anyway: it counts if the text has it with capitals only.
    """
    word = question[slice(*span)]
    is_first = not re.search(r"\w", question[: span[0]])
    is_common = word.lower() in WORDS["no_name_alone"] or (is_first and word.lower() in text)
    return word[0].isupper() and not question.isupper() and not is_common


def _is_part_of_name(question: str, spans: Sequence[tuple[int, int]], names: Sequence[bool], i: int) -> bool:
    """Return whether the name of a word has further words."""
    sides = [j for j in (i - 1, i + 1) if 0 <= j < len(spans) and names[j]]
    between = [question[spans[min(i, j)][1] : spans[max(i, j)][0]] for j in sides]
    return any(all(word.lower() in WORDS["particles"] for word in re.split("[ -]+", gap) if word) for gap in between)


_HEADING = re.compile(r"^#+ +(.+)$", re.M)
_WINDOW = 30  # words between two that are near each other
_MAX_PHRASES = 4
_MAX_PHRASE_CHARS, _MAX_SUBJECT_CHARS, _MAX_LIST_CHARS = 40, 40, 60
_MAX_PLACES = 20  # of one piece of evidence: a report may come from every passage
_MAX_SNIPPET = 300  # characters
_GAPS = {"ja": "。", "zh": "；", "zh-Hant": "；"}  # between clauses
_NO_WORDS_TEXT = "has no word of the question; it may say it in other words"
_VERBATIM_TEXT = "is typical of one part of the documents"


def _describe_link(reason: Reason) -> str:
    """Return the link as a clause; empty without one."""
    if not reason.linked:
        return ""
    same, subject = name_keys.name_key(reason.name) == name_keys.name_key(reason.subject), reason.subject
    passage = translate(f"passage {reason.rank} on {subject}" if reason.rank else f"a passage on {subject}")
    if not reason.continues:
        return translate(f"mentions {reason.name}, as does {passage}")
    return translate(f"continues {passage}" if same else f"continues {passage} through {reason.name}")


def describe_reason(reason: Reason) -> str:
    """Return a reason as a sentence.

    >>> from kumihimo.core.spans import Span
    >>> phrases = tuple(find_phrases("Did Kerrow cross the bar?", "Kerrow went over the bar."))
    >>> link = {"linked": Span("", "a.md", 0, 9, ""), "rank": 2, "continues": True, "name": "Sabine Orrell"}
    >>> describe_reason(Reason(phrases, subject="Tidal gates", **link))
    'names Kerrow near “bar”; continues passage 2 on Tidal gates through Sabine Orrell'
    """
    terms, link = reason.document_terms, _describe_link(reason)
    named = frozenset(subject_terms(" ".join(terms)))
    phrases = [p for p in reason.phrases if not (p.terms <= named or (p.is_name and p.terms & named))]
    in_title = [phrase for phrase in phrases if not phrase.places]
    clauses = [
        translate(_describe_document(terms)),
        translate(_describe_phrases([phrase for phrase in phrases if phrase.places])),
        translate(f"has {_quote(in_title[:2])} in its title") if in_title and not terms else "",
        link if reason.continues else "",
    ]
    other = link or translate(_VERBATIM_TEXT if reason.verbatim else _NO_WORDS_TEXT)
    return _GAPS.get(message_language(), "; ").join(filter(None, clauses)) or other


def _describe_document(terms: Sequence[str]) -> str:
    """Return the document that the question names as a clause.

    >>> _describe_document(["Nell Attery", "March 2023"])
    'is from a document of March 2023 that you name: Nell Attery'
    """
    dates = [term for term in terms if list_dates(term)]
    names = [shorten_line(re.sub(NAME_ENDING, "", term), _MAX_PHRASE_CHARS) for term in terms if term not in dates]
    of_dates = f" of {join_words(dates)}" if dates else ""
    that_you_name = f" that you name: {join_words(names[:_MAX_PHRASES])}" if names else ""
    return f"is from a document{of_dates}{that_you_name}" if terms else ""


def _describe_phrases(phrases: Sequence[Phrase]) -> str:
    """Return the most telling phrases as a clause."""
    shown = [phrase for i, phrase in enumerate(phrases[:_MAX_PHRASES]) if not i or _fits(phrases[: i + 1])]
    names = join_words([shorten_line(phrase.text, _MAX_PHRASE_CHARS) for phrase in shown if phrase.is_name])
    words = _quote([phrase for phrase in shown if not phrase.is_name])
    near = any(
        all(any(abs(place - other) <= _WINDOW for other in phrase.places) for phrase in shown[1:])
        for place in (shown[0].places if len(shown) > 1 else ())
    )
    if names and words:
        return f"names {names} near {words}" if near else f"names {names}; says {words}"
    together = " close together" if near else ""
    return f"names {names}{together}" if names else f"says {words}{together}" if words else ""


def _fits(phrases: Sequence[Phrase]) -> bool:
    return sum(min(len(phrase.text), _MAX_PHRASE_CHARS) for phrase in phrases) <= _MAX_LIST_CHARS


def _quote(phrases: Sequence[Phrase]) -> str:
    texts = [shorten_line(phrase.text, _MAX_PHRASE_CHARS) for phrase in phrases]
    if message_language() == "ja":
        return "".join(f"「{text}」" for text in texts)
    return join_words([f"“{text}”" for text in texts])


def explain_context(tracer: SourceTracer, question: str, context: Context) -> Context:
    """Return the evidence with an explanation for each piece."""
    tracer.read_ahead(context)
    question = context.searched(question)
    terms = frozenset(subject_terms(question))
    phrases = [find_phrases(question, *_text_and_title(item.record)) for item in context]
    counts = Counter(term for row in phrases for term in frozenset[str]().union(*(p.terms for p in row)))
    ranks = {item.reference: rank for rank, item in enumerate(context, 1)}
    items: list[Evidence] = []
    for item, row in zip(context, phrases, strict=True):
        # names come first, then words that few pieces of evidence have
        row.sort(key=lambda phrase: (not phrase.is_name, min(counts[term] for term in phrase.terms)))
        reason = _explain_item(tracer, question, item, row, ranks)
        start, end = snippet_at(item.text, terms, _MAX_SNIPPET)
        before, after = ("…" if rest.strip() else "" for rest in (item.text[:start], item.text[end:]))
        snippet = f"{before}{collapse_spaces(item.text[start:end])}{after}"
        spans = tuple(islice(tracer.trace_part(item, start, end), _MAX_PLACES))
        marks = tuple(mark_matches(snippet, terms))
        explanation = Explanation(replace(reason, text=describe_reason(reason)), snippet, marks, spans)
        items.append(replace(item, explanation=explanation))
    return replace(context, evidence=tuple(items))


def _text_and_title(record: Record) -> tuple[str, str]:
    return (record.text, record.title) if isinstance(record, Chunk) else (record.prompt_text, "")


def _explain_item(
    tracer: SourceTracer, question: str, item: Evidence, phrases: Sequence[Phrase], ranks: Mapping[Reference, int]
) -> Reason:
    link = _find_link(tracer, item, ranks) if item.via else Reason()
    known = frozenset[str]()
    if link.continues:
        linked_phrases = find_phrases(question, *_text_and_title(tracer.table("chunks")[item.via[0]]))
        known = frozenset[str]().union(*(phrase.terms for phrase in linked_phrases))
    verbatim = isinstance(item.record, KeyPoint) and item.record.verbatim
    new = tuple(phrase for phrase in phrases if not phrase.terms <= known)
    return replace(link, phrases=new, document_terms=item.document_terms, verbatim=verbatim)


def _find_link(tracer: SourceTracer, item: Evidence, ranks: Mapping[Reference, int]) -> Reason:
    """Return the link of a chunk to another passage, if any."""
    passage, entity = item.via
    linked: Chunk = tracer.table("chunks")[passage]
    mentions: Table[Mention] = tracer.table("mentions")
    own_mentions = mentions.get_many(mentions.child_values([item.record.id], "id")[item.record.id])
    name = next((mention.name for mention in own_mentions.values() if mention.entity == entity), "")
    if not name:
        return Reason()
    (span,) = tracer.trace(("chunks", passage))
    heading = _HEADING.search(linked.text)
    is_other = linked.document != item.record.id.partition(".")[0]
    subject = (linked.title if is_other else "") or (heading[1] if heading else name)
    rank = ranks.get(("chunks", passage), 0)
    return Reason(
        linked=span,
        rank=rank,
        continues=0 < rank < ranks[item.reference],
        subject=shorten_line(subject, _MAX_SUBJECT_CHARS),
        entity=entity,
        name=name,
    )
