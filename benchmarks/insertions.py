"""400 one-chunk documents with a model that answers at once: CPU and bytes, one by one and all together.

Twelve entities and twelve relations a document. The leading peer's default stores took 3.0, 8.1, 30.5 and 123.7 CPU
seconds for 50, 100, 200 and 400 such documents, and wrote 131, 441, 1,713 and 7,520 MB (LightRAG 1.5.7). `wchar`: bytes
handed to files, however often the same place is written; `write_bytes`: pages made dirty, which the disk has to take.
All in one call is how the peer was given them, which writes its stores anew after each document; one document a call,
each with a transaction of its own on disk before the next comes, is what somebody who watches a folder asks for.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.growth import WORDS
from benchmarks.instant import Instant, beginning, told
from benchmarks.meter import Cost, bound, measured
from benchmarks.options import bench_parser, read_options
from kumihimo import Kumihimo
from kumihimo.methods import METHODS

METHOD = "light" if "light" in METHODS else "local"
PEER = {50: (3.0, 131), 100: (8.1, 441), 200: (30.5, 1713), 400: (123.7, 7520)}
SIZE = {"chunks": {"size": 1200}}  # as theirs
SHARED, OWN = 4, 8  # entities of a document: of a pool of 200 that many name, and of its own


def documents(count: int) -> dict[str, list[str]]:
    """Texts of about 2,400 characters, and the names in each."""
    rng = random.Random(count)
    pool = [_name(rng) for _ in range(200)]
    found: dict[str, list[str]] = {}
    for _ in range(count):
        named = rng.sample(pool, SHARED) + [_name(rng) for _ in range(OWN)]
        words = [rng.choice(WORDS) for _ in range(380)]
        for i, name in enumerate(named):
            words.insert(30 * i + 5, name)
        found[" ".join(words) + "."] = named
    return found


def _name(rng: random.Random) -> str:
    return " ".join(f"{rng.choice(WORDS)}{rng.choice(WORDS)}".title() for _ in range(2))


def inserted(count: int, methods: Sequence[str], *, together: bool) -> Cost:
    """Put so many documents into a folder and have it indexed: after each, or once."""
    written = documents(count)
    with TemporaryDirectory() as temporary, Kumihimo.open(Path(temporary, ".kumi"), settings=SIZE) as kumi:
        folder = Path(temporary, "documents")
        folder.mkdir()
        known = {beginning(text): told(named) for text, named in written.items()}
        kumi.models = Instant(kumi.models.settings, kumi.models.cache, known=known)
        with measured() as cost:
            for number, text in enumerate(written):
                (folder / f"{number:04}.txt").write_text(text, encoding="utf-8")
                if not together:
                    kumi.index(folder, methods=methods)
            built = kumi.index(folder, methods=methods)
        assert not built.failed
        size = sum(path.stat().st_size for path in Path(temporary, ".kumi").rglob("*") if path.is_file())
    said = ", ".join(f"{built.rows[name]:,} {name}" for name in ("chunks", "mentions", "entities", "relations"))
    assert built.rows["chunks"] == count, said
    peer = PEER.get(count, (0, 0))
    print(
        f"  {count:4} documents: {cost.cpu:6.2f} CPU s (peer {peer[0]:g}), wchar {cost.written:7.1f} MB, "
        f"write_bytes {cost.disk:7.1f} MB (peer {peer[1]:,}), {size / 1e6:.1f} MB on disk; {said}",
        flush=True,
    )
    return cost


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--methods", default=METHOD)
    parser.add_argument("--most", type=int, default=max(PEER))
    given = read_options(parser, argv, most=50)
    methods = given.methods.split(",")
    counts = [count for count in PEER if count <= given.most]
    inserted(10, methods, together=True)  # loads the embedder
    for together, said in ((True, "all in one call"), (False, "one document a call")):
        print(f"{said}, for {', '.join(methods)}")
        costs = {count: inserted(count, methods, together=together) for count in counts}
        if max(PEER) in costs:
            _bounded(costs, *((6.2, 75) if together else (25, 750)))


def _bounded(costs: Mapping[int, Cost], cpu: float, written: float) -> None:
    """A twentieth of the peer's CPU and a hundredth of its bytes; one by one a fifth and a tenth."""
    most = max(costs)
    bound(f"{most} documents, CPU", costs[most].cpu, cpu, " s")
    bound(f"{most} documents, bytes handed to files", costs[most].written, written, " MB")
    for said, ratio in (
        ("CPU", costs[most].cpu / costs[most // 2].cpu),
        ("bytes", costs[most].written / costs[most // 2].written),
    ):
        bound(f"twice the documents, {said}", ratio, 2.6)


if __name__ == "__main__":
    main()
