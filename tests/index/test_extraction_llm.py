"""A chunk -> the conversation about it: what broke off goes on, what is broken or missing is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import BudgetExceeded, ItemFailed
from kumihimo.core.records import Chunk
from kumihimo.index import extraction_llm
from kumihimo.index.extraction_parser import ExtractedRecord
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.llm.structured import Reply
from kumihimo.storage.sqlite.response_cache import ResponseCache
from tests.index.scripted_llm import Talker, cut, lines

CHUNK = Chunk(id="d.00000", title="Ferries", start=0, end=9, tokens=3, text="Ines Roy {title} lives in Oban.")
ROY, OBAN, AYR = (
    ("entity", "Ines Roy", "person", "A."),
    ("entity", "Oban", "place", "B."),
    ("entity", "Ayr", "place", "C."),
)
Says = Mapping[str, Sequence[str | Reply]]
TIE = ("relation", "Ines Roy", "Oban", "She lives there.", "home", "7")


@pytest.fixture
def memo(tmp_path: Path) -> Iterator[ResponseCache]:
    memo = ResponseCache(tmp_path / "cache.db")
    yield memo
    memo.close()


def read(
    memo: ResponseCache, says: Says, *, purse: Budget | None = None, **settings: Any
) -> tuple[list[str], ItemFailed | None, Talker]:
    """The names of what was read, why there is no more, and the model."""
    talker = Talker(says)
    given: dict[str, Any] = {"types": ("person", "place"), "examples": "", "domain": "", "language": "", "gleanings": 0}
    ask = CachedLLM(talker, memo, purse or Budget())
    said, failure = extraction_llm.extract_records(CHUNK, ask, **{**given, "yes": None, "no": None, **settings})
    return [_name(one) for one in said], failure, talker


def _name(one: ExtractedRecord) -> str:
    return next(str(getattr(one, name)) for name in ("name", "source", "subject") if hasattr(one, name))


def test_one_conversation_whose_last_word_is_the_text(memo: ResponseCache) -> None:
    names, failure, talker = read(memo, {"first": [lines(ROY, OBAN, TIE)]})
    assert (names, failure, talker.turns) == (["Ines Roy", "Oban", "Ines Roy"], None, {"first": 1})
    system, user = talker.given[0][0]
    assert user["content"] == "Title: Ferries\nText:\nInes Roy {title} lives in Oban."
    assert "person, place" in system["content"]
    assert "森田圭" in system["content"]
    assert "language of the text" in system["content"]


def test_what_the_user_says_of_the_corpus_is_told(memo: ResponseCache) -> None:
    settings: dict[str, Any] = {
        "examples": "Text:\nNo {braces}.\nEND",
        "domain": "ferries of Scotland",
        "language": "Japanese",
    }
    _, _, talker = read(memo, {}, **settings)
    told = talker.given[0][0][0]["content"]
    assert told.endswith("\n\nThe text is one of many about: ferries of Scotland\n\nText:\nNo {braces}.\nEND")
    assert "in Japanese" in told
    assert "language of the text" not in told


def test_it_is_short(memo: ResponseCache) -> None:
    _, _, talker = read(memo, {})
    assert len(talker.given[0][0][0]["content"]) < 2800


def test_nothing_to_read_is_no_failure(memo: ResponseCache) -> None:
    assert read(memo, {"first": ["END"]})[:2] == ([], None)


def test_what_breaks_off_is_continued_from_the_last_whole_record(memo: ResponseCache) -> None:
    says: Says = {"first": [cut("<think>so</think>" + lines(ROY)[:-4] + "\nentity<|>Ob")], "rest": [lines(OBAN, AYR)]}
    names, failure, talker = read(memo, says)
    assert (names, failure) == (["Ines Roy", "Oban", "Ayr"], None)
    before, asked = talker.given[1][0][-2:]
    assert before == {"role": "assistant", "content": "entity<|>Ines Roy<|>person<|>A."}
    assert "\nentity<|>Ines Roy<|>person<|>A.\n" in asked["content"]


def test_a_reply_that_says_it_has_ended_has_not_broken_off(memo: ResponseCache) -> None:
    names, failure, talker = read(memo, {"first": [cut(lines(ROY))]})
    assert (names, failure, talker.turns["rest"]) == (["Ines Roy"], None, 0)


def test_one_that_never_ends_is_listed_with_what_it_gave(memo: ResponseCache) -> None:
    says: Says = {"first": [cut(lines(ROY)[:-4] + "\nentity<|>")], "rest": [cut(lines(OBAN)[:-4] + "\nentity")]}
    names, failure, talker = read(memo, says)
    assert names == ["Ines Roy", "Oban"]
    assert talker.turns == {"first": 1, "rest": 3}
    assert "max_tokens" in str(failure)


def test_one_that_breaks_off_before_its_first_record_is_asked_again(memo: ResponseCache) -> None:
    names, failure, talker = read(memo, {"first": [cut("Well, let me see"), lines(ROY)]})
    assert (names, failure) == (["Ines Roy"], None)
    assert "broke off" in talker.given[1][0][-1]["content"]


def test_a_reply_without_a_record_or_an_end_is_asked_again_and_then_fails(memo: ResponseCache) -> None:
    names, failure, talker = read(memo, {"first": ["I cannot help with that."]})
    assert (names, talker.turns) == ([], {"first": 3})
    assert "no record" in str(failure)


def test_broken_lines_are_asked_for_once_more(memo: ResponseCache) -> None:
    says = {"first": [lines(ROY, ("entity", "Oban"), ("relation", "Ines Roy"), AYR)], "mend": [lines(OBAN, TIE)]}
    names, failure, talker = read(memo, says)
    assert (names, failure) == (["Ines Roy", "Ayr", "Oban", "Ines Roy"], None)
    assert "\nentity<|>Oban\nrelation<|>Ines Roy\n" in talker.given[1][0][-1]["content"]
    assert talker.turns == {"first": 1, "mend": 1}


def test_lines_that_stay_broken_cost_nothing_whole(memo: ResponseCache) -> None:
    says = {"first": [lines(ROY, ("entity", "Oban"))], "mend": [lines(("entity", "Oban"), AYR)]}
    names, failure, talker = read(memo, says)
    assert (names, talker.turns) == (["Ines Roy"], {"first": 1, "mend": 3})
    assert "entity<|>Oban" in str(failure)
    names, failure, _ = read(memo, {**says, "mend": ["Sorry."]}, types=("other",))
    assert names == ["Ines Roy"]
    assert failure


def test_gleaning_checks_first_and_loses_nothing(memo: ResponseCache) -> None:
    says = {"first": [lines(ROY)], "check": ["No.", "**Yes**"], "more": [lines(OBAN, TIE), "never asked"]}
    names, failure, talker = read(memo, says, gleanings=5)
    assert (names, failure) == (["Ines Roy", "Oban", "Ines Roy"], None)
    assert talker.turns == {"first": 1, "check": 2, "more": 1}
    roles = [message["role"] for message in talker.given[-1][0]]
    assert roles == ["system", "user"] + ["assistant", "user"] * 3
    assert talker.given[-1][0][4] == {"role": "assistant", "content": "no"}


def test_nothing_is_gleaned_where_nothing_is_missing_or_nothing_more_comes(memo: ResponseCache) -> None:
    _, _, talker = read(memo, {"first": [lines(ROY)], "check": ["yes"]}, gleanings=3)
    assert talker.turns == {"first": 1, "check": 1}
    says = {"first": [lines(ROY)], "check": ["no"], "more": [lines(ROY)]}
    names, _, talker = read(memo, says, gleanings=3, types=("other",))
    assert (names, talker.turns) == (["Ines Roy"], {"first": 1, "check": 1, "more": 1})


def test_the_two_tokens_are_forced_where_both_are_known(memo: ResponseCache) -> None:
    says: Says = {"first": [lines(ROY)], "check": [cut("yes")]}
    _, failure, talker = read(memo, says, gleanings=1, yes=9891, no=2201)
    assert failure is None
    assert [given for _, given in talker.given] == [{}, {"logit_bias": {"9891": 100, "2201": 100}, "max_tokens": 1}]
    _, _, talker = read(memo, says, gleanings=1, yes=9891, types=("other",))
    assert [given for _, given in talker.given] == [{}, {}]


@pytest.mark.parametrize("says", [{"check": ["perhaps"]}, {"check": ["no"], "more": ["There is no more."]}])
def test_gleaning_that_fails_keeps_what_there_was(memo: ResponseCache, says: dict[str, list[str]]) -> None:
    names, failure, _ = read(memo, {"first": [lines(ROY, OBAN)], **says}, gleanings=1)
    assert names == ["Ines Roy", "Oban"]
    assert "cannot be read" in str(failure)


def test_a_cap_stays_a_cap(memo: ResponseCache) -> None:
    says = {"first": [lines(ROY)], "check": ["no"], "more": [lines(OBAN)]}
    names, failure, _ = read(memo, says, purse=Budget(Caps(calls=1)), gleanings=1)
    assert names == ["Ines Roy"]
    assert isinstance(failure, BudgetExceeded)


def test_claims_come_after_gleaning(memo: ResponseCache) -> None:
    claim = ("claim", "Oban", "NONE", "Growth", "TRUE", "2011", "NONE", "It grows.", "It grows")
    says = {"first": [lines(ROY)], "check": ["no"], "more": [lines(OBAN)], "claims": [lines(claim)]}
    names, failure, talker = read(memo, says, gleanings=1, claims=True, about="growth of towns")
    assert (names, failure) == (["Ines Roy", "Oban", "Oban"], None)
    assert talker.given[-1][0][-1]["content"].endswith("\n\nWhat to look for: growth of towns")
    assert talker.turns == {"first": 1, "check": 1, "more": 1, "claims": 1}


def test_it_says_how_many_turns_may_follow(memo: ResponseCache) -> None:
    told: list[int] = []

    class Told(CachedLLM):
        def __call__(self, prompt: Any, *, followups: int = 0, **more: Any) -> Any:
            told.append(followups)
            return CachedLLM.__call__(self, prompt, followups=followups, **more)

    says = {"first": [lines(ROY)], "check": ["no"], "more": [lines(OBAN), lines(AYR)]}
    settings: dict[str, Any] = {"types": (), "examples": "", "domain": "", "language": "", "yes": None, "no": None}
    extraction_llm.extract_records(CHUNK, Told(Talker(says), memo), gleanings=2, claims=True, **settings)
    assert told == [5, 4, 3, 2, 1, 0]
