"""made files in the form of public data sets: name, and sample, -> content by name of the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HARBOUR, ROAKE = "Ada Roake built it.", "She was born in  Oban."
MUSIQUE = [
    {"id": "2hop__7_9", "question": "Where was its builder born?", "answer": "Oban", "answer_aliases": ["The Oban"]}
    | {"question_decomposition": [{"id": 7, "question": "Who built it?", "answer": "Ada Roake"}], "answerable": True}
    | {
        "paragraphs": [
            {"idx": 0, "title": "Harbour", "paragraph_text": HARBOUR, "is_supporting": True},
            {"idx": 1, "title": "Tern", "paragraph_text": "A trawler.", "is_supporting": False},
            {"idx": 2, "title": "Ada Roake", "paragraph_text": ROAKE, "is_supporting": True},
        ]
    }
]
WIKIPEDIA = [
    {"_id": "5a7", "question": "Where was its builder born?", "answer": "Oban", "type": "bridge", "level": "easy"}
    | {"supporting_facts": [["Harbour", 0], ["Ada Roake", 0], ["Harbour", 1]]}
    | {
        "context": [
            ["Harbour", ["Ada Roake", " built it."]],
            ["Tern", ["A trawler."]],
            ["Ada Roake", ["She was born in\u00a0Oban."]],
        ]
    }
]
TRIPLES = {"evidences": [["Ada Roake", "place of birth", "Oban"]]}
PASSAGES = [
    {"title": "Tern", "text": "A trawler."},
    {"title": "Ada Roake", "text": ROAKE},
    {"title": "Harbour", "text": HARBOUR},
]
SQUAD_ROWS = [
    {"id": "a1q0", "question": "誰が考えたか", "is_impossible": False}
    | {"answers": [{"text": "由野", "answer_start": 3}, {"text": "すみ", "answer_start": 5}]}
]
SQUAD = {
    "data": [
        {"title": "紐", "paragraphs": [{"context": "絹の紐。", "qas": []}, {"context": "潮返し", "qas": SQUAD_ROWS}]}
    ]
}
ARTICLES = [
    {"url": "https://a", "title": "Boats", "body": "Nine sank.", "source": "Herald", "published_at": "2023-10-01"},
    {"url": "https://b", "title": "Gale", "body": "It blew.", "source": "Post", "published_at": "2023-10-02"},
]
EVIDENCE = [
    {"url": "https://b", "fact": "It blew."},
    {"url": "https://a", "fact": "x"},
    {"url": "https://b", "fact": "y"},
]
NEWS = [
    {"query": "Which did it?", "answer": "The gale", "question_type": "inference_query", "evidence_list": EVIDENCE},
    {"query": "Who sang?", "answer": "Insufficient information.", "question_type": "null_query", "evidence_list": []},
]
BOOK = {"corpus_name": "Novel-1", "context": "A long book."}
BENCH = [
    {"id": "Novel-a", "source": "Novel-1", "question": "Who rows?", "answer": "Sim", "question_type": "Fact Retrieval"}
]
DOMAIN = [
    {"_id": f"d{n}", "input": f"Question {n}?", "answers": ["Yes"], "context": text, "meta": {"title": title}}
    for n, (title, text) in enumerate([("Bees", "On bees."), ("Hives", "On hives."), ("Bees", "On bees.")])
]
PRESS = {
    "altids": {"itemid": "0a1"},
    "headline": "Boats sink",
    "firstcreated": "2023-11-21T18:58:15Z",
    "body_nitf": '<p>Nine <a href="https://a">boats</a> sank.</p><hl2>Later</hl2><p>None &amp; more.</p>',
}
QUOTE = {"source_id": "7", "text": "headline: Boats sink\nfirstcreated: 2023-11-21T18:58:15Z\n Nine boats sank."}
ASSERTED = [
    {"question_id": "q1", "question_text": "How many?", "assertions": [{"statement": "Nine.", "rank": 1}]}
    | {"claims": [{"statement": "Nine boats sank.", "sources": [QUOTE, QUOTE]}]}
]
LINKED = [{"question_id": "q2", "question_text": "Before?", "assertions": [{"statement": "Yes."}], "claims": []}]
GLOBAL = [{"question_id": "q3", "question_text": "What trends?", "assertions": [{"statement": "Few."}], "claims": []}]
TURTLE = """
@prefix kgc: <http://kgc.knowledge-graph.jp/ontology/kgc.owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
<http://kgc.knowledge-graph.jp/data/STORY/10> a kgc:Scene ; kgc:source "彼は歩く"@ja , "He walks"@en .
<http://kgc.knowledge-graph.jp/data/STORY/9> a kgc:Situation , kgc:Scene ;
    kgc:source "彼女は待つ"@ja ; rdfs:label "9"@en ;
    kgc:subject <http://kgc.knowledge-graph.jp/data/STORY/Helen> ; kgc:time "1883-04-01" .
<http://kgc.knowledge-graph.jp/data/STORY/9> kgc:subject <http://kgc.knowledge-graph.jp/data/STORY/Helen> .
<http://kgc.knowledge-graph.jp/data/STORY/Helen> a kgc:Person .
"""
CORPUS = '{"_id": "p1", "title": "", "text": "Pay the bank."}\n{"_id": "p2", "title": "Tax", "text": "Ask."}\n'
QUERIES = '{"_id": "1", "text": "Whom do I pay?"}\n{"_id": "2", "text": "Whom do I ask?"}\n'
QRELS = "query-id\tcorpus-id\tscore\n"
PLACES = json.dumps([{"content": "Nine sank.", "start_index": 0, "end_index": 10}]).replace('"', '""')
TABLE = f'question,references,corpus_id\nHow many?,"{PLACES}",finance\nWho?,"[]",pubmed\n'
MADE: Mapping[str, Mapping[str, Any]] = {
    "musique": {"musique.json": MUSIQUE, "musique_corpus.json": PASSAGES},
    "hotpot": {
        "hotpotqa.json": WIKIPEDIA,
        "hotpotqa_corpus.json": {row["title"]: [row["text"]] for row in PASSAGES},
    },
    "2wiki": {"2wikimultihopqa.json": [WIKIPEDIA[0] | TRIPLES], "2wikimultihopqa_corpus.json": PASSAGES},
    "multihop-rag": {"MultiHopRAG.json": NEWS, "corpus.json": ARTICLES},
    "ultradomain cs": {"cs.jsonl": "".join(json.dumps(row) + "\n" for row in DOMAIN)},
    "podcasts": {"Kevin Scott Questions.csv": "\ufeffquestion_text,question_id\nWhat are the themes?,1\n"},
    "graphrag-bench novel": {"Corpus/novel.json": [BOOK], "Questions/novel_questions.json": BENCH},
    "graphrag-bench medical": {"medical.json": BOOK, "medical_questions.json": BENCH},
    "ap-news": {
        "raw_data/2023/11/0a1.json": PRESS,
        "data_local_questions_assertions.json": ASSERTED,
        "data_linked_questions_assertions.json": LINKED,
        "data_global_questions_assertions.json": GLOBAL,
    },
    "jsquad": {"valid-v1.3.json": SQUAD},
    "drcd": {"DRCD_dev.json": SQUAD | {"version": "1.3"}},
    "fiqa": {
        "corpus.jsonl": CORPUS,
        "queries.jsonl": QUERIES,
        "qrels/train.tsv": f"{QRELS}1\tp1\t1\n",
        "qrels/dev.tsv": QRELS,
        "qrels/test.tsv": f"{QRELS}2\tp2\t1\n2\tp1\t0\n",
    },
    "holmes": {name: TURTLE.replace("STORY", name[:-4]) for name in ("DancingMen.ttl", "SpeckledBand.ttl")},
    "chunking finance": {"finance.md": "Nine sank.\r\nMore.", "questions_df.csv": TABLE},
    "openie": {
        "openie_musique_train_results_ner_gpt-3.5-turbo-1106_1890.json": {
            "docs": [PASSAGES[0] | {"extracted_entities": ["Tern"], "extracted_triples": [["Tern", "is", "trawler"]]}]
        }
    },
}


def write_files(folder: Path, files: Mapping[str, Any]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8", newline="")
    return folder
