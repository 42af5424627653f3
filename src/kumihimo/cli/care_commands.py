"""kumi status, check, methods, init, trust, cache -> what an index is and holds; its settings and files in order."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from kumihimo.app.browse.json_values import method_json
from kumihimo.app.build.remote_sources import is_mirrors_folder, trust_mirrors
from kumihimo.app.opened.catalogue import installed_catalogue
from kumihimo.app.opened.open_index import IndexPlace
from kumihimo.app.settings import config, settings_registry
from kumihimo.app.settings.trust import trust_settings_file
from kumihimo.app.upkeep.copy_index import copy_index
from kumihimo.cli import options, printing, terminal
from kumihimo.text import safe_write


def status(
    index: options.IndexFolder,
    levels: Annotated[bool, Option("--levels", help="Also show the size of each community level.")] = False,
) -> None:
    """Show the sources, tables, models and failures of the index."""
    with index.open() as kumi:
        state = kumi.status(levels=levels)
    index.show(state, terminal.show_status)
    raise Exit(1 if state.failed else 0)


def check(
    index: options.IndexFolder,
    repair: Annotated[bool, Option("--repair", help="Rebuild the damaged parts that can be rebuilt.")] = False,
    yes: Annotated[
        bool, Option("--yes", "-y", help="Agree to pay for model calls again if the repair needs them.")
    ] = False,
    wait: options.Wait = False,
) -> None:
    """Check the files of the index and of the cache for damage."""
    with index.open() as kumi:
        result = kumi.check(repair=repair, consent=yes, wait=wait)
    index.show(result, terminal.show_check)
    raise Exit(1 if result.problems else 0)


def copy(
    output: options.Output,
    source: Annotated[IndexPlace, Argument(help=options.INDEX_HELP, metavar="FROM", parser=IndexPlace.at)],
    target: Annotated[
        IndexPlace,
        Argument(help="The place of the copy: another folder or schema.", metavar="TO", parser=IndexPlace.at),
    ],
) -> None:
    """Copy an index to another folder or database, and check it."""
    with printing.progress_bar(not output.as_json) as progress:
        copied = copy_index(source, target, progress=progress)
    rows = f"{sum(copied.rows.values()):,} rows, {copied.replies:,} replies"
    output.show(copied, f"Copied {source} to {target}: {rows}.")


def methods(output: options.Output) -> None:
    """List the retrieval methods, with their recall and settings."""
    catalogue = installed_catalogue()
    if output.as_json:
        printing.print_json({name: method_json(name, method) for name, method in catalogue.methods.items()})
        return
    terminal.show_methods(catalogue.methods)
    rows = [(name, *(f"{share:.3f}" for share in shares)) for name, shares in settings_registry.RECALL.items()]
    printing.print_message("Recall@5 without a model (see docs/methods.md):")
    printing.show_rows(rows, head=("", *settings_registry.RECALL_SETS), numeric=range(1, 6))


def init(
    index: options.IndexFolder,
    writing: options.Writing,
    path: Annotated[Path | None, Argument(help="The file to write. Default: kumi.toml beside the index.")] = None,
) -> None:
    """Write a kumi.toml that lists every setting, commented out."""
    path = path or index.index.folder.parent / "kumi.toml"
    registry = settings_registry.SettingsRegistry(installed_catalogue())
    safe_write.write_file(path, [config.render_default_config(registry.own, registry.summaries)], force=writing.force)
    index.show({"written": str(path)}, f"Wrote {path}: uncomment a line to change a setting.")


def trust(
    index: options.IndexFolder,
    path: Annotated[
        Path | None,
        Argument(
            help="A kumi.toml, its folder, or the mirror folder of an index. Default: kumi.toml beside the index."
        ),
    ] = None,
) -> None:
    """Allow a kumi.toml to use the servers and keys that it names."""
    path = path or index.index.base
    if is_mirrors_folder(path):
        grants = trust_mirrors(path)
    else:
        path = path / "kumi.toml" if path.is_dir() else path
        grants = trust_settings_file(path, settings_registry.SettingsRegistry(installed_catalogue()).all, os.environ)
    text = "\n  ".join([f"Trusted: {path}", *map(str, grants)]) if grants else f"{path} needs no trust."
    index.show({"path": str(path), "trusted": [grant._asdict() for grant in grants]}, text)


def cache(
    index: options.IndexFolder,
    action: Annotated[str, Argument(help="prune: erase unused replies. drop-batches: give up batches.")] = "show",
) -> None:
    """Show the size and hits of the response cache, or prune it."""
    with index.open() as kumi:
        actions: dict[str, Callable[[], dict[str, int]]] = {
            "show": kumi.cache_stats,
            "prune": lambda: {"erased": kumi.prune()},
            "drop-batches": lambda: {"dropped": kumi.drop_batches()},
        }
        options.check_choice("cache command", action, actions)
        counts = actions[action]()
        options.require_contents(index.index, [count for count in counts.values() if count])
        index.show(counts, terminal.show_cache)
