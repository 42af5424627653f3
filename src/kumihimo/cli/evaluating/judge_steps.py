"""what is to be judged + models -> the files of verdicts and ratings, and what a person is shown of them."""

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
from kumihimo.evaluate.bias import BiasReport, Proportion, WinRate, measure_bias, self_judging_of
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
    """quiet: a program reads what is printed. strip: marks to be taken out of answers; None: those of the protocol."""

    study: Study
    protocol: JudgeProtocol
    inputs: JudgeInputs
    kumi: Kumihimo
    caps: Caps
    yes: bool
    quiet: bool
    progress: Progress | None
    strip: StripMode | None

    def compare(self, given: Mapping[str, Any], second: float, max_invalid: float) -> dict[str, Any]:
        """Verdicts on pairs. second: percent of the calls that the second judge is asked, too, if one is set."""
        purse = self.kumi.models.budget(self.caps)
        ask = self.kumi.models.llm("judge", purse)
        other = self.kumi.models.llm(SECOND_JUDGE, purse) if self._has_second_judge() and second else None
        found = self.inputs
        listed = plan_judge_calls(
            self.protocol, found.questions, found.answers, other_answers=found.other_answers, **given
        )
        if not listed and len(found.answers) + len(found.other_answers) < 2:
            raise SettingsError(
                f"there is only {', '.join(found.answers)}, and nothing to compare it with: `kumi eval run` asks other "
                "systems, `--protocol mk` rates one"
            )
        again = sample_calls(listed, second) if other else []
        self._announce(ask, len(listed) + len(again))
        judges: list[tuple[CachedLLM, Any, list[JudgeCall]]] = [(ask, "judge", listed)]
        judges += [(other, SECOND_JUDGE, again)] if other else []
        rows: list[Verdict] = []
        for judge, role, its in judges:
            each = len(its[0].criteria) if its else 1
            made = judge_pairs(self.protocol, its, judge, role=role, strip=self.strip, max_invalid=max_invalid)
            rows += self._with_progress(role, made, each * len(its))
        write_judgements(self.study, "verdicts", self.protocol, rows)
        used = {
            "criteria": list(dict.fromkeys(c for call in listed for c in call.criteria)),
            "replicates": given["replicates"] or self.protocol.replicates,
            "order": resolve_order(self.protocol, given["order"]),
            "against": given["against"],
            "max_invalid": max_invalid,
            SECOND_JUDGE: other.fingerprint if other else "",
            "second": second if other else 0,
            "second_calls": len(again),
        }
        told = self._record_run(ask, rows, len(listed), used)
        return {**told, **self._summarize(rows)}

    def rate(self, replicates: int, context: int, *, alone: bool) -> dict[str, Any]:
        """Ratings of each system."""
        ask = self.kumi.models.llm("judge", self.kumi.models.budget(self.caps))
        listed = plan_rating_calls(self.inputs.questions, self.inputs.answers, replicates=replicates, one_system=alone)
        self._announce(ask, len(listed))
        made = rate_answers(
            self.protocol, listed, ask, tokenizer=self.kumi.tokenizer, context=context, strip=self.strip
        )
        total = sum(len(call.answers) for call in listed) * len(self.protocol.criteria)
        rows = list(self._with_progress("judge", made, total))
        write_judgements(self.study, "ratings", self.protocol, rows)
        used = {"replicates": replicates, "context_tokens": context, "alone": alone, "order": self.protocol.order}
        told = self._record_run(ask, rows, len(listed), used)
        listed_means = [
            {"system": s, "criterion": c, "mean": sum(v.values()) / len(v) if v else None, "questions": len(v)}
            for c, of in mean_ratings(rows).items()
            for s, v in of.items()
        ]
        if not self.quiet:
            _show_means(listed_means)
        return {**told, "means": listed_means}

    def _has_second_judge(self) -> bool:
        return bool(self.kumi.models.settings.get(SECOND_JUDGE, {}).get("model"))

    def _announce(self, ask: CachedLLM, count: int) -> None:
        """Say what is to come. Raises NeedsConsent where it is much, nothing bounds it, and nobody has agreed."""
        found = self.inputs
        remarks = [f"{count:,} calls to {ask.fingerprint} at most: what is remembered is not asked again"]
        remarks += [own.alarm for own in self_judging_of(ask.fingerprint, found.answers)]
        if missing := count_unanswered(found.questions, found.answers):
            told = ", ".join(f"{system} ({n:,})" for system, n in missing.items())
            remarks.append(f"questions without an answer, which are not judged: {told}")
        if found.single_generation and self.protocol.name == "debiased":
            command = f"kumi eval run --methods {','.join(found.single_generation)} --generations 2"
            remarks.append(f"not compared with themselves, since they answered once only: `{command}`")
        for remark in remarks:
            print(f"{remark[0].upper()}{remark[1:]}.", file=sys.stderr)
        require_consent(count, self.caps, yes=self.yes, quiet=self.quiet)

    def _with_progress(self, role: str, rows: Iterable[T], total: int) -> Iterator[T]:
        """The rows, each told to the progress bar."""
        for done, row in enumerate(rows, 1):
            yield row
            if self.progress:
                self.progress(role.replace("_", " "), done, total)

    def _record_run(
        self, ask: CachedLLM, rows: Sequence[Verdict] | Sequence[Rating], count: int, used: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Into the manifest how it was run; gives what is told of it in any case."""
        found = self.inputs
        status = Counter[str](row.status for row in rows)
        listed: list[Verdict | Rating] = [*rows]
        why = {row.status: row.why for row in reversed(listed) if row.status != "ok"}  # of the first
        told = {
            "protocol": self.protocol.name,
            "judge": ask.fingerprint,
            "systems": list(found.answers),
            "questions": len(found.questions),
            "calls": count,
            "rows": {name: status[name] for name in ("ok", "invalid", "failed")},
            "unanswered": count_unanswered(found.questions, found.answers),
            "own": [own.alarm for own in self_judging_of(ask.fingerprint, found.answers)],
            "why": why,
        }
        strip = self.protocol.strip if self.strip is None else self.strip
        settings = {name: value for name, value in told.items() if name not in ("protocol", "questions", "why")}
        note_judging(self.study, self.protocol, found, **settings, **used, strip=strip)
        return told

    def _summarize(self, rows: Sequence[Verdict]) -> dict[str, Any]:
        found = self.inputs
        clusters = {question.id: question.cluster for question in found.questions}
        won = compare_by_criteria(points_by_pair(rows), clusters)
        panel = measure_bias(rows, found.questions, found.answers, self.kumi.tokenizer)
        if not self.quiet:
            cells = [(w.metric, w.a, w.b, *_format_wins(w), f"{w.z:.2f}", _format_p(w.corrected)) for w in won]
            head = ("criterion", "a", "b", "a wins %", "95 %", "questions", "Z", "p (Holm)")
            if cells:
                terminal.show_rows(cells, head=head, numeric=range(3, 8))
                family = ", ".join(f"{c}: {n}" for c, n in {w.metric: w.family for w in won}.items())
                print(f"p is corrected for the pairs of a criterion ({family}).\n")
            _show_bias(panel)
        return {"pairs": [asdict(w) for w in won], "bias": asdict(panel), "alarms": list(panel.alarms)}


def _show_bias(panel: BiasReport) -> None:
    head = ("criterion", "flips %", "first wins %", "ties %", "invalid %", "failed %")
    cells = [(o.criterion, *map(_format_share, (o.flips, o.first, o.ties, o.invalid, o.failed))) for o in panel.orders]
    if cells:
        terminal.show_rows(cells, head=head, numeric=range(1, 6))
        print()
    alike = [(row.system, row.criterion, *_format_rate(row.rate)) for row in panel.same]
    if alike:
        names = ("against itself", "criterion", "wins %", "95 %", "questions")
        terminal.show_rows(alike, head=names, numeric=range(2, 5))
        print()
    if panel.lengths:
        tokens = ", ".join(f"{system} {size:,.0f}" for system, size in panel.tokens.items())
        print(f"Tokens of an answer: {tokens}.")
        longer = ", ".join(f"{row.criterion} {' '.join(_format_rate(row.longer)[:2])}" for row in panel.lengths)
        print(f"The longer answer wins, in percent: {longer}.")
    for row in panel.agreement:
        kappa = row.why if row.kappa is None else f"kappa {row.kappa:.2f}"
        print(f"The second judge agrees by {row.criterion}: {_format_share(row.alike)} % of {row.alike.of:,}, {kappa}.")
    for alarm in panel.alarms:
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
    within = "–" if rate.low is None else f"{rate.low:.1f}–{rate.high:.1f}"
    return f"{rate.value:.1f}", within, f"{rate.n:,}"


def _format_wins(pair: Comparison) -> tuple[str, str, str]:
    within = f"{pair.low:.1f}–{pair.high:.1f}" if pair.low < pair.high else "–"
    return f"{pair.mean:.1f}", within, f"{pair.n:,}"


def _format_share(share: Proportion) -> str:
    return "–" if share.percent is None else f"{share.percent:.1f}"


def _format_p(p: float) -> str:
    return "< .001" if p < 0.001 else f"{p:.3f}"
