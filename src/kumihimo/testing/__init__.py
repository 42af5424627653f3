"""nothing -> what tests of an extension need: the laws of an index, and models that cost nothing."""

from typing import TYPE_CHECKING

from kumihimo.testing.fake_models import FakeChat, FakeEmbedder

if TYPE_CHECKING:
    from kumihimo.testing.laws import check_laws

__all__ = ["FakeChat", "FakeEmbedder", "check_laws"]


def __getattr__(name: str) -> object:
    """Return the laws; import them, and the whole package, first."""
    if name != "check_laws":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kumihimo.testing.laws import check_laws

    return check_laws
