"""Questions with gold -> weights for `braid`, and the gain in recall on unseen questions.

QUESTIONS: a file that `kumi eval import` reads, such as JSON lines with `question` and `gold`; or a log of clicks, one
click a line. Lines of the same question are merged. Calls no model. Prints recall@5 under the present weights, and
under weights fitted to four fifths of the questions, measured on the other fifth, five times; and the section of
kumi.toml with weights fitted to all questions.
"""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import numpy as np

from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.settings import config
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SettingsError
from kumihimo.core.task import Progress, ProgressEvent
from kumihimo.evaluate.gold import GoldPassages, IndexLayout, found_share, is_found, read_index_layout, resolve_gold
from kumihimo.evaluate.importers import read_question_file
from kumihimo.evaluate.question_generation import question_text_key
from kumihimo.evaluate.records import EvalQuestion
from kumihimo.evaluate.statistics import Floats, bootstrap_interval, signed_rank
from kumihimo.llm.budget import Budget
from kumihimo.methods.braid import published_weights, two_pass, weights_from_settings
from kumihimo.methods.braid.plain_match import Features
from kumihimo.methods.braid.two_pass import BraidWeights
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.word_variants import rewrite_question

_PENALTY = 1 / 0.3  # on the squared weights of standardised features
MIN_QUESTIONS = 20  # with fewer the interval is too wide
_SIGNIFICANCE = 0.05
FOLDS = 5
TOP_K = 5
DOCUMENT_WEIGHT = 1.5  # of a document that the question names; chosen on the seen questions of benchmarks/described.py


@dataclass(frozen=True)
class FittingExample:
    """A question with its first pass and its gold passages.

    anchors: a setting of `braid`, for the second pass.
    """

    id: str
    first_pass: two_pass.Pass
    gold: GoldPassages
    layout: IndexLayout
    anchors: int = two_pass.DEFAULT_ANCHORS

    def is_relevant(self, id: str) -> bool:
        """Return whether a chunk alone has enough of any gold passage."""
        return any(is_found(places, [self.layout.chunks[id]]) for places in self.gold.values())

    def last_pass(self, weights: BraidWeights) -> two_pass.Pass:
        """Return the pass that ranks the candidates under these weights."""
        if not self.first_pass.walk:
            return self.first_pass
        return two_pass.run_second_pass(self.first_pass, weights, anchors=self.anchors)

    def recall(self, weights: BraidWeights, k: int = TOP_K) -> float:
        """Return the share of gold passages among the first k chunks."""
        last_pass = self.last_pass(weights)
        ranked = two_pass.rank_candidates(last_pass, last_pass.features(weights), weights)
        return found_share([self.layout.chunks[id] for id in (item.record.id for item in ranked)], self.gold, k)


def build_examples(
    snapshot: Snapshot,
    questions: Sequence[EvalQuestion],
    budget: Budget | None = None,
    progress: Progress | None = None,
    *,
    anchors: int = two_pass.DEFAULT_ANCHORS,
    pool: int = two_pass.DEFAULT_POOL,
) -> list[FittingExample]:
    """Build an example for each question with gold.

    The examples read from the snapshot as long as they are used. anchors, pool: settings of `braid`.
    """
    layout = read_index_layout(snapshot)
    gold = resolve_gold(snapshot, layout, questions)
    tables = snapshot.table("chunks"), snapshot.table("mentions"), snapshot.table("descriptions")
    searches = snapshot.keyword_search(), snapshot.vector_search(budget or Budget())
    with_gold = [question for question in questions if question.id in gold]
    built, words = [], snapshot.indexed_words()
    for done, question in enumerate(with_gold, 1):
        written = rewrite_question(ParsedQuestion(question.text), words).question  # as `retrieve` does
        first_pass = two_pass.run_first_pass(written, *tables, *searches, pool=pool)
        built.append(FittingExample(question.id, first_pass, gold[question.id], layout, anchors))
        if progress:
            progress(ProgressEvent("questions", done, len(with_gold)))
    return built


def learn_weights(
    examples: Sequence[FittingExample],
    *,
    drop: Iterable[str] = (),
    question_weight: Callable[[str], float] | None = None,
) -> BraidWeights:
    """Learn the weights of all passes.

    The plain weights make the gold passages of a question likelier than its other candidates. Those of the two passes
    over the graph separate relevant candidates from others; only questions that need several passages count there.
    Without questions to learn from, the published ones are returned. drop: features to ignore. question_weight: the
    weight of a question by id, 1 by default.
    """
    dropped = set(drop)
    share = question_weight or (lambda _: 1.0)

    def fit(name: str, rows: Iterable[FittingRow]) -> dict[str, float]:
        return _fit_logistic(list(rows), [feature for feature in two_pass.FEATURES[name] if feature not in dropped])

    weights = dict(published_weights())
    usable = [example for example in examples if any(map(example.is_relevant, example.first_pass.candidates.plain))]
    if usable:
        weights["plain"] = _fit_plain(
            [(example.first_pass.candidates.plain, example.is_relevant, share(example.id)) for example in usable],
            [name for name in two_pass.FEATURES["plain"] if name not in dropped],
        )
    if linked := [example for example in examples if example.first_pass.walk and len(example.gold) > 1]:
        weights["first"] = fit("first", ((e.first_pass.features(weights), e.is_relevant, share(e.id)) for e in linked))
        seconds = ((e.last_pass(weights).features(weights), e.is_relevant, share(e.id)) for e in linked)
        weights["second"] = fit("second", seconds)
    return weights


def cross_validate_recall(examples: Sequence[FittingExample]) -> dict[str, float]:
    """Return each question's recall under weights from the other folds.

    The digest of the question id decides the fold.
    """
    order = sorted(examples, key=lambda example: hash_parts(example.id))
    recalls: dict[str, float] = {}
    for fold in range(FOLDS):
        weights = learn_weights([example for i, example in enumerate(order) if i % FOLDS != fold])
        recalls |= {example.id: example.recall(weights) for example in order[fold::FOLDS]}
    return recalls


FittingRow = tuple[Mapping[str, Features], Callable[[str], bool], float]  # candidates, is relevant, weight


def _fit_plain(rows: Sequence[FittingRow], names: Sequence[str]) -> dict[str, float]:
    """Fit the plain weights, all but that of `document`.

    Few questions with gold name a document, and most of these by the title of an article.
    """
    weights = fit_choice(rows, [name for name in names if name != "document"])
    return {name: weights.get(name, DOCUMENT_WEIGHT) for name in names}


def fit_choice(rows: Sequence[FittingRow], names: Sequence[str]) -> dict[str, float]:
    """Fit a conditional logit of the gold among the candidates.

    Each question has gold among its candidates. Weights are never negative.
    """
    matrices, gold_shares, weights = [], [], []
    for candidates, is_relevant, weight in rows:
        relevant = np.array([float(is_relevant(id)) for id in candidates])
        matrices.append(np.array([[f.get(name, 0.0) for name in names] for f in candidates.values()]))
        gold_shares.append(relevant / relevant.sum())
        weights.append(weight)
    x, y, question_weights = np.vstack(matrices), np.concatenate(gold_shares), np.array(weights)
    sizes = np.array([len(matrix) for matrix in matrices])
    starts, question = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes)

    def loss(z: Floats, w: Floats) -> tuple[float, Floats]:
        scores = z @ w
        scores -= np.maximum.reduceat(scores, starts)[question]
        totals = np.add.reduceat(np.exp(scores), starts)
        slope = (np.exp(scores) / totals[question] - y) * question_weights[question]
        return float((np.log(totals) - np.add.reduceat(y * scores, starts)) @ question_weights), slope @ z

    return _minimize(x, names, loss)


def _fit_logistic(rows: Sequence[FittingRow], names: Sequence[str]) -> dict[str, float]:
    """Fit logistic regression: the probability of a candidate to be relevant.

    Weights are never negative: with few questions a negative weight is mostly chance and hurts other questions.
    """
    x = np.array([[f.get(name, 0.0) for name in names] for candidates, _, _ in rows for f in candidates.values()])
    signs = np.array([1.0 if is_relevant(id) else -1.0 for candidates, is_relevant, _ in rows for id in candidates])
    weights = np.array([weight for candidates, _, weight in rows for _ in candidates])

    def loss(z: Floats, w: Floats) -> tuple[float, Floats]:
        margin = signs * (z @ w[:-1] + w[-1])
        slope = -(weights * signs / (1 + np.exp(np.clip(margin, -500, 500))))
        return float((weights * np.logaddexp(0, -margin)).sum()), np.append(slope @ z, slope.sum())

    return _minimize(x, names, loss, intercept=True)


def _minimize(
    x: Floats, names: Sequence[str], loss: Callable[[Floats, Floats], tuple[float, Floats]], *, intercept: bool = False
) -> dict[str, float]:
    """Return the weights of least loss, with L2 on standardised features.

    The returned weights apply to the raw features.
    """
    from scipy.optimize import minimize

    spread = x.std(axis=0)
    spread[spread == 0] = 1.0
    z = (x - x.mean(axis=0)) / spread

    def penalised(w: Floats) -> tuple[float, Floats]:
        value, slope = loss(z, w)
        slope[: len(names)] += _PENALTY * w[: len(names)]
        return value + _PENALTY * float((w[: len(names)] ** 2).sum()) / 2, slope

    bounds: list[tuple[float | None, None]] = [(0, None)] * len(names)
    bounds += [(None, None)] * intercept
    fit = minimize(penalised, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds)
    return {name: round(float(w), 4) for name, w in zip(names, fit.x[: len(names)] / spread, strict=True)}


@dataclass(frozen=True, slots=True)
class RefitResult:
    """Fitted weights and their benefit.

    present_recall: recall@5 of the present weights. fitted_recall: recall@5 of fitted weights on held-out questions.
    low, high: the 95 % interval of the difference. p: of the signed-rank test. weights: fitted to all questions.
    """

    questions: int
    present_recall: float
    fitted_recall: float
    low: float
    high: float
    p: float
    weights: BraidWeights

    @property
    def difference(self) -> float:
        """Return the gain in recall."""
        return self.fitted_recall - self.present_recall

    @property
    def is_improvement(self) -> bool:
        """Return whether the gain is significant."""
        return self.low > 0 and self.p < _SIGNIFICANCE

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Return the weights as settings for kumi.toml."""
        features = two_pass.FEATURES
        return {"braid": {f"{n}_weights": tuple(self.weights[n].get(f, 0.0) for f in features[n]) for n in features}}


def refit_weights(
    snapshot: Snapshot,
    questions: Sequence[EvalQuestion],
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> RefitResult:
    """Fit weights to these questions under the configured `pool` and `anchors`.

    Raises SettingsError if too few questions have gold.
    """
    with_gold = merge_gold(question for question in questions if question.gold)
    if len(with_gold) < MIN_QUESTIONS:
        raise SettingsError(
            f"{len(with_gold):,} questions with gold are too few to tell whether other weights would help: "
            f"use at least {MIN_QUESTIONS}, and 100 to detect a moderate gain"
        )
    snapshot.validate_method("braid")
    braid_settings = cast(Mapping[str, Any], snapshot.settings.get("braid", {}))
    own_weights = {name: braid_settings.get(f"{name}_weights", ()) for name in two_pass.FEATURES}
    present_weights = {**published_weights(), **weights_from_settings(own_weights)}
    pass_settings = {name: braid_settings[name] for name in ("anchors", "pool") if name in braid_settings}
    built = build_examples(snapshot, with_gold, budget, progress, **pass_settings)
    held_out = cross_validate_recall(built)
    pairs = [(example.recall(present_weights), held_out[example.id]) for example in built]
    differences = [after - before for before, after in pairs]
    cluster = {question.id: question.cluster for question in with_gold}
    low, high = bootstrap_interval(differences, [cluster[example.id] for example in built])
    present, fitted = (fmean(side) for side in zip(*pairs, strict=True))
    return RefitResult(len(built), present, fitted, low, high, signed_rank(differences).p, learn_weights(built))


def merge_gold(questions: Iterable[EvalQuestion]) -> list[EvalQuestion]:
    """Merge the gold of equal questions.

    A click log has one line a click. Raises SettingsError if two questions have the same id.
    """
    by_key: dict[str, EvalQuestion] = {}
    for question in questions:
        earlier = by_key.get(question_text_key(question.text))
        gold = tuple(dict.fromkeys((*earlier.gold, *question.gold))) if earlier else question.gold
        by_key[question_text_key(question.text)] = replace(earlier or question, gold=gold)
    if len({question.id for question in by_key.values()}) < len(by_key):
        raise SettingsError("two questions have one id: give each its own, or none")
    return list(by_key.values())


def print_result(result: RefitResult) -> None:
    """Print both recalls, their difference and the weights."""
    print(f"{result.questions:,} questions with gold. Recall@5:")
    print(f"  {result.present_recall:.3f} by the present weights")
    print(f"  {result.fitted_recall:.3f} by weights fitted to 4/5 of the questions, measured on the other 1/5")
    interval = f"95 % interval {result.low:+.3f} to {result.high:+.3f}"
    print(f"  {result.difference:+.3f} between the two, {interval}, p = {result.p:.3f}")
    print("Fitted weights help." if result.is_improvement else "Fitted weights do not help more than chance would.")
    print(f"Fitted to all {result.questions:,} they would be:\n")
    print(config.render_section("braid", result.settings["braid"]), end="")


def main(argv: Sequence[str] | None = None) -> None:
    """Fit weights to a file of questions and print them."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path, metavar="QUESTIONS")
    parser.add_argument("--index", type=Path, default=Path(".kumi"), metavar="DIR", help="the index (default: .kumi)")
    options = parser.parse_args(argv)
    questions, _ = read_question_file(options.questions)
    with Kumihimo.open(options.index) as kumi, kumi.snapshot() as snapshot:
        print_result(refit_weights(snapshot, questions, kumi.models.budget()))


if __name__ == "__main__":
    main()
