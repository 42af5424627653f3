"""A study and a judge -> verdicts on pairs of answers, or ratings of all systems (MK-RAG, section 4).

Unreadable replies are invalid and counted. But: MK-RAG shows all systems in one order. Here each system appears equally
often in each place, without its name.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations
from math import sqrt
from typing import Any, Literal

from kumihimo.core.context import Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.core.task import Progress
from kumihimo.evaluate.judging import protocols
from kumihimo.evaluate.judging.blinding import StripMode, blind_answer
from kumihimo.evaluate.judging.refusals import AnswersBySystem, is_comparable
from kumihimo.evaluate.records import EvalQuestion, Rating, ReplyStatus, SystemAnswer, Verdict, Winner
from kumihimo.evaluate.study import Study
from kumihimo.llm.concurrency import map_with_progress
from kumihimo.llm.prompts import Source, number_sources, render_prompt
from kumihimo.llm.protocols import LLM, Messages

NO_ANSWERS: AnswersBySystem = {}


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """A comparison of two answers to a question, by one or several criteria."""

    question: EvalQuestion
    a: SystemAnswer
    b: SystemAnswer
    criteria: tuple[str, ...]
    first: Literal["a", "b"]
    replicate: int

    @property
    def sample(self) -> int:
        """Return the sample number of the LLM call.

        It differs between the two orders, because the two answers may be identical.
        """
        return 2 * self.replicate + (self.first == "b")


def plan_judge_calls(
    protocol: protocols.JudgeProtocol,
    questions: Iterable[EvalQuestion],
    answers: AnswersBySystem,
    *,
    other_answers: AnswersBySystem = NO_ANSWERS,
    criteria: Sequence[str] = (),
    replicates: int = 0,
    order: protocols.PresentationOrder | Literal[""] = "",
    against: str = "",
) -> list[JudgeCall]:
    """Plan the judge calls for each question and pair of answers.

    Calls with the same prompt prefix are adjacent. Questions without an answer, and pairs that both refuse, are left
    out. other_answers: another generation of the same systems; each is compared with the first. criteria, replicates,
    order: the protocol's own if empty. against: only pairs with that system. Raises SettingsError for an unknown
    criterion or an unsuitable option.
    """
    names = protocol.resolve_criteria(criteria)
    criteria_sets = [tuple(names)] if protocol.one_call else [(name,) for name in names]
    presentations = protocols.plan_presentations(protocol.resolve_order(order), replicates or protocol.replicates)
    sides = [(answers[a], answers[b]) for a, b in combinations(answers, 2) if not against or against in (a, b)]
    sides += [(answers[system], other_answers[system]) for system in other_answers]
    return [
        JudgeCall(question, a, b, criteria_set, first, n)
        for question in questions
        for side_a, side_b in sides
        if (a := _valid_answer(side_a, question)) and (b := _valid_answer(side_b, question))
        if is_comparable(question, a, b)
        for first, n in presentations
        for criteria_set in criteria_sets
    ]


def _valid_answer(answers: Mapping[str, SystemAnswer], question: EvalQuestion) -> SystemAnswer | None:
    """Return the answer, or None if missing or failed.

    An empty answer counts as an answer.
    """
    answer = answers.get(question.id)
    return answer if answer and not answer.failed else None


def count_unanswered(questions: Sequence[EvalQuestion], answers: AnswersBySystem) -> dict[str, int]:
    """Count each system's unanswered questions; their pairs are not judged."""
    counts = {system: sum(not _valid_answer(rows, q) for q in questions) for system, rows in answers.items()}
    return {system: count for system, count in counts.items() if count}


def sample_calls(calls: Iterable[JudgeCall], percent: float) -> list[JudgeCall]:
    """Return a fixed sample of the calls, chosen by their digests.

    The same call is chosen in every run, whatever else is planned.
    """
    sampled: list[JudgeCall] = []
    for call in calls:
        names = (call.question.id, call.a.system, call.b.system, str(call.b.generation))
        digest = hash_parts(*names, *call.criteria, call.first, str(call.replicate))
        if int(digest[:8], 16) < int(percent / 100 * 16**8):
            sampled.append(call)
    return sampled


ALL_SYSTEMS = ("all",)


@dataclass(frozen=True, slots=True)
class JudgeInputs:
    """The questions and answers to judge.

    other_answers: another generation, for comparison with the first. single_generation: systems without one.
    """

    questions: Sequence[EvalQuestion]
    answers: AnswersBySystem
    other_answers: AnswersBySystem
    single_generation: Sequence[str]


def select_judge_inputs(
    study: Study,
    *,
    systems: Sequence[str] = (),
    against: str = "",
    sample: int = 0,
    aa_systems: Sequence[str] = ALL_SYSTEMS,
) -> JudgeInputs:
    """Select the questions and answers of a study.

    systems: all with answers if empty. sample: the number of questions, always the same ones; 0 for all. aa_systems:
    the systems to compare with another generation of their own answers (A/A), if there is one. Raises
    SettingsError.
    """
    names = study.select_systems(systems)
    repeated = names if tuple(aa_systems) == ALL_SYSTEMS else [system for system in aa_systems if system != "none"]
    study.select_systems([*repeated, *([against] if against else ())])
    if against and against not in names:
        names.append(against)
    questions = study.questions()
    if 0 < sample < len(questions):
        sampled_ids = sorted((q.id for q in questions), key=lambda id: hash_parts("sample", id))[:sample]
        questions = [question for question in questions if question.id in {*sampled_ids}]
    question_ids = {question.id for question in questions}

    def answers_by_question(system: str, generation: int) -> dict[str, SystemAnswer]:
        return {a.question: a for a in study.answers(system, generation) if a.question in question_ids}

    answers = {system: answers_by_question(system, 0) for system in names}
    regenerated = [system for system in repeated if study.count_generations(system) > 1]
    other_answers = {system: answers_by_question(system, 1) for system in regenerated if system in answers}
    return JudgeInputs(questions, answers, other_answers, [system for system in repeated if system not in regenerated])


def write_judgements(
    study: Study, name: str, protocol: protocols.JudgeProtocol, rows: Iterable[Verdict | Rating]
) -> None:
    """Replace this protocol's rows; keep those of other protocols.

    The protocols stay in the order of the catalogue.
    """
    rank = {name: place for place, name in enumerate(protocols.PROTOCOLS)}
    remaining = study.remaining_rows(name, lambda row: row.protocol == protocol.name)
    study.write(name, sorted([*remaining, *rows], key=lambda row: rank.get(row.protocol, -1)))


def record_judging_inputs(
    study: Study, protocol: protocols.JudgeProtocol, inputs: JudgeInputs, **run_with: Any
) -> None:
    """Note the settings and input digests of a protocol in the manifest."""
    entry = {
        **run_with,
        "prompt": hash_parts(protocol.prompt.read_text(encoding="utf-8"), *protocol.criteria.values()),
        "asked": len(inputs.questions),
        "questions": hash_parts(*(part for question in inputs.questions for part in (question.id, question.text))),
        "answers": {system: _answers_digest(answers) for system, answers in inputs.answers.items()},
        "again": {system: _answers_digest(answers) for system, answers in inputs.other_answers.items()},
    }
    study.update_stage("judge", **{protocol.name: entry})


def _answers_digest(answers: Mapping[str, SystemAnswer]) -> str:
    """Return a digest of the answers."""
    return hash_parts(*(part for answer in answers.values() for part in (answer.question, answer.text, answer.failed)))


# -- verdicts

JudgeRole = Literal["judge", "second_judge"]
NO_ANSWER_TEXT = "(no answer was given)"
_MIN_REPLIES = 100  # replies before the rate of invalid ones is tested
_SIGMAS = 3  # standard deviations above the allowed rate


def judge_pairs(
    protocol: protocols.JudgeProtocol,
    calls: Sequence[JudgeCall],
    llm: LLM,
    *,
    role: JudgeRole = "judge",
    strip: StripMode | None = None,
    max_invalid: float = 100.0,
    progress: Progress | None = None,
) -> Iterator[Verdict]:
    """Yield a row for each call and criterion, in order.

    strip: what to remove from answers; None for the protocol's own. max_invalid: the percentage of replies that
    may be unreadable. Raises ItemFailed as soon as the rate is significantly higher.
    """
    judge = partial(_verdict_rows, protocol, llm, role, protocol.strip if strip is None else strip)
    replies = invalid = 0
    for rows in map_with_progress(judge, calls, llm.workers, role.replace("_", " "), progress):
        yield from rows
        replies += rows[0].status != "failed"
        invalid += rows[0].status == "invalid"
        if exceeds_invalid_limit(invalid, replies, max_invalid):
            break
    else:
        return
    raise ItemFailed(
        f"stopped: {invalid:,} of {replies:,} replies of {llm.fingerprint} are unreadable, more than "
        f"{max_invalid:g} %; paid replies are cached: set another model under [judge], "
        "or continue with --max-invalid 100"
    )


def exceeds_invalid_limit(invalid: int, replies: int, percent: float) -> bool:
    """Return whether the invalid replies significantly exceed the allowed percentage.

    >>> exceeds_invalid_limit(3, 100, 2.0), exceeds_invalid_limit(7, 100, 2.0), exceeds_invalid_limit(7, 99, 2.0)
    (False, True, False)
    """
    share = min(percent / 100, 1.0)
    allowed = replies * share + _SIGMAS * sqrt(replies * share * (1 - share))
    return replies >= _MIN_REPLIES and invalid > allowed


def _verdict_rows(
    protocol: protocols.JudgeProtocol, llm: LLM, role: JudgeRole, strip: StripMode, call: JudgeCall
) -> list[Verdict]:
    """Return the rows of one call.

    Raises ModelError, KeyboardInterrupt.
    """
    prompt = build_verdict_prompt(protocol, call, strip)
    reply, status, why = _request_reply(llm, prompt, protocol.schema, call.sample)
    judgements = reply.judgements if reply else [(-1, "")] * len(call.criteria)
    sides: dict[int, Winner] = {0: "tie", 1: "a", 2: "b"} if call.first == "a" else {0: "tie", 1: "b", 2: "a"}
    key = (call.question.id, call.a.system, call.b.system, call.first, call.replicate)
    return [
        Verdict(protocol.name, criterion, *key, sides.get(better, ""), reason, status, why, role, llm.fingerprint)
        for criterion, (better, reason) in zip(call.criteria, judgements, strict=True)
    ]


def _request_reply(llm: LLM, prompt: Messages, schema: Any, sample: int) -> tuple[Any, ReplyStatus, str]:
    """Return the reply, its status, and why it is not ok."""
    try:
        return llm(prompt, schema=schema, sample=sample), "ok", ""
    except ItemFailed as failure:
        return None, failure.status, str(failure)


def build_verdict_prompt(protocol: protocols.JudgeProtocol, call: JudgeCall, strip: StripMode) -> Messages:
    """Build the prompt of a call, with the answers in its order."""
    answers = (call.a, call.b) if call.first == "a" else (call.b, call.a)
    first, second = (blind_answer(answer.text, call.question.text, strip) or NO_ANSWER_TEXT for answer in answers)
    if protocol.one_call:
        criteria = {name: text for name, text in protocol.criteria.items() if name != "overall"}
    else:
        criteria = {"criterion": protocol.criteria[call.criteria[0]]}
    answers_shown = number_sources([first, second])
    return render_prompt(protocol.prompt, question=call.question.text, answers=answers_shown, **criteria)


NO_EVIDENCE_TEXT = "(nothing was found)"
CONTEXT_TOKENS = 2000  # tokens of evidence to show per system


@dataclass(frozen=True, slots=True)
class RatingCall:
    """The answers to a question, in presentation order."""

    question: EvalQuestion
    answers: tuple[SystemAnswer, ...]
    replicate: int


def plan_rating_calls(
    questions: Iterable[EvalQuestion], answers: AnswersBySystem, *, replicates: int = 1, one_system: bool = False
) -> list[RatingCall]:
    """Plan the rating calls for each question and replicate.

    A Latin square over questions and replicates sets the places. Failed answers are left out.
    one_system: one system per call.
    """
    planned: list[RatingCall] = []
    for i, question in enumerate(questions):
        valid = [a for rows in answers.values() if (a := rows.get(question.id)) and not a.failed]
        for n in range(replicates if valid else 0):
            shift = (i + n) % len(valid)
            rotated = valid[shift:] + valid[:shift]
            groups: list[tuple[SystemAnswer, ...]] = [(a,) for a in rotated] if one_system else [tuple(rotated)]
            planned += [RatingCall(question, group, n) for group in groups]
    return planned


def rate_answers(
    protocol: protocols.JudgeProtocol,
    calls: Sequence[RatingCall],
    llm: LLM,
    *,
    tokenizer: Tokenizer,
    context: int = CONTEXT_TOKENS,
    strip: StripMode | None = None,
    progress: Progress | None = None,
) -> Iterator[Rating]:
    """Yield a row for each call, system and criterion.

    context: tokens of evidence to show per system. strip: what to remove; None for the protocol's own.
    """
    strip_mode = protocol.strip if strip is None else strip

    def rate(call: RatingCall) -> list[Rating]:
        """Return the rows of one call."""
        return _rating_rows(protocol, call, llm, render_systems(call, tokenizer, context, strip_mode))

    yield from chain.from_iterable(map_with_progress(rate, calls, llm.workers, "judge", progress))


def _rating_rows(
    protocol: protocols.JudgeProtocol, call: RatingCall, llm: LLM, systems: Sequence[Source]
) -> list[Rating]:
    """Request the scores of one call and return its rows."""
    form = protocols.build_rating_form(tuple(protocol.criteria), len(call.answers))
    prompt = render_prompt(protocol.prompt, question=call.question.text, systems=systems, **protocol.criteria)
    reply, status, why = _request_reply(llm, prompt, form, call.replicate)
    rows: list[Rating] = []
    for place, answer in enumerate(call.answers, 1):
        for criterion in protocol.criteria:
            score = getattr(getattr(reply, f"system_{place}"), criterion) if reply else None
            value, reason = (float(score.score), score.justification) if score else (None, "")
            key = (protocol.name, criterion, call.question.id, answer.system, place, call.replicate)
            rows.append(Rating(*key, value, reason, status, why, llm.fingerprint))
    return rows


def render_systems(call: RatingCall, tokenizer: Tokenizer, context: int, strip: StripMode = "none") -> list[Source]:
    """Return the evidence and answer of each system, without its name.

    context: tokens of evidence to show per system.
    """
    parts: list[Source] = []
    for place, answer in enumerate(call.answers, 1):
        evidence = truncate_tokens("\n\n".join(source.text for source in answer.contexts), tokenizer, context)
        text = blind_answer(answer.text, call.question.text, strip) or NO_ANSWER_TEXT
        parts += [Source(place, evidence or NO_EVIDENCE_TEXT, "found"), Source(place, text, "answered")]
    return parts


def truncate_tokens(text: str, tokenizer: Tokenizer, tokens: int) -> str:
    """Return the first tokens of a text."""
    starts = tokenizer(text)
    return text if len(starts) <= tokens else text[: starts[tokens]].rstrip()


RatingMeans = Mapping[str, Mapping[str, Mapping[str, float]]]  # by criterion, system and question


def mean_ratings(rows: Iterable[Rating]) -> RatingMeans:
    """Return the mean over readable replicates, by criterion, system and question.

    A system without readable ratings has no questions.
    """
    values: dict[str, dict[str, defaultdict[str, list[float]]]] = {}
    for row in rows:
        by_question = values.setdefault(row.criterion, {}).setdefault(row.system, defaultdict(list))
        if row.value is not None:
            by_question[row.question].append(row.value)
    return {
        c: {s: {q: sum(v) / len(v) for q, v in by_question.items()} for s, by_question in by_system.items()}
        for c, by_system in values.items()
    }
