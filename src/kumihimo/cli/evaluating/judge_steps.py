"""what is to be judged + models -> the files of verdicts and ratings, and what a person is shown of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from kumihimo.app.facade import Kumihimo
from kumihimo.cli import terminal
from kumihimo.cli.evaluating.confirm import consented
from kumihimo.core.errors import SettingsError
from kumihimo.core.task import Progress
from kumihimo.evaluate.bias import Bias, Rate, Share, biases, own_of
from kumihimo.evaluate.comparison import Compared, by_criteria
from kumihimo.evaluate.judging.calls import Call, calls, order_of, some, unanswered
from kumihimo.evaluate.judging.plain_text import Strip
from kumihimo.evaluate.judging.protocols import Protocol
from kumihimo.evaluate.judging.ratings import means, ratings, shown
from kumihimo.evaluate.judging.study_verdicts import Held, note, write
from kumihimo.evaluate.judging.verdicts import verdicts
from kumihimo.evaluate.points import points
from kumihimo.evaluate.records import Rating, Verdict
from kumihimo.evaluate.study import Study
from kumihimo.llm.budget import Caps
from kumihimo.llm.cached_llm import Asking

T = TypeVar("T")
SECOND = "second_judge"


@dataclass(frozen=True, slots=True)
class Run:
    """quiet: a program reads what is printed. strip: marks to be taken out of answers; None: those of the protocol."""

    study: Study
    protocol: Protocol
    found: Held
    kumi: Kumihimo
    caps: Caps
    yes: bool
    quiet: bool
    progress: Progress | None
    strip: Strip | None

    def compare(self, given: Mapping[str, Any], second: float, max_invalid: float) -> dict[str, Any]:
        """Verdicts on pairs. second: percent of the calls that the second judge is asked, too, if one is set."""
        purse = self.kumi.models.purse(self.caps)
        ask = self.kumi.models.asking("judge", purse)
        other = self.kumi.models.asking(SECOND, purse) if self._has_second() and second else None
        found = self.found
        listed = calls(self.protocol, found.questions, found.answers, again=found.again, **given)
        if not listed and len(found.answers) + len(found.again) < 2:
            raise SettingsError(
                f"there is only {', '.join(found.answers)}, and nothing to compare it with: `kumi eval run` asks other "
                "systems, `--protocol mk` rates one"
            )
        again = some(listed, second) if other else []
        self._begin(ask, len(listed) + len(again))
        judges: list[tuple[Asking, Any, list[Call]]] = [(ask, "judge", listed)]
        judges += [(other, SECOND, again)] if other else []
        rows: list[Verdict] = []
        for judge, role, its in judges:
            each = len(its[0].criteria) if its else 1
            made = verdicts(self.protocol, its, judge, role=role, strip=self.strip, max_invalid=max_invalid)
            rows += self._shown(role, made, each * len(its))
        write(self.study, "verdicts", self.protocol, rows)
        used = {
            "criteria": list(dict.fromkeys(c for call in listed for c in call.criteria)),
            "replicates": given["replicates"] or self.protocol.replicates,
            "order": order_of(self.protocol, given["order"]),
            "against": given["against"],
            "max_invalid": max_invalid,
            SECOND: other.mark if other else "",
            "second": second if other else 0,
            "second_calls": len(again),
        }
        told = self._noted(ask, rows, len(listed), used)
        return {**told, **self._results(rows)}

    def rate(self, replicates: int, context: int, *, alone: bool) -> dict[str, Any]:
        """Ratings of each system."""
        ask = self.kumi.models.asking("judge", self.kumi.models.purse(self.caps))
        listed = shown(self.found.questions, self.found.answers, replicates=replicates, alone=alone)
        self._begin(ask, len(listed))
        made = ratings(self.protocol, listed, ask, ruler=self.kumi.ruler, context=context, strip=self.strip)
        total = sum(len(call.answers) for call in listed) * len(self.protocol.criteria)
        rows = list(self._shown("judge", made, total))
        write(self.study, "ratings", self.protocol, rows)
        used = {"replicates": replicates, "context_tokens": context, "alone": alone, "order": self.protocol.order}
        told = self._noted(ask, rows, len(listed), used)
        listed_means = [
            {"system": s, "criterion": c, "mean": sum(v.values()) / len(v) if v else None, "questions": len(v)}
            for c, of in means(rows).items()
            for s, v in of.items()
        ]
        if not self.quiet:
            _show_means(listed_means)
        return {**told, "means": listed_means}

    def _has_second(self) -> bool:
        return bool(self.kumi.models.settings.get(SECOND, {}).get("model"))

    def _begin(self, ask: Asking, count: int) -> None:
        """Say what is to come. Raises NeedsConsent where it is much, nothing bounds it, and nobody has agreed."""
        found = self.found
        remarks = [f"{count:,} calls to {ask.mark} at most: what is remembered is not asked again"]
        remarks += [own.alarm for own in own_of(ask.mark, found.answers)]
        if missing := unanswered(found.questions, found.answers):
            told = ", ".join(f"{system} ({n:,})" for system, n in missing.items())
            remarks.append(f"questions without an answer, which are not judged: {told}")
        if found.alone and self.protocol.name == "debiased":
            command = f"kumi eval run --methods {','.join(found.alone)} --generations 2"
            remarks.append(f"not compared with themselves, since they answered once only: `{command}`")
        for remark in remarks:
            print(f"{remark[0].upper()}{remark[1:]}.", file=sys.stderr)
        consented(count, self.caps, yes=self.yes, quiet=self.quiet)

    def _shown(self, role: str, rows: Iterable[T], total: int) -> Iterator[T]:
        """The rows, each told to the progress bar."""
        for done, row in enumerate(rows, 1):
            yield row
            if self.progress:
                self.progress(role.replace("_", " "), done, total)

    def _noted(
        self, ask: Asking, rows: Sequence[Verdict] | Sequence[Rating], count: int, used: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Into the manifest how it was run; gives what is told of it in any case."""
        found = self.found
        status = Counter[str](row.status for row in rows)
        listed: list[Verdict | Rating] = [*rows]
        why = {row.status: row.why for row in reversed(listed) if row.status != "ok"}  # of the first
        told = {
            "protocol": self.protocol.name,
            "judge": ask.mark,
            "systems": list(found.answers),
            "questions": len(found.questions),
            "calls": count,
            "rows": {name: status[name] for name in ("ok", "invalid", "failed")},
            "unanswered": unanswered(found.questions, found.answers),
            "own": [own.alarm for own in own_of(ask.mark, found.answers)],
            "why": why,
        }
        strip = self.protocol.strip if self.strip is None else self.strip
        settings = {name: value for name, value in told.items() if name not in ("protocol", "questions", "why")}
        note(self.study, self.protocol, found, **settings, **used, strip=strip)
        return told

    def _results(self, rows: Sequence[Verdict]) -> dict[str, Any]:
        found = self.found
        clusters = {question.id: question.cluster for question in found.questions}
        won = by_criteria(points(rows), clusters)
        panel = biases(rows, found.questions, found.answers, self.kumi.ruler)
        if not self.quiet:
            cells = [(w.metric, w.a, w.b, *_won(w), f"{w.z:.2f}", _p(w.corrected)) for w in won]
            head = ("criterion", "a", "b", "a wins %", "95 %", "questions", "Z", "p (Holm)")
            if cells:
                terminal.show_rows(cells, head=head, figures=range(3, 8))
                family = ", ".join(f"{c}: {n}" for c, n in {w.metric: w.family for w in won}.items())
                print(f"p is corrected for the pairs of a criterion ({family}).\n")
            _show_bias(panel)
        return {"pairs": [asdict(w) for w in won], "bias": asdict(panel), "alarms": list(panel.alarms)}


def _show_bias(panel: Bias) -> None:
    head = ("criterion", "flips %", "first wins %", "ties %", "invalid %", "failed %")
    cells = [(o.criterion, *map(_share, (o.flips, o.first, o.ties, o.invalid, o.failed))) for o in panel.orders]
    if cells:
        terminal.show_rows(cells, head=head, figures=range(1, 6))
        print()
    alike = [(row.system, row.criterion, *_rate(row.rate)) for row in panel.same]
    if alike:
        names = ("against itself", "criterion", "wins %", "95 %", "questions")
        terminal.show_rows(alike, head=names, figures=range(2, 5))
        print()
    if panel.lengths:
        tokens = ", ".join(f"{system} {size:,.0f}" for system, size in panel.tokens.items())
        print(f"Tokens of an answer: {tokens}.")
        longer = ", ".join(f"{row.criterion} {' '.join(_rate(row.longer)[:2])}" for row in panel.lengths)
        print(f"The longer answer wins, in percent: {longer}.")
    for row in panel.agreement:
        kappa = row.why if row.kappa is None else f"kappa {row.kappa:.2f}"
        print(f"The second judge agrees by {row.criterion}: {_share(row.alike)} % of {row.alike.of:,}, {kappa}.")
    for alarm in panel.alarms:
        print(f"Alarm: {alarm}.")


def _show_means(rows: Sequence[Mapping[str, Any]]) -> None:
    cells = [
        (r["system"], r["criterion"], "" if r["mean"] is None else f"{r['mean']:.1f}", str(r["questions"]))
        for r in rows
    ]
    if cells:
        terminal.show_rows(cells, head=("system", "criterion", "mean", "questions"), figures=range(2, 4))


def _rate(rate: Rate) -> tuple[str, str, str]:
    if rate.value is None:
        return "–", rate.why, "0"
    within = "–" if rate.low is None else f"{rate.low:.1f}–{rate.high:.1f}"
    return f"{rate.value:.1f}", within, f"{rate.n:,}"


def _won(pair: Compared) -> tuple[str, str, str]:
    within = f"{pair.low:.1f}–{pair.high:.1f}" if pair.low < pair.high else "–"
    return f"{pair.mean:.1f}", within, f"{pair.n:,}"


def _share(share: Share) -> str:
    return "–" if share.percent is None else f"{share.percent:.1f}"


def _p(p: float) -> str:
    return "< .001" if p < 0.001 else f"{p:.3f}"
