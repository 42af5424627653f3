"""an index of graphrag -> the same graph here: counts, questions by four methods, what other documents then cost.

The store is `replies/christmas_carol`, made by a real model. Ten questions are asked by each method, without a model.
Then a letter is added: by rule, and with a stub model that counts its calls. The calls must all be about the letter:
no prompt may hold a text unit of the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.instant import InstantRegistry, extract_records, text_key
from benchmarks.meter import check_at_most, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo import Kumihimo, import_store
from kumihimo.core.records import Chunk

STORE = "replies/christmas_carol"
METHODS = ("local", "global", "light", "braid")
QUESTIONS = (
    "What does Marley's ghost warn Scrooge of?",
    "Who is Tiny Tim?",
    "How does Scrooge treat Bob Cratchit before the night of the spirits?",
    "What does the Ghost of Christmas Past show to Scrooge?",
    "Who was Fezziwig?",
    "Why did Belle leave Scrooge?",
    "What does Scrooge see in the churchyard?",
    "How does Fred speak about his uncle?",
    "What may people do with this eBook?",
    "What are the main themes?",
)
LETTER = (
    "# A letter from Camden Town\n\nBob Cratchit wrote to Scrooge in January. Tiny Tim walks with a new crutch, and "
    "Martha Cratchit has left the milliner. Belinda Hart of Deptford will marry Peter Cratchit.\n"
)


def ask_all(kumi: Kumihimo, questions: Sequence[str]) -> None:
    """Print what each method finds."""
    for method in METHODS:
        answered, tables = 0, dict[str, int]()
        with measured() as cost:
            for question in questions:
                answered += bool(kumi.ask(question, method).citations)
                for item in kumi.retrieve(question, method):
                    tables[item.reference[0]] = tables.get(item.reference[0], 0) + 1
        found = ", ".join(f"{count} {table}" for table, count in sorted(tables.items()))
        print(f"  {method:6} {answered} of {len(questions)} answers with citations; {found}; {cost.cpu:.1f} CPU s")


def main(argv: Sequence[str] | None = None) -> None:
    options = read_options(bench_parser(__doc__), argv)
    questions = QUESTIONS[:2] if options.quick else QUESTIONS
    with TemporaryDirectory() as folder, Kumihimo(Path(folder, ".kumi")) as kumi:
        with measured() as cost:
            imported = import_store(kumi, "graphrag", options.data / STORE, methods=METHODS)
        print(f"  read and built in {cost.cpu:.1f} CPU s; rows in the store and here:")
        for table, count in imported.counts.items():
            print(f"    {table:12} {count:>6,} {imported.built.rows[table]:>6,}")
        with kumi.snapshot() as snapshot:
            reports = list(snapshot.table("reports"))
            kept = sum(report.written_with == "import" for report in reports)
            units: list[Chunk] = list(snapshot.table("chunks"))
        print(f"    {kept} reports are those of the store, {len(reports) - kept} are made by rule")
        with measured() as cost:
            import_store(kumi, "graphrag", options.data / STORE)
        print(f"  imported again: nothing changed, {cost.cpu:.1f} CPU s")
        ask_all(kumi, questions)
        add_letter(kumi, Path(folder, "letter.md"), units)


def add_letter(kumi: Kumihimo, letter: Path, units: Sequence[Chunk]) -> None:
    """Add a document by rule, and again with a model; print what changes and what is asked."""
    letter.write_text(LETTER, encoding="utf-8")
    built = kumi.index(letter)
    print(f"  a letter added by rule: {dict(built.written)}")
    kumi.remove("letter.md")
    records = {text_key(LETTER): extract_records(LETTER, own=True)}
    kumi.models = models = InstantRegistry(kumi.models.settings, kumi.models.cache, records_by_text=records)
    built = kumi.index(letter, methods=METHODS, consent=True)
    print(f"  with a model: {', '.join(f'{usage.calls} calls for {step}' for step, usage in built.spent.items())}")
    paid = sum(unit.text[:200] in prompt for prompt in models.prompt_counts for unit in units)
    check_at_most("text units of the store that a model was asked about", paid, 0)


if __name__ == "__main__":
    run_benchmark(main)
