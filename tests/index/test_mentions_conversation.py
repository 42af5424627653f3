"""a chunk -> its conversation: truncated replies continue; broken and missing records are requested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import BudgetExceeded, ItemFailed
from kumihimo.core.records import Chunk
from kumihimo.index.chunk_background import ChunkBackground
from kumihimo.index.extraction_parser import ExtractedRecord
from kumihimo.index.mentions import ExtractionSettings, extract_records
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.cached_llm import create_llm
from kumihimo.llm.protocols import ChatRequest, Reply
from kumihimo.storage.response_cache import ResponseCache
from tests.fenced_texts import fenced_text
from tests.index.scripted_llm import ScriptedChat, record_lines, truncated_reply

CHUNK = Chunk(id="d.00000", title="Ferries", start=0, end=9, tokens=300, text="Ines Roy {title} lives in Oban.")
ROY, OBAN, AYR = (
    ("entity", "Ines Roy", "person", "A."),
    ("entity", "Oban", "place", "B."),
    ("entity", "Ayr", "place", "C."),
)
Replies = Mapping[str, Sequence[str | Reply]]
RELATION = ("relation", "Ines Roy", "Oban", "She lives there.", "home", "7")


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    cache = ResponseCache(tmp_path / "cache.db")
    yield cache
    cache.close()


def extract(
    cache: ResponseCache, replies: Replies, *, budget: Budget | None = None, **settings: Any
) -> tuple[list[str], ItemFailed | None, ScriptedChat]:
    """Return the names of the records, the failure and the model."""
    chat = ScriptedChat(replies)
    llm = create_llm(chat, cache, budget or Budget())
    options = {"types": ("person", "place"), "gleanings": 0, **settings}
    claims = {name: options.pop(name) for name in ("claims", "about") if name in options}
    records, failure = extract_records(
        CHUNK, ChunkBackground(title=CHUNK.title), llm, ExtractionSettings(**options), **claims
    )
    return [_name(record) for record in records], failure, chat


def _name(record: ExtractedRecord) -> str:
    return next(str(getattr(record, name)) for name in ("name", "source", "subject") if hasattr(record, name))


def test_one_conversation_whose_last_word_is_the_text(cache: ResponseCache) -> None:
    names, failure, chat = extract(cache, {"first": [record_lines(ROY, OBAN, RELATION)]})
    assert (names, failure, chat.turns) == (["Ines Roy", "Oban", "Ines Roy"], None, {"first": 1})
    system, user = chat.requests[0][0]
    assert user["content"] == "<title>\nFerries\n</title>\nText:\n<text>\nInes Roy {title} lives in Oban.\n</text>"
    assert "- person: a human being" in system["content"]
    assert "森田圭" in system["content"]
    assert "language of the text" in system["content"]


def test_what_the_user_says_of_the_corpus_is_told(cache: ResponseCache) -> None:
    settings: dict[str, Any] = {
        "examples": "Text:\nNo {braces}.\nEND",
        "domain": "ferries of Scotland",
        "language": "Japanese",
    }
    _, _, chat = extract(cache, {}, **settings)
    prompt = chat.requests[0][0][0]["content"]
    assert "\n\nThe text is one of many about: ferries of Scotland\n\n" in prompt
    assert fenced_text(prompt, "examples") == "Text:\nNo {braces}.\nEND"
    assert "in Japanese" in prompt
    assert "language of the text" not in prompt


def test_it_is_short(cache: ResponseCache) -> None:
    _, _, chat = extract(cache, {})
    assert len(chat.requests[0][0][0]["content"]) < 2900


def test_nothing_to_read_is_no_failure(cache: ResponseCache) -> None:
    assert extract(cache, {"first": ["END"]})[:2] == ([], None)


def test_what_breaks_off_is_continued_from_the_last_whole_record(cache: ResponseCache) -> None:
    replies: Replies = {
        "first": [truncated_reply("<think>so</think>" + record_lines(ROY)[:-4] + "\nentity<|>Ob")],
        "rest": [record_lines(OBAN, AYR)],
    }
    names, failure, chat = extract(cache, replies)
    assert (names, failure) == (["Ines Roy", "Oban", "Ayr"], None)
    previous, request = chat.requests[1][0][-2:]
    assert previous == {"role": "assistant", "content": "entity<|>Ines Roy<|>person<|>A."}
    assert "\nentity<|>Ines Roy<|>person<|>A.\n" in request["content"]


def test_a_reply_that_says_it_has_ended_has_not_broken_off(cache: ResponseCache) -> None:
    names, failure, chat = extract(cache, {"first": [truncated_reply(record_lines(ROY))]})
    assert (names, failure, chat.turns["rest"]) == (["Ines Roy"], None, 0)


def test_one_that_never_ends_is_listed_with_what_it_gave(cache: ResponseCache) -> None:
    replies: Replies = {
        "first": [truncated_reply(record_lines(ROY)[:-4] + "\nentity<|>")],
        "rest": [truncated_reply(record_lines(OBAN)[:-4] + "\nentity")],
    }
    names, failure, chat = extract(cache, replies)
    assert names == ["Ines Roy", "Oban"]
    assert chat.turns == {"first": 1, "rest": 3}
    assert "max_tokens" in str(failure)


def test_one_that_breaks_off_before_its_first_record_is_asked_again(cache: ResponseCache) -> None:
    names, failure, chat = extract(cache, {"first": [truncated_reply("Well, let me see"), record_lines(ROY)]})
    assert (names, failure) == (["Ines Roy"], None)
    assert "broke off" in chat.requests[1][0][-1]["content"]


def test_a_reply_without_a_record_or_an_end_is_asked_again_and_then_fails(cache: ResponseCache) -> None:
    names, failure, chat = extract(cache, {"first": ["I cannot help with that."]})
    assert (names, chat.turns) == ([], {"first": 3})
    assert "no record" in str(failure)


def test_broken_lines_are_asked_for_once_more(cache: ResponseCache) -> None:
    replies = {
        "first": [record_lines(ROY, ("entity", "Oban"), ("relation", "Ines Roy"), AYR)],
        "mend": [record_lines(OBAN, RELATION)],
    }
    names, failure, chat = extract(cache, replies)
    assert (names, failure) == (["Ines Roy", "Ayr", "Oban", "Ines Roy"], None)
    assert "\nentity<|>Oban\nrelation<|>Ines Roy\n" in chat.requests[1][0][-1]["content"]
    assert chat.turns == {"first": 1, "mend": 1}


def test_lines_that_stay_broken_cost_nothing_whole(cache: ResponseCache) -> None:
    replies = {"first": [record_lines(ROY, ("entity", "Oban"))], "mend": [record_lines(("entity", "Oban"), AYR)]}
    names, failure, chat = extract(cache, replies)
    assert (names, chat.turns) == (["Ines Roy"], {"first": 1, "mend": 3})
    assert "Some lines are still not records." in str(failure)
    names, failure, _ = extract(cache, {**replies, "mend": ["Sorry."]}, types=("other",))
    assert names == ["Ines Roy"]
    assert failure


def test_gleaning_asks_once_a_round_and_ends_with_the_first_empty_one(cache: ResponseCache) -> None:
    replies = {"first": [record_lines(ROY)], "more": [record_lines(OBAN, RELATION), "END", "never asked"]}
    names, failure, chat = extract(cache, replies, gleanings=5)
    assert (names, failure, chat.turns) == (["Ines Roy", "Oban", "Ines Roy"], None, {"first": 1, "more": 2})


def test_a_chunk_with_many_records_for_its_length_is_read_once(cache: ResponseCache) -> None:
    replies = {"first": [record_lines(ROY, OBAN, RELATION)], "more": [record_lines(AYR), "END"]}
    _, _, chat = extract(cache, replies, gleanings=5, glean_below=1)
    assert chat.turns == {"first": 1}
    names, _, chat = extract(cache, replies, gleanings=5, glean_below=1.34, types=("other",))
    assert (names[3:], chat.turns) == (["Ayr"], {"first": 1, "more": 1})  # the fourth record is enough
    assert "at most 8" in chat.requests[1][0][-1]["content"]


def test_nothing_is_gleaned_where_nothing_more_comes(cache: ResponseCache) -> None:
    replies = {"first": [record_lines(ROY)], "more": [record_lines(ROY)]}
    names, _, chat = extract(cache, replies, gleanings=3)
    assert (names, chat.turns) == (["Ines Roy"], {"first": 1, "more": 1})


def test_gleaning_that_fails_keeps_what_there_was(cache: ResponseCache) -> None:
    replies = {"first": [record_lines(ROY, OBAN)], "more": ["There is no more."]}
    names, failure, _ = extract(cache, replies, gleanings=1)
    assert names == ["Ines Roy", "Oban"]
    assert "cannot be read" in str(failure)


def test_a_cap_stays_a_cap(cache: ResponseCache) -> None:
    replies = {"first": [record_lines(ROY)], "more": [record_lines(OBAN)]}
    names, failure, _ = extract(cache, replies, budget=Budget(Caps(calls=1)), gleanings=1)
    assert names == ["Ines Roy"]
    assert isinstance(failure, BudgetExceeded)


def test_claims_come_after_gleaning(cache: ResponseCache) -> None:
    claim = ("claim", "Oban", "NONE", "Growth", "TRUE", "2011", "NONE", "It grows.", "It grows")
    replies = {
        "first": [record_lines(ROY)],
        "more": [record_lines(OBAN)],
        "claims": [record_lines(claim)],
    }
    names, failure, chat = extract(cache, replies, gleanings=1, claims=True, about="growth of towns")
    assert (names, failure) == (["Ines Roy", "Oban", "Oban"], None)
    assert chat.requests[-1][0][-1]["content"].endswith("\n\nWhat to look for: growth of towns")
    assert chat.turns == {"first": 1, "more": 1, "claims": 1}


def test_it_says_how_many_turns_may_follow(cache: ResponseCache) -> None:
    followup_counts: list[int] = []

    class CountingChat(ScriptedChat):
        def __call__(self, request: ChatRequest) -> Reply:
            followup_counts.append(request.followups)
            return super().__call__(request)

    replies = {"first": [record_lines(ROY)], "more": [record_lines(OBAN), record_lines(AYR)]}
    background, llm = ChunkBackground(title=CHUNK.title), create_llm(CountingChat(replies), cache)
    extract_records(CHUNK, background, llm, ExtractionSettings(gleanings=2), claims=True)
    assert followup_counts == [3, 2, 1, 0]
