"""rows that a view shows in part -> found by what they show, with the scores of the stored index."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.table import Table, codec
from kumihimo.core.view_rows import PartialRows, ViewRows
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.storage.database import SqlRows
from tests.search.factories_search_index import Embed, Note, Notes, keyword_notes, mixed_texts, vector_notes

TEXTS = mixed_texts(300, seed=3)
QUESTIONS = ("sea fog", "sky", "port port ferry", "loom", "nothing of this")
SAME = {id: text for id, text in TEXTS.items() if id.endswith(("3", "7"))}  # partial, but shown as stored
Found = list[tuple[str, float]]


def search(index: Notes, question: str, k: int, partial: Mapping[str, str], **options: Any) -> Found:
    """Return the hits in a view in which some rows show other texts."""
    rows = {id: codec(Note).encode(id, Note(text=text)) for id, text in partial.items()}
    states = {id: id not in partial for id in TEXTS}
    remade = PartialRows(codec(Note).columns, lambda: states, lambda makers: [rows[maker] for maker in makers])
    with index.store.read_transaction() as db:
        view = ViewRows(SqlRows(db, "notes"), states.get, partial=remade)
        table = Table("notes", codec(Note), view, view=view)
        context: Any = index.search(db)(table, question, k=k, **options)
        assert all(item.record.text == partial.get(item.record.id, TEXTS[item.record.id]) for item in context)
        return [(item.record.id, item.score) for item in context]


@pytest.mark.parametrize("k", [1, 7, 1000])
def test_words_score_as_in_the_stored_index(tmp_path: Path, k: int) -> None:
    index = keyword_notes(tmp_path, TEXTS)
    for question in QUESTIONS:
        assert search(index, question, k, SAME) == index.search_notes(question, k)
    index.store.close()


@pytest.mark.parametrize("k", [1, 7, 1000])
def test_vectors_score_as_in_the_stored_index(tmp_path: Path, k: int) -> None:
    index = vector_notes(tmp_path, TEXTS, Embed(LocalEmbedder(), LocalEmbedder.fingerprint))
    for question in QUESTIONS:
        assert search(index, question, k, SAME) == index.search_notes(question, k)
        for candidate_ids in (sorted(TEXTS)[::2], sorted(SAME), []):
            found = search(index, question, k, SAME, candidate_ids=candidate_ids)
            assert found == [hit for hit in index.search_notes(question, 1000) if hit[0] in candidate_ids][:k]
    index.store.close()


def test_only_what_is_shown_is_found(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path / "words", TEXTS)
    shown = dict.fromkeys(SAME, "granite")
    assert {id for id, _ in search(index, "granite", 1000, shown)} == {*SAME}
    for question in QUESTIONS:
        assert not {id for id, _ in search(index, question, 1000, shown)} & {*SAME}
    assert search(index, "sea", 1000, {id: "" for id in TEXTS}) == []
    index.store.close()


def test_another_embedder_makes_no_vectors_of_partial_rows(tmp_path: Path) -> None:
    embed = Embed()
    index = vector_notes(tmp_path, TEXTS, embed)
    embed.texts.clear()
    expected = [hit for hit in index.search_notes("sea fog", 1000) if hit[0] not in SAME]
    assert search(index, "sea fog", 1000, SAME) == expected
    candidates = [*list(SAME)[:3], *(id for id, _ in expected[:2])]
    found = search(index, "sea fog", 1000, SAME, candidate_ids=candidates)
    assert found == [*expected[:2], *((id, 0.0) for id in sorted(SAME)[:3])]
    assert set(embed.texts) == {"sea fog"}
    index.store.close()
