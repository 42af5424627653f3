"""an index + a description of its documents -> questions of a study, and what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from kumihimo.app.snapshot import Snapshot
from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import configure_logging, open_index
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, Merge, Replace, StudyFolder
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
from kumihimo.cli.sanitize import replace_controls
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed, SettingsError, describe_unknown
from kumihimo.core.task import Progress
from kumihimo.evaluate import corpus_description, grounded_questions, question_generation
from kumihimo.evaluate.corpus_description import DescriptionSource, describe_documents, sample_pieces
from kumihimo.evaluate.grounded_questions import pair_chunks
from kumihimo.evaluate.importers import MergeResult, merge_questions
from kumihimo.evaluate.question_generation import GeneratedQuestions, Missing, Variant, generate_global_questions
from kumihimo.evaluate.study import Study
from kumihimo.llm.budget import Caps
from kumihimo.llm.cached_llm import CachedLLM

DESCRIPTION = "description.md"
_MAX_REASONS = 20
_MAX_EXAMPLES = 5


def questions(
    description: Annotated[
        str, typer.Option(help="Description of the documents, or @FILE. Default: draft one.", metavar="TEXT")
    ] = "",
    draft: Annotated[
        bool, typer.Option("--draft", help="Only draft the description, so that you can edit it.")
    ] = False,
    source: Annotated[
        str, typer.Option("--from", help="Draft the description from documents, reports or summaries.", metavar="WHAT")
    ] = "documents",
    variant: Annotated[str, typer.Option(help="graphrag, or lightrag: users have expertise.", metavar="NAME")] = (
        "graphrag"
    ),
    personas: Annotated[int, typer.Option(help="Number of user personas; 0: no global questions.", min=0)] = 5,
    tasks: Annotated[int, typer.Option(help="Tasks per user.", min=1)] = 5,
    questions: Annotated[int, typer.Option(help="Questions per task.", min=1)] = 5,
    local: Annotated[int, typer.Option(help="Number of questions on single chunks, with gold passages.", min=0)] = 0,
    linked: Annotated[int, typer.Option(help="Number of questions that need two documents.", min=0)] = 0,
    merge: Merge = False,
    replace: Replace = False,
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
    """Write questions: global ones from user personas, local and linked ones."""
    configure_logging(verbose, show_prompts)
    study_files = Study(study)
    request: dict[str, Any] = {"variant": variant, "personas": personas, "tasks": tasks, "questions": questions}
    request |= {"local": local, "linked": linked, "from": source}
    mode = import_mode(merge, replace)
    _check_options(request, draft=draft)
    study_files.check_readable("questions")
    with open_index(folder, options, cache) as kumi, kumi.snapshot() as snapshot:
        llm = kumi.models.llm("questioner", kumi.models.budget(Caps(max_calls, max_tokens, max_cost)))
        if linked:
            _check_pairs(snapshot)
        text, is_draft = "", False
        if personas or draft:
            text, is_draft = _get_description(
                study_files, snapshot, llm, description, source, draft=draft, redraft=replace
            )
        if draft:
            _show_draft(study_files, text, as_json)
            return
        with terminal.progress_bar(not (verbose or show_prompts)) as progress:
            generated = _generate_questions(snapshot, llm, text, request, progress)
    _save_questions(
        study_files, generated, mode, is_draft, as_json, {**request, "description": text, "model": llm.fingerprint}
    )


def _save_questions(
    study: Study, generated: GeneratedQuestions, mode: Any, is_draft: bool, as_json: bool, run_with: dict[str, Any]
) -> None:
    """Write the questions; print what is missing. Raises ItemFailed after failures."""

    if not as_json:
        _print_missing(generated.missing)
    merged = merge_questions(study.rows_or_empty("questions"), generated.questions, mode)
    if merged.questions:
        study.write("questions", merged.questions)
        study.record_stage("questions", **run_with, prompts=_prompts(), written=len(generated.questions))
    _show_result(study, merged, generated, is_draft, as_json)
    if failed := sum(gap.failed for gap in generated.missing):
        raise ItemFailed(f"{failed:,} calls failed: run the same command to try them again")
    if not generated.questions:
        raise ItemFailed("no questions were written")


def import_mode(merge: bool, replace: bool) -> Any:
    if merge and replace:
        raise SettingsError("--merge and --replace: use one or the other")
    return "merge" if merge else "replace" if replace else ""


def _check_options(request: dict[str, Any], *, draft: bool) -> None:
    """Raise SettingsError for bad options, before any call."""
    from typing import get_args

    for name, choices, label in (
        ("from", DescriptionSource, "source of a description"),
        ("variant", Variant, "variant"),
    ):
        if request[name] not in get_args(choices):
            raise SettingsError(describe_unknown(label, request[name], get_args(choices)))
    if not draft and not any(request[name] for name in ("personas", "local", "linked")):
        raise SettingsError("no questions were requested: give --personas, --local or --linked")


def _check_pairs(snapshot: Snapshot) -> None:

    pair_chunks(snapshot, 1)


def _get_description(
    study: Study, snapshot: Snapshot, llm: CachedLLM, description: str, source: Any, *, draft: bool, redraft: bool
) -> tuple[str, bool]:
    """Return the description, and whether it is a new draft.

    It is the given text, else the study's file, else a draft, which is written there.
    """

    path = study.folder / DESCRIPTION
    if draft and path.exists() and not redraft:
        raise SettingsError(f"{path} already exists: edit it, or draft a new one with --replace")
    if text := "" if draft else _read_description(description) or study.read_text(DESCRIPTION):
        return text, False
    text = describe_documents(sample_pieces(snapshot, source), llm)
    study.write_text(DESCRIPTION, text)
    return text, True


def _read_description(description: str) -> str:
    """Return the description, from its file after @. Raises SettingsError."""
    if not description.startswith("@"):
        return description.strip()
    path = Path(description[1:])
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): describe the documents in it, in UTF-8") from error
    if not text:
        raise SettingsError(f"{path} is empty: describe the documents in it")
    return text


def _generate_questions(
    snapshot: Snapshot, llm: CachedLLM, description: str, request: dict[str, Any], progress: Progress | None
) -> GeneratedQuestions:

    variant: Variant = request["variant"]
    sizes = {name: request[name] for name in ("personas", "tasks", "questions")}
    parts: list[GeneratedQuestions] = []
    if request["personas"]:
        parts.append(generate_global_questions(description, llm, **sizes, variant=variant, progress=progress))
    for name, make in (
        ("local", grounded_questions.generate_local_questions),
        ("linked", grounded_questions.generate_linked_questions),
    ):
        parts += [make(snapshot, llm, request[name], progress=progress)] if request[name] else []
    return GeneratedQuestions(
        tuple(q for part in parts for q in part.questions), tuple(m for part in parts for m in part.missing)
    )


def _prompts() -> dict[str, str]:

    paths = (
        corpus_description.PROMPT,
        question_generation.USERS_PROMPT,
        question_generation.TASKS_PROMPT,
        question_generation.QUESTIONS_PROMPT,
        grounded_questions.PROMPT,
        grounded_questions.LINKED_PROMPT,
    )
    return {path.stem: hash_parts(path.read_text(encoding="utf-8")) for path in paths}


def _show_draft(study: Study, description: str, as_json: bool) -> None:
    path = study.folder / DESCRIPTION
    if as_json:
        jsonl.print_json({"written": str(path), "description": description})
        return
    print(replace_controls(description))
    print(f"\nWritten to {path}: review it, then run `kumi eval questions`.")


def _show_result(
    study: Study, merged: MergeResult, generated: GeneratedQuestions, is_draft: bool, as_json: bool
) -> None:
    path = study.path("questions")
    kinds = Counter(question.scope for question in merged.questions)
    if as_json:
        missing = [asdict(gap) for gap in generated.missing]
        summary: dict[str, Any] = {"written": str(path) if merged.questions else "", "questions": len(merged.questions)}
        jsonl.print_json({**summary, "scopes": kinds, "added": merged.added, "missing": missing})
        return
    if is_draft:
        print(f"The description was drafted: review {study.folder / DESCRIPTION}, edit it, and run this again.")
    show_study_questions(study, merged)


def _print_missing(missing: Sequence[Missing]) -> None:
    """Print what is missing, grouped by reason."""
    reasons: dict[str, list[Missing]] = {}
    for gap in missing:
        reasons.setdefault(gap.why, []).append(gap)
    for reason, gaps in list(reasons.items())[:_MAX_REASONS]:
        first, short = gaps[0], sum(item.asked - item.made for item in gaps)
        more = f" and {len(gaps) - 1:,} other lists (--json has them)" if len(gaps) > 1 else ""
        terminal.print_error(f"{short:,} fewer than requested, {first.what}{more}: {reason}")


def show_study_questions(study: Study, merged: MergeResult) -> None:
    """Print the number of questions in the study, and a few examples."""
    if not merged.questions:
        return
    kinds = Counter(question.scope for question in merged.questions)
    counts = ", ".join(f"{n:,} {name}" for name, n in kinds.items())
    print(f"{study.path('questions')}: {len(merged.questions):,} questions ({counts}), {merged.added:,} of them new.")
    step = max(len(merged.questions) // 5, 1)
    print("Examples:")
    terminal.show_rows([(q.scope, q.text) for q in merged.questions[::step][:_MAX_EXAMPLES]])
    if study.systems():
        print("The study already has answers: `kumi eval run` answers the new questions.")
