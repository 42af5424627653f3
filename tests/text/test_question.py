"""A question is parsed once, and says what its words mean."""

from __future__ import annotations

import pickle
import re
from unicodedata import normalize

import pytest
from hypothesis import given, strategies as st

from kumihimo.text import question as module
from kumihimo.text.dates import DATE_HINT, find_dates, list_dates
from kumihimo.text.question import MAX_QUESTION_CHARS, ParsedQuestion
from kumihimo.text.tokens import content_tokens, subject_terms


def test_each_reading_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def count(text: str) -> list[str]:
        calls.append(text)
        return content_tokens(text)

    monkeypatch.setattr(module, "content_tokens", count)
    asked = ParsedQuestion("Who mended the pier in May 1998?")
    for _ in range(2):
        assert asked.wording.tokens == ("mend", "pier", "may", "1998")
        assert (asked.kind, asked.topic, asked.subject, asked.has_content) == ("who", None, "", True)
    assert calls == [asked.text]


def test_dates_stand_apart_from_words() -> None:
    wording = ParsedQuestion("What did Nell Attery say on 3 May 1998 of episode 14?").wording
    assert list(wording.dates) == ["1998-05-03"]
    assert wording.term_text("1998-05-03") == "3 May 1998"
    assert [word.token for word in wording.words if word.is_name] == ["nell", "attery"]
    assert [wording.words[i].token for i in wording.labelled] == ["episode"]
    assert wording.term_text((2, 4)) == "Nell Attery"


@pytest.mark.parametrize(
    "text", ["昭和元年の予算", "五月三日の会議", "２０１９年のこと", "in October", "report_20190412"]
)
def test_dates_without_plain_digits_are_seen(text: str) -> None:
    assert ParsedQuestion(text).wording.dates


@given(st.text(alphabet="年月日号元昭和一五十〇三JanuaryMOctobeFd 01２/.-_", max_size=12))
def test_a_text_without_the_hint_has_no_date(text: str) -> None:
    normalized = normalize("NFKC", text)
    assert re.search(DATE_HINT, normalized) or not (list_dates(text) or any(find_dates(normalized)))


def test_terms_are_those_of_the_text() -> None:
    asked = ParsedQuestion("東門の鍵は　どこですか")
    assert asked.wording.subjects == frozenset(subject_terms(asked.text))
    assert asked.plain == "東門の鍵は どこですか"


@pytest.mark.parametrize(("text", "problem"), [(" \n", "is empty"), ("a" * (MAX_QUESTION_CHARS + 1), "10,000")])
def test_a_question_that_cannot_be_asked(text: str, problem: str) -> None:
    assert problem in ParsedQuestion(text).find_problem()
    assert not ParsedQuestion("Why?").find_problem()


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert ParsedQuestion("Wh\ud800y?").text == "Wh\ufffdy?"


def test_it_can_be_sent_to_a_process() -> None:
    asked = ParsedQuestion("Who is Maren Oldacre?")
    assert pickle.loads(pickle.dumps(asked)) == asked
