"""Kumihimo as in `kumihimo`, with the server as its chat and embedding model."""

from __future__ import annotations

from benchmarks.peers.drivers.common import run
from benchmarks.peers.drivers.kumihimo import KumiWithModel

if __name__ == "__main__":
    run(KumiWithModel)
