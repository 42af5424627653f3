"""a seed -> the same documents, with the statistics of real text; and what the simulation reports of them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest
from benchmarks import simulation
from benchmarks.corpus_statistics import describe
from benchmarks.made_up import (
    MadeUp,
    document_path,
    documents,
    name,
    questions,
    syllables,
    write_document,
    write_folder,
)
from benchmarks.stored import disk_parts, server_cpu

from kumihimo import Kumihimo

DIGEST = """
import hashlib
from benchmarks.made_up import write_document
print(hashlib.sha256("".join(write_document(3, n).text for n in (49, 7, 12)).encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def made() -> list[MadeUp]:
    return list(documents(0, 200))


def test_a_document_depends_on_the_seed_and_its_number_alone() -> None:
    here = hashlib.sha256("".join(write_document(3, n).text for n in (49, 7, 12)).encode()).hexdigest()
    other_process = subprocess.run([sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True)
    assert other_process.stdout.strip() == here, "another process has other hashes, and wrote no document before"
    assert write_document(4, 7) != write_document(3, 7) != write_document(3, 8)


def test_words_differ_and_people_share_surnames() -> None:
    assert len({syllables(number).lower() for number in range(5000)}) == 5000
    names = [name(number) for number in range(4000)]
    assert len({each.short for each in names}) < len({each.full for each in names}) < len(names)


def test_lengths_are_lognormal_and_a_few_documents_are_japanese(made: list[MadeUp]) -> None:
    words = [document.words for document in made]
    assert median(words) < sum(words) / len(words), "few documents are long"
    assert sum("年に" in document.text for document in made) == len(made) // 50
    assert sum(document.chunks for document in made) == pytest.approx(200, abs=10)


def test_a_folder_holds_each_document(made: list[MadeUp], tmp_path: Path) -> None:
    count, size = write_folder(tmp_path, iter(made))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert (count, size) == (len(made), sum(path.stat().st_size for path in files)) == (len(files), size)
    assert document_path(tmp_path, 3).read_text("utf-8") == made[3].text


def test_questions_are_on_the_corpus(made: list[MadeUp]) -> None:
    asked = questions(0, len(made), 20)
    assert asked == questions(0, len(made), 20)
    assert [question.kind for question in asked[:10]] == ["passage"] * 6 + ["name"] * 3 + ["topic"]
    passage = asked[0]
    words = passage.text.removeprefix("What is known of ").rstrip("?").split(" and the ")
    assert all(word in made[passage.document].text for word in words[1].split())


def test_names_and_relations_are_as_many_as_in_real_text(made: list[MadeUp], tmp_path: Path) -> None:
    """Compare with the ranges of MuSiQue, podcasts and news, by `benchmarks.simulation --compare`."""
    write_folder(tmp_path / "notes", iter(made))
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        built = kumi.index(tmp_path / "notes", methods=["local"])
        with kumi.snapshot() as snapshot:
            figures = describe(snapshot)
    assert built.rows["chunks"] == pytest.approx(sum(document.chunks for document in made), rel=0.1)
    assert 69 < figures["words of a chunk"] < 266
    assert 5.4 < figures["mentions of a chunk"] < 13
    assert 2.8 < figures["relation mentions of a chunk"] < 16.4
    assert 0.3 < figures["exponent of the growth of words"] < 0.85, "a small corpus is above 0.6"
    assert 0.4 < figures["share of entities named once"] < 0.8
    parts = disk_parts(str(tmp_path / ".kumi"))
    assert sum(parts.values()) == sum(path.stat().st_size for path in (tmp_path / ".kumi").rglob("*") if path.is_file())
    assert server_cpu(str(tmp_path / ".kumi")) == 0


def test_the_report_has_each_piece_of_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    simulation.main(["--quick", "--json", str(file)])
    figures = json.loads(file.read_text("utf-8"))
    first, unchanged, more, fewer = figures["works"]
    assert first["rows"] == unchanged["rows"]
    without_memory = [
        {table: count for table, count in work["rows"].items() if table not in ("communities", "members", "reports")}
        for work in (first, fewer)
    ]
    assert without_memory[0] == without_memory[1], "documents that come and go leave no rows"
    assert more["rows"]["documents"] == figures["documents"] + 4
    assert [row["method"] for row in figures["answers"]] == ["braid", "braid, on the whole"]
    assert figures["answers"][0]["found"] > 0.8
    assert "| first build |" in capsys.readouterr().out
