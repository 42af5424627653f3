"""an index + a description of its documents -> questions of a study, and a line for whatever is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.llm.budget import Caps

if TYPE_CHECKING:
    from kumihimo.app.snapshot import Snapshot
    from kumihimo.core.task import Progress
    from kumihimo.evaluate.importers import MergeResult
    from kumihimo.evaluate.question_generation import GeneratedQuestions, Missing, Variant
    from kumihimo.evaluate.study import Study
    from kumihimo.llm.cached_llm import CachedLLM

DESCRIPTION = "description.md"
_MAX_REASONS = 20
_MAX_EXAMPLES = 5


def questions(
    description: Annotated[
        str, typer.Option(help="What the documents are, or @FILE that says so; none: a draft.", metavar="TEXT")
    ] = "",
    draft: Annotated[bool, typer.Option("--draft", help="Only draft the description, for you to edit.")] = False,
    source: Annotated[
        str, typer.Option("--from", help="Draft it from documents, reports or summaries.", metavar="WHAT")
    ] = "documents",
    variant: Annotated[str, typer.Option(help="graphrag, or lightrag: users have expertise.", metavar="NAME")] = (
        "graphrag"
    ),
    personas: Annotated[int, typer.Option(help="Users to think of; 0: no global questions.", min=0)] = 5,
    tasks: Annotated[int, typer.Option(help="Tasks of each user.", min=1)] = 5,
    questions: Annotated[int, typer.Option(help="Questions of each task.", min=1)] = 5,
    local: Annotated[int, typer.Option(help="Questions of single chunks, with the words that answer them.", min=0)] = 0,
    linked: Annotated[int, typer.Option(help="Questions that take two documents.", min=0)] = 0,
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
    """Write questions: those of users that need all documents, and those of single chunks or pairs of them."""
    configure_logging(verbose, show_prompts)
    from kumihimo.evaluate.study import Study

    held = Study(study)
    wanted: dict[str, Any] = {
        "variant": variant,
        "personas": personas,
        "tasks": tasks,
        "questions": questions,
    }
    wanted |= {"local": local, "linked": linked, "from": source}
    put = import_mode(merge, replace)
    _check_options(wanted, draft=draft)
    held.check_readable("questions")
    with open_index(folder, options, cache) as kumi, kumi.snapshot() as reading:
        ask = kumi.models.llm("questioner", kumi.models.budget(Caps(max_calls, max_tokens, max_cost)))
        if linked:
            _check_pairs(reading)
        told, drafted = "", False
        if personas or draft:
            told, drafted = _get_description(held, reading, ask, description, source, draft=draft, redraft=replace)
        if draft:
            _show_draft(held, told, as_json)
            return
        with terminal.progress_bar(not (verbose or show_prompts)) as progress:
            made = _generate_questions(reading, ask, told, wanted, progress)
    _save_questions(held, made, put, drafted, as_json, {**wanted, "description": told, "model": ask.fingerprint})


def _save_questions(
    held: Study, made: GeneratedQuestions, put: Any, drafted: bool, as_json: bool, run_with: dict[str, Any]
) -> None:
    """Write what was made, and say what is missing. Raises ItemFailed where something failed."""
    from kumihimo.evaluate.importers import merge_questions

    if not as_json:
        _print_missing(made.missing)
    found = merge_questions(held.rows_or_empty("questions"), made.questions, put)
    if found.questions:
        held.write("questions", found.questions)
        held.record_stage("questions", **run_with, prompts=_prompts(), written=len(made.questions))
    _show_result(held, found, made, drafted, as_json)
    if failed := sum(m.failed for m in made.missing):
        raise ItemFailed(f"{failed:,} calls failed: the same command asks again for what they were to give")
    if not made.questions:
        raise ItemFailed("no questions were made")


def import_mode(merge: bool, replace: bool) -> Any:
    if merge and replace:
        raise SettingsError("--merge and --replace: say one or the other")
    return "merge" if merge else "replace" if replace else ""


def _check_options(wanted: dict[str, Any], *, draft: bool) -> None:
    """Raises SettingsError before anything is paid."""
    from typing import get_args

    from kumihimo.core.errors import describe_unknown
    from kumihimo.evaluate.corpus_description import DescriptionSource
    from kumihimo.evaluate.question_generation import Variant

    for name, known, what in (("from", DescriptionSource, "source of a description"), ("variant", Variant, "variant")):
        if wanted[name] not in get_args(known):
            raise SettingsError(describe_unknown(what, wanted[name], get_args(known)))
    if not draft and not any(wanted[name] for name in ("personas", "local", "linked")):
        raise SettingsError("no questions are asked for: say --personas, --local or --linked")


def _check_pairs(reading: Snapshot) -> None:
    from kumihimo.evaluate.grounded_questions import pair_chunks

    pair_chunks(reading, 1)


def _get_description(
    held: Study, reading: Snapshot, ask: CachedLLM, given: str, source: Any, *, draft: bool, redraft: bool
) -> tuple[str, bool]:
    """The description that was given, or stands in the study, or a draft, which is put there; and whether it is one."""
    from kumihimo.evaluate.corpus_description import describe_documents, sample_pieces

    path = held.folder / DESCRIPTION
    if draft and path.exists() and not redraft:
        raise SettingsError(f"{path} is there already: edit it, or draft it anew with --replace")
    if text := "" if draft else _read_description(given) or held.read_text(DESCRIPTION):
        return text, False
    text = describe_documents(sample_pieces(reading, source), ask)
    held.write_text(DESCRIPTION, text)
    return text, True


def _read_description(description: str) -> str:
    """Raises SettingsError where it is to stand in a file, and does not."""
    if not description.startswith("@"):
        return description.strip()
    path = Path(description[1:])
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): say what the documents are, in UTF-8") from error
    if not text:
        raise SettingsError(f"{path} is empty: say what the documents are")
    return text


def _generate_questions(
    reading: Snapshot, ask: CachedLLM, told: str, wanted: dict[str, Any], progress: Progress | None
) -> GeneratedQuestions:
    from kumihimo.evaluate import grounded_questions
    from kumihimo.evaluate.question_generation import GeneratedQuestions, generate_global_questions

    variant: Variant = wanted["variant"]
    sizes = {name: wanted[name] for name in ("personas", "tasks", "questions")}
    parts: list[GeneratedQuestions] = []
    if wanted["personas"]:
        parts.append(generate_global_questions(told, ask, **sizes, variant=variant, progress=progress))
    for name, make in (
        ("local", grounded_questions.generate_local_questions),
        ("linked", grounded_questions.generate_linked_questions),
    ):
        parts += [make(reading, ask, wanted[name], progress=progress)] if wanted[name] else []
    return GeneratedQuestions(
        tuple(q for part in parts for q in part.questions), tuple(m for part in parts for m in part.missing)
    )


def _prompts() -> dict[str, str]:
    from kumihimo.core.digests import hash_parts
    from kumihimo.evaluate import corpus_description, grounded_questions, question_generation

    paths = (
        corpus_description.PROMPT,
        question_generation.USERS_PROMPT,
        question_generation.TASKS_PROMPT,
        question_generation.QUESTIONS_PROMPT,
        grounded_questions.PROMPT,
        grounded_questions.LINKED_PROMPT,
    )
    return {path.stem: hash_parts(path.read_text(encoding="utf-8")) for path in paths}


def _show_draft(held: Study, told: str, as_json: bool) -> None:
    path = held.folder / DESCRIPTION
    if as_json:
        jsonl.print_json({"written": str(path), "description": told})
        return
    print(replace_controls(told))
    print(f"\nWritten to {path}: go over it, then `kumi eval questions` makes questions of it.")


def _show_result(held: Study, found: MergeResult, made: GeneratedQuestions, drafted: bool, as_json: bool) -> None:
    path = held.path("questions")
    kinds = Counter(question.scope for question in found.questions)
    if as_json:
        missing = [asdict(m) for m in made.missing]
        told: dict[str, Any] = {"written": str(path) if found.questions else "", "questions": len(found.questions)}
        jsonl.print_json({**told, "scopes": kinds, "added": found.added, "missing": missing})
        return
    if drafted:
        print(f"The description was drafted: look at {held.folder / DESCRIPTION}, edit it, and run this again.")
    show_study_questions(held, found)


def _print_missing(missing: Sequence[Missing]) -> None:
    """What is missing, by why."""
    reasons: dict[str, list[Missing]] = {}
    for each in missing:
        reasons.setdefault(each.why, []).append(each)
    for why, alike in list(reasons.items())[:_MAX_REASONS]:
        first, short = alike[0], sum(m.asked - m.made for m in alike)
        others = f" and {len(alike) - 1:,} other lists (--json has them)" if len(alike) > 1 else ""
        terminal.print_error(f"{short:,} fewer than asked for, {first.what}{others}: {why}")


def show_study_questions(held: Study, found: MergeResult) -> None:
    """What questions the study holds now, with a look at them."""
    if not found.questions:
        return
    kinds = Counter(question.scope for question in found.questions)
    told = ", ".join(f"{n:,} {name}" for name, n in kinds.items())
    print(f"{held.path('questions')}: {len(found.questions):,} questions ({told}), {found.added:,} of them new.")
    step = max(len(found.questions) // 5, 1)
    print("Some of them:")
    terminal.show_rows([(q.scope, q.text) for q in found.questions[::step][:_MAX_EXAMPLES]])
    if held.systems():
        print("Answers are there already: `kumi eval run` again answers what is new.")
