"""a reply that asks for searches instead of answering -> its queries, and the evidence with what they find."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kumihimo.core import answer, records
from kumihimo.core.context import Context, Evidence
from kumihimo.llm.protocols import Messages, TokenCallback
from kumihimo.text.tokens import subject_terms

MAX_QUERIES = 2  # of one reply
MAX_QUERY_CHARS = 500
OFFER = (
    "Or search: if the sources lack a fact that the answer cannot do without, such as a name, a place, a date or a"
    " figure, or a part that the question names, you may reply with a search for it instead of the answer. Then write"
    " `SEARCH:` and one short question,"
    " and nothing else; for two missing facts, two such lines. Each question is searched alone in the same documents:"
    " it asks for one fact, names people, places and things itself, and is in the language of the sources. For what the"
    " question only describes, put in the name that a source gives. Put in no name that stands neither in the question"
    " nor in a source. Where a search has found nothing, use other words once; then answer what the sources hold. If"
    " they answer the question, answer it now."
)
MANY = "ALL"  # the query that asks for many documents
OFFER_OF_MANY = (  # with that of a search
    f"{OFFER}\n\n"
    "Or have many documents read: a question on what many documents say together (an overview, kinds or causes, what"
    " several people say, all about a person or a thing, a comparison, a change over time) needs more than a few"
    " passages. If these sources hold only a part of what it needs, write"
    f" `SEARCH: {MANY}` and nothing else. A question on one fact or event does not need it."
)
MAX_PASSAGES = 8  # of a round, at most
NO_SEARCH = (  # to a model that searches where it has to answer
    "No search is possible now. Answer the question from these sources, as far as they answer it, and do not write"
    " `SEARCH:`."
)
_MARKUP = r"[\s\d.)*`_>#(\[<\"'“「-]{0,20}"
_FENCED = rf"{_MARKUP}(?:`{{3}}\w*\n{_MARKUP})?"
_BEFORE = rf"(?:(?:\A|\n){_FENCED}|(?<=[.!?:)\]。！？：…])[ \t*`_(\[<]{{0,20}})"  # on its line, or after a sentence
_CITED = r"[\[［【][\d\s,、–-]{1,20}[\]］】][.。]?[ \t]*$"  # the end of a line that answers
_SEARCH = r"SEARCH(?:>|[*`_]{0,4}[ \t]{0,4}[:：])"
_MARK = re.compile(rf"{_BEFORE}{_SEARCH}(?!.*{_CITED})", re.M)
_ALONE = re.compile(rf"\A{_FENCED}search(?:>|[*`_]{{0,4}}[:：])(?![\s\S]*{_CITED})", re.I | re.M)  # the whole reply
_PART = rf"{_BEFORE}[SEARCH]{{0,6}}[*`_]{{0,4}}[ \t]{{0,4}}\Z"
_MAYBE_MARK = re.compile(rf"{_PART}|\A{_FENCED}(?i:[SEARCH]{{0,6}})[*`_]{{0,4}}\Z")
_NEXT_QUERY = re.compile(rf"{_BEFORE}{_SEARCH}", re.I)
_MAX_HELD = 2_000  # characters that may be a request, looked at again with each piece
_REPEATED_SHARE = 0.8  # of the terms of a passage in another one, which says it already
_NAME_OR_NUMBER = re.compile(r"\b(?:[A-Z]\w*|\w*\d\w*)")


@dataclass(frozen=True, slots=True)
class SearchAgain:
    """How an answer may search again.

    search: returns what each query finds; queries that are not worth a search are left out.
    is_affordable: whether the caps of the question leave room for a second request like this one. read_widely: returns
    what reads many documents after such a request; None if nothing may.
    """

    search: Callable[[Context, Sequence[str]], Mapping[str, Context]]
    is_affordable: Callable[[Messages], bool]
    read_widely: Callable[[Messages], "WideReading | None"]

    def read_on(
        self, context: Context, queries: Sequence[str], read_widely: "WideReading | None"
    ) -> tuple[Context, Path | None, bool]:
        """Return the evidence after a request, and whether another may follow.

        The evidence from many documents comes with the prompt that reads it.
        """
        if not asks_for_many(queries):
            found = self.search(context, queries)
            return add_found(context, found), None, bool(found)
        wide, path = read_widely() if read_widely else (context, None)
        return (wide, path, False) if wide else (context, None, False)


WideReading = Callable[[], tuple[Context, Path]]  # returns the evidence, and the prompt that reads it


def asks_for_many(queries: Sequence[str]) -> bool:
    """Return whether the queries of a reply ask for many documents.

    >>> [asks_for_many(queries) for queries in (["ALL."], ["All", "Who?"], ["All of it?"])]
    [True, True, False]
    """
    return any(query.strip(" .。!").upper() == MANY for query in queries)


def split_reply(reply: str) -> tuple[str, list[str] | None]:
    r"""Return the answer before a request to search, and its queries.

    The queries of a reply without a request are None.

    >>> split_reply("**SEARCH:** Who built the pier?\nSEARCH: \"When did it burn?\"")
    ('', ['Who built the pier?', 'When did it burn?'])
    >>> split_reply("Ada [1]. SEARCH: And who paid?"), split_reply("Ada [1].")
    (('Ada [1].', ['And who paid?']), ('Ada [1].', None))
    """
    if not (mark := _find_mark(reply)):
        return reply, None
    pieces = _NEXT_QUERY.split(reply[mark.start() :])[1:]
    lines = (next(iter(piece.partition("</")[0].strip().splitlines()), "") for piece in pieces)
    queries = dict.fromkeys(line.strip(" \t*`_-\"'“”「」[]()<>") for line in lines)
    return reply[: mark.start()], [query for query in queries if 0 < len(query) <= MAX_QUERY_CHARS][:MAX_QUERIES]


class SearchFilter:
    """A token callback that passes on an answer, but no request to search.

    Text is held back until it is known to be no request. on_start: called before the first text. before: what was
    passed on of replies that were no answer. is_refused: whether there was one.

    >>> pieces = []
    >>> for reply in (["SEA", "RCH: Who?"], ["Sea ", "gulls.", " SEA", "RCH: Who?"]):
    ...     stream = SearchFilter(pieces.append, None)
    ...     for piece in reply:
    ...         stream(piece)
    ...     stream.end()
    >>> pieces
    ['Sea ', 'gulls.']
    """

    def __init__(self, on_token: TokenCallback, on_start: Callable[[], object] | None) -> None:
        self.on_token, self.on_start = on_token, on_start
        self.has_started, self.is_refused, self.before = False, False, ""
        self._text, self._passed = "", 0

    def __call__(self, piece: str) -> None:
        is_known_later = len(self._text) - self._passed > _MAX_HELD  # at the end of the reply
        self._text += piece
        if not is_known_later:
            mark = _find_mark(self._text, self._passed)
            self._pass_on(mark or _MAYBE_MARK.search(self._text, self._passed))

    def start(self) -> None:
        """Tell that an answer begins."""
        if not self.has_started:
            self.has_started = True
            if self.on_start:
                self.on_start()

    def end(self) -> None:
        """Pass on the rest of a reply."""
        self._pass_on(_find_mark(self._text, self._passed))

    def refuse(self) -> None:
        """Begin again after a reply that was no answer."""
        self.is_refused = True
        if passed := self._text[: self._passed]:
            self.before += passed + answer.PART_SEPARATOR
            self.on_token(answer.PART_SEPARATOR)
        self._text, self._passed = "", 0

    def _pass_on(self, mark: re.Match[str] | None) -> None:
        """Pass on the text before a mark."""
        begin, end = self._passed, mark.start() if mark else len(self._text)
        if begin < end:
            self.start()
            self._passed = end
            self.on_token(self._text[begin:end])


def _find_mark(text: str, begin: int = 0) -> re.Match[str] | None:
    """Return where a request to search begins."""
    return (_ALONE.match(text) if begin == 0 else None) or _MARK.search(text, begin)


def add_found(context: Context, found: Mapping[str, Context]) -> Context:
    """Return the evidence with the best passages of a round of searches.

    The best of each search come first, then the second ones, and so on: each search seeks another fact. A passage has
    the score that its rank has in the evidence. At most `MAX_PASSAGES` are taken, none that repeats an earlier one.
    found: by query; none changes nothing.
    """
    if not found:
        return context
    share, texts = MAX_PASSAGES // len(found), _Texts(context)
    rankings = [[*_take(ranking, share, texts)] for ranking in found.values()]
    scores: dict[str, list[float]] = defaultdict(list)
    for item in context:
        scores[item.table].append(item.score)
    known = {item.reference: item for item in context}
    merged: list[tuple[int, Evidence]] = []
    for ranking in rankings:
        for rank, item in enumerate(ranking):
            own = scores[item.table] or [item.score]
            item = known.get(item.reference, item)
            merged.append((rank, replace(item, score=own[min(rank, len(own) - 1)])))
    merged += enumerate(context)
    evidence = tuple(item for _, item in sorted(merged, key=lambda pair: pair[0]))
    queries = tuple(found)
    return replace(context, evidence=evidence, queries=context.queries + queries, rounds=(*context.rounds, queries))


def _take(ranking: Context, share: int, texts: "_Texts") -> Iterator[Evidence]:
    """Yield the best items of a ranking that repeat no other text."""
    taken = 0
    for item in ranking:
        if taken < share and texts.add(item):
            taken += 1
            yield item


class _Texts:
    """The texts of evidence, by their terms."""

    def __init__(self, context: Context) -> None:
        self._terms: dict[records.Reference, frozenset[str]] = {item.reference: _terms(item) for item in context}

    def add(self, item: Evidence) -> bool:
        """Add a text; return False if another one says the same.

        One that lacks a name or a number of the text does not.
        """
        terms = _terms(item)
        required = frozenset(subject_terms(" ".join(_NAME_OR_NUMBER.findall(item.text))))
        for reference, other in self._terms.items():
            same = len(terms & other) >= _REPEATED_SHARE * len(terms) and required <= other
            if same and reference != item.reference:
                return False
        self._terms[item.reference] = terms
        return True


def _terms(item: Evidence) -> frozenset[str]:
    return frozenset(subject_terms(item.prompt_text))
