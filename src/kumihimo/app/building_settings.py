"""`[building]` -> BuildingSettings: in how many processes, and on which machines, an index is built."""

from __future__ import annotations

from dataclasses import dataclass

from kumihimo.core.errors import SettingsError, describe_unknown

EXECUTORS = ("inline", "processes", "ray")


@dataclass(frozen=True, kw_only=True)
class BuildingSettings:
    """Settings of a build: the fields of `[building]`.

    executor: `inline` builds in one process; `processes` in several of this machine; `ray` and `ray://HOST:PORT` on the
    machines of a Ray cluster. workers: the number of processes; 0: one for each core. Raises SettingsError for another
    executor.
    """

    executor: str = "inline"
    workers: int = 0

    def __post_init__(self) -> None:
        kind = self.executor.partition("://")[0]
        if kind not in EXECUTORS or (kind != "ray" and kind != self.executor):
            raise SettingsError(f"building.executor: {describe_unknown('executor', self.executor, EXECUTORS)}")
        if self.workers < 0:
            raise SettingsError(f"building.workers is at least 0, not {self.workers}")
