"""commands -> CPU seconds of starting: the import, `kumi --help`, one more passage in an index of 1,890.

Data: DATA/multihop/musique_train100, for the last figure. Each figure is that of a whole process; the import is counted
without the bare interpreter. Also prints the heavy modules that the import loads: none.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.meter import check_at_most, child_cpu, command_cpu
from benchmarks.options import bench_parser, read_options, run_benchmark

KUMI = str(Path(sys.executable).with_name("kumi"))
HEAVY = ("numpy", "pydantic", "rich", "httpx2", "tokenizers", "nupunkt", "selectolax")


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    corpus = read_options(parser, argv).data / "multihop/musique_train100_corpus.jsonl"
    bare = child_cpu([sys.executable, "-c", ""])
    print(f"The bare interpreter: {bare:.3f} CPU s")
    check_at_most("import", child_cpu([sys.executable, "-c", "from kumihimo import Kumihimo"]) - bare, 0.2, " CPU s")
    check_at_most("kumi --help", child_cpu([KUMI, "--help"]), 0.35, " CPU s")
    script = f"import kumihimo, sys; print([m for m in {HEAVY} if m in sys.modules])"
    heavy_modules = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.strip()
    print(f"  heavy modules imported: {heavy_modules}")
    if heavy_modules != "[]":
        sys.exit("a heavy module is imported with the package")
    if not corpus.exists():
        print(f"  {corpus} does not exist: one more passage is not measured")
        return
    with TemporaryDirectory() as folder:
        copy, home = Path(folder, "corpus.jsonl"), str(Path(folder, ".kumi"))
        text = corpus.read_text(encoding="utf-8")
        copy.write_text(text, encoding="utf-8")
        subprocess.run([KUMI, "index", str(copy), "--index", home], check=True, stdout=subprocess.DEVNULL)
        copy.write_text(text + '{"id": "one-more", "title": "More", "text": "One more passage."}\n', encoding="utf-8")
        cpu = command_cpu([KUMI, "index", str(copy), "--index", home])
        check_at_most("one more passage, start-up included", cpu, 2, " CPU s")


if __name__ == "__main__":
    run_benchmark(main)
