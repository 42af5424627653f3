"""`kumi eval`: compare methods on your questions, with cost and confidence -> its commands."""

from __future__ import annotations

from collections.abc import Callable

from kumihimo.cli.evaluating.assertions import assertions
from kumihimo.cli.evaluating.claims import claims
from kumihimo.cli.evaluating.export import export
from kumihimo.cli.evaluating.import_ import import_
from kumihimo.cli.evaluating.judge import judge
from kumihimo.cli.evaluating.plan import plan
from kumihimo.cli.evaluating.questions import questions
from kumihimo.cli.evaluating.report import report
from kumihimo.cli.evaluating.retrieval import retrieval
from kumihimo.cli.evaluating.run import run
from kumihimo.cli.evaluating.score import score
from kumihimo.cli.evaluating.status import status
from kumihimo.cli.evaluating.study import study

EVAL_COMMANDS: dict[Callable[..., None], tuple[str, ...]] = {  # command -> examples
    questions: ("kumi eval questions --draft", "kumi eval questions", "kumi eval questions --personas 0 --local 50"),
    import_: ("kumi eval import my-questions.jsonl", "kumi eval import answers.json --system lightrag"),
    export: ("kumi eval export --format benchmarkqed --out qed",),
    plan: ("kumi eval plan --methods naive,global:C0", "kumi eval plan --protocol graphrag --questions 125"),
    run: (
        "kumi eval run --methods naive,global:C0,light:hybrid --max-cost 5",
        "kumi eval run --methods naive,global:C0 --again naive",
    ),
    retrieval: (
        "kumi eval retrieval --methods bm25,naive,naive:words=false --k 5,10,20",
        "kumi eval retrieval --run runs --qrels gold.qrels",
        "kumi eval retrieval --from-run theirs.run",
    ),
    assertions: ("kumi eval assertions --max-calls 100",),
    claims: ("kumi eval claims --context", "kumi eval claims --economy --sample 20"),
    judge: ("kumi eval judge --max-cost 20", "kumi eval judge --protocol graphrag --methods global:C0,naive --yes"),
    report: ("kumi eval report", "kumi eval report --study podcast --study news --out figure2.html"),
    score: ("kumi eval score --measures faithfulness,token_f1",),
    status: ("kumi eval status",),
    study: ("kumi eval study", "kumi eval study levels --max-cost 20"),
}
