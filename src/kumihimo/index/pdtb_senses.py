"""pdtb_senses.tsv -> the senses of discourse relations: names, labels, meanings and hierarchy."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PDTB_ONTOLOGY = "http://purl.org/olia/discourse/discourse.PDTB.owl#"  # prefix of class IRIs
_FILE = Path(__file__).with_suffix(".tsv")
_SPELLINGS = {"contingency": "contigency"}  # correct spelling -> the file's spelling


@dataclass(frozen=True, slots=True)
class DiscourseSense:
    """A class of the PDTB ontology.

    name: the end of its IRI. parents: names of its superclasses.
    """

    name: str
    label: str  # empty for the root class
    parents: tuple[str, ...]
    meaning: str

    @property
    def iri(self) -> str:
        """Return the IRI of the class."""
        return PDTB_ONTOLOGY + self.name


@cache  # read at the first use: most commands need none
def senses_by_name() -> Mapping[str, DiscourseSense]:
    """Return all senses by name, each after its parents."""
    file_lines = _FILE.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in file_lines if not line.startswith("#")]
    return {
        name: DiscourseSense(name, label, tuple(filter(None, parents.split(","))), meaning)
        for name, label, parents, meaning in rows
    }


@cache
def senses_by_label() -> Mapping[str, DiscourseSense]:
    """Return the senses by label."""
    return {sense.label: sense for sense in senses_by_name().values() if sense.label}


@cache
def leaf_sense_labels() -> tuple[str, ...]:
    """Return the labels of the senses without subclasses.

    >>> len(leaf_sense_labels()), leaf_sense_labels()[:3]
    (30, ('contra-expectation', 'expectation', 'juxtaposition'))
    """
    broader = {parent for sense in senses_by_name().values() for parent in sense.parents}
    return tuple(label for label, sense in senses_by_label().items() if sense.name not in broader)


def parent_sense_labels(label: str) -> tuple[str, ...]:
    """Return the labels of a sense's parents; empty for the broadest senses.

    >>> parent_sense_labels("reason"), parent_sense_labels("cause"), parent_sense_labels("contigency")
    (('cause',), ('contigency',), ())
    """
    return tuple(
        parent_label for name in senses_by_label()[label].parents if (parent_label := senses_by_name()[name].label)
    )


@cache
def sense_subtree_labels(label: str) -> frozenset[str]:
    """Return the labels of a sense and of all its subclasses.

    >>> sorted(sense_subtree_labels("cause"))
    ['cause', 'reason', 'result']
    """
    names = {senses_by_label()[label].name}
    for sense in senses_by_name().values():  # parents come first
        if not names.isdisjoint(sense.parents):
            names.add(sense.name)
    return frozenset(senses_by_name()[name].label for name in names)


def match_sense_label(text: str) -> str:
    """Return the sense label that a text names; empty without a match.

    Spacing and case do not count.

    >>> match_sense_label("Contra Expectation"), match_sense_label(" factual_past. "), match_sense_label("causes")
    ('contra-expectation', 'factual past', '')
    """
    key = _spelling_key(text)
    return _labels_by_key().get(_spelling_key(_SPELLINGS.get(key, key)), "")


@cache
def _labels_by_key() -> Mapping[str, str]:
    """Return the labels by spelling key."""
    return {_spelling_key(label): label for label in senses_by_label()}


def _spelling_key(text: str) -> str:
    """Return a comparison key; case, spaces and punctuation do not count."""
    return re.sub(r"[\W_]+", "", text.casefold())
