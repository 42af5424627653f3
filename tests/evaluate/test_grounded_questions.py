"""Chunks -> questions whose gold are words of theirs: what is chosen, what is asked again, where the words stand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kumihimo.app.facade import Kumihimo
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.errors import IndexUnavailable, SettingsError
from kumihimo.evaluate.corpus_description import describe_documents, sample_pieces
from kumihimo.evaluate.grounded_questions import (
    find_quote,
    generate_linked_questions,
    generate_local_questions,
    pair_chunks,
    sample_chunks,
)
from kumihimo.evaluate.question_generation import GeneratedQuestions
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from tests.factories_graph_text import document, mention, put

LONG = "The ferry of the island leaves at nine from the old pier, " * 4
TEXTS = {
    "a.md": [f"{LONG}. Roake mended it.", f"{LONG}. Nobody saw it."],
    "b.md": [f"{LONG}. 組紐は十月に\n届きます。"],
    "c.md": ["Short."],
}


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Snapshot]:
    made = {uri: document(uri, *texts) for uri, texts in TEXTS.items()}
    chunks = [chunk for _, some in made.values() for chunk in some]
    first, _, third, _ = chunks
    named = [mention(first.id, 0, "Roake"), mention(first.id, 1, "Pier"), mention(third.id, 0, "Pier")]
    put(tmp_path / ".kumi", {"documents": [d for d, _ in made.values()], "chunks": chunks, "mentions": named})
    with Kumihimo.open(tmp_path / ".kumi") as kumi, kumi.snapshot() as reading:
        yield reading


def asked(
    reading: Snapshot, folder: Path, says: Callable[[str], object], make: str = "local", count: int = 9
) -> GeneratedQuestions:
    memo = ResponseCache(folder / "replies.db")
    try:
        ask = CachedLLM(FakeChat(lambda prompt: json.dumps(says(prompt)), join_messages=True), memo, scope="questioner")
        return {"local": generate_local_questions, "linked": generate_linked_questions}[make](reading, ask, count)
    finally:
        memo.close()


def said(prompt: str, question: str = "Who mended the {}?") -> dict[str, str]:
    """A question of the last sentence of the passage, which is quoted otherwise than it stands there."""
    text = prompt.partition("\n\nReply with")[0].rpartition("\n\n")[2]
    quote = re.split(r"(?<=\.) ", text)[-1].replace("\n", "").strip()
    return {"question": question.format(len(text)), "answer": "Roake.", "quote": f"“{quote.upper()}”"}


def test_gold_are_the_words_in_characters_of_the_document(reading: Snapshot, tmp_path: Path) -> None:
    found = asked(reading, tmp_path, lambda prompt: said(prompt, "Who mended {}?"), count=4)
    whole = {str(uri): str(text) for uri, text in reading.table("documents").columns("uri", "text")}
    words = {whole[q.gold[0].id][q.gold[0].start : q.gold[0].end] for q in found.questions}
    assert words == {"Roake mended it.", "Nobody saw it.", "組紐は十月に\n届きます。", "Short."}
    assert {(q.scope, q.source, q.reference) for q in found.questions} == {("local", "data", "Roake.")}


def test_chunks_are_of_many_documents_and_the_same_each_time(reading: Snapshot) -> None:
    two = [chunk.document for chunk in sample_chunks(reading, 2)]
    assert len(set(two)) == 2
    assert sample_chunks(reading, 2) == sample_chunks(reading, 2) == sample_chunks(reading, 4)[:2]
    assert [chunk.text for chunk in sample_chunks(reading, 9)][-1] == "Short."


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"quote": "It never stood there"}, "These words do not stand there: “It never stood there”"),
        ({"quote": "…"}, "These words do not stand there"),
        ({"question": "What does the passage say?"}, "make sense alone"),
        ({"question": "この文章は何の話ですか。"}, "make sense alone"),
        ({"answer": " "}, "Write a question and its answer"),
    ],
)
def test_what_cannot_be_used_is_asked_again_with_the_reason(
    reading: Snapshot, tmp_path: Path, wrong: dict[str, str], told: str
) -> None:
    prompts: list[str] = []

    def says(prompt: str) -> object:
        prompts.append(prompt)
        return {**said(prompt), **(wrong if told not in prompt else {})}

    assert len(asked(reading, tmp_path, says, count=1).questions) == 1
    assert [told in prompt for prompt in prompts] == [False, True]
    (tmp_path / "never").mkdir()
    failed = asked(reading, tmp_path / "never", lambda prompt: {**said(prompt), **wrong}, count=1)
    assert [(m.asked, m.made, m.failed) for m in failed.missing] == [(1, 0, True)]
    assert told in failed.missing[0].why


def test_fewer_chunks_and_the_same_question_are_said(reading: Snapshot, tmp_path: Path) -> None:
    found = asked(reading, tmp_path, lambda prompt: said(prompt, "Who mended it?"))
    assert len(found.questions) == 1
    assert [m.why for m in found.missing] == ["the index holds no more", *["it was asked before"] * 3]


def test_pairs_are_of_two_documents_that_name_one_thing(reading: Snapshot, tmp_path: Path) -> None:
    (pair,) = pair_chunks(reading, 9)
    assert pair.entity == "Pier"
    assert pair.first.document != pair.second.document

    def says(prompt: str) -> object:
        assert "Both speak of: Pier" in prompt
        return {"question": "Who mended what brings cords?", "answer": "Roake.", "first": "nine", "second": "nine"}

    found = asked(reading, tmp_path, says, "linked")
    (made,) = found.questions
    assert (made.scope, made.more["entity"]) == ("linked", "Pier")
    assert {g.id for g in made.gold} == {"a.md", "b.md"}
    assert [m.what for m in found.missing] == ["pairs to ask about"]


def test_without_a_graph_there_are_no_pairs(tmp_path: Path) -> None:
    made, chunks = document("a.md", LONG)
    put(tmp_path / ".kumi", {"documents": [made], "chunks": chunks})
    with (
        Kumihimo.open(tmp_path / ".kumi") as kumi,
        kumi.snapshot() as reading,
        pytest.raises(IndexUnavailable, match="--methods local"),
    ):
        pair_chunks(reading, 1)


def test_a_description_is_of_pieces_from_all_over(reading: Snapshot, tmp_path: Path) -> None:
    shown = sample_pieces(reading)
    assert len(shown) == 4
    assert len(sample_pieces(reading, size=500)) == 2
    chat = FakeChat(lambda prompt: " Letters of an island. ", join_messages=True)
    memo = ResponseCache(tmp_path / "replies.db")
    assert describe_documents(list(reversed(shown)), CachedLLM(chat, memo)) == "Letters of an island."
    memo.close()
    assert next(iter(chat.prompt_counts)).endswith("\n\n---\n\n".join(sorted(shown)))
    with pytest.raises(SettingsError, match="the index has no reports: `kumi index --methods global`"):
        sample_pieces(reading, "reports")


def test_nothing_can_be_said_of_nothing(tmp_path: Path) -> None:
    put(tmp_path / ".kumi", {"documents": [], "chunks": []})
    with Kumihimo.open(tmp_path / ".kumi") as kumi, kumi.snapshot() as reading:
        with pytest.raises(SettingsError, match="holds no text"):
            sample_pieces(reading)
        with pytest.raises(SettingsError, match="holds no text"):
            sample_chunks(reading, 3)


def test_words_stand_where_only_spaces_and_marks_differ() -> None:
    text = "“It’s late,” said\nRoake — (twice)."
    assert find_quote('"It\'s late," said Roake - (twice).', text) == (1, len(text))
    assert find_quote("a.c", "abc") is None
    assert find_quote("ROAKE", text) == (18, 23)
