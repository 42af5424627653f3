"""What a method finds has a place, for people and programs."""

from __future__ import annotations

import json

from kumihimo import Kumihimo
from kumihimo.integrations.found_texts import Search, find_texts

QUESTION = "Who drew the tide gates?"


def test_texts_have_places(harbour: Kumihimo) -> None:
    found = find_texts(harbour, QUESTION, Search("bm25", k=1))
    (best,) = found
    assert "Maren Oldacre" in best.text
    assert best.id.startswith("chunks/")
    assert best.metadata["location"].startswith(best.metadata["uri"])
    assert best.metadata["end"] > best.metadata["start"] >= 0
    json.dumps(best.metadata)


def test_a_search_is_narrowed(harbour: Kumihimo) -> None:
    everything = find_texts(harbour, QUESTION, Search("bm25"))
    assert len(everything) > 1
    uri = everything[0].metadata["uri"]
    narrowed = find_texts(harbour, QUESTION, Search("bm25", filter=f'uri = "{uri}"'))
    assert {each.metadata["uri"] for each in narrowed} == {uri}
    assert find_texts(harbour, QUESTION, Search("bm25", rights='uri = "nothing"')) == []
    assert len(find_texts(harbour, QUESTION, Search("bm25", settings={"k": 1}))) == 1
