"""400 one-chunk documents, a stub model -> CPU and bytes written of indexing them, in one call and one by one.

Data: none; each document has twelve entities and twelve relations. Columns: documents, CPU seconds, `wchar` (bytes
handed to files, counted at each write), `write_bytes` (pages made dirty for the disk), size on disk, rows by table; in
brackets the figures of LightRAG 1.5.7 with its default stores: 3.0, 8.1, 30.5 and 123.7 CPU seconds and 131, 441, 1,713
and 7,520 MB for 50, 100, 200 and 400 such documents. The peer received them in one call and rewrites its stores after
each document. One document a call is what a watched folder needs: each call ends with a transaction on disk.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.growth import WORDS
from benchmarks.instant import InstantRegistry, format_records, text_key
from benchmarks.meter import Cost, check_at_most, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo import Kumihimo
from kumihimo.methods import METHODS

METHOD = "light" if "light" in METHODS else "local"
# CPU s and MB written by LightRAG 1.5.7, by documents
PEER = {50: (3.0, 131), 100: (8.1, 441), 200: (30.5, 1713), 400: (123.7, 7520)}
SIZE = {"chunks": {"size": 1200}}  # as in the peer
SHARED, OWN = 4, 8  # entities of a document: from a pool of 200 for all documents, and its own


def make_documents(count: int) -> dict[str, list[str]]:
    """Return texts of about 2,400 characters with the names in each."""
    rng = random.Random(count)
    pool = [_draw_name(rng) for _ in range(200)]
    names_by_text: dict[str, list[str]] = {}
    for _ in range(count):
        names = rng.sample(pool, SHARED) + [_draw_name(rng) for _ in range(OWN)]
        words = [rng.choice(WORDS) for _ in range(380)]
        for i, name in enumerate(names):
            words.insert(30 * i + 5, name)
        names_by_text[" ".join(words) + "."] = names
    return names_by_text


def _draw_name(rng: random.Random) -> str:
    return " ".join(f"{rng.choice(WORDS)}{rng.choice(WORDS)}".title() for _ in range(2))


def index_documents(count: int, methods: Sequence[str], *, together: bool) -> Cost:
    """Index `count` documents in one call, or after each document."""
    names_by_text = make_documents(count)
    with TemporaryDirectory() as temporary, Kumihimo.open(Path(temporary, ".kumi"), settings=SIZE) as kumi:
        folder = Path(temporary, "documents")
        folder.mkdir()
        records_by_text = {text_key(text): format_records(names) for text, names in names_by_text.items()}
        kumi.models = InstantRegistry(kumi.models.settings, kumi.models.cache, records_by_text=records_by_text)
        with measured() as cost:
            for number, text in enumerate(names_by_text):
                (folder / f"{number:04}.txt").write_text(text, encoding="utf-8")
                if not together:
                    kumi.index(folder, methods=methods)
            built = kumi.index(folder, methods=methods)
        assert not built.failed
        size = sum(path.stat().st_size for path in Path(temporary, ".kumi").rglob("*") if path.is_file())
    counts = ", ".join(f"{built.rows[name]:,} {name}" for name in ("chunks", "mentions", "entities", "relations"))
    assert built.rows["chunks"] == count, counts
    peer = PEER.get(count, (0, 0))
    print(
        f"  {count:4} documents: {cost.cpu:6.2f} CPU s (peer {peer[0]:g}), wchar {cost.written:7.1f} MB, "
        f"write_bytes {cost.disk:7.1f} MB (peer {peer[1]:,}), {size / 1e6:.1f} MB on disk; {counts}",
        flush=True,
    )
    return cost


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--methods", default=METHOD)
    parser.add_argument("--most", type=int, default=max(PEER))
    options = read_options(parser, argv, most=5)
    methods = options.methods.split(",")
    counts = [count for count in PEER if count <= options.most] or [options.most]
    index_documents(10, methods, together=True)  # load the embedder, which is not measured
    for together, label in ((True, "all in one call"), (False, "one document a call")):
        print(f"{label}, for {', '.join(methods)}")
        costs = {count: index_documents(count, methods, together=together) for count in counts}
        if max(PEER) in costs:
            _check_limits(costs, *((6.2, 75) if together else (25, 750)))


def _check_limits(costs: Mapping[int, Cost], cpu: float, written: float) -> None:
    """Check the cost of the largest run and the growth to it.

    The limits are a twentieth of the peer's CPU and a hundredth of its bytes; one by one a fifth and a tenth.
    """
    largest = max(costs)
    check_at_most(f"{largest} documents, CPU", costs[largest].cpu, cpu, " s")
    check_at_most(f"{largest} documents, bytes handed to files", costs[largest].written, written, " MB")
    for label, ratio in (
        ("CPU", costs[largest].cpu / costs[largest // 2].cpu),
        ("bytes", costs[largest].written / costs[largest // 2].written),
    ):
        check_at_most(f"twice the documents, {label}", ratio, 2.6)


if __name__ == "__main__":
    run_benchmark(main)
