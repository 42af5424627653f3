"""a study's answers -> scores.jsonl: what each is worth by itself, without another to compare it with."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import listen, opened
from kumihimo.cli.evaluating.options import STUDY, Answering, Folder, split
from kumihimo.cli.options import HOME, Index, Json, MaxCalls, MaxCost, MaxTokens, Memo, Set, ShowPrompts, Verbose
from kumihimo.cli.sanitize import harmless
from kumihimo.core.digests import digest
from kumihimo.core.errors import ItemFailed
from kumihimo.llm.budget import Caps
from kumihimo.llm.registry import SET

if TYPE_CHECKING:
    from kumihimo.app.facade import Kumihimo
    from kumihimo.evaluate.records import Score
    from kumihimo.evaluate.scoring.run_scores import Mean
    from kumihimo.evaluate.study import Study

_ROLE = "scorer"
_LISTED, _NAMED = 10, 3  # reasons, measures of one


def score(
    study: Folder = STUDY,
    methods: Answering = "",
    measures: Annotated[
        str, typer.Option(help="These measures, or groups: words, ragas, assertions, claims, all.", metavar="NAMES")
    ] = "",
    repeats: Annotated[int, typer.Option(help="Score each answer so many times, and take the mean.", min=1)] = 1,
    folder: Index = HOME,
    options: Set = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    memo: Memo = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: Json = False,
) -> None:
    """Score each answer: faithful, correct, its evidence relevant and complete; some measures need no model."""
    from kumihimo.evaluate.scoring.run_scores import chosen, means
    from kumihimo.evaluate.study import Study

    listen(verbose, show_prompts)
    held = Study(study)
    systems = held.chosen(split(methods))
    held.ready("scores")
    with opened(folder, options, memo) as kumi:
        names, left = _affordable(kumi, chosen(split(measures)), named=bool(measures))
        scores = _scored(
            kumi,
            held,
            systems,
            names,
            Caps(max_calls, max_tokens, max_cost),
            repeats,
            shown=not (verbose or show_prompts),
        )
    _show(held, scores, means(scores, held.questions()), left, as_json=as_json)
    _complain(scores)


def _affordable(kumi: Kumihimo, names: Sequence[str], *, named: bool) -> tuple[list[str], list[str]]:
    """The measures that can be had, and those left out for want of a model, which nobody has asked for by name."""
    from kumihimo.evaluate.scoring import MEASURES

    if named or kumi.models.chat(_ROLE):
        return list(names), []
    return [n for n in names if not MEASURES[n].paid], [n for n in names if MEASURES[n].paid]


def _scored(
    kumi: Kumihimo, held: Study, systems: Sequence[str], names: Sequence[str], caps: Caps, repeats: int, *, shown: bool
) -> list[Score]:
    """The scores, written, with how they were made."""
    from kumihimo.evaluate.scoring import MEASURES
    from kumihimo.evaluate.scoring.run_scores import paired, prompts, scored
    from kumihimo.evaluate.study import line

    purse = kumi.models.purse(caps)
    ask = kumi.models.asking(_ROLE, purse) if any(MEASURES[n].paid for n in names) else None
    embedder = kumi.models.embedder(purse) if any("embedder" in MEASURES[n].needs for n in names) else None
    questions = held.questions()
    answers = [answer for system in systems for answer in held.answers(system)]
    cases = list(paired(questions, answers))
    if len(cases) < len(answers):
        print(f"(Left out, since the study does not ask that: {len(answers) - len(cases):,} answers.)", file=sys.stderr)
    with terminal.progress(shown) as progress:
        made = list(scored(cases, names, ask, embedder, repeats=repeats, progress=progress))
    held.put("scores", made, lambda row: row.system in systems and row.name in names)
    marks = {"model": ask.mark if ask else "", "embedder": embedder.mark if embedder else ""}
    reads = {s: digest(*(line(case.answer) for case in cases if case.answer.system == s)) for s in systems}
    told = {
        "repeats": repeats,
        **marks,
        "prompts": prompts() if ask else {},
        "questions": digest(*map(line, questions)),
    }
    ran = {"measures": list(names), "systems": reads, **told}
    held.note("score", runs=[*_before(held, systems, names), ran])
    return made


def _before(held: Study, systems: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
    """How other scores were made: runs all of whose scores were made anew are not told any more."""
    runs = held.manifest().get("score", {}).get("runs", [])
    return [run for run in runs if not (set(run["systems"]) <= set(systems) and set(run["measures"]) <= set(names))]


def _show(held: Study, scores: Sequence[Score], found: Sequence[Mean], left: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        missed = {status: sum(score.status == status for score in scores) for status in ("invalid", "failed")}
        written = {"written": str(held.path("scores")), "scores": len(scores), **missed, "needs_a_model": list(left)}
        jsonl.show({**written, "means": [asdict(mean) for mean in found]})
        return
    head = ("measure", "system", "mean", "95 %", "n/N")
    again = any(mean.spread is not None for mean in found)
    defined = {mean.measure for mean in found if mean.n}
    rows = [(*_row(mean), *([_number(mean.spread)] if again else [])) for mean in found if mean.measure in defined]
    terminal.show_rows(rows, head=(*head, "spread") if again else head, figures=(2, 3, 4, 5))
    if nowhere := [name for name in dict.fromkeys(mean.measure for mean in found) if name not in defined]:
        print(f"Of no answer: {', '.join(nowhere)}.")
    for line in islice(_without(scores), _LISTED):
        print(harmless(line), file=sys.stderr)
    if left:
        print(f"Not computed, since a chat model is needed: {', '.join(left)}. To have them, {SET}.", file=sys.stderr)
    print(f"{len(scores):,} scores are in {held.path('scores')}.")


def _without(scores: Sequence[Score]) -> Iterator[str]:
    """Why scores have no value, the most frequent reason first."""
    why: dict[str, Counter[str]] = {}
    for score in scores:
        if score.value is None:
            why.setdefault(score.reason, Counter())[score.name] += 1
    for reason, names in sorted(why.items(), key=lambda each: -each[1].total()):
        which = ", ".join(list(names)[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        yield f"No value for {names.total():,} of {len(scores):,}: {reason} ({which})."


def _row(mean: Mean) -> tuple[str, ...]:
    between = f"{_number(mean.low)}–{_number(mean.high)}" if mean.n else ""
    return mean.measure, mean.system, _number(mean.value), between, f"{mean.n:,}/{mean.of:,}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _complain(scores: Sequence[Score]) -> None:
    """Raises ItemFailed where a score could not be had from the model."""
    failed = [score for score in scores if score.status != "ok"]
    if failed:
        unread = sum(score.status == "invalid" for score in failed)
        raise ItemFailed(
            f"{len(failed):,} of {len(scores):,} scores could not be had, {unread:,} of them since replies cannot be "
            f"read; the same command tries them again. Of the first: {failed[0].reason}"
        )
