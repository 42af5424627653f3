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
from kumihimo.cli.cli_session import listen, opened
from kumihimo.cli.evaluating.confirm import consented
from kumihimo.cli.evaluating.options import STUDY, Answering, Folder, split
from kumihimo.cli.options import HOME, Index, Json, MaxCalls, MaxCost, MaxTokens, Memo, Set, ShowPrompts, Verbose
from kumihimo.core.errors import ItemFailed
from kumihimo.llm.budget import Caps

if TYPE_CHECKING:
    from kumihimo.app.snapshot import Reading
    from kumihimo.evaluate.claims.stages import Votes
    from kumihimo.evaluate.claims.study_claims import Held
    from kumihimo.llm.protocols import Ask

ROLE = "claimer"
_FOUND, _SHOWN = 10, 4000  # passages for each claim, and their tokens
_HEADS = {"unsupported_by_context": "not in evidence", "unsupported_by_corpus": "not in corpus", "selfcheck": "doubt"}


def claims(
    study: Folder = STUDY,
    methods: Answering = "",
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
    folder: Index = HOME,
    options: Set = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    memo: Memo = None,
    verbose: Verbose = False,
    show_prompts: ShowPrompts = False,
    as_json: Json = False,
) -> None:
    """Take the claims out of each answer; count them, cluster them, and check them."""
    from kumihimo.evaluate.claims.stages import ECONOMY, PAPER
    from kumihimo.evaluate.claims.study_claims import Checks, claimed, held, noted, summary, troubles, why_failed
    from kumihimo.evaluate.study import Study

    listen(verbose, show_prompts)
    files, votes, caps = Study(study), ECONOMY if economy else PAPER, Caps(max_calls, max_tokens, max_cost)
    read = held(files, split(methods), sample=sample, others=selfcheck)
    files.ready("claims", "sentences")
    with (
        opened(folder, options, memo) as kumi,
        kumi.reading() if corpus else nullcontext() as reading,
        terminal.progress(not (verbose or show_prompts)) as progress,
    ):
        purse = kumi.models.purse(caps)
        ask = kumi.models.asking(ROLE, purse)
        checks = Checks(context, _passages(replace(reading, purse=purse)) if reading else None, selfcheck)
        _begin(read, ask, votes, caps, yes=yes, quiet=as_json)
        made, sentences = claimed(read, ask, kumi.ruler, votes, checks, _tell, progress)
        for name, rows in (("claims", made), ("sentences", sentences)):
            files.put(name, rows, lambda row: row.system in read.answers)
        checked = {"context": context, "corpus": corpus, "selfcheck": selfcheck}
        told = noted(read, ask, votes, tokens=tokens, merges="<", sample=sample, **checked)
        files.note_beside("claims", **told)
    shown = summary(read, made, sentences, tokens=tokens, selfcheck=selfcheck)
    wrong = troubles(made, sentences)
    if as_json:
        jsonl.show({"study": str(study), "votes": votes, "tokens": tokens, "systems": shown, "troubles": wrong})
    else:
        _show(shown)
    _complain(wrong, why_failed(made, sentences))


def _begin(read: Held, ask: Ask, votes: Votes, caps: Caps, *, yes: bool, quiet: bool) -> None:
    """Say what is to come. Raises NeedsConsent where it is much, nothing bounds it, and nobody has agreed."""
    from kumihimo.evaluate.claims import calls

    least, most = calls(read.all, votes)
    each = f"about {sum(votes)} for a sentence that holds claims, fewer for others, none for what is remembered"
    _tell(f"{least:,} to {most:,} calls to {ask.mark}: {each}")
    consented(most, caps, yes=yes, quiet=quiet, less="`--economy` takes less than half")


def _tell(said: str) -> None:
    print(f"{said}.", file=sys.stderr)


def _passages(reading: Reading) -> Callable[[str], Sequence[str]]:
    """What `naive` finds for a claim; what is wrong with the index is said at once."""

    def found(claim: str) -> list[str]:
        context = reading.retrieve(claim, "naive", k=_FOUND, budget=_SHOWN)
        return [item.text for item in context]

    reading.ready("naive")
    return found


def _show(told: Mapping[str, Mapping[str, Any]]) -> None:
    from kumihimo.evaluate.claims.study_claims import remark
    from kumihimo.evaluate.fabrication import Sampled

    measures = list(next(iter(told.values()))["means"])
    checks = [name for name in _HEADS if any(name in each["fabrication"] for each in told.values())]
    rows = [
        (system, f"{each['n']:,} of {each['questions']:,}", *_numbers(each, measures, checks))
        for system, each in told.items()
    ]
    head = ("system", "answers", "claims each", *measures[1:], *(_HEADS[name] for name in checks))
    terminal.show_rows(rows, head=head, figures=range(1, len(head)))
    print()
    kinds = dict.fromkeys(outcome for each in told.values() for outcome in each["sentences"])
    counts = [(s, *(f"{each['sentences'].get(kind, 0):,}" for kind in kinds)) for s, each in told.items()]
    terminal.show_rows(counts, head=("sentences", *kinds), figures=range(1, len(kinds) + 1))
    for system, each in told.items():
        alone = "samples" in each and not each["samples"]["samples"]  # which is said in any case
        for name in [name for name in checks if not (alone and name == "selfcheck")]:
            _show_unknown(system, _HEADS[name], each["fabrication"].get(name))
        if "samples" in each:
            print(f"{remark(system, Sampled(**each['samples']))}.")


def _numbers(each: Mapping[str, Any], measures: Sequence[str], checks: Sequence[str]) -> list[str]:
    found = [each["means"][name] for name in measures]
    rates = [each["fabrication"].get(name, {"value": None}) for name in checks]
    means = ["–" if value is None else f"{value:.2f}" for value in found]
    return means + ["–" if r["value"] is None else f"{100 * r['value']:.1f} % of {r['n']:,}" for r in rates]


def _show_unknown(system: str, name: str, rate: Mapping[str, Any] | None) -> None:
    for why, count in (rate or {"why": {}})["why"].items():
        print(f"{system}, {name}: of {count:,} claims not known, or not quite: {why}.")


def _complain(wrong: Counter[str], why: str) -> None:
    """Raises ItemFailed where something failed: the next run goes on with it."""
    if wrong["invalid"]:
        _tell(f"{wrong['invalid']:,} sentences or checks could not be read; sentences.jsonl and claims.jsonl say why")
    if wrong["failed"]:
        raise ItemFailed(
            f"{wrong['failed']:,} sentences or checks failed: the same command goes on with them; of the first: {why}"
        )
