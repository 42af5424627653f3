"""When the water is high."""

from datetime import datetime, timedelta

from tidetable.harbour import Harbour

LUNAR_DAY = timedelta(hours=24, minutes=50)
SPRING_RANGE = 1.3  # times the mean range, two days after a new or full moon


def next_high_water(harbour: Harbour, now: datetime, passage: datetime) -> datetime:
    """Return the next high water after `now`.

    passage: any passage of the moon over the meridian. High water follows each passage, and each passage on the other
    side of the earth, after the delay of the harbour.
    """
    half = LUNAR_DAY / 2
    first = passage + timedelta(minutes=harbour.delay)
    steps = (now - first) // half + 1
    return first + steps * half


def height(mean_range: float, age: float) -> float:
    """Return the height of high water above low water.

    age: of the moon, in days. The range grows by 30 percent at springs and shrinks by as much at neaps.
    """
    from math import cos, pi

    return mean_range * (1 + (SPRING_RANGE - 1) * cos(2 * pi * (age - 2) / 14.77))
