"""answers of several systems + a judge -> Rating: six scores for what each found and said (MK-RAG, section 4).

But: the paper shows all systems in one order. Here each stands in each place equally often, without its name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kumihimo.core.context import Ruler
from kumihimo.core.errors import ItemFailed, Unreadable
from kumihimo.evaluate.judging.calls import Answers
from kumihimo.evaluate.judging.forms import rated
from kumihimo.evaluate.judging.plain_text import Strip, plain
from kumihimo.evaluate.judging.protocols import Protocol
from kumihimo.evaluate.judging.verdicts import NOTHING
from kumihimo.evaluate.records import Answered, Question, Rating, Status
from kumihimo.llm.concurrency import side_by_side
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask, Messages

FOUND_NOTHING = "(nothing was found)"
CONTEXT = 2000  # tokens shown of what each system found


@dataclass(frozen=True, slots=True)
class Shown:
    """The answers to a question, in the order in which they are shown."""

    question: Question
    answers: tuple[Answered, ...]
    replicate: int


def shown(questions: Iterable[Question], answers: Answers, *, replicates: int = 1, alone: bool = False) -> list[Shown]:
    """Each question so many times: places by a Latin square over questions and replicates; failed answers left out.

    alone: one system a call.
    """
    made: list[Shown] = []
    for i, question in enumerate(questions):
        found = [held[question.id] for held in answers.values() if question.id in held]
        there = [answer for answer in found if not answer.failed]
        for n in range(replicates if there else 0):
            turn = (i + n) % len(there)
            turned = there[turn:] + there[:turn]
            made += [Shown(question, (a,), n) for a in turned] if alone else [Shown(question, tuple(turned), n)]
    return made


def ratings(
    protocol: Protocol,
    calls: Iterable[Shown],
    ask: Ask,
    *,
    ruler: Ruler,
    context: int = CONTEXT,
    strip: Strip | None = None,
) -> Iterator[Rating]:
    """A row for each system and criterion of each call. context: tokens shown of what each system found."""
    marks = protocol.strip if strip is None else strip

    def judged(call: Shown) -> list[Rating]:
        return _rated(protocol, call, ask, told(call.answers, ruler, context, marks))

    for rows in side_by_side(judged, calls, ask.workers):
        yield from rows


def _rated(protocol: Protocol, call: Shown, ask: Ask, systems: str) -> list[Rating]:
    reply, status, why = _asked(protocol, call, ask, systems)
    made: list[Rating] = []
    for place, answer in enumerate(call.answers, 1):
        for criterion in protocol.criteria:
            scored = getattr(getattr(reply, f"system_{place}"), criterion) if reply else None
            value, reason = (float(scored.score), scored.justification) if scored else (None, "")
            of = (protocol.name, criterion, call.question.id, answer.system, place, call.replicate)
            made.append(Rating(*of, value, reason, status, why, ask.mark))
    return made


def _asked(protocol: Protocol, call: Shown, ask: Ask, systems: str) -> tuple[Any, Status, str]:
    form = rated(tuple(protocol.criteria), len(call.answers))
    try:
        return ask(asked_for(protocol, call, systems), into=form, sample=call.replicate), "ok", ""
    except Unreadable as unreadable:
        return None, "invalid", str(unreadable)
    except ItemFailed as failed:
        return None, "failed", str(failed)


def asked_for(protocol: Protocol, call: Shown, systems: str) -> Messages:
    return prompt(protocol.prompt, question=call.question.text, systems=systems, **protocol.criteria)


def told(answers: Sequence[Answered], ruler: Ruler, context: int, strip: Strip = "none") -> str:
    """What each system found, the first `context` tokens of it, and what it answered; their names are not told."""
    parts = []
    for place, answer in enumerate(answers, 1):
        found = cut("\n\n".join(source.text for source in answer.contexts), ruler, context) or FOUND_NOTHING
        said = plain(answer.text, strip) or NOTHING
        name = f"system_{place}"
        parts.append(f"=== {name} found ===\n\n{found}\n\n=== {name} answered ===\n\n{said}\n\n=== end of {name} ===")
    return "\n\n".join(parts)


def cut(text: str, ruler: Ruler, tokens: int) -> str:
    """Its first tokens."""
    begins = ruler(text)
    return text if len(begins) <= tokens else text[: begins[tokens]].rstrip()


Means = Mapping[str, Mapping[str, Mapping[str, float]]]  # by criterion, system and question


def means(rows: Iterable[Rating]) -> Means:
    """The mean of replicates, of those that could be read; a system of which none could has no questions."""
    said: dict[str, dict[str, defaultdict[str, list[float]]]] = {}
    for row in rows:
        held = said.setdefault(row.criterion, {}).setdefault(row.system, defaultdict(list))
        if row.value is not None:
            held[row.question].append(row.value)
    return {c: {s: {q: sum(v) / len(v) for q, v in held.items()} for s, held in of.items()} for c, of in said.items()}
