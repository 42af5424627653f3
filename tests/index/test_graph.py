"""mentions of one entity or pair -> one row: descriptions without repetition, in the order of their documents."""

from __future__ import annotations

from typing import Any

import pytest

from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Entity, Mention, RelationMention
from kumihimo.core.table import Group, Table
from kumihimo.index.chunk_background import Description
from kumihimo.index.graph import entities, relations
from kumihimo.index.imports import ImportedDescription
from tests.index.factories_rows import Lookups, WordTokenizer, table

NO_IMPORTS = table("imported_descriptions", ImportedDescription, [])
DATES = {"a": ("2024-05-02",), "b": ("--03", "2023-11"), "c": ()}


def dated(lookups: Lookups | None = None) -> Table[Description]:
    rows = [Description(dates, id=id) for id, dates in DATES.items()]
    return table("descriptions", Description, rows, lookups)


def merge(*texts: tuple[str, str], llm: Any = None, lookups: Lookups | None = None, limit: int = 600) -> Entity:
    """Return the entity of mentions, each a document and a text."""
    mentions = [
        Mention("e", "Ann", "", id=f"{document}.00000.{n:05}", text=text) for n, (document, text) in enumerate(texts)
    ]
    return entities(Group(mentions), dated(lookups), NO_IMPORTS, WordTokenizer(), llm, description_tokens=limit)


class Merger:
    """A model that records what it merges."""

    fingerprint = "model"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def __call__(self, messages: Any, **_: Any) -> str:
        self.prompts.append(messages[-1]["content"])
        return f"merged {len(self.prompts)}"


@pytest.mark.parametrize("llm", [None, Merger()])
def test_a_text_that_another_contains_is_dropped(llm: Any) -> None:
    merged = merge(
        ("c", "Ann mends boats"), ("c", "In May ann  mends boats."), ("c", "Anna left."), ("c", "Ann"), llm=llm
    )
    assert merged.text == "Anna left.\nIn May ann  mends boats."
    assert merged.mentions == 4


def test_texts_are_in_the_order_of_their_documents() -> None:
    texts = [("c", "Ann is dead."), ("a", "Ann is old."), ("b", "Ann is young."), ("d", "Ann is unknown.")]
    expected = "Ann is young.\nAnn is old.\nAnn is dead.\nAnn is unknown."
    assert merge(*texts).text == merge(*reversed(texts)).text == expected
    assert merge(*texts, ("b", "Ann is dead.")).text.startswith("Ann is dead.")  # the older document counts


def test_dates_are_read_where_they_can_make_a_difference() -> None:
    lookups: Lookups = []
    merge(("a", "Ann."), ("b", "Ann."), lookups=lookups)
    merge(("a", "Ann left."), ("a", "Ann came."), lookups=lookups)
    assert not lookups
    merge(("a", "Ann left."), ("b", "Ann came."), lookups=lookups)
    assert [values for _, _, values in lookups] == [("a",), ("b",)]


def test_a_model_merges_what_is_too_long_after_dropping() -> None:
    llm = Merger()
    short = [("a", "one two three"), ("b", "one two three four"), ("b", "two three")]
    assert merge(*short, llm=llm, limit=4).text == "one two three four"
    assert not llm.prompts
    assert merge(("a", "later words"), ("b", "earlier words are here"), llm=llm, limit=4).text == "merged 1"
    assert "- 2023-11: earlier words are here\n- 2024-05-02: later words" in llm.prompts[0]
    merge(("c", "no date here"), ("c", "and none here"), llm=llm, limit=4)
    assert "\n- and none here\n- no date here\n" in llm.prompts[1]


def test_few_words_get_no_merge_of_their_own() -> None:
    texts = [("a", f"{n} " + "word " * 4) for n in range(60)]
    llm = Merger()
    merged = merge(*texts, llm=llm, limit=50)
    sizes = [len(prompt.partition("\n- ")[2].split()) for prompt in llm.prompts]
    assert len(sizes) > 1
    assert min(sizes) >= 30
    assert len(merged.text.split()) <= 50


def test_a_failed_merge_keeps_the_texts() -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise ItemFailed("(503)")

    with pytest.raises(ItemFailed) as failure:
        merge(("a", "later words"), ("b", "earlier words are here"), llm=fail, limit=4)
    (row,) = failure.value.fallback
    assert row.text == "earlier words are here\nlater words"


def test_imported_descriptions_are_not_merged_again() -> None:
    mentions = [Mention("e", "Ann", "", id=f"a.0000{n}.00000") for n in range(2)]
    texts = [f"Ann number {n} pays for the cords of the harbour." for n in range(3)]
    rows = [ImportedDescription("e", ("a",), id=f"a.00000.0000{n}", text=text) for n, text in enumerate(texts)]
    imported = table("imported_descriptions", ImportedDescription, rows)
    merger: Any = Merger()
    entity = entities(Group(mentions), dated(), imported, WordTokenizer(), merger, description_tokens=10)
    assert (entity.text, entity.mentions) == ("\n".join(texts), 2)
    assert merger.prompts == []
    told = [*mentions, Mention("e", "Ann", "", id="b.00000.00000", text="Ann lends a boat.")]
    entities(Group(told), dated(), imported, WordTokenizer(), merger, description_tokens=10)
    assert merger.prompts


def test_relations_are_merged_in_the_same_way() -> None:
    ties = [
        RelationMention("r", "e", "f", ("Ann", "Bob"), id=f"{document}.00000.00000", text=text)
        for document, text in (("a", "Ann paid Bob."), ("b", "Ann met Bob."), ("c", "Ann met"))
    ]
    merged = relations(Group(ties), dated(), NO_IMPORTS, WordTokenizer(), None)
    assert (merged.text, merged.weight) == ("Ann met Bob.\nAnn paid Bob.", 3)
