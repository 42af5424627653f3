"""made files in the form of public data sets -> the rows that the benchmarks read; what is said of other files."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from benchmarks.data.__main__ import main
from benchmarks.data.catalogue import read_catalogue
from benchmarks.data.sources import Sample, Source, SourceError, read_ids, select
from benchmarks.options import DATA
from benchmarks.question_sets import STEMS

from kumihimo.evaluate.importers import parse_question_row
from tests.factories_data_sets import MADE, MUSIQUE, PASSAGES, PRESS, TRIPLES, WIKIPEDIA, write_files

ROOT = Path(__file__).parents[1]
SETS = [(name, sample) for name, each in read_catalogue().items() for sample in each.samples]


def convert(folder: Path, name: str, files: Mapping[str, Any], sample: str = "") -> dict[str, list[dict[str, Any]]]:
    """Convert made files; return the rows by the name of their file."""
    sources = write_files(folder / "originals", files)
    if name == "podcasts":
        with ZipFile(sources / "Kevin Scott Podcast Transcripts Input Text.zip", "w") as archive:
            archive.writestr("input/Talk 2-part1.txt", "HOST: Hello.\r\n")
            archive.writestr("input/Talk 1-part1.txt", "GUEST: Hello.")
    out = folder / "out"
    main([name, "--from", str(sources), "--to", str(out), "--unverified", *(["--sample", sample] if sample else [])])
    paths = [path for path in out.rglob("*.jsonl")]
    return {path.stem: [json.loads(line) for line in path.read_text("utf-8").splitlines()] for path in sorted(paths)}


def fail(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Return what the command says when it fails."""
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    assert isinstance(stopped.value.code, str)  # printed; the status is 1
    return stopped.value.code


@pytest.mark.parametrize("made", [name for name in MADE if name not in ("podcasts", "holmes", "openie")])
def test_a_set_has_questions_whose_gold_is_in_its_corpus(made: str, tmp_path: Path) -> None:
    name, _, sample = made.partition(" ")
    corpus, questions = convert(tmp_path, name, MADE[made], sample).values()
    assert all(row["id"] and row["text"] for row in corpus)
    ids = {row["id"] for row in corpus}
    parsed = [parse_question_row(row, "") for row in questions]
    assert all(question.text and {gold.id for gold in question.gold} <= ids for question in parsed)
    assert any(question.gold for question in parsed)


def test_questions_with_their_own_passages_find_them_in_a_corpus(tmp_path: Path) -> None:
    rows = convert(tmp_path / "1", "musique", MADE["musique"])
    assert [row["id"] for row in rows["musique_1000_corpus"]] == [f"musique_1000-{n}" for n in range(3)]
    (question,) = rows["musique_1000_questions"]
    assert question["gold_passage_ids"] == ["musique_1000-2", "musique_1000-1"]
    assert (question["hops"], question["answer_aliases"]) == ("2", ["The Oban"])
    (question,) = convert(tmp_path / "2", "2wiki", MADE["2wiki"])["2wiki_1000_questions"]
    assert (question["gold_passage_ids"], question["level"]) == (["2wiki_1000-2", "2wiki_1000-1"], "easy")
    assert question["evidence_triples"] == TRIPLES["evidences"]


def test_a_sample_of_them_has_their_passages_as_its_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = [{**MUSIQUE[0], "id": id} for id in reversed(read_ids("musique_train100"))]
    rows = convert(tmp_path / "1", "musique", {"musique_train.json": [*MUSIQUE, *made]}, "train100")
    assert [row["title"] for row in rows["musique_train100_corpus"]] == ["Harbour", "Tern", "Ada Roake"]
    assert [row["id"] for row in rows["musique_train100_questions"]] == read_ids("musique_train100")
    assert capsys.readouterr().out.count("NOT the file of the published figures") == 2
    made = [{**WIKIPEDIA[0], "_id": id} for id in read_ids("hotpot_train100")]
    rows = convert(tmp_path / "2", "hotpot", {"hotpotqa_train.json": made}, "train100")
    assert rows["hotpot_train100_corpus"][2]["text"] == "She was born in Oban."


def test_a_paragraph_is_the_gold_of_the_questions_under_it(tmp_path: Path) -> None:
    rows = convert(tmp_path, "jsquad", MADE["jsquad"])
    assert rows["jsquad_valid_all_questions"] == [
        {"id": "a1q0", "question": "誰が考えたか", "answers": ["すみ", "由野"], "answer_start": 3}
        | {"gold_passage_ids": ["jsquad_valid_all-1"]}
    ]


def test_articles_are_the_gold_of_their_evidence(tmp_path: Path) -> None:
    inference, null = convert(tmp_path, "multihop-rag", MADE["multihop-rag"])["multihop-rag_questions"]
    assert inference["gold_passage_ids"] == ["multihop-rag-1", "multihop-rag-0"]
    assert (null["gold_passage_ids"], null["answer"]) == ([], "Insufficient information.")


def test_assertions_and_the_quoted_articles_are_kept(tmp_path: Path) -> None:
    rows = convert(tmp_path, "ap-news", MADE["ap-news"])
    assert [row["text"] for row in rows["ap-news_corpus"]] == ["Nine boats sank.\n\nLater\n\nNone & more."]
    local, linked, everything = (parse_question_row(row, "") for row in rows["ap-news_questions"])
    assert (local.scope, local.source, local.assertions) == ("local", "data", ("Nine.",))
    assert ([gold.id for gold in local.gold], linked.scope, linked.gold) == (["0a1"], "linked", ())
    assert (everything.scope, everything.gold) == ("global", ())


def test_equal_contexts_are_one_document(tmp_path: Path) -> None:
    rows = convert(tmp_path, "ultradomain", MADE["ultradomain cs"], "cs")
    assert [row["title"] for row in rows["cs_corpus"]] == ["Bees", "Hives"]
    assert [row["gold_passage_ids"] for row in rows["cs_questions"]] == [["cs-0"], ["cs-1"], ["cs-0"]]


def test_the_questions_of_the_test_are_all_of_fiqa(tmp_path: Path) -> None:
    rows = convert(tmp_path, "fiqa", MADE["fiqa"])
    assert rows["fiqa_test_corpus"][0] == {"id": "p1", "text": "Pay the bank."}
    assert rows["fiqa_test_questions"] == [{"id": "2", "question": "Whom do I ask?", "gold_passage_ids": ["p2"]}]


def test_a_place_in_a_long_document_is_gold(tmp_path: Path) -> None:
    rows = convert(tmp_path, "chunking", MADE["chunking finance"], "finance")
    assert rows["finance_corpus"] == [{"id": "finance", "text": "Nine sank.\r\nMore."}]
    assert rows["finance_questions"] == [{"id": "finance-0", "question": "How many?", "gold": [["finance", 0, 10]]}]


def test_transcripts_are_read_from_their_archive(tmp_path: Path) -> None:
    rows = convert(tmp_path, "podcasts", MADE["podcasts"])["kevin_scott_podcasts"]
    assert rows == [
        {"id": "Talk 1-part1.txt", "text": "GUEST: Hello."},
        {"id": "Talk 2-part1.txt", "text": "HOST: Hello.\r\n"},
    ]
    copied = (tmp_path / "out/podcasts/kevin_scott_questions.csv").read_bytes()
    assert copied == (tmp_path / "originals/Kevin Scott Questions.csv").read_bytes()


def test_scenes_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    rows = convert(tmp_path, "holmes", MADE["holmes"])["scenes"]
    ids = [f"{story}/{n}" for story in ("DancingMen", "SpeckledBand") for n in (9, 10)]
    assert [row["id"] for row in rows] == ids
    assert rows[0] == {
        "id": "DancingMen/9",
        "story": "DancingMen",
        "text_ja": ["彼女は待つ"],
        "text_en": [],
        "type": ["Situation", "Scene"],
        "subject": ["DancingMen/Helen"],
        "time": ["1883-04-01"],
    }


def test_extracted_triples_and_essays(tmp_path: Path) -> None:
    (row,) = convert(tmp_path / "1", "openie", MADE["openie"])["openie_gpt35_musique_train100"]
    assert (row["passage_id"], row["triples"]) == ("musique_train100-0", [["Tern", "is", "trawler"]])
    essays = [{"topic": f"{n}", "content": f"Essay {n}"} for n in range(1, 106)]
    facts = [[{"answer": f"Fact {n}"}] for n in range(1, 106)]
    rows = convert(tmp_path / "2", "mine", {"essays.json": essays, "answers.json": facts}, "odd")
    assert rows["essays"][9] == {"id": 19, "topic": "19", "content": "Essay 19"}
    assert rows["facts"][9] == {"id": 21, "facts": ["Fact 20"]}


# -- other files


def test_a_list_that_nobody_reads_to_its_end_stops_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "benchmarks.data"]
    ran = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert ran.stderr == ""


@pytest.mark.parametrize(("name", "sample"), SETS)
def test_without_files_it_says_what_is_missing(name: str, sample: str, capsys: pytest.CaptureFixture[str]) -> None:
    data_set = read_catalogue()[name]
    said = fail(capsys, name, "--sample", sample)
    assert data_set.licence in said
    assert data_set.form in said
    for source in data_set.samples[sample].sources:
        assert source.name in said
        assert source.address in said


def test_a_name_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such set; there are musique, hotpot" in fail(capsys, "squad")
    assert "has no sample 'dev300': it has all, valid300" in fail(capsys, "jsquad", "--sample", "dev300")
    assert "add --sample with one of agriculture, cs, legal, mix" in fail(capsys, "ultradomain")
    assert "no file or folder" in fail(capsys, "jsquad", "--from", tmp_path / "nowhere.json")
    said = fail(capsys, "musique", "--from", write_files(tmp_path, {"musique.json": MUSIQUE}))
    assert "that holds them:\n  musique_corpus.json  (git " in said


@pytest.mark.parametrize(
    ("name", "file", "content", "said"),
    [
        ("jsquad", "a.json", b'{"data": [', "is no JSON"),
        ("jsquad", "a.json", b"\xff\xfe{}", "is no text in UTF-8"),
        ("jsquad", "a.json", b'{"rows": []}', "Expected: an object with `data`"),
        ("jsquad", "a.json", b'[{"context": "x"}]', "Expected: an object with `data`"),
        ("ultradomain", "a.jsonl", b'{"_id": 1}\n{"_id":', "line 2 is no JSON"),
        ("ultradomain", "a.jsonl", b'{"_id": "1", "input": "x"}', "KeyError: 'context'"),
        ("ultradomain", "a.jsonl", b"\n", "is empty"),
        ("ultradomain", "a.jsonl", b'{"_id": "1", "input": 7, "answers": [], "context": "x"}', "of '1' is no text"),
        ("ultradomain", "a.jsonl", b"[" * 99_999, "is no JSON"),
    ],
)
def test_a_broken_or_another_file(
    name: str, file: str, content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / file
    path.write_bytes(content)
    sample = ["--sample", "cs"] if name == "ultradomain" else []
    assert said in fail(capsys, name, "--from", path, "--to", tmp_path, "--unverified", *sample)


def test_broken_archives_and_graphs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, file, said in (
        ("podcasts", "Kevin Scott Podcast Transcripts Input Text.zip", "is no whole ZIP archive"),
        ("holmes", "DancingMen.ttl", "is no Turtle"),
    ):
        folder = write_files(tmp_path / name, {**MADE[name], file: "<a> <b>"})
        assert said in fail(capsys, name, "--from", folder, "--to", tmp_path, "--unverified")
    folder = write_files(tmp_path / "holmes", {"DancingMen.ttl": "<http://a> <http://b> <http://c> ."})
    assert "holds no scenes" in fail(capsys, "holmes", "--from", folder, "--unverified")
    folder = write_files(tmp_path / "ap", {**MADE["ap-news"], "raw_data/2023/11/0a1.json": PRESS | {"headline": "B"}})
    assert "KeyError: ('Boats sink'" in fail(capsys, "ap-news", "--from", folder, "--unverified")
    folder = write_files(
        tmp_path / "fiqa", {**MADE["fiqa"], "qrels/test.tsv": "query-id\tcorpus-id\tscore\n2\tp9\t1\n"}
    )
    assert "the corpus lacks the gold of the question '2'" in fail(capsys, "fiqa", "--from", folder, "--unverified")
    short = {**MADE["musique"], "musique_corpus.json": PASSAGES[:2]}
    assert "the corpus lacks the passage 'Harbour'" in fail(
        capsys, "musique", "--from", write_files(tmp_path / "short", short), "--unverified"
    )


def test_another_version_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_files(tmp_path, MADE["jsquad"]) / "valid-v1.3.json"
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    (source,) = read_catalogue()["jsquad"].samples["all"].sources
    said = fail(capsys, "jsquad", "--from", path, "--to", tmp_path)
    assert f"its SHA-256 is {found}, not {source.digest.partition(':')[2]}" in said
    assert "--unverified" in said
    assert list(tmp_path.glob("japanese")) == []
    main(["jsquad", "--from", str(path), "--to", str(tmp_path), "--unverified"])
    assert (tmp_path / "japanese/jsquad_valid_all_corpus.jsonl").exists()
    said = fail(capsys, "jsquad", "--sample", "valid300", "--from", path, "--to", tmp_path, "--unverified")
    assert "300 of the 300 rows of the sample jsquad_valid300 are missing" in said


def test_checksums_are_those_of_git_and_of_folders(tmp_path: Path) -> None:
    path = write_files(tmp_path, {"b/2.json": "[2]", "a/1.json": "[1]", ".DS_Store": "x"}) / "a/1.json"
    run = subprocess.run(["git", "hash-object", path], capture_output=True, text=True, check=True)
    Source("1.json", "", f"git:{run.stdout.strip()}").check(path)
    Source("", "", f"sha256:{hashlib.sha256(b'[1][2]').hexdigest()}").check(tmp_path)
    with pytest.raises(SourceError, match="blob id of git"):
        Source("1.json", "", "git:0").check(path)


# -- the catalogue


def test_lists_of_ids_have_the_size_of_their_sample() -> None:
    for name, sample in SETS:
        each = read_catalogue()[name].samples[sample]
        for count, ids in zip(each.size.split(", "), (each.questions, each.passages), strict=False):
            assert not ids or name == "mine" or int(count.split()[0].replace(",", "")) == len(set(read_ids(ids)))


def test_the_questions_that_were_searched_again_are_of_musique() -> None:
    searched = read_ids("musique_searched40")
    assert len(set(searched)) == 40
    assert set(searched) <= set(read_ids("musique_train100"))


def test_benchmarks_read_what_is_written() -> None:
    stems = {sample.stem for each in read_catalogue().values() for sample in each.samples.values()}
    assert {*STEMS.values()} - stems == {"ordinary/news"}  # its passages were cut elsewhere


@pytest.mark.skipif(not DATA.exists(), reason=f"the data sets are not in {DATA}")
@pytest.mark.parametrize(("name", "sample"), SETS)
def test_published_figures_are_about_the_files_of_the_catalogue(name: str, sample: str) -> None:
    each = read_catalogue()[name].samples[sample]
    for ending, digest in each.written.items():
        if not (DATA / f"{each.stem}{ending}").exists():
            continue
        content = (DATA / f"{each.stem}{ending}").read_bytes()
        if each.stem + ending not in ("kgrc/scenes.jsonl", "mine/facts.jsonl"):  # equal rows, in another notation
            assert hashlib.sha256(content).hexdigest() == digest
        if ending == "_questions.jsonl" and each.questions:
            assert [json.loads(line)["id"] for line in content.decode().splitlines()] == read_ids(each.questions)


def test_the_page_lists_all_sets(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--table"])
    assert capsys.readouterr().out in (ROOT / "docs/research/data.md").read_text(encoding="utf-8")
    main([])
    assert f"\n    valid300: {read_catalogue()['jsquad'].samples['valid300'].size}" in capsys.readouterr().out


def test_a_selection_keeps_the_order_of_the_list() -> None:
    ids = read_ids("drcd_dev300")
    assert select({id: n for n, id in enumerate(sorted(ids))}, "drcd_dev300") == [sorted(ids).index(id) for id in ids]
    assert replace(Sample("a/b", ""), stem="a/c").name == "c"
