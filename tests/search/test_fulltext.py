"""table -> full-text index: BM25 by hand, changing rows, hostile questions."""

from __future__ import annotations

from math import log
from pathlib import Path

import pytest

from kumihimo.core.errors import IndexDamaged
from kumihimo.core.table import Table, codec
from kumihimo.llm.local_embedder import find_subwords
from kumihimo.search.fulltext import Bm25Search, KeywordIndex
from kumihimo.search.postings import Postings
from kumihimo.storage.database import SqlRows
from kumihimo.text.tokens import hash_token, tokenize
from tests.counters import check_linear, count_lines, stop_endless_work
from tests.search.factories_search_index import Note, Notes, keyword_notes
from tests.stores import NEEDS_FILES

# -- ranking


def close(hits: list[tuple[str, float]], expected: list[tuple[str, float]]) -> bool:
    return [(id, round(score, 9)) for id, score in hits] == [(id, round(score, 9)) for id, score in expected]


def test_scores_are_bm25(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path, {"a": "sea sea sky", "b": "sky sun moon star rain", "c": "fog", "d": "dew"})

    def bm25(frequency: int, length: int, rows: int) -> float:
        """Return the BM25 score: k1 = 1.2, b = .75, 4 rows with 10 words in total."""
        idf = log((4 - rows + 0.5) / (rows + 0.5))
        return idf * frequency * 2.2 / (frequency + 1.2 * (1 - 0.75 + 0.75 * length / (10 / 4)))

    a, b, c = bm25(2, 3, 1), bm25(1, 5, 1), bm25(1, 1, 1)
    assert close(index.search_notes("sea"), [("a", a)])
    assert close(index.search_notes("the sun and the fog"), [("c", c), ("b", b)])
    assert close(index.search_notes("sea fog moon moon"), [("c", c), ("a", a), ("b", b)])
    index.store.close()


@pytest.mark.parametrize("uses", [1, 3, 4, 5, 8, 9, 1000])
def test_a_word_counts_as_often_as_a_row_has_it(tmp_path: Path, uses: int) -> None:
    texts = {"a": "sea " * uses + "fog " * 4, "b": "sea sky", "c": "sky " * 9}
    index = keyword_notes(tmp_path, texts)
    with index.store.read_transaction() as db:
        [(slots, counts)] = Postings(db, "notes")._read_blocks(["sea"]).values()
        assert (slots.tolist(), counts.tolist()) == ([0, 1], [uses, 1])
        assert Postings(db, "notes").count_words("s", None) == {"sea": 2, "sky": 2}
    index.build({"b": texts["b"], "c": texts["c"]})
    assert index.ids("sea") == ["b"]
    index.store.close()


def test_rows_without_words_change_no_lengths_of_others(tmp_path: Path) -> None:
    texts = {"a": "sea " * 5, "b": "***", "c": "sea sky", "d": "!!!"}
    index = keyword_notes(tmp_path, texts)
    for left in ("abcd", "ac"):
        index.build({id: texts[id] for id in left})
        with index.store.read_transaction() as db:
            assert KeywordIndex(db, "notes", codec(Note)).find_damage() == ""
            assert Postings(db, "notes")._read_lengths().tolist() == [5, 1, 2, 1]
    index.store.close()


def test_each_row_is_checked_once(tmp_path: Path) -> None:
    texts = {f"n{i:04d}": "sea " * (1 + i % 50) + f"x{i}" for i in range(2000)}
    index = keyword_notes(tmp_path, texts)
    checked: list[str] = []

    def passes(id: str) -> bool:
        checked.append(id)
        return id in visible

    visible = {"n0003", "n0005"}
    with index.open_search(passes) as search:
        for _ in range(2):
            assert [[id for id, _ in search("sea", k)] for k in (5, 1)] == [["n0005", "n0003"], ["n0005"]]
    assert len(checked) < len(texts) + 20  # and the rows that were read
    visible = {"n0004"}
    index.build(texts | {"n9999": "fog"})  # a new state of the index
    with index.open_search(passes) as search:
        assert [id for id, _ in search("sea", 5)] == ["n0004"]
    index.store.close()


def test_unspaced_texts_are_found_by_pairs(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path, {"a": "組紐の工房は港にある。", "b": "工場の紐を組む。", "c": "我们去港口。"})
    assert index.ids("組紐の工房")[0] == "a"
    assert index.ids("組紐") == ["a"]
    assert index.ids("港口") == ["c"]
    index.store.close()


_NOTES = {
    "ar": "تفتح المكتبة أبوابها كل صباح.",
    "fa": "قایق‌ها هر روز از بندر می‌روند.",
    "ur": "کشتی بندرگاہ سے روانہ ہوئی۔",
    "he": "הסִירָה יוצאת מהנמל בבוקר.",
    "hi": "पुस्तकालय सुबह खुलता है। कर्म करो।",
    "hi2": "पसतकलय एक और शबद है। करम करो।",
    "bn": "নৌকা সকালে বন্দর ছাড়ে।",
    "ta": "நூலகம் காலையில் திறக்கும்.",
    "te": "గ్రంథాలయం ఉదయం తెరుచుకుంటుంది.",
    "si": "පුස්තකාලය උදේ විවෘත වේ.",
    "th": "ห้องสมุดเปิดทุกเช้าใกล้ท่าเรือ",
    "lo": "ຫ້ອງສະໝຸດເປີດທຸກເຊົ້າໃກ້ທ່າເຮືອ",
    "km": "បណ្ណាល័យបើករាល់ព្រឹកនៅជិតកំពង់ផែ។",
    "my": "စာကြည့်တိုက်သည် မနက်တိုင်းဖွင့်သည်။",
    "lo2": "ຫອງ ສະມຸດ ຫອງ ສະມຸດ ທາເຮອ ທາເຮອ",
    "km2": "បណណល យបណណល យ កពង ផ កពង ផ",
    "my2": "စေ ကူ ညို တူ ကောက် စိုက် ဖူ ငို သူ ညို",
    "hy": "Գրադարանը բացվում է առավոտյան։ Ո՞ւր գնաց նավը։",
    "am": "ቤተ መጻሕፍቱ በጠዋት ይከፈታል።",
    "ru": "Библиотека открывается утром.",
    "ko": "도서관은 아침에 문을 연다.",
    "ja": "図書館は朝に開く。",
    "zh": "港口的渡轮早上出发。",
    "id": "The client calls getUserById for each row.",
    "id2": "The client calls getOrderByDate for each row.",
    "snake": "The worker calls read_next_block in a loop.",
    "c": "C was written for an operating system, and C is small.",
    "c++": "C++ has templates.",
    "c#": "C# has properties.",
    "f#": "F# has pipes.",
    "f": "F is a grade, and F is a letter.",
    "net": "A net of the fishers, and another net.",
    ".net": "The runtime is .NET on all desks.",
}
_QUERIES = """ar المكتبة|fa بندر|fa میروند|ur بندرگاہ|ur کشتی|he הסירה|he הסירה יוצאת|hi पुस्तकालय|hi कर्म|hi2 करम
    bn নৌকা|bn বন্দর|ta நூலகம்|ta காலையில்|te గ్రంథాలయం|si පුස්තකාලය|th ห้องสมุด|th ท่าเรือ|lo ຫ້ອງສະໝຸດ|lo ທ່າເຮືອ
    km បណ្ណាល័យ|km កំពង់ផែ|my စာကြည့်တိုက်
    my ဖွင့်သည်|hy Ուր|hy գրադարանը|am መጻሕፍቱ|ru библиотека|ko 도서관|ja 図書館|zh 渡轮|id getUserById|id user|id getuserbyid
    id get_user_by_id|snake readNextBlock|c C|c++ C++|c# c#|f# F#|f F|.net .NET|net net"""


def test_a_word_of_any_script_finds_its_note(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path, _NOTES)
    cases = [case.strip().partition(" ") for case in _QUERIES.replace("\n", "|").split("|")]
    assert [query for note, _, query in cases if index.ids(query)[:1] != [note]] == []
    index.store.close()


def test_a_product_code_finds_its_own_note_among_many_codes(tmp_path: Path) -> None:
    codes = [f"{letters}-{number}" for number in range(1050, 1100) for letters in ("PPR", "PRP", "QPR", "XPR")]
    texts = {code: f"The {code} valve is older than part {(i * 7919) % 1000}." for i, code in enumerate(codes)}
    texts["PRP-1087"] = "The PRP-1087 valve: order 1087 has 1087 of them."
    texts["PPR-1088"] += " PPR means a pressure part: PPR, PPR, PPR. Sheet 1087."
    index = keyword_notes(tmp_path, texts)
    assert [index.ids(query)[0] for query in ("PPR-1087", "ppr1087", "ppr‑1087")] == ["PPR-1087"] * 3
    index.store.close()


def test_lengths_are_read_once_per_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    read = Postings._read_lengths

    def counted(self: Postings) -> object:
        reads.append(self.table)
        return read(self)

    monkeypatch.setattr(Postings, "_read_lengths", counted)
    index = keyword_notes(tmp_path, {"a": "sea sky", "b": "sky sky sky"})
    with index.open_search() as search:
        first = [search(word, 5) for word in ("sea", "sky", "sea")]
        assert first[0] == first[2]
    assert len(reads) == 1
    index.build({})
    index.build({"b": "sky sky sky"})
    index.build({"a": "sea sky", "b": "sky sky sky"})  # the same rows in other places
    assert index.search_notes("sky") == first[1]
    assert len(reads) == 2
    index.store.close()


@pytest.mark.parametrize(
    "question",
    [
        "",
        " ",
        '"',
        '""',
        "*",
        "NOT",
        "OR NOT",
        "AND",
        "NEAR(x, 2",
        "^",
        "-",
        "text:",
        "{",
        "🚢",
        "\0",
        "; DROP TABLE",
    ],
)
def test_a_hostile_question_is_no_error(tmp_path: Path, question: str) -> None:
    index = keyword_notes(tmp_path, {"a": "sea", "b": "sky", "c": "fog"})
    assert index.ids(question) == []
    assert index.ids(f"{question} sea") == ["a"]
    assert index.ids("\ud800 sea \udfff") == ["a"]
    index.store.close()


def test_query_keywords_are_found_as_words(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path, {"a": "near or far", "b": "NOT now", "c": "fog", "d": "dew", "e": "ice"})
    assert index.ids("NEAR") == ["a"]
    assert index.ids("not") == ["b"]
    index.store.close()


def test_a_very_long_question_is_answered(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path, {"a": "sea", "b": "sky", "c": "fog"})

    def ask(question: str) -> None:
        assert index.ids(f"{question} sea") == ["a"]

    def count(words: int) -> int:
        return count_lines(lambda: ask(" ".join(f"w{words}x{i}" for i in range(words))))

    for piece in "海x":
        check_linear(ask, piece)
    count(249)  # loads what a question needs once
    assert count(1000) < 5 * count(250)
    with stop_endless_work():
        ask(" ".join(f"w{i}" for i in range(50_000)))
    index.store.close()


# -- changing rows


@NEEDS_FILES
def test_row_with_unchanged_text_keeps_its_slot(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path, {"a": "sea", "b": "sky"})
    index.build({"a": "sea", "b": "sky"}, pages=7)
    with index.store.read_transaction() as db:
        assert db.all("SELECT slot, id FROM words_notes_ids ORDER BY slot") == [(0, "a"), (1, "b")]
    index.store.close()


# -- forward index


def forward(index: Notes, *ids: str) -> dict[str, tuple[list[int], list[int]]]:
    """Return the words and subwords of these rows as numbers."""
    with index.store.read_transaction() as db:
        table = Table("notes", codec(Note), SqlRows(db, "notes"))
        tokens = Bm25Search(db).tokens(table, ids)
    return {id: (row.words.tolist(), row.subwords.tolist()) for id, row in tokens.items()}


def numbers(text: str) -> tuple[list[int], list[int]]:
    return [*map(hash_token, tokenize(text))], list(memoryview(find_subwords([text])[0]).cast("H"))


def test_tokens_are_those_of_the_present_rows(tmp_path: Path) -> None:
    texts = {"a": "sea sky sea", "b": "組紐の工房", "c": "Straße, fog"}
    index = keyword_notes(tmp_path, texts)
    assert forward(index, "a", "b", "c") == {id: numbers(text) for id, text in texts.items()}
    assert forward(index, "b", "zz") == {"b": numbers("組紐の工房")}
    assert forward(index) == {}
    index.build({"a": "dew", "c": "Straße, fog", "d": "sea"})
    assert forward(index, "a", "b", "c", "d") == {
        "a": numbers("dew"),
        "c": numbers("Straße, fog"),
        "d": numbers("sea"),
    }
    index.store.close()


def test_words_keep_their_order_and_subwords_are_distinct(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path, {"a": "sky sea sea"})
    words, subwords = forward(index, "a")["a"]
    assert words == [*map(hash_token, ["sky", "sea", "sea"])]
    assert subwords == sorted(set(subwords))
    index.store.close()


def test_row_without_text_has_no_tokens(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path, {"a": "", "b": "sea"})
    assert forward(index, "a", "b").keys() == {"b"}
    index.build({"a": "sea", "b": ""})
    assert forward(index, "a", "b") == {"a": numbers("sea")}
    index.store.close()


def test_tokens_of_more_rows_than_a_query_has_parameters(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path, {f"n{i:04d}": f"sea x{i}" for i in range(1200)})
    tokens = forward(index, *(f"n{i:04d}" for i in range(1200)))
    assert len(tokens) == 1200
    assert tokens["n1199"] == numbers("sea x1199")
    index.store.close()


@NEEDS_FILES
@pytest.mark.parametrize("column", ["words", "subwords"])
def test_damaged_forward_index_is_detected(tmp_path: Path, column: str) -> None:
    index = keyword_notes(tmp_path, {"a": "sea sky", "b": "fog"})

    def find_damage() -> str:
        with index.store.read_transaction() as db:
            return KeywordIndex(db, "notes", codec(Note)).find_damage()

    assert find_damage() == ""
    with index.store.write_transaction() as db:
        other = db.all(f"SELECT {column} FROM words_notes_ids WHERE id = 'b'")[0][0]
        db.run(f"UPDATE words_notes_ids SET {column} = ? WHERE id = 'a'", other)
    assert find_damage() == "its rows are not those of notes"
    with index.store.write_transaction() as db:
        db.run(f"UPDATE words_notes_ids SET {column} = NULL WHERE id = 'a'")
    assert find_damage() == "its rows are not those of notes"
    index.store.close()


@NEEDS_FILES
@pytest.mark.parametrize("change", ["words = x'0102'", "subwords = x'01'", "words = NULL"])
def test_tokens_that_cannot_be_read_name_the_remedy(tmp_path: Path, change: str) -> None:
    index = keyword_notes(tmp_path, {"a": "sea sky", "b": "fog"})
    with index.store.write_transaction() as db:
        db.run(f"UPDATE words_notes_ids SET {change} WHERE id = 'a'")
    with pytest.raises(
        IndexDamaged, match=r"^the tokens of notes are damaged: `kumi check --repair` makes them again$"
    ):
        forward(index, "a")
    assert forward(index, "b")
    index.store.close()


def test_other_letters_of_the_same_words_change_the_subwords(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path, {"a": "sea", "b": "sky"})
    index.build({"a": "SEA!", "b": "sky"})
    assert forward(index, "a")["a"] == numbers("SEA!")
    with index.store.read_transaction() as db:
        assert KeywordIndex(db, "notes", codec(Note)).find_damage() == ""
    index.store.close()
