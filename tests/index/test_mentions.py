"""A chunk -> mentions, ties, assertions: the rows that come of one conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Chunk
from kumihimo.index.mentions import assertions, mentions, ties
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.text import name_keys
from tests.index.scripted_llm import Talker, lines

CHUNK = Chunk(id="d.00000", title="", start=0, end=9, tokens=3, text="Ines Roy lives in Oban.")
FIRST = lines(
    ("entity", "Ines Roy", " Person ", "A captain."),
    ("entity", "Ines Roy", "person", "A captain."),
    ("entity", "Oban", "PLACE", "A port."),
    ("relation", "Oban", "Ines Roy", "She lives there.", "home", "7"),
    ("relation", "Ines Roy", "OBAN", "She lives there.", "home", "7"),
    ("relation", "The Oban", "Oban", "the same", "same", "9"),
    ("relation", "Oban", "Hebrides Lines", "It has an office there.", "", "5"),
)
MORE = lines(
    ("entity", "Captain Roy", "person", "Ines Roy."), ("relation", "Oban", "Ines Roy", "She lives there.", "home", "7")
)
CLAIMS = lines(
    ("claim", "Ines Roy", "Oban", "Residence ", "TRUE", "2011", "NONE", "She lives there.", "lives in Oban"),
    ("claim", "Captain Roy", "NONE", "residence", "SUSPECTED", "NONE", "NONE", "She lives.", "lives"),
)
SAYS = {"first": [FIRST], "check": ["no"], "more": [MORE], "claims": [CLAIMS]}


@pytest.fixture
def memo(tmp_path: Path) -> Iterator[ResponseCache]:
    memo = ResponseCache(tmp_path / "cache.db")
    yield memo
    memo.close()


def id_of(name: str) -> str:
    return name_keys.entity_id(name_keys.name_key(name))


def test_a_mention_for_each_entity_and_for_ends_that_are_none(memo: ResponseCache) -> None:
    found = mentions(CHUNK, CachedLLM(Talker(SAYS), memo))
    assert [(one.entity, one.name, one.type, one.text) for one in found] == [
        (id_of("Ines Roy"), "Ines Roy", "person", "A captain."),
        (id_of("Oban"), "Oban", "place", "A port."),
        (id_of("Hebrides Lines"), "Hebrides Lines", "", ""),
        (id_of("Captain Roy"), "Captain Roy", "person", "Ines Roy."),
    ]


def test_a_tie_for_each_relation_the_smaller_id_first(memo: ResponseCache) -> None:
    found = list(ties(CHUNK, CachedLLM(Talker(SAYS), memo)))
    lives, forms, office = found
    for one in found:
        assert one.source < one.target
        assert [id_of(name) for name in one.names] == [one.source, one.target]
        assert one.relation == name_keys.relation_id(one.source, one.target)
    assert set(lives.names) == {"Ines Roy", "Oban"}
    assert (lives.text, lives.keywords, lives.strength) == ("She lives there.", ("home",), 7.0)
    assert (set(forms.names), forms.relation) == ({"Ines Roy", "OBAN"}, lives.relation)
    assert (set(office.names), office.keywords, office.strength) == ({"Oban", "Hebrides Lines"}, (), 5.0)


def test_aliases_are_the_same_entity(memo: ResponseCache) -> None:
    aliases = ("Ines Roy = Captain Roy = Hebrides Lines",)
    found = list(mentions(CHUNK, CachedLLM(Talker(SAYS), memo), aliases=aliases))
    assert [one.name for one in found if one.entity == id_of("Ines Roy")] == ["Ines Roy", "Captain Roy"]
    relations = {one.relation for one in ties(CHUNK, CachedLLM(Talker(SAYS), memo), aliases=aliases)}
    assert relations == {name_keys.relation_id(id_of("Ines Roy"), id_of("Oban"))}


def test_an_assertion_for_each_claim(memo: ResponseCache) -> None:
    found = list(assertions(CHUNK, CachedLLM(Talker(SAYS), memo), claims=True))
    lives, alone = found
    assert lives.claim == hash_parts(id_of("Ines Roy"), id_of("Oban"), "residence")
    assert (lives.subject, lives.object, lives.names) == (id_of("Ines Roy"), id_of("Oban"), ("Ines Roy", "Oban"))
    assert (lives.type, lives.status, lives.start, lives.end) == ("residence", "TRUE", "2011", "")
    assert (lives.text, lives.quote) == ("She lives there.", "lives in Oban")
    assert (alone.claim, alone.names) == (hash_parts(id_of("Captain Roy"), "", "residence"), ("Captain Roy",))


def test_without_claims_nobody_is_asked_for_them(memo: ResponseCache) -> None:
    talker = Talker(SAYS)
    assert list(assertions(CHUNK, CachedLLM(talker, memo))) == []
    assert list(assertions(CHUNK, None, claims=True)) == []
    assert not talker.given


def test_all_steps_share_one_conversation_which_claims_prolong(memo: ResponseCache) -> None:
    talker = Talker(SAYS)
    ask = CachedLLM(talker, memo)
    for step in (mentions, ties, assertions):
        list(step(CHUNK, ask))
    assert talker.turns == {"first": 1, "check": 1, "more": 1}
    list(assertions(CHUNK, ask, claims=True))
    assert talker.turns == {"first": 1, "check": 1, "more": 1, "claims": 1}
    assert set(Counter(talker.prompts).values()) == {1}


def test_what_was_read_before_a_failure_is_kept(memo: ResponseCache) -> None:
    ask = CachedLLM(Talker({**SAYS, "more": ["Sorry."], "claims": ["Sorry."]}), memo)
    with pytest.raises(ItemFailed) as failed:
        mentions(CHUNK, ask)
    assert [getattr(one, "name", "") for one in failed.value.fallback] == ["Ines Roy", "Oban", "Hebrides Lines"]
    with pytest.raises(ItemFailed) as failed:
        ties(CHUNK, ask)
    assert len(failed.value.fallback) == 3
    with pytest.raises(ItemFailed) as failed:
        assertions(CHUNK, ask, claims=True)
    assert failed.value.fallback == ()


def test_a_chunk_of_which_nothing_can_be_read_is_listed(memo: ResponseCache) -> None:
    with pytest.raises(ItemFailed) as failed:
        mentions(CHUNK, CachedLLM(Talker({"first": ["Sorry."]}), memo))
    assert failed.value.fallback == ()
