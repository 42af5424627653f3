"""a pool and a size -> SamplingPool: runs a build on a few of its chunks, and what each step used for them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kumihimo.app.build.cost import PastUsage
from kumihimo.core.digests import hash_parts
from kumihimo.core.task import Job, Pool, RunJob, StepResult, Task
from kumihimo.core.usage import Usage
from kumihimo.core.wiring import Step
from kumihimo.llm.budget import Budget


@dataclass(slots=True)
class SamplingPool:
    """A pool that runs a sample of chunks, spread over all.

    It also runs the rows made from them. size: chunks in the sample. budget: what the build pays from.
    """

    size: int
    pool: Pool
    budget: Budget
    is_document: Callable[[str], bool]
    keys: Counter[str] = field(default_factory=Counter)  # by step: number of sampled keys
    scopes: dict[str, str] = field(default_factory=dict)  # by step: where its settings and its model are set
    usage: dict[str, Usage] = field(default_factory=dict)  # by step: paid or cached
    _sample_keys: set[str] = field(default_factory=set)

    def __call__(self, call: RunJob, jobs: Iterable[Job]) -> Iterator[list[StepResult]]:
        all_jobs = list(jobs)
        chunks = {self._chunk_id(key) for job in all_jobs for key, _ in job if self.is_document(key.partition(".")[0])}
        if {"." in chunk for chunk in chunks} - {"." in chunk for chunk in self._sample_keys}:
            # sample from the keys of this step, not from all chunks: steps over documents may run before their chunks
            self._sample_keys |= set(sorted(chunks, key=hash_parts)[: self.size])
            self._sample_keys |= {chunk.partition(".")[0] for chunk in self._sample_keys}

        def run_sampled(job: Job) -> list[StepResult]:
            sampled_job = [(key, rows) for key, rows in job if rows and self._in_sample(key)]
            if isinstance(call, Task):
                self.keys[call.step.name] += len(sampled_job)
                self.scopes[call.step.name] = call.step.scope
            results = {result.key: result for result in call(sampled_job)}
            return [results.get(key) or StepResult(key, [], b"", "not in the sample") for key, _ in job]

        step = call.step if isinstance(call, Task) else None
        before = self._scope_usage(step)
        yield from self.pool(run_sampled, all_jobs)
        if step:
            used = self._scope_usage(step) - before
            self.usage[step.name] = self.usage.get(step.name, Usage()) + used

    def _scope_usage(self, step: Step | None) -> Usage:
        """Return what the scope of a step has used so far."""
        none, scope = Usage(), step.scope if step else ""
        return self.budget.spent.get(scope, none) + self.budget.saved.get(scope, none)

    def _in_sample(self, key: str) -> bool:
        """Return whether the key is in the sample.

        Keys are documents, chunks, rows made from them, or groups of such rows; groups hold sampled rows only.
        """
        return not self.is_document(key.partition(".")[0]) or self._chunk_id(key) in self._sample_keys

    @staticmethod
    def _chunk_id(key: str) -> str:
        """Return the chunk of a key, or its whole document."""
        return ".".join(key.split(".")[:2])


def usage_from_sample(sample: SamplingPool) -> dict[str, PastUsage]:
    """Return the usage of a sample by scope.

    Steps that share a conversation repeat its turns: only the longest one counts.
    """
    longest: dict[str, Usage] = {}
    for step, usage in sample.usage.items():
        scope = sample.scopes[step]
        longest[scope] = max(longest.get(scope, Usage()), usage, key=lambda each: each.calls)
    return {scope: PastUsage(sample.keys[scope], usage) for scope, usage in longest.items() if usage.calls}
