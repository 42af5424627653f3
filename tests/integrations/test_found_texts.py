"""What a method finds has a place, for people and programs, and the fields of its document."""

from __future__ import annotations

import json
from pathlib import Path

from kumihimo import Kumihimo
from kumihimo.core.digests import hash_parts
from kumihimo.core.spans import Span
from kumihimo.integrations.found_texts import Search, add_texts, describe_row, describe_span, find_evidence, row_name

QUESTION = "Who drew the tide gates?"


def test_texts_have_places(harbour: Kumihimo) -> None:
    found = find_evidence(harbour, QUESTION, Search("bm25", k=1))
    (best,) = found
    assert "Maren Oldacre" in best.text
    assert row_name(best).startswith("chunks/")
    metadata = describe_row(best)
    assert metadata["location"].startswith(metadata["uri"])
    assert metadata["end"] > metadata["start"] >= 0
    assert metadata["table"] == "chunks"
    json.dumps(metadata)


def test_a_search_is_narrowed(harbour: Kumihimo) -> None:
    everything = find_evidence(harbour, QUESTION, Search("bm25"))
    assert len(everything) > 1
    uri = describe_row(everything[0])["uri"]
    narrowed = find_evidence(harbour, QUESTION, Search("bm25", filter=f'uri = "{uri}"'))
    assert {describe_row(each)["uri"] for each in narrowed} == {uri}
    assert find_evidence(harbour, QUESTION, Search("bm25", rights='uri = "nothing"')) == []
    assert len(find_evidence(harbour, QUESTION, Search("bm25", settings={"k": 1}))) == 1


def test_the_fields_of_a_document_stand_beside_its_place(harbour: Kumihimo) -> None:
    (best,) = find_evidence(harbour, "Who built the frame?", Search("bm25", k=1))
    metadata = describe_row(best)
    assert (metadata["author"], metadata["year"], metadata["tags"]) == ("Sabine Orrell", 1983, ["bronze", "gates"])
    assert (metadata["place"], metadata["document_place"]) == ("line 7", "Orsay")


def test_texts_are_added_by_id_or_digest(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        ids = add_texts(kumi, [("net", "A net.", {"author": "Ada"}), (None, "A sail.", {}), ("", "A sail.", {})])
        assert ids == ["net", hash_parts("A sail."), hash_parts("A sail.")]
        assert add_texts(kumi, []) == []
        assert [kumi.remove(id).rows["documents"] for id in ids[:2]] == [1, 0]


def test_a_field_never_replaces_a_place() -> None:
    fields = {"uri": "x", "start": "never", "author": "Ada"}
    span = Span("c", "a.md", 3, 9, "words", "p. 2", "A", metadata=fields)
    place = {"uri": "a.md", "start": 3, "end": 9, "place": "p. 2", "title": "A", "location": "a.md, p. 2"}
    described = describe_span(span)
    assert {name: described[name] for name in place} == place
    assert (described["document_uri"], described["document_start"], described["author"]) == ("x", "never", "Ada")
