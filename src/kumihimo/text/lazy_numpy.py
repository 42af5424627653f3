"""the name of an attribute -> that of numpy, which is imported at the first one: a start without vectors needs none."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy import *  # noqa: F403
    from numpy.typing import NDArray as NDArray

    Floats = NDArray[float64]  # noqa: F405
    Integers = NDArray[int64]  # noqa: F405
else:

    def __getattr__(name: str) -> Any:
        """Return an attribute of numpy, or its type `NDArray`."""
        import numpy as np
        from numpy.typing import NDArray

        globals()[name] = value = NDArray if name == "NDArray" else getattr(np, name)
        return value
