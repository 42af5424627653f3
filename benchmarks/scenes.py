"""Who, when, where, what, why, how of scenes with gold: what the rules find, and whether it finds the scene.

DATA/kgrc: two stories, scene by scene, in Japanese and English (Knowledge Graph Reasoning Challenge, CC BY 4.0). Gold
values are English labels; in Japanese those are judged that `scenes_ja.txt` has words for. No chat model.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from tests.factories_tables import table

from benchmarks.meter import least, measured
from benchmarks.options import bench_parser, read_options
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import SlotFiller
from kumihimo.index.five_w1h import SlotText, extract_slots
from kumihimo.llm.protocols import LLM
from kumihimo.llm.structured import Reply
from kumihimo.methods.shared.slot_search import SlotWeighting, rank_by_slots
from kumihimo.text.lemmas import SLOTS, normalise_value
from kumihimo.text.tokens import tokenize

HOME = Path(__file__).parents[1]
GOLD = {
    "who": ("subject",),
    "when": ("when",),
    "where": ("where", "on", "to", "from"),
    "what": ("what", "whom"),
    "why": ("why",),
    "how": ("how",),
    "predicate": ("hasPredicate", "hasProperty"),
}
FLOORS = {"en": 0.45, "ja": 0.54}  # F1 of the rules, all slots
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
Names = frozenset[str]  # ways to say one value, normalised


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene's text, and of each slot what the gold has: labels."""

    id: str
    text: Mapping[str, str]
    gold: Mapping[str, tuple[str, ...]]


def scenes(path: Path) -> list[Scene]:
    """Values that are scenes themselves are left out: no text of a scene says its number."""
    with path.open(encoding="utf-8") as lines:
        rows: list[dict[str, Any]] = list(map(json.loads, lines))
    ids = {row["id"] for row in rows}
    return [Scene(row["id"], _texts(row), {slot: _labels(row, slot, ids) for slot in SLOTS}) for row in rows]


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    return {language: " ".join(row[f"text_{language}"]).strip() for language in ("en", "ja")}


def _labels(row: Mapping[str, Any], slot: str, ids: set[str]) -> tuple[str, ...]:
    values = (value for key in GOLD[slot] for value in row.get(key, ()) if value not in ids)
    return tuple(dict.fromkeys(label(value) for value in values))


def label(value: str) -> str:
    """A label in words.

    >>> label("predicate/getMarried"), label("DancingMen/Storage_door")
    ('get married', 'Storage door')
    """
    words = value.partition("/")[2].replace("_", " ")
    return _CAPITAL.sub(" ", words).lower() if words[:1].islower() and " " not in words else words


@cache
def glossary() -> dict[str, tuple[str, ...]]:
    """Labels with their words in Japanese."""
    lines = Path(__file__).with_name("scenes_ja.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {label.strip(): tuple(word.strip() for word in words.split("/")) for label, _, words in pairs}


def said(language: str, label: str) -> tuple[str, ...]:
    """The words of a language for a label, if there are any."""
    return (label,) if language == "en" else glossary().get(label.casefold(), ())


# -- precision and recall


@dataclass(slots=True)
class Score:
    """Of one slot: values found and wanted, those that are right, and by how much they overlap."""

    found: int = 0
    wanted: int = 0
    right: int = 0
    met: int = 0
    near_right: float = 0.0
    near_met: float = 0.0
    left_out: int = 0

    def add(self, found: Iterable[str], wanted: list[Names]) -> None:
        names = set(found)
        every = frozenset[str]().union(*wanted)
        self.found += len(names)
        self.wanted += len(wanted)
        self.right += len(names & every)
        self.met += sum(not names.isdisjoint(ways) for ways in wanted)
        self.near_right += sum(max((overlap(one, way) for way in every), default=0) for one in names)
        self.near_met += sum(max((overlap(one, way) for one in names for way in ways), default=0) for ways in wanted)

    @property
    def shares(self) -> tuple[float, float]:
        """Precision and recall."""
        return self.right / max(self.found, 1), self.met / max(self.wanted, 1)

    def line(self) -> str:
        shares = self.shares
        near = [self.near_right / max(self.found, 1), self.near_met / max(self.wanted, 1)]
        exact = f"precision {shares[0]:.2f} recall {shares[1]:.2f} F1 {f1(*shares):.2f}"
        overlapping = f"overlap {near[0]:.2f} {near[1]:.2f}"
        return f"{exact}   {overlapping}   {self.found:4} found, {self.wanted:4} wanted, {self.left_out:3} not judged"


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@cache
def overlap(one: str, other: str) -> float:
    """How much two names have in common: F1 of their words, or of pairs of characters."""
    a, b = Counter(tokenize(one)), Counter(tokenize(other))
    common = (a & b).total()
    return f1(common / a.total(), common / b.total()) if common else 0.0


def judged(every: Iterable[Scene], language: str, find: Callable[[Scene], Iterable[SlotText]]) -> dict[str, Score]:
    scores = {slot: Score() for slot in (*SLOTS, "all")}
    for scene in every:
        found: dict[str, list[str]] = defaultdict(list)
        for one in find(scene):
            found[one.slot].append(one.name)
        for slot in SLOTS:
            ways = [said(language, label) for label in scene.gold[slot]]
            for score in (scores[slot], scores["all"]):
                if all(ways):
                    score.add(found[slot], [frozenset(normalise_value(slot, way) for way in one) for one in ways])
                else:
                    score.left_out += len(ways)
    return scores


# -- a stand-in for a model: it knows the gold, and writes it as models do


def scripted(scene: Scene, language: str, n: int) -> LLM:
    """Answers from the gold, in one of five forms."""
    values = {slot: [way[0] for label in scene.gold[slot] if (way := said(language, label))] for slot in SLOTS}

    def ask(_: object, *, parse: Callable[[Reply], Any], **__: object) -> Any:
        return parse(Reply(_FORMS[n % len(_FORMS)](values, language)))

    return cast(LLM, ask)


def _loud(values: Mapping[str, list[str]], language: str) -> str:
    """In capitals, with articles and particles."""
    end = {"who": "は", "what": "を", "where": "に"} if language == "ja" else {}
    article = "the " if language == "en" else ""
    told = {
        slot: [f"{article if slot in ('who', 'where') else ''}{one}{end.get(slot, '')}".upper() for one in said]
        for slot, said in values.items()
    }
    return json.dumps({slot.capitalize(): said or "none" for slot, said in told.items()}, ensure_ascii=False)


_FORMS: list[Callable[[Mapping[str, list[str]], str], str]] = [
    lambda values, _: json.dumps({slot: said or ["none"] for slot, said in values.items()}, ensure_ascii=False),
    lambda values, _: f"Here it is:\n```json\n{json.dumps(values, ensure_ascii=False, indent=1)}\n```",
    lambda values, _: json.dumps({slot: "; ".join(said) or "None" for slot, said in values.items()}),
    lambda values, _: "\n".join(f"- {slot}: {'; '.join(said) or 'none'}" for slot, said in values.items()),
    _loud,
]


# -- Listing 2


def frames(every: Iterable[Scene], find: Callable[[Scene], Iterable[SlotText]]) -> Iterator[SlotFiller]:
    """Each scene a passage."""
    for scene in every:
        passage = f"{hash_parts(scene.id)}.00000.00000"
        for n, one in enumerate(find(scene)):
            value = hash_parts(one.slot, one.name)
            yield SlotFiller(value, one.slot, one.name, passage, id=f"{passage}.{n:05}", text=one.text)


def known(scene: Scene) -> list[SlotText]:
    """The gold itself."""
    return list(
        dict.fromkeys(
            SlotText(slot, label, normalise_value(slot, label)) for slot in SLOTS for label in scene.gold[slot]
        )
    )


def hits(
    every: list[Scene], find: Callable[[Scene], Iterable[SlotText]], weights: SlotWeighting
) -> tuple[int, float, float]:
    """Questions, and the shares of them whose scene is the first, and among the first five.

    One is made of each scene that has three slots or more: its gold, without one of them, another in turn.
    """
    held = table(SlotFiller, frames(every, find))
    ranks: list[int] = []
    for n, scene in enumerate(every):
        filled = [slot for slot in SLOTS if scene.gold[slot]]
        if len(filled) < 3:
            continue
        out = filled[n % len(filled)]
        asked = [(one.slot, one.name) for one in known(scene) if one.slot != out]
        found = [passage for passage, _ in rank_by_slots(asked, held, weights=weights)]
        passage = f"{hash_parts(scene.id)}.00000.00000"
        ranks.append(found.index(passage) if passage in found else len(found))
    return len(ranks), sum(rank < 1 for rank in ranks) / len(ranks), sum(rank < 5 for rank in ranks) / len(ranks)


def scored(every: list[Scene], language: str) -> None:
    """The rules, and the model that knows, in one language."""
    places = {scene.id: n for n, scene in enumerate(every)}
    with measured() as cost:
        found = judged(every, language, lambda scene: extract_slots(scene.text[language], None))
    print(f"{language}, by rule: {cost.cpu:.2f} CPU s")
    for slot, score in found.items():
        print(f"  {slot:9} {score.line()}")
    told = judged(every, language, lambda scene: extract_slots("", scripted(scene, language, places[scene.id])))["all"]
    print(f"{language}, by a model that knows\n  {'all':9} {told.line()}")
    least(f"{language}, F1 of the rules", f1(*found["all"].shares), FLOORS[language])
    least(f"{language}, recall of a model that knows", told.shares[1], 0.98)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    every = scenes(read_options(parser, argv).data / "kgrc" / "scenes.jsonl")
    print(f"{len(every)} scenes, {sum(len(said) for scene in every for said in scene.gold.values()):,} gold values")
    for language in FLOORS:
        scored(every, language)
    print("the scene found by its gold but one slot (Listing 2)")
    for said, find in (("gold", known), ("rules, English", lambda scene: extract_slots(scene.text["en"], None))):
        for weights in ("count", "rare"):
            count, first, five = hits(every, find, weights)
            print(f"  frames of the {said:15} {weights:6} hits@1 {first:.3f}   hits@5 {five:.3f}   {count} questions")
            if find is known:
                least("hits@5", five, 0.97)


if __name__ == "__main__":
    main()
