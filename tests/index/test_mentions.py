"""a chunk -> mentions, ties, assertions: the rows of one conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Chunk
from kumihimo.index.mentions import ExtractionSettings, assertions, mentions, ties
from kumihimo.llm.cached_llm import create_llm
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.text import name_keys
from tests.fenced_texts import fenced_text
from tests.index.factories_names import inputs
from tests.index.scripted_llm import ScriptedChat, record_lines

CHUNK = Chunk(id="d.00000", title="", start=0, end=9, tokens=600, text="Ines Roy lives in Oban.")
INPUTS = inputs(CHUNK)
CLAIM_INPUTS = (*INPUTS[:2], *INPUTS[3:])
FIRST_REPLY = record_lines(
    ("entity", "Ines Roy", " Person ", "A captain."),
    ("entity", "Ines Roy", "person", "A captain."),
    ("entity", "Oban", "PLACE", "A port."),
    ("relation", "Oban", "Ines Roy", "She lives there.", "home", "7"),
    ("relation", "Ines Roy", "OBAN", "She lives there.", "home", "7"),
    ("relation", "The Oban", "Oban", "the same", "same", "9"),
    ("relation", "Oban", "Hebrides Lines", "It has an office there.", "", "5"),
)
MORE_REPLY = record_lines(
    ("entity", "Captain Roy", "person", "Ines Roy."), ("relation", "Oban", "Ines Roy", "She lives there.", "home", "7")
)
CLAIMS_REPLY = record_lines(
    ("claim", "Ines Roy", "Oban", "Residence ", "TRUE", "2011", "NONE", "She lives there.", "lives in Oban"),
    ("claim", "Captain Roy", "NONE", "residence", "SUSPECTED", "NONE", "NONE", "She lives.", "lives"),
)
REPLIES = {"first": [FIRST_REPLY], "more": [MORE_REPLY], "claims": [CLAIMS_REPLY]}


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    cache = ResponseCache(tmp_path / "cache.db")
    yield cache
    cache.close()


def id_of_name(name: str) -> str:
    return name_keys.entity_id(name_keys.name_key(name))


def test_a_mention_for_each_entity_and_for_ends_that_are_none(cache: ResponseCache) -> None:
    rows = mentions(*INPUTS, create_llm(ScriptedChat(REPLIES), cache))
    assert [(row.entity, row.name, row.type, row.text) for row in rows] == [
        (id_of_name("Ines Roy"), "Ines Roy", "person", "A captain."),
        (id_of_name("Oban"), "Oban", "place", "A port."),
        (id_of_name("Hebrides Lines"), "Hebrides Lines", "", ""),
        (id_of_name("Captain Roy"), "Captain Roy", "person", "Ines Roy."),
    ]


def test_a_tie_for_each_relation_the_smaller_id_first(cache: ResponseCache) -> None:
    rows = list(ties(*INPUTS, create_llm(ScriptedChat(REPLIES), cache)))
    residence, other_form, office = rows
    for row in rows:
        assert row.source < row.target
        assert [id_of_name(name) for name in row.names] == [row.source, row.target]
        assert row.relation == name_keys.relation_id(row.source, row.target)
    assert set(residence.names) == {"Ines Roy", "Oban"}
    assert (residence.text, residence.keywords, residence.strength) == ("She lives there.", ("home",), 7.0)
    assert (set(other_form.names), other_form.relation) == ({"Ines Roy", "OBAN"}, residence.relation)
    assert (set(office.names), office.keywords, office.strength) == ({"Oban", "Hebrides Lines"}, (), 5.0)


def test_aliases_are_the_same_entity(cache: ResponseCache) -> None:
    aliases = ("Ines Roy = Captain Roy = Hebrides Lines",)
    rows = list(mentions(*INPUTS, create_llm(ScriptedChat(REPLIES), cache), aliases=aliases))
    assert [row.name for row in rows if row.entity == id_of_name("Ines Roy")] == ["Ines Roy", "Captain Roy"]
    relations = {row.relation for row in ties(*INPUTS, create_llm(ScriptedChat(REPLIES), cache), aliases=aliases)}
    assert relations == {name_keys.relation_id(id_of_name("Ines Roy"), id_of_name("Oban"))}


def test_an_assertion_for_each_claim(cache: ResponseCache) -> None:
    rows = list(assertions(*CLAIM_INPUTS, create_llm(ScriptedChat(REPLIES), cache), claims=True))
    first, second = rows
    assert first.claim == hash_parts(id_of_name("Ines Roy"), id_of_name("Oban"), "residence")
    assert (first.subject, first.object, first.names) == (
        id_of_name("Ines Roy"),
        id_of_name("Oban"),
        ("Ines Roy", "Oban"),
    )
    assert (first.type, first.status, first.start, first.end) == ("residence", "TRUE", "2011", "")
    assert (first.text, first.quote) == ("She lives there.", "lives in Oban")
    assert (second.claim, second.names) == (hash_parts(id_of_name("Captain Roy"), "", "residence"), ("Captain Roy",))


def test_without_claims_nobody_is_asked_for_them(cache: ResponseCache) -> None:
    chat = ScriptedChat(REPLIES)
    assert list(assertions(*CLAIM_INPUTS, create_llm(chat, cache))) == []
    assert list(assertions(*CLAIM_INPUTS, None, claims=True)) == []
    assert not chat.requests


def test_all_steps_share_one_conversation_which_claims_prolong(cache: ResponseCache) -> None:
    chat = ScriptedChat(REPLIES)
    llm = create_llm(chat, cache)
    list(mentions(*INPUTS, llm))
    list(ties(*INPUTS, llm))
    list(assertions(*CLAIM_INPUTS, llm))
    assert chat.turns == {"first": 1, "more": 1}
    list(assertions(*CLAIM_INPUTS, llm, claims=True))
    assert chat.turns == {"first": 1, "more": 1, "claims": 1}
    assert set(Counter(chat.prompts).values()) == {1}


def test_what_was_read_before_a_failure_is_kept(cache: ResponseCache) -> None:
    llm = create_llm(ScriptedChat({**REPLIES, "more": ["Sorry."], "claims": ["Sorry."]}), cache)
    with pytest.raises(ItemFailed) as error:
        mentions(*INPUTS, llm)
    assert [getattr(row, "name", "") for row in error.value.fallback] == ["Ines Roy", "Oban", "Hebrides Lines"]
    with pytest.raises(ItemFailed) as error:
        ties(*INPUTS, llm)
    assert len(error.value.fallback) == 3
    with pytest.raises(ItemFailed) as error:
        assertions(*CLAIM_INPUTS, llm, claims=True)
    assert error.value.fallback == ()


def test_a_chunk_of_which_nothing_can_be_read_is_listed(cache: ResponseCache) -> None:
    with pytest.raises(ItemFailed) as error:
        mentions(*INPUTS, create_llm(ScriptedChat({"first": ["Sorry."]}), cache))
    assert error.value.fallback == ()


DOCUMENT = "Ines Roy runs a ferry. It leaves Oban at nine. Hebrides Lines owns it. Kit Roake mends it."
BODY = Chunk(id="d.00000", title="", start=0, end=70, tokens=20, text=DOCUMENT[:70])
TAIL = Chunk(id="d.00001", title="", start=47, end=90, tokens=10, text=DOCUMENT[47:])
TAIL_REPLY = record_lines(
    ("entity", "Ines Roy", "person", "A captain."),
    ("entity", "Hebrides Lines", "organization", "An owner."),
    ("entity", "Kit Roake", "person", "A mechanic."),
    ("relation", "Kit Roake", "Hebrides Lines", "He mends its ferry.", "repair", "7"),
    ("relation", "Ines Roy", "Kit Roake", "Both have to do with the ferry.", "ferry", "2"),
)


def test_a_last_chunk_that_mostly_repeats_is_read_with_the_one_before(cache: ResponseCache) -> None:
    chat = ScriptedChat({"first": [TAIL_REPLY]})
    llm = create_llm(chat, cache)
    of_body, of_tail = inputs(BODY, TAIL), inputs(TAIL, BODY)
    names = [[row.name for row in mentions(*each, llm)] for each in (of_body, of_tail)]
    assert names == [["Ines Roy", "Hebrides Lines", "Kit Roake"], ["Hebrides Lines", "Kit Roake"]]
    assert [[row.text for row in ties(*each, llm)] for each in (of_body, of_tail)] == [
        ["Both have to do with the ferry."],
        ["He mends its ferry."],
    ]
    assert chat.turns == {"first": 1}
    assert fenced_text(chat.requests[0][0][-1]["content"], "text") == DOCUMENT


def test_known_entities_are_recognised_with_and_without_a_model(cache: ResponseCache) -> None:
    extraction = ExtractionSettings(
        known_entities=("Oban = the harbour town | port | A port in the west.", "Ayr | place", "Ines Roy | captain")
    )
    text = "Ines Roy lives in the harbour town."
    read = inputs(replace(CHUNK, text=text))
    reply = record_lines(("entity", "Ines Roy", "person", "She lives there."), ("entity", "Oban", "place", "A town."))
    chat = ScriptedChat({"first": [reply]})
    for llm in (create_llm(chat, cache), None):
        rows = list(mentions(*read, llm, extraction=extraction))
        kinds = {row.entity: row.type for row in rows}
        assert kinds == {id_of_name("Oban"): "port", id_of_name("Ines Roy"): "captain"}
        assert ("Oban", "A port in the west.") in [(row.name, row.text) for row in rows]
    shown = fenced_text(chat.requests[0][0][-1]["content"], "known_names")
    assert shown == "Oban = the harbour town | port | A port in the west.\nInes Roy | captain"


def test_a_type_of_relation_holds_only_between_the_allowed_types(cache: ResponseCache) -> None:
    extraction = ExtractionSettings(relation_types=("lives_in: person > place", "knows"))
    reply = record_lines(
        ("entity", "Ines Roy", "person", "A captain."),
        ("entity", "Oban", "place", "A port."),
        ("entity", "Kit Roake", "person", "A mechanic."),
        ("relation", "Ines Roy", "Oban", "She lives there.", "Lives in, home", "7"),
        ("relation", "Kit Roake", "Ines Roy", "They know each other.", "lives_in, knows, work", "5"),
        ("relation", "Kit Roake", "The Moon", "He looks at it.", "lives_in, sky", "5"),
    )
    chat = ScriptedChat({"first": [reply]})
    rows = ties(*INPUTS, create_llm(chat, cache), extraction=extraction)
    assert [row.keywords for row in rows] == [("Lives in", "home"), ("knows", "work"), ("sky",)]
    system = chat.requests[0][0][0]["content"]
    assert "the type of the relation" in system
    assert "  - lives_in: person > place\n  - knows\n" in system
