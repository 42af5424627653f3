"""senses.tsv -> the classes of the PDTB's ontology, as the ontology has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kumihimo.index.pdtb_senses import ONTOLOGY, by_label, labels, leaves, named, parents, senses, under

DATA = Path(__file__).parents[3] / "shared" / "data" / "pdtb" / "classes.jsonl"


def test_every_class_is_there_as_the_ontology_has_it() -> None:
    if not DATA.exists():
        pytest.skip("../shared/data/pdtb is not here")
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    theirs = {row["cls"]: row for row in rows if row["path"][0] == "Sense"}
    assert senses().keys() == theirs.keys()
    for name, row in theirs.items():
        assert list(senses()[name].parents) == row["parents"]
        assert [senses()[name].label] == (row["label"] or [""])
    assert set(leaves()) == {row["label"][0] for row in theirs.values() if row["leaf"]}


def test_how_many_there_are() -> None:
    assert (len(senses()), len(labels()), len(leaves())) == (44, 43, 30)
    assert len(set(labels())) == len(labels())
    assert all(sense.meaning for sense in senses().values())


def test_iris_are_spelt_as_in_the_file() -> None:
    assert by_label()["contigency"].iri == f"{ONTOLOGY}CONTIGENCY"
    assert by_label()["contra-expectation"].iri == f"{ONTOLOGY}contraExpectation"


def test_a_sense_and_its_kinds() -> None:
    assert under("reason") == {"reason"}
    assert under("cause") == {"cause", "reason", "result"}
    assert under("contigency") > under("cause") | under("condition")
    broadest = [label for label in labels() if not parents(label)]
    assert broadest == ["comparison", "contigency", "expansion", "temporal"]
    assert frozenset[str]().union(*map(under, broadest)) == set(labels())


@pytest.mark.parametrize("label", labels())
def test_labels_are_known_however_they_are_spaced(label: str) -> None:
    assert named(f" {label.upper().replace(' ', '_')}. ") == named(by_label()[label].name) == label


@pytest.mark.parametrize("text", ["", "no relation", "reasons", "because", "reason, result", "原因", "\x00"])
def test_nothing_is_made_up(text: str) -> None:
    assert named(text) == ""
    assert named("Contingency") == "contigency"
