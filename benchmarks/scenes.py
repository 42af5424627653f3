"""scenes with gold slots -> what parsing and normalising of replies lose; search by who, when, where, what, why, how.

Data: DATA/kgrc: two stories, scene by scene, in Japanese and English (Knowledge Graph Reasoning Challenge, CC BY 4.0).
Gold values are English labels; in Japanese only those with words in `scenes_ja.txt` are judged. No chat model; a stub
that knows the gold replies in three forms. A line for each language: precision, recall and F1 of exact values; the same
by overlap of words or characters; values found, wanted and not judged. Last lines: shares of scenes ranked first and
among the first five.
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

from benchmarks.meter import check_at_least
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import SlotFiller
from kumihimo.index.frames import SlotText, find_slots, normalise_slots
from kumihimo.llm.protocols import LLM, Reply
from kumihimo.methods.discourse import rank_by_slots
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
LANGUAGES = ("en", "ja")
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
Names = frozenset[str]  # normalised wordings of one value


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene: text by language and gold labels by slot."""

    id: str
    text: Mapping[str, str]
    gold: Mapping[str, tuple[str, ...]]


def read_scenes(path: Path) -> list[Scene]:
    """Read the scenes with their gold labels.

    Values that are scenes are left out: no text contains the number of a scene.
    """
    with path.open(encoding="utf-8") as lines:
        rows: list[dict[str, Any]] = list(map(json.loads, lines))
    ids = {row["id"] for row in rows}
    return [Scene(row["id"], _texts(row), {slot: _labels(row, slot, ids) for slot in SLOTS}) for row in rows]


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    return {language: " ".join(row[f"text_{language}"]).strip() for language in ("en", "ja")}


def _labels(row: Mapping[str, Any], slot: str, ids: set[str]) -> tuple[str, ...]:
    values = (value for key in GOLD[slot] for value in row.get(key, ()) if value not in ids)
    return tuple(dict.fromkeys(label_words(value) for value in values))


def label_words(value: str) -> str:
    """Return a label in words.

    >>> label_words("predicate/getMarried"), label_words("DancingMen/Storage_door")
    ('get married', 'Storage door')
    """
    words = value.partition("/")[2].replace("_", " ")
    return _CAPITAL.sub(" ", words).lower() if words[:1].islower() and " " not in words else words


@cache
def read_glossary() -> dict[str, tuple[str, ...]]:
    """Read the Japanese words of each label."""
    lines = Path(__file__).with_name("scenes_ja.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {label.strip(): tuple(word.strip() for word in words.split("/")) for label, _, words in pairs}


def translate(language: str, label: str) -> tuple[str, ...]:
    """Return the words for a label in a language, if any."""
    return (label,) if language == "en" else read_glossary().get(label.casefold(), ())


# -- precision and recall


@dataclass(slots=True)
class Score:
    """Counts for one slot: values found and wanted, correct ones, and overlaps."""

    predicted: int = 0
    wanted: int = 0
    correct: int = 0
    matched: int = 0
    overlap_precision: float = 0.0
    overlap_recall: float = 0.0
    unjudged: int = 0

    def add(self, predicted: Iterable[str], wanted: list[Names]) -> None:
        predictions = set(predicted)
        accepted = frozenset[str]().union(*wanted)
        self.predicted += len(predictions)
        self.wanted += len(wanted)
        self.correct += len(predictions & accepted)
        self.matched += sum(not predictions.isdisjoint(ways) for ways in wanted)
        self.overlap_precision += sum(max((overlap(one, way) for way in accepted), default=0) for one in predictions)
        self.overlap_recall += sum(
            max((overlap(one, way) for one in predictions for way in ways), default=0) for ways in wanted
        )

    @property
    def shares(self) -> tuple[float, float]:
        """Return precision and recall."""
        return self.correct / max(self.predicted, 1), self.matched / max(self.wanted, 1)

    def line(self) -> str:
        shares = self.shares
        overlaps = [self.overlap_precision / max(self.predicted, 1), self.overlap_recall / max(self.wanted, 1)]
        exact = f"precision {shares[0]:.2f} recall {shares[1]:.2f} F1 {f1(*shares):.2f}"
        overlapping = f"overlap {overlaps[0]:.2f} {overlaps[1]:.2f}"
        return (
            f"{exact}   {overlapping}   {self.predicted:4} found, {self.wanted:4} wanted, {self.unjudged:3} not judged"
        )


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@cache
def overlap(one: str, other: str) -> float:
    """Return the F1 of two names' words or character pairs."""
    a, b = Counter(tokenize(one)), Counter(tokenize(other))
    common = (a & b).total()
    return f1(common / a.total(), common / b.total()) if common else 0.0


def score_slots(
    scenes: Iterable[Scene], language: str, find: Callable[[Scene], Iterable[SlotText]]
) -> dict[str, Score]:
    scores = {slot: Score() for slot in (*SLOTS, "all")}
    for scene in scenes:
        values: dict[str, list[str]] = defaultdict(list)
        for one in find(scene):
            values[one.slot].append(one.name)
        for slot in SLOTS:
            wordings = [translate(language, label) for label in scene.gold[slot]]
            for score in (scores[slot], scores["all"]):
                if all(wordings):
                    score.add(values[slot], [frozenset(normalise_value(slot, way) for way in one) for one in wordings])
                else:
                    score.unjudged += len(wordings)
    return scores


# -- a stub model that writes the gold in the forms of real models


def make_gold_llm(scene: Scene, language: str, n: int) -> LLM:
    """Return a stub LLM that replies with the gold in form `n`."""
    values = {slot: [words[0] for label in scene.gold[slot] if (words := translate(language, label))] for slot in SLOTS}

    def ask(_: object, *, parse: Callable[[Reply], Any], **__: object) -> Any:
        return parse(Reply(_FORMS[n % len(_FORMS)](values, language)))

    return cast(LLM, ask)


def _write_loudly(values: Mapping[str, list[str]], language: str) -> str:
    """Return the values as capitals with articles and particles."""
    end = {"who": "は", "what": "を", "where": "に"} if language == "ja" else {}
    article = "the " if language == "en" else ""
    decorated = {
        slot: [f"{article if slot in ('who', 'where') else ''}{one}{end.get(slot, '')}".upper() for one in names]
        for slot, names in values.items()
    }
    return "\n".join(f"{slot.capitalize()}: {'; '.join(names) or 'none'}" for slot, names in decorated.items())


_FORMS: list[Callable[[Mapping[str, list[str]], str], str]] = [
    lambda values, _: "\n".join(["[1]", *(f"{slot}: {'; '.join(names)}" for slot, names in values.items() if names)]),
    lambda values, _: "\n".join(f"- {slot}: {'; '.join(names) or 'none'}" for slot, names in values.items()),
    _write_loudly,
]


# -- Listing 2


def make_fillers(scenes: Iterable[Scene]) -> Iterator[SlotFiller]:
    """Yield the gold slots of the scenes, a passage each."""
    for scene in scenes:
        chunk = f"{hash_parts(scene.id)}.00000"
        for n, one in enumerate(gold_slots(scene)):
            yield SlotFiller(one.slot, one.name, 0, id=f"{chunk}.{n:05}", text=one.text)


def gold_slots(scene: Scene) -> list[SlotText]:
    """Return the gold as slots."""
    return list(
        dict.fromkeys(
            SlotText(slot, label, normalise_value(slot, label)) for slot in SLOTS for label in scene.gold[slot]
        )
    )


def rank_scenes(scenes: list[Scene]) -> tuple[int, float, float]:
    """Return the number of questions, hits@1 and hits@5.

    Each scene with three slots or more gives one question: its gold without one slot, another slot in turn.
    """
    fillers = table(SlotFiller, make_fillers(scenes))
    ranks: list[int] = []
    for n, scene in enumerate(scenes):
        slots = [slot for slot in SLOTS if scene.gold[slot]]
        if len(slots) < 3:
            continue
        omitted = slots[n % len(slots)]
        query = [(one.slot, one.name) for one in gold_slots(scene) if one.slot != omitted]
        ranking = [passage for passage, _ in rank_by_slots(query, fillers)]
        passage = f"{hash_parts(scene.id)}.00000.00000"
        ranks.append(ranking.index(passage) if passage in ranking else len(ranking))
    return len(ranks), sum(rank < 1 for rank in ranks) / len(ranks), sum(rank < 5 for rank in ranks) / len(ranks)


def extract_slots(text: str, llm: LLM) -> list[SlotText]:
    """Extract the slots of a text, each value once, in slot order."""
    [slots] = find_slots([text], llm)
    return normalise_slots(slots)


def measure_language(scenes: list[Scene], language: str) -> None:
    """Print the scores of the stub model in one language."""
    places = {scene.id: n for n, scene in enumerate(scenes)}
    stub_score = score_slots(
        scenes, language, lambda scene: extract_slots("", make_gold_llm(scene, language, places[scene.id]))
    )["all"]
    print(f"{language}, by a stub model with the gold\n  {'all':9} {stub_score.line()}")
    check_at_least(f"{language}, recall of a stub model with the gold", stub_score.shares[1], 0.98)


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    scenes = read_scenes(read_options(parser, argv).data / "kgrc" / "scenes.jsonl")
    print(
        f"{len(scenes)} scenes, {sum(len(values) for scene in scenes for values in scene.gold.values()):,} gold values"
    )
    for language in LANGUAGES:
        measure_language(scenes, language)
    print("scenes searched by their gold slots but one (Listing 2)")
    count, first, five = rank_scenes(scenes)
    print(f"  hits@1 {first:.3f}   hits@5 {five:.3f}   {count} questions")
    check_at_least("hits@5", five, 0.97)


if __name__ == "__main__":
    run_benchmark(main)
