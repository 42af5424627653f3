"""the questions of a study + an index -> answers of each system; these answers -> scores and claims."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

from typer import Option

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.facade import Kumihimo
from kumihimo.cli import options, printing
from kumihimo.cli.evaluating import options as shared, other_builds
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.core.usage import Usage
from kumihimo.evaluate import run_systems
from kumihimo.evaluate.build_spread import BuildSpread, name_of_build, split_build, spread_over_builds
from kumihimo.evaluate.claims import stages, study_claims
from kumihimo.evaluate.records import Score, SystemAnswer
from kumihimo.evaluate.scoring import run_scores
from kumihimo.evaluate.study import Study, row_to_json
from kumihimo.evaluate.systems import System, select_systems
from kumihimo.llm.budget import Budget
from kumihimo.llm.registry import SET_MODEL_HINT
from kumihimo.text.question import MAX_QUESTION_CHARS

_MAX_PASSAGES, _PASSAGE_TOKENS = 10, 4000  # per claim
_CHECK_HEADS = {
    "unsupported_by_context": "not in evidence",
    "unsupported_by_corpus": "not in corpus",
    "selfcheck": "doubt",
}
_SCORER = "scorer"
_MAX_REASONS, _MAX_NAMES = 10, 3  # names: measures per reason


def run(
    study: shared.StudyOption,
    session: options.PaidSession,
    methods: shared.SystemNames = "",
    generations: shared.Generations = 1,
    again: Annotated[
        str, Option(help="Run these systems twice, to measure variation by chance.", metavar="NAMES")
    ] = "",
    builds: Annotated[int, Option(help="Ask about this many builds of the index, made by the model.", min=1)] = 1,
    seed: Annotated[
        int | None, Option(help="The seed of requests to the chat model; another build has the next one.", min=0)
    ] = None,
) -> None:
    """Ask each system the questions of a study, and keep its answers."""
    study.check_readable()
    if seed is not None:
        with session.open() as kumi:
            session = other_builds.with_seed(session, kumi, seed)
    with session.open() as kumi, session.read(kumi, *shared.named_methods(kumi, methods)) as snapshot:
        budget = kumi.models.budget(session.caps)
        systems, left_out = select_systems(snapshot, methods)
        warn_left_out(left_out)
        times = {system.name: generations for system in systems}
        for name in options.split_names(again):
            if name not in times:
                raise SettingsError(f"--again {name}: {describe_unknown('system', name, times)}")
            times[name] = max(generations, 2)
        if max(builds, *times.values()) > 1 and not snapshot.models.chat("answer"):
            printing.print_note("(Without a chat model, all generations and builds are identical.)")
        answers = _answer_questions(study, session, snapshot, systems, times, budget)
        for number in range(2, builds + 1):
            needed = [system.method for system in systems]
            with other_builds.open_other_build(
                session, kumi, number, (seed or 0) + number - 1, needed, budget
            ) as other:
                answers |= _answer_about_build(study, *other, number, systems, times, budget)
    summaries = {
        name: _summarize_answers(rows, times[name if name in times else split_build(name)[0]])
        for name, rows in answers.items()
    }
    document = {"study": str(study.folder), "systems": summaries, "left_out": left_out, "paid": budget.total}
    document["remembered"] = sum(budget.saved.values(), Usage())
    session.show(document, lambda _: _show_answers(summaries, budget.total))
    failures = [row.failed for rows in answers.values() for row in rows if row.failed]
    shared.raise_failures(len(failures), sum(map(len, answers.values())), "".join(failures[:1]))


def _answer_questions(
    study: Study,
    session: options.PaidSession,
    snapshot: Snapshot,
    systems: Sequence[System],
    times: Mapping[str, int],
    budget: Budget,
) -> dict[str, list[SystemAnswer]]:
    """Return each system's answers, after writing them."""
    questions = study.questions()
    run_systems.check_questions(questions)
    inputs = describe_inputs(study, session, snapshot)
    answers: dict[str, list[SystemAnswer]] = {system.name: [] for system in systems}
    with session.progress_bar() as progress:
        for system in systems:
            for n in range(times[system.name]):
                earlier = list(study.answers(system.name, n)) if n < study.count_generations(system.name) else []
                rows = run_systems.answer_questions(
                    snapshot, system, questions, budget, generation=n, earlier=earlier, progress=progress
                )
                study.write_answers(system.name, n, run_systems.keep_earlier_answers(rows, earlier))
                answers[system.name] += rows
            entry = {**run_systems.describe_run(snapshot, system), **inputs, "generations": times[system.name]}
            study.update_stage("run", **{system.name: entry})
    return answers


def _answer_about_build(
    study: Study,
    session: options.PaidSession,
    kumi: Kumihimo,
    number: int,
    systems: Sequence[System],
    times: Mapping[str, int],
    budget: Budget,
) -> dict[str, list[SystemAnswer]]:
    """Return each system's answers about another build of the index."""
    names = {system.name: name_of_build(system.name, number) for system in systems}
    others = [replace(system, name=names[system.name]) for system in systems]
    with kumi.snapshot() as snapshot:
        return _answer_questions(study, session, snapshot, others, {names[n]: times[n] for n in names}, budget)


def warn_left_out(left_out: Mapping[str, str]) -> None:
    """Print the methods of the index that were left out."""
    for name, reason in left_out.items():
        printing.print_note(f"(Left out: {name}. {reason}.)")


def describe_inputs(study: Study, session: options.PaidSession, snapshot: Snapshot) -> dict[str, Any]:
    """Return the index and the digest of the questions, for a manifest."""
    index = {"folder": str(session.index), **run_systems.describe_index(snapshot)}
    return {"index": index, "questions": file_digest(study.path("questions"))}


def file_digest(path: Path) -> str:
    """Return the digest of a file that a stage reads."""
    return sha256(path.read_bytes()).hexdigest()[:20]


def _summarize_answers(rows: Sequence[SystemAnswer], generations: int) -> dict[str, Any]:
    seconds = [row.seconds for row in rows if row.seconds is not None]
    failed = sum(bool(row.failed) for row in rows)
    return {
        "answered": len(rows) - failed,
        "failed": failed,
        "generations": generations,
        "usage": sum((row.usage for row in rows), Usage()),
        "median_seconds": median(seconds) if seconds else None,
    }


def _show_answers(summaries: Mapping[str, Mapping[str, Any]], paid: Usage) -> None:
    """Print one line per system, with mean cost; then the total paid."""
    rows = []
    for name, summary in summaries.items():
        n, usage = max(summary["answered"] + summary["failed"], 1), summary["usage"]
        seconds = "" if summary["median_seconds"] is None else f"{summary['median_seconds']:.2f}"
        costs = (f"{usage.calls / n:,.1f}", f"{usage.tokens / n:,.0f}", f"{usage.cost / n:,.4f}" if usage.cost else "")
        rows.append((name, f"{summary['answered']:,}", f"{summary['failed']:,}", *costs, seconds))
    head = ("system", "answers", "failed", "calls each", "tokens each", "cost each", "median s")
    printing.show_rows(rows, head=head, numeric=range(1, 7))
    if paid.calls:
        cost = f", cost {paid.cost:,.4f}" if paid.cost else ""
        printing.print_message(f"Paid now: {paid.calls:,} calls, {paid.tokens:,} tokens{cost}.")


# -- scores


def score(
    study: shared.StudyOption,
    session: options.PaidSession,
    methods: shared.AnsweredSystems = "",
    measures: shared.MeasureNames = "",
    repeats: Annotated[int, Option(help="Score each answer this many times; report the mean.", min=1)] = 1,
) -> None:
    """Score each answer: faithfulness, correctness, evidence; some measures need no model."""
    systems = study.select_systems(options.split_names(methods))
    study.check_readable("scores")
    with session.open() as kumi:
        names, skipped = run_scores.resolve_measures(options.split_names(measures)), []
        if not measures and not kumi.models.chat(_SCORER):  # a measure chosen by name raises an error later
            skipped = [name for name in names if run_scores.SCORE_MEASURES[name].needs_model]
            names = [name for name in names if name not in skipped]
        scores = _score_answers(study, session, kumi, systems, names, repeats)
    means = run_scores.mean_scores(scores, study.questions())
    outcomes = Counter(score.status for score in scores)
    counts = {"scores": len(scores), "invalid": outcomes["invalid"], "failed": outcomes["failed"]}
    spreads = spread_over_builds(scores, study.questions())
    document = {"written": str(study.path("scores")), **counts, "needs_a_model": skipped, "means": means}
    document |= {"builds": spreads} if spreads else {}
    session.show(document, lambda _: _show_scores(study, scores, means, skipped, spreads))
    reasons = [score.reason for score in scores if score.status != "ok"]
    shared.raise_failures(len(reasons), len(scores), "".join(reasons[:1]))


def _score_answers(
    study: Study, session: options.PaidSession, kumi: Kumihimo, systems: list[str], names: list[str], repeats: int
) -> list[Score]:
    """Score the answers, and write the scores and the manifest."""
    budget, needed = kumi.models.budget(session.caps), [run_scores.SCORE_MEASURES[name] for name in names]
    llm = kumi.models.llm(_SCORER, budget) if any(measure.needs_model for measure in needed) else None
    embedder = kumi.models.embedder(budget) if any("embedder" in measure.needs for measure in needed) else None
    questions = study.questions()
    answers = [answer for system in systems for answer in study.answers(system)]
    cases = list(run_scores.build_cases(questions, answers))
    if stray := len(answers) - len(cases):
        printing.print_note(f"(Left out, because the study has no such question: {stray:,} answers.)")
    with session.progress_bar() as progress:
        results = list(run_scores.score_cases(cases, names, llm, embedder, repeats=repeats, progress=progress))
    study.replace_rows("scores", results, lambda row: row.system in systems and row.name in names)
    entry = {
        "measures": list(names),
        "systems": {
            system: hash_parts(*(row_to_json(case.answer) for case in cases if case.answer.system == system))
            for system in systems
        },
        "repeats": repeats,
        "model": llm.fingerprint if llm else "",
        "embedder": embedder.fingerprint if embedder else "",
        "prompts": run_scores.scoring_prompt_digests() if llm else {},
        "questions": hash_parts(*map(row_to_json, questions)),
    }
    earlier = study.read_manifest().get("score", {}).get("runs", [])
    other_runs = [run for run in earlier if not ({*run["systems"]} <= {*systems} and {*run["measures"]} <= {*names})]
    study.record_stage("score", runs=[*other_runs, entry])
    return results


def _show_scores(
    study: Study,
    scores: Sequence[Score],
    means: Sequence[run_scores.ScoreMean],
    skipped: Sequence[str],
    spreads: Sequence[BuildSpread],
) -> None:
    head = ["measure", "system", "mean", "95 %", "n/N"]
    head += ["spread"] if any(mean.spread is not None for mean in means) else []
    defined = {mean.measure for mean in means if mean.n}
    rows = [_mean_row(mean)[: len(head)] for mean in means if mean.measure in defined]
    printing.show_rows(rows, head=head, numeric=(2, 3, 4, 5))
    if spreads:
        printing.print_message("\nOver builds of the index: SD of their means, standard error by questions.")
        head = ["measure", "system", "builds", "mean", "95 %", "SD of builds", "error by questions", "n"]
        printing.show_rows(map(_spread_row, spreads), head=head, numeric=range(2, 8))
    if undefined := [name for name in dict.fromkeys(mean.measure for mean in means) if name not in defined]:
        printing.print_message(f"Undefined for every answer: {', '.join(undefined)}.")
    for line in islice(_missing_values(scores), _MAX_REASONS):
        printing.print_note(line)
    if skipped:
        names = ", ".join(skipped)
        printing.print_note(f"Not computed without a chat model: {names}. To compute them, {SET_MODEL_HINT}.")
    printing.print_message(f"{len(scores):,} scores are in {study.path('scores')}.")


def _missing_values(scores: Sequence[Score]) -> Iterator[str]:
    """Yield the reasons for missing values, most frequent first."""
    reasons: dict[str, Counter[str]] = {}
    for score in scores:
        if score.value is None:
            reasons.setdefault(score.reason, Counter())[score.name] += 1
    for reason, names in sorted(reasons.items(), key=lambda each: -each[1].total()):
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        measures = ", ".join(list(names)[:_MAX_NAMES]) + more
        yield f"No value for {names.total():,} of {len(scores):,}: {reason} ({measures})."


def _mean_row(mean: run_scores.ScoreMean) -> tuple[str, ...]:
    value, low, high, spread = (printing.format_decimals(x, 3) for x in (mean.value, mean.low, mean.high, mean.spread))
    return mean.measure, mean.system, value, f"{low}–{high}" if mean.n else "", f"{mean.n:,}/{mean.of:,}", spread


def _spread_row(spread: BuildSpread) -> tuple[str, ...]:
    value, low, high, between, error = (
        printing.format_decimals(x, 3)
        for x in (spread.value, spread.low, spread.high, spread.between, spread.questions_error)
    )
    builds = str(len(spread.means))
    return spread.measure, spread.system, builds, value, f"{low}–{high}", between, error, f"{spread.n:,}"


# -- claims


def claims(
    study: shared.StudyOption,
    session: options.PaidSession,
    methods: shared.AnsweredSystems = "",
    economy: Annotated[bool, Option("--economy", help="One reply per stage, not 3, 3 and 1.")] = False,
    context: Annotated[bool, Option("--context", help="Check claims against the evidence of their answer.")] = False,
    corpus: Annotated[bool, Option("--corpus", help="Check claims against passages from the index.")] = False,
    selfcheck: Annotated[
        bool, Option("--selfcheck", help="Check claims against other answers of the same system.")
    ] = False,
    sample: Annotated[int, Option(help="Use only this many questions, the same each time; 0: all.", min=0)] = 0,
    tokens: Annotated[
        Literal["unicode", "paper"], Option(help="Tokens for clustering: any script, or a-z and 0-9.")
    ] = "unicode",
    yes: shared.Yes = False,
) -> None:
    """Extract the claims of each answer; count, cluster and check them."""
    votes = stages.ECONOMY_VOTES if economy else stages.PAPER_VOTES
    inputs = study_claims.select_claim_inputs(study, options.split_names(methods), sample=sample, with_others=selfcheck)
    study.check_readable("claims", "sentences")
    with (
        session.open() as kumi,
        kumi.snapshot() if corpus else nullcontext() as snapshot,
        session.progress_bar() as progress,
    ):
        budget = kumi.models.budget(session.caps)
        llm = kumi.models.llm("claimer", budget)
        search = _passage_search(replace(snapshot, budget=budget)) if snapshot else None
        least, most = study_claims.estimate_claim_calls(inputs.all_answers, votes)
        note = f"about {sum(votes)} per sentence with claims, fewer for others, none for cached replies"
        _print_sentence(f"{least:,} to {most:,} calls to {llm.fingerprint}: {note}")
        shared.confirm_calls(most, session, yes=yes, cheaper="`--economy` makes fewer than half")
        checks = study_claims.ClaimChecks(context, search, selfcheck)
        claim_rows, sentences = study_claims.extract_checked_claims(
            inputs, llm, kumi.tokenizer, votes, checks, _print_sentence, progress
        )
        for name, rows in (("claims", claim_rows), ("sentences", sentences)):
            study.replace_rows(name, rows, lambda row: row.system in inputs.answers)
        checked = {"sample": sample, "context": context, "corpus": corpus, "selfcheck": selfcheck}
        manifest = study_claims.describe_claim_run(inputs, llm, votes, tokens=tokens, merges="<", **checked)
        study.update_stage("claims", **manifest)
    summaries = study_claims.summarise_claims(inputs, claim_rows, sentences, token_kind=tokens, selfcheck=selfcheck)
    problems = study_claims.count_failures(claim_rows, sentences)
    document = {"study": str(study.folder), "votes": votes, "tokens": tokens, "systems": summaries}
    session.show({**document, "troubles": problems}, lambda _: _show_claims(summaries))
    if invalid := problems["invalid"]:
        _print_sentence(f"{invalid:,} sentences or checks could not be read; sentences.jsonl and claims.jsonl say why")
    first = study_claims.first_failure(claim_rows, sentences)
    shared.raise_failures(problems["failed"], len(claim_rows) + len(sentences), first)


def _print_sentence(message: str) -> None:
    printing.print_note(f"{message}.")


def _passage_search(snapshot: Snapshot) -> Callable[[str], Sequence[str]]:
    """Return a search by `naive`. Raises IndexUnavailable at once."""

    def find_passages(claim: str) -> list[str]:
        context = snapshot.retrieve(claim[:MAX_QUESTION_CHARS], "naive", k=_MAX_PASSAGES, budget=_PASSAGE_TOKENS)
        return [item.text for item in context]

    snapshot.validate_method("naive")
    return find_passages


def _show_claims(summaries: Mapping[str, Mapping[str, Any]]) -> None:
    measures = list(next(iter(summaries.values()))["means"])
    checks = [name for name in _CHECK_HEADS if any(name in each["fabrication"] for each in summaries.values())]
    rows = [
        (system, f"{each['n']:,} of {each['questions']:,}", *_format_numbers(each, measures, checks))
        for system, each in summaries.items()
    ]
    head = ("system", "answers", "claims each", *measures[1:], *(_CHECK_HEADS[name] for name in checks))
    printing.show_rows(rows, head=head, numeric=range(1, len(head)))
    printing.print_text()
    kinds = dict.fromkeys(outcome for each in summaries.values() for outcome in each["sentences"])
    counts = [(s, *(f"{each['sentences'].get(kind, 0):,}" for kind in kinds)) for s, each in summaries.items()]
    printing.show_rows(counts, head=("sentences", *kinds), numeric=range(1, len(kinds) + 1))
    for system, each in summaries.items():
        no_samples = "samples" in each and not each["samples"].samples  # describe_samples() says so
        for name, rate in each["fabrication"].items():
            for why, count in rate.why.items() if not (no_samples and name == "selfcheck") else ():
                printing.print_message(
                    f"{system}, {_CHECK_HEADS[name]}: {count:,} claims unknown or partly unknown: {why}."
                )
        if "samples" in each:
            printing.print_message(f"{study_claims.describe_samples(system, each['samples'])}.")


def _format_numbers(summary: Mapping[str, Any], measures: Sequence[str], checks: Sequence[str]) -> list[str]:
    rates = [summary["fabrication"].get(name) for name in checks]
    means = [printing.format_decimals(summary["means"][name], 2) for name in measures]
    return means + [f"{100 * r.value:.1f} % of {r.n:,}" if r and r.value is not None else "–" for r in rates]
