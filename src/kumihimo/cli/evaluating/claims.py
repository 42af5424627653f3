"""a study's answers -> claims.jsonl, sentences.jsonl: what they claim, how varied that is, how much is made up."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

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
from kumihimo.llm.budget import Caps

if TYPE_CHECKING:
    from kumihimo.app.snapshot import Snapshot
    from kumihimo.evaluate.claims.stages import Votes
    from kumihimo.evaluate.claims.study_claims import ClaimInputs
    from kumihimo.llm.protocols import LLM

ROLE = "claimer"
_MAX_PASSAGES, _PASSAGE_TOKENS = 10, 4000  # passages for each claim, and their tokens
_CHECK_HEADS = {
    "unsupported_by_context": "not in evidence",
    "unsupported_by_corpus": "not in corpus",
    "selfcheck": "doubt",
}


def claims(
    study: StudyFolder = DEFAULT_STUDY,
    methods: AnsweredSystems = "",
    economy: Annotated[bool, typer.Option("--economy", help="One reply for each stage, not 3, 3 and 1.")] = False,
    context: Annotated[bool, typer.Option("--context", help="Check claims by the evidence of their answer.")] = False,
    corpus: Annotated[bool, typer.Option("--corpus", help="Check claims by what the index finds for each.")] = False,
    selfcheck: Annotated[
        bool, typer.Option("--selfcheck", help="Check claims by other answers of the same system.")
    ] = False,
    sample: Annotated[int, typer.Option(help="Of so many questions only, always the same; 0: of all.", min=0)] = 0,
    tokens: Annotated[
        Literal["unicode", "paper"], typer.Option(help="Words that clusters are by: of any script, or a-z and 0-9.")
    ] = "unicode",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree to more than a thousand calls.")] = False,
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
    """Take the claims out of each answer; count them, cluster them, and check them."""
    from kumihimo.evaluate.claims.stages import ECONOMY_VOTES, PAPER_VOTES
    from kumihimo.evaluate.claims.study_claims import (
        ClaimChecks,
        count_failures,
        describe_claim_run,
        extract_checked_claims,
        first_failure,
        select_claim_inputs,
        summarise_claims,
    )
    from kumihimo.evaluate.study import Study

    configure_logging(verbose, show_prompts)
    files, votes, caps = Study(study), ECONOMY_VOTES if economy else PAPER_VOTES, Caps(max_calls, max_tokens, max_cost)
    read = select_claim_inputs(files, split_names(methods), sample=sample, with_others=selfcheck)
    files.check_readable("claims", "sentences")
    with (
        open_index(folder, options, cache) as kumi,
        kumi.snapshot() if corpus else nullcontext() as reading,
        terminal.progress_bar(not (verbose or show_prompts)) as progress,
    ):
        purse = kumi.models.budget(caps)
        ask = kumi.models.llm(ROLE, purse)
        checks = ClaimChecks(context, _passage_search(replace(reading, budget=purse)) if reading else None, selfcheck)
        _announce(read, ask, votes, caps, yes=yes, quiet=as_json)
        made, sentences = extract_checked_claims(read, ask, kumi.tokenizer, votes, checks, _print_note, progress)
        for name, rows in (("claims", made), ("sentences", sentences)):
            files.replace_rows(name, rows, lambda row: row.system in read.answers)
        checked = {"context": context, "corpus": corpus, "selfcheck": selfcheck}
        told = describe_claim_run(read, ask, votes, tokens=tokens, merges="<", sample=sample, **checked)
        files.update_stage("claims", **told)
    shown = summarise_claims(read, made, sentences, tokens=tokens, selfcheck=selfcheck)
    wrong = count_failures(made, sentences)
    if as_json:
        jsonl.print_json({"study": str(study), "votes": votes, "tokens": tokens, "systems": shown, "troubles": wrong})
    else:
        _show_claims(shown)
    _report_failures(wrong, first_failure(made, sentences))


def _announce(read: ClaimInputs, ask: LLM, votes: Votes, caps: Caps, *, yes: bool, quiet: bool) -> None:
    """Say what is to come. Raises NeedsConsent where it is much, nothing bounds it, and nobody has agreed."""
    from kumihimo.evaluate.claims import estimate_claim_calls

    least, most = estimate_claim_calls(read.all_answers, votes)
    each = f"about {sum(votes)} for a sentence that holds claims, fewer for others, none for what is remembered"
    _print_note(f"{least:,} to {most:,} calls to {ask.fingerprint}: {each}")
    require_consent(most, caps, yes=yes, quiet=quiet, cheaper="`--economy` takes less than half")


def _print_note(said: str) -> None:
    print(f"{said}.", file=sys.stderr)


def _passage_search(reading: Snapshot) -> Callable[[str], Sequence[str]]:
    """What `naive` finds for a claim; what is wrong with the index is said at once."""

    def found(claim: str) -> list[str]:
        context = reading.retrieve(claim, "naive", k=_MAX_PASSAGES, budget=_PASSAGE_TOKENS)
        return [item.text for item in context]

    reading.validate_method("naive")
    return found


def _show_claims(told: Mapping[str, Mapping[str, Any]]) -> None:
    from kumihimo.evaluate.claims.study_claims import describe_samples
    from kumihimo.evaluate.fabrication import SampleCounts

    measures = list(next(iter(told.values()))["means"])
    checks = [name for name in _CHECK_HEADS if any(name in each["fabrication"] for each in told.values())]
    rows = [
        (system, f"{each['n']:,} of {each['questions']:,}", *_format_numbers(each, measures, checks))
        for system, each in told.items()
    ]
    head = ("system", "answers", "claims each", *measures[1:], *(_CHECK_HEADS[name] for name in checks))
    terminal.show_rows(rows, head=head, numeric=range(1, len(head)))
    print()
    kinds = dict.fromkeys(outcome for each in told.values() for outcome in each["sentences"])
    counts = [(s, *(f"{each['sentences'].get(kind, 0):,}" for kind in kinds)) for s, each in told.items()]
    terminal.show_rows(counts, head=("sentences", *kinds), numeric=range(1, len(kinds) + 1))
    for system, each in told.items():
        alone = "samples" in each and not each["samples"]["samples"]  # which is said in any case
        for name in [name for name in checks if not (alone and name == "selfcheck")]:
            _show_unknown(system, _CHECK_HEADS[name], each["fabrication"].get(name))
        if "samples" in each:
            print(f"{describe_samples(system, SampleCounts(**each['samples']))}.")


def _format_numbers(each: Mapping[str, Any], measures: Sequence[str], checks: Sequence[str]) -> list[str]:
    found = [each["means"][name] for name in measures]
    rates = [each["fabrication"].get(name, {"value": None}) for name in checks]
    means = ["–" if value is None else f"{value:.2f}" for value in found]
    return means + ["–" if r["value"] is None else f"{100 * r['value']:.1f} % of {r['n']:,}" for r in rates]


def _show_unknown(system: str, name: str, rate: Mapping[str, Any] | None) -> None:
    for why, count in (rate or {"why": {}})["why"].items():
        print(f"{system}, {name}: of {count:,} claims not known, or not quite: {why}.")


def _report_failures(wrong: Counter[str], why: str) -> None:
    """Raises ItemFailed where something failed: the next run goes on with it."""
    if wrong["invalid"]:
        _print_note(
            f"{wrong['invalid']:,} sentences or checks could not be read; sentences.jsonl and claims.jsonl say why"
        )
    if wrong["failed"]:
        raise ItemFailed(
            f"{wrong['failed']:,} sentences or checks failed: the same command goes on with them; of the first: {why}"
        )
