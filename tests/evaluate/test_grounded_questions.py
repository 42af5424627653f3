"""Chunks -> questions with quotes as gold: selection, repeated calls, places of the quotes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.facade import Kumihimo
from kumihimo.core.errors import IndexUnavailable, SettingsError
from kumihimo.evaluate.grounded_questions import (
    draft_description,
    find_quote,
    generate_linked_questions,
    generate_local_questions,
    pair_chunks,
    sample_chunks,
    sample_pieces,
)
from kumihimo.evaluate.question_generation import GeneratedQuestions
from kumihimo.llm.cached_llm import create_llm
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from tests.factories_graph_text import document, mention, put
from tests.fenced_texts import fenced_text, fenced_texts

LONG = "The ferry of the island leaves at nine from the old pier, " * 4
TEXTS = {
    "a.md": [f"{LONG}. Roake mended it.", f"{LONG}. Nobody saw it."],
    "b.md": [f"{LONG}. 組紐は十月に\n届きます。"],
    "c.md": ["Short."],
}


@pytest.fixture
def snapshot(tmp_path: Path) -> Iterator[Snapshot]:
    documents = {uri: document(uri, *texts) for uri, texts in TEXTS.items()}
    chunks = [chunk for _, pieces in documents.values() for chunk in pieces]
    first, _, third, _ = chunks
    mentions = [mention(first.id, 0, "Roake"), mention(first.id, 1, "Pier"), mention(third.id, 0, "Pier")]
    put(tmp_path / ".kumi", {"documents": [d for d, _ in documents.values()], "chunks": chunks, "mentions": mentions})
    with Kumihimo.open(tmp_path / ".kumi") as kumi, kumi.snapshot() as snapshot:
        yield snapshot


def generate(
    snapshot: Snapshot, folder: Path, reply: Callable[[str], object], kind: str = "local", count: int = 9
) -> GeneratedQuestions:
    cache = ResponseCache(folder / "replies.db")
    try:
        llm = create_llm(
            FakeChat(lambda prompt: json.dumps(reply(prompt)), join_messages=True), cache, scope="questioner"
        )
        return {"local": generate_local_questions, "linked": generate_linked_questions}[kind](snapshot, llm, count)
    finally:
        cache.close()


def reply_to(prompt: str, question: str = "Who mended the {}?") -> dict[str, str]:
    """Return a question on the last sentence of the passage, with an altered quote."""
    text = fenced_text(prompt, "passage").rpartition("\n\n")[2]
    quote = re.split(r"(?<=\.) ", text)[-1].replace("\n", "").strip()
    return {"question": question.format(len(text)), "answer": "Roake.", "quote": f"“{quote.upper()}”"}


def test_gold_is_the_range_of_the_quote(snapshot: Snapshot, tmp_path: Path) -> None:
    generated = generate(snapshot, tmp_path, lambda prompt: reply_to(prompt, "Who mended {}?"), count=4)
    texts = {str(uri): str(text) for uri, text in snapshot.table("documents").columns("uri", "text")}
    words = {texts[q.gold[0].id][q.gold[0].start : q.gold[0].end] for q in generated.questions}
    assert words == {"Roake mended it.", "Nobody saw it.", "組紐は十月に\n届きます。", "Short."}
    assert {(q.scope, q.source, q.reference) for q in generated.questions} == {("local", "data", "Roake.")}


def test_chunks_come_from_many_documents_in_a_fixed_order(snapshot: Snapshot) -> None:
    documents = [chunk.document for chunk in sample_chunks(snapshot, 2)]
    assert len(set(documents)) == 2
    assert sample_chunks(snapshot, 2) == sample_chunks(snapshot, 2) == sample_chunks(snapshot, 4)[:2]
    assert [chunk.text for chunk in sample_chunks(snapshot, 9)][-1] == "Short."


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"quote": "It never stood there"}, "The words of a quote do not stand in the passage"),
        ({"quote": "…"}, "The words of a quote do not stand in the passage"),
        ({"question": "What does the passage say?"}, "make sense alone"),
        ({"question": "この文章は何の話ですか。"}, "make sense alone"),
        ({"answer": " "}, "Write a question and its answer"),
    ],
)
def test_unusable_replies_are_repeated_with_the_reason(
    snapshot: Snapshot, tmp_path: Path, wrong: dict[str, str], message: str
) -> None:
    prompts: list[str] = []

    def reply(prompt: str) -> object:
        prompts.append(prompt)
        return {**reply_to(prompt), **(wrong if message not in prompt else {})}

    assert len(generate(snapshot, tmp_path, reply, count=1).questions) == 1
    assert [message in prompt for prompt in prompts] == [False, True]
    (tmp_path / "never").mkdir()
    unusable = generate(snapshot, tmp_path / "never", lambda prompt: {**reply_to(prompt), **wrong}, count=1)
    assert [(m.asked, m.made, m.failed) for m in unusable.missing] == [(1, 0, True)]
    assert message in unusable.missing[0].why


def test_missing_chunks_and_repeated_questions_are_reported(snapshot: Snapshot, tmp_path: Path) -> None:
    generated = generate(snapshot, tmp_path, lambda prompt: reply_to(prompt, "Who mended it?"))
    assert len(generated.questions) == 1
    assert [m.why for m in generated.missing] == ["the index holds no more", *["it was asked before"] * 3]


def test_pairs_share_an_entity_across_documents(snapshot: Snapshot, tmp_path: Path) -> None:
    (pair,) = pair_chunks(snapshot, 9)
    assert pair.entity == "Pier"
    assert pair.first.document != pair.second.document

    def reply(prompt: str) -> object:
        assert fenced_text(prompt, "entity") == "Pier"
        return {"question": "Who mended what brings cords?", "answer": "Roake.", "first": "nine", "second": "nine"}

    generated = generate(snapshot, tmp_path, reply, "linked")
    (question,) = generated.questions
    assert (question.scope, question.more["entity"]) == ("linked", "Pier")
    assert {g.id for g in question.gold} == {"a.md", "b.md"}
    assert [m.what for m in generated.missing] == ["pairs to ask about"]


def test_without_a_graph_there_are_no_pairs(tmp_path: Path) -> None:
    row, chunks = document("a.md", LONG)
    put(tmp_path / ".kumi", {"documents": [row], "chunks": chunks})
    with (
        Kumihimo.open(tmp_path / ".kumi") as kumi,
        kumi.snapshot() as snapshot,
        pytest.raises(IndexUnavailable, match="--methods local"),
    ):
        pair_chunks(snapshot, 1)


def test_a_description_samples_the_whole_index(snapshot: Snapshot, tmp_path: Path) -> None:
    samples = sample_pieces(snapshot)
    assert len(samples) == 4
    assert len(sample_pieces(snapshot, size=500)) == 2
    chat = FakeChat(lambda prompt: " Letters of an island. ", join_messages=True)
    cache = ResponseCache(tmp_path / "replies.db")
    assert draft_description(list(reversed(samples)), create_llm(chat, cache)) == "Letters of an island."
    cache.close()
    assert fenced_texts(next(iter(chat.prompt_counts)), "piece") == sorted(samples)
    with pytest.raises(SettingsError, match="the index has no reports: `kumi index --methods global`"):
        sample_pieces(snapshot, "reports")


def test_an_empty_index_has_no_samples(tmp_path: Path) -> None:
    put(tmp_path / ".kumi", {"documents": [], "chunks": []})
    with Kumihimo.open(tmp_path / ".kumi") as kumi, kumi.snapshot() as snapshot:
        with pytest.raises(SettingsError, match="holds no text"):
            sample_pieces(snapshot)
        with pytest.raises(SettingsError, match="holds no text"):
            sample_chunks(snapshot, 3)


def test_quotes_match_despite_spaces_and_marks() -> None:
    text = "“It’s late,” said\nRoake — (twice)."
    assert find_quote('"It\'s late," said Roake - (twice).', text) == (1, len(text))
    assert find_quote("a.c", "abc") is None
    assert find_quote("ROAKE", text) == (18, 23)
