"""question + context -> Answer in a chat model's words: the evidence alone, each statement with its citation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kumihimo.core.context import Answer, Context, Evidence, Ruler
from kumihimo.core.records import Citation, Usage
from kumihimo.ports.models import Ask, Hear
from kumihimo.ports.prompts import prompt
from kumihimo.ports.replies import Reply, any_text
from kumihimo.quoting import NOTHING, Spans, best_sentence

PROMPT = Path(__file__).with_suffix(".md")
CUT = "(The model's reply broke off here, at the greatest length it may have.)"


def answer(
    question: str,
    method: str,
    context: Context,
    spans: Spans,
    ask: Ask,
    ruler: Ruler,
    path: Path,
    hear: Hear | None,
    *,
    budget: int = 12000,
) -> Answer:
    """What the model says on the evidence, word for word but for citations that point nowhere; those are counted.

    path: the prompt. hear: is told the text as it comes. budget: tokens of evidence that the model is given.
    """
    sources = context.fit(budget, ruler).evidence
    text = _Cited(len(sources), hear)
    if not sources:
        text.add(NOTHING)
        return Answer(question, method, NOTHING, (), context, Usage())
    told = "\n\n".join(f"[{n}] {_told(item, spans)}" for n, item in enumerate(sources, 1))
    reply: Reply = ask(prompt(path, sources=told, question=question), read=_spoken, hear=text if hear else None)
    if not hear:
        text(reply.text)
    text.end(f"\n\n{CUT}" if reply.cut else "")
    said = "".join(text.pieces).strip()
    citations = tuple(_citations(said, sources, spans))
    return Answer(question, method, said, citations, context, Usage(), model=ask.mark, dangling=text.dangling)


def _told(item: Evidence, spans: Spans) -> str:
    """A source as the model is told it: where it stands, and what it says."""
    uris = dict.fromkeys(span.uri for span in spans(item))
    return f"({', '.join(list(uris)[:3])})\n{item.text}"


def _spoken(reply: Reply) -> Reply:
    any_text(reply)
    return reply


_OPEN, _CLOSE, _BETWEEN = r"\[［【", r"\]］】", r",、，;；–\-"
_NUMBERS = rf"\s*\d{{1,3}}(?:\s*[{_BETWEEN}]\s*\d{{1,3}})*\s*"
_MARK = re.compile(rf"\s*[{_OPEN}]({_NUMBERS})[{_CLOSE}]")
_BEGUN = re.compile(rf"\s*(?:[{_OPEN}][\d\s{_BETWEEN}]{{0,40}})?\Z")  # what may become one


class _Cited:
    """Passes a text on, piece by piece, without the citations of sources that there are none of."""

    def __init__(self, sources: int, hear: Hear | None) -> None:
        self.sources, self.hear = sources, hear
        self.pieces: list[str] = []
        self.dangling = 0
        self._held, self._code = "", False

    def __call__(self, piece: str) -> None:
        self._held += piece
        while self._held and not (_BEGUN.match(self._held) and not self._code):
            if (mark := _MARK.match(self._held)) and not self._code:
                self.add(self._pointing(mark))
                self._held = self._held[mark.end() :]
            else:
                self._pass()

    def _pass(self) -> None:
        """What comes before the next place where a citation may begin, or code begins or ends."""
        end = re.compile(rf"`|(?=\s|[{_OPEN}])").search(self._held, 1 if self._held[0] != "`" else 0)
        upto = len(self._held) if end is None else max(end.end(), 1)
        self._code ^= self._held[upto - 1] == "`"
        self.add(self._held[:upto])
        self._held = self._held[upto:]

    def _pointing(self, mark: re.Match[str]) -> str:
        """The citation, or what is left of it."""
        cited = _numbers(mark[1])
        good = [n for n in cited if 1 <= n <= self.sources]
        self.dangling += len(cited) - len(good)
        if len(good) == len(cited):
            return mark[0]
        space = mark[0][: len(mark[0]) - len(mark[0].lstrip())]
        return f"{space}[{', '.join(map(str, good))}]" if good else ""

    def end(self, more: str = "") -> None:
        """Nothing comes any more but this."""
        self.add(self._held + more)
        self._held = ""

    def add(self, text: str) -> None:
        if text:
            self.pieces.append(text)
            if self.hear:
                self.hear(text)


def _numbers(cited: str) -> list[int]:
    """
    >>> _numbers("1, 3-5")
    [1, 3, 4, 5]
    """
    found: list[int] = []
    for part in re.split(r"[,、，;；]", cited):
        ends = [int(n) for n in re.findall(r"\d+", part)]
        found += range(ends[0], max(ends) + 1)
    return found


def _citations(said: str, sources: Sequence[Evidence], spans: Spans) -> Iterator[Citation]:
    """For each citation the sentence of its source that says most of the statement before it, each once."""
    seen: set[Citation] = set()
    statement, after = "", 0
    for mark in _MARK.finditer(said):
        before = said[after : mark.start()].strip()
        statement = re.split(r"(?<=[.!?。！？\n])(?=.)", before)[-1] if before else statement
        after = mark.end()
        for n in _numbers(mark[1]):
            if 1 <= n <= len(sources):
                for span in best_sentence(statement, list(spans(sources[n - 1]))):
                    citation = Citation(n, span)
                    if citation not in seen:
                        seen.add(citation)
                        yield citation
