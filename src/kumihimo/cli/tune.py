"""documents, or questions with gold -> settings fitted to them, printed or written to kumi.toml."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kumihimo.app import config
from kumihimo.app.facade import Kumihimo
from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import configure_logging, open_index
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
from kumihimo.core.task import Progress
from kumihimo.llm.budget import Caps

if TYPE_CHECKING:
    from kumihimo.evaluate.weight_tuning import RefitResult
    from kumihimo.index.prompt_tuning import TunedSettings


def tune(
    questions: Annotated[
        Path | None,
        typer.Option(help="Fit the weights of `braid` to questions with gold instead (JSONL).", metavar="FILE"),
    ] = None,
    sample: Annotated[int | None, typer.Option(help="Number of chunks to show the model (default 20).", min=1)] = None,
    examples: Annotated[int | None, typer.Option(help="Number of examples to write (default 2).", min=0, max=5)] = None,
    write: Annotated[bool, typer.Option("--write", help="Write the settings to kumi.toml beside the index.")] = False,
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
    """Let the chat model write settings; or fit `braid` to your questions."""
    configure_logging(verbose, show_prompts)
    caps, path = Caps(max_calls, max_tokens, max_cost), folder.resolve().parent / "kumi.toml"
    if questions:
        if (sample, examples) != (None, None):
            raise SettingsError("--questions needs no model: leave out --sample and --examples, or --questions")
        bar = terminal.progress_bar(not (verbose or show_prompts or as_json))
        with open_index(folder, options, cache) as kumi, bar as progress:
            _refit(kumi, questions, caps, path if write else None, progress, as_json)
        return
    from kumihimo.index.prompt_tuning import tune_prompts

    with open_index(folder, options, cache) as kumi, kumi.snapshot() as snapshot:
        llm = kumi.models.llm("mentions", kumi.models.budget(caps))
        sizes = {"sample": sample, "examples": examples}
        overrides = {name: size for name, size in sizes.items() if size is not None}
        result = tune_prompts(snapshot.table("chunks"), llm, **overrides)
    unwritten = config.add_settings(path, result.settings) if write else list(result.settings)
    if as_json:
        jsonl.print_json({"settings": result.settings, "written": [s for s in result.settings if s not in unwritten]})
    else:
        _show_tuned(result, path, unwritten, write)
    for error in result.failed:
        terminal.print_error(f"an example is missing: {error}")
    raise typer.Exit(1 if result.failed else 0)


def _show_tuned(result: TunedSettings, path: Path, unwritten: Sequence[str], write: bool) -> None:
    """Print the settings. unwritten: the tables that are not in the file."""
    print(
        replace_controls("\n".join(config.render_section(scope, result.settings[scope]) for scope in unwritten)), end=""
    )
    written = [f"[{scope}]" for scope in result.settings if scope not in unwritten]
    if written:
        print(f"{' and '.join(written)} written to {path}: review it, then run `kumi index`.")
    if write and unwritten:
        names = " and ".join(f"[{scope}]" for scope in unwritten)
        terminal.print_error(f"{path} already sets some of {names} and was not changed: copy what you want")


# -- weights fitted to questions


def _refit(
    kumi: Kumihimo, questions: Path, caps: Caps, path: Path | None, progress: Progress | None, as_json: bool
) -> None:
    """Fit the weights of `braid` to questions with gold.

    path: the file to write settings to if they help. Raises ItemFailed if they were to be written and were not.
    """
    from kumihimo.evaluate.importers import read_question_file
    from kumihimo.evaluate.weight_tuning import refit_weights

    gold_questions, _ = read_question_file(questions)
    with kumi.snapshot() as snapshot:
        result = refit_weights(snapshot, gold_questions, kumi.models.budget(caps), progress)
    unwritten = config.add_settings(path, result.settings) if path and result.is_improvement else list(result.settings)
    if as_json:
        jsonl.print_json(_refit_json(result, unwritten))
    else:
        _show_refitted(result, path, unwritten)
    if path and not result.is_improvement:
        raise ItemFailed("nothing was written, because it would not help: the weights stay as they are")
    if path and unwritten:
        raise ItemFailed(f"{path} already sets these: delete its lines and run this again")


def _refit_json(result: RefitResult, unwritten: Sequence[str]) -> dict[str, object]:
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


def _show_refitted(result: RefitResult, path: Path | None, unwritten: Sequence[str]) -> None:
    print(f"{result.questions:,} questions with gold. Recall@5:")
    print(f"  {result.present_recall:.3f} by the present weights")
    print(f"  {result.fitted_recall:.3f} by weights fitted to 4/5 of the questions, measured on the other 1/5")
    print(
        f"  {result.difference:+.3f} between the two, 95 % interval {result.low:+.3f} to {result.high:+.3f}, "
        f"{_format_p(result.p)}"
    )
    verdict = "Fitted weights help" if result.is_improvement else "Fitted weights do not help more than chance would"
    print(f"{verdict}.{'' if unwritten else f' They were written to {path}.'}")
    if unwritten:
        print(f"Fitted to all {result.questions:,} they would be:\n")
        print(config.render_section("braid", result.settings["braid"]), end="")


def _format_p(p: float) -> str:
    return "p < .001" if p < 0.001 else f"p = {p:.3f}"
