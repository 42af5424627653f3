"""a Ray cluster -> workers of a `Fleet` on its machines."""

import os
import socket
from contextlib import suppress
from time import monotonic
from typing import Any

from kumihimo.core.errors import SettingsError
from kumihimo.workers.fleet import Address, Invitation
from kumihimo.workers.job_process import work_for

_LOOK_AGAIN = 2.0  # seconds between two looks at the size of the cluster
_WITHOUT_RAY = "building.executor is `ray`, which needs `pip install 'kumihimo[ray]'`"


class RayRecruiter:
    """Starts a worker for each core of a Ray cluster; a machine that joins later takes part.

    cluster: HOST:PORT of a Ray client server; empty: the cluster of this machine, or a new one. workers: the most that
    there may be; 0: no limit. The workers connect to this machine, so its address has to be reachable from theirs, and
    each needs this version of the package.
    """

    def __init__(self, cluster: str, workers: int, opener: str) -> None:
        try:
            import ray
        except ImportError as error:
            raise SettingsError(_WITHOUT_RAY) from error
        self._ray, self._most, self._opener = ray, workers, opener
        self._owns_cluster = not ray.is_initialized()
        if self._owns_cluster:
            self._connect(cluster)
        self._cores, self._looked_at = 0, 0.0
        self.listens_on: Address | None = (self._own_host(), 0)

    def _connect(self, cluster: str) -> None:
        """Join the cluster, or start one of this machine."""
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent unasked
        try:
            if cluster:
                self._ray.init(f"ray://{cluster}", **options)
                return
            try:
                self._ray.init("auto", **options)
            except ConnectionError:
                self._ray.init(include_dashboard=False, **options)
        except Exception as error:
            where = f"ray://{cluster}" if cluster else "this machine"
            raise SettingsError(f"no Ray cluster at {where}: {error}; start it with `ray start --head`") from error

    def _own_host(self) -> str:
        """Return the address of this machine in the cluster."""
        hosts = [node["NodeManagerAddress"] for node in self._ray.nodes() if node["Alive"]]
        if not hosts:
            return "127.0.0.1"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((hosts[-1], 9))  # sends nothing
            host: str = probe.getsockname()[0]
        return host

    def wanted(self) -> int:
        """Return the number of cores of the cluster now."""
        if not self._looked_at or monotonic() >= self._looked_at + _LOOK_AGAIN:
            self._cores, self._looked_at = int(self._ray.cluster_resources().get("CPU", 0)), monotonic()
        return min(self._cores, self._most or self._cores)

    def recruit(self, invitation: Invitation) -> "RayWorker":
        return RayWorker(self._ray, (invitation, self._opener))

    def close(self) -> None:
        """Leave the cluster, unless the caller was in it before."""
        if self._owns_cluster:
            self._ray.shutdown()


class RayWorker:
    """A task of Ray that works until the build ends."""

    def __init__(self, ray: Any, orders: tuple[Any, ...]) -> None:
        self._ray = ray
        remote = ray.remote(num_cpus=1, max_retries=0)(work_for)
        self._task = remote.remote(*orders)

    def has_ended(self) -> bool:
        return bool(self._ray.wait([self._task], timeout=0)[0])

    def kill(self) -> None:
        with suppress(Exception):  # it has ended, or its machine has
            self._ray.cancel(self._task, force=True)
