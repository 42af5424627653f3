"""prompts of other libraries, figures -> replies that they parse, tables of the page. No library is installed."""

from __future__ import annotations

import json
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import benchmarks.peers.__main__ as command
import httpx2
import numpy as np
import pytest
from benchmarks.peers import extraction, page, retrieval
from benchmarks.peers.answers import FORMS, Replier
from benchmarks.peers.extraction import Extraction, Extractor, passage_key
from benchmarks.peers.libraries import LIBRARIES, ROOT, Environments, Library
from benchmarks.peers.measuring import Measuring
from benchmarks.peers.server import Answerer, PeerServer, serve

TEXT = "Nell Attery met Joss Kerrow at Brannet. Joss Kerrow had lent his cart to Orrell Mason for the tide gates. " * 12
GRAPHRAG = '("entity"<|>X) -Real Data-\n####\nEntity_types: a,b\nText: %s\n######\nOutput:\n'
LIGHTRAG = "---Input Text---\n```\n%s\n```\n\n---Output---\n"
FAST = "<<DOCUMENT_START>>\n**Document**:\n%s\n<<DOCUMENT_END>>\n"
KUMIHIMO = "entity<|>NAME<|>\nText:\n<text>\n%s\n</text>"
GLEAN = "MANY entities were missed in the last extraction. Add them below."
RECORDED = {passage_key("A title\nA recorded text"): Extraction((("A", "geo", "A is B"),), (("A", "B", "A is B"),))}


def ask(*messages: str) -> tuple[str, str]:
    replier = Replier(Extractor(RECORDED), Mock(answer=lambda _: "own"))
    return replier.reply([{"role": "user", "content": text} for text in messages])


def rows(reply: str, separator: str) -> list[list[str]]:
    return [line.strip("()").split(separator) for line in reply.splitlines() if separator in line]


def test_graphrag_and_nano_get_their_records() -> None:
    kind, reply = ask(GRAPHRAG % TEXT)
    found = rows(reply, "<|>")
    assert kind == "extract"
    assert reply.endswith("<|COMPLETE|>")
    assert {len(row) for row in found if row[0] == '"entity"'} == {4}
    relations = [row for row in found if row[0] == '"relationship"']
    assert {len(row) for row in relations} == {5}
    names = {row[1] for row in found if row[0] == '"entity"'}
    assert {"NELL ATTERY", "JOSS KERROW"} <= names
    assert {name for row in relations for name in row[1:3]} <= names


def test_what_is_missing_is_found_when_asked_for() -> None:
    first, more = ask(GRAPHRAG % TEXT), ask(GRAPHRAG % TEXT, first_reply := ask(GRAPHRAG % TEXT)[1], GLEAN)
    assert (first[0], more[0]) == ("extract", "glean")
    assert first[1] == first_reply
    assert not {row[1] for row in rows(first[1], "<|>") if "entity" in row[0]} & {
        row[1] for row in rows(more[1], "<|>") if "entity" in row[0]
    }


def test_lightrag_gets_its_records_and_keywords() -> None:
    kind, reply = ask("entity<|#|><entity_name>", LIGHTRAG % TEXT)
    assert (kind, {(row[0], len(row)) for row in rows(reply, "<|#|>")}) == (
        "extract",
        {("entity", 4), ("relation", 5)},
    )
    asked = "high_level_keywords and low-level_keywords\nUser Query: Where did Nell Attery meet him?\n\n---Output---"
    kind, reply = ask(asked)
    assert (kind, json.loads(reply)["low_level_keywords"]) == ("keywords", ["Nell Attery"])


def test_fast_graphrag_gets_json() -> None:
    kind, reply = ask("other_relationships", FAST % TEXT)
    found = json.loads(reply)
    assert kind == "extract"
    assert {"source", "target", "desc"} == set(found["relationships"][0])
    kind, reply = ask("-INPUT-\nQuery: Where did Nell Attery meet him?\nOutput:")
    assert (kind, json.loads(reply)["named"]) == ("keywords", ["Nell Attery"])


@pytest.mark.parametrize(
    ("prompt", "kind", "names"),
    [
        (
            "rating: <impact_severity_rating>",
            "report",
            {"title", "summary", "rating", "rating_explanation", "findings"},
        ),
        ('{"points": [{"description": ""}]}', "map", {"points"}),
        ("{'intermediate_answer': str, 'follow_up_queries': []}", "drift", None),
        ("{'response': str, 'follow_up_queries': []}", "drift", {"response", "score", "follow_up_queries"}),
        ("{ grouped_facts: [] }", "summarise", {"grouped_facts"}),
        ('the "Sources" list contains raw text sources', "answer", {"answer"}),
    ],
)
def test_json_replies_have_exactly_what_is_asked_for(prompt: str, kind: str, names: set[str] | None) -> None:
    got, reply = ask(prompt)
    assert (got, set(json.loads(reply))) == (kind, names or {"intermediate_answer", "score", "follow_up_queries"})


def test_kumihimo_gets_its_records_and_other_prompts_an_answer() -> None:
    kind, reply = ask(KUMIHIMO % TEXT)
    assert (kind, reply.splitlines()[-1]) == ("extract", "END")
    assert ask("Return it.\nJSON schema:\n{}") == ("other", "own")
    assert ask("What is said of Brannet?")[0] == "answer"
    assert len({form.reply for form in FORMS}) > 10


def test_a_recorded_passage_is_not_read_by_rule() -> None:
    assert [row[1] for row in rows(ask(GRAPHRAG % "A title\nA recorded text")[1], "<|>")] == ["A", "A"]
    assert Extractor(RECORDED).extract_missing("A title\nA recorded text") == Extraction()


def test_a_longer_text_has_more_names() -> None:
    many = " ".join(f"Then Anna Number{chr(65 + n)}x spoke to them about the harbour and the gates." for n in range(20))
    sizes = [len(Extractor({}).extract(text).entities) for text in (many[:500], many * 4)]
    assert sizes[0] < sizes[1] <= len(many) * 4 // extraction.CHARACTERS_PER_NAME


def test_malformed_triples_are_left_out(tmp_path: Path) -> None:
    row = {"title": "T", "text": "x", "entities": ["A"], "triples": [["A", "is", "B"], ["A", "is"], ["", "is", "B"]]}
    (path := tmp_path / "recorded.jsonl").write_text(json.dumps(row), encoding="utf-8")
    assert extraction.read_recorded(path)[passage_key("T\nx")].relations == (("A", "B", "A is B"),)


# -- the server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve(Answerer(Replier(Extractor({}), Mock()))) as address:
        yield address


def test_each_library_has_its_own_counts(url: str) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": GRAPHRAG % TEXT}]}
    reply = httpx2.post(f"{url}/nano/v1/chat/completions", json=body).json()
    counts = PeerServer(url).counts("nano")
    assert (counts["calls"], counts["calls: extract"]) == (1, 1)
    assert counts["completion_tokens"] == reply["usage"]["completion_tokens"] > 20
    assert PeerServer(url).counts("nano") == PeerServer(url).counts("fast") == {}


def test_prompts_for_answers_are_kept_and_streamed(url: str) -> None:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "What is said of Brannet?"}]}
    lines = httpx2.post(f"{url}/graphrag/v1/chat/completions", json=body).text.split("\n\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in events) == ask("What?")[1]
    assert lines[-2] == "data: [DONE]"
    assert PeerServer(url).prompts("graphrag") == ["What is said of Brannet?"]
    assert PeerServer(url).prompts("graphrag") == []


def test_vectors_come_in_both_encodings(url: str) -> None:
    rows = [
        httpx2.post(f"{url}/x/v1/embeddings", json={"model": "m", "input": ["a cart"], "encoding_format": form}).json()
        for form in ("float", "base64")
    ]
    first, second = (each["data"][0]["embedding"] for each in rows)
    assert np.frombuffer(b64decode(second), "<f4").tolist() == pytest.approx(first)
    assert PeerServer(url).counts("x") == {"embedding_calls": 2, "embedded": 2, "embedded_tokens": 4}


def test_a_request_that_has_no_reply_is_refused(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": '-Real Data- ("entity" without a text'}]}
    refused = httpx2.post(f"{url}/x/v1/chat/completions", json=body)
    assert (refused.status_code, "without a text" in capfd.readouterr().err) == (400, True)


# -- what is measured


def test_a_library_that_cannot_run_is_named(tmp_path: Path) -> None:
    library = Library("Nobody", "nobody", "none", ("nobody==1",), "MIT", ("local",))
    python = tmp_path / "environments/none/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    (tmp_path / "environments/tokenizers").mkdir()
    measuring = Measuring(tmp_path, Environments(tmp_path / "environments"), Mock(counts=lambda _: {}, url=""))
    figures = measuring.measure(library, [("a.txt", "A text")], [], ["Who?"])
    assert "nobody" in figures["insert"]["error"]
    assert "local" not in figures


def test_a_passage_counts_where_its_first_letters_stand() -> None:
    documents = [["a", 'One\nThe "first" passage'], ["b", "Two\nAnother passage"], ["c", "Three\nA third one"]]
    prompt = 'Sources: 1,"Two Another passage" 2,{"content": "One\\nThe ""first"" passage"} Who?'
    assert retrieval.find_passages(prompt, documents) == ["b", "a"]
    questions: list[dict[str, Any]] = [
        {"id": "q", "question": "Who?", "gold_passage_ids": ["a", "c"]},
        {"id": "r", "question": "Unasked?", "gold_passage_ids": ["b"]},
    ]
    measured = retrieval.measure(retrieval.Sample(questions, documents, 0), [prompt])
    assert (measured["recall@5"], measured["recall"], measured["passages"], measured["prompts"]) == (0.25, 0.25, 1, 1)


def test_the_sample_is_the_same_at_each_run(tmp_path: Path) -> None:
    (tmp_path / "multihop").mkdir()
    asked = [{"id": f"q{n}", "question": "?", "gold_passage_ids": [f"p{n}"]} for n in range(9)]
    passages = [{"id": f"p{n}", "title": "T", "text": f"{n}"} for n in range(40)]
    for name, lines in (("questions", asked), ("corpus", passages)):
        text = "\n".join(map(json.dumps, lines))
        (tmp_path / f"{retrieval.STEM}_{name}.jsonl").write_text(text, encoding="utf-8")
    sample = retrieval.draw_sample(tmp_path, 3, 10)
    assert sample == retrieval.draw_sample(tmp_path, 3, 10)
    assert (len(sample.questions), len(sample.documents), sample.distractors) == (3, 10, 7)
    assert {row["gold_passage_ids"][0] for row in sample.questions} <= {id for id, _ in sample.documents}


def test_documents_come_from_a_folder_or_are_made(tmp_path: Path) -> None:
    (tmp_path / "podcasts").mkdir()
    row = {"text": "\n\n".join(f"Paragraph {n} of somebody's talk about harbours." for n in range(500))}
    (tmp_path / "podcasts/kevin_scott_podcasts.jsonl").write_text(json.dumps(row), encoding="utf-8")
    made = command.read_documents(None, tmp_path, 3)
    assert [name for name, _ in made] == ["part-0000.txt", "part-0001.txt", "part-0002.txt"]
    assert all(command.SIZE - 2 <= len(text) < command.SIZE + 60 for _, text in made)
    (tmp_path / "b.txt").write_text("of a file", encoding="utf-8")
    assert command.read_documents(tmp_path, tmp_path, 3) == [("b.txt", "of a file")]
    assert len(command.make_questions(made, 8)) == 3


# -- the page

RECALL = {"recall@5": 0.5, "low": 0.4, "high": 0.6, "recall": 0.75, "passages": 12, "prompts": 3}


def figures() -> dict[str, Any]:
    cost = {"cpu": 1.25, "wall": 9.0, "peak": 120.0, "written": 2.5, "size": 1234.0}
    asked = cost | {"question_wall": 0.02, "question_cpu": 0.01, "asked": 2, "calls": 4}
    both = {
        "about": {"version": "1.0", "distributions": 20, "size": 55.5},
        "machine": {"processor": "P", "cores": 2, "memory": 4, "system": "Linux 6", "python": "3.11.7", "load": 1.5},
        "date": "2026-11-30",
        "corpus": {"documents": 2, "megabytes": 0.01},
        "sample": {"ids": ["q1"], "distractors": 7, "passages": 9},
    }
    insert = cost | {"calls": 12, "calls: extract": 7, "calls: report": 5}
    whole = {"insert": insert, "add": {"error": "no room"}, "local": asked, "naive": asked}
    return {
        "nano": both
        | {"cost": whole | {"global": asked}, "recall": {"insert": cost, "local": RECALL, "naive": RECALL}},
        "fast": {"error": "no wheel", "machine": both["machine"], "date": "2026-11-29"},
    }


def test_the_page_shows_figures_and_failures() -> None:
    filled = {name: table(figures()) for name, table in page.TABLES.items()}
    assert "| nano-graphrag | 1.2 | 9 | 120 | 12 | 0 | 0 | 0 | 2.5 | 1,234 |" in filled["insert"]
    assert "| nano-graphrag | failed | –" in filled["add"]
    assert "| nano-graphrag | 7 | 0 | 0 | 5 |" in filled["calls"]
    assert "| nano-graphrag | `local` | 20 | 10 | 2 | 0 | 1.2 | 120 |" in filled["questions"]
    assert "| nano-graphrag | `local` | 0.50 | 0.40–0.60 | 0.75 | 12 | 3 |" in filled["recall"]
    assert "2 gold passages and 7 distractors" in filled["sample"]
    assert "fast-graphrag: could not be installed: `no wheel`" in filled["failures"]
    assert "nano-graphrag, cost, add: `no room`" in filled["failures"]
    assert "LightRAG: not measured" in filled["failures"]
    assert "fast-graphrag, cost, insert: not measured" in filled["failures"]
    assert "2026-11-29 and 2026-11-30" in filled["machine"]


def test_the_first_five_of_an_order_without_meaning_are_left_out() -> None:
    table = page.TABLES["recall"]({"graphrag_untraced": figures()["nano"] | {"recall": {"basic": RECALL}}})
    assert "| graphrag, tracer off | `basic` | – | – | 0.75 | 12 | 3 |" in table


def test_the_template_has_a_place_for_each_table() -> None:
    template = page.TEMPLATE.read_text(encoding="utf-8")
    assert sorted(page.MARKER.findall(template)) == sorted(page.TABLES)
    assert page.page_prose(page.fill_template(template, figures())) == template


def test_the_page_has_the_prose_of_the_template() -> None:
    written = (ROOT / "docs/compare.md").read_text(encoding="utf-8")
    assert page.page_prose(written) == page.TEMPLATE.read_text(encoding="utf-8")


def test_each_library_has_a_script_and_pinned_versions() -> None:
    drivers = Path(command.__file__).parent / "drivers"
    assert {each.driver for each in LIBRARIES} == {path.stem for path in drivers.glob("*.py")} - {"__init__", "common"}
    assert all("==" in name for each in LIBRARIES for name in each.requirements if name != ".")
