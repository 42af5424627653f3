"""folder -> tiny generated data sets in the form of the real ones, for `--quick` and the tests.

`docs/research/data.md` describes each set and its form.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.importers.factories_stores import graphrag_tables, write_graphrag

ENGLISH = (
    ("Brannet Harbour", "Brannet Harbour was built by Ada Roake in 1861. It shelters forty boats in winter."),
    ("Ada Roake", "Ada Roake was an engineer. She was born in Oban in 1830 and studied under Tom Kerrow."),
    ("Tom Kerrow", "Tom Kerrow taught engineers in Oban. His brother Sim Kerrow kept the lighthouse on the Calf."),
    ("The Calf", "The Calf is an islet near Brannet. Its lighthouse burned for a week in the gale of 1872."),
    ("Oban", "Oban is a town on the coast. The ferry Kestrel leaves Oban for Brannet at nine each morning."),
    ("Kestrel", "The ferry Kestrel was launched in Leith in 1955. Captain Mary Lorne sailed it for thirty years."),
    ("Mary Lorne", "Mary Lorne was a captain. She was born in Leith, and she wrote a history of the harbour."),
    ("Leith", "Leith is a port. Its yards built the Kestrel and the Tern. They closed in 1983."),
    ("The Tern", "The Tern is a trawler. Its owner, Finn Ames, sold it to the Harbour Trust in 2004."),
    ("Harbour Trust", "The Harbour Trust mends the breakwater of Brannet. Its first chair was Mary Lorne."),
    ("Breakwater", "The breakwater was damaged in the gale of 1872, because its stones were too light."),
    ("Gale of 1872", "The gale of 1872 sank nine boats. Ada Roake had warned the town, but the town had no money."),
)
JAPANESE = (
    ("組紐", "組紐は絹の糸を組んだ紐である。潮寄の町では四百年前から組まれている。"),
    ("潮寄", "潮寄は海辺の町である。資料館には最初の潮返しの紐がある。"),
    ("潮返し", "潮返しは紐の模様である。由野すみが一九二二年に考えた。"),
    ("由野すみ", "由野すみは潮寄の職人である。弟子は三人いた。"),
)
CHINESE = (
    ("港口", "港口建於一八六一年。冬天有四十艘船停在那裡。"),
    ("燈塔", "燈塔位於小島上。它在一八七二年的暴風中燃燒了一週。"),
    ("渡輪", "渡輪每天早上九點離開。船長是一位女士，名叫洛恩。"),
    ("防波堤", "防波堤由信託基金修理。第一任主席是船長。"),
)
QUESTIONS = (
    ("Who built Brannet Harbour?", "Ada Roake", (0,)),
    ("In which town was the builder of Brannet Harbour born?", "Oban", (0, 1)),
    ("Which captain sailed the ferry that was launched in Leith?", "Mary Lorne", (5, 6)),
)
STEPS = (
    {"question": "Who built Brannet Harbour?", "answer": "Ada Roake"},
    {"question": "Where was #1 born?", "answer": "Oban"},
)
TALKS = tuple(
    f"Talk {number} of the harbour.\n\nHOST: What did you learn from {title}?\n\nGUEST {number}: {text} "
    "I think that people who mend things learn more than people who buy them. "
    "Engineers come to music, to computers and to machines by chance, and some of them found a company."
    for number, (title, text) in enumerate(ENGLISH)
)
SCENES = (
    (
        "Ada Roake walks to the harbour at night",
        "夜、ロークは港へ歩く",
        "subject=Ada_Roake hasPredicate=walk to=harbour when=night",
    ),
    (
        "The captain writes a letter with a pencil",
        "船長は鉛筆で手紙を書く",
        "subject=captain hasPredicate=write what=letter how=pencil",
    ),
    ("Tom Kerrow waits on the Calf", "ケロウは島で待つ", "subject=Tom_Kerrow hasPredicate=wait where=Calf"),
)
REPLY = (
    '("entity"<|>"Scrooge"<|>"person"<|>"Scrooge is a miser.")##\n'
    '("entity"<|>"Marley"<|>"person"<|>"Marley was his partner.")##\n'
    '("relationship"<|>"Scrooge"<|>"Marley"<|>"They were partners."<|>8)<|COMPLETE|>'
)


def write_tiny_data(folder: Path) -> Path:
    """Write all sets below this folder and return it."""
    decomposition = {"question_decomposition": STEPS}
    triples = {"evidence_triples": [["Ada Roake", "place of birth", "Oban"]]}
    _write_set(folder / "multihop/musique_train100", ENGLISH, [row | decomposition for row in _questions("musique")])
    _write_set(folder / "multihop/hotpot_train100", ENGLISH, _questions("hotpot"))
    _write_set(folder / "multihop/2wiki_dev164", ENGLISH, [row | triples for row in _questions("2wiki")])
    japanese = [("潮返しを考えたのは誰か", 2), ("資料館はどの町にあるか", 1)]
    chinese = [("渡輪幾點離開?", 2), ("燈塔在哪裡?", 1)]
    _write_set(
        folder / "japanese/jsquad_valid", JAPANESE, [_question_row("jsquad", n, *row) for n, row in enumerate(japanese)]
    )
    _write_set(folder / "chinese/drcd_dev", CHINESE, [_question_row("drcd", n, *row) for n, row in enumerate(chinese)])
    _write_ordinary(folder / "ordinary")
    _write_lines(folder / "mine/essays.jsonl", ({"id": n, "content": text} for n, text in enumerate(TALKS)))
    _write_lines(folder / "mine/facts.jsonl", ({"id": n, "facts": [text]} for n, (_, text) in enumerate(ENGLISH)))
    _write_podcasts(folder / "podcasts")
    _write_replies(folder / "replies")
    _write_lines(folder / "kgrc/scenes.jsonl", (_scene(n, *scene) for n, scene in enumerate(SCENES)))
    _write_files(folder / "messy")
    return folder


def _questions(name: str) -> list[dict[str, Any]]:
    return [
        {"id": f"{name}-q{n}", "question": text, "answer": answer, "gold_passage_ids": [f"p{at}" for at in gold]}
        for n, (text, answer, gold) in enumerate(QUESTIONS)
    ]


def _question_row(name: str, number: int, question: str, gold: int) -> dict[str, Any]:
    return {"id": f"{name}-q{number}", "question": question, "answers": [], "gold_passage_ids": [f"p{gold}"]}


def _scene(number: int, english: str, japanese: str, slots: str) -> dict[str, Any]:
    pairs = (slot.split("=") for slot in slots.split())
    return {"id": f"s/{number}", "text_en": [english], "text_ja": [japanese]} | {
        name: [f"predicate/{value}" if name == "hasPredicate" else f"s/{value}"] for name, value in pairs
    }


def _write_set(path: Path, passages: Iterable[tuple[str, str]], questions: Iterable[Mapping[str, Any]]) -> None:
    rows = ({"id": f"p{n}", "title": title, "text": text} for n, (title, text) in enumerate(passages))
    _write_lines(path.with_name(f"{path.name}_corpus.jsonl"), rows)
    _write_lines(path.with_name(f"{path.name}_questions.jsonl"), questions)


def _write_ordinary(folder: Path) -> None:
    """Write sets with alternatives and with places of one long document as gold."""
    sets = [{"id": f"n{n}", "question": text, "gold_sets": [["p0", "p1"]]} for n, (text, _, _) in enumerate(QUESTIONS)]
    _write_set(folder / "news", ENGLISH, sets)
    document = "\n\n".join(text for _, text in ENGLISH)
    places = [["finance", document.index(text), document.index(text) + len(text)] for _, text in ENGLISH]
    rows = [
        {"id": n, "question": text, "gold": [places[i] for i in gold]} for n, (text, _, gold) in enumerate(QUESTIONS)
    ]
    _write_lines(folder / "finance_corpus.jsonl", [{"id": "finance", "text": document}])
    _write_lines(folder / "finance_questions.jsonl", rows)


def _write_podcasts(folder: Path) -> None:
    rows = ({"id": f"Talk {n // 2}-part{n % 2}.txt", "text": text} for n, text in enumerate(TALKS))
    _write_lines(folder / "kevin_scott_podcasts.jsonl", rows)
    questions = ["What are the main themes?", "What do the guests say about mending?", "Who built Brannet Harbour?"]
    with (folder / "kevin_scott_questions.csv").open("w", encoding="utf-8-sig", newline="") as out:
        csv.writer(out).writerows([("question_text", "question_id"), *((text, n) for n, text in enumerate(questions))])


def _write_replies(folder: Path) -> None:
    carol = folder / "christmas_carol"
    quote = "He was a tight-fisted hand at the grindstone."
    findings = [{"summary": "He pays", "explanation": "He pays the clerk [Data: Entities (1)]."}]
    report = {"title": "Scrooge", "summary": "A miser.", "rating": 5.0, "rating_explanation": "", "findings": findings}
    tables = graphrag_tables()
    tables["covariates"][0]["source_text"] = quote
    for row in tables["community_reports"]:
        row["full_content_json"] = json.dumps(report)
    write_graphrag(carol, tables)
    (carol / "mock_data.txt").write_text(f"Marley was dead. {quote}", encoding="utf-8")
    cache = {"a": {"return": REPLY, "model": "made-up"}, "b": {"return": "A summary.", "model": "made-up"}}
    (carol / "mock_cache.json").write_text(json.dumps(cache), encoding="utf-8")
    rows = (
        {"passage_id": f"p{n}", "title": title, "text": text, "entities": [title, "Oban"]}
        | {"triples": [[title, "near", "Oban"], ["cut off"]]}
        for n, (title, text) in enumerate(ENGLISH)
    )
    _write_lines(folder / "openie_gpt35_musique_train100.jsonl", rows)


def _write_files(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "semicolons.csv").write_text("boat;built\nTern;1962\nKestrel;1955\n", encoding="utf-8")
    (folder / "page.html").write_text("<h1>Boats</h1><p>The Tern leaves at nine.</p>", encoding="utf-8")


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
