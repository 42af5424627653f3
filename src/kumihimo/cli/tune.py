"""documents, or questions with gold -> settings fitted to them, printed or written to kumi.toml."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option

from kumihimo.app.settings import config
from kumihimo.cli import options, printing
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.index.prompt_tuning import TunedSettings, tune_prompts

if TYPE_CHECKING:
    from kumihimo.evaluate.weight_fitting import RefitResult


def tune(
    session: options.PaidSession,
    questions: Annotated[
        Path | None, Option(help="Fit the weights of `braid` to questions with gold instead (JSONL).", metavar="FILE")
    ] = None,
    sample: Annotated[int | None, Option(help="Number of chunks to show the model (default 20).", min=1)] = None,
    examples: Annotated[int | None, Option(help="Number of examples to write (default 2).", min=0, max=5)] = None,
    write: Annotated[bool, Option("--write", help="Write the settings to kumi.toml beside the index.")] = False,
) -> None:
    """Let the chat model write settings, or fit `braid` to questions."""
    sizes = {name: size for name, size in (("sample", sample), ("examples", examples)) if size is not None}
    path = session.index.base / "kumi.toml"
    if questions:
        if sizes:
            raise SettingsError("--questions needs no model: leave out --sample and --examples, or --questions")
        _refit(session, questions, path if write else None)
        return
    with session.open() as kumi, kumi.snapshot() as snapshot:
        llm = kumi.models.llm("mentions", kumi.models.budget(session.caps))
        result = tune_prompts(snapshot.table("chunks"), llm, **sizes)
    unwritten = config.add_settings(path, result.settings) if write else list(result.settings)
    document = {"settings": result.settings, "written": [s for s in result.settings if s not in unwritten]}
    session.show(document, lambda _: _show_tuned(result, path, unwritten, write))
    for error in result.failed:
        printing.print_error(f"an example is missing: {error}")
    raise Exit(1 if result.failed else 0)


def _show_tuned(result: TunedSettings, path: Path, unwritten: Sequence[str], write: bool) -> None:
    """Print the settings. unwritten: the tables that are not in the file."""
    sections = [config.render_section(scope, result.settings[scope]) for scope in unwritten]
    printing.print_text("\n".join(sections), end="")
    if written := [f"[{scope}]" for scope in result.settings if scope not in unwritten]:
        printing.print_message(f"{' and '.join(written)} written to {path}: review it, then run `kumi index`.")
    if write and unwritten:
        names = " and ".join(f"[{scope}]" for scope in unwritten)
        printing.print_error(f"{path} already sets some of {names} and was not changed: copy what you want")


# -- weights fitted to questions


def _refit(session: options.PaidSession, questions: Path, path: Path | None) -> None:
    """Fit the weights of `braid` to questions with gold.

    path: the file to write settings to if they help. Raises ItemFailed if they were to be written and were not.
    """
    from kumihimo.evaluate.importers import read_question_file
    from kumihimo.evaluate.weight_fitting import refit_weights

    with session.open() as kumi, session.progress_bar() as progress:
        gold_questions, _ = read_question_file(questions)
        with kumi.snapshot() as snapshot:
            result = refit_weights(snapshot, gold_questions, kumi.models.budget(session.caps), progress)
    unwritten = config.add_settings(path, result.settings) if path and result.is_improvement else list(result.settings)
    session.show(_refit_json(result, unwritten), lambda _: _show_refitted(result, path, unwritten))
    if path and not result.is_improvement:
        raise ItemFailed("nothing was written, because it would not help: the weights stay as they are")
    if path and unwritten:
        raise ItemFailed(f"{path} already sets these: delete its lines and run this again")


def _refit_json(result: "RefitResult", unwritten: Sequence[str]) -> dict[str, object]:
    return {
        "questions": result.questions,
        "present": result.present_recall,
        "fitted": result.fitted_recall,
        "difference": result.difference,
        "interval": [result.low, result.high],
        "p": result.p,
        "helps": result.is_improvement,
        "settings": result.settings,
        "written": [scope for scope in result.settings if scope not in unwritten],
    }


def _show_refitted(result: "RefitResult", path: Path | None, unwritten: Sequence[str]) -> None:
    printing.print_message(f"{result.questions:,} questions with gold. Recall@5:")
    printing.print_message(f"  {result.present_recall:.3f} by the present weights")
    printing.print_message(
        f"  {result.fitted_recall:.3f} by weights fitted to 4/5 of the questions, measured on the other 1/5"
    )
    interval = f"95 % interval {result.low:+.3f} to {result.high:+.3f}"
    p = "p < .001" if result.p < 0.001 else f"p = {result.p:.3f}"
    printing.print_message(f"  {result.difference:+.3f} between the two, {interval}, {p}")
    verdict = "Fitted weights help" if result.is_improvement else "Fitted weights do not help more than chance would"
    printing.print_message(f"{verdict}." if unwritten else f"{verdict}. They were written to {path}.")
    if unwritten:
        printing.print_message(f"Fitted to all {result.questions:,} they would be:\n")
        printing.print_text(config.render_section("braid", result.settings["braid"]), end="")
