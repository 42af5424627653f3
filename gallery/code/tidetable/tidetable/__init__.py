"""tidetable: high water at small harbours."""

from tidetable.harbour import Harbour
from tidetable.predict import next_high_water

__all__ = ["Harbour", "next_high_water"]
