"""a study's questions -> the same with assertions: what a good answer to each should say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import configure_logging, open_index
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, StudyFolder
from kumihimo.cli.options import (
    DEFAULT_INDEX,
    CacheFile,
    IndexFolder,
    JsonOutput,
    MaxCalls,
    MaxCost,
    MaxTokens,
    SettingOverrides,
    ShowPrompts,
    Verbose,
)
from kumihimo.core.errors import ItemFailed
from kumihimo.llm.budget import Caps

if TYPE_CHECKING:
    from kumihimo.app.facade import Kumihimo
    from kumihimo.evaluate.assertions import AssertionResult
    from kumihimo.evaluate.records import EvalQuestion, Gold
    from kumihimo.evaluate.study import Study

_ROLE = "questioner"


def assertions(
    study: StudyFolder = DEFAULT_STUDY,
    folder: IndexFolder = DEFAULT_INDEX,
    options: SettingOverrides = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: CacheFile = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: JsonOutput = False,
) -> None:
    """Write what a good answer to each question should say, from its gold passages; `kumi eval score` checks it."""
    from kumihimo.evaluate.assertions import generate_assertions
    from kumihimo.evaluate.study import Study

    configure_logging(verbose, show_prompts)
    held = Study(study)
    questions = held.questions()
    held.check_readable()
    with open_index(folder, options, cache) as kumi, terminal.progress_bar(not (verbose or show_prompts)) as progress:
        ask = kumi.models.llm(_ROLE, kumi.models.budget(Caps(max_calls, max_tokens, max_cost)))
        made = list(generate_assertions(questions, _gold_texts(kumi, questions), ask, progress=progress))
        _save_assertions(held, made, ask.fingerprint)
    _show_assertions(held, made, as_json=as_json)
    if failed := [row for row in made if row.status != "ok"]:
        raise ItemFailed(
            f"{len(failed):,} of {len(made):,} questions have no assertions yet; the same command tries them again. "
            f"Of the first: {failed[0].why}"
        )


def _gold_texts(kumi: Kumihimo, questions: Sequence[EvalQuestion]) -> Callable[[EvalQuestion], list[str]]:
    """What the gold of each question says: its own words, or those of the index."""
    if not any(gold.id and not gold.text for question in questions for gold in question.gold):
        return lambda question: [gold.text for gold in question.gold]
    with kumi.snapshot() as reading:
        known = {gold: gold.text or reading.find(gold.id).record.text for q in questions for gold in q.gold}
    return lambda question: [_gold_text(gold, known[gold]) for gold in question.gold]


def _gold_text(gold: Gold, text: str) -> str:
    return text if gold.text else text[gold.start : gold.end]


def _save_assertions(held: Study, made: Sequence[AssertionResult], mark: str) -> None:
    from kumihimo.core.digests import hash_parts
    from kumihimo.evaluate.assertions import MAX_ASSERTIONS, MIN_RATING, RATE_PROMPT, WRITE_PROMPT

    held.write("questions", [row.question for row in made])
    prompts = {path.stem: hash_parts(path.read_text(encoding="utf-8")) for path in (WRITE_PROMPT, RATE_PROMPT)}
    held.record_stage("assertions", model=mark, most=MAX_ASSERTIONS, least=MIN_RATING, prompts=prompts)


def _show_assertions(held: Study, made: Sequence[AssertionResult], *, as_json: bool) -> None:
    total = sum(len(row.question.assertions) for row in made)
    dropped = [(row.question.id, text, rating) for row in made for text, rating in row.dropped]
    if as_json:
        without = [{"question": row.question.id, "status": row.status, "why": row.why} for row in made if row.why]
        left = [{"question": id, "text": text, **asdict(rating)} for id, text, rating in dropped]
        jsonl.print_json(
            {"written": str(held.path("questions")), "assertions": total, "dropped": left, "without": without}
        )
        return
    terminal.show_rows(_question_rows(made), head=("question", "assertions", "dropped", ""), numeric=(1, 2))
    print(f"{total:,} assertions are in {held.path('questions')}; {len(dropped):,} were rated too low, and left out.")


def _question_rows(made: Sequence[AssertionResult]) -> Iterator[tuple[str, ...]]:
    for row in made:
        yield row.question.id, f"{len(row.question.assertions):,}", f"{len(row.dropped):,}", row.why
