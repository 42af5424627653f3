"""a build -> the batch of its next requests, or the finished index: for servers with a Batch API.

A batch is a build that is rolled back: cached replies answer, the other requests are collected and submitted together.
The next run collects the replies, so that the build comes further. Only when nothing waits is the index written.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import NoReturn
from uuid import uuid4

from kumihimo.app.build import build_cost, cost, prepare_build
from kumihimo.app.build.build import Build, models_by_scope
from kumihimo.app.opened import catalogue, open_index
from kumihimo.app.opened.results import BatchState, Built, Consent, Estimate
from kumihimo.core.cancel import CancelToken, check_cancelled
from kumihimo.core.errors import (
    IndexUnavailable,
    ItemFailed,
    KumiError,
    ModelError,
    SettingsError,
    UnparsableReply,
    WaitsForBatch,
)
from kumihimo.core.usage import Usage
from kumihimo.llm import budget, registry
from kumihimo.llm.batch import BatchServer, Job, request_line, require_batch_chat, split_job
from kumihimo.llm.cached_llm import MAX_ATTEMPTS, Chat, StructuredLLM, create_llm, request_key
from kumihimo.llm.openai import OpenAIChat
from kumihimo.llm.protocols import ChatRequest, Prices
from kumihimo.storage.batch_log import BatchLog, LoggedBatch, WaitingRequest

logger = logging.getLogger("kumihimo")
_OTHER_SERVER = (
    "a batch waits on %s, which no base_url names now: set it to collect the replies, or give them up: "
    "`kumi cache drop-batches`"
)


def build_or_wait(
    index: open_index.OpenIndex, build: Build, consent: bool | Consent, *, rebuild: bool = False, batch: bool = False
) -> Built:
    """Collect the replies of batches, then build or wait.

    batch: submit the requests that are missing, instead of sending each. While a request of this build waits in a
    batch, it is not sent, and the index stays as it is.
    """
    if rebuild and batch:
        raise SettingsError(
            "--rebuild cannot wait for a batch: run `kumi index --batch` until it is done, then rebuild"
        )
    if batch and build.llm_steps.isdisjoint(step.name for step in build.steps):
        logger.warning(
            "--batch has nothing to submit: no step asks a chat model. Set `model` under [chat], and name methods "
            "with a graph by that model: `kumi index --batch --methods braid,global,local`"
        )
    from kumihimo.index.sources import save_sources

    start = perf_counter()
    with closing(BatchLog(index.place.open_cache())) as log:
        collected = collect_batches(log, index.models, must_reach=batch, cancel=build.budget.cancel)
        build_cost.require_consent(build, consent, rebuild=rebuild)
        if not batch and not log.waiting():  # the last batch has just been collected
            return _with_batch(prepare_build.run_and_save(index, build), collected, BatchState())
        previous, upstream = models_by_scope(build.db, build.catalogue), build_cost.model_dependencies(build)[0]
        requests = BatchRequests(index.models, previous, upstream, collected.refused, submits=batch)
        offline = replace(build, llm_for=requests.llm, pool=map)
        replace(offline, budget=budget.Budget(cancel=build.budget.cancel), progress=None).dry_run(with_views=False)
        state = BatchState(waiting=len(requests.waiting_keys))
        if batch and requests.missing:
            state = _Submission(log, build, requests, collected.wave + 1).submit()
        if state.waiting or state.capped:
            save_sources(build.db, build.sources, index.base)  # the next run may name none
            state = replace(state, methods=tuple(build.db.meta(prepare_build.WAITING_METHODS, [])))
            rows = catalogue.row_counts(build.db, build.catalogue)
            built = Built(0, 0, 0, (), rows, rows, {}, build.db.failures(), perf_counter() - start, {}, {})
            return _with_batch(built, collected, state)
        return _with_batch(prepare_build.run_and_save(index, offline if batch else build), collected, state)


def count_waiting(index: open_index.OpenIndex) -> int:
    """Return how many requests wait in batches of this cache."""
    with closing(BatchLog(index.place.open_cache())) as log:
        return len(log.waiting())


def check_no_batch(index: open_index.OpenIndex) -> None:
    """Raise IndexUnavailable while a batch is under way.

    The index does not use its earlier replies yet.
    """
    if waiting := count_waiting(index):
        remedy = "run `kumi index --batch` until it is done, or give it up: `kumi cache drop-batches`"
        raise IndexUnavailable(f"{waiting:,} requests wait in a batch, so nothing is deleted: {remedy}")


def drop_batches(index: open_index.OpenIndex) -> int:
    """Forget all batches of this cache; return how many requests waited.

    Their replies are not collected any more, even if the server charges for them.
    """
    with closing(BatchLog(index.place.open_cache())) as log:
        waiting = len(log.waiting())
        for batch in log.batches():
            with log.claim([batch.name.encode()]):  # waits for a process that submits or collects it
                log.finish(batch.name)
    return waiting


@dataclass
class CollectedBatches:
    """Results of the finished batches, and the jobs still under way.

    refused: why a server will not answer a request. wave: the highest of the batches.
    """

    replies: int = 0
    spent: dict[str, Usage] = field(default_factory=dict)  # by scope
    failed: list[tuple[str, str]] = field(default_factory=list)  # scope, error
    refused: dict[bytes, str] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)
    wave: int = 0


def collect_batches(
    log: BatchLog, models: registry.ModelRegistry, *, must_reach: bool, cancel: CancelToken | None = None
) -> CollectedBatches:
    """Store the replies of all batches that have ended.

    A batch whose id was lost is found again by its name; if the server does not have it, its requests are free again.
    must_reach: raise an error if a server cannot be reached; without it, a warning. Raises ModelError if the server has
    rejected a whole batch, or keeps results of one that it calls completed.
    """
    collected, errors = CollectedBatches(), list[ModelError]()
    servers = models.servers() if log.batches() else {}
    for name in [batch.name for batch in log.batches()]:
        check_cancelled(cancel)
        with log.claim([name.encode()]):  # waits for a process that submits or collects it
            batch = next((each for each in log.batches() if each.name == name), None)
            if batch is None:
                continue
            if batch.server not in servers:
                logger.warning(_OTHER_SERVER, batch.server)
                continue
            collected.wave = max(collected.wave, batch.wave)
            try:
                error = _collect_batch(log, batch, BatchServer(servers[batch.server]), collected)
                errors += [error] if error else []
            except KumiError as failure:
                if must_reach:
                    raise
                logger.warning("a batch is not collected: %s", failure)
    if errors:
        raise errors[0]
    return collected


def _collect_batch(
    log: BatchLog, batch: LoggedBatch, server: BatchServer, collected: CollectedBatches
) -> ModelError | None:
    """Collect one batch.

    Return the error after which nothing may be submitted, if any.
    """
    job = server.job(batch.id) if batch.id else server.find(batch.name)
    if job and not batch.id:
        log.set_id(batch.name, job.id)
    if job is None or not job.is_over:
        collected.jobs += [job] if job else []
        if job is None:
            log.finish(batch.name)  # it was never submitted
        return None
    requests = {request.key: request for request in log.waiting(batch.name)}
    prices, sizes = Prices(*batch.prices), {key: request.bytes for key, request in requests.items()}
    results = server.results(job, sizes, prices)
    spent: dict[tuple[str, str], tuple[Usage, int]] = {}
    for result in results:
        request = requests.pop(result.key)
        if result.reply:
            usage, size = spent.get((request.scope, request.model), (Usage(), 0))
            spent[request.scope, request.model] = usage + result.reply.usage, size + request.bytes
        else:
            collected.failed.append((request.scope, result.error))
            collected.refused |= {} if result.may_succeed else {result.key: result.error}
    collected.failed += [(request.scope, f"no result ({job.state})") for request in requests.values()]
    log.finish(batch.name, [(r.key, r.reply.to_bytes()) for r in results if r.reply], spent)
    keeps_results = job.state == "completed" and requests
    if not keeps_results and (kept := server.delete_files(job)):
        logger.warning("%s keeps files of a batch, with texts of documents: %s", batch.server, ", ".join(kept))
    collected.replies += sum(usage.calls for usage, _ in spent.values())
    for (scope, _), (usage, _) in spent.items():
        collected.spent[scope] = collected.spent.get(scope, Usage()) + usage
    return _stop_error(server.server.display_url, job, len(requests))


def _stop_error(server: str, job: Job, missing: int) -> ModelError | None:
    """Return the error after which nothing may be submitted, if any.

    missing: how many requests of the job have no result.
    """
    if job.state == "failed":
        reason = f"{server} rejected the batch {job.id}: {job.error}"
        return ModelError(f"{reason}. Nothing of it was paid. Mend that, or run it without --batch")
    if job.state == "completed" and missing:
        reason = f"{server} completed the batch {job.id} without results for {missing:,} requests, which may be paid"
        return ModelError(f"{reason}. Its files stay there. The next run submits them again")
    return None


@dataclass(frozen=True)
class _CollectedRequest:
    scope: str
    chat: Chat
    request: ChatRequest

    @property
    def openai(self) -> OpenAIChat:
        return require_batch_chat(self.scope, self.chat)


@dataclass
class BatchRequests:
    """Models that answer from the cache alone, and collect the other requests.

    upstream: the model steps before each, by scope. While a request of one of them waits, the rows of the later steps
    are not known, so that their requests are not collected. refused: requests that a server will not answer. submits:
    whether missing requests will be submitted, so that what follows from them waits too.
    """

    models: registry.ModelRegistry
    previous_models: Mapping[str, str]
    upstream: Mapping[str, Sequence[str]]
    refused: Mapping[bytes, str]
    submits: bool
    missing: dict[bytes, _CollectedRequest] = field(default_factory=dict)
    waiting_keys: set[bytes] = field(default_factory=set)
    waiting_scopes: set[str] = field(default_factory=set)

    def llm(self, scope: str) -> StructuredLLM:
        chat = self.models.required_chat(scope, self.previous_models.get(scope, ""))

        def collect(request: ChatRequest) -> NoReturn:
            key, cache = request_key(chat, request), self.models.cache()
            if before := [name for name in self.upstream.get(scope, ()) if name in self.waiting_scopes]:
                raise WaitsForBatch(f"waits for {', '.join(before)} in a batch")
            if cache.is_waiting(key):
                self.waiting_keys.add(key)
            elif key in self.refused:
                raise ItemFailed(self.refused[key])
            elif isinstance(chat, registry.MissingChat):
                chat(request)
            elif request.attempt >= MAX_ATTEMPTS:
                raise UnparsableReply(f"{chat.fingerprint} gave {MAX_ATTEMPTS} replies that cannot be read")
            elif self.submits:
                self.missing.setdefault(key, _CollectedRequest(scope, chat, request))
            else:
                raise ItemFailed(cost.NOT_ASKED)
            self.waiting_scopes.add(scope)
            raise WaitsForBatch("waits for a batch")

        return create_llm(chat, self.models.cache(), scope=scope, innermost=collect)


@dataclass(frozen=True)
class _Submission:
    """The missing requests of a build, on their way to the servers."""

    log: BatchLog
    build: Build
    requests: BatchRequests
    wave: int

    def submit(self) -> BatchState:
        """Submit the requests that fit under the caps.

        Each model has a job of its own.
        """
        allowed = self._within_caps()
        groups: dict[str, dict[bytes, _CollectedRequest]] = {}
        for key, each in allowed.items():
            chat = each.openai
            name = repr((chat.server.display_url, chat.model, chat.batch_prices))
            groups.setdefault(name, {})[key] = each
        jobs: list[Job] = []
        submitted: dict[bytes, _CollectedRequest] = {}
        for group in groups.values():
            lines = ((key, request_line(key, each.openai, each.request)) for key, each in group.items())
            for part in split_job(lines):
                check_cancelled(self.build.budget.cancel)
                job, keys = self._submit_part(group, part)
                jobs += [job] if job else []
                submitted |= {key: group[key] for key in keys}
        waiting = self.requests.waiting_keys | {key for key in allowed if self.build.models.cache().is_waiting(key)}
        return BatchState(
            self.wave,
            submitted=len(submitted),
            capped=len(self.requests.missing) - len(allowed),
            waiting=len(waiting),
            jobs=tuple(_describe_job(job) for job in jobs),
            estimates=self._estimates(submitted.values()),
        )

    def _submit_part(
        self, group: Mapping[bytes, _CollectedRequest], part: Mapping[bytes, bytes]
    ) -> tuple[Job | None, list[bytes]]:
        """Submit one job, and return it with its keys.

        Other processes may have some of the keys.
        """
        name, chat = uuid4().hex, group[next(iter(part))].openai
        prices = (chat.batch_prices.prompt, chat.batch_prices.cached, chat.batch_prices.completion)
        batch = LoggedBatch(name, chat.server.display_url, self.wave, prices)
        with self.log.claim([name.encode(), *part]) as claimed:
            keys = self.log.add(
                batch,
                [
                    WaitingRequest(key, group[key].scope, group[key].chat.fingerprint, group[key].request.size)
                    for key in part
                    if key in claimed
                ],
            )
            if not keys:
                return None, []
            try:
                job = BatchServer(chat.server).submit(name, [part[key] for key in keys])
            except ItemFailed as failure:  # it may be under way: the next run looks for it by its name
                raise ItemFailed(f"{failure}. The batch may have arrived: run the same command again") from failure
            except KumiError:
                self.log.finish(name)
                raise
            self.log.set_id(name, job.id)
        return job, keys

    def _within_caps(self) -> dict[bytes, _CollectedRequest]:
        """Return the requests whose estimated sum stays below the caps."""
        caps, total, allowed = self.build.budget.caps, Usage(), dict[bytes, _CollectedRequest]()
        past = {
            entry.scope: entry.usage
            for entry in self.build.models.cache().usage()
            if entry.kind == "spent" and entry.usage.calls
        }
        for key, each in self.requests.missing.items():
            usage = past.get(each.scope)
            reply = usage.completion_tokens // usage.calls if usage else budget.Account("", "", Prices()).reply
            prompt = sum(len(self.build.tokenizer(message["content"])) for message in each.request.messages)
            prices = each.openai.batch_prices
            total += Usage(1, prompt, 0, reply, prices.cost(prompt, 0, reply))
            if caps.reached_by(total, over=True):
                break
            allowed[key] = each
        return allowed

    def _estimates(self, submitted: Iterable[_CollectedRequest]) -> tuple[Estimate, ...]:
        """Return the estimated cost of the requests, by step."""
        tallies: dict[str, cost.RequestTally] = {}
        for each in submitted:
            chat = each.openai
            tally = tallies.setdefault(each.scope, cost.RequestTally(chat.fingerprint, chat.batch_prices, chat.workers))
            tally.add_request([message["content"] for message in each.request.messages], self.build.tokenizer)
        past = self.build.models.cache().usage()
        return tuple(cost.PlanEstimator(tallies, past=cost.usage_history(past, tallies), spent=past).estimates())


def _describe_job(job: Job) -> tuple[str, str, int, int]:
    return job.id, job.state, job.done, job.total


def _with_batch(built: Built, collected: CollectedBatches, state: BatchState) -> Built:
    """Return the result with the state of its batches, if any."""
    state = replace(
        state,
        wave=state.wave or collected.wave,
        collected=collected.replies,
        failed=tuple(collected.failed),
        jobs=(*map(_describe_job, collected.jobs), *state.jobs),
    )
    spent = {**built.spent}
    for scope, usage in collected.spent.items():
        spent[scope] = spent.get(scope, Usage()) + usage
    return replace(built, spent=spent, batch=None if state == BatchState() else state)
