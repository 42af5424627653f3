"""pdtb_senses.tsv -> the classes of the PDTB ontology."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kumihimo.index.pdtb_senses import (
    PDTB_ONTOLOGY,
    leaf_sense_labels,
    match_sense_label,
    parent_sense_labels,
    sense_subtree_labels,
    senses_by_label,
    senses_by_name,
)

DATA = Path(__file__).parents[3] / "shared" / "data" / "pdtb" / "classes.jsonl"


def test_every_class_is_there_as_the_ontology_has_it() -> None:
    if not DATA.exists():
        pytest.skip("../shared/data/pdtb is not here")
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    expected = {row["cls"]: row for row in rows if row["path"][0] == "Sense"}
    assert senses_by_name().keys() == expected.keys()
    for name, row in expected.items():
        assert list(senses_by_name()[name].parents) == row["parents"]
        assert [senses_by_name()[name].label] == (row["label"] or [""])
    assert set(leaf_sense_labels()) == {row["label"][0] for row in expected.values() if row["leaf"]}


def test_how_many_there_are() -> None:
    assert (len(senses_by_name()), len(senses_by_label()), len(leaf_sense_labels())) == (44, 43, 30)
    assert all(sense.meaning for sense in senses_by_name().values())


def test_iris_are_spelt_as_in_the_file() -> None:
    assert senses_by_label()["contigency"].iri == f"{PDTB_ONTOLOGY}CONTIGENCY"
    assert senses_by_label()["contra-expectation"].iri == f"{PDTB_ONTOLOGY}contraExpectation"


def test_a_sense_and_its_kinds() -> None:
    assert sense_subtree_labels("reason") == {"reason"}
    assert sense_subtree_labels("cause") == {"cause", "reason", "result"}
    assert sense_subtree_labels("contigency") > sense_subtree_labels("cause") | sense_subtree_labels("condition")
    broadest = [label for label in senses_by_label() if not parent_sense_labels(label)]
    assert broadest == ["comparison", "contigency", "expansion", "temporal"]
    assert frozenset[str]().union(*map(sense_subtree_labels, broadest)) == senses_by_label().keys()


@pytest.mark.parametrize("label", senses_by_label())
def test_labels_are_known_however_they_are_spaced(label: str) -> None:
    assert (
        match_sense_label(f" {label.upper().replace(' ', '_')}. ")
        == match_sense_label(senses_by_label()[label].name)
        == label
    )


@pytest.mark.parametrize("text", ["", "no relation", "reasons", "because", "reason, result", "原因", "\x00"])
def test_nothing_is_made_up(text: str) -> None:
    assert match_sense_label(text) == ""
    assert match_sense_label("Contingency") == "contigency"
