"""A question is written as the documents write it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kumihimo import Kumihimo
from kumihimo.core.context import Context
from kumihimo.text.parts_of_speech import can_tag_chinese, can_tag_japanese
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.tokens import tokenize
from kumihimo.text.word_variants import rewrite_question

PASSAGES = (
    "The breakwater was mended in the harbour. Its database has the colour of each stone.",
    "Mr Kerrow carries an e-mail about the harbour, the turbines and the seed library.",
    "グスタフ・マーラーの交響曲とヴァイオリンの音。ミズナギが飛ぶ。おにぎりを食べる。",
    "東門鑰匙在圖書館。",
    "The Harbour Office keeps harbour dues. Sand comes in winter. The houses are dry.",
    "りんごの取り扱いとシミュレーション。",
)


@dataclass(frozen=True)
class Words:
    """`WordIndex` of a few passages."""

    texts: tuple[str, ...] = PASSAGES

    def has(self, text: str) -> bool:
        wanted = tokenize(text)
        size = len(wanted)
        found = map(tokenize, self.texts)
        return any(wanted == tokens[i : i + size] for tokens in found for i in range(len(tokens) - size + 1))

    def stems(self, letter: str) -> dict[str, int]:
        return dict(Counter(t for text in self.texts for t in set(tokenize(text)) if t[0] == letter))

    def rarity(self, tokens: Sequence[str]) -> Sequence[float]:
        return [1.0 for _ in tokens]

    def passages(self, text: str, k: int) -> list[str]:
        shared = [(len(set(tokenize(text)) & set(tokenize(passage))), passage) for passage in self.texts]
        return [passage for count, passage in sorted(shared, reverse=True) if count][:k]


def rewrite(question: str, index: Words | None) -> tuple[str, tuple[tuple[str, str], ...]]:
    rewritten, replaced = rewrite_question(ParsedQuestion(question), index)
    return rewritten.text, replaced


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who mended the breakwatr?", "Who mended the breakwater?"),  # a letter is missing
        ("Who mended the braekwater?", "Who mended the breakwater?"),  # two are exchanged
        ("Who runs the harbor?", "Who runs the harbour?"),
        ("Which color has it?", "Which colour has it?"),
        ("What is in the data base?", "What is in the database?"),
        ("What is in the data-base?", "What is in the database?"),
        ("Where is the seedlibrary?", "Where is the seed library?"),
        ("An email of Mr Kerow?", "An e-mail of Mr Kerrow?"),
        ("Which turbine is it?", "Which turbines is it?"),
        ("グスタフマーラーの奥さんは誰", "グスタフ・マーラーの奥さんは誰"),
        ("バイオリンの音", "ヴァイオリンの音"),
        ("みずなぎはどこ", "ミズナギはどこ"),
        ("オニギリは好きですか", "おにぎりは好きですか"),
        ("Which huoses are dry?", "Which houses are dry?"),  # the stem of a stem is another
    ],
)
def test_words_are_written_as_in_the_documents(question: str, expected: str) -> None:
    rewritten, replaced = rewrite(question, Words())
    assert rewritten == expected
    assert replaced
    assert rewrite(rewritten, Words()) == (rewritten, ())


@pytest.mark.skipif(not can_tag_chinese(), reason="needs the extra zh")
def test_simplified_characters_find_traditional_ones() -> None:
    expected = ("東門鑰匙在哪里?", (("东门钥匙", "東門鑰匙"),))
    assert rewrite("东门钥匙在哪里？", Words()) == expected


@pytest.mark.skipif(not can_tag_japanese(), reason="needs the extra ja")
@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("取扱いは", "取り扱いは"),
        ("シュミレーションは", "シミュレーションは"),
        ("林檎はどこ", "りんごはどこ"),
        ("水薙はどこ", "ミズナギはどこ"),
        ("犬はどこ", "犬はどこ"),
    ],
)
def test_nouns_are_written_as_in_the_documents(question: str, expected: str) -> None:
    assert rewrite(question, Words())[0] == expected


@pytest.mark.parametrize(
    "question",
    [
        "Where is the library?",
        "Who saw the brokwater?",  # two letters differ: another word
        "Who is the president of France?",  # common words are right, though no document has them
        "What did NASA do?",  # capitals are no misspelling
        "What did Sands say?",  # a name, and no name is near
        "A xylophone?",  # nothing is near
        "",
        "?!",
        "  ",
        "か",
    ],
)
def test_other_words_stay(question: str) -> None:
    assert rewrite(question, Words()) == (question, ())


def test_a_word_is_named_once() -> None:
    assert rewrite("breakwatr or breakwatr", Words())[1] == (("breakwatr", "breakwater"),)


def test_without_passages_all_words_stay() -> None:
    question = "Who mended the breakwatr? みずなぎ 东门"
    assert rewrite(question, Words(())) == (question, ())
    assert rewrite(question, None) == (question, ())


def test_a_long_question_stays() -> None:
    question = "breakwatr " * 60
    assert rewrite(question, Words()) == (question, ())


@given(st.text(alphabet="abrekwt -'éＡａグタ・ーみずなぎ東门\n\x00", max_size=40))
def test_any_text_is_rewritten_once(question: str) -> None:
    once = rewrite(question, Words())
    assert rewrite(question, Words()) == once
    assert bool(once[1]) or once[0] == question
    assert all(spelling for _, spelling in once[1])


def test_an_index_rewrites_questions_of_each_free_method(tmp_path: Path) -> None:
    for i, text in enumerate(PASSAGES):
        (tmp_path / f"{i}.txt").write_text(text, encoding="utf-8")
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(tmp_path, methods=["braid", "naive", "bm25"])
        for method in ("braid", "naive", "bm25"):
            context = kumi.retrieve("Who mended the breakwatr?", method)
            assert context.replaced == (("breakwatr", "breakwater"),)
            assert next(iter(context)).text == PASSAGES[0]
        assert kumi.retrieve("Who mended the breakwater?").replaced == ()
        uri = kumi.ask("Who mended the breakwater?").citations[0].span.uri
        hidden = kumi.retrieve("Who mended the breakwatr?", filter=f"uri != '{uri}'")
        assert hidden.replaced == ()  # no visible document has the word
        with kumi.snapshot() as snapshot:  # nor can one find out that a hidden document has it
            words, visible_words = snapshot.indexed_words(), snapshot.narrowed(f"uri != '{uri}'").indexed_words()
            assert words
            assert words.has("breakwater")
            assert visible_words
            assert not visible_words.has("breakwater")
        with kumi.snapshot() as snapshot:
            note = snapshot.describe_search(kumi.retrieve("Who mended the breakwatr?"))
            assert note == "Searched for “breakwater” instead of “breakwatr”."
            assert snapshot.describe_search(Context()) == ""
        answer = kumi.ask("Who mended the breakwatr?")
        assert (answer.question, answer.citations[0].span.text) == ("Who mended the breakwatr?", PASSAGES[0])


def test_a_hidden_document_corrects_no_word(tmp_path: Path) -> None:
    """Of two words that are as near, the visible one counts, however often a hidden one occurs."""
    notes = tmp_path / "notes"
    notes.mkdir()
    for i in range(5):
        (notes / f"{i}.md").write_text(f"---\nlevel: {i}\n---\nThe granket was mended on day {i}.", encoding="utf-8")
    (notes / "9.md").write_text("---\nlevel: 9\n---\nThe grunket was painted.", encoding="utf-8")
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(notes, methods=["bm25"])
        question = "Who mended the gronket?"
        assert kumi.retrieve(question, "bm25").replaced == (("gronket", "granket"),)
        assert kumi.retrieve(question, "bm25", rights="level = 9").replaced == (("gronket", "grunket"),)
        assert kumi.retrieve(question, "bm25", filter="level = 9").replaced == (("gronket", "grunket"),)
        with kumi.snapshot(rights="level in (0, 9)") as snapshot:
            words = snapshot.indexed_words()
            assert words
            assert {stem: n for stem, n in words.stems("g").items() if stem[1] == "r"} == {"granket": 1, "grunket": 1}
