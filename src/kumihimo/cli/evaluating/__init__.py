"""`kumi eval`: compare methods on your questions, with cost and confidence -> its commands."""

from collections.abc import Callable

from kumihimo.cli.evaluating import judge, questions, retrieval, run, study, study_files

EVAL_COMMANDS: dict[Callable[..., None], tuple[str, ...]] = {  # command -> examples
    questions.questions: (
        "kumi eval questions --draft",
        "kumi eval questions",
        "kumi eval questions --personas 0 --local 50",
    ),
    study_files.import_: ("kumi eval import my-questions.jsonl", "kumi eval import answers.json --system lightrag"),
    study_files.export: ("kumi eval export --format benchmarkqed --out qed",),
    study.plan: ("kumi eval plan --methods naive,global:C0", "kumi eval plan --protocol graphrag --questions 125"),
    run.run: (
        "kumi eval run --methods naive,global:C0,light:hybrid --max-cost 5",
        "kumi eval run --methods naive,global:C0 --again naive",
    ),
    retrieval.retrieval: (
        "kumi eval retrieval --methods bm25,naive,naive:words=false --k 5,10,20",
        "kumi eval retrieval --run runs --qrels gold.qrels",
        "kumi eval retrieval --from-run theirs.run",
    ),
    questions.assertions: ("kumi eval assertions --max-calls 100",),
    run.claims: ("kumi eval claims --context", "kumi eval claims --economy --sample 20"),
    judge.judge: (
        "kumi eval judge --max-cost 20",
        "kumi eval judge --protocol graphrag --methods global:C0,naive --yes",
    ),
    study_files.report: ("kumi eval report", "kumi eval report --study podcast --study news --out figure2.html"),
    run.score: ("kumi eval score --measures faithfulness,token_f1",),
    study_files.status: ("kumi eval status",),
    study.study: ("kumi eval study", "kumi eval study levels --max-cost 20"),
}
