"""method -> its measured recall."""

from collections.abc import Mapping

# Recall@5 of the methods without a model, on 100, 100, 164, 300 and 300 questions, from benchmarks/recall.py. The
# figures of braid are from benchmarks/weights.py, with weights learned on the other sets.
RECALL_SETS = ("MuSiQue", "HotpotQA", "2WikiMultiHopQA", "JSQuAD", "DRCD")
RECALL: Mapping[str, tuple[float, ...]] = {
    "braid": (0.709, 0.965, 0.939, 0.960, 0.983),
    "bm25": (0.531, 0.795, 0.698, 0.967, 0.973),
    "naive": (0.545, 0.810, 0.721, 0.960, 0.973),
    "local": (0.557, 0.815, 0.733, 0.973, 0.980),
    "light": (0.578, 0.810, 0.720, 0.970, 0.983),
}
