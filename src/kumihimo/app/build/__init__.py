"""an index that lacks the tables of a method -> the tables, built with modules that a question does not need."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kumihimo.app.opened.open_index import OpenIndex


def build_missing(index: "OpenIndex", name: str, *arguments: Any) -> None:
    """Build the tables that a method lacks, as `build_method` does."""
    from kumihimo.app.build.prepare_build import build_method

    build_method(index, name, *arguments)
