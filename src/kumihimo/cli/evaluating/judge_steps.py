"""answers to judge + models -> verdict and rating files, and printed results."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from kumihimo.app.facade import Kumihimo
from kumihimo.cli import terminal
from kumihimo.cli.evaluating.confirm import require_consent
from kumihimo.core.errors import SettingsError
from kumihimo.core.task import Progress
from kumihimo.evaluate.bias import measure_bias, self_judging_of
from kumihimo.evaluate.bias_measures import BiasReport, Proportion, WinRate
from kumihimo.evaluate.comparison import Comparison, compare_by_criteria
from kumihimo.evaluate.judging.calls import JudgeCall, count_unanswered, plan_judge_calls, resolve_order, sample_calls
from kumihimo.evaluate.judging.plain_text import StripMode
from kumihimo.evaluate.judging.protocols import JudgeProtocol
from kumihimo.evaluate.judging.ratings import mean_ratings, plan_rating_calls, rate_answers
from kumihimo.evaluate.judging.study_verdicts import JudgeInputs, note_judging, write_judgements
from kumihimo.evaluate.judging.verdicts import judge_pairs
from kumihimo.evaluate.points import points_by_pair
from kumihimo.evaluate.records import Rating, Verdict
from kumihimo.evaluate.study import Study
from kumihimo.llm.budget import Caps
from kumihimo.llm.cached_llm import CachedLLM

T = TypeVar("T")
SECOND_JUDGE = "second_judge"


@dataclass(frozen=True, slots=True)
class JudgingRun:
    """A judging run of one study.

    quiet: a program reads the output. strip: marks to remove from answers; None: the protocol's.
    """

    study: Study
    protocol: JudgeProtocol
    inputs: JudgeInputs
    kumi: Kumihimo
    caps: Caps
    yes: bool
    quiet: bool
    progress: Progress | None
    strip: StripMode | None

    def compare(self, options: Mapping[str, Any], second: float, max_invalid: float) -> dict[str, Any]:
        """Judge pairs of answers.

        second: percent of the calls that the second judge repeats, if one is set.
        """
        budget = self.kumi.models.budget(self.caps)
        llm = self.kumi.models.llm("judge", budget)
        second_llm = self.kumi.models.llm(SECOND_JUDGE, budget) if self._has_second_judge() and second else None
        inputs = self.inputs
        call_list = plan_judge_calls(
            self.protocol, inputs.questions, inputs.answers, other_answers=inputs.other_answers, **options
        )
        if not call_list and len(inputs.answers) + len(inputs.other_answers) < 2:
            raise SettingsError(
                f"there is only {', '.join(inputs.answers)}, and nothing to compare it with: `kumi eval run` "
                "runs other systems, `--protocol mk` rates one"
            )
        second_calls = sample_calls(call_list, second) if second_llm else []
        self._announce(llm, len(call_list) + len(second_calls))
        judges: list[tuple[CachedLLM, Any, list[JudgeCall]]] = [(llm, "judge", call_list)]
        judges += [(second_llm, SECOND_JUDGE, second_calls)] if second_llm else []
        rows: list[Verdict] = []
        for judge, role, judge_calls in judges:
            per_call = len(judge_calls[0].criteria) if judge_calls else 1
            results = judge_pairs(
                self.protocol, judge_calls, judge, role=role, strip=self.strip, max_invalid=max_invalid
            )
            rows += self._with_progress(role, results, per_call * len(judge_calls))
        write_judgements(self.study, "verdicts", self.protocol, rows)
        settings = {
            "criteria": list(dict.fromkeys(c for call in call_list for c in call.criteria)),
            "replicates": options["replicates"] or self.protocol.replicates,
            "order": resolve_order(self.protocol, options["order"]),
            "against": options["against"],
            "max_invalid": max_invalid,
            SECOND_JUDGE: second_llm.fingerprint if second_llm else "",
            "second": second if second_llm else 0,
            "second_calls": len(second_calls),
        }
        summary = self._record_run(llm, rows, len(call_list), settings)
        return {**summary, **self._summarize(rows)}

    def rate(self, replicates: int, context: int, *, alone: bool) -> dict[str, Any]:
        """Rate the answers of each system."""
        llm = self.kumi.models.llm("judge", self.kumi.models.budget(self.caps))
        call_list = plan_rating_calls(
            self.inputs.questions, self.inputs.answers, replicates=replicates, one_system=alone
        )
        self._announce(llm, len(call_list))
        results = rate_answers(
            self.protocol, call_list, llm, tokenizer=self.kumi.tokenizer, context=context, strip=self.strip
        )
        total = sum(len(call.answers) for call in call_list) * len(self.protocol.criteria)
        rows = list(self._with_progress("judge", results, total))
        write_judgements(self.study, "ratings", self.protocol, rows)
        settings = {"replicates": replicates, "context_tokens": context, "alone": alone, "order": self.protocol.order}
        summary = self._record_run(llm, rows, len(call_list), settings)
        mean_rows = [
            {"system": s, "criterion": c, "mean": sum(v.values()) / len(v) if v else None, "questions": len(v)}
            for c, values in mean_ratings(rows).items()
            for s, v in values.items()
        ]
        if not self.quiet:
            _show_means(mean_rows)
        return {**summary, "means": mean_rows}

    def _has_second_judge(self) -> bool:
        return bool(self.kumi.models.settings.get(SECOND_JUDGE, {}).get("model"))

    def _announce(self, llm: CachedLLM, count: int) -> None:
        """Print the number of calls. Raises ConsentRequired without consent to many."""
        inputs = self.inputs
        remarks = [f"{count:,} calls to {llm.fingerprint} at most: cached replies are not asked for again"]
        remarks += [self_match.alarm for self_match in self_judging_of(llm.fingerprint, inputs.answers)]
        if missing := count_unanswered(inputs.questions, inputs.answers):
            names = ", ".join(f"{system} ({n:,})" for system, n in missing.items())
            remarks.append(f"questions without an answer, not judged: {names}")
        if inputs.single_generation and self.protocol.name == "debiased":
            command = f"kumi eval run --methods {','.join(inputs.single_generation)} --generations 2"
            remarks.append(f"not compared with themselves, because they answered only once: `{command}`")
        for remark in remarks:
            print(f"{remark[0].upper()}{remark[1:]}.", file=sys.stderr)
        require_consent(count, self.caps, yes=self.yes, quiet=self.quiet)

    def _with_progress(self, role: str, rows: Iterable[T], total: int) -> Iterator[T]:
        """Yield the rows, and update the progress bar."""
        for done, row in enumerate(rows, 1):
            yield row
            if self.progress:
                self.progress(role.replace("_", " "), done, total)

    def _record_run(
        self, llm: CachedLLM, rows: Sequence[Verdict] | Sequence[Rating], count: int, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Record the run in the manifest; return its summary."""
        inputs = self.inputs
        status = Counter[str](row.status for row in rows)
        all_rows: list[Verdict | Rating] = [*rows]
        first_errors = {row.status: row.why for row in reversed(all_rows) if row.status != "ok"}
        summary = {
            "protocol": self.protocol.name,
            "judge": llm.fingerprint,
            "systems": list(inputs.answers),
            "questions": len(inputs.questions),
            "calls": count,
            "rows": {name: status[name] for name in ("ok", "invalid", "failed")},
            "unanswered": count_unanswered(inputs.questions, inputs.answers),
            "own": [self_match.alarm for self_match in self_judging_of(llm.fingerprint, inputs.answers)],
            "why": first_errors,
        }
        strip = self.protocol.strip if self.strip is None else self.strip
        settings = {name: value for name, value in summary.items() if name not in ("protocol", "questions", "why")}
        note_judging(self.study, self.protocol, inputs, **settings, **options, strip=strip)
        return summary

    def _summarize(self, rows: Sequence[Verdict]) -> dict[str, Any]:
        inputs = self.inputs
        clusters = {question.id: question.cluster for question in inputs.questions}
        comparisons = compare_by_criteria(points_by_pair(rows), clusters)
        bias = measure_bias(rows, inputs.questions, inputs.answers, self.kumi.tokenizer)
        if not self.quiet:
            cells = [(w.metric, w.a, w.b, *_format_wins(w), f"{w.z:.2f}", _format_p(w.corrected)) for w in comparisons]
            head = ("criterion", "a", "b", "a wins %", "95 %", "questions", "Z", "p (Holm)")
            if cells:
                terminal.show_rows(cells, head=head, numeric=range(3, 8))
                family = ", ".join(f"{c}: {n}" for c, n in {w.metric: w.family for w in comparisons}.items())
                print(f"p is corrected for the pairs of a criterion ({family}).\n")
            _show_bias(bias)
        return {"pairs": [asdict(w) for w in comparisons], "bias": asdict(bias), "alarms": list(bias.alarms)}


def _show_bias(bias: BiasReport) -> None:
    head = ("criterion", "flips %", "first wins %", "ties %", "invalid %", "failed %")
    cells = [
        (order.criterion, *map(_format_share, (order.flips, order.first, order.ties, order.invalid, order.failed)))
        for order in bias.orders
    ]
    if cells:
        terminal.show_rows(cells, head=head, numeric=range(1, 6))
        print()
    self_rows = [(row.system, row.criterion, *_format_rate(row.rate)) for row in bias.same]
    if self_rows:
        names = ("against itself", "criterion", "wins %", "95 %", "questions")
        terminal.show_rows(self_rows, head=names, numeric=range(2, 5))
        print()
    if bias.lengths:
        tokens = ", ".join(f"{system} {size:,.0f}" for system, size in bias.tokens.items())
        print(f"Tokens of an answer: {tokens}.")
        longer = ", ".join(f"{row.criterion} {' '.join(_format_rate(row.longer)[:2])}" for row in bias.lengths)
        print(f"The longer answer wins, in percent: {longer}.")
    for row in bias.agreement:
        kappa = row.why if row.kappa is None else f"kappa {row.kappa:.2f}"
        print(f"The second judge agrees by {row.criterion}: {_format_share(row.alike)} % of {row.alike.of:,}, {kappa}.")
    for alarm in bias.alarms:
        print(f"Alarm: {alarm}.")


def _show_means(rows: Sequence[Mapping[str, Any]]) -> None:
    cells = [
        (r["system"], r["criterion"], "" if r["mean"] is None else f"{r['mean']:.1f}", str(r["questions"]))
        for r in rows
    ]
    if cells:
        terminal.show_rows(cells, head=("system", "criterion", "mean", "questions"), numeric=range(2, 4))


def _format_rate(rate: WinRate) -> tuple[str, str, str]:
    if rate.value is None:
        return "–", rate.why, "0"
    interval = "–" if rate.low is None else f"{rate.low:.1f}–{rate.high:.1f}"
    return f"{rate.value:.1f}", interval, f"{rate.n:,}"


def _format_wins(pair: Comparison) -> tuple[str, str, str]:
    interval = f"{pair.low:.1f}–{pair.high:.1f}" if pair.low < pair.high else "–"
    return f"{pair.mean:.1f}", interval, f"{pair.n:,}"


def _format_share(share: Proportion) -> str:
    return "–" if share.percent is None else f"{share.percent:.1f}"


def _format_p(p: float) -> str:
    return "< .001" if p < 0.001 else f"{p:.3f}"
