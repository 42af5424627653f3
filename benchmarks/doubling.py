"""A corpus, then as much again: the calls and tokens of both builds, for `light` and for `global`.

The claim of LightRAG, arXiv:2410.05779, section 4.5: what is added costs its own extraction only, where GraphRAG writes
the reports of all communities anew, 1,399 x 2 x 5,000 tokens beside the extraction. Each half of the podcasts, by a
model that answers at once with replies as long as real ones, a gleaning round included; tokens are those of the
built-in tokenizer. Prints a table of Markdown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.instant import Instant, connected, tokens
from benchmarks.meter import bound
from benchmarks.options import bench_parser, read_options
from kumihimo import Kumihimo
from kumihimo.core.records import Report
from kumihimo.methods import METHODS

MEASURED = [name for name in ("light", "global") if name in METHODS]
PARTS = {"mentions": "extraction", "entities": "descriptions", "relations": "descriptions", "reports": "reports"}
REPORTS, TOKENS = 1_399, 5_000  # of the paper: communities, and tokens to write the report of one


@dataclass(frozen=True, slots=True)
class Spent:
    """Calls and tokens, prompts and replies together, by what they are for."""

    calls: dict[str, int]
    tokens: dict[str, int]


def spent(model: Instant, before: dict[str, Counter[str]]) -> Spent:
    """What was asked since."""
    calls: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for scope, chat in model.models.items():
        part = PARTS.get(scope, scope)
        for prompt, n in (chat.prompt_counts - before.get(scope, Counter())).items():
            calls[part] += n
            used[part] += n * (tokens(prompt) + tokens(model.answer(prompt)))
    return Spent(calls, used)


def reports(kumi: Kumihimo) -> dict[str, Report]:
    with kumi.snapshot() as reading:
        return {row.id: row for row in reading.table("reports")} if reading.db.has("reports") else {}


def doubled(method: str, halves: list[str]) -> list[Spent]:
    """Both builds; prints a line of the table for each."""
    found: list[Spent] = []
    with TemporaryDirectory() as folder, Kumihimo.open(Path(folder, ".kumi")) as kumi:
        sources = [Path(folder, name) for name in ("first.jsonl", "second.jsonl")]
        for path, lines in zip(sources, halves, strict=True):
            path.write_text(lines, encoding="utf-8")
        model = connected(kumi, *sources, own=True)
        held: dict[str, Report] = {}
        for path, said in zip(sources, ("the first half", "the second, added"), strict=True):
            before = {scope: chat.prompt_counts.copy() for scope, chat in model.models.items()}
            built = kumi.index(path, methods=[method])
            assert not built.failed
            now = reports(kumi)
            same = sum(held.get(id) == report for id, report in now.items())
            found.append(spent(model, before))
            _line(method, said, built.rows["chunks"] - built.before.get("chunks", 0), found[-1], len(now), same)
            held = now
    return found


def _line(method: str, said: str, chunks: int, one: Spent, reports: int, same: int) -> None:
    told = [f"{one.calls.get(part, 0):,} / {one.tokens.get(part, 0):,}" for part in dict.fromkeys(PARTS.values())]
    told.append(f"{sum(one.calls.values()):,} / {sum(one.tokens.values()):,}")
    print(f"| `{method}`, {said} | {chunks:,} | {' | '.join(told)} | {reports:,} | {reports - same:,} |", flush=True)


def _formula(said: str, communities: int, each: int) -> int:
    """Prints what the paper says that GraphRAG takes for the second half beside its extraction; gives the tokens."""
    told = f"{communities:,} x 2 x {each:,}"
    print(f"| the paper's formula, {said}: {told} | | | | {2 * communities:,} / {2 * communities * each:,} | | | |")
    return 2 * communities * each


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the podcasts, of which each half is indexed")
    given = read_options(parser, argv, share=1.0)
    lines = (
        (given.data / "podcasts" / "kevin_scott_podcasts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    )
    lines = lines[: int(given.share * len(lines))]
    halves = ["".join(lines[: len(lines) // 2]), "".join(lines[len(lines) // 2 :])]
    print(f"{len(lines):,} parts of podcasts in two halves; calls / tokens\n")
    print("| | new chunks | extraction | descriptions | reports | all | reports there | of them new or changed |")
    print("|---|---|---|---|---|---|---|---|")
    found = {method: doubled(method, halves) for method in MEASURED}
    first, second = found["global"]
    each = round(second.tokens["reports"] / second.calls["reports"])
    ours, whole = _formula("with reports as here", first.calls["reports"], each), _formula("its own", REPORTS, TOKENS)
    print()
    bound("global, tokens of reports by those of the formula with reports as here", second.tokens["reports"] / ours, 1)
    if "light" not in found:
        return
    light = found["light"][1]
    assert not light.calls.get("reports")
    rest = 1 - light.tokens["extraction"] / sum(light.tokens.values())
    bound("light, what is not extraction, of the tokens that the second half took", rest, 0.1)
    extra = sum(second.tokens.values()) - sum(light.tokens.values())
    print(f"  global took {extra:,} tokens more than light for the second half, the paper's formula says {whole:,}")


if __name__ == "__main__":
    main()
