"""nothing -> what tests of an extension need: the laws of an index, and models that cost nothing."""

from kumihimo.testing.fake_models import FakeChat, FakeEmbedder
from kumihimo.testing.laws import check_laws

__all__ = ["FakeChat", "FakeEmbedder", "check_laws"]
