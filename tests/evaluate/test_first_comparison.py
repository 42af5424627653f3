"""The page of the first comparison -> its commands run as they stand, and its table is what they print."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import yaml

import kumihimo
from kumihimo.evaluate.paper_studies import STUDY_NAMES, read_design
from tests.cli_runner import kumi
from tests.docs_console import DOCS, HERE


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.S | re.M)


def test_the_commands_and_the_table_of_the_first_comparison(tmp_path: Path) -> None:
    shutil.copytree(HERE / "examples", tmp_path / "examples")
    [questions] = blocks("first-comparison.md", "jsonl")
    (tmp_path / "my-questions.jsonl").write_text(questions, encoding="utf-8")
    for command in "".join(blocks("first-comparison.md", "sh")).splitlines():
        ran = kumi(tmp_path, *shlex.split(command)[1:])
        assert ran.returncode == 0, ran.stderr
    ran = kumi(tmp_path, "eval", "retrieval", "--methods", "bm25,naive,braid", "--k", "1,3,5,10", "--json")
    systems = json.loads(ran.stdout)["systems"]
    text = (DOCS / "first-comparison.md").read_text(encoding="utf-8")
    for name in ("bm25", "naive", "braid"):
        [line] = re.findall(rf"^\| `{name}` \|(.*)\|$", text, re.M)
        measures = [systems[name][measure] for measure in ("recall@1", "recall@3", "recall@5", "recall@10", "MRR")]
        assert re.findall(r"(\.\d{3}) \(", line) == [f"{measure['value']:.3f}"[1:] for measure in measures]
        ends = [f"{measure[end]:.2f}" for measure in measures for end in ("low", "high")]
        assert re.findall(r"\((.*?)–(.*?)\)", line) == [
            (low[1:], "1" if high == "1.00" else high[1:]) for low, high in zip(ends[::2], ends[1::2], strict=True)
        ]
    assert (tmp_path / "report.html").exists()


def test_the_page_of_papers_names_every_study_and_data_set() -> None:
    page = (DOCS / "reproduce-a-paper.md").read_text(encoding="utf-8")
    for name in STUDY_NAMES:
        assert f"| `{name}` |" in page
        if datasets := read_design(name).datasets:
            assert f"| `{name}` | {', '.join(f'`{dataset}`' for dataset in datasets)} |" in page


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((HERE / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["title"].casefold(), citation["license"]) == (kumihimo.__name__, "MIT")
    assert f'version = "{citation["version"]}"' in (HERE / "pyproject.toml").read_text(encoding="utf-8")
