"""documents, or questions with gold -> settings fitted to them, shown or put into kumi.toml."""

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
        typer.Option(help="Fit the weights of `braid` to these questions with gold instead, JSONL.", metavar="FILE"),
    ] = None,
    sample: Annotated[int | None, typer.Option(help="How many chunks to show the model: 20.", min=1)] = None,
    examples: Annotated[int | None, typer.Option(help="How many examples to have written: 2.", min=0, max=5)] = None,
    write: Annotated[bool, typer.Option("--write", help="Put the settings into kumi.toml beside the index.")] = False,
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
    """Have the chat model write settings that fit the documents; or fit `braid` to questions of your own."""
    configure_logging(verbose, show_prompts)
    caps, path = Caps(max_calls, max_tokens, max_cost), folder.resolve().parent / "kumi.toml"
    if questions:
        if (sample, examples) != (None, None):
            raise SettingsError("--questions asks no model: leave out --sample and --examples, or --questions")
        shown = terminal.progress_bar(not (verbose or show_prompts or as_json))
        with open_index(folder, options, cache) as kumi, shown as progress:
            _refit(kumi, questions, caps, path if write else None, progress, as_json)
        return
    from kumihimo.index.prompt_tuning import tune_prompts

    with open_index(folder, options, cache) as kumi, kumi.snapshot() as reading:
        ask = kumi.models.llm("mentions", kumi.models.budget(caps))
        sizes = {"sample": sample, "examples": examples}
        given = {name: size for name, size in sizes.items() if size is not None}
        found = tune_prompts(reading.table("chunks"), ask, **given)
    left = config.add_settings(path, found.settings) if write else list(found.settings)
    if as_json:
        jsonl.print_json({"settings": found.settings, "written": [s for s in found.settings if s not in left]})
    else:
        _show_tuned(found, path, left, write)
    for why in found.failed:
        terminal.print_error(f"an example is missing: {why}")
    raise typer.Exit(1 if found.failed else 0)


def _show_tuned(found: TunedSettings, path: Path, left: Sequence[str], write: bool) -> None:
    """left: the scopes whose settings are not in the file."""
    print(replace_controls("\n".join(config.render_section(scope, found.settings[scope]) for scope in left)), end="")
    written = [f"[{scope}]" for scope in found.settings if scope not in left]
    if written:
        print(f"{' and '.join(written)} put into {path}: go over it, then `kumi index`.")
    if write and left:
        names = " and ".join(f"[{scope}]" for scope in left)
        terminal.print_error(
            f"{path} sets some of {names} already and was left as it is there: take over what you like"
        )


# -- to questions


def _refit(
    kumi: Kumihimo, questions: Path, caps: Caps, path: Path | None, progress: Progress | None, as_json: bool
) -> None:
    """path: where settings are written that help. Raises ItemFailed where they should be, and do not."""
    from kumihimo.evaluate.importers import read_question_file
    from kumihimo.evaluate.weight_tuning import refit_weights

    asked, _ = read_question_file(questions)
    with kumi.snapshot() as reading:
        found = refit_weights(reading, asked, kumi.models.budget(caps), progress)
    left = config.add_settings(path, found.settings) if path and found.is_improvement else list(found.settings)
    if as_json:
        jsonl.print_json(_refit_json(found, left))
    else:
        _show_refitted(found, path, left)
    if path and not found.is_improvement:
        raise ItemFailed("nothing was written, since it would not help: the weights stay as they are")
    if path and left:
        raise ItemFailed(f"{path} sets these already: take its lines away, and run this again")


def _refit_json(found: RefitResult, left: Sequence[str]) -> dict[str, object]:
    return {
        "questions": found.questions,
        "present": found.present_recall,
        "fitted": found.fitted_recall,
        "difference": found.difference,
        "interval": [found.low, found.high],
        "p": found.p,
        "helps": found.is_improvement,
        "settings": found.settings,
        "written": [scope for scope in found.settings if scope not in left],
    }


def _show_refitted(found: RefitResult, path: Path | None, left: Sequence[str]) -> None:
    print(f"{found.questions:,} questions with gold. Recall@5:")
    print(f"  {found.present_recall:.3f} by the present weights")
    print(f"  {found.fitted_recall:.3f} by weights fitted to four fifths of the questions, on the fifth kept from them")
    print(
        f"  {found.difference:+.3f} between the two, 95 % interval {found.low:+.3f} to {found.high:+.3f}, {_format_p(found.p)}"
    )
    verdict = (
        "Fitted weights help" if found.is_improvement else "Fitted weights do not help beyond what chance would do"
    )
    print(f"{verdict}.{'' if left else f' They were put into {path}.'}")
    if left:
        print(f"Fitted to all {found.questions:,} they would be:\n")
        print(config.render_section("braid", found.settings["braid"]), end="")


def _format_p(p: float) -> str:
    return "p < .001" if p < 0.001 else f"p = {p:.3f}"
