"""the answers of a study -> verdicts on pairs or ratings, win rates and bias checks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from typer import Option

from kumihimo.app.facade import Kumihimo
from kumihimo.cli import options, printing
from kumihimo.cli.evaluating import options as shared
from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.core.task import Progress
from kumihimo.evaluate import comparison, points
from kumihimo.evaluate.bias import BiasReport, LengthAdjustedRate, measure_bias, self_judging_of
from kumihimo.evaluate.judging import protocols, refusals, verdicts
from kumihimo.evaluate.judging.blinding import StripMode
from kumihimo.evaluate.records import Rating, Verdict
from kumihimo.llm.cached_llm import StructuredLLM

SECOND_JUDGE: Literal["second_judge"] = "second_judge"


def judge(
    study: shared.StudyOption,
    session: options.PaidSession,
    protocol: shared.ProtocolName = "debiased",
    methods: shared.AnsweredSystems = "",
    criteria: shared.Criteria = "",
    replicates: shared.Replicates = 0,
    order: Annotated[
        Literal["fixed", "alternate", "both"] | None,
        Option(help="Order of the two answers: fixed, alternating, or both for each replicate."),
    ] = None,
    against: shared.Against = "",
    sample: Annotated[int, Option(help="Judge only this many questions, the same each time; 0: all.", min=0)] = 0,
    same: Annotated[
        str, Option(help="Compare these systems with their own second generation: all, none, names.", metavar="NAMES")
    ] = "all",
    strip: Annotated[
        StripMode | None, Option(help="What to remove from answers before judging; debiased: all, others: none.")
    ] = None,
    second: Annotated[float, Option(help="Percent of calls repeated with the second judge.", min=0, max=100)] = 10,
    max_invalid: Annotated[float, Option(help="Maximum percent of invalid replies.", min=0, max=100)] = 2,
    alone: Annotated[bool, Option("--alone", help="mk: one system per call.")] = False,
    context_tokens: Annotated[int, Option(help="mk: tokens of evidence shown per system.", min=0)] = 2000,
    yes: shared.Yes = False,
) -> None:
    """Let a judge model compare answers in pairs, or rate them."""
    options.check_choice("protocol", protocol, protocols.PROTOCOLS)
    inputs = verdicts.select_judge_inputs(
        study,
        systems=options.split_names(methods),
        against=against,
        sample=sample,
        aa_systems=options.split_names(same),
    )
    study.check_readable("ratings" if protocol == "mk" else "verdicts")
    with session.open() as kumi, session.progress_bar() as progress:
        run = JudgingRun(study, session, protocols.PROTOCOLS[protocol], inputs, kumi, yes, progress, strip)
        if protocol == "mk":
            summary = run.rate(replicates or 1, context_tokens, alone=alone)
        else:
            choices = {"criteria": options.split_names(criteria), "replicates": replicates, "order": order or ""}
            summary = run.compare({**choices, "against": against}, second, max_invalid)
    if session.as_json:
        printing.print_json(summary)
    _raise_failures(summary, max_invalid)


def _raise_failures(summary: dict[str, Any], max_invalid: float) -> None:
    """Raise ItemFailed if rows failed or too many were invalid."""
    rows, errors = summary["rows"], summary["why"]
    total = sum(rows.values())
    shared.raise_failures(rows["failed"], total, errors.get("failed", ""))
    if rows["invalid"] * 100 > max_invalid * total:
        raise ItemFailed(
            f"{rows['invalid']:,} of {total:,} rows are invalid, more than {max_invalid:g} %: set another model under "
            f"[judge], or allow more with --max-invalid; the first: {errors['invalid']}"
        )


@dataclass(frozen=True, slots=True)
class JudgingRun:
    """A judging run of one study.

    strip: marks to remove from answers; None: the protocol's.
    """

    study: shared.StudyOption
    session: options.PaidSession
    protocol: protocols.JudgeProtocol
    inputs: verdicts.JudgeInputs
    kumi: Kumihimo
    yes: bool
    progress: Progress | None
    strip: StripMode | None

    def compare(self, choices: Mapping[str, Any], second: float, max_invalid: float) -> dict[str, Any]:
        """Judge pairs of answers.

        second: percent of the calls that the second judge repeats, if one is set.
        """
        inputs, models = self.inputs, self.kumi.models
        budget = models.budget(self.session.caps)
        llm = models.llm("judge", budget)
        call_list = verdicts.plan_judge_calls(
            self.protocol, inputs.questions, inputs.answers, other_answers=inputs.other_answers, **choices
        )
        if not call_list and len(inputs.answers) + len(inputs.other_answers) < 2:
            raise SettingsError(
                f"there is only {', '.join(inputs.answers)}, and nothing to compare it with: `kumi eval run` "
                "runs other systems, `--protocol mk` rates one"
            )
        judges: dict[verdicts.JudgeRole, tuple[StructuredLLM, Sequence[verdicts.JudgeCall]]] = {
            "judge": (llm, call_list)
        }
        if second and models.settings.get(SECOND_JUDGE, {}).get("model"):
            judges[SECOND_JUDGE] = models.llm(SECOND_JUDGE, budget), verdicts.sample_calls(call_list, second)
        self._announce(llm, sum(len(calls) for _, calls in judges.values()))
        rows: list[Verdict] = []
        for role, (model, calls) in judges.items():
            judging = partial(verdicts.judge_pairs, self.protocol, calls, model, role=role, strip=self.strip)
            rows += judging(max_invalid=max_invalid, progress=self.progress)
        verdicts.write_judgements(self.study, "verdicts", self.protocol, rows)
        second_llm, second_calls = judges.get(SECOND_JUDGE, (None, ()))
        settings = {
            "criteria": list(dict.fromkeys(c for call in call_list for c in call.criteria)),
            "replicates": choices["replicates"] or self.protocol.replicates,
            "order": self.protocol.resolve_order(choices["order"]),
            "against": choices["against"],
            "max_invalid": max_invalid,
            SECOND_JUDGE: second_llm.fingerprint if second_llm else "",
            "second": second if second_llm else 0,
            "second_calls": len(second_calls),
        }
        return {**self._record_run(llm, rows, len(call_list), settings), **self._summarize(rows)}

    def rate(self, replicates: int, context: int, *, alone: bool) -> dict[str, Any]:
        """Rate the answers of each system."""
        llm = self.kumi.models.llm("judge", self.kumi.models.budget(self.session.caps))
        call_list = verdicts.plan_rating_calls(
            self.inputs.questions, self.inputs.answers, replicates=replicates, one_system=alone
        )
        self._announce(llm, len(call_list))
        options: dict[str, Any] = {"tokenizer": self.kumi.tokenizer, "context": context, "strip": self.strip}
        rows = list(verdicts.rate_answers(self.protocol, call_list, llm, **options, progress=self.progress))
        verdicts.write_judgements(self.study, "ratings", self.protocol, rows)
        settings = {"replicates": replicates, "context_tokens": context, "alone": alone, "order": self.protocol.order}
        summary = self._record_run(llm, rows, len(call_list), settings)
        mean_rows: list[dict[str, Any]] = [
            {"system": s, "criterion": c, "mean": sum(v.values()) / len(v) if v else None, "questions": len(v)}
            for c, values in verdicts.mean_ratings(rows).items()
            for s, v in values.items()
        ]
        if mean_rows and not self.session.as_json:
            head = ("system", "criterion", "mean", "questions")
            means = ["" if row["mean"] is None else f"{row['mean']:.1f}" for row in mean_rows]
            rated = zip(mean_rows, means, strict=True)
            cells = [(row["system"], row["criterion"], mean, str(row["questions"])) for row, mean in rated]
            printing.show_rows(cells, head=head, numeric=(2, 3))
        return {**summary, "means": mean_rows}

    def _announce(self, llm: StructuredLLM, count: int) -> None:
        """Print the number of calls. Raises ConsentRequired without consent to many."""
        inputs = self.inputs
        remarks = [f"{count:,} calls to {llm.fingerprint} at most: cached replies are not asked for again."]
        alarms = [self_match.alarm for self_match in self_judging_of(llm.fingerprint, inputs.answers)]
        remarks += [f"{alarm[:1].upper()}{alarm[1:]}." for alarm in alarms]
        if missing := verdicts.count_unanswered(inputs.questions, inputs.answers):
            names = ", ".join(f"{system} ({n:,})" for system, n in missing.items())
            remarks.append(f"Questions without an answer, not judged: {names}.")
        if empty := sum(map(refusals.is_unanswerable, inputs.questions)):
            remarks.append(f"Questions without an answer in the documents, not judged: {empty:,}.")
        if inputs.single_generation and self.protocol.name in ("debiased", "differential"):
            command = f"kumi eval run --methods {','.join(inputs.single_generation)} --generations 2"
            remarks.append(f"Not compared with themselves, because they answered only once: `{command}`.")
        for remark in remarks:
            printing.print_note(remark)
        shared.confirm_calls(count, self.session, yes=self.yes)

    def _record_run(
        self, llm: StructuredLLM, rows: Sequence[Verdict] | Sequence[Rating], count: int, choices: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Record the run in the manifest; return its summary."""
        inputs = self.inputs
        status = Counter(row.status for row in rows)
        first_errors: dict[str, str] = {}
        for row in rows:
            if row.status != "ok":
                first_errors.setdefault(row.status, row.why)
        systems = {
            "judge": llm.fingerprint,
            "systems": list(inputs.answers),
            "calls": count,
            "rows": {name: status[name] for name in ("ok", "invalid", "failed")},
            "unanswered": verdicts.count_unanswered(inputs.questions, inputs.answers),
            "own": [self_match.alarm for self_match in self_judging_of(llm.fingerprint, inputs.answers)],
        }
        strip = self.protocol.strip if self.strip is None else self.strip
        verdicts.record_judging_inputs(self.study, self.protocol, inputs, **systems, **choices, strip=strip)
        return {"protocol": self.protocol.name, "questions": len(inputs.questions), **systems, "why": first_errors}

    def _summarize(self, rows: Sequence[Verdict]) -> dict[str, Any]:
        """Return the win rates and bias checks; print them for a person."""
        inputs = self.inputs
        clusters = {question.id: question.cluster for question in inputs.questions}
        comparisons = comparison.compare_by_criteria(points.points_by_pair(rows), clusters)
        bias = measure_bias(rows, inputs.questions, inputs.answers, self.kumi.tokenizer)
        if not self.session.as_json:
            if comparisons:
                head = ("criterion", "a", "b", "a wins %", "95 %", "questions", "Z", "p (Holm)", "better")
                printing.show_rows(map(_format_comparison, comparisons), head=head, numeric=range(3, 8))
                family = ", ".join(f"{c}: {n}" for c, n in {w.metric: w.family for w in comparisons}.items())
                printing.print_message(f"p and intervals are corrected for the pairs of a criterion ({family}).\n")
            _show_bias(bias)
        return {"pairs": comparisons, "bias": bias, "alarms": bias.alarms}


def _show_bias(bias: BiasReport) -> None:
    """Print the bias checks, one table or sentence each."""
    head = ("criterion", "flips %", "first wins %", "ties %", "invalid %", "failed %")
    shares = ((row.flips, row.first, row.ties, row.invalid, row.failed) for row in bias.orders)
    percents = ([printing.format_decimals(share.percent, 1) for share in row] for row in shares)
    _show_table([(row.criterion, *cells) for row, cells in zip(bias.orders, percents, strict=True)], head=head, texts=1)
    rates = [(row.system, row.criterion, *_format_rate(row.rate)) for row in bias.same]
    _show_table(rates, head=("against itself", "criterion", "wins %", "95 %", "questions"), texts=2)
    lengths = ("a tokens", "b tokens", "a wins %", "at similar length", "questions", "adjusted")
    _show_table([*map(_format_lengths, bias.adjusted)], head=("criterion", "a", "b", *lengths), texts=3)
    if bias.lengths:
        longer = ", ".join(f"{row.criterion} {' '.join(_format_rate(row.longer)[:2])}" for row in bias.lengths)
        printing.print_message(f"The longer answer wins, in percent: {longer}.")
    for row in bias.refusals:
        if row.of_unanswerable or row.answerable:
            printing.print_message(
                f"{row.system} refuses {row.unanswerable:,} of {row.of_unanswerable:,} questions without an answer, "
                f"and {row.answerable:,} of {row.of_answerable:,} others."
            )
    for each in bias.agreement:
        kappa = each.why if each.kappa is None else f"kappa {each.kappa:.2f}"
        share = printing.format_decimals(each.alike.percent, 1)
        printing.print_message(f"The second judge agrees by {each.criterion}: {share} % of {each.alike.of:,}, {kappa}.")
    for alarm in bias.alarms:
        printing.print_message(f"Alarm: {alarm}.")


def _show_table(rows: Sequence[Sequence[str]], *, head: Sequence[str], texts: int) -> None:
    """Print a table and a blank line, unless it is empty.

    texts: the number of its first columns with text.
    """
    if rows:
        printing.show_rows(rows, head=head, numeric=range(texts, len(head)))
        printing.print_text()


def _format_lengths(row: LengthAdjustedRate) -> tuple[str, ...]:
    raw, matched, adjusted = (printing.format_decimals(rate.value, 1) for rate in (row.raw, row.matched, row.adjusted))
    tokens = (f"{row.tokens_a:,.0f}", f"{row.tokens_b:,.0f}")
    return row.criterion, row.a, row.b, *tokens, raw, matched, f"{row.matched.n:,}", adjusted


def _format_rate(rate: points.WinRate) -> tuple[str, str, str]:
    if rate.value is None:
        return "–", rate.why, "0"
    interval = "–" if rate.low is None else f"{rate.low:.1f}–{rate.high:.1f}"
    return f"{rate.value:.1f}", interval, f"{rate.n:,}"


def _format_comparison(pair: comparison.Comparison) -> tuple[str, ...]:
    interval = f"{pair.corrected_low:.1f}–{pair.corrected_high:.1f}" if pair.low < pair.high else "–"
    p = "< .001" if pair.corrected < 0.001 else f"{pair.corrected:.3f}"
    return pair.metric, pair.a, pair.b, f"{pair.mean:.1f}", interval, f"{pair.n:,}", f"{pair.z:.2f}", p, pair.higher
