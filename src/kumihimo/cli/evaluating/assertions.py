"""a study's questions -> the same with assertions: what a good answer to each should say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import listen, opened
from kumihimo.cli.evaluating.options import STUDY, Folder
from kumihimo.cli.options import HOME, Index, Json, MaxCalls, MaxCost, MaxTokens, Memo, Set, ShowPrompts, Verbose
from kumihimo.core.errors import ItemFailed
from kumihimo.llm.budget import Caps

if TYPE_CHECKING:
    from kumihimo.app.facade import Kumihimo
    from kumihimo.evaluate.assertions import Asserted
    from kumihimo.evaluate.records import Gold, Question
    from kumihimo.evaluate.study import Study

_ROLE = "questioner"


def assertions(
    study: Folder = STUDY,
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
    """Write what a good answer to each question should say, from its gold passages; `kumi eval score` checks it."""
    from kumihimo.evaluate.assertions import asserted
    from kumihimo.evaluate.study import Study

    listen(verbose, show_prompts)
    held = Study(study)
    questions = held.questions()
    held.ready()
    with opened(folder, options, memo) as kumi, terminal.progress(not (verbose or show_prompts)) as progress:
        ask = kumi.models.asking(_ROLE, kumi.models.purse(Caps(max_calls, max_tokens, max_cost)))
        made = list(asserted(questions, _texts(kumi, questions), ask, progress=progress))
        _write(held, made, ask.mark)
    _show(held, made, as_json=as_json)
    if failed := [row for row in made if row.status != "ok"]:
        raise ItemFailed(
            f"{len(failed):,} of {len(made):,} questions have no assertions yet; the same command tries them again. "
            f"Of the first: {failed[0].why}"
        )


def _texts(kumi: Kumihimo, questions: Sequence[Question]) -> Callable[[Question], list[str]]:
    """What the gold of each question says: its own words, or those of the index."""
    if not any(gold.id and not gold.text for question in questions for gold in question.gold):
        return lambda question: [gold.text for gold in question.gold]
    with kumi.reading() as reading:
        known = {gold: gold.text or reading.find(gold.id).record.text for q in questions for gold in q.gold}
    return lambda question: [_part(gold, known[gold]) for gold in question.gold]


def _part(gold: Gold, text: str) -> str:
    return text if gold.text else text[gold.start : gold.end]


def _write(held: Study, made: Sequence[Asserted], mark: str) -> None:
    from kumihimo.core.digests import digest
    from kumihimo.evaluate.assertions import LEAST, MOST, RATE, WRITE

    held.write("questions", [row.question for row in made])
    prompts = {path.stem: digest(path.read_text(encoding="utf-8")) for path in (WRITE, RATE)}
    held.note("assertions", model=mark, most=MOST, least=LEAST, prompts=prompts)


def _show(held: Study, made: Sequence[Asserted], *, as_json: bool) -> None:
    total = sum(len(row.question.assertions) for row in made)
    dropped = [(row.question.id, text, rating) for row in made for text, rating in row.dropped]
    if as_json:
        without = [{"question": row.question.id, "status": row.status, "why": row.why} for row in made if row.why]
        left = [{"question": id, "text": text, **asdict(rating)} for id, text, rating in dropped]
        jsonl.show({"written": str(held.path("questions")), "assertions": total, "dropped": left, "without": without})
        return
    terminal.show_rows(_rows(made), head=("question", "assertions", "dropped", ""), figures=(1, 2))
    print(f"{total:,} assertions are in {held.path('questions')}; {len(dropped):,} were rated too low, and left out.")


def _rows(made: Sequence[Asserted]) -> Iterator[tuple[str, ...]]:
    for row in made:
        yield row.question.id, f"{len(row.question.assertions):,}", f"{len(row.dropped):,}", row.why
