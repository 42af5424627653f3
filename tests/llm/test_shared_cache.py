"""two processes with one cache, at once -> each reply is paid for once, of chats and of embeddings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.fake_server import FakeServer

PROMPTS, TEXTS = 40, 320
WORK = """
import sys
from pathlib import Path
from kumihimo.core.settings import resolve_settings
from kumihimo.llm.budget import Budget
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.registry import MODEL_SETTINGS, ModelRegistry
from kumihimo.storage.response_cache import ResponseCache

url, path, prompts, texts = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
cache = ResponseCache(path)
model = {"model": "m", "base_url": url, "workers": 4}
models = ModelRegistry(resolve_settings(MODEL_SETTINGS, {"chat": model, "embedding": model}), lambda: cache)
llm, embedder = models.llm("answer", Budget()), models.embedder(Budget())
batches = [[f"text {i}" for i in range(start, start + 40)] for start in range(0, texts, 40)]
print("ready", flush=True)
input()
list(map_concurrent(llm, [f"Which ship? {i}" for i in range(prompts)], 4))
list(map_concurrent(embedder, batches, 4))
cache.close()
"""


def test_two_processes_at_once_pay_once(server: FakeServer, tmp_path: Path) -> None:
    server.configure(latency=0.005)
    command = [sys.executable, "-c", WORK, server.url, str(tmp_path / "cache.db"), str(PROMPTS), str(TEXTS)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    counts = server.counts()
    assert (counts["chats"], counts["texts"], counts["repeats"]) == (PROMPTS, TEXTS, 0)
