"""the questions of a study -> assertions: what a good answer should say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from kumihimo.app.facade import Kumihimo
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
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.evaluate.assertions import (
    MAX_ASSERTIONS,
    MIN_RATING,
    RATE_PROMPT,
    WRITE_PROMPT,
    AssertionResult,
    generate_assertions,
)
from kumihimo.evaluate.records import EvalQuestion, Gold
from kumihimo.evaluate.study import Study
from kumihimo.llm.budget import Caps

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
    """Write assertions for each question from its gold passages, for scoring."""

    configure_logging(verbose, show_prompts)
    study_files = Study(study)
    questions = study_files.questions()
    study_files.check_readable()
    with open_index(folder, options, cache) as kumi, terminal.progress_bar(not (verbose or show_prompts)) as progress:
        llm = kumi.models.llm(_ROLE, kumi.models.budget(Caps(max_calls, max_tokens, max_cost)))
        results = list(generate_assertions(questions, _gold_texts(kumi, questions), llm, progress=progress))
        _save_assertions(study_files, results, llm.fingerprint)
    _show_assertions(study_files, results, as_json=as_json)
    if failed := [row for row in results if row.status != "ok"]:
        raise ItemFailed(
            f"{len(failed):,} of {len(results):,} questions have no assertions yet; run the same command to try again. "
            f"The first: {failed[0].why}"
        )


def _gold_texts(kumi: Kumihimo, questions: Sequence[EvalQuestion]) -> Callable[[EvalQuestion], list[str]]:
    """Return a function from a question to its gold texts.

    The texts are those of the study, or else of the index.
    """
    if not any(gold.id and not gold.text for question in questions for gold in question.gold):
        return lambda question: [gold.text for gold in question.gold]
    with kumi.snapshot() as snapshot:
        text_by_gold = {gold: gold.text or snapshot.find(gold.id).record.text for q in questions for gold in q.gold}
    return lambda question: [_gold_text(gold, text_by_gold[gold]) for gold in question.gold]


def _gold_text(gold: Gold, text: str) -> str:
    return text if gold.text else text[gold.start : gold.end]


def _save_assertions(study: Study, results: Sequence[AssertionResult], fingerprint: str) -> None:

    study.write("questions", [row.question for row in results])
    prompts = {path.stem: hash_parts(path.read_text(encoding="utf-8")) for path in (WRITE_PROMPT, RATE_PROMPT)}
    study.record_stage("assertions", model=fingerprint, most=MAX_ASSERTIONS, least=MIN_RATING, prompts=prompts)


def _show_assertions(study: Study, results: Sequence[AssertionResult], *, as_json: bool) -> None:
    total = sum(len(row.question.assertions) for row in results)
    dropped = [(row.question.id, text, rating) for row in results for text, rating in row.dropped]
    if as_json:
        without_assertions = [
            {"question": row.question.id, "status": row.status, "why": row.why} for row in results if row.why
        ]
        dropped_rows = [{"question": id, "text": text, **asdict(rating)} for id, text, rating in dropped]
        jsonl.print_json(
            {
                "written": str(study.path("questions")),
                "assertions": total,
                "dropped": dropped_rows,
                "without": without_assertions,
            }
        )
        return
    terminal.show_rows(_question_rows(results), head=("question", "assertions", "dropped", ""), numeric=(1, 2))
    print(f"{total:,} assertions are in {study.path('questions')}; {len(dropped):,} were rated too low and left out.")


def _question_rows(results: Sequence[AssertionResult]) -> Iterator[tuple[str, ...]]:
    for row in results:
        yield row.question.id, f"{len(row.question.assertions):,}", f"{len(row.dropped):,}", row.why
