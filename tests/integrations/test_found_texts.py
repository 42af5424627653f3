"""What a method finds has a place, for people and programs."""

from __future__ import annotations

import json
from pathlib import Path

from kumihimo import Kumihimo, SeveralIndexes
from kumihimo.integrations.found_texts import Search, find_texts
from tests.fixtures_index import fill

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


def test_texts_of_several_indexes_name_theirs(harbour: Kumihimo, tmp_path: Path) -> None:
    fill(tmp_path / "files", {"oats.md": "# Oats\n\nThe oats of Orsay are tall."})
    with Kumihimo.open(tmp_path / ".kumi") as farm:
        farm.index(tmp_path / "files")
        both = SeveralIndexes({"harbour": harbour, "farm": farm})
        (best,) = find_texts(both, "Which oats are tall?", Search("bm25", k=1))
    assert (best.metadata["index"], best.metadata["location"]) == ("farm", "farm: files/oats.md, line 1")
