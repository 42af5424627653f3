"""senses.tsv -> the senses of discourse relations: what they are called, mean, and are kinds of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PDTB_ONTOLOGY = "http://purl.org/olia/discourse/discourse.PDTB.owl#"  # what the IRI of a class begins with
_FILE = Path(__file__).with_suffix(".tsv")
_SPELLINGS = {"contingency": "contigency"}  # as whoever does not know the file would spell it


@dataclass(frozen=True, slots=True)
class DiscourseSense:
    """A class of the PDTB's ontology. name: what its IRI ends with. parents: names of the classes it is a kind of."""

    name: str
    label: str  # of the class of all senses: empty
    parents: tuple[str, ...]
    meaning: str

    @property
    def iri(self) -> str:
        return PDTB_ONTOLOGY + self.name


@cache  # read when it is first asked for: most commands ask for none
def senses_by_name() -> Mapping[str, DiscourseSense]:
    """The class of all senses and the classes under it, by name, each after those that it is a kind of."""
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return {
        name: DiscourseSense(name, label, tuple(filter(None, parents.split(","))), meaning)
        for name, label, parents, meaning in rows
    }


@cache
def senses_by_label() -> Mapping[str, DiscourseSense]:
    """The senses by their labels."""
    return {sense.label: sense for sense in senses_by_name().values() if sense.label}


@cache
def sense_labels() -> tuple[str, ...]:
    """Of all senses."""
    return tuple(senses_by_label())


@cache
def leaf_sense_labels() -> tuple[str, ...]:
    """The labels of the senses that have no kinds: those by which relations are told apart.

    >>> len(leaves()), leaves()[:3]
    (30, ('contra-expectation', 'expectation', 'juxtaposition'))
    """
    broader = {parent for sense in senses_by_name().values() for parent in sense.parents}
    return tuple(label for label, sense in senses_by_label().items() if sense.name not in broader)


def parent_sense_labels(label: str) -> tuple[str, ...]:
    """The labels of the senses that this one is a kind of; none: of the broadest.

    >>> parents("reason"), parents("cause"), parents("contigency")
    (('cause',), ('contigency',), ())
    """
    return tuple(found for name in senses_by_label()[label].parents if (found := senses_by_name()[name].label))


@cache
def sense_subtree_labels(label: str) -> frozenset[str]:
    """The labels of this sense and of all its kinds.

    >>> sorted(under("cause"))
    ['cause', 'reason', 'result']
    """
    kinds = {senses_by_label()[label].name}
    for sense in senses_by_name().values():  # each after those that it is a kind of
        if not kinds.isdisjoint(sense.parents):
            kinds.add(sense.name)
    return frozenset(senses_by_name()[name].label for name in kinds)


def match_sense_label(text: str) -> str:
    """The label that a text is, however it is spaced and capitalised; empty: it is none.

    >>> named("Contra Expectation"), named(" factual_past. "), named("causes")
    ('contra-expectation', 'factual past', '')
    """
    key = _spelling_key(text)
    return _labels_by_key().get(_spelling_key(_SPELLINGS.get(key, key)), "")


@cache
def _labels_by_key() -> Mapping[str, str]:
    return {_spelling_key(label): label for label in senses_by_label()}


def _spelling_key(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())
