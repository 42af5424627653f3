"""an index + a description of its documents -> the questions of a study; these -> assertions on good answers."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, get_args

from typer import Option

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.facade import Kumihimo
from kumihimo.cli import options, printing
from kumihimo.cli.evaluating.options import Merge, Replace, StudyOption, raise_failures
from kumihimo.core import task, wiring
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.evaluate import grounded_questions, importers, question_generation
from kumihimo.evaluate.gold import read_index_layout, resolve_gold
from kumihimo.evaluate.records import EvalQuestion
from kumihimo.evaluate.study import Study, prompt_digests
from kumihimo.llm.cached_llm import StructuredLLM
from kumihimo.text.safe_write import read_text_file

DESCRIPTION = "description.md"
_ROLE = "questioner"
_PROMPTS = (
    grounded_questions.DESCRIPTION_PROMPT,
    question_generation.USERS_PROMPT,
    question_generation.TASKS_PROMPT,
    question_generation.QUESTIONS_PROMPT,
    grounded_questions.LOCAL_PROMPT,
    grounded_questions.LINKED_PROMPT,
)
_MAX_REASONS = 20
_MAX_EXAMPLES = 5


def questions(
    study: StudyOption,
    session: options.PaidSession,
    description: Annotated[
        str, Option(help="Description of the documents, or @FILE. Default: draft one.", metavar="TEXT")
    ] = "",
    draft: Annotated[bool, Option("--draft", help="Only draft the description, so that you can edit it.")] = False,
    source: Annotated[
        str, Option("--from", help="Draft the description from documents, reports or summaries.", metavar="WHAT")
    ] = "documents",
    variant: Annotated[str, Option(help="graphrag, or lightrag: users have expertise.", metavar="NAME")] = ("graphrag"),
    personas: Annotated[int, Option(help="Number of user personas; 0: no global questions.", min=0)] = 5,
    tasks: Annotated[int, Option(help="Tasks per user.", min=1)] = 5,
    questions: Annotated[int, Option(help="Questions per task.", min=1)] = 5,
    local: Annotated[int, Option(help="Number of questions on single chunks, with gold passages.", min=0)] = 0,
    linked: Annotated[int, Option(help="Number of questions that need two documents.", min=0)] = 0,
    merge: Merge = False,
    replace: Replace = False,
) -> None:
    """Write questions: global ones from user personas, local and linked ones."""
    sizes = {"personas": personas, "tasks": tasks, "questions": questions, "local": local, "linked": linked}
    request: dict[str, Any] = {"variant": variant, **sizes, "from": source}
    mode = import_mode(merge, replace)
    options.check_choice("source of a description", source, get_args(grounded_questions.DescriptionSource))
    options.check_choice("variant", variant, get_args(question_generation.Variant))
    if not (draft or personas or local or linked):
        raise SettingsError("no questions were requested: give --personas, --local or --linked")
    study.check_readable("questions")
    with session.open() as kumi, session.read(kumi, "reports" if source == "reports" else "") as snapshot:
        llm = kumi.models.llm(_ROLE, kumi.models.budget(session.caps))
        if linked:
            grounded_questions.pair_chunks(snapshot, 1)  # raises at once if there are none
        if draft:
            _show_draft(study, session, snapshot, llm, source, replace)
            return
        text, is_draft = _get_description(study, snapshot, llm, description, source) if personas else ("", False)
        with session.progress_bar() as progress:
            generated = _generate_questions(snapshot, llm, text, request, progress)
    run_with = {**request, "description": text, "model": llm.fingerprint, "prompts": prompt_digests(_PROMPTS)}
    _save_questions(study, session, generated, mode, is_draft, run_with)


def _save_questions(
    study: Study,
    session: options.PaidSession,
    generated: question_generation.GeneratedQuestions,
    mode: Any,
    is_draft: bool,
    run_with: Any,
) -> None:
    """Write the questions; print what is missing. Raises ItemFailed after failures."""
    merged = importers.merge_questions(study.rows_or_empty("questions"), generated.questions, mode)
    if merged.questions:
        study.write("questions", merged.questions)
        study.record_stage("questions", **run_with, written=len(generated.questions))
    if session.as_json:
        written = str(study.path("questions")) if merged.questions else ""
        summary = {"written": written, "questions": len(merged.questions), "scopes": _count_scopes(merged)}
        printing.print_json({**summary, "added": merged.added, "missing": generated.missing})
    else:
        _print_missing(generated.missing)
        if is_draft:
            printing.print_message(
                f"The description was drafted: review {study.folder / DESCRIPTION}, edit it, and run this again."
            )
        show_study_questions(study, merged)
    failures = [gap.why for gap in generated.missing if gap.failed]
    raise_failures(len(failures), len(generated.questions) + len(generated.missing), "".join(failures[:1]))
    if not generated.questions:
        raise ItemFailed("no questions were written")


def import_mode(merge: bool, replace: bool) -> Any:
    if merge and replace:
        raise SettingsError("--merge and --replace: use one or the other")
    return "merge" if merge else "replace" if replace else ""


def _show_draft(
    study: Study, session: options.PaidSession, snapshot: Snapshot, llm: StructuredLLM, source: Any, replace: bool
) -> None:
    """Draft the description of the documents and print it."""
    path = study.folder / DESCRIPTION
    if path.exists() and not replace:
        raise SettingsError(f"{path} already exists: edit it, or draft a new one with --replace")
    text = _draft_description(study, snapshot, llm, source)
    if not session.as_json:
        printing.print_text(f"{text}\n")
    document = {"written": str(path), "description": text}
    session.show(document, f"Written to {path}: review it, then run `kumi eval questions`.")


def _draft_description(study: Study, snapshot: Snapshot, llm: StructuredLLM, source: Any) -> str:
    """Write a new description to the study, and return it."""
    text = grounded_questions.draft_description(grounded_questions.sample_pieces(snapshot, source), llm)
    study.write_text(DESCRIPTION, text)
    return text


def _get_description(
    study: Study, snapshot: Snapshot, llm: StructuredLLM, description: str, source: Any
) -> tuple[str, bool]:
    """Return the description, and whether it is a new draft.

    It is the option's text, else the study's, else a draft.
    """
    text = _read_description(description) or study.read_text(DESCRIPTION)
    return text or _draft_description(study, snapshot, llm, source), not text


def _read_description(description: str) -> str:
    """Return the description, from its file after @. Raises SettingsError."""
    if not description.startswith("@"):
        return description.strip()
    path = Path(description[1:])
    if not (text := read_text_file(path, "describe the documents in it, in UTF-8").strip()):
        raise SettingsError(f"{path} is empty: describe the documents in it")
    return text


def _generate_questions(
    snapshot: Snapshot, llm: StructuredLLM, description: str, request: dict[str, Any], progress: task.Progress | None
) -> question_generation.GeneratedQuestions:
    parts: list[question_generation.GeneratedQuestions] = []
    if request["personas"]:
        sizes = {name: request[name] for name in ("personas", "tasks", "questions", "variant")}
        parts.append(question_generation.generate_global_questions(description, llm, **sizes, progress=progress))
    if count := request["local"]:
        parts.append(grounded_questions.generate_local_questions(snapshot, llm, count, progress=progress))
    if count := request["linked"]:
        parts.append(grounded_questions.generate_linked_questions(snapshot, llm, count, progress=progress))
    questions = tuple(question for part in parts for question in part.questions)
    return question_generation.GeneratedQuestions(questions, tuple(gap for part in parts for gap in part.missing))


def _count_scopes(merged: importers.MergeResult) -> Counter[str]:
    return Counter(question.scope for question in merged.questions)


def _print_missing(missing: Sequence[question_generation.Missing]) -> None:
    """Print what is missing, grouped by reason."""
    reasons: dict[str, list[question_generation.Missing]] = {}
    for gap in missing:
        reasons.setdefault(gap.why, []).append(gap)
    for reason, gaps in list(reasons.items())[:_MAX_REASONS]:
        first, short = gaps[0], sum(item.asked - item.made for item in gaps)
        more = f" and {len(gaps) - 1:,} other lists (--json has them)" if len(gaps) > 1 else ""
        printing.print_error(f"{short:,} fewer than requested, {first.what}{more}: {reason}")


def show_study_questions(study: Study, merged: importers.MergeResult) -> None:
    """Print the number of questions in the study, and a few examples."""
    if not merged.questions:
        return
    counts = ", ".join(f"{n:,} {name}" for name, n in _count_scopes(merged).items())
    printing.print_message(
        f"{study.path('questions')}: {len(merged.questions):,} questions ({counts}), {merged.added:,} of them new."
    )
    step = max(len(merged.questions) // 5, 1)
    printing.print_message("Examples:")
    printing.show_rows([(q.scope, q.text) for q in merged.questions[::step][:_MAX_EXAMPLES]])
    if study.systems():
        printing.print_message("The study already has answers: `kumi eval run` answers the new questions.")


# -- assertions


def assertions(study: StudyOption, session: options.PaidSession) -> None:
    """Write assertions for each question from its gold passages, for scoring."""
    questions = study.questions()
    study.check_readable()
    with session.open() as kumi, session.progress_bar() as progress:
        llm = kumi.models.llm(_ROLE, kumi.models.budget(session.caps))
        texts = _gold_texts(kumi, questions)
        results = list(question_generation.generate_assertions(questions, texts, llm, progress=progress))
        study.write("questions", [row.question for row in results])
        sizes = {"most": question_generation.MAX_ASSERTIONS, "least": question_generation.MIN_RATING}
        prompts = prompt_digests((question_generation.WRITE_PROMPT, question_generation.RATE_PROMPT))
        study.record_stage("assertions", model=llm.fingerprint, **sizes, prompts=prompts)
    _show_assertions(study, session, results)
    failures = [row.why for row in results if row.status != "ok"]
    raise_failures(len(failures), len(results), "".join(failures[:1]))


def _gold_texts(kumi: Kumihimo, questions: Sequence[EvalQuestion]) -> Callable[[EvalQuestion], list[str]]:
    """Return a function from a question to its gold texts.

    The texts are those of the study, or else of the index.
    """
    texts = {question.id: [gold.text for gold in question.gold] for question in questions}
    if unquoted := [question for question in questions if not all(texts[question.id])]:
        with kumi.snapshot() as snapshot:
            layout = read_index_layout(snapshot)
            for id, passages in resolve_gold(snapshot, layout, unquoted).items():
                places = [(snapshot.table(wiring.ROOT)[layout.ids[p.uri]].text, p) for p, *_ in passages.values()]
                texts[id] = [text[place.start : place.end] for text, place in places]
    return lambda question: texts[question.id]


def _show_assertions(
    study: Study, session: options.PaidSession, results: Sequence[question_generation.AssertionResult]
) -> None:
    path, total = str(study.path("questions")), sum(len(row.question.assertions) for row in results)
    dropped = [
        {"question": row.question.id, "text": text, **asdict(rating)} for row in results for text, rating in row.dropped
    ]
    if session.as_json:
        without = [{"question": row.question.id, "status": row.status, "why": row.why} for row in results if row.why]
        printing.print_json({"written": path, "assertions": total, "dropped": dropped, "without": without})
        return
    rows = [(row.question.id, f"{len(row.question.assertions):,}", f"{len(row.dropped):,}", row.why) for row in results]
    printing.show_rows(rows, head=("question", "assertions", "dropped", ""), numeric=(1, 2))
    printing.print_message(f"{total:,} assertions are in {path}; {len(dropped):,} were rated too low and left out.")
