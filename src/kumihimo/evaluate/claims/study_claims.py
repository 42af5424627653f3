"""a study + a model -> the claims of its answers, checked as far as one wants, and what is told of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

from kumihimo.core.context import Ruler
from kumihimo.core.digests import digest
from kumihimo.core.task import Progress
from kumihimo.evaluate import fabrication
from kumihimo.evaluate.claims import Found, claims
from kumihimo.evaluate.claims.claim_counts import mean, outcomes, values
from kumihimo.evaluate.claims.stages import PROMPTS, Votes
from kumihimo.evaluate.claims.voting import TEMPERATURE
from kumihimo.evaluate.fabrication import SELFCHECK, SUPPORT, Sampled
from kumihimo.evaluate.records import Answered, Claim, Question, Sentence
from kumihimo.evaluate.rouge import Tokens
from kumihimo.evaluate.study import Study, line
from kumihimo.llm.protocols import Ask

Tell = Callable[[str], None]  # what is about to be asked


@dataclass(frozen=True, slots=True)
class Checks:
    """What claims are checked against. corpus: the passages that are nearest to a text."""

    context: bool = False
    corpus: Callable[[str], Sequence[str]] | None = None
    selfcheck: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """What is read: the questions, and of each system its answers to them, the first and all others."""

    questions: Sequence[Question]
    answers: Mapping[str, Sequence[Answered]]
    others: Mapping[tuple[str, str], Sequence[Answered]] = field(default_factory=dict)

    @property
    def all(self) -> list[Answered]:
        return [answer for mine in self.answers.values() for answer in mine]


def held(study: Study, systems: Sequence[str] = (), *, sample: int = 0, others: bool = False) -> Held:
    """Of these systems, or all that have answered. sample: so many of the questions, always the same; 0: all.

    Raises SettingsError where there is nothing to read.
    """
    wanted = study.chosen(systems)
    questions = study.questions()
    drawn = sorted(questions, key=lambda question: digest(question.id))[: sample or None]
    chosen = {question.id for question in drawn}
    answers = {name: [a for a in study.answers(name) if a.question in chosen] for name in wanted}
    more: dict[tuple[str, str], list[Answered]] = {}
    for name in wanted if others else ():
        for n in range(1, study.generations(name)):
            for answer in study.answers(name, n):
                more.setdefault((name, answer.question), []).append(answer)
    return Held([question for question in questions if question.id in chosen], answers, more)


def claimed(
    read: Held, ask: Ask, ruler: Ruler, votes: Votes, checks: Checks, tell: Tell, progress: Progress | None = None
) -> Found:
    """The claims, checked, and the sentences they are from."""
    found, sentences = claims(read.questions, read.all, ask, votes, progress)
    batches = list(fabrication.batches(found))
    if checks.context:
        tell(f"{len(batches):,} calls, if no evidence is longer than {fabrication.BUDGET:,} tokens: the claims by it")
        found = fabrication.by_context(found, read.all, ask, ruler, progress=progress)
    if checks.corpus:
        tell(f"{len({claim.text for claim in found}):,} calls: the claims by the documents")
        found = fabrication.by_corpus(found, checks.corpus, ask, progress=progress)
    if checks.selfcheck:
        count = sum(len(read.others.get((batch[0].system, batch[0].question), ())) for batch in batches)
        tell(f"{count:,} calls: the claims by other answers")
        found = fabrication.by_samples(found, read.others, ask, progress=progress)
    return found, sentences


def summary(
    read: Held, claims: Sequence[Claim], sentences: Sequence[Sentence], *, tokens: Tokens, selfcheck: bool
) -> dict[str, dict[str, Any]]:
    """Of each system: n answers that count, means of claims and clusters, outcomes of sentences, fabrication."""
    told: dict[str, dict[str, Any]] = {}
    for system, answers in read.answers.items():
        numbers = values(claims, read.questions, system, sentences, tokens=tokens)
        told[system] = {
            "questions": len(read.questions),
            "n": mean(numbers["claims"])[1],
            "means": {name: mean(found)[0] for name, found in numbers.items()},
            "claims": sum(claim.system == system for claim in claims),
            "sentences": outcomes(sentences, system),
            "fabrication": {name: asdict(rate) for name, rate in fabrication.rates(claims, system).items()},
        }
        if selfcheck:
            told[system]["samples"] = asdict(fabrication.sampled(answers, read.others))
    return told


def remark(system: str, found: Sampled) -> str:
    """What has to be known of other answers to read a rate of doubt."""
    if not found.samples:
        return f"{system} has answered once: `kumi eval run --methods {system} --generations 5` gives SelfCheck samples"
    said = f"SelfCheck of {system}: {found.samples:,} other answers, {found.same_context:,} from the same evidence"
    if found.same_text:
        said += f"; {found.same_text:,} are the first one word for word, as at temperature 0, and doubt nothing"
    return said


def troubles(claims: Iterable[Claim], sentences: Iterable[Sentence]) -> Counter[str]:
    """How many sentences, and checks of claims, failed or could not be read."""
    found = Counter(sentence.outcome for sentence in sentences if sentence.outcome in ("failed", "invalid"))
    reasons = (why.partition(":")[0] for claim in claims for why in claim.why.values())
    return found + Counter(reason for reason in reasons if reason in ("failed", "invalid"))


def why_failed(claims: Iterable[Claim], sentences: Iterable[Sentence]) -> str:
    """Of the first that failed."""
    votes = (vote for s in sentences for stage in s.trace.values() if isinstance(stage, Mapping)
             for vote in stage.get("votes", ()))  # fmt: skip
    said = chain(votes, (why for claim in claims for why in claim.why.values()))
    return next((told.removeprefix("failed: ") for told in map(str, said) if told.startswith("failed: ")), "")


def noted(read: Held, ask: Ask, votes: Votes, **used: Any) -> dict[str, Any]:
    """For the manifest, of each system: how it was run."""
    told = {
        "model": ask.mark,
        "votes": list(votes),
        "temperature": [TEMPERATURE if n > 1 else None for n in votes],
        **used,
        "prompts": {path.stem: digest(path.read_text(encoding="utf-8")) for path in (*PROMPTS, SUPPORT, SELFCHECK)},
        "questions": digest(*map(line, read.questions)),
    }
    return {
        system: {**told, "answers": digest(*map(line, rows)), **_others(read, system)}
        for system, rows in read.answers.items()
    }


def _others(read: Held, system: str) -> dict[str, str]:
    said = [line(answer) for (name, _), answers in read.others.items() if name == system for answer in answers]
    return {"others": digest(*said)} if said else {}
