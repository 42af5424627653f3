"""an index -> lists, outlines, comparisons, rows and topics, each with true citations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.core.answer import Answer
from kumihimo.generation.quoting import table_rows, topics
from kumihimo.generation.quoting.tables import read_tables
from kumihimo.generation.quoting.topic_phrases import TopicPhrase, collect_phrases
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.testing.fake_models import FakeChat
from tests.fixtures_index import fill

FILES = {
    "minutes.md": """# Harbour court

## Minutes of the third meeting
The court met on the slip. Mr Piers Ambrey read the letter of the Coastal Works Office.

## The gap
Mrs Hild Garrow said that hemp rope holds better than steel rope in the cold.

## Other business
The meeting closed at ten past four.
""",
    "guide.md": """# Guide to the island

## The ferry
The ferry carries 48 passengers. Steel rope is used on the ferry only.

## The seed library
The seed library lends seed to Mrs Hild Garrow and to all others. It stands above the slip.
""",
    "log.md": "# Log\n\nThe ferry was late. The keeper wrote to the Coastal Works Office about the seed library.\n",
    "visitors.csv": 'Month,Visitors,Cost (crowns)\nJanuary 2023,"1,204",30\nFebruary 2023,950,-12\nMarch 2024,1310,8\n',
    "来館者.csv": "月,来館者数,費用\n一月,１２０,30円\n二月,95,45円\n三月,310,28円\n",
    "tsushin.md": "# 潮だより\n\n組紐の工房は十月に開きます。田中さんは組紐を三十本送りました。\n",
}


@pytest.fixture(scope="module")
def kumi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kumihimo]:
    root = fill(tmp_path_factory.mktemp("harbour"), FILES)
    with Kumihimo.open(root / ".kumi") as kumi:
        kumi.index(root)
        yield kumi


def ask(kumi: Kumihimo, question: str) -> Answer:
    """Return an answer whose citations are true and numbered."""
    answer = kumi.ask(question)
    with kumi.snapshot() as snapshot:
        texts = {document.uri: document.text for document in snapshot.table("documents")}
    for citation in answer.citations:
        span = citation.span
        assert texts[span.uri][span.start : span.end] == span.text
        assert f"[{citation.n}]" in answer.marked().text
    return answer


def files(answer: Answer) -> list[str]:
    return [citation.span.uri.rpartition("/")[2] for citation in answer.citations]


def test_documents_are_listed(kumi: Kumihimo) -> None:
    answer = ask(kumi, "どのような文書がありますか")
    assert answer.text.startswith("文書 6件（ファイル 6件）：")
    assert len(answer.citations) == 6


def test_documents_that_mention_a_subject_are_counted(kumi: Kumihimo) -> None:
    answer = ask(kumi, "Which documents mention the seed library?")
    assert answer.text.startswith("2 of 6 documents")
    assert sorted(files(answer)) == ["guide.md", "log.md"]
    assert files(ask(kumi, "組紐に触れている文書は？")) == ["tsushin.md"]


MINUTES = {
    "minutes/2024-05-02.md": "# Harbour meeting\n\n## Ropes\n\nHemp rope holds better than steel.\n",
    "minutes/2024-09-12.md": "# Harbour meeting\n\n## Ferry\n\nThe ferry needs a new rope.\n",
    "minutes/2023-11-20.md": "# Harbour meeting\n\n## Seed\n\nThe seed library may use the loft.\n",
    "culture.md": "---\nauthor: Ann Lee\ndate: 2024-05-30\n---\n# Free tides: a history\n\nAll tides were free then.\n",
    "brief.md": "---\nauthor: Karl Ohm\n---\n# Brief\n\nDas Seil ist neu und wir haben es nicht mehr am alten Kai.\n",
}


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kumihimo]:
    root = fill(tmp_path_factory.mktemp("dated"), MINUTES)
    with Kumihimo.open(root / ".kumi") as kumi:
        kumi.index(root, methods=["bm25"])
        yield kumi


@pytest.mark.parametrize(
    ("question", "first", "cited"),
    [
        ("一番古い文書は？", "5件の文書のうち1件（最古：2023-11-20）：", "2023-11-20"),
        ("How many files are from September 2024?", "1 of 5 documents (date: 2024-09):", "2024-09-12"),
        ("2024年5月的文件有几个？", "5份文档中的2份（日期：2024-05）：", "2024-05-02 culture"),
        ("Who wrote Free Tides?", "1 of 5 documents (title: Free Tides):", "culture"),
        ("What did Ann Lee write?", "1 of 5 documents (author: Ann Lee):", "culture"),
        ("Which files are in German?", "1 of 5 documents (language: German):", "brief"),
        ("How many files mention a new rope?", "1 of 5 documents (text: a new rope):", "2024-09-12"),
    ],
)
def test_documents_are_selected_by_what_the_question_says(
    dated: Kumihimo, question: str, first: str, cited: str
) -> None:
    answer = ask(dated, question)
    assert answer.text.splitlines()[0] == first
    assert all(name in " ".join(files(answer)) for name in cited.split())
    assert len(set(files(answer))) == len(cited.split())


@pytest.mark.parametrize(
    ("question", "first", "cited"),
    [
        ("How many knots are there?", "2 of 5 documents (folder: knots):", 2),
        ("Which knots are from 2023?", "1 of 5 documents (folder: knots, date: 2023):", 1),
        ("What is the newest knot?", "1 of 5 documents (folder: knot, newest: 2024):", 1),
        ("Which knots mention hemp?", "1 of 5 documents (text: hemp, folder: knots):", 1),
        ("saiフォルダの文書を一覧にして", "5件の文書のうち1件（フォルダー：sai）：", 1),
        ("sai里有几个文件？", "5份文档中的1份（文件夹：sai）：", 1),
        ("What is in the knots folder?", "2 documents", 2),
        ("List the documents of 2022", "1 of 5 documents (date: 2022):", 1),
    ],
)
def test_the_name_of_a_folder_stands_for_its_documents(tmp_path: Path, question: str, first: str, cited: int) -> None:
    page = "---\ndate: {0}\n---\n# The {1}\n\nThe {1} holds a {2} rope in the wind.\n"
    found = {
        "knots/a.md": page.format(2023, "bowline", "hemp"),
        "knots/b.md": page.format(2024, "hitch", "steel"),
        "sai/c.md": "# 祭\n\n秋に祭がある。\n",
        "knots.md": page.format(2021, "loft", "thin"),
        "tide/2022.csv": "Month,Height\nMay,4\n",
    }
    with Kumihimo.open(fill(tmp_path, found) / ".kumi") as kumi:
        kumi.index(tmp_path, methods=["bm25"])
        answer = ask(kumi, question)
    assert answer.text.startswith(first)
    assert len(set(files(answer))) == cited


def test_a_word_that_names_no_folder_is_searched(kumi: Kumihimo) -> None:
    assert ask(kumi, "How many knots are there?").approach == "passages"


def test_the_documents_without_a_date_are_counted(dated: Kumihimo) -> None:
    assert "(Without a date: 1.)" in ask(dated, "Which documents are from 2024?").text


@pytest.mark.parametrize(
    "question",
    [
        "How many letters are there?",  # none is named so
        "How many articles were published in 2024?",
        "Who wrote the minutes?",
        "What did the harbour master write?",
        "How many files are from 1999?",
        "How many meetings were held in 2024?",  # not each may be called so
        "What was discussed in the most recent meeting?",
    ],
)
def test_what_is_not_certain_is_not_selected(dated: Kumihimo, question: str) -> None:
    assert ask(dated, question).approach == "passages"


def test_no_document_is_the_newest_if_many_have_no_date(kumi: Kumihimo) -> None:
    assert ask(kumi, "What is the newest document?").approach == "passages"


def test_what_no_document_mentions_is_not_listed(kumi: Kumihimo) -> None:
    assert ask(kumi, "Which documents mention zeppelins?").status != "answered"


def test_a_document_is_outlined_by_its_headings(kumi: Kumihimo) -> None:
    for question in ("Summarise the minutes", "What is in the minutes of the third meeting?"):
        answer = ask(kumi, question)
        assert set(files(answer)) == {"minutes.md"}
        title, outline = answer.text.split("\n\n")
        assert title == "Harbour court"
        headings = [line.split(":")[0] for line in outline.splitlines()]
        assert headings == ["- Minutes of the third meeting", "- The gap", "- Other business"]


PAGES = {
    "TSC-Charter.md": "# Committee charter\n\n## Rules\nThe committee decides by a vote.\n",
    "ONBOARDING.md": "# Onboarding\n\n## Steps\nSummarise the charter of the TSC in md for every new member.\n",
    "admin/setup.md": "# Setting up a server\n\nThe server needs two disks and a name of its own.\n",
    "dev/setup.md": "# Setting up a desk\n\nThe desk needs a chair and a lamp of its own.\n",
    "admin/backups.md": """# Backups

A server without backups is a server that will be lost.

## Overview
Things to back up in order of importance:

* the **database**
* the [secrets](secrets.md)

## Links
* Recording: <https://example.org/watch>

## Restore
```
# Not a heading
kumi restore
```

Stop the server before the database is restored.
""",
    "meetings/2023-10-18.md": "# Meeting\n\n## Announcements\n* Version 21 came out\n",
    "meetings/2018-05-16.md": "# Meeting\n\n## Announcements\n* Michael was elected as chair\n",
    "tale.txt": "It rained.\n\n" + "\n\n".join(f"On day {n} they sailed further to the north." for n in range(40)),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kumihimo]:
    root = fill(tmp_path_factory.mktemp("pages"), PAGES)
    with Kumihimo.open(root / ".kumi") as kumi:
        kumi.index(root)
        yield kumi


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Summarise TSC-Charter.md", "TSC-Charter.md"),
        ("What does admin/setup.md cover?", "setup.md"),
        ("What is on the page about setting up a desk?", "setup.md"),
        ("What was in the minutes of 18 October 2023?", "2023-10-18.md"),
        ("dev/setup.md を要約してください", "setup.md"),
        ("总结一下 admin/backups.md 的内容", "backups.md"),
    ],
)
def test_a_document_is_named_by_path_title_or_day(pages: Kumihimo, question: str, name: str) -> None:
    answer = ask(pages, question)
    assert (answer.status, set(files(answer))) == ("answered", {name})
    assert answer.approach in ("outline", "documents")


def test_nothing_is_outlined_if_several_documents_may_be_meant(pages: Kumihimo) -> None:
    answer = ask(pages, "Summarise setup.md")
    assert answer.status == "closest"
    assert answer.text.startswith("Several documents may be meant by “setup.md”.")
    assert files(answer) == ["setup.md", "setup.md"]


def test_a_file_that_does_not_exist_is_not_outlined(pages: Kumihimo) -> None:
    answer = ask(pages, "Summarise Committee-Charter.md")
    assert (answer.approach, answer.status) == ("passages", "closest")


def test_an_outline_has_the_items_of_lists_and_no_code_or_links(pages: Kumihimo) -> None:
    assert ask(pages, "Summarise admin/backups.md").text.split("\n\n")[1].splitlines() == [
        "- A server without backups is a server that will be lost.",
        "- Overview: Things to back up in order of importance: the database; the secrets.",
        "- Restore: Stop the server before the database is restored.",
    ]


def test_an_outline_without_headings_has_twelve_sentences_of_the_whole(pages: Kumihimo) -> None:
    lines = ask(pages, "Summarise tale.txt").text.split("\n\n")[1].splitlines()
    assert len(lines) == 12
    assert "day 36" in lines[-1]


def test_two_subjects_are_compared_by_the_passages_that_say_most_about_each(kumi: Kumihimo) -> None:
    text = ask(kumi, "Compare the ferry and the seed library").text
    assert "48 passengers" in text
    assert "lends seed" in text


@pytest.mark.parametrize(
    ("question", "value", "row"),
    [
        ("Which month had the most visitors?", ": 1,310", "March 2024"),
        ("What was the lowest cost in crowns?", ": -12", "February 2023"),
        ("What is the total of the visitors in 2023?", ": 2,154", "January 2023"),
        ("What is the average number of visitors per month?", ": 1,154.67", "January 2023"),
        ("来館者数が最も多い月は？", "：310", "三月"),
        ("費用の合計はいくらですか", "：103 円", "一月"),
    ],
)
def test_rows_of_a_table_are_compared(kumi: Kumihimo, question: str, value: str, row: str) -> None:
    answer = ask(kumi, question)
    assert answer.text.splitlines()[0].endswith(value)
    assert row in answer.citations[0].span.text


@pytest.mark.parametrize("question", ["What was the highest wave?", "What was the total of the visitors in 1999?"])
def test_an_unclear_column_or_year_is_not_compared(kumi: Kumihimo, question: str) -> None:
    assert "rows with a number" not in ask(kumi, question).text


@pytest.mark.parametrize(
    ("question", "first_line"),
    [
        ("7月の乗客数の合計は？", "「乗客数」の合計（数値のある2行、表は全4行、月 = 7月）：70"),
        ("北線の乗客数の合計は？", "「乗客数」の合計（数値のある2行、表は全4行、路線 = 北線）：90"),
        ("7月に乗客数が最も多い路線は？", "「乗客数」の最も高い値（数値のある2行、表は全4行、月 = 7月）：40"),
        ("9月の乗客数の合計は？", ""),
    ],
)
def test_only_the_rows_that_a_question_names_count(tmp_path: Path, question: str, first_line: str) -> None:
    rows = "月,路線,乗客数\n7月,北線,40\n7月,南線,30\n8月,北線,50\n8月,南線,20\n"
    root = fill(tmp_path, {"乗客.csv": rows})
    with Kumihimo.open(root / ".kumi") as kumi:
        kumi.index(root)
        text = ask(kumi, question).text
    assert text.startswith(first_line) if first_line else "合計（" not in text


@pytest.mark.parametrize(
    ("question", "approach", "kinds"),
    [
        ("What documents are there?", "documents", ["sentence", "list"]),
        ("Which documents mention the seed library?", "documents", ["sentence", "list"]),
        ("Summarise the minutes", "outline", ["note", "list"]),
        ("Compare the ferry and the seed library", "compare", ["passage", "passage"]),
        ("Which month had the most visitors?", "highest", ["sentence", "table"]),
        ("Who wrote to the Coastal Works Office?", "passages", ["passage"]),
    ],
)
def test_an_answer_says_how_it_was_made_and_of_which_parts(
    kumi: Kumihimo, question: str, approach: str, kinds: list[str]
) -> None:
    answer = ask(kumi, question)
    assert (answer.approach, [part.kind for part in answer.parts][: len(kinds)]) == (approach, kinds)


# -- with a model


class Writer(ModelRegistry):
    """A chat model that writes answers, and its prompts."""

    prompts: list[str]
    reply = "So it is [1][2]."

    def chat(self, scope: str) -> Chat | None:
        return FakeChat(self.write) if scope in ("answer", "wide") else None

    def write(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self.reply


@contextmanager
def writing(kumi: Kumihimo, tmp_path: Path, reply: str = Writer.reply, **settings: Any) -> Iterator[Writer]:
    """Give the index a model."""
    with Kumihimo(kumi.folder, {"answer": settings}, cache=tmp_path / "cache.db") as own:
        own.models = writer = Writer(own.models.settings, own.models.cache)
        writer.prompts, writer.reply, writer.kumi = [], reply, own  # type: ignore[attr-defined]
        yield writer


@pytest.mark.parametrize(
    ("index", "question", "approach", "held", "missing"),
    [
        ("kumi", "Which documents mention the seed library?", "documents", ["2 of 6 documents", "- Log (1 pa"], []),
        ("kumi", "組紐に触れている文書は？", "documents", ["6件の文書のうち1件", "田中さんは"], ["ferry"]),
        ("dated", "How many files are from 2024?", "documents", ["3 of 5 documents", "2024-05-02.md"], []),
        ("dated", "What did Ann Lee write?", "documents", ["1 of 5 documents", "All tides were"], ["Hemp"]),
        (
            "dated",
            "What was discussed in the file of September 2024?",
            "documents",
            ["needs a new rope"],
            ["Hemp", "loft"],
        ),
        ("pages", "Summarise admin/backups.md", "outline", ["Stop the server before"], ["chairs the committee"]),
        ("pages", "Give me an overview of admin/backups.md", "outline", ["Stop the server before"], []),
        ("pages", "What is in setup.md?", "outline", ["Several documents may be meant", "two disks"], []),
        ("lists", "What is the total salary of the librarians?", "total", ["Role = Librarian): 65,100", "Pavla"], []),
        ("lists", "各区面积一共是多少平方公里？", "total", ["287"], []),
        ("kumi", "Who wrote to the Coastal Works Office?", "model", ["The keeper wrote"], ["(result)"]),
    ],
)
def test_a_model_reads_what_rules_find(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    index: str,
    question: str,
    approach: str,
    held: list[str],
    missing: list[str],
) -> None:
    with writing(request.getfixturevalue(index), tmp_path) as writer:
        answer = ask(writer.kumi, question)  # type: ignore[attr-defined]
        (prompt,) = writer.prompts
    assert (answer.approach, answer.method != "wide", answer.usage.calls) == (approach, True, 1)
    assert all(text in prompt for text in held)
    assert not any(text in prompt for text in missing)
    assert ("<source 1 (result" in prompt or "(result)" in prompt) == (approach != "model")


def test_each_document_of_a_list_can_be_cited(kumi: Kumihimo, tmp_path: Path) -> None:
    with writing(kumi, tmp_path) as writer:
        first = ask(writer.kumi, "Which documents mention the seed library?")  # type: ignore[attr-defined]
        numbers = {n: line for line in writer.prompts[0].split("<source ") if (n := line[:1]).isdigit()}
        (guide,) = (n for n, text in numbers.items() if "- Guide" in text)
        writer.reply = f"The guide does [{guide}]."
        answer = ask(writer.kumi, "Which documents mention the seed library ?")  # type: ignore[attr-defined]
    assert first.approach == answer.approach == "documents"
    assert files(answer) == ["guide.md"]


def test_a_long_document_is_read_in_stretches(tmp_path: Path) -> None:
    days = [f"On day {n} they sailed further to the north, and the ice was {n} fathoms thick." for n in range(400)]
    root = fill(tmp_path / "long", {"tale.txt": " ".join(days), "other.txt": "The desk needs a chair."})
    with Kumihimo.open(root / ".kumi") as kumi:
        kumi.index(root)
        with writing(kumi, tmp_path, budget=4000) as writer:
            ask(writer.kumi, "Summarise tale.txt")  # type: ignore[attr-defined]
            read = [n for n in range(400) if f"On day {n} " in writer.prompts[0].partition("(result")[0]]
    assert 100 < len(read) < 200
    assert [sum(n // 100 == part for n in read) > 20 for part in range(4)] == [True] * 4
    assert "(result" in writer.prompts[0]


def test_rules_answer_where_a_model_does_nothing_but_search(kumi: Kumihimo, tmp_path: Path) -> None:
    with writing(kumi, tmp_path, "SEARCH: What is there?") as writer:
        answer = ask(writer.kumi, "Which documents mention the seed library?")  # type: ignore[attr-defined]
    assert (answer.model, answer.approach, sorted(files(answer))) == ("", "documents", ["guide.md", "log.md"])


def test_a_method_that_is_named_reads_no_results(kumi: Kumihimo, tmp_path: Path) -> None:
    with writing(kumi, tmp_path) as writer:
        answer = writer.kumi.ask("Which documents mention the seed library?", "bm25")  # type: ignore[attr-defined]
        assert "(result)" not in writer.prompts[0]
    assert answer.approach == "model"


def test_a_follow_up_says_what_it_is_about(kumi: Kumihimo) -> None:
    before = kumi.ask("Who is Hild Garrow?")
    answer = kumi.ask("What did she say?", history=[before])
    assert (answer.parts[0].kind, answer.parts[0].text) == ("note", "(about Hild Garrow)")
    assert answer.text.startswith("(about Hild Garrow)\n\n")
    assert "hemp rope" in answer.text


def test_a_follow_up_looks_first_into_the_documents_of_the_last_answer(pages: Kumihimo) -> None:
    before = pages.ask("Who was elected as chair in the meeting?")
    assert files(before)[0] == "2018-05-16.md"
    answer = pages.ask("And what was announced there?", history=[before])
    assert answer.parts[0].text == "(about elected as chair in the meeting)"
    assert answer.context.evidence[0].uri.endswith("2018-05-16.md")


MARKETS = {
    "märkte.csv": "Ort;Umsatz;Kosten\nNord;1.250 €;980,50 €\nSüd;2.500 €;1.020,00 €\nWest;3.000 €;12,30 €\n",
    "alone.csv": "Ort;Betrag;Länge\nNord;1.250;12 m\nSüd;2.500;80 cm\nWest;3.000;3 m\n",
    "mixed.csv": "Lager;Bestand;Gewicht\nNord;1.250,50;9\nSüd;1,250.50;10–20\nWest;30;11\nOst;31;7\nMitte;4;8\n",
    "利益.csv": "店,利益,濃度\n東店,12万円,0.004\n西店,△9500円,0.25\n北店,1億円,0.5\n",
}


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("What is the total of the Umsatz?", ": 6,750 €"),
        ("What is the average of the Kosten?", ": 670.93 €"),
        ("What is the total of the Betrag?", ": not computed, because “1.250” may be 1,250 or 1.25."),
        ("What is the highest Betrag?", ": not computed, because “1.250” may be 1,250 or 1.25."),
        ("What is the total of the Länge?", ": not computed, because the cells have several units (m, cm)."),
        ("What is the total of the Bestand?", "“1,250.50” and “1.250,50” do not use decimal marks alike."),
        ("What is the average of the Gewicht?", "it is not clear which number “10–20” is."),
        ("利益の合計はいくらですか", "：100,110,500 円"),
        ("利益が最も低い店は？", "：-9,500 円"),
        ("濃度が最も低い店は？", "：0.004"),
    ],
)
def test_numbers_are_read_as_their_country_writes_them(tmp_path: Path, question: str, value: str) -> None:
    root = fill(tmp_path, MARKETS)
    with Kumihimo.open(root / ".kumi") as kumi:
        kumi.index(root, methods=["bm25"])
        assert kumi.ask(question, method="bm25").text.splitlines()[0].endswith(value)


def test_rows_that_sum_up_others_are_known() -> None:
    [table] = read_tables("| boat | crew |\n|---|---|\n| Ebb | 4 |\n| Tide | 12 |\n| **Total** | 16 |")
    assert [(row.cells["boat"], row.sums_up) for row in table.rows] == [
        ("Ebb", False),
        ("Tide", False),
        ("Total", True),
    ]
    [table] = read_tables(
        "| | city | score | note |\n|---|---|---|---|\n| 5 | Otaru | 84 | a mean, no median |\n| | Sum | 84 | |"
    )
    assert [row.sums_up for row in table.rows] == [False, True]


def test_cells_of_an_uncertain_column_are_no_table() -> None:
    assert not read_tables("Branch | Opened Volumes\nAshby | 1974 | 820\nElsing | 1961 | 410")
    sheets = "month: May; Ashby: 4\nmonth: June; Ashby: 7\nbranch: Ashby; seats: 40\nbranch: Elsing; seats: 12"
    assert [len(table.rows) for table in read_tables(sheets)] == [2, 2]


STAFF = """Name,Branch,Role,Hired,Salary (GBP),Shelf
Ines Falk,Quayside,Librarian,2011-04-04,"31,200",A
Tom Orrick,Quayside,Porter,2019-09-02,"22,450",B
Pavla Reyes,Hilltop,Librarian,2008-01-14,"33,900",B
Oona Sill,Hilltop,Senior porter,2014-03-01,"29,750",A
"""
LOANS = """月,本館,東分館
4月,21840,6312
5月,22615,6588
6月,28911,640
合計,73366,13540
"""
LESSONS = """講座名,講師,曜日,定員,受講料,登録年月日
陶芸入門,堀川忍,火,12名,"4,500円",平成28年5月12日
水彩画,三枝悠,木,20名,"3,000円",令和元年9月3日
太極拳,林小梅,日,25名,"2,000円",令和4年4月20日
"""
REGIONS = """# 江州市各区人口

| 区 | 常住人口（万人） | 面积（平方公里） | 设立年份 |
|---|---|---|---|
| 东湖区 | 84.6 | 92 | 1984 |
| 临江区 | 61.3 | 118 | 1952 |
| 石桥区 | 47.2 | 77 | 1996 |
| 合计 | 193.1 | 287 | |
"""


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kumihimo]:
    files = {"staff.csv": STAFF, "貸出冊数.csv": LOANS, "講座一覧.csv": LESSONS, "各区人口.md": REGIONS}
    root = fill(tmp_path_factory.mktemp("lists"), files)
    with Kumihimo.open(root / ".kumi") as kumi:
        kumi.index(root)
        yield kumi


@pytest.mark.parametrize(
    ("question", "first_line", "rows"),
    [
        ("Which staff were hired before 2015?", "3 of 4 rows, Hired < 2015:", ["Ines", "Pavla", "Oona"]),
        ("How many staff work at the Quayside branch?", "2 of 4 rows, Branch = Quayside:", ["Ines", "Tom"]),
        ("Whose salary is over 31,000?", "2 of 4 rows, Salary (GBP) > 31,000:", ["Ines", "Pavla"]),
        ("How many staff are on shelf A?", "2 of 4 rows, Shelf = A:", ["Ines", "Oona"]),
        (
            "What is the total salary of the librarians?",
            "(the table has 4, Role = Librarian): 65,100",
            ["Ines", "Pavla"],
        ),
        ("本館の貸出冊数がいちばん多かった月はいつですか。", "（数値のある3行、表は全3行）：28,911", ["6月"]),
        ("東分館の貸出冊数が1000冊未満の月は？", "全3行のうち1行、東分館 < 1000 冊：", ["6月"]),
        ("火曜日の講座はどれですか。", "全3行のうち1行、曜日 = 火：", ["陶芸入門"]),
        ("2018年以降に登録した講座はいくつありますか", "全3行のうち2行、登録年月日 ≥ 2018：", ["水彩画", "太極拳"]),
        ("1990年以前设立的区有哪些？", "全表3行中的2行、设立年份 < 1990：", ["东湖区", "临江区"]),
        ("常住人口超过50万人的区有几个？", "全表3行中的2行、常住人口（万人） > 50 万人：", ["东湖区", "临江区"]),
        ("各区面积一共是多少平方公里？", "（有数值的3行，全表3行）：287", ["东湖区", "临江区", "石桥区"]),
    ],
)
def test_the_rows_that_meet_a_condition_answer(
    lists: Kumihimo, question: str, first_line: str, rows: list[str]
) -> None:
    answer = ask(lists, question)
    assert answer.text.splitlines()[0].endswith(first_line)
    assert all(row in citation.span.text for row, citation in zip(rows, answer.citations, strict=True))


@pytest.mark.parametrize(
    "question",
    [
        "Who has the highest pension?",  # no such column
        "What was the total salary in 2019?",  # the year of another column
        "How many staff work at Riverside?",  # no such cell
        "How many porters are there?",  # one is a senior porter
        "Which staff do not work at Hilltop?",
        "Who has the second highest salary?",
        "How many branches are there?",  # several rows of a branch
        "How many names are there?",  # the table need not list all
        "How many staff are on a shelf?",  # not shelf A
        "貸出冊数の合計は？",  # of which branch
        "2016年以前に登録した講座はどれですか",  # whether 2016 counts
        "常住人口超过50人的区有几个？",  # not the unit of the column
        "临江区的户数一共是多少？",
    ],
)
def test_a_question_with_a_word_in_doubt_is_not_computed(lists: Kumihimo, question: str) -> None:
    assert ask(lists, question).approach == "passages"


def test_phrases_are_nouns_and_no_speakers() -> None:
    texts = [f"ANNA BELL: The tide mill on quay {n} was mended. I really make sure of the tide mill." for n in range(4)]
    names = {phrase.name for phrase in collect_phrases(texts, ["Carl Dunn"])}
    assert "tide mill" in names
    assert not {"make sure", "ANNA BELL", "Bell", "mended"} & names


@pytest.mark.parametrize("text", ["", "harbour", "the harbour", "an old harbour wall"])
def test_a_short_text_alone_has_no_topics(text: str) -> None:
    assert collect_phrases([text]) == []


def test_texts_in_japanese_have_no_topics() -> None:
    assert not collect_phrases([f"令和{n}年の議事録に、夜間開館の費用が載る。" for n in range(4)])


def test_topics_are_named_with_their_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [
        "They still grind all the oats at the tide mill on the quay.",
        "They lend seed without a fee at the seed library in winter.",
    ]
    parts.append("We all took the mail ferry to the mainland in May and June.")
    said = "{} All this was written down by the keeper in book {} of the house."
    written = {f"{n}.md": said.format(parts[n % 3], n) for n in range(24)}
    root = fill(tmp_path, written)
    with Kumihimo.open(root / ".kumi") as kumi:
        kumi.index(root)
        text = ask(kumi, "What are the main themes?").text
    with Kumihimo.open(root / ".kumi") as kumi:
        monkeypatch.setattr(topics, "_MAX_READ_TEXTS", 23)
        assert ask(kumi, "What are the main themes?").text.endswith("\n(Counted in a sample: 12 of 24 passages.)")
    assert text.startswith("24 documents · English 24\n\nFrequent topics:\n\n1. mail ferry — 8 documents\n")
    for name in ("tide mill", "seed library", "mail ferry"):
        assert f"{name} — 8 documents" in text


def test_texts_are_read_for_topics_once_per_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def collect(texts: Sequence[str], left_out: Iterable[str]) -> list[TopicPhrase]:
        read.append(len(texts))
        return collect_phrases(texts, left_out)

    monkeypatch.setattr(topics, "collect_phrases", collect)
    written = {f"{part}/{n}.md": f"The {part} tide mill has book {n} of the mill." for n in range(3) for part in "ab"}
    root = fill(tmp_path, written)
    with Kumihimo.open(root / ".kumi") as kumi:
        kumi.index(root)
        for question in ("What are the main themes?", "Give me an overview.", "What is in the folder a?"):
            assert ask(kumi, question).approach == "themes"
        assert read == [6]
        (root / "a/0.md").unlink()
        kumi.index(root)
        assert "5 documents" in ask(kumi, "What are the main themes?").text
        assert kumi.ask("What are the main themes?", rights='uri contains "/a/"').text.startswith("2 documents")
        assert read == [6, 5, 2]


@pytest.mark.parametrize(
    ("question", "first", "cited"),
    [
        ("What is this folder about?", "8 documents · texts 6, tables 2", 8),
        ("このフォルダには何が書いてありますか", "8件の文書", 8),
        ("这些文件主要讲什么？", "8份文档", 8),
        ("What is in the folder admin?", "2 documents · English 2", 2),
    ],
)
def test_a_small_mixed_folder_is_described_by_its_titles(tmp_path: Path, question: str, first: str, cited: int) -> None:
    folder = {
        f"admin/{n}.md": f"# {name}\n\nThe {name} has a lid and a key of iron.\n"
        for n, name in ((1, "Box"), (2, "Tin"))
    }
    with Kumihimo.open(fill(tmp_path, FILES | folder) / ".kumi") as kumi:
        kumi.index(tmp_path)
        answer = ask(kumi, question)
    assert answer.approach in ("themes", "outline")
    assert answer.text.startswith(first)
    assert len(set(files(answer))) == cited


def test_an_overview_names_folders_and_quotes_no_picture(tmp_path: Path) -> None:
    page = "# Part {0}\n\n![a plan](plan {0}.png)\n\nThis one holds the rope number {0} of the loft.\n"
    files = {f"part{n % 9}/{n}.md": page.format(n) for n in range(12)}
    with Kumihimo.open(fill(tmp_path, files) / ".kumi") as kumi:
        kumi.index(tmp_path)
        text = ask(kumi, "What is in this folder?").text
    assert "folders: part0 2, part1 2, part2 2, part3 1, part4 1, part5 1, part6 1, part7 1, …" in text
    assert "holds the rope number" in text
    assert "png" not in text


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("What are the main topics of 2024?", ["2024-05-02.md", "2024-09-12.md", "culture.md"]),
        ("What were the topics in May 2024?", ["2024-05-02.md", "culture.md"]),
        ("令和6年の主な話題は何ですか", ["2024-05-02.md", "2024-09-12.md", "culture.md"]),
    ],
)
def test_topics_of_a_time_are_those_of_its_documents(dated: Kumihimo, question: str, found: list[str]) -> None:
    assert sorted(files(ask(dated, question))) == found


TABLES = {
    "loans.md": """# Loans

| Lender | Seed | Grams lent | Members helped |
|---|---|---|---|
| Ada Holm | kale | 1,250 g | 12 |
| Bo Lind | oats | 80 g | 40 |
| Ada Holm | peas | 900 g | 7 |
| Cy Marsh | beet |  | 3 |
| Total | | 2,230 g | 62 |
""",
    "two.md": """# Boats

## Size

| Boat | Length (m) | Crew |
|---|---|---|
| Ebb | 12.5 m | 4 |
| Tide | 22 m | 9 |
| Gull | 8 m | 2 |

## Money

| Boat | Price | Crew wages |
|---|---|---|
| Ebb | £12,000 | £300 |
| Tide | £7,500 | £900 |
| Gull | £31,000 | £50 |
""",
    "merged.md": """# Harvest

| Field | 2022 | 2022 |
|---|---|---|
| Field | Kelp (t) | Oats (t) |
| North | 5 | 9 |
| South | 7 | 2 |
| West | 1 | 4 |
""",
    "施設.csv": """施設,利用者数,収入
図書館,１２０４人,"30,000円"
体育館,"2,310人",
公民館,980人,"8,000円"
合計,"4,494人","38,000円"
""",
    "门店.md": """# 门店

| 门店 | 销售额 |
|---|---|
| 东店 | 1,200元 |
| 西店 | 3,400元 |
| 北店 | 800元 |
| 总计 | 5,400元 |
""",
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kumihimo]:
    root = fill(tmp_path_factory.mktemp("tables"), TABLES)
    with Kumihimo.open(root / ".kumi") as kumi:
        kumi.index(root)
        yield kumi


@pytest.mark.parametrize(
    ("question", "value", "row"),
    [
        ("Which loan helped the most members?", ": 40", "Bo Lind"),  # not the row Total
        ("Which boat has the largest crew?", ": 9", "Tide"),
        ("Which boat is the longest?", ": 22 m", "Tide"),
        ("Which boat is the cheapest?", ": £7,500", "Tide"),
        ("利用者数が最も多い施設はどこですか", "：2,310 人", "体育館"),
        ("利用者数の合計は何人ですか", "：4,494 人", "図書館"),
        ("销售额最高的门店是哪家？", "：3,400 元", "西店"),
    ],
)
def test_the_row_of_a_certain_column_wins(tables: Kumihimo, question: str, value: str, row: str) -> None:
    answer = ask(tables, question)
    assert value in answer.text.splitlines()[0]
    assert row in answer.citations[0].span.text


def test_a_year_alone_names_no_column(tmp_path: Path) -> None:
    row = "| {} | {} | {} |\n"
    table = "".join(row.format(*cells) for cells in (("Store", 2012, 2011), ("--", "--", "--"), *[("A", 3, 4)] * 3))
    root = fill(tmp_path, {"stores.md": f"# Stores\n\n{table}"})
    with Kumihimo.open(root / ".kumi") as kumi:
        kumi.index(root)
        assert "rows with a number" not in ask(kumi, "What was the total of the stores in 2012?").text


@pytest.mark.parametrize(
    "question",
    [
        "Who lent the most?",
        "Which lender had the most grams lent?",
        "Which field had the most kelp?",
        "Which boat is best?",
    ],
)
def test_an_uncertain_row_does_not_win(tables: Kumihimo, question: str) -> None:
    assert "rows with a number" not in ask(tables, question).text


def test_a_document_that_does_not_exist_is_not_outlined(kumi: Kumihimo) -> None:
    answer = ask(kumi, "Summarise the minutes of the harbour brass band")
    assert (answer.approach, answer.status) == ("passages", "closest")
    assert answer.text.startswith("No document mentions “brass”.")
    assert "minutes.md" in files(answer)


def test_documents_that_fit_equally_are_offered(tmp_path_factory: pytest.TempPathFactory) -> None:
    written = {f"{n}.md": f"# Budget report {n}\n\nThe budget of {n} was agreed in the hall.\n" for n in (2021, 2022)}
    root = fill(tmp_path_factory.mktemp("fit"), written)
    with Kumihimo.open(root / ".kumi") as kumi:
        kumi.index(root)
        answer = ask(kumi, "Summarise the budget report")
        assert answer.text.startswith("Several documents may be meant by “the budget report”.")
        assert sorted(files(answer)) == ["2021.md", "2022.md"]
        assert ask(kumi, "Summarise the budget report 2022").text.startswith("Budget report 2022")


def test_words_that_stand_apart_are_no_mention(kumi: Kumihimo) -> None:
    text = ask(kumi, "Which documents mention a court that holds steel in the cold?").text
    assert "documents mention" not in text


SHORT = {
    "蔵.md": "# 蔵の案内\n\n## 見学\n見学は平日の午前十時から受け付ける。\n\n## 今後\n検討中。\n",
    "手册.md": "# 学校手册\n\n## 作息\n早上八点上课，下午四点放学。\n\n## 计划\n明年扩建操场。\n",
    "wide.csv": "harbour,berths,remarks\n" + "".join(f"Quay {n},{n},{'long remark ' * 9}\n" for n in range(1, 5)),
}


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kumihimo]:
    root = fill(tmp_path_factory.mktemp("short"), SHORT)
    with Kumihimo.open(root / ".kumi") as kumi:
        kumi.index(root)
        yield kumi


@pytest.mark.parametrize(
    ("question", "lines"),
    [
        ("蔵の案内を要約してください", ["- 見学: 見学は平日の午前十時から受け付ける。", "- 今後: 検討中。"]),
        ("总结学校手册", ["- 作息: 早上八点上课，下午四点放学。", "- 计划: 明年扩建操场。"]),
    ],
)
def test_a_section_of_a_few_words_is_in_the_outline(short: Kumihimo, question: str, lines: list[str]) -> None:
    assert ask(short, question).parts[1].text.splitlines() == lines


def test_a_place_in_a_document_is_no_name_of_it(kumi: Kumihimo) -> None:
    assert ask(kumi, "What is on the slip?").approach == "passages"


@pytest.mark.parametrize(
    ("question", "first", "cited"),
    [
        ("Which documents are from before May 2024?", "1 of 5 documents (date: < 2024-05):", "2023-11-20"),
        ("List the files since 2024", "3 of 5 documents (date: ≥ 2024):", "05-02 2024-09-12 culture"),
        ("2024年より前の文書はどれですか", "5件の文書のうち1件（日付：< 2024）：", "2023-11-20"),
        ("2024年之前的文件有哪些？", "5份文档中的1份（日期：< 2024）：", "2023-11-20"),
        ("How many files are from after May 2024?", "1 of 5 documents (date: > 2024-05):", "09-12"),
    ],
)
def test_documents_of_a_period_are_selected(dated: Kumihimo, question: str, first: str, cited: str) -> None:
    answer = ask(dated, question)
    assert answer.text.splitlines()[0] == first
    assert all(name in " ".join(files(answer)) for name in cited.split())
    assert len(set(files(answer))) == len(cited.split())


def test_a_period_that_may_hold_the_year_itself_is_not_selected(dated: Kumihimo) -> None:
    assert ask(dated, "2024年以前の文書はどれですか").approach == "passages"


def test_a_phrase_in_quotation_marks_stands_as_it_is(kumi: Kumihimo) -> None:
    assert files(ask(kumi, 'Which documents mention "Coastal Works"?')) == ["log.md", "minutes.md"]
    answer = ask(kumi, "Which documents mention “Works Coastal”?")
    assert answer.approach == "passages"
    assert "No document mentions “Works Coastal”." in answer.text


def test_rows_are_a_table_as_wide_as_a_terminal(short: Kumihimo, kumi: Kumihimo) -> None:
    assert ask(kumi, "Which month had the most visitors?").parts[1].text.splitlines() == [
        "| Month | Visitors | Cost (crowns) |",
        "| --- | --- | --- |",
        "| March 2024 | 1310 | 8 |",
    ]
    lines = ask(short, "Which harbour has the most berths?").parts[1].text.splitlines()
    assert lines == ["| harbour | berths | … |", "| --- | --- | --- |", "| Quay 4 | 4 | … |"]


def test_a_table_that_is_too_long_to_read_is_named(short: Kumihimo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rows, "_MAX_CHARS", 400)
    answer = ask(short, "Which harbour has the most berths?")
    assert answer.approach == "passages"
    assert answer.text.startswith("The rows of “wide” were not compared: it has more than 400 characters.")
