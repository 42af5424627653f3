"""standard input -> an invitation of a `Fleet`; jobs -> results: a worker that is a process of this machine."""

import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

from kumihimo.workers import ONE_THREAD, child_environment, python_command
from kumihimo.workers.fleet import THIS_MACHINE, Address, Invitation
from kumihimo.workers.serve_jobs import serve_jobs


class ProcessRecruiter:
    """Starts processes of this machine.

    workers: how many. opener: `module:function`; the function returns the workplace.
    """

    listens_on: Address | None = THIS_MACHINE

    def __init__(self, workers: int, opener: str) -> None:
        self._workers, self._opener = workers, opener

    def wanted(self) -> int:
        return self._workers

    def recruit(self, invitation: Invitation) -> "JobProcess":
        return JobProcess((invitation, self._opener))

    def close(self) -> None:
        """Do nothing: each process ends by itself."""


class JobProcess:
    """A running worker process. Its environment has no secrets."""

    def __init__(self, orders: object) -> None:
        environment = {**child_environment(os.environ), **ONE_THREAD}
        self.process = subprocess.Popen(
            python_command("kumihimo.workers.job_process"),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        assert self.process.stdin
        with suppress(OSError):  # it has ended already
            self.process.stdin.write(pickle.dumps(orders))
            self.process.stdin.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def work_for(invitation: Invitation, opener: str) -> None:
    """Connect and do jobs until the build ends."""
    module, _, name = opener.partition(":")
    workplace: Any = getattr(import_module(module), name)()  # slow, so it comes before the connection
    with invitation.accept() as connection:
        serve_jobs(connection, workplace)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the parent ends this process
    work_for(*pickle.load(sys.stdin.buffer))


if __name__ == "__main__":
    main()
