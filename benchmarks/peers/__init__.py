"""Kumihimo and other graph-RAG libraries, side by side: `python -m benchmarks.peers`."""
