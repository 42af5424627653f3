"""a complete run -> the figures and answers of examples-recorded/answers.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import mean
from typing import Any

from docs.recorded_run import FOLDER, Outcome, Run

from kumihimo.core.usage import Usage
from kumihimo.llm.local_embedder import LocalTokenizer

PAGE = FOLDER / "answers.md"
MARK = "<!-- python -m docs.recorded --page writes all that follows -->\n"
COMPARED = 6  # methods that answer all of the ten questions


@dataclass(frozen=True, slots=True)
class Asked:
    """An answered question. length: as set with `--length`, or empty."""

    question: str
    method: str
    length: str
    answer: dict[str, Any]

    @property
    def usage(self) -> Usage:
        """Return the usage, with what the response cache has saved."""
        return Usage(**self.answer["usage"]) + Usage(**self.answer["saved"])


def write_page(run: Run) -> None:
    """Write the figures into the page. Raise SystemExit while replies are missing."""
    if not run.is_complete:
        raise SystemExit(f"{PAGE} needs all replies: some are missing")
    PAGE.write_text(render_page(PAGE.read_text(encoding="utf-8"), run), encoding="utf-8")


def render_page(page: str, run: Run) -> str:
    """Return the page with the figures of a run."""
    answers = read_answers(run.outcomes)
    parts = [page.partition(MARK)[0] + MARK, *_render_build(run), *_render_means(answers), *_render_questions(answers)]
    return "\n".join(parts).rstrip() + "\n"


def read_answers(outcomes: Sequence[Outcome]) -> list[Asked]:
    """Return the answers to the questions that several methods answer."""
    asked = [
        Asked(
            outcome.words[-1],
            _option(outcome, "--method"),
            _option(outcome, "--length"),
            json.loads(outcome.ran.stdout),
        )
        for outcome in outcomes
        if outcome.words[0] == "ask" and outcome.ran and outcome.ran.stdout.startswith("{")
    ]
    methods: dict[str, set[str]] = {}
    for each in asked:
        methods.setdefault(each.question, set()).add(each.method)
    return [each for each in asked if len(methods[each.question]) >= COMPARED]


def _option(outcome: Outcome, name: str) -> str:
    words = outcome.words
    return words[words.index(name) + 1] if name in words else ""


def _render_build(run: Run) -> Iterator[str]:
    """Yield a table of the steps of the main index."""
    yield "\n## What the index took\n"
    yield from _table("step", "calls", "prompt tokens", "reply tokens")
    total = Usage()
    for step, usage in run.requests.build_usage().items():
        total += usage
        yield f"| `{step}` | {_counts(usage)} |"
    yield f"| all | {_counts(total)} |"


def _render_means(answers: Sequence[Asked]) -> Iterator[str]:
    """Yield a table of mean costs, a row each method and length."""
    questions = len({each.question for each in answers})
    yield f"\n## What an answer takes\n\nMeans over {questions} questions.\n"
    yield from _table("method", "length", "calls", "prompt tokens", "reply tokens", "tokens of the answer")
    for (method, length), usages in _by_method(answers).items():
        columns = zip(*((u.calls, u.prompt_tokens, u.completion_tokens) for u, _ in usages), strict=True)
        means = [f"{mean(column):,.0f}" for column in columns]
        yield f"| `{method}` | {length or 'normal'} | {' | '.join(means)} | {mean(size for _, size in usages):,.0f} |"


def _by_method(answers: Sequence[Asked]) -> dict[tuple[str, str], list[tuple[Usage, int]]]:
    count, rows = LocalTokenizer(), dict[tuple[str, str], list[tuple[Usage, int]]]()
    for each in answers:
        rows.setdefault((each.method, each.length), []).append((each.usage, len(count(each.answer["text"]))))
    return rows


def _render_questions(answers: Sequence[Asked]) -> Iterator[str]:
    """Yield each question with its answers, folded."""
    yield "\n## The questions and their answers"
    for question, group in groupby(answers, key=lambda each: each.question):
        yield f"\n### {question}"
        for each in group:
            label = f"{each.method}, {each.length}" if each.length else each.method
            usage = each.usage
            tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
            calls = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
            yield f"\n<details>\n<summary><code>{label}</code>: {calls}, {tokens}</summary>\n"
            yield _quote(each.answer["text"])
            yield "".join(dict.fromkeys(f"\n> [{c['n']}] {c['uri']}  " for c in each.answer["citations"]))
            yield "\n</details>"


def _quote(text: str) -> str:
    """Return a text as a quotation, its headings in bold."""
    text = re.sub(r"^#+ +(.*?) *$", r"**\1**", text, flags=re.M)
    return "".join(f"> {line}".rstrip() + "\n" for line in text.splitlines()) + ">"


def _table(*heads: str) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"


def _counts(usage: Usage) -> str:
    return f"{usage.calls:,} | {usage.prompt_tokens:,} | {usage.completion_tokens:,}"
