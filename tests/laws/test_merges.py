"""Documents that change -> merged names: an update equals a fresh build."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.core.errors import StepError
from kumihimo.llm.protocols import NameRange
from tests.factories_graph_text import id
from tests.fixtures_index import fill, tables

SETTINGS = {"chunks": {"size": 20, "overlap": 0}}
OTHER = "Mary Vance came. Later Vance left the harbour of Otaru."
STORY = (
    "We met Martha Kerrow at the old harbour of Otaru in the rain. The boats were late. "
    "Later Kerrow left us alone there."
)
SECOND = f"{STORY} Nobody knew at first that Joss Kerrow had come with the last of the boats."


def build(home: Path, texts: Mapping[str, str], lines: Sequence[str] = ()) -> Kumihimo:
    """Return the updated index of these texts."""
    fill(home, {**{f"notes/{name}": text for name, text in texts.items()}, "aliases.txt": "\n".join(lines)})
    kumi = Kumihimo.open(home / ".kumi", settings=SETTINGS)
    kumi.index(home / "notes", methods=["local"])
    return kumi


def names(kumi: Kumihimo) -> set[str]:
    with kumi.snapshot() as snapshot:
        return {entity.name for entity in snapshot.table("entities")}


def test_a_second_full_name_undoes_a_merge_and_its_removal_restores_it(tmp_path: Path) -> None:
    with build(tmp_path / "kept", {"a.txt": STORY, "b.txt": OTHER}) as kumi:
        before = tables(kumi)
        assert names(kumi) == {"Martha Kerrow", "Otaru", "Mary Vance"}
        assert len(before["chunks"]) > len(before["documents"])  # the two names are in two chunks
    with (
        build(tmp_path / "kept", {"a.txt": SECOND, "b.txt": OTHER}) as kumi,
        build(tmp_path / "fresh", {"a.txt": SECOND, "b.txt": OTHER}) as fresh,
    ):
        assert names(kumi) == {"Martha Kerrow", "Joss Kerrow", "Kerrow", "Otaru", "Mary Vance"}
        assert strip(tables(kumi)) == strip(tables(fresh))
    with build(tmp_path / "kept", {"a.txt": STORY, "b.txt": OTHER}) as kumi:
        assert strip(tables(kumi)) == strip(before)


def strip(held: dict[str, list[list[object]]]) -> dict[str, list[list[object]]]:
    """Return the tables that the graph is made of."""
    return {name: held[name] for name in ("names", "merges", "mentions", "ties", "entities", "relations")}


def test_a_changed_document_resolves_only_its_own_names(tmp_path: Path) -> None:
    build(tmp_path, {"a.txt": STORY, "b.txt": OTHER}).close()
    with build(tmp_path, {"a.txt": STORY, "b.txt": f"{OTHER} Hugo Vance came too."}) as kumi:
        assert names(kumi) == {"Martha Kerrow", "Otaru", "Mary Vance", "Hugo Vance", "Vance"}


def test_a_line_undoes_a_merge_and_without_it_the_merge_is_back(tmp_path: Path) -> None:
    texts = {"a.txt": STORY}
    with build(tmp_path, texts) as kumi:
        before = strip(tables(kumi))
    with build(tmp_path, texts, ["Kerrow != Martha Kerrow"]) as kumi:
        assert names(kumi) == {"Martha Kerrow", "Kerrow", "Otaru"}
    with build(tmp_path, texts, ["Old Kerrow = Kerrow"]) as kumi:
        assert names(kumi) == {"Martha Kerrow", "Old Kerrow", "Otaru"}
    with build(tmp_path, texts) as kumi:
        assert strip(tables(kumi)) == before


def test_a_line_about_one_document_takes_a_name_apart_there(tmp_path: Path) -> None:
    texts = {"a.txt": "Kerrow came to Otaru.", "b.txt": "Kerrow left Otaru."}
    with build(tmp_path, texts) as kumi:
        before = strip(tables(kumi))
    with build(tmp_path, texts, ["Joss Kerrow = Kerrow @ notes/b.txt"]) as kumi, kumi.snapshot() as snapshot:
        ids = {entity.id: entity.mentions for entity in snapshot.table("entities")}
        assert (ids[id("Joss Kerrow")], ids[id("Kerrow")]) == (1, 1)
    with build(tmp_path, texts) as kumi:
        assert strip(tables(kumi)) == before


EDITS = (
    (["Captain Kerrow = Martha Kerrow"], "entities", {"Captain Kerrow", "Mary Vance", "Otaru"}),
    (["type: Otaru = harbour"], "types", {("Otaru", "harbour")}),
    (["delete: Mary Vance"], "entities", {"Martha Kerrow", "Otaru"}),
    (["delete: Otaru"], "relations", set[object]()),
    (["no relation: Mary Vance -> Otaru"], "relations", {("Martha Kerrow", "Otaru")}),
    (["relation: Mary Vance -> Otaru = She left it."], "texts", {"She left it."}),
    (["relation: Mary Vance -> Martha Kerrow @ notes/b.txt = They met."], "texts", {"They met."}),
    (["The Vances = Mary Vance @ notes/b.txt"], "entities", {"Martha Kerrow", "The Vances", "Otaru"}),
)


@pytest.mark.parametrize(("lines", "part", "expected"), EDITS)
def test_edits_and_a_rebuild_equal_a_fresh_build_and_an_undo(
    lines: list[str], part: str, expected: set[object], tmp_path: Path
) -> None:
    texts = {"a.txt": STORY, "b.txt": OTHER}
    with build(tmp_path / "kept", texts) as kumi:
        before = tables(kumi)
    with build(tmp_path / "kept", texts, lines) as kumi, build(tmp_path / "fresh", texts, lines) as fresh:
        assert strip(tables(kumi)) == strip(tables(fresh)) != strip(before)
        assert kumi.status().unmatched == ()
        with kumi.snapshot() as snapshot:
            entities, relations = list(snapshot.table("entities")), list(snapshot.table("relations"))
            ends = {end for relation in relations for end in (relation.source, relation.target)}
            assert ends <= {entity.id for entity in entities}
            shown = {
                "entities": {entity.name for entity in entities},
                "types": {(entity.name, entity.type) for entity in entities},
                "relations": {tuple(sorted(relation.names)) for relation in relations},
                "texts": {relation.text for relation in relations},
            }[part]
        assert shown == expected if part in ("entities", "relations") else shown >= expected
    with build(tmp_path / "kept", texts) as kumi:
        kumi.index(recluster=True)
        assert strip(tables(kumi)) == strip(before)


def test_a_relation_of_an_entity_with_itself_matches_nothing(tmp_path: Path) -> None:
    lines = ["Otaru = Mary Vance", *(f"relation: Mary Vance -> Otaru{place} = x" for place in ("", " @ notes/b.txt"))]
    with build(tmp_path, {"a.txt": STORY, "b.txt": OTHER}, lines) as kumi, kumi.snapshot() as snapshot:
        assert [each for each in snapshot.table("relations") if each.source == each.target or each.text == "x"] == []
        assert kumi.status().unmatched == tuple(lines[1:])


def test_edits_hold_for_rows_of_visible_documents_alone(tmp_path: Path) -> None:
    lines = ["Port Otaru = Otaru", "type: Otaru = harbour", "relation: Martha Kerrow -> Otaru = She met us there."]
    build(tmp_path, {"a.txt": STORY, "b.txt": OTHER}, lines).close()
    with Kumihimo(tmp_path / ".kumi") as kumi:  # its settings have no lines
        for rights, relations in (('title = "a"', ["She met us there."]), ('title = "b"', [OTHER.rpartition(". ")[2]])):
            with kumi.snapshot(rights=rights) as snapshot:
                entities = {entity.name: entity.type for entity in snapshot.table("entities")}
                assert entities["Port Otaru"] == "harbour"
                assert [relation.text for relation in snapshot.table("relations")] == relations


def test_lines_that_match_nothing_are_named(tmp_path: Path) -> None:
    lost = [
        "delete: Nobody Known",
        "type: Nobody = person",
        "no relation: Martha Kerrow -> Nobody",
        "relation: Martha Kerrow -> Mary Vance = They met.",
        "Martha Kerrow = Lost Name",
        "Nobody != Someone",
    ]
    with build(tmp_path, {"a.txt": STORY, "b.txt": OTHER}, [*lost, "delete: Otaru"]) as kumi:
        assert kumi.status().unmatched == tuple(lost)
        assert kumi.index().unmatched == tuple(lost)
        assert kumi.status(rights='title = "a"').unmatched == ()


class BoatNames:
    """An NER model that knows two boats and a person, and counts the sentences it reads."""

    fingerprint = "boats-1"

    def __init__(self) -> None:
        self.sentences = 0

    def __call__(self, texts: Sequence[str]) -> list[Iterable[NameRange]]:
        self.sentences += len(texts)
        known = {"grey dorrit": "boat", "old tern": "boat", "hild garrow": "person", "garrow": "person"}
        ranges = (
            [(text.find(name), text.find(name) + len(name), kind) for name, kind in known.items()] for text in texts
        )
        return [[(start, end, kind) for start, end, kind in found if start >= 0][:1] for found in ranges]


def test_an_ner_model_finds_the_names_in_place_of_the_rules_once(tmp_path: Path) -> None:
    text = "the grey dorrit met Otaru.\n\nhild garrow saw it.\n\nthen garrow left."
    fill(tmp_path, {"notes/a.txt": text})
    model = BoatNames()
    for _ in range(2):
        with Kumihimo.open(tmp_path / ".kumi", recognizer=model) as kumi:
            kumi.index(tmp_path / "notes", methods=["local"])
            assert names(kumi) == {"grey dorrit", "hild garrow"}
            assert kumi.status().models["names"] == "boats-1"
            with kumi.snapshot() as snapshot:
                assert {entity.type for entity in snapshot.table("entities")} == {"boat", "person"}
    assert model.sentences == 3
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index()
        assert names(kumi) == {"Otaru"}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (lambda texts: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda texts: None, "TypeError: 'NoneType' object is not iterable"),
        (lambda texts: [["Otaru"] for _ in texts], r"TypeError: .*"),
        (lambda texts: [[]] * (len(texts) - 1), r"ValueError: zip\(\) argument 2 is shorter than argument 1"),
        (
            lambda texts: [[(0, 99999, "place")] for _ in texts],
            r"\(0, 99999, 'place'\) for a sentence of 1\d characters",
        ),
        (lambda texts: [[(-5, 3, "place")] for _ in texts], r"\(-5, 3, 'place'\) for"),
        (lambda texts: [[(3, 3, "place")] for _ in texts], r"\(3, 3, 'place'\) for"),
    ],
)
def test_an_ner_model_that_fails_is_named(found: Callable[[Sequence[str]], Any], message: str, tmp_path: Path) -> None:
    fill(tmp_path, {"notes/a.txt": "We met Otaru.\n\nThen we left."})
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(tmp_path / "notes", methods=["local"])

    class Model:
        fingerprint = "broken-1"

        def __call__(self, texts: Sequence[str]) -> Any:
            return found(texts)

    with (
        Kumihimo.open(tmp_path / ".kumi", recognizer=Model()) as kumi,
        pytest.raises(
            StepError, match=rf"the NER model broken-1 failed for 2 sentences \(.*{message}.*\): it has to return"
        ),
    ):
        kumi.index()
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        assert names(kumi) == {"Otaru"}


def test_what_is_no_ner_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StepError, match="is no NER model: it needs a `fingerprint`"):
        Kumihimo.open(tmp_path / ".kumi", recognizer=print)  # type: ignore[arg-type]
