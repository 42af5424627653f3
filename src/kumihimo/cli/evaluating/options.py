"""options that evaluation commands share -> the study, its systems, and consent to many calls."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option

from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened.catalogue import AUTO
from kumihimo.cli import options, printing
from kumihimo.core.errors import ConsentRequired, ItemFailed
from kumihimo.evaluate.study import Study
from kumihimo.evaluate.systems import parse_systems
from kumihimo.llm.budget import Caps

DEFAULT_STUDY = Path("eval")
MAX_UNCONFIRMED_CALLS = 1000  # more need consent

SystemNames = Annotated[
    str,
    Option(
        "--methods",
        "-m",
        help="Systems: naive,global:C0,light:hybrid,naive:words=false+k=10. Default: all methods of the index.",
        metavar="NAMES",
        autocompletion=options.complete_methods,
    ),
]
AnsweredSystems = Annotated[
    str,
    Option("--methods", "-m", help="Only these systems: bm25,global:C0. Default: all that answered.", metavar="NAMES"),
]
Merge = Annotated[bool, Option("--merge", help="Add to the questions of the study.")]
Replace = Annotated[bool, Option("--replace", help="Replace what the study holds.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Agree to more than 1,000 calls.")]
ProtocolName = Annotated[str, Option(help="debiased, differential, graphrag, lightrag or mk.", metavar="NAME")]
Criteria = Annotated[str, Option(help="Criteria. Default: all of the protocol.", metavar="NAMES")]
Replicates = Annotated[int, Option(help="Replicates in each order; 0: as the protocol says.", min=0, max=99)]
Against = Annotated[str, Option(help="Only pairs with this system.", metavar="NAME")]
Generations = Annotated[int, Option(help="Number of times each system answers all questions.", min=1)]
MeasureNames = Annotated[
    str, Option(help="Measures, or groups: words, refusals, ragas, assertions, claims, all.", metavar="NAMES")
]


@dataclass(frozen=True)
class StudyOption(Study):
    """The study that an option names."""

    folder: Annotated[
        Path,
        Option("--study", envvar="KUMI_STUDY", help="The study folder: questions, answers, verdicts.", metavar="DIR"),
    ] = DEFAULT_STUDY


def named_methods(kumi: Kumihimo, systems: str) -> list[str]:
    """Return the methods of the named systems, each once."""
    parsed = parse_systems(systems, kumi.settings, kumi.catalogue) if systems.strip() else []
    return list(dict.fromkeys("" if system.method == AUTO else system.method for system in parsed))


def raise_failures(failed: int, total: int, first: str) -> None:
    """Raise ItemFailed if some of the rows failed.

    first: the reason of the first.
    """
    if failed:
        raise ItemFailed(
            f"{failed:,} of {total:,} rows failed: run the same command to try them again; the first: {first}"
        )


def confirm_calls(calls: float, session: options.PaidSession, *, yes: bool, cheaper: str = "") -> None:
    """Raise ConsentRequired if many calls are neither capped nor confirmed.

    cheaper: a remedy that takes fewer calls.
    """
    if calls <= MAX_UNCONFIRMED_CALLS or yes or session.caps != Caps():
        return
    if printing.is_interactive() and not session.as_json and printing.confirm():
        return
    remedies = ["`--yes` agrees to them", "`--max-calls 500` limits them", *([cheaper] if cheaper else [])]
    raise ConsentRequired(f"up to {calls:,.0f} calls: no model was called; {', '.join(remedies)}")
