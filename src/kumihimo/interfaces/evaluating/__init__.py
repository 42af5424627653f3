"""`kumi eval`: which method answers your questions best, at what cost, and how sure that is -> its commands."""

from __future__ import annotations

from collections.abc import Callable

from kumihimo.interfaces.evaluating.assertions import assertions
from kumihimo.interfaces.evaluating.claims import claims
from kumihimo.interfaces.evaluating.export import export
from kumihimo.interfaces.evaluating.import_ import import_
from kumihimo.interfaces.evaluating.judging import judge
from kumihimo.interfaces.evaluating.questions import questions
from kumihimo.interfaces.evaluating.report import report
from kumihimo.interfaces.evaluating.retrieval import retrieval
from kumihimo.interfaces.evaluating.run import run
from kumihimo.interfaces.evaluating.score import score
from kumihimo.interfaces.evaluating.status import status

HELP = "Measure which method serves your documents best, at what cost, and how sure that is."
COMMANDS: dict[Callable[..., None], tuple[str, ...]] = {  # with examples
    questions: ("kumi eval questions --draft", "kumi eval questions", "kumi eval questions --personas 0 --local 50"),
    import_: ("kumi eval import my-questions.jsonl", "kumi eval import answers.json --system lightrag"),
    export: ("kumi eval export --format benchmarkqed --out qed",),
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
}
FIRST = ("kumi eval status",)
