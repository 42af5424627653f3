"""a study's answers -> claims.jsonl, sentences.jsonl: claims, their diversity, their support."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from kumihimo.app.snapshot import Snapshot
from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import configure_logging, open_index
from kumihimo.cli.evaluating.confirm import require_consent
from kumihimo.cli.evaluating.options import DEFAULT_STUDY, AnsweredSystems, StudyFolder, split_names
from kumihimo.cli.options import (
    DEFAULT_INDEX,
    CacheFile,
    IndexFolder,
    JsonOutput,
    MaxCalls,
    MaxCost,
    MaxTokens,
    SettingOverrides,
    ShowPrompts,
    Verbose,
)
from kumihimo.core.errors import ItemFailed
from kumihimo.evaluate.claims import estimate_claim_calls
from kumihimo.evaluate.claims.stages import ECONOMY_VOTES, PAPER_VOTES, Votes
from kumihimo.evaluate.claims.study_claims import (
    ClaimChecks,
    ClaimInputs,
    count_failures,
    describe_claim_run,
    describe_samples,
    extract_checked_claims,
    first_failure,
    select_claim_inputs,
    summarise_claims,
)
from kumihimo.evaluate.fabrication import SampleCounts
from kumihimo.evaluate.study import Study
from kumihimo.llm.budget import Caps
from kumihimo.llm.protocols import LLM

ROLE = "claimer"
_MAX_PASSAGES, _PASSAGE_TOKENS = 10, 4000  # per claim
_CHECK_HEADS = {
    "unsupported_by_context": "not in evidence",
    "unsupported_by_corpus": "not in corpus",
    "selfcheck": "doubt",
}


def claims(
    study: StudyFolder = DEFAULT_STUDY,
    methods: AnsweredSystems = "",
    economy: Annotated[bool, typer.Option("--economy", help="One reply per stage, not 3, 3 and 1.")] = False,
    context: Annotated[
        bool, typer.Option("--context", help="Check claims against the evidence of their answer.")
    ] = False,
    corpus: Annotated[bool, typer.Option("--corpus", help="Check claims against passages from the index.")] = False,
    selfcheck: Annotated[
        bool, typer.Option("--selfcheck", help="Check claims against other answers of the same system.")
    ] = False,
    sample: Annotated[int, typer.Option(help="Use only this many questions, the same each time; 0: all.", min=0)] = 0,
    tokens: Annotated[
        Literal["unicode", "paper"], typer.Option(help="Tokens for clustering: any script, or a-z and 0-9.")
    ] = "unicode",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree to more than 1,000 calls.")] = False,
    folder: IndexFolder = DEFAULT_INDEX,
    options: SettingOverrides = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    cache: CacheFile = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: JsonOutput = False,
) -> None:
    """Extract the claims of each answer; count, cluster and check them."""

    configure_logging(verbose, show_prompts)
    files, votes, caps = Study(study), ECONOMY_VOTES if economy else PAPER_VOTES, Caps(max_calls, max_tokens, max_cost)
    inputs = select_claim_inputs(files, split_names(methods), sample=sample, with_others=selfcheck)
    files.check_readable("claims", "sentences")
    with (
        open_index(folder, options, cache) as kumi,
        kumi.snapshot() if corpus else nullcontext() as snapshot,
        terminal.progress_bar(not (verbose or show_prompts)) as progress,
    ):
        budget = kumi.models.budget(caps)
        llm = kumi.models.llm(ROLE, budget)
        checks = ClaimChecks(
            context, _passage_search(replace(snapshot, budget=budget)) if snapshot else None, selfcheck
        )
        _announce(inputs, llm, votes, caps, yes=yes, quiet=as_json)
        claim_rows, sentences = extract_checked_claims(
            inputs, llm, kumi.tokenizer, votes, checks, _print_note, progress
        )
        for name, rows in (("claims", claim_rows), ("sentences", sentences)):
            files.replace_rows(name, rows, lambda row: row.system in inputs.answers)
        checked = {"context": context, "corpus": corpus, "selfcheck": selfcheck}
        manifest = describe_claim_run(inputs, llm, votes, tokens=tokens, merges="<", sample=sample, **checked)
        files.update_stage("claims", **manifest)
    summaries = summarise_claims(inputs, claim_rows, sentences, token_kind=tokens, selfcheck=selfcheck)
    problems = count_failures(claim_rows, sentences)
    if as_json:
        jsonl.print_json(
            {"study": str(study), "votes": votes, "tokens": tokens, "systems": summaries, "troubles": problems}
        )
    else:
        _show_claims(summaries)
    _report_failures(problems, first_failure(claim_rows, sentences))


def _announce(inputs: ClaimInputs, llm: LLM, votes: Votes, caps: Caps, *, yes: bool, quiet: bool) -> None:
    """Print the number of calls. Raises ConsentRequired without consent to many."""

    least, most = estimate_claim_calls(inputs.all_answers, votes)
    note = f"about {sum(votes)} per sentence with claims, fewer for others, none for cached replies"
    _print_note(f"{least:,} to {most:,} calls to {llm.fingerprint}: {note}")
    require_consent(most, caps, yes=yes, quiet=quiet, cheaper="`--economy` makes fewer than half")


def _print_note(message: str) -> None:
    print(f"{message}.", file=sys.stderr)


def _passage_search(snapshot: Snapshot) -> Callable[[str], Sequence[str]]:
    """Return a search by `naive`. Raises IndexUnavailable at once."""

    def find_passages(claim: str) -> list[str]:
        context = snapshot.retrieve(claim, "naive", k=_MAX_PASSAGES, budget=_PASSAGE_TOKENS)
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
    terminal.show_rows(rows, head=head, numeric=range(1, len(head)))
    print()
    kinds = dict.fromkeys(outcome for each in summaries.values() for outcome in each["sentences"])
    counts = [(s, *(f"{each['sentences'].get(kind, 0):,}" for kind in kinds)) for s, each in summaries.items()]
    terminal.show_rows(counts, head=("sentences", *kinds), numeric=range(1, len(kinds) + 1))
    for system, each in summaries.items():
        no_samples = "samples" in each and not each["samples"]["samples"]  # describe_samples() says so
        for name in [name for name in checks if not (no_samples and name == "selfcheck")]:
            _show_unknown(system, _CHECK_HEADS[name], each["fabrication"].get(name))
        if "samples" in each:
            print(f"{describe_samples(system, SampleCounts(**each['samples']))}.")


def _format_numbers(summary: Mapping[str, Any], measures: Sequence[str], checks: Sequence[str]) -> list[str]:
    values = [summary["means"][name] for name in measures]
    rates = [summary["fabrication"].get(name, {"value": None}) for name in checks]
    means = ["–" if value is None else f"{value:.2f}" for value in values]
    return means + ["–" if rate["value"] is None else f"{100 * rate['value']:.1f} % of {rate['n']:,}" for rate in rates]


def _show_unknown(system: str, name: str, rate: Mapping[str, Any] | None) -> None:
    for why, count in (rate or {"why": {}})["why"].items():
        print(f"{system}, {name}: {count:,} claims unknown or partly unknown: {why}.")


def _report_failures(problems: Counter[str], first_error: str) -> None:
    """Raise ItemFailed if a sentence or check failed; a rerun resumes."""
    if problems["invalid"]:
        _print_note(
            f"{problems['invalid']:,} sentences or checks could not be read; sentences.jsonl and claims.jsonl say why"
        )
    if problems["failed"]:
        raise ItemFailed(
            f"{problems['failed']:,} sentences or checks failed: run the same command to try them "
            f"again; the first: {first_error}"
        )
