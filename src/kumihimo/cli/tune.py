"""documents -> settings that a model writes for them, printed or written to kumi.toml."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from kumihimo.app.settings import config
from kumihimo.cli import options, printing
from kumihimo.index.prompt_tuning import TunedSettings, tune_prompts


def tune(
    session: options.PaidSession,
    sample: Annotated[int | None, Option(help="Number of chunks to show the model (default 20).", min=1)] = None,
    examples: Annotated[int | None, Option(help="Number of examples to write (default 2).", min=0, max=5)] = None,
    write: Annotated[bool, Option("--write", help="Write the settings to kumi.toml beside the index.")] = False,
) -> None:
    """Let the chat model write settings that fit your documents."""
    sizes = {name: size for name, size in (("sample", sample), ("examples", examples)) if size is not None}
    path = session.index.base / "kumi.toml"
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
