"""the name of an attribute -> that of numpy, which is imported at the first one: a start without vectors needs none."""

from typing import TYPE_CHECKING, Any, TypeVar

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


Number = TypeVar("Number", bound="integer[Any]")  # noqa: F405


def sort_distinct(numbers: "NDArray[Number]") -> "NDArray[Number]":
    """Return the sorted numbers, each once.

    np.unique does so too, but imports numpy.ma.
    """
    import numpy as np

    ordered = np.sort(numbers)
    is_new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]
