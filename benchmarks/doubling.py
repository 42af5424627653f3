"""podcasts in two halves -> calls and tokens of building each half, for `light` and for `global`.

Tests the claim of LightRAG, arXiv:2410.05779, section 4.5: new documents cost their own extraction only, while GraphRAG
rewrites the reports of all communities, 1,399 x 2 x 5,000 tokens besides the extraction. Data: DATA/podcasts. A stub
model answers at once with replies of realistic length, no gleaning round; tokens are those of the built-in
tokenizer. Prints a Markdown table: new chunks; calls / tokens of each part of the build and of all; number of reports;
new or changed reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.instant import InstantRegistry, count_tokens, use_instant_model
from benchmarks.meter import check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo import Kumihimo
from kumihimo.core.records import Report
from kumihimo.methods import METHODS

COMPARED = [name for name in ("light", "global") if name in METHODS]
PARTS = {"mentions": "extraction", "entities": "descriptions", "relations": "descriptions", "reports": "reports"}
REPORTS, TOKENS = 1_399, 5_000  # from the paper: communities, and tokens to write one report


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls and tokens by part of the build; tokens of prompts and replies together."""

    calls: dict[str, int]
    tokens: dict[str, int]


def count_usage(model: InstantRegistry, before: dict[str, Counter[str]]) -> Usage:
    """Return the calls and tokens since `before`."""
    calls: Counter[str] = Counter()
    token_counts: Counter[str] = Counter()
    for scope, chat in model.models.items():
        part = PARTS.get(scope, scope)
        for prompt, n in (chat.prompt_counts - before.get(scope, Counter())).items():
            calls[part] += n
            token_counts[part] += n * (count_tokens(prompt) + count_tokens(model.answer(prompt)))
    return Usage(calls, token_counts)


def read_reports(kumi: Kumihimo) -> dict[str, Report]:
    with kumi.snapshot() as snapshot:
        return {row.id: row for row in snapshot.table("reports")} if snapshot.db.has("reports") else {}


def build_halves(method: str, halves: list[str]) -> list[Usage]:
    """Build both halves and print a row for each."""
    usages: list[Usage] = []
    with TemporaryDirectory() as folder, Kumihimo.open(Path(folder, ".kumi")) as kumi:
        sources = [Path(folder, name) for name in ("first.jsonl", "second.jsonl")]
        for path, lines in zip(sources, halves, strict=True):
            path.write_text(lines, encoding="utf-8")
        model = use_instant_model(kumi, *sources, own=True)
        previous: dict[str, Report] = {}
        for path, label in zip(sources, ("first half", "second half, added"), strict=True):
            before = {scope: chat.prompt_counts.copy() for scope, chat in model.models.items()}
            built = kumi.index(path, methods=[method])
            assert not built.failed
            current = read_reports(kumi)
            unchanged = sum(previous.get(id) == report for id, report in current.items())
            usages.append(count_usage(model, before))
            _print_row(
                method, label, built.rows["chunks"] - built.before.get("chunks", 0), usages[-1], len(current), unchanged
            )
            previous = current
    return usages


def _print_row(method: str, label: str, chunks: int, usage: Usage, reports: int, unchanged: int) -> None:
    cells = [f"{usage.calls.get(part, 0):,} / {usage.tokens.get(part, 0):,}" for part in dict.fromkeys(PARTS.values())]
    cells.append(f"{sum(usage.calls.values()):,} / {sum(usage.tokens.values()):,}")
    print(
        f"| `{method}`, {label} | {chunks:,} | {' | '.join(cells)} | {reports:,} | {reports - unchanged:,} |",
        flush=True,
    )


def _print_formula(label: str, communities: int, tokens_per_report: int) -> int:
    """Print and return the tokens of GraphRAG's reports by the paper's formula."""
    product = f"{communities:,} x 2 x {tokens_per_report:,}"
    total = 2 * communities * tokens_per_report
    print(f"| the paper's formula, {label}: {product} | | | | {2 * communities:,} / {total:,} | | | |")
    return total


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="share of the podcasts; each half of it is indexed")
    options = read_options(parser, argv, share=1.0)
    lines = (
        (options.data / "podcasts" / "kevin_scott_podcasts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    )
    lines = lines[: int(options.share * len(lines))]
    halves = ["".join(lines[: len(lines) // 2]), "".join(lines[len(lines) // 2 :])]
    print(f"{len(lines):,} parts of podcasts in two halves; calls / tokens\n")
    print("| | new chunks | extraction | descriptions | reports | all | number of reports | new or changed reports |")
    print("|---|---|---|---|---|---|---|---|")
    usages = {method: build_halves(method, halves) for method in COMPARED}
    first, second = usages["global"]
    tokens_per_report = round(second.tokens["reports"] / second.calls["reports"])
    ours, whole = (
        _print_formula("with our reports", first.calls["reports"], tokens_per_report),
        _print_formula("with the paper's reports", REPORTS, TOKENS),
    )
    print()
    check_at_most(
        "global, report tokens as a share of the formula with our reports", second.tokens["reports"] / ours, 1
    )
    if "light" not in usages:
        return
    light = usages["light"][1]
    assert not light.calls.get("reports")
    rest = 1 - light.tokens["extraction"] / sum(light.tokens.values())
    check_at_most("light, second half: share of tokens that are not extraction", rest, 0.1)
    extra = sum(second.tokens.values()) - sum(light.tokens.values())
    print(f"  second half: global took {extra:,} tokens more than light; the paper's formula gives {whole:,}")


if __name__ == "__main__":
    run_benchmark(main)
