"""data sets -> a file of what each method answers; two such files -> where they differ.

    python -m benchmarks.same_answers record DATA old.json [--sets examples,messy]
    python -m benchmarks.same_answers compare old.json new.json [--sets examples,messy]

It shows that a change of the code leaves evidence, scores and texts as they were. Record both files with the same
checkout of this one, which has the examples: `PYTHONPATH=OTHER_CHECKOUT/src:.`. No model. Of long sets the first
passages are indexed, after those with the answers. The questions are the first ones of each set, some of them
misspelled, and those of same_answers_questions.tsv: follow-ups after `>>`, requests, whole corpora, filters, rights. A
few are retrieved with other settings, too. `compare` prints a Markdown table and the first differences; numbers may
differ by 1e-9 of their size. It exits with 1 if anything differs.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import islice, zip_longest
from math import isclose
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import kumihimo
from benchmarks.meter import measured
from benchmarks.passages import read_rows
from kumihimo import Answer, Context, KumiError, Kumihimo

Row = dict[str, Any]
HOME = Path(__file__).parents[1]
PASSAGES = {  # files of documents and questions; how many documents
    "podcasts": ("podcasts/kevin_scott_podcasts.jsonl", "podcasts/kevin_scott_questions.csv", 250),
    "japanese": ("japanese/jsquad_valid_corpus.jsonl", "japanese/jsquad_valid_questions.jsonl", 700),
    "chinese": ("chinese/drcd_dev_corpus.jsonl", "chinese/drcd_dev_questions.jsonl", 600),
    "musique": ("multihop/musique_train100_corpus.jsonl", "multihop/musique_train100_questions.jsonl", 500),
}
FOLDERS = {name: f"folders/{name}" for name in ("toshokan", "mastodon-docs", "tsc-minutes")} | {"messy": "messy"}
SETS = ("examples", "toshokan", "messy", "mastodon-docs", "tsc-minutes", *PASSAGES)
GOLDEN = (HOME / "tests/golden/whole.tsv", HOME / "tests/golden/broad.tsv")
FIRST, GOLDEN_STEP, MISSPELLED, VARIED = 16, 12, 5, 4  # questions of a set; one in so many; how many
METHODS = ("bm25", "naive", "braid", "global", "local", "light", "discourse")  # those that need no model
VARIANTS = (
    "bm25 k=3",
    "naive words=false",
    'braid k=5 whole="always"',
    'braid anchors=5 pool=20 whole="never"',
    "global paper=true",
    "global dynamic=true",
    "local edges=3 whole=0.0",
    'light mode="low"',
    'light mode="mix"',
    "discourse paper=true",
    'discourse k=5 fallback="neighbours"',
)
SPAN = ("chunk", "uri", "start", "end", "text", "title", "place")
MODIFIED = 1_700_000_000.0  # of every file, in seconds
TOLERANCE = 1e-9
MISSING = "(missing)"
SHOWN = 3  # questions of a method that differ, and differences of each


def list_questions(data: Path, name: str) -> list[Row]:
    """Return the questions of a set."""
    rows: list[Row] = []
    if name == "examples":
        page = (HOME / "docs/examples-source/questions.md").read_text(encoding="utf-8")
        texts = [" ".join(text.split()) for text in re.findall(r"^\d+\. \*\*(.+?)\*\*", page, re.M | re.S)][:FIRST]
        texts += (HOME / "docs/examples-source/demo.txt").read_text(encoding="utf-8").split("\n")
        for golden in GOLDEN:
            texts += [line.partition("\t")[2] for line in golden.read_text(encoding="utf-8").split("\n")[::GOLDEN_STEP]]
        rows = [{"question": text} for text in texts if text]
    elif name in PASSAGES:
        path = data / PASSAGES[name][1]
        with path.open(encoding="utf-8-sig", newline="") as lines:
            read = csv.DictReader(lines) if path.suffix == ".csv" else map(json.loads, lines)
            rows = [{"question": row.get("question_text"), **row} for row in islice(read, FIRST)]
    for row in (*read_rows(data / "folders/questions.jsonl"), *read_rows(data / "asked/questions.jsonl")):
        rows += [row] if name.replace("japanese", "jsquad") in (row.get("folder"), row.get("index")) else []
    rows += list(islice(({"question": text} for row in rows if (text := misspell(row["question"]))), MISSPELLED))
    with Path(__file__).with_name("same_answers_questions.tsv").open(encoding="utf-8", newline="") as lines:
        return rows + [row for row in csv.DictReader(lines, delimiter="\t") if name in row["sets"].split()]


def misspell(question: str) -> str:
    """Return the question with two letters of its longest word exchanged.

    >>> misspell("Why did the moulded seals fail?")
    'Why did the muolded seals fail?'
    """
    word = max(re.findall("[A-Za-z]{5,}", question), key=len, default="")
    return question.replace(word, f"{word[0]}{word[2]}{word[1]}{word[3:]}", 1) if word else ""


def build(data: Path, name: str, home: Path) -> Kumihimo:
    """Index a copy of a set, all of whose files have one time."""
    folder = home / name
    if name in PASSAGES:
        passages, _, count = PASSAGES[name]
        gold = {id for row in list_questions(data, name) for id in row.get("gold_passage_ids", ())}
        rows = sorted(read_rows(data / passages), key=lambda row: row["id"] not in gold)[:count]
        folder.mkdir()
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    else:
        shutil.copytree(data / FOLDERS[name] if name in FOLDERS else HOME / "examples", folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (MODIFIED, MODIFIED))
    kumi = Kumihimo.open(home / "indexes" / name)
    kumi.index(folder, methods=METHODS)
    return kumi


def record(data: Path, sets: Sequence[str]) -> Row:
    """Return what was found: by set, method and question."""
    found: Row = {}
    with TemporaryDirectory() as home:
        for name in sets:
            with measured() as cost, build(data, name, Path(home)) as kumi:
                found[name] = {"tables": digest_tables(kumi), **ask_all(kumi, list_questions(data, name))}
            print(f"{name}: {len(found[name][METHODS[0]])} questions, {cost.cpu:.0f} CPU s", flush=True)
    return found


def ask_all(kumi: Kumihimo, rows: Sequence[Row]) -> Row:
    """Return the answers and the evidence, by method and question."""
    found: Row = {method: {} for method in (*METHODS, *VARIANTS)}
    for row in rows:
        options: Row = {key: row[key] for key in ("filter", "rights") if row.get(key)}
        turns = row["question"].split(" >> ")
        for method in METHODS:
            history: list[Answer] = []
            for n, text in enumerate(turns, 1):
                key = " ".join([" >> ".join(turns[:n]), *(f"[{name}: {value}]" for name, value in options.items())])
                try:
                    history = [kumi.ask(text, method, history=history, **options)]
                    found[method][key] = describe_answer(history[0])
                except KumiError as error:
                    found[method][key] = {"error": repr(error)}
    for row in (*rows[:VARIED], *rows[-VARIED:]):
        text = row["question"].partition(" >> ")[0]
        for variant in VARIANTS:
            method, *pairs = variant.split()
            settings = {name: json.loads(value) for name, _, value in (pair.partition("=") for pair in pairs)}
            found[variant][text] = describe_context(kumi.retrieve(text, method, **settings))
    return found


def describe_answer(answer: Answer) -> Row:
    """Return what must stay the same of an answer."""
    spans = [{"n": each.n, **{name: getattr(each.span, name) for name in SPAN}} for each in answer.citations]
    fields = {name: getattr(answer, name) for name in ("question", "model", "status", "text")}
    return {**fields, "citations": spans, **describe_context(answer.context)}


def describe_context(context: Context) -> Row:
    """Return what must stay the same of evidence; of its texts, a digest."""
    evidence = [
        {
            "row": item.reference,
            "score": float(item.score),
            "duplicates": [record.id for record in item.duplicates],
            "via": item.via,
            "feature_scores": [(name, float(score)) for name, score in item.feature_scores],
            "document_terms": item.document_terms,
            "text": digest(item.prompt_text),
        }
        for item in context
    ]
    return {**{name: getattr(context, name) for name in ("queries", "query_type", "replaced")}, "evidence": evidence}


def digest_tables(kumi: Kumihimo) -> Row:
    """Return the number of rows of each table, and a digest of them."""
    with kumi.snapshot() as snapshot:
        tables = {name: snapshot.table(name) for name in snapshot.row_counts()}
        return {name: {"rows": len(rows), "digest": digest(*map(repr, rows))} for name, rows in tables.items()}


def digest(*texts: str) -> str:
    return sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def find_differences(old: object, new: object, place: str = "") -> Iterator[tuple[str, object, object]]:
    """Yield where two values differ, and both, also within the tolerance."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old | new:
            yield from find_differences(old.get(key, MISSING), new.get(key, MISSING), f"{place}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        for n, (one, other) in enumerate(zip_longest(old, new, fillvalue=MISSING)):
            yield from find_differences(one, other, f"{place}[{n}]")
    elif old != new:
        yield place, old, new


def is_close(old: object, new: object) -> bool:
    return isinstance(old, float) and isinstance(new, float) and isclose(old, new, rel_tol=TOLERANCE)


def compare(old: Row, new: Row) -> bool:
    """Print a table and the first differences; return whether all is the same."""
    print("| set | method | questions | identical | within 1e-9 | different |\n|---|---|---|---|---|---|")
    shown: list[str] = []
    for name in old:
        for method in ("tables", *METHODS, *VARIANTS):
            answers, others = (found[name].get(method, {}) for found in (old, new))
            shown += [] if answers or others else [f"\n{name}, {method}: neither file has it"]
            counts: Counter[str] = Counter()
            for text in answers | others:
                found = list(find_differences(answers.get(text, MISSING), others.get(text, MISSING)))
                large = [each for each in found if not is_close(*each[1:])]
                verdict = "different" if large else "close" if found else "identical"
                counts[verdict] += 1
                if large and counts[verdict] <= SHOWN:
                    shown.append(f"\n{name}, {method}: {text} ({len(large)} differences)")
                    shown += [f"  {place}\n    old: {a!r}\n    new: {b!r}" for place, a, b in large[:SHOWN]]
            figures = (counts.total(), *(counts[verdict] for verdict in ("identical", "close", "different")))
            print(f"| {name} | {method} | {' | '.join(map(str, figures))} |")
    print("\n".join(shown) if shown else "\nEverything is the same.")
    return not shown


def main(argv: Sequence[str] | None = None) -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["record", "compare"])
    parser.add_argument("paths", type=Path, nargs=2, metavar="PATH")
    parser.add_argument("--sets", default=",".join(SETS), help="separated by commas (default: %(default)s)")
    options = parser.parse_args(argv)
    first, second = options.paths
    sets = options.sets.split(",")
    if unknown := set(sets) - set(SETS):
        parser.error(f"no set {', '.join(sorted(unknown))}; choose among {', '.join(SETS)}")
    if options.command == "record":
        found = {"code": kumihimo.__file__, "sets": record(first, sets)}
        second.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
        return
    read = [json.loads(path.read_text(encoding="utf-8")) for path in (first, second)]
    print(f"old: {read[0]['code']}\nnew: {read[1]['code']}\n")
    sys.exit(0 if compare(*({name: each["sets"].get(name, {}) for name in sets} for each in read)) else 1)


if __name__ == "__main__":
    main()
