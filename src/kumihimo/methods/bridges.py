"""candidates + the passages read first -> what speaks for each candidate, as numbers that a scorer weighs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log

from kumihimo.core.records import Chunk
from kumihimo.methods.hops import Graph
from kumihimo.views.words import among, content

Scores = Mapping[str, float]
Features = dict[str, float]
_RANKED = 100  # places of a ranking that count
_BELOW = 200  # the place of what is not among them


@dataclass(frozen=True)
class Candidates:
    """Passages that may answer a question, and what is known of each. spoken: the entities that the question names.

    heard: the words of the question that were found in passages so far.
    """

    question: str
    chunks: dict[str, Chunk]
    graph: Graph
    spoken: frozenset[str]
    heard: dict[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def said(self) -> dict[str, frozenset[str]]:
        """The words of the question that each says."""
        asked = frozenset(content(self.question))
        for id, chunk in self.chunks.items():
            if id not in self.heard:
                self.heard[id] = among(chunk.found_by, asked)
        return {id: self.heard[id] for id in self.chunks}

    @cached_property
    def rarity(self) -> Features:
        """How much each word of the question tells, by how few of the candidates say it; 1 in all."""
        counts = {word: sum(word in said for said in self.said.values()) for word in content(self.question)}
        rare = {word: log(1 + len(self.said) / (1 + count)) for word, count in counts.items()}
        return {word: much / sum(rare.values()) for word, much in rare.items()}

    @cached_property
    def titles(self) -> dict[str, str]:
        """The entities that the titles of their documents name, as far as they look like names."""
        from kumihimo.index.naming import entity_id, key
        from kumihimo.index.rules.names import as_name

        names = {chunk.title: as_name(chunk.title) for chunk in self.chunks.values()}
        ids = {title: entity_id(key(name)) for title, name in names.items() if name}
        return {id: ids[chunk.title] for id, chunk in self.chunks.items() if chunk.title in ids}

    def worth(self, words: Iterable[str]) -> float:
        return sum(self.rarity[word] for word in sorted(words))

    @cached_property
    def named(self) -> dict[str, dict[str, str]]:
        """The entities that each mentions, with the id of the first mention."""
        return self.graph.named(self.chunks)

    def rare(self, id: str) -> Features:
        """The entities that it mentions, each by how few passages do; hubs are none of them."""
        return {entity: 1 / len(found) for entity, found in self.graph.passages(self.named[id]).items() if found}


def features(of: Candidates, rankings: Mapping[str, Scores], anchors: Sequence[str]) -> dict[str, Features]:
    """For each candidate: its score and place in each ranking, and how it goes on from the anchors, read before it.

    covers: share of the question, by rarity, that it says. new: that it says and no anchor does. adds: that it says and
    one anchor does not, at most. titled: its title is named in the question. shares: how specifically it is tied to an
    anchor. named: an anchor mentions its title. bridges: what it adds to an anchor that it is tied to.
    """
    best = {name: max(scores.values(), default=0.0) for name, scores in rankings.items()}
    places = {name: _places(scores) for name, scores in rankings.items()}
    read = frozenset[str]().union(*(of.said[anchor] for anchor in anchors))
    onwards = [_Anchor(of, anchor) for anchor in anchors]
    found: dict[str, Features] = {}
    for id in of.chunks:
        told: Features = {}
        for name, scores in rankings.items():
            told[name] = scores.get(id, 0.0) / best[name] if best[name] > 0 else 0.0
            told[f"{name} rank"] = 1 / (1 + places[name].get(id, _BELOW))
        told |= {"covers": of.worth(of.said[id]), "new": of.worth(of.said[id] - read)}
        told |= dict.fromkeys(("adds", "shares", "named", "bridges"), 0.0)
        for anchor in onwards:
            told |= {name: max(much, told[name]) for name, much in anchor.to(id).items()} if anchor.id != id else {}
        found[id] = told | {"titled": float(of.titles.get(id) in of.spoken)}
    return found


class _Anchor:
    """A passage that is read first, and what others are to it."""

    def __init__(self, of: Candidates, id: str) -> None:
        self.of, self.id, self.rare, self.title = of, id, of.rare(id), of.titles.get(id)

    def to(self, id: str) -> Features:
        of, title = self.of, self.of.titles.get(id)
        adds = of.worth(of.said[id] - of.said[self.id])
        shares = min(1.0, sum(much for entity, much in self.rare.items() if entity in of.named[id]))
        named = back = 0.0
        if title != self.title:
            named, back = float(title in of.named[self.id]), float(self.title in of.named[id])
        return {"adds": adds, "shares": shares, "named": named, "bridges": adds * max(shares, named, back)}


def link(of: Candidates, id: str, anchors: Sequence[str]) -> tuple[str, str]:
    """The anchor that it is tied to most specifically, and the entity that both mention; empty where nothing ties."""
    ties = [(much, e, a) for a in anchors if a != id for e, much in of.rare(a).items() if e in of.named[id]]
    _, entity, anchor = max(ties, default=(0.0, "", ""))
    return anchor, entity


def _places(scores: Scores) -> dict[str, int]:
    ranked = sorted(scores, key=lambda id: (-scores[id], id))[:_RANKED]
    return {id: place for place, id in enumerate(ranked, 1)}


def scored(found: Mapping[str, Features], weights: Scores) -> dict[str, float]:
    """The weighted sum of each candidate's features, spread from 0, the last, to 1, the best."""
    sums = {id: sum(much * told.get(name, 0.0) for name, much in weights.items()) for id, told in found.items()}
    low, high = min(sums.values(), default=0.0), max(sums.values(), default=0.0)
    return {id: (much - low) / (high - low) if high > low else 1.0 for id, much in sums.items()}


def reasons(told: Features, weights: Scores) -> tuple[tuple[str, float], ...]:
    """What each feature adds to the sum, most first."""
    parts = {name: round(much * told.get(name, 0.0), 4) for name, much in weights.items()}
    return tuple(sorted(((name, much) for name, much in parts.items() if much), key=lambda part: (-part[1], part[0])))
